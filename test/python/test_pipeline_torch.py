"""Pipelines that begin with a module of PyTorch: ingest by torch.export and by ONNX. Runs in the environment of in_wheel.py with torch."""

import pathlib
import tempfile
import unittest

import numpy as np
import torch

import tenon
from tenon import pipeline

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

    def test_what_cannot_be_exported(self):
        (self.folder / "p.yaml").write_text("steps:\n  ingest: {callable: 'zoo.py:training'}\n")
        with self.assertRaisesRegex(tenon.CheckFailedError, r"p\.yaml:2: .*(.|\n)*TN0303"):
            pipeline.run(self.folder / "p.yaml")


if __name__ == "__main__":
    unittest.main()
