"""`tenon profile`: what it says of operators, its files, the defects that it must name, and what it must not say on a busy machine.

The machine that runs this may be busy: nothing here relies on how long a thing takes.
"""

import importlib.util
import json
import re
import shlex
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import browser
from kernels import small_transformer
from tool import CNN, SOURCE, ToolTest

FAST = ["--seconds", "0.1"]


def products(length, inputs=64, outputs=64):
    """x [1, inputs] or [batch, inputs] through a chain of products and ReLUs whose nodes have the names of layers."""
    rng = np.random.default_rng(1)
    weights, nodes, last = [], [], "x"
    for index in range(length):
        weights.append(numpy_helper.from_array(rng.standard_normal((inputs, outputs), np.float32) / 8, f"w{index}"))
        nodes += [helper.make_node("MatMul", [last, f"w{index}"], [f"p{index}"], name=f"/layer.{index}/dense/MatMul"),
                  helper.make_node("Relu", [f"p{index}"], [f"r{index}"], name=f"/layer.{index}/act/Relu")]
        last = f"r{index}"
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", inputs]),
             helper.make_tensor_value_info(last, TensorProto.FLOAT, ["batch", outputs])]
    return helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], weights),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class ProfileTest(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(products(4), cls.folder / "chain.onnx")
        onnx.save(small_transformer(), cls.folder / "transformer.onnx")
        cls.succeed("compile", "chain.onnx", "-o", "chain.tenon", "--target", "cpu:native")
        cls.succeed("compile", "transformer.onnx", "-o", "transformer.tenon", "--target", "cpu:native")

    def test_operators_of_the_model(self):
        report = self.json("profile", "transformer.tenon", *FAST, "--shape", "x:2x16x32")
        self.assertEqual("tenon.profile/1", report["schema"])
        self.assertAlmostEqual(1, sum(row["share"] for row in report["operators"]), delta=0.01)
        self.assertAlmostEqual(1, sum(row["share"] for row in report["groups"]), delta=0.01)
        names = {row["name"] for row in report["operators"]}
        self.assertTrue({"mm1", "mm2", "softmax", "scores"} <= names, names)
        product = next(row for row in report["operators"] if row["name"] == "mm1")
        self.assertEqual(("matmul", 2 * 2 * 16 * 32 * 96), (product["kind"], product["flops"]))
        self.assertEqual("model", product["split_by"])  # its GELU is in the same kernel
        self.assertEqual(("batch=2, length=16", "given"), (report["sizes"], report["sizes_chosen"]))
        self.assertEqual(sorted(report["groups"], key=lambda row: -row["time_us"]), report["groups"])
        for region in report["regions"]:
            self.assertIn(region["class"], ("compute", "memory", "launch", "imbalance", "serial", "latency", "too short", "unknown"))
            self.assertTrue(region["cause"] or not region["instructions"], region)

    def test_limits_are_measured(self):
        limits = self.json("profile", "chain.tenon", *FAST)["limits"]
        self.assertTrue(any(limit["numbers"] == "f32" and limit["operations_per_s"] > 1e9 for limit in limits["compute"]), limits)
        self.assertEqual("memory", limits["memory"][-1]["level"])
        self.assertTrue(all(level["bytes_per_s"] > 1e8 for level in limits["memory"]))
        self.assertGreater(limits["launch_us"], 0)

    def test_layers_are_one_row(self):
        report = self.json("profile", "chain.tenon", *FAST)
        group = next(row for row in report["groups"] if row["name"] == "/layer.*/dense/MatMul")
        self.assertEqual(4, len(group["operators"]))
        text = self.succeed("profile", "chain.tenon", *FAST, "--top", "1").stdout
        self.assertIn("(4 of them)", text)
        self.assertNotIn(" 2. ", text)

    def test_winograd_multiplies_less(self):
        """Of the demo's own net: what the kernel computes is counted beside what the model says."""
        report = self.json("profile", CNN, *FAST)
        self.assertTrue(any("conv_winograd" in region["kernel"] for region in report["regions"]), report["regions"])
        for region in report["regions"]:
            share = region["kernel_flops"] / region["flops"] if region["flops"] else 1
            m = re.search(r"conv_winograd(\d)", region["kernel"])
            least = (int(m[1]) + 2) ** 2 / (3 * int(m[1])) ** 2 if m else 1
            self.assertTrue(least - 1e-9 <= share <= (1.8 * least if m else 1), (region["kernel"], share))
        self.assertIn("by Winograd's filtering)", self.succeed("profile", CNN, *FAST).stdout)

    def test_kernels_do_other_work_than_the_model(self):
        """Causal attention skips keys, tiles of AMX are whole, steps of recurrent layers multiply their states; of a convolution whose
        last tiles reach beyond the picture (13 of 14 rows and columns, 169 of 196 places) Winograd's filtering computes these too."""
        def save(name, nodes, inputs, weights, opset=17):
            ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, dims) for port, dims in inputs.items()]
            stored = [numpy_helper.from_array(np.asarray(value), key) for key, value in weights.items()]
            graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], stored)
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), self.folder / f"{name}.onnx")

        random = np.random.default_rng(0)
        node = helper.make_node
        save("causal", [node("Attention", ["q", "k", "v"], ["y"], is_causal=1)], {port: [1, 2, 256, 64] for port in "qkv"}, {}, opset=23)
        save("steps", [node("LSTM", ["x", "w", "r"], ["y"], hidden_size=32)], {"x": [8, 2, 16]},
             {"w": random.random((1, 128, 16), np.float32), "r": random.random((1, 128, 32), np.float32)})
        save("edges", [node("Conv", ["x", "w"], ["y"], pads=[1] * 4)], {"x": [1, 64, 13, 13]}, {"w": random.random((64, 64, 3, 3), np.float32)})
        regions = {name: max(self.json("profile", f"{name}.onnx", *FAST)["regions"], key=lambda region: region["flops"]) for name in ("causal", "edges")}
        causal = regions["causal"]
        self.assertAlmostEqual(causal["kernel_flops"] / causal["flops"], (64 + 128 + 192 + 256) / 4 / 256, delta=0.13)
        self.assertEqual("with the keys that each query sees", causal["kernel_work"])
        edges = regions["edges"]
        if m := re.search(r"conv_winograd(\d)", edges["kernel"]):
            m = int(m[1])
            self.assertAlmostEqual(edges["kernel_flops"] / edges["flops"], ((m + 2) / (3 * m)) ** 2 * (-(-13 // m) * m / 13) ** 2, places=6)
        steps = self.json("profile", "steps.onnx", *FAST)["regions"]
        self.assertEqual([2 * 8 * 2 * 128 * 32], [region["flops"] for region in steps if region["kernel"].startswith("recurrence")])

    def test_nodes_of_one_name(self):
        names = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16]), helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 32])]
        weights = [numpy_helper.from_array(np.ones(dims, np.float32), name) for name, dims in (("a", (16, 512)), ("b", (512, 32)))]
        nodes = [helper.make_node("MatMul", ["x", "a"], ["p"], name="same"), helper.make_node("MatMul", ["p", "b"], ["y"], name="same")]
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", names[:1], names[1:], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                  self.folder / "same.onnx")
        self.succeed("compile", "same.onnx", "-o", "same.tenon", "--target", "cpu:native", "--optimize-for", "x:8x16")
        for batch in (4, 8):  # the plan for all sizes, and that for known ones
            report = self.json("profile", "same.tenon", *FAST, "--shape", f"x:{batch}x16")
            self.assertEqual(sorted(2 * batch * count for count in (16 * 512, 512 * 32)), sorted(region["flops"] for region in report["regions"]))
            self.assertEqual(2, sum(region["time_us"] > 0 for region in report["regions"]), report["regions"])

    def test_a_screen(self):
        text = self.succeed("profile", "transformer.tenon", *FAST).stdout
        self.assertLessEqual(len(text.splitlines()), 40)
        for word in ("limits", "by kind", "(likely ones; --shape sets others)", "GFLOP/s"):
            self.assertIn(word, text)

    def test_a_table_of_notebooks(self):
        spec = importlib.util.spec_from_file_location("rendering", SOURCE / "bindings/python/tenon/_profile.py")
        rendering = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(rendering)
        shown = rendering.Profile(self.json("profile", "chain.tenon", *FAST))
        group = shown["groups"][0]
        self.assertIn(f"{group['share']:.1%}  {group['name']} (4 of them)", str(shown))
        self.assertEqual(2, shown._repr_html_().count("<tr><td"))
        shown["groups"][0]["cause"] = "<b>x"
        self.assertIn("&lt;b&gt;x", shown._repr_html_())

    def test_models_are_compiled_first(self):
        self.assertIn("conv", {kind["kind"] for kind in self.json("profile", CNN, *FAST)["kinds"]})

    def defects(self):
        """Names of engines with one known defect, and the rule that has to find it."""
        product = "/layer.0/dense/MatMul"
        yield "guard", "chain.onnx", ["--guard"], []
        yield "forbidden-kernels", "wide.onnx", ["--disable-family", "gemm_packed"], []
        yield "forbidden-kernels", "wide.onnx", [f"--kernel={product}=tiled"], []
        yield "taps", "chain.onnx", ["--tap", "all"], []
        yield "taps", "steps.onnx", ["--tap", "all"], []

    def test_planted_causes_are_named_first(self):
        onnx.save(products(1, 512, 512), self.folder / "wide.onnx")
        steps = [helper.make_node("Neg" if index % 2 else "Relu", [f"v{index}"], [f"v{index + 1}"], name=f"/step.{index}") for index in range(6)]
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 512]) for name in ("v0", "v6")]
        onnx.save(helper.make_model(helper.make_graph(steps, "g", ports[:1], ports[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                  self.folder / "steps.onnx")
        for rule, model, flags, run in self.defects():
            with self.subTest(flags):
                self.succeed("compile", model, "-o", f"{model[:-5]}.tenon", "--target", "cpu:native", "--shape", {"wide.onnx": "x:64x512", "steps.onnx": "v0:512x512", "chain.onnx": "x:64x64"}[model], *flags)
                report = self.json("profile", f"{model[:-5]}.tenon", *FAST, *run)
                # What this machine could do besides is no planted cause.
                named = [advice["rule"] for advice in report["advice"] if advice["rule"] not in ("threads", "bf16")]
                self.assertEqual(rule, named[0], report["advice"])
                advice = next(advice for advice in report["advice"] if advice["rule"] == rule)
                self.assertGreater(advice["speedup"], 1.02)
                command = shlex.split(advice["command"])
                self.assertEqual("tenon", command[0])
                self.succeed(*command[1:])
                mended = self.json("profile", "faster.tenon", *FAST)
                self.assertNotIn(rule, [advice["rule"] for advice in mended["advice"]])
        self.succeed("compile", "chain.onnx", "-o", "chain.tenon", "--target", "cpu:native")

    def test_a_batch_that_the_engine_takes(self):
        onnx.save(products(1, 4096, 4096), self.folder / "heavy.onnx")
        self.succeed("compile", "heavy.onnx", "-o", "heavy.tenon", "--target", "cpu:native", "--shape", "x:[1..3]x4096")
        report = self.json("profile", "heavy.tenon", *FAST, "--batch", "1")
        commands = [advice["command"] for advice in report["advice"] if advice["rule"] == "batch"]
        self.assertEqual(["tenon bench heavy.tenon --shape x:3x4096"], commands, report["advice"])
        self.succeed(*shlex.split(commands[0])[1:], "--seconds", "0.05")

    def test_files_for_other_programs(self):
        self.succeed("profile", "transformer.tenon", *FAST, "--trace", "t.json", "--layers", "layers.json", "--layer-times", "times.json")
        read = lambda name: json.loads((self.folder / name).read_text())
        events = [event for event in read("t.json")["traceEvents"] if event["ph"] == "X"]
        regions = [event for event in events if event["tid"] == 1]
        self.assertTrue(regions)
        for event in events:
            if event["tid"] == 2:
                self.assertTrue(any(region["ts"] - 1e-6 <= event["ts"] and event["ts"] + event["dur"] <= region["ts"] + region["dur"] + 1e-6
                                    for region in regions), event)
        layers, times = read("layers.json"), read("times.json")
        self.assertEqual(["x", "y"], layers["Bindings"])
        self.assertEqual([layer["Name"] for layer in layers["Layers"]], [row["name"] for row in times[1:]])
        self.assertAlmostEqual(100, sum(row["percentage"] for row in times[1:]), delta=1)
        self.assertGreater(times[0]["count"], 0)
        first = layers["Layers"][0]
        self.assertEqual({"Name", "LayerType", "Inputs", "Outputs", "TacticName", "StreamId", "Metadata"}, set(first))
        self.assertEqual("Row major linear f32", first["Inputs"][0]["Format/Datatype"])

    def test_two_engines(self):
        report = self.json("profile", "chain.tenon", "--ab", "chain.tenon", *FAST)["ab"]
        low, high = report["interval_95"]
        self.assertLessEqual(low, report["ratio_of_medians"])
        self.assertGreaterEqual(high, report["ratio_of_medians"])
        self.assertIn("/layer.*/dense/MatMul", [row["name"] for row in report["operators"]])
        self.refuse(2, "TN0105", "profile", "chain.tenon", "--ab", "transformer.tenon", *FAST)

    def test_bad_input(self):
        self.refuse(2, "TN0101", "profile", "missing.tenon")
        self.refuse(2, "TN0111", "profile", "chain.tenon", "--html", "chain.tenon", *FAST)
        self.refuse(2, "TN0105", "profile", "chain.tenon", "--shape", "z:1x2", *FAST)
        self.refuse(2, "TN0518", "profile", "chain.tenon", "--variant", "sm_90", *FAST)
        engine = (self.folder / "chain.tenon").read_bytes()
        for record in (b'"edges"', b'"instructions"'):
            damaged = bytearray(engine)
            damaged[engine.index(record) + 1] ^= 32
            (self.folder / "damaged.tenon").write_bytes(damaged)
            self.refuse(5, "TN0520", "profile", "damaged.tenon", "--html", "out.html", *FAST)
        self.assertFalse((self.folder / "out.html").exists())

    def test_runs_shorter_than_the_clock(self):
        model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="tiny")], "g",
                                                    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
                                                    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])]),
                                  opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, self.folder / "tiny.onnx")
        report = self.json("profile", "tiny.onnx", *FAST)
        self.assertIn(report["operators"][0]["class"], ("too short", "unknown", "launch"))


class Page(ToolTest):
    """The page in a browser, like that of the graph."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = products(4)
        model.graph.node[0].name = "</script><b>x"
        onnx.save(model, cls.folder / "chain.onnx")
        cls.succeed("profile", "chain.onnx", *FAST, "--html", "p.html")
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)
        cls.browser.open(cls.folder / "p.html")

    def tearDown(self):
        self.assertEqual([], self.browser.errors)
        self.assertEqual([], [address for address in self.browser.requests if not address.startswith("file:")])

    def evaluate(self, expression):
        return self.browser.evaluate(expression)

    def show(self, by, search=""):
        self.evaluate(f"(() => {{ document.getElementById('by').value = '{by}'; document.getElementById('search').value = '{search}'; showRows(); }})()")
        return self.evaluate("document.querySelectorAll('#rows tr').length")

    def test_rows(self):
        self.assertEqual(8, self.show("operators"))
        self.assertEqual(4, self.show("operators", "matmul") + 1)  # one has another name
        self.assertEqual(2, self.show("kind"))
        self.assertGreaterEqual(self.show("module"), 4)
        self.assertEqual(1, self.show("source"))
        self.show("groups")
        self.assertIn("3 of them", self.evaluate("document.getElementById('rows').innerText"))
        self.assertEqual(0, self.evaluate("document.querySelectorAll('#rows b').length"))

    def test_a_dot_finds_its_row(self):
        self.show("groups")
        self.assertGreater(self.evaluate("document.querySelectorAll('#roofline circle').length"), 0)
        self.evaluate("document.querySelector('#roofline circle').dispatchEvent(new Event('click'))")
        self.assertEqual(1, self.evaluate("document.querySelectorAll('tr.chosen').length"))

    def test_head(self):
        self.assertIn("a run", self.evaluate("document.getElementById('facts').textContent"))
        self.assertGreater(self.evaluate("document.querySelectorAll('#advice li').length"), 0)


if __name__ == "__main__":
    unittest.main()
