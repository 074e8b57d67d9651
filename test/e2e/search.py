"""`tenon quantize --accuracy-drop, --latency`: the search keeps what it was asked for and wide what loses much, says the error of each layer as
others measure it, goes on after a kill, ends at its budget, and refuses what cannot be before work.

Times are those of the machine, so nothing here depends on what is faster on it.
"""

import json
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import browser
from float_nets import Net
from tool import TENON, ToolTest

DATA = ("--data", "calib.npz", "--test", "test.npz")


def planted(kind):
    """Four convolutions, of which `spoiled` reads what 8 bits do not hold: one channel that is much larger than all others, or values of which
    nearly all are small and a few are not."""
    net = Net(5)
    x = net.conv("image", "stem", 3, 32, 3)
    x = net.conv(x, "before", 32, 32, 3)
    if kind == "outlier":
        gain = np.ones((1, 32, 1, 1), np.float32)
        gain[0, 7] = 4000
        y = net.conv(net.node("Mul", [x, net.constant("gain", gain)], "driven"), "spoiled", 32, 32, 1, relu=False)
        weight = next(i for i, constant in enumerate(net.constants) if constant.name == "spoiled_w")
        values = onnx.numpy_helper.to_array(net.constants[weight]).copy()
        values[:, 7] = 0  # what the others say is what counts
        net.constants[weight] = onnx.numpy_helper.from_array(values, "spoiled_w")
    else:
        steep = net.node("Exp", [net.node("Mul", [x, net.constant("steep", np.float32(4))], "scaled")], "driven")
        y = net.node("Log", [net.node("Add", [net.node("Abs", [net.conv(steep, "spoiled", 32, 32, 1, relu=False)], "size"),
                                              net.constant("one", np.float32(1))], "above")], "squeezed")
    x = net.node("Add", [y, x], "sum")
    x = net.conv(net.node("Relu", [x], "sum_relu"), "after", 32, 64, 3, relu=False)
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "mean")], "features")
    return net.model([helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 16, 16])],
                     [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 64])])


def by_peer(path, image):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"image": image})[0]


class Search(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        random = np.random.default_rng(1)
        cls.image = random.standard_normal((32, 3, 16, 16)).astype(np.float32)
        np.savez(cls.folder / "calib.npz", image=cls.image)
        np.savez(cls.folder / "test.npz", image=random.standard_normal((40, 3, 16, 16)).astype(np.float32))
        cls.found = {}
        for kind in ("outlier", "saturated"):
            onnx.save(planted(kind), cls.folder / f"{kind}.onnx")
            cls.found[kind] = cls.again(f"{kind}.onnx", f"{kind}8.onnx", "--accuracy-drop", "0.5%", state=f"{kind}.json", budget="250s")

    @classmethod
    def again(cls, model, output, *flags, state=None, budget="1ms"):
        """What the search says, from what it has measured before: no time is left for more."""
        state = ("--state", state) if state else ()
        return cls.json("quantize", model, *DATA, "-o", output, *flags, *state, "--budget", budget)

    def copied(self, name, kind="outlier"):
        shutil.copy(self.folder / f"{kind}.json", self.folder / name)
        return name

    def test_what_loses_most_is_named_first_and_stays_wide(self):
        for kind, report in self.found.items():
            with self.subTest(kind):
                found = report["search"]
                self.assertEqual("cosine", found["metric"])
                self.assertEqual("spoiled", found["worst"])
                treatment = {layer["name"]: layer["treatment"] for layer in report["layers"]}
                self.assertEqual("wide", treatment["spoiled"])
                chosen = next(form for form in found["forms"] if form["chosen"])
                self.assertTrue(chosen["fits"] and chosen["drop"] <= 0.005)
                spoiled = [form for form in found["forms"] if form["treatments"][2] == "n"]
                self.assertTrue(spoiled and all(form["drop"] > 0.005 and not form["fits"] for form in spoiled))
                text = self.succeed("quantize", f"{kind}.onnx", *DATA, "-o", f"{kind}8.onnx", "--accuracy-drop", "0.5%", "--state",
                                    self.copied(f"{kind}.copy", kind), "--budget", "1ms").stdout
                self.assertIn("'spoiled' loses most: int8 there alone changes the outputs by", text.splitlines()[0])
                self.assertIn("'driven'", text.splitlines()[0])
                self.assertIn("it stays in FP32", text.splitlines()[0])
                # What the loss is said to be is what `accuracy` measures of the file that was written.
                measured = self.json("accuracy", f"{kind}8.onnx", "--reference", f"{kind}.onnx", "--data", "test.npz", "--metric", "cosine", "--seconds",
                                     "0.01", "--target", "cpu:native")["metrics"][0]["models"][0]["value"]
                self.assertAlmostEqual(1 - measured, chosen["drop"], delta=1e-6)

    def test_the_fastest_that_fits_is_chosen(self):
        """By latencies that are planted in the state: each form that fits in its turn, and none that does not fit."""
        for kind in self.found:
            state = json.loads((self.folder / f"{kind}.json").read_text())
            for letters, form in state["forms"].items():
                planted = {name: dict(other, ms=0.2 if name == letters else 1.0, ratio=0.2 if name == letters else 1.0, low=0.1, high=1.1) for name, other in state["forms"].items()}
                (self.folder / "planted.json").write_text(json.dumps(dict(state, forms=planted)))
                report = self.again(f"{kind}.onnx", "planted.onnx", "--accuracy-drop", "0.5%", state="planted.json")
                chosen = next(form for form in report["search"]["forms"] if form["chosen"])
                with self.subTest(kind, letters=letters):
                    self.assertTrue(chosen["fits"])
                    if form["drop"] <= 0.005:
                        self.assertEqual((letters, 0.2), (chosen["treatments"], chosen["latency_ms"]))

    def test_errors_are_those_of_a_candidate_alone(self):
        found = self.found["outlier"]["search"]
        expected = by_peer(self.folder / "outlier.onnx", self.image)
        for candidate in found["candidates"]:
            names = [layer["name"] for layer in candidate["layers"]]
            others = [layer["name"] for other in found["candidates"] for layer in other["layers"] if layer["name"] not in names]
            self.succeed("quantize", "outlier.onnx", "--data", "calib.npz", "-o", "alone.onnx", *(f"--narrow={name}" for name in names),
                         *(f"--keep={name}" for name in others))
            actual = by_peer(self.folder / "alone.onnx", self.image)
            error = np.sqrt(np.mean(np.sum((actual - expected) ** 2, 1) / np.sum(expected ** 2, 1)))
            narrow = candidate["treatments"][-1]
            self.assertFalse(narrow["estimated"])
            self.assertAlmostEqual(narrow["error"] / error, 1, delta=0.1, msg=names)
            self.assertGreater(narrow["us"], 0)

    def test_what_was_found_is_explained(self):
        self.succeed("compile", "saturated8.onnx", "-o", "explained.tenon", "--target", "cpu:native")
        record = self.json("explain", "precision", "explained.tenon")
        treatment = {layer["name"]: layer["treatment"] for layer in self.found["saturated"]["layers"]}
        self.assertEqual(treatment, {layer["name"]: layer["dtype"] for layer in record["layers"]})
        for layer in record["layers"]:
            self.assertGreater(layer["us"], 0)
            self.assertRegex(layer["rule"], r"int8 [\d.]+ us, wide [\d.]+ us; error of int8 alone")
            self.assertEqual(layer["error"] > 0, layer["dtype"] != "wide")
        text = self.succeed("explain", "precision", "explained.tenon", "spoiled").stdout
        self.assertIn("error of int8 alone", text)
        self.assertNotIn("before", text)

    def test_foreign_records_are_only_text(self):
        model = onnx.load(self.folder / "outlier.onnx")
        for value in ('{"schema": 1, "layers": [{"name": 3, "us": "x", "rule": ["\\u001b[31m"]}, 7]}', '{"schema": 1, "layers": 5}', "[", "3"):
            del model.metadata_props[:]
            model.metadata_props.add(key="tenon.search", value=value)
            onnx.save(model, self.folder / "foreign.onnx")
            self.succeed("compile", "foreign.onnx", "-o", "foreign.tenon", "--target", "cpu:native")
            self.assertNotIn("\x1b", self.succeed("explain", "precision", "foreign.tenon").stdout)

    def test_goes_on_after_a_kill(self):
        command = ["quantize", "outlier.onnx", *DATA, "-o", "killed.onnx", "--accuracy-drop", "0.5%"]
        state = self.folder / "killed.onnx.search.json"
        running = subprocess.Popen([str(TENON), *command], cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not state.exists() and time.monotonic() < end:
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        running.wait()
        self.assertFalse((self.folder / "killed.onnx").exists())
        known = json.loads(state.read_text())
        known["model_ms"] = 1234.5  # what only the file can say
        state.write_text(json.dumps(known))
        done = self.refuse(6, "TN0118", *command, "--budget", "1ms")
        self.assertIn("continue from killed.onnx.search.json", done.stderr)
        first, _ = json.JSONDecoder().raw_decode(self.call(*command, "--budget", "1ms", "--json").stdout)
        self.assertEqual(1234.5, first["search"]["model_latency_ms"])
        # With all that is needed it ends well, and its own file goes.
        self.copied(state.name)
        self.again("outlier.onnx", "killed.onnx", "--accuracy-drop", "0.5%")
        self.assertTrue((self.folder / "killed.onnx").exists())
        self.assertFalse(state.exists())

    def test_nothing_fits(self):
        flags = ("quantize", "outlier.onnx", *DATA, "-o", "none.onnx", "--state", self.copied("none.json"), "--budget", "1ms")
        done = self.refuse(1, "TN0116", *flags, "--latency", "0.01us")
        self.assertIn("not as asked", done.stdout)
        self.refuse(1, "TN0116", *flags, "--latency", "0.01us", "--accuracy-drop", "0.5%")
        self.assertFalse((self.folder / "none.onnx").exists())
        # The model itself is the most accurate form that keeps a loose limit.
        done = self.succeed(*flags, "--latency", "10s")
        self.assertIn("no 8-bit version is better", done.stderr)
        np.testing.assert_allclose(by_peer(self.folder / "none.onnx", self.image), by_peer(self.folder / "outlier.onnx", self.image), rtol=1e-5)
        both = self.again("outlier.onnx", "both.onnx", "--accuracy-drop", "0.5%", "--latency", "10s", state="none.json")
        self.assertTrue(next(form for form in both["search"]["forms"] if form["chosen"])["fits"])

    def open_report(self, name):
        page = browser.Browser()
        self.addCleanup(page.__exit__)
        page.open(self.folder / name)
        self.assertEqual([], page.errors)
        self.assertEqual([], [address for address in page.requests if not address.startswith("file:")])
        return page

    def test_report_of_a_search(self):
        found = self.again("saturated.onnx", "reported.onnx", "--accuracy-drop", "0.5%", "--report", "search.html", state=self.copied("r.json", "saturated"))
        page = self.open_report("search.html")
        text = page.evaluate("document.body.innerText")
        self.assertIn("int8 in spoiled loses most", text)
        rows = page.evaluate("[...document.querySelectorAll('#cost tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")
        self.assertEqual(["cosine", "latency", "file", "engine", "peak memory"], [row[0] for row in rows])
        self.assertEqual("1", rows[0][1])
        chosen = next(form for form in found["search"]["forms"] if form["chosen"])
        self.assertAlmostEqual(1 - chosen["drop"], float(rows[0][2]), delta=1e-4)
        self.assertTrue(all(float(cell.split()[0]) > 0 for row in rows[1:] for cell in row[1:3]), rows)
        self.assertEqual(len(found["search"]["forms"]), page.evaluate("document.querySelectorAll('#front circle').length"))
        self.assertEqual(1, page.evaluate("document.querySelectorAll('#front circle.chosen').length"))
        self.assertEqual(len(found["layers"]), page.evaluate("document.querySelectorAll('#layers tbody tr').length"))
        # Sorted by the error, the planted layer is first.
        self.assertEqual("stem", page.evaluate("document.querySelector('#layers tbody td').textContent"))
        page.evaluate("[...document.querySelectorAll('#layers th button')].find((button) => button.textContent.startsWith('error')).click()")
        self.assertEqual("spoiled", page.evaluate("document.querySelector('#layers tbody td').textContent"))
        for width in (1280, 400):
            page.resize(width, 800, dark=width == 400)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)

    def test_report_of_what_fits_nothing(self):
        self.refuse(1, "TN0116", "quantize", "outlier.onnx", *DATA, "-o", "no.onnx", "--latency", "0.01us", "--state", self.copied("no.json"), "--budget",
                    "1ms", "--report", "no.html")
        page = self.open_report("no.html")
        self.assertIn("nothing that keeps what was asked for", page.evaluate("document.body.innerText"))
        self.assertLess(1, page.evaluate("document.querySelectorAll('#front circle').length"))

    def test_report_of_ranges(self):
        model = onnx.load(self.folder / "saturated.onnx")
        hostile = "<img src=x onerror='window.broken = 1'></script>\u202eleft"
        next(node for node in model.graph.node if node.name == "after").name = hostile
        onnx.save(model, self.folder / "hostile.onnx")
        report = self.json("quantize", "hostile.onnx", *DATA, "-o", "hostile8.onnx", "--report", "plain.html", "--ranges", "percentile", "--percentile", "98")
        page = self.open_report("plain.html")
        self.assertTrue(page.evaluate("window.broken === undefined && document.querySelectorAll('img').length === 0"))
        self.assertIn("onerror", page.evaluate("document.getElementById('layers').innerText"))
        self.assertNotIn("\u202e", page.evaluate("document.body.innerText"))
        rows = page.evaluate("[...document.querySelectorAll('#tensors tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")
        self.assertEqual(len(report["tensors"]), len(rows))
        driven = next(tensor for tensor in report["tensors"] if tensor["name"] == "driven")
        # What is clipped is what numpy counts outside of the range.
        extended = onnx.load(self.folder / "hostile.onnx")
        extended.graph.output.append(helper.make_tensor_value_info("driven", TensorProto.FLOAT, None))
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        values = onnxruntime.InferenceSession(extended.SerializeToString(), options).run(["driven"], {"image": self.image})[0]
        clipped = np.mean((values < driven["range"][0]) | (values > driven["range"][1]))
        self.assertGreater(clipped, 0)
        self.assertAlmostEqual(driven["clipped"], clipped, delta=0.1 * clipped + 1e-6)
        row = next(row for row in rows if row[0].startswith("driven"))
        self.assertAlmostEqual(float(row[4].removesuffix(" %")) / 100, driven["clipped"], delta=1e-2 * driven["clipped"])
        self.assertTrue(page.evaluate("document.querySelectorAll('#tensors line.lost').length") > 0)
        self.assertEqual(5, page.evaluate("document.querySelectorAll('#cost tbody tr').length"))
        self.refuse(2, "TN0111", "quantize", "hostile.onnx", *DATA, "-o", "hostile9.onnx", "--report", "hostile.onnx")
        self.assertFalse((self.folder / "hostile9.onnx").exists())

    def test_bad_input_is_an_error_before_work(self):
        base = ("quantize", "outlier.onnx", "--data", "calib.npz", "-o", "bad.onnx")
        asked = (*base, "--accuracy-drop", "1%")
        for error, code, words, flags in (
                ("TN0105", 2, "as 0.5%", (*base, "--accuracy-drop", "0.5")), ("TN0105", 2, "as 0.5%", (*base, "--accuracy-drop", "-1%")),
                ("TN0105", 2, "as 4ms", (*base, "--latency", "4")), ("TN0105", 2, "as 4ms", (*base, "--latency", "0ms")),
                ("TN0105", 2, "without a search", (*base, "--budget", "5s")), ("TN0105", 2, "without a search", (*base, "--metric", "top1")),
                ("TN0105", 2, "--weights-only", ("quantize", "outlier.onnx", "--weights-only", "8", "--accuracy-drop", "1%")),
                ("TN0105", 2, "no such metric", (*base, "--report", "bad.html", "--metric", "top0")),
                ("TN0105", 2, "no such metric", (*asked, "--metric", "top0")), ("TN0115", 5, "needs labels", (*asked, "--metric", "f1")),
                ("TN0101", 2, "nowhere.npz", (*asked, "--test", "nowhere.npz")), ("TN0117", 5, "is not a search state", (*asked, "--state", "outlier.onnx"))):
            with self.subTest(flags[5:]):
                self.assertIn(words, self.refuse(code, error, *flags).stderr)
        everything = [f"--keep={name}" for name in ("stem", "before", "spoiled", "after")]
        self.assertIn("nothing in the model can be quantized", self.refuse(2, "TN0105", *asked, *everything).stderr)
        self.assertEqual([], list(self.folder.glob("bad.*")))

    def test_states_are_checked(self):
        state = self.folder / "state.json"
        flags = ("quantize", "outlier.onnx", *DATA, "-o", "stated.onnx", "--accuracy-drop", "1%", "--state", self.copied("state.json"), "--budget", "1ms")
        good = json.loads(state.read_text())
        fewer = dict(good, treatments=good["treatments"][1:])
        text = dict(good, treatments=[[{"ms": "1"}, {"ms": 2}] for _ in good["treatments"]])
        below = dict(good, model_ms=-1)
        letters = dict(good, forms={"x" * len(good["treatments"]): {"value": 1, "drop": 0, "ms": 1, "ratio": 1, "low": 1, "high": 1}})
        for what, damaged in (("cut", state.read_text()[:-30]), ("empty", ""), ("other", json.dumps(dict(good, key="0" * 32))), ("fewer", json.dumps(fewer)),
                              ("text", json.dumps(text)), ("below", json.dumps(below)), ("letters", json.dumps(letters)), ("list", "[1]")):
            with self.subTest(what):
                state.write_text(damaged)
                self.refuse(5, "TN0117", *flags)


if __name__ == "__main__":
    unittest.main()
