"""Slices with constant bounds over free dims, at sizes on both sides of every bound, against NumPy; what reads them, CumProd and Squeeze."""

import json
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tool import ToolTest

SIZES = list(range(1, 13)) + [17, 40, 600]
END = 2**63 - 1


def constants(**values):
    return [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in values.items()]


class FreeSlices(ToolTest):
    def compile(self, nodes, inputs, outputs, initializers=(), opset=17, flags=()):
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()],
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in outputs.items()], list(initializers))
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), self.folder / "m.onnx")
        self.succeed("compile", "m.onnx", "-o", "m.tenon", *flags)
        return json.loads(self.succeed("inspect", "m.tenon", "--json").stdout)

    def run_at(self, **inputs):
        np.savez(self.folder / "in.npz", **inputs)
        self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
        return np.load(self.folder / "out.npz")

    def test_random_bounds(self):
        random = np.random.default_rng(46)
        slices = {}
        for i in range(60):
            bounds = [int(random.choice([random.integers(-9, 10), random.integers(-9, 10), random.integers(-600, 601), END, -END]) if rank else 0) for rank in (1, 1)]
            slices[f"y{i}"] = (*bounds, int(random.choice([1, 1, 1, 1, 2, 3, -1, -1, -2, -5])))
        nodes, initializers = [], constants(axis=[1])
        for name, (start, end, step) in slices.items():
            initializers += constants(**{name + "s": [start], name + "e": [end], name + "t": [step]})
            nodes.append(helper.make_node("Slice", ["x", name + "s", name + "e", "axis", name + "t"], [name]))
        engine = self.compile(nodes, {"x": [2, "n"]}, {name: None for name in slices}, initializers)
        self.assertEqual([], engine["constraints"])
        for n in SIZES:
            x = np.arange(2 * n, dtype=np.float32).reshape(2, n)
            outputs = self.run_at(x=x)
            for name, (start, end, step) in slices.items():
                with self.subTest(slice=f"{start}:{end}:{step}", n=n):
                    np.testing.assert_array_equal(outputs[name], x[:, start:end:step])

    def test_bounds_that_sizes_compute(self):
        """x[n - 4:], x[: n // 2 - 1] and x[2:m] of another free size."""
        nodes = [helper.make_node("Shape", ["x"], ["n"], start=1), helper.make_node("Shape", ["z"], ["m"], start=0), helper.make_node("Sub", ["n", "four"], ["less"]),
                 helper.make_node("Div", ["n", "two"], ["half"]), helper.make_node("Sub", ["half", "one"], ["before"]),
                 helper.make_node("Slice", ["x", "less", "open", "one"], ["tail"]), helper.make_node("Slice", ["x", "zero", "before", "one"], ["head"]),
                 helper.make_node("Slice", ["x", "two", "m", "one"], ["middle"]), helper.make_node("Identity", ["z"], ["same"])]
        engine = self.compile(nodes, {"x": [1, "n"], "z": ["m"]}, {name: None for name in ("tail", "head", "middle", "same")},
                              constants(zero=[0], one=[1], two=[2], four=[4], open=[END]))
        self.assertEqual([], engine["constraints"])
        for n in (1, 2, 3, 4, 5, 9, 40):
            for m in (1, 2, 3, 7, 50):
                x = np.arange(n, dtype=np.float32)[None]
                outputs = self.run_at(x=x, z=np.zeros(m, np.float32))
                for name, want in {"tail": x[:, n - 4:], "head": x[:, : n // 2 - 1], "middle": x[:, 2:m]}.items():
                    with self.subTest(name=name, n=n, m=m):
                        np.testing.assert_array_equal(outputs[name], want)

    def test_what_reads_a_slice(self):
        """Reflection by slices, truncated rows times a weight, a position table that ends, a sum with the slice of another input."""
        table, weight = (np.random.default_rng(i).standard_normal(shape).astype(np.float32) for i, shape in enumerate([(1, 7, 4), (4, 5)]))
        nodes = [helper.make_node("Slice", ["x", "one", "four", "one"], ["l"]), helper.make_node("Slice", ["x", "back", "last", "one"], ["r"]),
                 helper.make_node("Concat", ["l", "x", "r"], ["padded"], axis=1), helper.make_node("Slice", ["x", "zero", "five", "one"], ["short"]),
                 helper.make_node("MatMul", ["short", "weight"], ["product"]), helper.make_node("Softmax", ["product"], ["chance"]),
                 helper.make_node("ReduceMean", ["short"], ["mean"], axes=[1]), helper.make_node("Relu", ["r"], ["positive"])]
        initializers = [*constants(zero=[0], one=[1], four=[4], five=[5], back=[-4], last=[-1]), numpy_helper.from_array(weight, "weight")]
        engine = self.compile(nodes, {"x": ["b", "n", 4]}, {name: None for name in ("padded", "chance", "mean", "positive")}, initializers)
        self.assertEqual([], engine["constraints"])
        for n in SIZES:
            x = np.random.default_rng(n).standard_normal((2, n, 4)).astype(np.float32)
            outputs = self.run_at(x=x)
            powers = np.exp(x[:, :5] @ weight)
            for name, want in {"padded": np.concatenate([x[:, 1:4], x, x[:, -4:-1]], 1), "chance": powers / powers.sum(-1, keepdims=True), "mean": x[:, :5].mean(1, keepdims=True),
                               "positive": np.maximum(x[:, -4:-1], 0)}.items():
                with self.subTest(name=name, n=n):
                    np.testing.assert_allclose(outputs[name], want, rtol=1e-5, atol=1e-6)
        nodes = [helper.make_node("Shape", ["x"], ["n"], start=1, end=2), helper.make_node("Slice", ["table", "zero", "n", "one"], ["rows"]), helper.make_node("Add", ["x", "rows"], ["y"])]
        engine = self.compile(nodes, {"x": ["b", "n", 4]}, {"y": None}, [*constants(zero=[0], one=[1]), numpy_helper.from_array(table, "table")])
        self.assertEqual(["7 is at least n"], [entry["needs"] for entry in engine["constraints"]])
        for n in range(1, 8):
            x = np.ones((2, n, 4), np.float32)
            np.testing.assert_allclose(self.run_at(x=x)["y"], x + table[:, :n], rtol=1e-6)

    def test_cumprod_at_any_length(self):
        nodes = [helper.make_node("CumProd", ["x", "axis"], [f"y{exclusive}{reverse}"], exclusive=exclusive, reverse=reverse) for exclusive in (0, 1) for reverse in (0, 1)]
        engine = self.compile(nodes, {"x": [2, "n"]}, {node.output[0]: None for node in nodes}, [numpy_helper.from_array(np.array(1, np.int64), "axis")], opset=26)
        self.assertEqual([], engine["constraints"])
        for n in (1, 2, 3, 5, 8, 200):
            x = np.random.default_rng(n).uniform(0.9, 1.1, (2, n)).astype(np.float32)
            outputs = self.run_at(x=x)
            for reverse in (0, 1):
                whole = np.cumprod(x[:, ::-1] if reverse else x, 1)
                others = np.concatenate([np.ones((2, 1), np.float32), whole[:, :-1]], 1)
                for exclusive, want in ((0, whole), (1, others)):
                    np.testing.assert_allclose(outputs[f"y{exclusive}{reverse}"], want[:, ::-1] if reverse else want, rtol=1e-4)

    def test_narrowings_are_said(self):
        """With node and condition by check and compile, from the cache too; an error under --strict, unless the declared sizes fit."""
        graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"], name="add")], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(np.zeros(4, np.float32), "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "sum.onnx")
        said = [{"node": "add", "needs": "n is 4 or 1"}]
        for _ in range(2):
            self.assertEqual(said, json.loads(self.succeed("compile", "sum.onnx", "-o", "s.tenon", "--json").stdout)["narrowed"])
        self.assertIn("node 'add' needs that n is 4 or 1", self.succeed("compile", "sum.onnx", "-o", "s.tenon").stderr)
        self.assertEqual(said, json.loads(self.succeed("check", "sum.onnx", "--json").stdout)["narrowed"])
        self.assertIn("node 'add' needs that n is 4 or 1", self.succeed("check", "sum.onnx").stdout)
        for verb in (["compile", "sum.onnx", "-o", "t.tenon"], ["check", "sum.onnx"]):
            self.refuse(1, "TN0305", *verb, "--strict")
            self.assertEqual(verb[0] == "check", (self.folder / "t.tenon").exists())
            self.succeed(*verb, "--strict", "--shape", "x:4")

    def test_first_rows_of_a_scatter(self):
        """They share the scatter's memory where only operations read them: behind results, other writers and other rows too."""
        sizes = [helper.make_node("Shape", ["m"], ["n"])]
        cut = lambda x, begin, y: helper.make_node("Slice", [x, begin, "n", "zero"], [y])
        nodes = [*sizes, helper.make_node("ScatterND", ["x", "at", "u"], ["written"]), cut("written", "zero", "head"), cut("written", "one", "rest"),
                 helper.make_node("Exp", ["head"], ["read"]), helper.make_node("MatMul", ["head", "w"], ["product"]), cut("written", "zero", "returned"),
                 helper.make_node("Reshape", ["head", "flat"], ["line"]), helper.make_node("ReduceSum", ["line", "zero"], ["sum"]),
                 helper.make_node("Neg", ["rest"], ["tail"]), helper.make_node("Relu", ["written"], ["whole"]), helper.make_node("Identity", ["m"], ["same"])]
        names = {name: None for name in ("read", "product", "returned", "sum", "tail", "whole", "same")}
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 3]), helper.make_tensor_value_info("at", TensorProto.INT64, [2, 1]),
                                               helper.make_tensor_value_info("u", TensorProto.FLOAT, [2, 3]), helper.make_tensor_value_info("m", TensorProto.FLOAT, ["n"])],
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
                                  [*constants(zero=[0], one=[1], flat=[-1]), numpy_helper.from_array(np.ones((3, 2), np.float32), "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), self.folder / "m.onnx")
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--shape", "m:[1..8]")
        random = np.random.default_rng(1)
        for n in (1, 2, 5, 8):
            x, u, at = random.standard_normal((8, 3)).astype(np.float32), random.standard_normal((2, 3)).astype(np.float32), np.array([[0], [n - 1]])
            outputs = self.run_at(x=x, u=u, at=at, m=np.zeros(n, np.float32))
            written = x.copy()
            for row, update in zip(at[:, 0], u):
                written[row] = update
            head = written[:n]
            for name, value in dict(read=np.exp(head), product=head @ np.ones((3, 2)), returned=head, sum=head.sum(keepdims=False), tail=-written[1:n], whole=np.maximum(written, 0)).items():
                with self.subTest(n=n, name=name):
                    np.testing.assert_allclose(outputs[name].squeeze(), np.asarray(value).squeeze(), rtol=1e-5, atol=1e-6)

    def test_squeeze_without_axes(self):
        """The rank that the model states says whether the free dim goes; the engine holds runs to it."""
        for dims, wanted in ((["b", "n"], "b is at least 2"), (["n"], "b is 1"), (None, "b is 1")):
            nodes = [helper.make_node("Squeeze", ["x"], ["y"])]
            engine = self.compile(nodes, {"x": ["b", 1, "n"]}, {"y": dims}, flags=("--shape", "x:?x1x[2..64]") if dims == ["n"] else ())
            with self.subTest(dims=dims):
                self.assertEqual(wanted, engine["constraints"][0]["needs"])
                size = 1 if wanted == "b is 1" else 3
                x = np.random.default_rng(0).standard_normal((size, 1, 6)).astype(np.float32)
                np.testing.assert_array_equal(self.run_at(x=x)["y"], x.squeeze())

    def test_squeeze_of_a_batch_of_several(self):
        """Without a stated rank a batch is taken for one; what follows may be written for the other rank, and then the batch stays."""
        nodes = [helper.make_node("Squeeze", ["x"], ["s"]), helper.make_node("Transpose", ["s"], ["y"], perm=[1, 0])]
        engine = self.compile(nodes, {"x": ["b", 1, 3]}, {"y": None})
        self.assertEqual(["b is at least 2"], [entry["needs"] for entry in engine["constraints"]])
        for size in (2, 5):
            x = np.random.default_rng(size).standard_normal((size, 1, 3)).astype(np.float32)
            np.testing.assert_array_equal(self.run_at(x=x)["y"], x.squeeze().T)


if __name__ == "__main__":
    unittest.main()
