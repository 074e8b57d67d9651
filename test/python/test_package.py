"""The package's interface on numpy: tensors in and out, errors, reports. Runs in the environment of in_wheel.py."""

import array
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tracemalloc
import unittest

MODELS = pathlib.Path(os.environ["TENON_MODELS"])

import tenon  # noqa: E402

IMPORTED = set(sys.modules)

import numpy as np  # noqa: E402
from tenon import _data  # noqa: E402

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])


def compiled(name, **options):
    return tenon.compile(MODELS / f"{name}.onnx", **options)


class Importing(unittest.TestCase):
    def test_loads_little(self):
        self.assertFalse({"numpy", "torch"} & IMPORTED)

    def test_names(self):
        for name in tenon.__all__:
            if name not in ("report", "reset"):  # which need torch
                self.assertTrue(hasattr(tenon, name), name)
        with self.assertRaises(AttributeError):
            tenon.nothing

    def test_version(self):
        self.assertEqual(tenon.__version__, tenon.doctor()["version"])


class Running(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = compiled("linear")
        cls.weight = np.load(MODELS / "linear.npy")

    def expect(self, x, y):
        np.testing.assert_allclose(y, np.maximum(np.asarray(x) @ self.weight, 0), rtol=1e-5, atol=1e-5)

    def test_shapes_change_between_calls(self):
        for batch in (1, 5, 2, 5):
            x = np.random.default_rng(batch).standard_normal((batch, 8), np.float32)
            y = self.engine(x)
            self.assertEqual((y.shape, y.dtype), ((batch, 3), np.float32))
            self.expect(x, y)

    def test_outputs_are_new_each_time(self):
        x = np.ones((2, 8), np.float32)
        first = self.engine(x)
        kept = first.copy()
        self.engine(x * 3)
        np.testing.assert_array_equal(first, kept)

    def test_contiguous_arrays_are_not_copied(self):
        x = np.ones((2, 8), np.float32)
        y = self.engine(x)
        session = self.engine._session()
        self.assertEqual(session._in_slots[0].data, x.ctypes.data)
        self.assertEqual(session._out_slots[0].data, y.ctypes.data)
        x.flags.writeable = False
        self.engine(x)
        self.assertEqual(session._in_slots[0].data, x.ctypes.data)

    def test_views_of_any_kind(self):
        base = np.random.default_rng(3).standard_normal((16, 16), np.float32)
        for x in (base[::2, ::2], base.T[:4, :8], np.asfortranarray(base[:5, :8])):
            self.expect(x, self.engine(x))
        raw = np.zeros(4 * 8 * 4 + 1, np.uint8)
        crooked = raw[1:].view(np.float32).reshape(4, 8)
        crooked[:] = base[:4, :8]
        self.expect(crooked.copy(), self.engine(crooked))

    def test_buffers_and_numbers(self):
        values = np.arange(8, dtype=np.float32)
        view = memoryview(array.array("f", values)).cast("B").cast("f", (1, 8))
        expected = self.engine(values.reshape(1, 8))
        np.testing.assert_array_equal(self.engine(view), expected)
        session = self.engine._session()
        self.assertEqual(session._in_slots[0].data, np.asarray(view).ctypes.data)
        np.testing.assert_array_equal(self.engine([values.tolist()]), expected)

    def test_names_and_order(self):
        engine = compiled("two")
        a, b = np.full((2, 3), 5, np.float32), np.ones((2, 3), np.float32)
        self.assertEqual([port.name for port in engine.inputs], ["a", "b"])
        for result in (engine.run(a, b), engine.run(b=b, a=a), engine.run(a, b=b), engine.run({"b": b, "a": a})):
            self.assertEqual(list(result), ["d", "s.um"])
            self.assertEqual((result["d"][0, 0], result["s.um"][0, 0]), (4, 6))
        self.assertEqual(len(engine(a, b)), 2)

    def test_ports(self):
        self.assertEqual(self.engine.inputs, [("x", "float32", ((1, 65536), 8))])
        fixed = compiled("linear", dynamic_shapes={"x": {0: 4}})
        self.assertEqual(fixed.outputs, [("y", "float32", (4, 3))])
        ranged = compiled("linear", dynamic_shapes={"x": {0: (2, 6)}})
        self.assertEqual(ranged.inputs[0].shape, ((2, 6), 8))
        self.assertEqual(compiled("linear", dynamic_shapes={"x": "[1..9]x8"}).inputs[0].shape, ((1, 9), 8))

    def test_data_decides_a_size(self):
        engine = compiled("nonzero")
        np.testing.assert_array_equal(engine(np.array([0, 1, 0, 2], np.float32)), [[1, 3]])
        self.assertEqual(engine(np.zeros(4, np.float32)).shape, (1, 0))

    def test_scalar_output(self):
        y = compiled("scalar")(np.ones(4, np.float32))
        self.assertEqual((y.shape, float(y)), ((), 4.0))

    def test_accuracy(self):
        x = np.random.default_rng(1).standard_normal((60, 8), np.float32)
        labels = np.maximum(x @ self.weight, 0).argmax(1)
        labels[:15] = (labels[:15] + 1) % 3
        samples = [{"x": row, "label": label} for row, label in zip(x, labels)]
        lists = [{"x": row.tolist(), "label": int(label)} for row, label in zip(x, labels)]
        for data in ({"x": x, "labels": labels}, samples, iter(samples), lambda: (sample for sample in samples), lists):
            result = tenon.accuracy(self.engine, data, seconds=0.01)
            self.assertAlmostEqual(result["metrics"][0]["models"][0]["value"], 0.75)
        result = tenon.accuracy([self.engine, MODELS / "linear.onnx"], {"x": x}, metric=["cosine", "relative"], seconds=0.01)
        self.assertEqual(len(result["metrics"]), 2)
        self.assertAlmostEqual(result["metrics"][0]["models"][1]["value"], 1, 5)
        for data in ([], [samples[0], {"x": x[0]}]):
            with self.assertRaises(tenon.UsageError):
                tenon.accuracy(self.engine, data)
        with self.assertRaises(tenon.BadInputError) as caught:
            tenon.accuracy(self.engine, {"x": x[:, :7], "labels": labels})
        self.assertEqual(caught.exception.id, "TN0113")

    def test_tune(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "tuned.tenon"
            options = {"shapes": ["x:64x8"], "store": pathlib.Path(folder) / "store", "seconds": 30, "allow_noise": True}
            first = tenon.tune(MODELS / "linear.onnx", output, **options)
            self.assertGreaterEqual(first["measured"], 1)
            self.assertEqual(tenon.tune(MODELS / "linear.onnx", **options)["measured"], 0)
            x = np.random.default_rng(1).standard_normal((64, 8), np.float32)
            self.expect(x, tenon.load(output)(x))

    def test_data_of_any_name_and_of_a_generator(self):
        """An input may have the name of an argument of numpy's, and samples need not fit into memory together."""
        result = tenon.accuracy([self.engine, MODELS / "linear.onnx"], {"file": np.ones((3, 8), np.float32)}, metric="relative", seconds=0.01)
        self.assertEqual(result["samples"], 3)
        kinds = (1, 0.5, True)
        samples = ({"x": np.full(1 << 18, i, np.float32), "label": kinds[i % 3]} for i in range(48))
        with tempfile.TemporaryDirectory() as folder:
            tracemalloc.start()
            path = _data.path(samples, folder, "none is asked")
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.assertLess(peak, 12 << 20)
            with np.load(path) as arrays:
                np.testing.assert_array_equal(arrays["x"][:, -1], np.arange(48))
                np.testing.assert_array_equal(arrays["label"], [1, 0.5, 1] * 16)

    def test_quantize(self):
        pictures = np.random.default_rng(1).random((8, 1, 28, 28), np.float32)
        samples = [{"image": picture} for picture in pictures]
        model = SOURCE / "models/fashion_cnn.onnx"
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "small.onnx"
            for data in ({"image": pictures}, samples, lambda: iter(samples)):
                report = tenon.quantize(model, data, output, keep=["/deep/deep.0/Conv"], smoothing=False)
                self.assertEqual(report["samples"], 8)
                self.assertEqual({layer["name"]: layer["reason"] for layer in report["layers"]}["/deep/deep.0/Conv"], "--keep")
            near = tenon.accuracy([model, output], {"image": pictures}, metric="cosine", seconds=0.01)
            self.assertGreater(near["metrics"][0]["models"][1]["value"], 0.99)
            with self.assertRaises(tenon.UsageError):
                tenon.quantize(output, {"image": pictures})
            tenon.quantize(model, None, output, weights_only=8)
            with self.assertRaises(tenon.UsageError):
                tenon.quantize(model, None, output)

    def test_data_without_names_and_in_batches(self):
        pictures = np.random.default_rng(1).random((7, 1, 28, 28), np.float32)
        labels = np.arange(7)

        class Loader:
            """As of torch: the last batch has fewer."""

            dataset, batch_size = pictures, 3

            def __init__(self, form):
                self.form = form

            def __iter__(self):
                return (self.form(pictures[i : i + 3], labels[i : i + 3]) for i in range(0, 7, 3))

        model = SOURCE / "models/fashion_cnn.onnx"
        forms = {
            "array": pictures, "list": list(pictures), "batches of one": [picture[None] for picture in pictures], "tuples": list(zip(pictures, labels)),
            "generator": (picture for picture in pictures), "dict of lists": {"image": pictures.tolist()}, "loader": Loader(lambda x, y: x),
            "loader of tuples": Loader(lambda x, y: (x, y)), "loader of lists": Loader(lambda x, y: [x, y]), "function": lambda: Loader(lambda x, y: (x, y)),
            "loader of dicts": Loader(lambda x, y: {"image": x, "label": y, "file": ["a"] * len(x)}), "batches": [pictures[:3], pictures[3:]],
        }  # fmt: skip
        found = set()
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "small.onnx"
            for name, data in forms.items():
                with self.subTest(form=name):
                    self.assertEqual(7, tenon.quantize(model, data, output, smoothing=False)["samples"])
                    found.add(output.read_bytes())
            self.assertEqual(1, len(found), "all are the same samples")
            scores = [tenon.accuracy(model, data, seconds=0.01)["metrics"][0]["models"][0]["value"]
                      for data in ({"image": pictures, "labels": labels}, Loader(lambda x, y: (x, y)), list(zip(pictures, labels)))]  # fmt: skip
            self.assertEqual(1, len(set(scores)))
            with self.assertWarnsRegex(UserWarning, "only one sample"):
                tenon.quantize(model, pictures[:1], output)
            with self.assertWarnsRegex(UserWarning, "are the same"):
                tenon.quantize(model, np.repeat(pictures[:1], 5, 0), output)
            once = iter(pictures)
            tenon.quantize(model, once, output)
            for data, said in ((once, "does not give again"), (pictures[..., 0], "rank 3|samples of"), (list(pictures[:, 0, 0]), "rank 1"),
                               ([(p, 1, 2) for p in pictures], "3 arrays"), (Loader(lambda x, y: (x, y[:1])), "rows of"), (3, "are of int")):  # fmt: skip
                with self.subTest(said=said), self.assertRaisesRegex(tenon.Error, said):
                    tenon.quantize(model, data, output)
            same = ({"image": picture} for picture in pictures)
            with self.assertRaisesRegex(tenon.UsageError, "one generator"):
                tenon.quantize(model, same, output, test=same, latency=1)

    def test_quantize_searches(self):
        pictures = np.random.default_rng(1).random((8, 1, 28, 28), np.float32)
        model, keep = SOURCE / "models/fashion_cnn.onnx", ["/stem/stem.0/Conv", "/widen/widen.0/Conv", "/inner/inner.0/Conv"]
        with tempfile.TemporaryDirectory() as folder:
            output, page = pathlib.Path(folder) / "fast.onnx", pathlib.Path(folder) / "r.html"
            test = {"image": pictures[:4] + 1, "labels": np.arange(4)}
            # The model itself is the most accurate form that keeps ten seconds.
            report = tenon.quantize(model, {"image": pictures}, output, keep=keep, test=test, latency=10, budget=20, error_samples=3, report=page)
            search = report["search"]
            self.assertEqual(("top1", 4, 3, 2), (search["metric"], search["test_samples"], search["error_samples"], len(search["candidates"])))
            self.assertTrue(output.exists() and page.read_text().startswith("<!DOCTYPE html>"))
            with self.assertRaises(tenon.Error) as caught:
                tenon.quantize(model, {"image": pictures}, output, keep=keep, latency="0.001us", metric="cosine", budget=20, state=f"{folder}/state.json")
            self.assertEqual("TN0116", caught.exception.id)
            with self.assertRaises(tenon.UsageError):
                tenon.quantize(model, {"image": pictures}, output, accuracy_drop=-0.5)

    def test_accuracy_of_samples_of_other_lengths(self):
        samples = [{"x": np.ones((rows, 8), np.float32) * rows} for rows in (1, 3)]
        result = tenon.accuracy([self.engine, MODELS / "linear.onnx"], samples, metric="relative", seconds=0.01)
        self.assertEqual(result["samples"], 2)
        self.assertLess(result["metrics"][0]["models"][1]["value"], 1e-5)

    def test_state_belongs_to_the_session(self):
        engine = compiled("running", states={"before": "after"})
        one = np.ones(2, np.float32)
        self.assertEqual(([p.name for p in engine.inputs], [p.name for p in engine.outputs]), (["x"], ["y"]))
        first, second = engine.session(), engine.session(threads=1)
        self.assertEqual([float(first(one)[0]) for _ in range(3)], [2, 4, 6])
        self.assertEqual(float(second(one)[0]), 2)
        first.reset_state()
        self.assertEqual(float(first(one)[0]), 2)
        self.assertGreater(first.memory()["state"], 0)
        self.assertGreaterEqual(second.facts()["kernels"], 1)

    def test_memory_and_saving(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.tenon"
            self.engine.save(path)
            x = np.ones((2, 8), np.float32)
            for source in (path, path.read_bytes(), memoryview(path.read_bytes())):
                engine = tenon.load(source, verify=True, threads=1)
                np.testing.assert_array_equal(engine(x), self.engine(x))
                self.assertIn("region", engine.explain("fusion"))

    def test_state_of_a_program(self):
        """Buffers that a program of torch.export writes live in the session; one begins with 1."""
        data = np.load(SOURCE / "test/data/pt2/state.npz")
        session = tenon.compile(SOURCE / "test/data/pt2/state.pt2").session()
        for again in ("", "again1_", "again2_", ""):
            for result, key in zip(session(data["in0"]), ("out0", "out1")):
                np.testing.assert_allclose(result, data[again + key], rtol=1e-5, atol=1e-5)
            if again == "again2_":
                session.reset_state()


class QuickStart(unittest.TestCase):
    def test_readme(self):
        """What README shows runs as it stands, one block after the other in one folder."""
        text = (SOURCE / "README.md").read_text()
        section = text[text.index("## Quick start") :].split("\n## ")[0].split("\n", 1)[1]
        blocks = re.findall(r"```(\w*)\n(.*?)```", section, re.S)
        self.assertEqual(["sh", "python"], [kind for kind, _ in blocks if kind])
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(SOURCE / "models/fashion_cnn.onnx", pathlib.Path(folder) / "model.onnx")
            path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
            for kind, code in blocks:
                if kind:
                    command = ["bash", "-e", "-c", code] if kind == "sh" else [sys.executable, "-c", code]
                    done = subprocess.run(
                        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": path}
                    )
                    self.assertEqual(0, done.returncode, f"{code}\n{done.stdout}{done.stderr}")


class Errors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = compiled("linear")

    def expect(self, kind, id, call):
        with self.assertRaises(kind) as caught:
            call()
        self.assertEqual(caught.exception.id, id)
        self.assertIn(id, str(caught.exception))
        self.assertTrue(caught.exception.hint)
        return caught.exception

    def test_tensors(self):
        x = np.ones((2, 8), np.float32)
        self.expect(tenon.UsageError, "TN0108", lambda: self.engine(x.astype(np.float64)))
        self.expect(tenon.UsageError, "TN0108", lambda: self.engine(x.astype(">f4")))
        self.expect(tenon.UsageError, "TN0108", lambda: self.engine(np.array([object()])))
        self.expect(tenon.UsageError, "TN0601", lambda: self.engine())
        self.expect(tenon.UsageError, "TN0601", lambda: self.engine(x, x))
        self.expect(tenon.UsageError, "TN0601", lambda: self.engine(z=x))
        self.expect(tenon.UsageError, "TN0601", lambda: self.engine(x, x=x))
        self.expect(tenon.UsageError, "TN0602", lambda: self.engine(x[0]))
        error = self.expect(tenon.UsageError, "TN0603", lambda: self.engine(x[:, :7]))
        self.assertIsInstance(error, ValueError)
        self.engine(x)  # and goes on

    def test_files(self):
        self.expect(tenon.UsageError, "TN0101", lambda: tenon.load("/nowhere.tenon"))
        self.expect(tenon.UsageError, "TN0101", lambda: tenon.compile("/nowhere.onnx"))
        self.expect(tenon.BadInputError, "TN0502", lambda: tenon.load(b"x" * 4096))
        self.expect(tenon.Error, "TN0211", lambda: tenon.compile(__file__))
        self.expect(tenon.UsageError, "TN0105", lambda: tenon.compile(3))

    def test_a_model_in_memory_is_no_file_of_a_scratch_folder(self):
        model = (MODELS / "linear.onnx").read_bytes().replace(b"\n\x01x", b"\n\x01q", 1)  # a node that reads what nothing defines
        for call in (tenon.compile, tenon.inspect):
            with self.assertRaisesRegex(tenon.Error, "the bytes") as caught:
                call(model)
            self.assertNotIn("tenon-export", str(caught.exception))

    def test_a_gap_names_its_node(self):
        error = self.expect(tenon.UnsupportedError, "TN0301", lambda: compiled("gaps"))
        self.assertEqual((error.code, error.node, error.gaps[0]["op"]), (3, "the_one", "Mystery"))
        self.assertEqual(tenon.check(MODELS / "gaps.onnx")["gaps"], error.gaps)

    def test_options(self):
        self.expect(tenon.UsageError, "TN0105", lambda: compiled("linear", precision="fp4"))
        self.expect(tenon.UnsupportedError, "TN0302", lambda: compiled("linear", target="tpu"))
        self.expect(tenon.UsageError, "TN0237", lambda: compiled("linear", dynamic_shapes={"q": "1x8"}))
        self.expect(tenon.UsageError, "TN0105", lambda: compiled("linear", max_weights=0.5))
        self.assertGreater(compiled("linear", max_weights=5).report["weights_bytes"], 0)

    def test_a_name_that_looks_like_a_flag(self):
        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            try:
                engine = compiled("linear", output="--json")
                self.assertTrue(pathlib.Path("--json").exists())
                self.assertEqual(tenon.inspect("--json")["schema"], "tenon.inspect-engine/1")
                self.assertEqual(engine.path, "--json")
            finally:
                os.chdir(before)


class Reports(unittest.TestCase):
    def test_compiler(self):
        engine = compiled("linear")
        self.assertEqual(engine.report["schema"], "tenon.compile/1")
        self.assertEqual(tenon.check(MODELS / "linear.onnx")["gaps"], [])
        self.assertEqual(tenon.inspect(MODELS / "linear.onnx")["inputs"][0]["name"], "x")
        self.assertIn("digraph", tenon.inspect(engine, format="dot"))
        self.assertIn("regions", engine.record("fusion"))
        self.assertIn("arena", engine.explain("memory"))
        self.assertEqual(engine.explain("placement", format="json")["schema"], "tenon.explain-placement/1")
        self.assertIn("threads", tenon.doctor())

    def test_graph(self):
        for model in (MODELS / "linear.onnx", compiled("linear")):
            graph = tenon.graph(model)
            self.assertIn("matmul", str(graph).lower())
            self.assertIn("<svg", graph._repr_html_())
            with tempfile.TemporaryDirectory() as folder:
                for suffix in ("txt", "json", "dot", "svg", "html", "onnx"):
                    path = pathlib.Path(folder) / f"graph.{suffix}"
                    graph.save(path)
                    self.assertGreater(path.stat().st_size, 50)
                with self.assertRaises(tenon.UsageError):
                    graph.save(path.with_suffix(".png"))
        self.assertEqual([node["op"] for node in tenon.graph(MODELS / "linear.onnx").nodes], ["matmul", "relu"])

    def test_bench(self):
        self.assertGreater(compiled("tiny").bench(seconds=0.05, threads=1)["latency_ms"]["median"], 0)

    def test_profile(self):
        regions = compiled("linear").profile(seconds=0.05)["regions"]
        self.assertGreater(sum(region["time_us"] for region in regions), 0)

    def test_html(self):
        html = compiled("two")._repr_html_()
        self.assertIn("<td>s.um</td>", html)
        self.assertIn("x: float32[1..65536, 8]", repr(compiled("linear")))


class Structs(unittest.TestCase):
    """The ctypes structs against the frozen C ABI."""

    def test_layout(self):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "structure"))
        from abi import STRUCTS

        names = {
            "tenon_engine_options": "EngineOptions", "tenon_port_info": "PortInfo", "tenon_run_facts": "RunFacts",
            "tenon_session_options": "SessionOptions", "tenon_session_value": "SessionValue", "tenon_input": "Input", "tenon_output": "Output",
            "tenon_tensor": "Tensor", "tenon_run_options": "RunOptions", "tenon_memory_use": "MemoryUse",
            "tenon_blob": "Blob", "tenon_compile_options": "CompileOptions", "tenon_check_options": "CheckOptions",
            "tenon_inspect_options": "InspectOptions", "tenon_language_facts": "LanguageFacts", "tenon_tokens": "Tokens",
            "tenon_text": "Blob", "tenon_message": "Message", "tenon_sequence_options": "SequenceOptions",
            "tenon_logit_bias": "LogitBias", "tenon_generate_options": "GenerateOptions", "tenon_draw": "Draw",
            "tenon_piece": "Piece", "tenon_score_options": "ScoreOptions", "tenon_mean": "Mean", "tenon_score": "Score",
        }  # fmt: skip
        from tenon import passes

        structs = {name: getattr(tenon._abi, own) for name, own in names.items()}
        structs |= {"tenon_graph_api": passes._Api, "tenon_pass": passes._Pass}
        self.assertEqual(set(structs), set(STRUCTS) - {"tenon_plugin"}, "which no Python program fills")
        for name, struct in structs.items():
            size, offsets = STRUCTS[name]
            self.assertEqual(ctypes.sizeof(struct), size, name)
            self.assertEqual({field: getattr(struct, field).offset for field, *_ in struct._fields_}, offsets, name)


class NullArguments(unittest.TestCase):
    """Functions of compiler.h, as tenon.h says of nulls."""

    def test_are_refused(self):
        compiler, blob = tenon._abi.compiler(), tenon._abi.Blob()
        at = ctypes.addressof(blob)
        for status in (
            compiler.tenon_compile(None, b"x", None, None), compiler.tenon_compile(b"x", None, None, None),
            compiler.tenon_check(None, None, at), compiler.tenon_check(b"x", None, None),
            compiler.tenon_inspect(None, None, at), compiler.tenon_inspect(b"x", None, None),
            compiler.tenon_explain(None, b"fusion", None, 0, at), compiler.tenon_explain(b"x", None, None, 0, at),
            compiler.tenon_explain(b"x", b"fusion", None, 0, None),
            compiler.tenon_verb(None, tenon._abi.Progress(), None, at),
        ):  # fmt: skip
            self.assertEqual(tenon._errors.take(status).id, "TN0105")
        compiler.tenon_blob_destroy(None)

    def test_options_without_size(self):
        options = tenon._abi.CompileOptions()
        options.struct_size = 0
        status = tenon._abi.compiler().tenon_compile(b"x", b"y", ctypes.addressof(options), None)
        self.assertEqual(tenon._errors.take(status).id, "TN0105")


class CommandLine(unittest.TestCase):
    def test_both_ways(self):
        program = pathlib.Path(sys.executable).parent / "tenon"
        for command in ([program], [sys.executable, "-m", "tenon"]):
            done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
            self.assertIn(tenon.__version__, done.stdout)
        failed = subprocess.run([program, "check", MODELS / "gaps.onnx"], capture_output=True, text=True)
        self.assertEqual(failed.returncode, 3)


if __name__ == "__main__":
    unittest.main()
