"""A size that an input asks for and a TopK bounds: the nearest neighbours of each row, as graph networks are exported. Every other
node that takes the same number as a size gets the same one, and a run that asks for more than there is ends in words.
"""

import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto as T
from selection import TARGET, Graph, by_runtime
from tool import ToolTest

RANDOM = np.random.default_rng(46)


def neighbours():
    """The distances to the k nearest rows, and for each the number of the row that it was measured from."""
    graph = Graph(opset=18)
    graph.input("x", ["N", 3])
    graph.input("k", [], T.INT64)
    for name, value in (("one", [1]), ("zero", 0), ("step", 1), ("all", [-1]), ("two", 2), ("first", [0])):
        graph.constant(name, np.array(value, np.int64))
    graph.constant("half", np.float32(0.5))
    add = graph.add
    add("Transpose", ["x"], "turned", perm=[1, 0])
    add("MatMul", ["x", "turned"], "scores")
    add("Reshape", ["k", "one"], "count", T.INT64)
    add("TopK", ["scores", "count"], ["nearest", "places"], T.INT64, axis=1)
    graph.outputs[-2].type.tensor_type.elem_type = T.FLOAT
    add("Shape", ["x"], "shape", T.INT64)
    add("Gather", ["shape", "zero"], "rows", T.INT64)
    add("Range", ["zero", "rows", "step"], "numbers", T.INT64)
    add("Unsqueeze", ["numbers", "one"], "column", T.INT64)
    add("Concat", ["one", "count"], "choice", T.INT64, axis=0)
    add("OneHot", ["one", "two", "choice"], "repeats", T.INT64)
    add("Reshape", ["repeats", "all"], "repeat_list", T.INT64)
    add("Tile", ["column", "repeat_list"], "sources", T.INT64)
    add("Mul", ["sources", "rows"], "base", T.INT64)
    add("Add", ["base", "places"], "edges", T.INT64)
    add("Reshape", ["scores", "all"], "list")
    add("Gather", ["list", "edges"], "again")
    add("Sub", ["nearest", "again"], "nothing")
    add("Range", ["zero", "k", "step"], "order", T.INT64)
    add("Add", ["order", "edges"], "ranked", T.INT64)
    add("Expand", ["half", "count"], "halves")
    return graph


class AskedSizes(ToolTest):
    def test_neighbours(self):
        model = neighbours().model()
        onnx.save(model, self.folder / "net.onnx")
        self.succeed("compile", "net.onnx", "-o", "net.tenon", "--target", TARGET, "--verify")
        for rows in (1, 2, 5, 33):
            x = RANDOM.standard_normal((rows, 3)).astype(np.float32)
            for k in {0, 1, rows // 2, rows}:
                feed = {"x": x, "k": np.array(k, np.int64)}
                np.savez(self.folder / "in.npz", **feed)
                self.succeed("run", "net.tenon", "--inputs", "in.npz", "-o", "out.npz")
                actual = np.load(self.folder / "out.npz")
                for value, wanted in zip(model.graph.output, by_runtime(model, feed)):
                    with self.subTest(rows=rows, k=k, output=value.name):
                        self.assertEqual(wanted.shape, actual[value.name].shape)
                        np.testing.assert_allclose(actual[value.name], wanted, rtol=2e-5, atol=2e-5)
            for k in (-1, rows + 1, 1 << 40):
                np.savez(self.folder / "in.npz", x=x, k=np.array(k, np.int64))
                self.assertIn("as many elements", self.refuse(5, "TN0611", "run", "net.tenon", "--inputs", "in.npz", "-o", "out.npz").stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
