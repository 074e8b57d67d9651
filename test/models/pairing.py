"""Checks the paired benchmark's arithmetic, and the whole of it against a stand-in for the tool with planted results.

Relies on scripts/paired_bench.py, the committed CNN and ONNX Runtime.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "scripts"))

import paired_bench  # noqa: E402

STAND_IN = """#!{python}
import json, sys
import numpy as np, onnxruntime
arguments = sys.argv[1:]
if arguments[0] == "--version":
    print("stand-in 1")
elif arguments[0] == "bench":
    print(json.dumps({{"latency_ms": {{"min": 1e6, "median": 2e6}}, "isa": "none"}}))
else:
    inputs = dict(np.load(arguments[arguments.index("--inputs") + 1]))
    session = onnxruntime.InferenceSession({model!r})
    np.savez(arguments[arguments.index("-o") + 1], logits=session.run(None, inputs)[0] + {error})
"""


def run_script(folder, error, *more):
    folder = pathlib.Path(folder)
    model = SOURCE / "models/fashion_cnn.onnx"
    tool = folder / "tenon"
    tool.write_text(STAND_IN.format(python=sys.executable, model=str(model), error=error))
    tool.chmod(0o755)
    np.savez(folder / "x.npz", image=np.ones((2, 1, 28, 28), np.float32))
    command = [sys.executable, SOURCE / "scripts/paired_bench.py", "any.tenon", model, "--inputs",
               folder / "x.npz", "--tenon", tool, "--rounds", "1", "--seconds", "0.05", *more]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


class Arithmetic(unittest.TestCase):
    def test_ratio(self):
        got = paired_bench.ratio([2.0, 3.0, 4.0], [4.0, 4.0, 4.0], np.min)
        self.assertEqual(0.5, got["value"])
        self.assertTrue(0.5 <= got["low"] < got["high"] <= 1.0)

    def test_largest_difference(self):
        a = np.array([1.0, -4.0])
        self.assertEqual(0.25, paired_bench.largest_difference({"y": a + [0, 1.0]}, {"y": a}))
        self.assertEqual(np.inf, paired_bench.largest_difference({"y": a * np.nan}, {"y": a}))
        with self.assertRaises(SystemExit):
            paired_bench.largest_difference({"z": a}, {"y": a})

    def test_disturbed_rounds_are_dropped(self):
        canaries = [[1.0, 2.0], [1.01, 2.0], [1.3, 2.0], [1.0, 2.0], [1.0, 2.2], [1.0, 2.0], [1.0, 2.0]]
        self.assertEqual([0, 5], paired_bench.quiet_rounds(canaries).tolist())


class Whole(unittest.TestCase):
    def test_report(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run_script(folder, "0")
        self.assertEqual(0, done.returncode, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(0, result["largest_difference"])
        self.assertGreater(result["ratio_of_minima"]["value"], 1000)
        self.assertEqual("stand-in 1", result["tenon"]["version"])
        self.assertTrue(result["onnxruntime"]["version"].startswith("onnxruntime "))
        self.assertTrue(result["cpu"])

    def test_wrong_output_is_caught(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run_script(folder, "0.01")
        self.assertEqual(1, done.returncode)
        self.assertIn("outputs differ", done.stderr)

    def test_limit(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run_script(folder, "0", "--limit", "1.5")
        self.assertEqual(1, done.returncode)
        self.assertIn("slower than 1.5", done.stderr)


if __name__ == "__main__":
    unittest.main()
