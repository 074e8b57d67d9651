"""Comparing with others: rows, errors, arithmetic, forms. Runs in the environment of in_wheel.py with torch, without the
peers that it lacks. Nothing here depends on how long something takes."""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import numpy as np

import tenon.compare
from tenon import contenders
from tenon.compare import _measure, _plot, _result, _source

MODELS = pathlib.Path(os.environ["TENON_MODELS"])
MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 3)
    def forward(self, x):
        return self.linear(x).relu()

def make_model():
    return Net()
def make_inputs():
    return (torch.randn(4, 8),)
def make_pair():
    return Net(), (torch.randn(2, 8),)
def make_nothing():
    return 1
"""
# A contender that is wrong on purpose, one that fails, and one that takes its process with it.
PLANTED = {
    "wrong": "def make(source, options):\n    import torch\n    return lambda: [source.module(*source.inputs) + 1], {}\n",
    "fails": "def make(source, options):\n    raise ValueError('no such thing')\n",
    "crashes": "def make(source, options):\n    import os\n    os._exit(7)\n",
    "misses": "def make(source, options):\n    return None, {}\n",
}


class Arithmetic(unittest.TestCase):
    def test_break_even(self):
        # 10 s for 1 ms a run against 1 s for 2 ms: 9 s are made up after 9,000 runs.
        self.assertEqual(tenon.compare.break_even(10, 0.001, 1, 0.002), 9000)
        self.assertEqual(tenon.compare.break_even(1, 0.001, 10, 0.002), 0)
        self.assertIsNone(tenon.compare.break_even(10, 0.002, 1, 0.001))
        self.assertIsNone(tenon.compare.break_even(1, 0.002, 10, 0.001))
        self.assertEqual(tenon.compare.break_even(1, 0.001, 1, 0.001), 0)
        self.assertIsNone(tenon.compare.break_even(2, 0.001, 1, 0.001))

    def test_summary(self):
        times = _result.summary([[0.003, 0.001], [0.002]])
        self.assertEqual((times["median_ms"], times["min_ms"], times["runs"]), (2, 1, 3))

    def test_paired_ratio(self):
        # A machine that is twice as slow in one round leaves the ratio as it is.
        found = _result.paired_ratio([[2, 2], [4, 4], [2]], [[1, 1], [2, 2], [1]])
        self.assertEqual((found["ratio"], found["low"], found["high"]), (2, 2, 2))
        found = _result.paired_ratio([[1], [2], [3]], [[1], [1], [1]])
        self.assertLess(found["low"], found["ratio"])

    def test_medians_and_their_ratio_are_of_the_same_data(self):
        # The medians of all runs are 1 and 3; those of the rounds' quotients, 2.
        tenon_rounds, peer_rounds = [[1, 1, 1, 1], [2, 2], [4]], [[3, 3, 3], [3], [8, 8]]
        row = {"state": "ran", "compile_s": 0, "first_s": 0, "batch": 1, "error": 0, "peak_mib": 1, "reason": ""}
        result = _result.Comparison("m", "cpu", 1, "r", [{"name": "tenon", "rounds": tenon_rounds, **row},
                                                         {"name": "peer", "rounds": peer_rounds, **row}])  # fmt: skip
        own, peer = result.rows
        self.assertEqual((own["median_ms"], peer["median_ms"]), (2000, 3000))
        self.assertEqual(peer["to_tenon"]["ratio"], peer["median_ms"] / own["median_ms"])
        self.assertGreaterEqual(peer["p90_ms"], peer["median_ms"])

    def test_no_difference_where_the_interval_holds_1(self):
        row = {"state": "ran", "compile_s": 0, "first_s": 0, "batch": 1, "error": 0, "peak_mib": 1, "reason": ""}
        rows = [{"name": name, "rounds": rounds, **row} for name, rounds in
                (("tenon", [[1], [2], [3]]), ("same", [[3], [2], [1]]), ("slower", [[2], [4], [6]]))]  # fmt: skip
        result = _result.Comparison("m", "cpu", 1, "r", rows)
        self.assertEqual([row["to_tenon"]["differs"] for row in result.rows[1:]], [False, True])
        same, slower = result.table().splitlines()[-3:-1]
        self.assertIn("no difference shown (", same)
        self.assertIn("2.00 (2.00..2.00)", slower)

    def test_legend_is_in_the_order_of_the_curves(self):
        rows = [{"name": name, "state": "ran", "compile_s": 1, "first_s": 0, "median_ms": latency}
                for name, latency in (("fast", 1), ("slowest", 9), ("slow", 4))]  # fmt: skip
        root = xml.etree.ElementTree.fromstring(_plot.draw(rows, "m", None))
        legend = {element.text.split()[0]: float(element.get("y")) for element in root.iter()
                  if element.tag.endswith("text") and element.get("fill")}  # fmt: skip
        self.assertEqual(sorted(legend, key=legend.get), ["slowest", "slow", "fast"])

    def test_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            def file(name, values):
                np.save(f"{folder}/{name}.npy", np.array(values, np.float64))
                return f"{folder}/{name}.npy"

            reference = file("a", [1, -4, math.inf, math.nan])
            self.assertEqual(_result.relative_error([reference], [reference]), (0, ""))
            self.assertAlmostEqual(_result.relative_error([reference], [file("b", [1, -4.4, math.inf, math.nan])])[0], 0.1)
            self.assertEqual(_result.relative_error([reference], [file("c", [1, math.nan, math.inf, math.nan])])[0], math.inf)
            self.assertEqual(_result.relative_error([file("z", [0])], [file("y", [1e-9])])[0], math.inf)
            self.assertEqual(_result.relative_error([reference], [file("d", [1])])[0], math.inf)
            self.assertEqual(_result.relative_error([reference], [])[0], math.inf)
            self.assertIsNone(_result.relative_error(None, [reference])[0])


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import torch  # noqa: F401
        except ImportError:
            raise unittest.SkipTest("torch is not here")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name) / "model.py"
        cls.path.write_text(MODEL)

    def compared(self, model="make_model", against=("eager",), **options):
        path = model if "." in model else f"{self.path}:{model}"
        return tenon.compare.run(path, against, threads=1, seconds=0, **options)

    def test_rows(self):
        result = self.compared(against=["eager", "openvino", "tensorrt"])
        rows = {row["name"]: row for row in result.rows}
        self.assertEqual(list(rows), ["tenon", "eager", "openvino", "tensorrt"])
        self.assertEqual([rows["tenon"]["state"], rows["eager"]["state"], result.failures()], ["ran", "ran", []])
        self.assertLess(rows["tenon"]["error"], 1e-5)
        self.assertEqual(rows["tenon"]["batch"], 4)
        self.assertIn("NVIDIA GPUs", rows["tensorrt"]["reason"])
        if rows["openvino"]["state"] == "missing":
            self.assertEqual(rows["openvino"]["reason"], "openvino is not installed: pip install openvino")
        self.assertEqual(result.baseline, "eager")
        self.assertIn("break_even", rows["tenon"])
        self.assertIn("to_tenon", rows["eager"])

    def test_forms(self):
        result = self.compared("make_pair")
        table = result.table()
        self.assertIn("eager", table)
        self.assertIn("PyTorch on the CPU in float64", table)
        data = json.loads(result.json())
        self.assertEqual(data["schema"], "tenon.compare/1")
        self.assertEqual([row["name"] for row in data["contenders"]], ["tenon", "eager"])
        for key in ("compile_s", "first_s", "median_ms", "p90_ms", "throughput", "peak_mib", "error", "versions"):
            self.assertIn(key, data["contenders"][0])
        root = xml.etree.ElementTree.fromstring(result.svg())
        lines = [element for element in root.iter() if element.tag.endswith("polyline")]
        self.assertEqual(len(lines), 2)

    def test_planted_contenders(self):
        with tempfile.TemporaryDirectory() as folder:
            # Contenders that the child's process sees too: a package of the same name that comes first.
            hook = pathlib.Path(folder) / "sitecustomize.py"
            hook.write_text(
                "import types, tenon.contenders as c\n"
                f"for name, text in {PLANTED!r}.items():\n"
                "    module = types.ModuleType(name)\n"
                "    exec(text, module.__dict__)\n"
                "    module.PACKAGE, module.missing = name, lambda device: ''\n"
                "    c.TABLE[name] = module\n"
            )
            code = (
                "import json, tenon.compare\n"
                f"result = tenon.compare.run('{self.path}:make_model', ['eager', *{list(PLANTED)!r}], threads=1, seconds=0)\n"
                "print(result.json())\nraise SystemExit(len(result.failures()))\n"
            )
            path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
            done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 3, done.stderr)
        rows = {row["name"]: row for row in json.loads(done.stdout)["contenders"]}
        self.assertGreater(rows["wrong"]["error"], 0.1)
        self.assertLess(rows["eager"]["error"], 1e-5)
        self.assertEqual(rows["fails"]["reason"], "ValueError: no such thing")
        self.assertIn("ended with 7", rows["crashes"]["reason"])
        self.assertEqual(rows["misses"]["state"], "failed")

    def test_seeded_inputs(self):
        """Types in the compiler's words, and in ONNX's, which tell a model that Tenon supports for some sizes only."""
        for words, dtype in ((("f32", "float"), "float32"), (("f64", "double"), "float64"), (("f16", "float16"), "float16"), (("i1", "bool"), "bool"),
                             (("i64", "int64"), "int64"), (("ui8", "uint8"), "uint8")):  # fmt: skip
            for word in words:
                values = _source._values(np.random.default_rng(1), word, [2, 3])
                self.assertEqual(((2, 3), np.dtype(dtype)), (values.shape, values.dtype), word)
        self.assertRaises(tenon.UsageError, _source._values, np.random.default_rng(1), "bf16", [2])

    def test_models_that_are_none(self):
        with self.assertRaisesRegex(tenon.UsageError, "gives no module"):
            self.compared("make_nothing")
        # The same errors without a process, which has to import torch.
        for function, text in (("make_nothing", "gives no module"), ("make_what", "has no function make_what")):
            with self.assertRaisesRegex(tenon.UsageError, text):
                _source.load(f"{self.path}:{function}")
        for model, text in (("model.txt", "no model to compare"), ("no.onnx", "there is no file")):
            with self.assertRaisesRegex(tenon.UsageError, text):
                self.compared(model)
        with self.assertRaisesRegex(tenon.UsageError, "no contender 'eagre'"):
            self.compared(against=["eagre"])

    def test_onnx_and_the_command(self):
        program = pathlib.Path(tenon.__file__).parent / "bin/tenon"
        command = [program, "bench", MODELS / "linear.onnx", "--against", "eager,onnxruntime", "--threads", "1", "--shape", "x:5x8",
                   "--seconds", "0.01", "--json"]  # fmt: skip
        environment = {**os.environ, "TENON_PYTHON": sys.executable}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["name"]: row for row in json.loads(done.stdout)["contenders"]}
        self.assertEqual(rows["eager"]["state"], "not for this model")
        self.assertEqual(rows["tenon"]["batch"], 5)
        done = subprocess.run([program, "bench", "x.py:f", "--against", "eager"], capture_output=True, text=True,
                              env={**os.environ, "TENON_PYTHON": "/no/such/python"})  # fmt: skip
        self.assertEqual(done.returncode, 2)
        self.assertIn("set TENON_PYTHON", done.stderr)

    def test_table_of_contenders(self):
        page = (pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "docs/guides/compare.md").read_text()
        for name in list(contenders.TABLE)[1:]:
            self.assertIn(f"| {name} | ", page)
        self.assertEqual(_measure._chosen(["eager", "tenon", "eager"], "cpu"), ["tenon", "eager"])


if __name__ == "__main__":
    unittest.main()
