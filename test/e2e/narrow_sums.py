"""Sums of squares, their roots, variances, running sums and products of 16-bit floats, whose squares their own type cannot hold, and roots of sums of integers: each ONNX operator beside float64."""

import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from tool import ToolTest

SHAPE = (2, 8, 12, 10)
ALL = (1, 2, 3)


def local_response(x):
    """LRN of three channels, whose bias is nothing beside the squares."""
    squares = np.pad(x * x, [(0, 0), (1, 1), (0, 0), (0, 0)])
    return x / (1e-4 / 3 * (squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:])) ** 0.75


def pooled(x):
    """LpPool of 2 x 2."""
    squares = (x * x).reshape(SHAPE[0], SHAPE[1], SHAPE[2] // 2, 2, SHAPE[3] // 2, 2)
    return np.sqrt(squares.sum((3, 5)))


def log_sum_exp(x):
    top = x.max(ALL, keepdims=True)
    return np.log(np.exp(x - top).sum(ALL, keepdims=True)) + top


# name: (operator, attributes, whether the axes are an input, what it means)
OPERATORS = {
    "l2": ("ReduceL2", {}, True, lambda x: np.sqrt((x * x).sum(ALL, keepdims=True))),
    "squares": ("ReduceSumSquare", {}, True, lambda x: (x * x).sum(ALL, keepdims=True)),
    "log": ("ReduceLogSumExp", {}, True, log_sum_exp),
    "lp": ("LpNormalization", {"axis": 1, "p": 2}, False, lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
    "variance": ("MeanVarianceNormalization", {"axes": [0, 2, 3]}, False, lambda x: (x - x.mean((0, 2, 3), keepdims=True)) / (x.std((0, 2, 3), keepdims=True) + 1e-9)),
    "pool": ("LpPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, False, pooled),
    "global": ("GlobalLpPool", {}, False, lambda x: np.sqrt((x * x).sum((2, 3), keepdims=True))),
    "local": ("LRN", {"size": 3, "bias": 1e-30}, False, local_response),
}


class NarrowSums(ToolTest):
    def test_every_operator(self):
        nodes = [helper.make_node("Constant", [], ["axes"], value_ints=list(ALL))]
        nodes += [helper.make_node(op, ["x", "axes"] if takes_axes else ["x"], [name], name=name, **attributes)
                  for name, (op, attributes, takes_axes, _) in OPERATORS.items()]
        for element, kind in ((TensorProto.FLOAT16, np.float16), (TensorProto.FLOAT, np.float32)):
            graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", element, SHAPE)],
                                      [helper.make_tensor_value_info(name, element, None) for name in OPERATORS])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), self.folder / "m.onnx")
            self.succeed("compile", "m.onnx", "-o", "m.tenon")
            for size in (1e-4, 1, 300):
                x = (np.random.default_rng(0).uniform(0.5, 1.5, SHAPE) * size).astype(kind)
                np.savez(self.folder / "in.npz", x=x)
                self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
                outputs = np.load(self.folder / "out.npz")
                for name, (*_, meaning) in OPERATORS.items():
                    want, limits = meaning(x.astype(np.float64)), np.finfo(kind)
                    # What the type cannot hold is not asked for; results of a variance are near 0 where an element is the mean.
                    held = (np.abs(want) < limits.max) & (np.abs(want) > 64 * limits.tiny)
                    with self.subTest(operator=name, kind=kind.__name__, size=size):
                        np.testing.assert_allclose(outputs[name].astype(np.float64)[held], want[held], rtol=4 * limits.eps, atol=1e-6 if name == "variance" else 0)

    def run_on(self, nodes, element, x, outputs):
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", element, x.shape)],
                                  [helper.make_tensor_value_info(name, element, None) for name in outputs])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=10), self.folder / "r.onnx")
        np.savez(self.folder / "x.npz", x=x)
        self.succeed("run", "r.onnx", "--inputs", "x.npz", "-o", "y.npz")
        return np.load(self.folder / "y.npz")

    def test_running_sums_and_products(self):
        axis = helper.make_node("Constant", [], ["axis"], value_int=1)
        nodes = [axis] + [helper.make_node(op, ["x", "axis"], [f"{op} {reverse}"], reverse=reverse) for op in ("CumSum", "CumProd") for reverse in (0, 1)]
        x = (1 + np.random.default_rng(0).uniform(-0.1, 0.1, (3, 3000))).astype(np.float16)
        outputs = self.run_on(nodes, TensorProto.FLOAT16, x, [f"{op} {reverse}" for op in ("CumSum", "CumProd") for reverse in (0, 1)])
        for op, meaning in (("CumSum", np.cumsum), ("CumProd", np.cumprod)):
            for reverse in (0, 1):
                step = -1 if reverse else 1
                want = meaning(x.astype(np.float64)[:, ::step], axis=1)[:, ::step]
                normal = want > np.finfo(np.float16).tiny
                np.testing.assert_allclose(outputs[f"{op} {reverse}"].astype(np.float64)[normal], want[normal], rtol=1e-3)

    def test_roots_of_integers(self):
        names = ("ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceL1")
        x = np.array([[3, 4, 12], [100, -7, 1000], [46000, 5, 6]], np.int32)
        nodes = [helper.make_node("Constant", [], ["axes"], value_ints=[1])] + [helper.make_node(name, ["x", "axes"], [name], keepdims=0) for name in names]
        outputs, wide = self.run_on(nodes, TensorProto.INT32, x, names), x.astype(np.float64)
        squares = (wide * wide).sum(1)
        for name, want in zip(names, (np.sqrt(squares), squares, np.log(wide.sum(1)), np.abs(wide).sum(1))):
            np.testing.assert_array_equal(outputs[name], want.astype(np.int32), name)


if __name__ == "__main__":
    unittest.main()
