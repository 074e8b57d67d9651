"""Which rows of a batch an engine calls independent: models of which each mixes rows in one way or in none, and the runs that must
agree with what the record says: rows of an independent output are, bit by bit or by rounding, what each gives alone, wherever it stands.
"""

import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from tool import ToolTest

RANDOM = np.random.default_rng(47)
N = helper.make_node
WIDTH = 8


def weight(*dims):
    return RANDOM.standard_normal(dims).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


# name: (nodes from x [b, 8] or ids [b, n] to y, weights, the words of the node that mixes; empty where none does)
MODELS = {
    "linear": ([N("MatMul", ["x", "w"], ["y"])], {"w": weight(8, 5)}, ""),
    "softmax": ([N("Softmax", ["x"], ["y"], axis=1)], {}, ""),
    "softmax_rows": ([N("Softmax", ["x"], ["y"], axis=0)], {}, "normalizes over the rows"),
    "layer_norm": ([N("LayerNormalization", ["x", "w"], ["y"])], {"w": weight(8)}, ""),
    "heads": ([N("Reshape", ["x", "split"], ["h"]), N("Transpose", ["h"], ["t"], perm=[0, 2, 1]), N("MatMul", ["h", "t"], ["s"]),
               N("Reshape", ["s", "flat"], ["f"]), N("MatMul", ["f", "w"], ["y"])],
              {"split": ints(0, 2, 4), "flat": ints(-1, 4), "w": weight(4, 3)}, ""),
    "folded": ([N("Reshape", ["x", "split"], ["h"]), N("MatMul", ["h", "w"], ["m"]), N("Relu", ["m"], ["r"]), N("Reshape", ["r", "back"], ["y"])],
               {"split": ints(-1, 4), "w": weight(4, 3), "back": ints(-1, 6)}, ""),
    "conv": ([N("Reshape", ["x", "image"], ["i"]), N("Conv", ["i", "k"], ["c"], pads=[1, 1, 1, 1]), N("GlobalAveragePool", ["c"], ["p"]), N("Flatten", ["p"], ["y"])],
             {"image": ints(0, 2, 2, 2), "k": weight(3, 2, 3, 3)}, ""),
    "turned_image": ([N("Transpose", ["x"], ["t"], perm=[1, 0]), N("MatMul", ["w", "t"], ["m"]), N("Transpose", ["m"], ["y"], perm=[1, 0])], {"w": weight(5, 8)}, ""),
    "sorted": ([N("TopK", ["x", "k"], ["y", "at"], axis=1)], {"k": ints(3)}, ""),
    "sorted_rows": ([N("TopK", ["x", "k"], ["y", "at"], axis=0), ], {"k": ints(1)}, "sorts the rows"),
    "concat": ([N("Concat", ["x", "x"], ["y"], axis=1)], {}, ""),
    "table": ([N("Cast", ["x"], ["i"], to=T.INT64), N("Gather", ["w", "i"], ["e"]), N("ReduceMax", ["e", "one"], ["y"], keepdims=0)], {"w": weight(9, 4), "one": ints(1)}, ""),
    "last_token": ([N("Reshape", ["x", "split"], ["h"]), N("ArgMax", ["h"], ["a"], axis=1), N("GatherElements", ["h", "a"], ["y"], axis=1)], {"split": ints(0, 2, 4)}, ""),
    "mean": ([N("ReduceMean", ["x", "zero"], ["m"]), N("Sub", ["x", "m"], ["y"])], {"zero": ints(0)}, "takes the mean over the rows"),
    "gated": ([N("ReduceMean", ["x", "zero"], ["m"]), N("Sub", ["m", "limit"], ["s"]), N("Relu", ["s"], ["r"]), N("Add", ["x", "r"], ["y"])],
              {"zero": ints(0), "limit": np.float32(20)}, "takes the mean over the rows"),
    "largest": ([N("ReduceMax", ["x"], ["m"], keepdims=0), N("Max", ["m", "six"], ["k"]), N("Div", ["x", "k"], ["y"])], {"six": np.float32(6)}, "takes the largest of all rows"),
    "capacity": ([N("ReduceSum", ["x", "one"], ["s"]), N("Mul", ["s", "none"], ["z"]), N("Add", ["z", "unit"], ["o"]), N("CumSum", ["o", "first"], ["c"]),
                  N("LessOrEqual", ["c", "most"], ["k"]), N("Where", ["k", "x", "none"], ["y"])],
                 {"one": ints(1), "none": np.float32(0), "unit": np.float32(1), "first": np.int64(0), "most": np.float32(16)}, "adds up one row after the other"),
    "one_scale": ([N("Clip", ["x", "none", "six"], ["r"]), N("DynamicQuantizeLinear", ["r"], ["q", "s", "z"]), N("DequantizeLinear", ["q", "s", "z"], ["y"])],
                  {"none": np.float32(0), "six": np.float32(6)}, "of all rows"),
    "first_row": ([N("Slice", ["x", "zero", "one", "zero"], ["head"]), N("Add", ["x", "head"], ["y"])], {"zero": ints(0), "one": ints(1)}, "takes some of the rows"),
    "reversed": ([N("Slice", ["x", "last", "before", "zero", "last"], ["y"])], {"last": ints(-1), "before": ints(-1 << 40), "zero": ints(0)}, "rows"),
    "pairs": ([N("Transpose", ["x"], ["t"], perm=[1, 0]), N("MatMul", ["x", "t"], ["s"]), N("ReduceSum", ["s", "one"], ["y"])], {"one": ints(1)}, "every other"),
    "gram": ([N("Transpose", ["x"], ["t"], perm=[1, 0]), N("MatMul", ["t", "x"], ["g"]), N("MatMul", ["x", "g"], ["y"])], {}, "sums products over the rows"),
    "count": ([N("Shape", ["x"], ["s"], start=0, end=1), N("Cast", ["s"], ["f"], to=T.FLOAT), N("Div", ["x", "f"], ["y"])], {}, "number of rows"),
    "numbered": ([N("Shape", ["x"], ["s"], start=0, end=1), N("Squeeze", ["s"], ["n"]), N("Range", ["zero", "n", "one"], ["r"]), N("Cast", ["r"], ["f"], to=T.FLOAT),
                  N("Unsqueeze", ["f", "axis"], ["u"]), N("Add", ["x", "u"], ["y"])], {"zero": np.int64(0), "one": np.int64(1), "axis": ints(1)}, "number of rows"),
    "own_by_number": ([N("Shape", ["x"], ["s"], start=0, end=1), N("Squeeze", ["s"], ["n"]), N("Range", ["zero", "n", "one"], ["r"]), N("ArgMax", ["x"], ["a"], axis=1, keepdims=0),
                       N("Unsqueeze", ["r", "axis"], ["ru"]), N("Unsqueeze", ["a", "axis"], ["au"]), N("Concat", ["ru", "au"], ["i"], axis=1), N("GatherND", ["x", "i"], ["y"])],
                      {"zero": np.int64(0), "one": np.int64(1), "axis": ints(1)}, ""),
    "all_by_number": ([N("Shape", ["x"], ["s"], start=0, end=1), N("Squeeze", ["s"], ["n"]), N("Range", ["zero", "n", "one"], ["r"]), N("Gather", ["x", "r"], ["y"])],
                      {"zero": np.int64(0), "one": np.int64(1)}, ""),
    "numbers": ([N("Shape", ["x"], ["s"], start=0, end=1), N("Squeeze", ["s"], ["n"]), N("Range", ["zero", "n", "one"], ["y"])], {"zero": np.int64(0), "one": np.int64(1)}, "number of rows"),
    "next_by_number": ([N("Shape", ["x"], ["s"], start=0, end=1), N("Squeeze", ["s"], ["n"]), N("Range", ["zero", "n", "one"], ["r"]), N("Sub", ["r", "one"], ["q"]), N("Gather", ["x", "q"], ["y"])],
                       {"zero": np.int64(0), "one": np.int64(1)}, "number of rows"),
    "other_row": ([N("Cast", ["x"], ["i"], to=T.INT64), N("ReduceMin", ["i", "one"], ["m"], keepdims=0), N("Mul", ["m", "none"], ["p"]), N("Gather", ["x", "p"], ["y"])],
                  {"one": ints(1), "none": np.int64(0)}, "picks rows by number"),
    "cut": ([N("Transpose", ["x"], ["t"], perm=[1, 0]), N("Reshape", ["t", "back"], ["y"])], {"back": ints(-1, 8)}, "rows"),
}


class Rows(ToolTest):
    def compiled(self, name):
        nodes, weights, _ = MODELS[name]
        for i, node in enumerate(nodes):
            node.name = f"{name}_{i}"
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, ["b", WIDTH])], [helper.make_empty_tensor_value_info("y")],
                                  [numpy_helper.from_array(np.asarray(value), key) for key, value in weights.items()])
        graph = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
        onnx.save(graph, self.folder / f"{name}.onnx")
        self.succeed("compile", f"{name}.onnx", "-o", f"{name}.tenon", "--target", "cpu:avx2")
        return self.json("inspect", f"{name}.tenon", "--format", "json")["rows"]

    def run_on(self, name, x):
        np.savez(self.folder / "in.npz", x=x)
        self.succeed("run", f"{name}.tenon", "--inputs", "in.npz", "-o", "out.npz")
        return np.load(self.folder / "out.npz")["y"]

    def test_record(self):
        """What the record says of each class, and that runs do not contradict it."""
        for name, (_, _, how) in MODELS.items():
            with self.subTest(model=name):
                (output,) = self.compiled(name)
                self.assertEqual("y", output["name"])
                self.assertEqual(how == "", output["independent"])
                if how:
                    self.assertIn(how, output["how"])
                    continue
                x = np.concatenate([RANDOM.random((20, WIDTH)) * 8, RANDOM.random((20, WIDTH)) * 0.01]).astype(np.float32)
                batched = self.run_on(name, x)
                self.assertEqual(len(x), len(batched))
                for i in (0, 17, 39):
                    np.testing.assert_allclose(batched[i:i + 1], self.run_on(name, x[i:i + 1]), rtol=1e-5, atol=1e-5)

    def test_text(self):
        self.compiled("mean"), self.compiled("linear")
        self.assertIn("rows    y: node 'mean_0' takes the mean over the rows", self.succeed("inspect", "mean.tenon").stdout)
        self.assertIn("rows    y: independent", self.succeed("inspect", "linear.tenon").stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
