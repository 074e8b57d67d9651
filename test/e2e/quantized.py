"""Products of quantized numbers as quantizers write them, against the integers and scales that they stand for, on every CPU level
that this machine runs: depths that fill no word and columns that fill no panel, signed and unsigned numbers and weights, one scale
or one for each column, zero points of both sides, and numbers quantized by a range found at run time.
"""

import itertools
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from quantized_model import QuantizedModel, QuantizedTest

SHAPES = ((7, 64, 32), (37, 61, 45), (1, 130, 97), (130, 384, 33))
# products of a batch, whose leading sizes the model leaves free
FREE = ((2, 7), 61, 45)
# quantized numbers, weights, whether each column has a scale, whether the weights are stored transposed
FORMS = ((np.uint8, np.int8, False, False), (np.uint8, np.int8, True, True), (np.int8, np.int8, False, True),
         (np.int8, np.int8, True, False), (np.uint8, np.uint8, False, False), (np.int8, np.uint8, True, True))


class Model(QuantizedModel):
    def free_dims(self, name, value):
        return ["n", "m", value.shape[-1]]

    def add_static(self, label, shape, form):
        (rows, depth, columns), (kind, weight_kind, is_per_column, is_transposed) = shape, form
        dims = (*rows, depth) if isinstance(rows, tuple) else (rows, depth)
        x = self.inputs[f"x{label}"] = (2 * self.random.standard_normal(dims)).astype(np.float32)
        scale, zero = np.float32(0.025), kind(np.iinfo(kind).min + 100)
        weights = self.numbers(weight_kind, depth, columns)
        extent = columns if is_per_column else ()
        scales = self.random.uniform(0.001, 0.01, extent).astype(np.float32)
        zeros = np.asarray(self.random.integers(0, 90, extent)).astype(weight_kind)
        parameters = [self.constant(f"s{label}", scale), self.constant(f"z{label}", zero)]
        q = self.node("QuantizeLinear", [f"x{label}", *parameters], f"q{label}")
        a = self.node("DequantizeLinear", [q, *parameters], f"a{label}")
        stored = self.constant(f"w{label}", weights.T if is_transposed else weights)
        axis = {"axis": 0 if is_transposed else 1} if is_per_column else {}
        b = self.node("DequantizeLinear", [stored, self.constant(f"sw{label}", scales), self.constant(f"zw{label}", zeros)],
                      f"b{label}", **axis)
        y = f"y{label}"
        self.node("Gemm", [a, b], y, transB=1) if is_transposed else self.node("MatMul", [a, b], y)
        limits = np.iinfo(kind)
        levels = np.clip(np.rint(x / scale) + int(zero), limits.min, limits.max).astype(np.int64) - int(zero)
        sums = levels @ (weights.astype(np.int64) - zeros.astype(np.int64))
        self.wanted[y] = sums * (np.float64(scale) * scales.astype(np.float64))

    def quantize(self, name, x, scale, zero, like):
        """The nodes, and the real numbers that the levels stand for."""
        parameters = [self.constant(f"{name}s", np.float32(scale)), self.constant(f"{name}z", like(zero))]
        q = self.node("QuantizeLinear", [name, *parameters], f"{name}q")
        limits = np.iinfo(like)
        levels = np.clip(np.rint(x / np.float32(scale)) + zero, limits.min, limits.max) - zero
        return self.node("DequantizeLinear", [q, *parameters], f"{name}d"), levels * np.float64(np.float32(scale))

    def add_computed(self, label, kinds, zeros, is_transposed):
        """Of two activations, as attention multiplies them."""
        x = self.inputs[f"x{label}"] = self.random.standard_normal((2, 3, 19, 30)).astype(np.float32)
        w = self.inputs[f"w{label}"] = self.random.standard_normal((2, 3, 37, 30) if is_transposed else (2, 3, 30, 37)).astype(np.float32)
        a, real_x = self.quantize(f"x{label}", x, 0.021, zeros[0], kinds[0])
        b, real_w = self.quantize(f"w{label}", w, 0.017, zeros[1], kinds[1])
        if is_transposed:
            b = self.node("Transpose", [b], f"t{label}", perm=[0, 1, 3, 2])
            real_w = real_w.transpose(0, 1, 3, 2)
        self.node("MatMul", [a, b], f"y{label}")
        self.wanted[f"y{label}"] = real_x @ real_w

    def add_table(self, label, kind, zero):
        """x * sigmoid(x) with each step quantized."""
        x = self.inputs[f"x{label}"] = (2 * self.random.standard_normal((5, 77))).astype(np.float32)
        start, real = self.quantize(f"x{label}", x, 0.05, zero, kind)
        self.node("Sigmoid", [start], f"g{label}")
        gate, real_gate = self.quantize(f"g{label}", (1 / (1 + np.exp(-real))).astype(np.float32), 1 / 128, 0, np.uint8)
        self.node("Mul", [start, gate], f"m{label}")
        y, self.wanted[f"y{label}"] = self.quantize(f"m{label}", (real * real_gate).astype(np.float32), 0.04, zero, kind)
        self.node("Identity", [y], f"y{label}")

    def add_dynamic(self, label, shape, weight_kind):
        rows, depth, columns = shape
        x = self.inputs[f"x{label}"] = self.random.standard_normal((rows, depth)).astype(np.float32)
        weights = self.numbers(weight_kind, depth, columns)
        self.node("DynamicQuantizeLinear", [f"x{label}"], f"q{label}", f"s{label}", f"z{label}")
        zero = weight_kind(3)
        operands = [f"q{label}", self.constant(f"w{label}", weights), f"z{label}", self.constant(f"zw{label}", zero)]
        y = self.node("MatMulInteger", operands, f"y{label}")
        low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
        scale = (high - low) / np.float32(255)
        start = np.rint(np.clip(-low / scale, 0, 255))
        levels = np.clip(np.rint(x / scale) + start, 0, 255).astype(np.int64) - int(start)
        self.wanted[y] = levels @ (weights.astype(np.int64) - int(zero))


class Quantized(QuantizedTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = Model()
        for (i, shape), (j, form) in itertools.product(enumerate(SHAPES), enumerate(FORMS)):
            cls.model.add_static(f"{i}_{j}", shape, form)
        for (i, shape), kind in itertools.product(enumerate(SHAPES), (np.int8, np.uint8)):
            cls.model.add_dynamic(f"{i}_{kind.__name__}", shape, kind)
        kinds = (np.uint8, np.int8)
        for (i, pair), is_transposed in itertools.product(enumerate(itertools.product(kinds, kinds)), (False, True)):
            zeros = [101 if kind == np.uint8 else (-7 if i else 0) for kind in pair]
            cls.model.add_computed(f"c{i}_{is_transposed}", pair, zeros, is_transposed)
        for kind in kinds:
            cls.model.add_table(f"t_{kind.__name__}", kind, 99 if kind == np.uint8 else -9)
        for j, form in enumerate(FORMS):
            if not form[3]:
                cls.model.add_static(f"free_{j}", FREE, form)
                cls.model.free |= {f"xfree_{j}", f"yfree_{j}"}
        cls.save(cls.model)

    def test_every_level_of_this_machine(self):
        self.check_levels(self.model)

    def test_weights_stay_narrow(self):
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:avx2")
        panels = sum(-(-depth // 4) * 4 * -(-columns // 32) * 32 for _, depth, columns in (*SHAPES, FREE)) * (len(FORMS) + 2)
        self.assertLess(self.json("inspect", "m.tenon")["weights_bytes"], 1.5 * panels)


    def test_levels_that_a_model_gains_by(self):
        def levels(*arguments):
            self.succeed("compile", *arguments, "-o", "levels.tenon")
            return [variant["level"] for variant in self.json("inspect", "levels.tenon")["variants"]]

        weights = numpy_helper.from_array(np.ones((40, 8), np.float32), "w")
        graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 40])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])], [weights])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "f.onnx")
        common = ["x86-64-v3", "avx512", "avx512-vnni-bf16"]
        self.assertEqual(levels("f.onnx"), common)
        self.assertEqual(levels("f.onnx", "--precision", "bf16"), [*common, "amx"])
        self.assertEqual(levels("m.onnx"), ["x86-64-v3", "avx-vnni", "avx512", "avx512-vnni", "avx512-vnni-bf16", "amx"])
        self.assertEqual(levels("m.onnx", "--target", "cpu:avx2"), ["x86-64-v3"])
        # Another architecture beside it has what was named.
        self.assertEqual(levels("f.onnx", "--target", "cpu,armv8-a"), [*common, "armv8-a"])
        self.assertEqual(levels("f.onnx", "--precision", "bf16", "--target", "cpu,armv8-a"), [*common, "amx", "armv8-a"])
        self.assertEqual(levels("m.onnx", "--target", "armv8-a,cpu"),
                         ["x86-64-v3", "avx-vnni", "avx512", "avx512-vnni", "avx512-vnni-bf16", "amx", "armv8-a"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
