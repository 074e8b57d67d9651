"""Quantization that cannot mean anything, in every operator that reads a scale: refused with a code and the node's name, never compiled.
What is odd but means something is taken: a scale of zero or a negative one where numbers are multiplied by it.
"""

import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tool import ToolTest

BYTES, ROWS = np.zeros((4, 6), np.uint8), np.zeros((4, 6), np.float32)
# scales that divide: none of these is a step between numbers
NO_STEPS = {"zero": 0.0, "negative": -0.5, "nan": np.nan, "infinite": np.inf, "subnormal": 1e-40}
GOOD = np.float32(0.1)
U8, S8, I32 = np.uint8(3), np.int8(3), np.int32(3)
SQUARE = np.ones((6, 6), np.int8)


def model(op, operands, domain="", opset=21, **attributes):
    """One node; an operand is a constant, None, or "x" for the input, whose type follows from it."""
    names, constants, inputs = [], [], []
    for i, operand in enumerate(operands):
        if operand is None:
            names.append("")
        elif isinstance(operand, tuple):
            names.append(f"x{i}")
            inputs.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(operand[0].dtype), operand[0].shape))
        else:
            names.append(f"c{i}")
            constants.append(numpy_helper.from_array(np.asarray(operand), f"c{i}"))
    node = helper.make_node(op, names, ["y"], name="odd", domain=domain, **attributes)
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")], constants)
    graph.output[0].type.tensor_type.elem_type = 0
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=10)


X, F, PICTURE = (BYTES,), (ROWS,), (np.zeros((1, 6, 5, 5), np.uint8),)
FILTER = np.ones((2, 6, 3, 3), np.int8)


def divided(scale):
    """Each operator that divides by a scale, with this one."""
    scale = np.float32(scale)
    return {
        "QuantizeLinear": model("QuantizeLinear", [F, scale, U8]),
        "QuantizeLinear_axis": model("QuantizeLinear", [F, np.float32([0.1, 0.2, scale, 0.1]), np.zeros(4, np.uint8)], axis=0),
        "QLinearMatMul": model("QLinearMatMul", [X, GOOD, U8, SQUARE, GOOD, S8, scale, U8]),
        "QLinearConv": model("QLinearConv", [PICTURE, GOOD, U8, FILTER, GOOD, np.int8(0), scale, U8]),
        "QLinearAdd": model("QLinearAdd", [X, GOOD, U8, X, GOOD, U8, scale, U8], "com.microsoft"),
        "QLinearSigmoid": model("QLinearSigmoid", [X, GOOD, U8, scale, U8], "com.microsoft"),
        "QLinearConcat": model("QLinearConcat", [scale, U8, X, GOOD, U8, X, GOOD, U8], "com.microsoft", axis=0),
        "QGemm": model("QGemm", [X, GOOD, U8, SQUARE, GOOD, S8, None, scale, U8], "com.microsoft"),
    }


def multiplied(scale):
    """Each that multiplies by it."""
    scale = np.float32(scale)
    return {
        "DequantizeLinear": model("DequantizeLinear", [X, scale, U8]),
        "QLinearMatMul": model("QLinearMatMul", [X, scale, U8, SQUARE, GOOD, S8, GOOD, U8]),
        "QLinearMatMul_weights": model("QLinearMatMul", [X, GOOD, U8, SQUARE, scale, S8, GOOD, U8]),
        "QLinearConv": model("QLinearConv", [PICTURE, scale, U8, FILTER, GOOD, np.int8(0), GOOD, U8]),
        "QLinearAdd": model("QLinearAdd", [X, GOOD, U8, X, scale, U8, GOOD, U8], "com.microsoft"),
        "QLinearConcat": model("QLinearConcat", [GOOD, U8, X, GOOD, U8, X, scale, U8], "com.microsoft", axis=0),
        "QGemm": model("QGemm", [X, GOOD, U8, SQUARE, scale, S8], "com.microsoft"),
        "DynamicQuantizeMatMul": model("DynamicQuantizeMatMul", [F, SQUARE, scale], "com.microsoft"),
        "MatMulIntegerToFloat": model("MatMulIntegerToFloat", [X, SQUARE, GOOD, scale], "com.microsoft"),
    }


# parameters that do not fit what they belong to
MISFITS = {
    "zero_of_another_type": model("QuantizeLinear", [F, GOOD, np.float32(3)]),
    "zero_of_i32": model("QuantizeLinear", [F, GOOD, I32]),
    "dequantize_zero_of_another_type": model("DequantizeLinear", [X, GOOD, S8]),
    "matmul_zero_of_another_type": model("QLinearMatMul", [X, GOOD, S8, SQUARE, GOOD, S8, GOOD, U8]),
    "weights_zero_of_another_type": model("QLinearMatMul", [X, GOOD, U8, SQUARE, GOOD, U8, GOOD, U8]),
    "conv_zero_of_another_type": model("QLinearConv", [PICTURE, GOOD, S8, FILTER, GOOD, np.int8(0), GOOD, U8]),
    "add_zero_of_another_type": model("QLinearAdd", [X, GOOD, S8, X, GOOD, U8, GOOD, U8], "com.microsoft"),
    "scales_of_no_axis": model("QuantizeLinear", [F, np.full(5, 0.1, np.float32), np.zeros(5, np.uint8)], axis=1),
    "dequantize_scales_of_no_axis": model("DequantizeLinear", [X, np.full(5, 0.1, np.float32), np.zeros(5, np.uint8)], axis=1),
    "axis_out_of_range": model("DequantizeLinear", [X, np.full(6, 0.1, np.float32), np.zeros(6, np.uint8)], axis=3),
    "fewer_zeros": model("DequantizeLinear", [X, np.full(6, 0.1, np.float32), np.zeros(4, np.uint8)], axis=1),
    "blocks_that_do_not_fit": model("DequantizeLinear", [X, np.full((4, 2), 0.1, np.float32), np.zeros((4, 2), np.uint8)], axis=1, block_size=4 - 2),
    "negative_block": model("DequantizeLinear", [X, np.full((4, 2), 0.1, np.float32)], axis=1, block_size=-3),
    "matrix_of_scales": model("QuantizeLinear", [F, np.full((2, 2), 0.1, np.float32), np.zeros((2, 2), np.uint8)]),
    "conv_scales_of_no_channel": model("QLinearConv", [PICTURE, GOOD, U8, FILTER, np.full(3, 0.1, np.float32), np.zeros(3, np.int8), GOOD, U8]),
    "matmul_scales_of_no_column": model("QLinearMatMul", [X, GOOD, U8, SQUARE, np.full(4, 0.1, np.float32), np.zeros(4, np.int8), GOOD, U8]),
}
GAPS = {"zero_of_another_type", "zero_of_i32", "blocks_that_do_not_fit"}


class BadQuantization(ToolTest):
    def refused(self, name, made, *parts, code=5):
        onnx.save(made, self.folder / f"{name}.onnx")
        done = self.call("compile", f"{name}.onnx", "-o", f"{name}.tenon", "--target", "cpu:avx2", "--quiet")
        self.assertEqual(code, done.returncode, f"{done.stdout}{done.stderr}")
        for part in (*parts, "odd"):
            self.assertIn(part, done.stderr)

    def test_scales_that_divide(self):
        for kind, scale in NO_STEPS.items():
            for name, made in divided(scale).items():
                with self.subTest(scale=kind, operator=name):
                    self.refused(f"{name}_{kind}", made, "TN0236", "scale")

    def test_scales_that_multiply(self):
        for kind in ("nan", "infinite"):
            for name, made in multiplied(NO_STEPS[kind]).items():
                with self.subTest(scale=kind, operator=name):
                    self.refused(f"{name}_{kind}", made, "TN0236", "scale")
        for kind in ("zero", "negative", "subnormal"):
            for name, made in multiplied(NO_STEPS[kind]).items():
                with self.subTest(scale=kind, operator=name):
                    onnx.save(made, self.folder / "taken.onnx")
                    self.succeed("compile", "taken.onnx", "-o", "taken.tenon", "--target", "cpu:avx2", "--quiet")

    def test_misfits(self):
        for name, made in MISFITS.items():
            with self.subTest(name):
                # what could mean something, but not here, is named with all else that is not supported
                is_gap = name in GAPS
                self.refused(name, made, "error TN0301" if is_gap else "error TN02", code=3 if is_gap else 5)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
