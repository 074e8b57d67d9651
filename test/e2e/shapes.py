"""Shapes that are known only when a model runs: for each rule that relates dims, an engine compiled with symbols is run at sizes
inside and outside of what the rule allows.

Relies on onnx's reference evaluator: where it has an answer, the engine has the same or refuses with the constraint's node; where it
has none, the engine refuses. An answer where there is none, or another one, is the fault that this looks for.
"""

import itertools
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tool import ToolTest

FLOAT = TensorProto.FLOAT
SIZES = [1, 2, 3, 4, 5, 8, 10, 12, 16]

# What is missing to a multiple of 4 as pads of the last of two dims.
REST = [("Shape", "x", "n", {"start": 1}), ("Mod", "n four", "r", {}), ("Sub", "four r", "d", {}),
        ("Mod", "d four", "e", {}), ("Concat", "none e", "p", {"axis": 0})]
MULTIPLE = {"four": np.array([4]), "none": np.array([0, 0, 0])}

# Name; nodes as (operator, inputs, outputs, attributes); dims of the inputs; constants; sizes at which the engine must answer.
CASES = [
    ("add a constant", [("Add", "x w", "y", {})], {"x": ["N"]}, {"w": (4,)}, {1, 4}),
    ("add a constant, inner", [("Add", "x w", "y", {})], {"x": ["N", 3]}, {"w": (4, 3)}, {1, 4}),
    ("add positions", [("Add", "x w", "y", {})], {"x": [2, "N", 8]}, {"w": (1, 16, 8)}, {1, 16}),
    ("subtract from a constant", [("Sub", "w x", "y", {})], {"x": [3, "N"]}, {"w": (5,)}, {1, 5}),
    ("compare with a constant", [("Less", "x w", "b", {}), ("Cast", "b", "y", {"to": FLOAT})], {"x": ["N", 2]},
     {"w": (3, 1)}, {1, 3}),
    ("select by a constant", [("Less", "w x", "b", {}), ("Where", "b x v", "y", {})], {"x": ["N", 2]},
     {"w": (4, 2), "v": (4, 1)}, {1, 4}),
    ("power", [("Abs", "x", "a", {}), ("Pow", "a w", "y", {})], {"x": ["N"]}, {"w": (4,)}, {1, 4}),
    ("broadcast, then softmax", [("Add", "x w", "a", {}), ("Softmax", "a", "y", {"axis": -1})], {"x": [2, "N"]},
     {"w": (8,)}, {1, 8}),
    ("broadcast twice", [("Add", "x w", "a", {}), ("Mul", "a x", "y", {})], {"x": ["N", 3]}, {"w": (4, 3)}, {1, 4}),
    ("batch of a product", [("MatMul", "x w", "y", {})], {"x": ["N", 2, 3]}, {"w": (4, 3, 5)}, {1, 4}),
    ("batch of a product, right", [("MatMul", "w x", "y", {})], {"x": ["N", 3, 2]}, {"w": (4, 5, 3)}, {1, 4}),
    ("inner dim of a product", [("MatMul", "x w", "y", {})], {"x": [2, "N"]}, {"w": (4, 5)}, {4}),
    ("expand", [("Expand", "x s", "y", {})], {"x": ["N", 1]}, {"s": np.array([2, 4, 3])}, {1, 4}),
    ("prelu", [("PRelu", "x w", "y", {})], {"x": [2, "N", 3]}, {"w": (4, 1)}, {4}),
    ("two symbols", [("Add", "x z", "y", {})], {"x": ["N"], "z": ["M"]}, {}, None),
    ("concat beside the axis", [("Concat", "x w", "y", {"axis": 1})], {"x": ["N", 2]}, {"w": (4, 3)}, {4}),
    ("split by sizes", [("Split", "x s", "y z", {"axis": 0})], {"x": ["N", 4]}, {"s": np.array([2, 3])}, {5}),
    ("split into equal parts", [("Split", "x", "y z", {"axis": 0})], {"x": ["N", 4]}, {}, {2, 4, 8, 10, 12, 16}),
    ("reshape to constants", [("Reshape", "x s", "y", {})], {"x": ["N", 2]}, {"s": np.array([4, 2])}, {4}),
    ("reshape with a rest", [("Reshape", "x s", "y", {})], {"x": ["N", 3]}, {"s": np.array([-1, 4])}, {4, 8, 12, 16}),
    ("reshape into groups", [("Reshape", "x s", "y", {})], {"x": [2, "N"]}, {"s": np.array([2, 5, -1])}, {5, 10}),
    ("squeeze", [("Squeeze", "x s", "y", {})], {"x": ["N", 3]}, {"s": np.array([0])}, {1}),
    ("depth to space", [("DepthToSpace", "x", "y", {"blocksize": 2})], {"x": [1, "N", 2, 2]}, {}, {4, 8, 12, 16}),
    ("space to depth", [("SpaceToDepth", "x", "y", {"blocksize": 2})], {"x": [1, 1, "N", 2]}, {}, {2, 4, 8}),
    ("a window", [("Conv", "x w", "y", {})], {"x": [1, 2, "N", 5]}, {"w": (3, 2, 3, 3)}, {3, 4, 5, 8}),
    ("a strided window", [("Conv", "x w", "y", {"strides": [2, 2], "pads": [1, 1, 1, 1]})], {"x": [1, 2, "N", "N"]},
     {"w": (3, 2, 3, 3)}, {1, 2, 3, 4, 5}),
    ("channels of a convolution", [("Conv", "x w", "y", {})], {"x": [1, "N", 5, 5]}, {"w": (3, 4, 3, 3)}, {4}),
    ("a pooled window", [("MaxPool", "x", "y", {"kernel_shape": [3]})], {"x": [1, 2, "N"]}, {}, {3, 4, 5, 8}),
    ("down and up again", [("MaxPool", "x", "a", {"kernel_shape": [2], "strides": [2]}),
                           ("Concat", "a a", "b", {"axis": 2}), ("Add", "x b", "y", {})],
     {"x": [1, 2, "N"]}, {}, {2, 4, 8, 10, 12, 16}),
    ("a reflected border", [("Pad", "x s", "y", {"mode": "reflect"})], {"x": ["N"]}, {"s": np.array([2, 2])}, {1, 2, 3, 4, 5}),
    ("padded to a multiple", [*REST, ("Pad", "x p", "y", {})], {"x": [2, "N"]}, MULTIPLE, set(SIZES)),
    ("reflected to a multiple", [*REST, ("Pad", "x p", "y", {"mode": "reflect"})], {"x": [2, "N"]}, MULTIPLE,
     {3, 4, 5, 8, 10, 12, 16}),
    ("repeated to a multiple", [*REST, ("Pad", "x p", "y", {"mode": "edge"})], {"x": [2, "N"]}, MULTIPLE, set(SIZES)),
    ("a border taken off", [("Pad", "x s", "y", {})], {"x": ["N"]}, {"s": np.array([-2, -1])}, {4, 5, 8}),
    ("a slice at the end", [("Slice", "x s e a", "y", {})], {"x": [2, "N"]},
     {"s": np.array([-3]), "e": np.array([100000]), "a": np.array([1])}, {3, 4, 5}),
    ("the largest", [("TopK", "x s", "y i", {})], {"x": [2, "N"]}, {"s": np.array([3])}, {3, 4, 5}),
    ("attention by hand", [("MatMul", "x t", "s", {}), ("Add", "s m", "a", {}), ("Softmax", "a", "p", {"axis": -1}),
                           ("MatMul", "p x", "y", {})],
     {"x": [1, "N", 8], "t": [1, 8, "N"]}, {"m": (1, 4, 4)}, {4}),
]


def model_of(nodes, inputs, constants):
    made = [helper.make_node(op, ins.split(), outs.split(), name=f"{op}_{i}", **attributes)
            for i, (op, ins, outs, attributes) in enumerate(nodes)]
    seeded = np.random.default_rng(7)
    initializers = [numpy_helper.from_array(value if isinstance(value, np.ndarray)
                                            else seeded.standard_normal(value).astype(np.float32), name)
                    for name, value in constants.items()]
    ports = [helper.make_tensor_value_info(name, FLOAT, dims) for name, dims in inputs.items()]
    outputs = [helper.make_empty_tensor_value_info(nodes[-1][2].split()[0])]
    graph = helper.make_graph(made, "g", ports, outputs, initializers)
    opset = 13 if nodes[0][0] == "Split" else 18
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


class Shapes(ToolTest):
    def inputs_at(self, inputs, sizes):
        seeded = np.random.default_rng(3)
        return {name: seeded.standard_normal([sizes.get(dim, dim) for dim in dims]).astype(np.float32)
                for name, dims in inputs.items()}

    def check(self, case):
        name, nodes, inputs, constants, answered = case
        model = model_of(nodes, inputs, constants)
        path, engine, given, got = (self.folder / f for f in ("m.onnx", "m.tenon", "in.npz", "out.npz"))
        onnx.save(model, str(path))
        self.succeed("compile", path, "-o", engine, "--target", "cpu:avx2")
        reference = ReferenceEvaluator(model)
        symbols = sorted({dim for dims in inputs.values() for dim in dims if isinstance(dim, str)})
        for values in itertools.product(SIZES, repeat=len(symbols)):
            sizes = dict(zip(symbols, values))
            where = f"{name} at {sizes}"
            tensors = self.inputs_at(inputs, sizes)
            np.savez(given, **tensors)
            done = self.call("run", engine, "--inputs", given, "-o", got)
            try:
                want = reference.run(None, tensors)[0]
            except Exception:
                # ONNX's reference has no negative padding.
                want = tensors["x"][2:-1] if name == "a border taken off" and sizes["N"] >= 3 else None
            if done.returncode == 0:
                have = np.load(got)[nodes[-1][2].split()[0]]
                if want is None and have.size == 0:
                    continue  # the reference knows no empty tensors
                self.assertIsNotNone(want, f"{where}: an answer where there is none")
                self.assertEqual(want.shape, have.shape, where)
                np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5, err_msg=where)
            else:
                self.assertEqual(2, done.returncode, f"{where}: {done.stderr}")
                self.assertIn("TN0612", done.stderr, where)
                self.assertRegex(done.stderr, r"node '\w+_\d' needs that .*[NM] = \d+ \(dim \d of input '\w'\)", where)
            if answered is not None and values[0] in answered:
                self.assertEqual(0, done.returncode, f"{where}: {done.stderr}")
            if len(set(values)) == 1 and answered is None:
                self.assertEqual(0, done.returncode, f"{where}: {done.stderr}")

    def test_engines_list_what_they_need(self):
        model = model_of(*CASES[0][1:4])
        onnx.save(model, str(self.folder / "m.onnx"))
        self.succeed("compile", self.folder / "m.onnx", "-o", self.folder / "m.tenon")
        self.assertIn("N is 4 or 1  by node 'Add_0'", self.succeed("inspect", self.folder / "m.tenon").stdout)
        needs = self.json("inspect", self.folder / "m.tenon")["constraints"]
        self.assertEqual([{"needs": "N is 4 or 1", "node": "Add_0"}], needs)


def add_case(case):
    setattr(Shapes, "test_" + case[0].replace(",", "").replace(" ", "_"), lambda self: self.check(case))


for each in CASES:
    add_case(each)

if __name__ == "__main__":
    unittest.main()
