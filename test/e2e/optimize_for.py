"""Engines of free sizes that know some: plans of their own for the sizes of `--optimize-for`, the general one for all others."""

import json
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tool import ToolTest

RANDOM = np.random.default_rng(5)


def weight(name, *shape):
    return numpy_helper.from_array((RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name)


def save(path, nodes, inputs, outputs, weights):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class OptimizeFor(ToolTest):
    def setUp(self):
        super().setUp()
        save(self.folder / "conv.onnx", [
            helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Conv", ["b", "v"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]), helper.make_node("GlobalAveragePool", ["c"], ["d"]),
            helper.make_node("Flatten", ["d"], ["y"])], [("x", ["N", 3, "H", "W"])], ["c", "y"], [weight("w", 16, 3, 3, 3), weight("v", 32, 16, 3, 3)])
        save(self.folder / "rows.onnx", [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "s"], ["b"]),
                                         helper.make_node("Softmax", ["b"], ["y"])],
             [("x", ["N", 64]), ("s", ["N", 128])], ["y"], [weight("w", 64, 128)])

    def agree(self, model, engine, **inputs):
        session = onnxruntime.InferenceSession(str(self.folder / model))
        np.savez(self.folder / "in.npz", **inputs)
        self.succeed("run", engine, "--inputs", "in.npz", "-o", "out.npz")
        out = np.load(self.folder / "out.npz")
        for port, want in zip(session.get_outputs(), session.run(None, inputs)):
            self.assertEqual(out[port.name].shape, want.shape)
            np.testing.assert_allclose(out[port.name], want, rtol=1e-5, atol=1e-5)

    def pictures(self, *shape):
        return RANDOM.standard_normal(shape).astype(np.float32)

    def variants(self, engine):
        return json.loads(self.succeed("inspect", engine, "--json").stdout)["variants"]

    def test_named_sizes_and_others(self):
        self.succeed("compile", "conv.onnx", "-o", "c.tenon", "--optimize-for", "x:2x3x32x48", "--optimize-for", "x:?x3x16x16")
        for shape in ((2, 3, 32, 48), (1, 3, 16, 16), (5, 3, 16, 16), (2, 3, 31, 48), (1, 3, 7, 200)):
            with self.subTest(shape=shape):
                self.agree("conv.onnx", "c.tenon", x=self.pictures(*shape))
        sizes = [variant["sizes"] for variant in self.variants("c.tenon")]
        levels = len({variant["level"] for variant in self.variants("c.tenon")})
        self.assertEqual(sum(not each for each in sizes), levels)
        self.assertEqual(sum("[2, 3, 32, 48]" in each for each in sizes), levels)
        self.assertIn("where sizes are x", self.succeed("inspect", "c.tenon").stdout)
        for shape, own in (("x:2x3x32x48", True), ("x:7x3x16x16", True), ("x:2x3x32x49", False)):
            said = self.succeed("explain", "kernels", "c.tenon", "--shape", shape).stdout
            self.assertEqual(own, "a plan of its own (--optimize-for)" in said, shape)

    def test_numbers_for_the_only_free_size(self):
        self.succeed("compile", "rows.onnx", "-o", "r.tenon", "--optimize-for", "1,8")
        for rows in (1, 8, 3, 100):
            self.agree("rows.onnx", "r.tenon", x=self.pictures(rows, 64), s=self.pictures(rows, 128))

    def test_the_plan_is_that_of_a_fixed_engine(self):
        self.succeed("compile", "conv.onnx", "-o", "c.tenon", "--optimize-for", "x:1x3x64x64", "--target", "cpu:avx2")
        self.succeed("compile", "conv.onnx", "-o", "f.tenon", "--shape", "x:1x3x64x64", "--target", "cpu:avx2")
        named, fixed = self.variants("c.tenon")[1], self.variants("f.tenon")[0]
        for fact in ("instructions", "kernels", "code_bytes", "arena_bytes"):
            self.assertEqual(named[fact], fixed[fact], fact)

    def test_either_of_two_sizes_is_broadcast(self):
        """The general plan takes both sizes to be equal; plans of their own have the size of 1 on either side."""
        save(self.folder / "both.onnx", [helper.make_node("Mul", ["x", "y"], ["a"]), helper.make_node("Softmax", ["a"], ["b"])],
             [("x", ["A", 3]), ("y", ["B", 3])], ["b"], [])
        self.succeed("compile", "both.onnx", "-o", "b.tenon", "--optimize-for", "x:1x3", "--optimize-for", "y:1x3", "--target", "cpu:avx2")
        for a, b in ((4, 4), (1, 5), (6, 1), (1, 1)):
            self.agree("both.onnx", "b.tenon", x=self.pictures(a, 3), y=self.pictures(b, 3))

    def test_gpus_too(self):
        self.succeed("compile", "conv.onnx", "-o", "g.tenon", "--target", "cuda:sm_90", "--optimize-for", "x:1x3x64x64")
        self.assertEqual([bool(variant["sizes"]) for variant in self.variants("g.tenon")], [False, True])

    def test_what_is_refused(self):
        for arguments, part in ((["--optimize-for", "8"], "several free sizes"), (["--shape", "x:1x3x8x8", "--optimize-for", "8"], "all sizes of the model are fixed"),
                                (["--optimize-for", "x:8"], "x"), (["--optimize-for", "eight"], "name:"), (["--optimize-for", "y:1"], "y")):
            with self.subTest(arguments=arguments):
                done = self.call("compile", "conv.onnx", "-o", "n.tenon", *arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(part, done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
