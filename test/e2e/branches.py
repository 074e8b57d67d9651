"""Branches that only some sizes can take, and operators and fields that tools for trees and older exporters write, against ONNX Runtime."""

import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from tool import ToolTest

RANDOM = np.random.default_rng(11)


def info(name, kind=T.FLOAT, dims=None):
    return helper.make_tensor_value_info(name, kind, dims)


def branch(name, width):
    """A side for rows of `width` numbers: a product that fits no other width."""
    weight = numpy_helper.from_array(RANDOM.standard_normal((width, 4)).astype(np.float32), f"{name}_w")
    return helper.make_graph([helper.make_node("MatMul", ["x", f"{name}_w"], [f"{name}_y"], name=name)], name, [], [info(f"{name}_y")], [weight])


class Branches(ToolTest):
    def model(self, name, graph, opsets):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*each) for each in opsets], ir_version=9)
        onnx.save(model, self.folder / f"{name}.onnx")
        return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def test_a_side_that_the_sizes_rule_out(self):
        """The side that fits runs where the condition takes it; a run that takes the other one is refused in words."""
        rate = helper.make_node("Equal", ["rate", "high"], ["is_high"])
        choice = helper.make_node("If", ["is_high"], ["y"], name="choice", then_branch=branch("wide", 6), else_branch=branch("narrow", 3))
        graph = helper.make_graph([rate, choice], "g", [info("x", dims=["rows", "columns"]), info("rate", T.INT64, [])], [info("y")],
                                  [numpy_helper.from_array(np.int64(16000), "high")])
        session = self.model("sides", graph, [("", 17)])
        for columns, good, bad in ((6, 16000, 8000), (3, 8000, 16000)):
            self.succeed("compile", "sides.onnx", "-o", "sides.tenon", "--target", "cpu:avx2", "--shape", f"x:5x{columns}")
            feed = {"x": RANDOM.standard_normal((5, columns)).astype(np.float32), "rate": np.array(good)}
            np.savez(self.folder / "in.npz", **feed)
            self.succeed("run", "sides.tenon", "--inputs", "in.npz", "-o", "out.npz")
            np.testing.assert_allclose(np.load(self.folder / "out.npz")["y"], session.run(None, feed)[0], rtol=2e-5, atol=2e-5)
            np.savez(self.folder / "in.npz", **(feed | {"rate": np.array(bad)}))
            self.assertIn("_branch", self.refuse(5, "TN0611", "run", "sides.tenon", "--inputs", "in.npz", "-o", "out.npz").stderr)
        self.refuse(5, "TN0236", "check", "sides.onnx", "--shape", "x:2x5")

    def test_sides_that_differ_by_size(self):
        """Where sizes decide between results of other ranks, the report says which flag fixes them, and with it the model runs."""
        def side(name, node):
            return helper.make_graph([node], name, [], [info(node.output[0])])

        nodes = [helper.make_node("Shape", ["x"], ["n"], start=1, end=2), helper.make_node("Less", ["n", "three"], ["is_short"]),
                 helper.make_node("If", ["is_short"], ["y"], name="choice",
                                  then_branch=side("longer", helper.make_node("Unsqueeze", ["x", "one"], ["a"])),
                                  else_branch=side("same", helper.make_node("Identity", ["x"], ["b"])))]
        weights = [numpy_helper.from_array(np.array([number]), name) for name, number in (("three", 3), ("one", 1))]
        graph = helper.make_graph(nodes, "g", [info("x", dims=[None, None])], [info("y")], weights)
        session = self.model("by_size", graph, [("", 17)])
        self.assertIn("--shape 'x:?x?'", self.refuse(3, "TN0301", "check", "by_size.onnx").stderr)
        for columns in (2, 5):
            feed = {"x": RANDOM.standard_normal((4, columns)).astype(np.float32)}
            np.savez(self.folder / "in.npz", **feed)
            self.succeed("compile", "by_size.onnx", "-o", "by_size.tenon", "--target", "cpu:avx2", "--shape", f"x:4x{columns}")
            self.succeed("run", "by_size.tenon", "--inputs", "in.npz", "-o", "out.npz")
            np.testing.assert_array_equal(np.load(self.folder / "out.npz")["y"], session.run(None, feed)[0])

    def test_a_squeeze_by_size(self):
        """As exporters of PyTorch write squeeze(2): what follows needs the squeezed rank, so that the dim is 1 where the engine runs."""
        def side(name, node):
            return helper.make_graph([node], name, [], [info(node.output[0])])

        nodes = [helper.make_node("Conv", ["x", "kernel"], ["frames"], strides=[8]), helper.make_node("Shape", ["frames"], ["n"], start=2),
                 helper.make_node("Equal", ["n", "one"], ["is_one"]),
                 helper.make_node("If", ["is_one"], ["row"], name="choice", then_branch=side("then", helper.make_node("Squeeze", ["frames", "two"], ["a"])),
                                  else_branch=side("else", helper.make_node("Identity", ["frames"], ["b"]))),
                 helper.make_node("Gemm", ["row", "weight"], ["y"])]
        weights = [numpy_helper.from_array(np.array(value), name) for name, value in (("one", [1]), ("two", [2]))]
        weights += [numpy_helper.from_array(RANDOM.standard_normal(shape).astype(np.float32), name) for name, shape in (("kernel", (5, 1, 16)), ("weight", (5, 3)))]
        session = self.model("squeeze", helper.make_graph(nodes, "g", [info("x", dims=["b", 1, "n"])], [info("y")], weights), [("", 17)])
        self.succeed("compile", "squeeze.onnx", "-o", "squeeze.tenon", "--target", "cpu:avx2")
        for batch, length in ((1, 16), (3, 20), (2, 23)):
            feed = {"x": RANDOM.standard_normal((batch, 1, length)).astype(np.float32)}
            np.savez(self.folder / "in.npz", **feed)
            self.succeed("run", "squeeze.tenon", "--inputs", "in.npz", "-o", "out.npz")
            np.testing.assert_allclose(np.load(self.folder / "out.npz")["y"], session.run(None, feed)[0], rtol=2e-5, atol=2e-5)
        np.savez(self.folder / "in.npz", x=np.ones((1, 1, 24), np.float32))
        self.refuse(2, "TN0612", "run", "squeeze.tenon", "--inputs", "in.npz", "-o", "out.npz")

    def test_scaler(self):
        """An offset and a scale, of all columns or of each, for each type that it takes."""
        for number, (offset, scale) in enumerate((([0.5], [2.0]), ([1.0, 2.0, 3.0], [0.5, 1.0, 2.0]))):
            for kind, name in ((np.float32, T.FLOAT), (np.int64, T.INT64)):
                node = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=offset, scale=scale)
                graph = helper.make_graph([node], "g", [info("x", name, [-1, 3])], [info("y")])
                # The same import twice, and a size of -1, as such tools write them.
                session = self.model("scaler", graph, [("ai.onnx.ml", 3), ("", 17), ("", 17)])
                feed = {"x": (10 * RANDOM.standard_normal((4, 3))).astype(kind)}
                np.savez(self.folder / "in.npz", **feed)
                self.succeed("compile", "scaler.onnx", "-o", "scaler.tenon", "--target", "cpu:avx2")
                self.succeed("run", "scaler.tenon", "--inputs", "in.npz", "-o", "out.npz")
                np.testing.assert_allclose(np.load(self.folder / "out.npz")["y"], session.run(None, feed)[0], rtol=1e-6, atol=1e-6, err_msg=str(number))


if __name__ == "__main__":
    unittest.main()
