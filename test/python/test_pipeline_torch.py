"""Pipelines that begin with a module of PyTorch: ingest by torch.export and by ONNX. Runs in the environment of in_wheel.py with torch."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import torch

import tenon
from tenon import pipeline

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
TENON = pathlib.Path(tenon.__file__).parent / "bin/tenon"
ZOO = """\
import torch


def make():
    torch.manual_seed(SEED)
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
    return module, (torch.zeros(2, 16),)


def training():
    return torch.nn.Linear(2, 2), (torch.zeros(1, 2),)
"""
WHOLE = """\
steps:
  ingest: {callable: "zoo.py:make"}
  onnx: {step: ingest, callable: "zoo.py:make", format: onnx}
  narrow: {step: quantize, model: $onnx, weights-only: 8}
  engine: {step: compile, model: $ingest, target: "cpu:avx2", save: engine.tenon}
  small: {step: compile, model: $narrow, target: "cpu:avx2", save: small.tenon}
"""


class FromTorch(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        (self.folder / "zoo.py").write_text(ZOO.replace("SEED", "1"))
        (self.folder / "p.yaml").write_text(WHOLE)

    def test_module_to_engines(self):
        self.assertEqual(5, pipeline.run(self.folder / "p.yaml")["executed"])
        space = {}
        exec(ZOO.replace("SEED", "1"), space)
        x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 16), np.float32))
        with torch.no_grad():
            wanted = space["make"]()[0](x).numpy()
        np.testing.assert_allclose(tenon.load(self.folder / "engine.tenon")(x.numpy()), wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(tenon.load(self.folder / "small.tenon")(x.numpy()), wanted, rtol=0, atol=0.05 * np.abs(wanted).max())
        self.assertEqual(0, pipeline.run(self.folder / "p.yaml")["executed"])
        first = (self.folder / "engine.tenon").read_bytes()
        # Elsewhere, as after a kill, the same bytes; with other weights all again.
        pipeline.run(self.folder / "p.yaml", work="elsewhere")
        self.assertEqual(first, (self.folder / "engine.tenon").read_bytes())
        (self.folder / "zoo.py").write_text(ZOO.replace("SEED", "2"))
        self.assertEqual(5, pipeline.run(self.folder / "p.yaml")["executed"])
        self.assertNotEqual(first, (self.folder / "engine.tenon").read_bytes())

    def test_free_sizes_by_onnx(self):
        """Dynamic shapes by name, in order, and with a size that stays fixed: the dims of the model."""
        for shapes, wanted in (('{"x": {0: batch}, "y": {1: torch.export.Dim.AUTO}}', ["f32 [batch, 4]", "f32 [4, y_1]"]), ("((batch, 4), None)", ["f32 [batch, 4]", "f32 [4, 4]"])):
            (self.folder / "zoo.py").write_text(f"""\
import torch


class Both(torch.nn.Module):
    def forward(self, x, y):
        return x @ y


def make():
    batch = torch.export.Dim("batch")
    return Both().eval(), (torch.zeros(3, 4), torch.zeros(4, 4)), {shapes}
""")
            (self.folder / "p.yaml").write_text("steps:\n  ingest: {callable: 'zoo.py:make', format: onnx, save: model.onnx}\n")
            pipeline.run(self.folder / "p.yaml")
            inputs = tenon.inspect(self.folder / "model.onnx")["inputs"]
            self.assertEqual(wanted, [port["type"] for port in inputs])

    def test_what_cannot_be_exported(self):
        (self.folder / "p.yaml").write_text("steps:\n  ingest: {callable: 'zoo.py:training'}\n")
        with self.assertRaisesRegex(tenon.CheckFailedError, r"p\.yaml:2: .*(.|\n)*TN0303"):
            pipeline.run(self.folder / "p.yaml")


class TheWholeWay(unittest.TestCase):
    """examples/pipeline: from a module to the version in production."""

    def test_example(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder)
            for each in (SOURCE / "examples/pipeline").iterdir():
                shutil.copy(each, folder)
            command = [sys.executable, "-m", "tenon.pipeline", "run", "fashion.yaml", "--json", "--progress=none", "--report", "fashion.html"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            self.assertEqual(0, done.returncode, done.stderr)
            report = json.loads(done.stdout)
            facts = {row["name"]: row["facts"] for row in report["steps"]}
            self.assertGreater(facts["accuracy"]["top1"], 0.75)
            self.assertGreater(facts["accuracy"]["top1_difference"], -0.01)
            self.assertEqual(("fashion:1", "production"), (facts["promote"]["version"], facts["promote"]["alias"]))
            self.assertEqual({"fashion-cpu-avx2.tenon", "fashion-cpu-avx512.tenon", "fashion-tuned.tenon", "fashion.zip", "profile.html"}, {path.name for path in (folder / "out").iterdir()})
            shown = json.loads(subprocess.run([TENON, "registry", "show", "fashion@production", "--registry", "registry", "--json"], cwd=folder, capture_output=True, text=True, check=True).stdout)
            self.assertEqual(hashlib.sha256((folder / "out/fashion-cpu-avx2.tenon").read_bytes()).hexdigest(), shown["hash"])
            again = json.loads(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)
            self.assertEqual((0, len(report["steps"])), (again["executed"], again["cached"]))


if __name__ == "__main__":
    unittest.main()
