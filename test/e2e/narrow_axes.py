"""Convolutions and pools of one to three dims whose sizes, strides, dilations or pads leave an axis of one, so that kernel
taps lie wholly in padding, against ONNX Runtime: many nodes in one model for each rank, and the same weights for two batches.
"""

import itertools
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tool import ToolTest

# size of the narrow axis, kernel, stride, pad, dilation
WINDOWS = ((1, 3, 1, 1, 1), (1, 3, 2, 1, 1), (2, 5, 2, 2, 1), (1, 3, 1, 2, 2), (3, 3, 3, 0, 1), (2, 3, 4, 1, 1))
CHANNELS = ((8, 32), (3, 4))


class NarrowAxes(ToolTest):
    def check(self, rank, batch):
        random = np.random.default_rng(rank)
        nodes, weights, inputs, outputs = [], [], {}, []

        def add(op, operands, name, **attributes):
            nodes.append(helper.make_node(op, operands, [name], **attributes))
            return name

        def constant(name, *dims):
            weights.append(numpy_helper.from_array(random.standard_normal(dims).astype(np.float32), name))
            return name

        for narrow, window, (into, out) in itertools.product(range(rank), WINDOWS, CHANNELS):
            rows = [(4, 3, 1, 1, 1)] * rank
            rows[narrow] = window
            dims, kernel, strides, pads, dilations = (list(column) for column in zip(*rows))
            label = f"{narrow}_" + "_".join(map(str, (*window, into, out)))
            x = "x_" + "_".join(map(str, (into, *dims)))
            inputs[x] = random.standard_normal((batch, into, *dims)).astype(np.float32)
            geometry = {"strides": strides, "pads": pads * 2, "dilations": dilations}
            operands = [x, constant(f"w{label}", out, into, *kernel), constant(f"b{label}", out)]
            outputs.append(add("Relu", [add("Conv", operands, f"c{label}", **geometry)], f"conv{label}"))
            if window[3] < kernel[narrow] and into == 3:
                pool = dict(kernel_shape=kernel, strides=strides, pads=pads * 2)
                if window[4] == 1:
                    outputs.append(add("AveragePool", [x], f"average{label}", **pool))
                    outputs.append(add("MaxPool", [x], f"max{label}", **pool))
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, self.folder / "m.onnx")
        np.savez(self.folder / "in.npz", **inputs)
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:avx2")
        self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
        found = np.load(self.folder / "out.npz")
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for name, wanted in zip(outputs, session.run(outputs, inputs)):
            with self.subTest(rank=rank, batch=batch, output=name):
                np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-4)

    def test_one_dim(self):
        self.check(1, 1)

    def test_two_dims(self):
        self.check(2, 1)

    def test_three_dims(self):
        self.check(3, 1)

    def test_three_dims_of_a_batch(self):
        self.check(3, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
