"""Checks that the float64 oracle really computes in float64, and its convolution against a plain loop.

Relies on scripts/reference64.py and on formulas written out here.
"""

import itertools
import math
import os
import pathlib
import sys
import unittest

import numpy as np
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "scripts"))

import reference64  # noqa: E402

SHARP = 1e-13


def one_node(op, arrays, opset=20, **attributes):
    names = [f"x{index}" for index in range(len(arrays))]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)], "one",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(array.shape))
         for name, array in zip(names, arrays)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return reference64.evaluate(model, dict(zip(names, arrays)))["y"]


def plain_convolution(x, w, strides, pads, dilations, group):
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    rows, columns = [(x.shape[2 + i] - dilations[i] * (w.shape[2 + i] - 1) - 1) // strides[i] + 1 for i in range(2)]
    y = np.zeros((x.shape[0], w.shape[0], rows, columns))
    per_group = w.shape[0] // group
    for n, o, r, c in itertools.product(*map(range, y.shape)):
        for i, a, b in itertools.product(*map(range, w.shape[1:])):
            channel = o // per_group * w.shape[1] + i
            y[n, o, r, c] += w[o, i, a, b] * x[n, channel, r * strides[0] + a * dilations[0],
                                               c * strides[1] + b * dilations[1]]
    return y


class Reference64(unittest.TestCase):
    def setUp(self):
        self.generator = np.random.default_rng(0)

    def normal(self, *shape):
        return self.generator.standard_normal(shape, np.float32)

    def expect(self, wanted, got, tolerance=SHARP):
        self.assertEqual(np.float64, got.dtype)
        self.assertLess(np.abs(wanted - got).max() / np.abs(wanted).max(), tolerance)

    def test_convolution(self):
        for group, strides, pads, dilations in ((1, [1, 1], [1, 1, 1, 1], [1, 1]), (2, [2, 1], [0, 1, 2, 0], [1, 2]),
                                                (4, [2, 2], [1, 1, 1, 1], [1, 1])):
            x, w = self.normal(2, 4, 7, 9), self.normal(8, 4 // group, 3, 3)
            got = one_node("Conv", [x, w], strides=strides, pads=pads, dilations=dilations, group=group)
            wide = plain_convolution(x.astype(np.float64), w.astype(np.float64), strides, pads, dilations, group)
            self.expect(wide, got)

    def test_activations(self):
        x = self.normal(50)
        wide = x.astype(np.float64)
        erf = np.array([math.erf(value / math.sqrt(2)) for value in wide])
        self.expect(wide * (1 + erf) / 2, one_node("Gelu", [x]))
        self.expect(np.tanh(wide), one_node("Tanh", [x]))

    def test_norms(self):
        x, scale, bias = self.normal(3, 40), self.normal(40), self.normal(40)
        wide = x.astype(np.float64)
        centered = wide - wide.mean(1, keepdims=True)
        normal = centered / np.sqrt((centered**2).mean(1, keepdims=True) + np.float32(1e-5))
        self.expect(normal * scale + bias, one_node("LayerNormalization", [x, scale, bias], epsilon=1e-5), 1e-12)
        power = np.exp(wide - wide.max(1, keepdims=True))
        self.expect(power / power.sum(1, keepdims=True), one_node("Softmax", [x], axis=-1))

    def test_single_precision_would_fail(self):
        x = self.normal(50)
        wanted = np.tanh(x.astype(np.float64))
        with self.assertRaises(AssertionError):
            self.expect(wanted, np.tanh(x).astype(np.float64))


if __name__ == "__main__":
    unittest.main()
