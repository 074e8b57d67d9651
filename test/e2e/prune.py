"""`tenon prune`: for each way in which axes depend on each other, the smaller model equals the one with zeros in the places that were removed, as
ONNX Runtime computes both, and its tensors have the dims that they must have. Bad input is an error before work.
"""

import json
import unittest

import numpy as np
import onnx
import onnxruntime
import prune_nets
from onnx import numpy_helper
from prune_nets import NETS, masked
from tool import CNN, SOURCE, ToolTest, tiny_model


def by_peer(model, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def seeded(model):
    random = np.random.default_rng(5)
    return {port.name: random.standard_normal([dim.dim_value or 2 for dim in port.type.tensor_type.shape.dim]).astype(np.float32) for port in model.graph.input}


def dims_of(model):
    return {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}


class Prune(ToolTest):
    def prune(self, model, *flags):
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        report = self.json("prune", path, "-o", "narrow.onnx", "--recipe", "r.json", "--no-timing", *flags)
        narrow = onnx.load(self.folder / "narrow.onnx")
        onnx.checker.check_model(narrow, full_check=True)
        return report, narrow, json.loads((self.folder / "r.json").read_text())

    def equals_masked(self, model, narrow, recipe):
        inputs = seeded(model)
        expected, actual, whole = (by_peer(each, inputs)[0] for each in (masked(model, recipe), narrow, model))
        np.testing.assert_allclose(actual, expected, atol=2e-5 * float(np.abs(expected).max()), rtol=1e-4)
        self.assertGreater(float(np.abs(actual - whole).max()), 1e-3 * float(np.abs(whole).max()), "nothing was removed")

    def test_classes_of_graphs(self):
        for build in NETS:
            with self.subTest(build.__name__):
                model, expected = build()
                report, narrow, recipe = self.prune(model, "--ratio", "50%", "--multiple", 1)
                dims = dims_of(narrow)
                for name, wanted in expected.items():
                    self.assertEqual([own if wanted[i] is None else wanted[i] for i, own in enumerate(dims[name])], dims[name], name)
                self.equals_masked(model, narrow, recipe)
                self.assertLess(report["parameters_after"], report["parameters_before"])


if __name__ == "__main__":
    unittest.main()
