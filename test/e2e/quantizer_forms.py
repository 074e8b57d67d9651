"""What ONNX Runtime's own quantizers write (as QDQ and as operators; u8s8, s8s8, u8u8; per tensor and per channel; ranges found at run time),
of many small graphs in one model, each with an output of its own: each output is at most one step of its scale from ONNX Runtime's.
"""

import sys
import unittest
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from tool import ToolTest

U8, S8 = QuantType.QUInt8, QuantType.QInt8
# steps beyond the one that an output may be off: ONNX Runtime resizes integers towards zero, ONNX to the nearest, and so sums behind it differ
MORE_STEPS = {"behind_linear": 3}
# quantized numbers, weights, whether each channel has a scale
STATIC = {"u8s8": (U8, S8, False), "u8s8_channels": (U8, S8, True), "s8s8": (S8, S8, False), "s8s8_channels": (S8, S8, True), "u8u8": (U8, U8, False)}
FORMATS = {"qdq": QuantFormat.QDQ, "operators": QuantFormat.QOperator}
PICTURE, ROWS = (2, 8, 12, 14), (2, 6, 32)


class Samples(CalibrationDataReader):
    def __init__(self):
        random = np.random.default_rng(7)
        self.samples = iter([inputs(random) for _ in range(3)])

    def get_next(self):
        return next(self.samples, None)


def inputs(random):
    return {"x": random.standard_normal(PICTURE).astype(np.float32), "r": random.standard_normal(ROWS).astype(np.float32)}


class Graphs:
    """Nodes over the inputs x (a picture) and r (rows), and outputs."""

    def __init__(self):
        self.random = np.random.default_rng(3)
        self.nodes, self.constants, self.outputs = [], [], []

    def node(self, op, operands, name, **attributes):
        self.nodes.append(helper.make_node(op, operands, [name], name=name, **attributes))
        return name

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name, *dims, depth):
        return self.constant(name, (self.random.standard_normal(dims) / np.sqrt(depth)).astype(np.float32))

    def conv(self, x, name, inputs, outputs, *kernel, group=1, **attributes):
        kernel = kernel or (1, 1)
        depth = inputs // group * int(np.prod(kernel))
        operands = [x, self.weight(name + "_w", outputs, inputs // group, *kernel, depth=depth),
                    self.constant(name + "_b", (0.1 * self.random.standard_normal(outputs)).astype(np.float32))]
        return self.node("Conv", operands, name, group=group, kernel_shape=kernel, **attributes)

    def output(self, value):
        self.outputs.append(value)

    def model(self):
        makes = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        graph = helper.make_graph(self.nodes, "g", [makes("x", PICTURE), makes("r", ROWS)], [makes(y, None) for y in self.outputs], self.constants)
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))


def convolutions(g):
    g.output(g.conv("x", "dense", 8, 12, 3, 3, pads=[1, 1, 1, 1]))
    g.output(g.node("Relu", [g.conv("x", "strided", 8, 20, 3, 3, strides=[2, 2], pads=[0, 1, 1, 0])], "strided_relu"))
    g.output(g.node("Clip", [g.conv("x", "pointwise", 8, 7), g.constant("low", np.float32(0)), g.constant("high", np.float32(6))], "clipped"))
    g.output(g.conv("x", "depthwise", 8, 8, 3, 3, group=8, pads=[1, 1, 1, 1]))
    g.output(g.conv("x", "two_each", 8, 16, 3, 3, group=8))
    g.output(g.conv("x", "groups_of_words", 8, 6, 3, 3, group=2))
    g.output(g.conv("x", "groups_of_two", 8, 12, 3, 3, group=4, pads=[1, 1, 1, 1]))
    g.output(g.conv(g.conv("x", "odd", 8, 6), "groups_of_three", 6, 10, 2, 3, group=2, dilations=[2, 1]))
    g.output(g.node("ConvTranspose", ["x", g.weight("up_w", 8, 6, 2, 2, depth=8)], "up", strides=[2, 2], kernel_shape=[2, 2]))


def pictures(g):
    a, b = g.conv("x", "a", 8, 6), g.node("Mul", [g.conv("x", "b", 8, 10, 3, 3, pads=[1, 1, 1, 1]), g.constant("four", np.float32(4))], "b4")
    g.output(g.conv(g.node("Concat", [a, b], "joined", axis=1), "behind_join", 16, 8))
    g.output(g.conv(g.node("AveragePool", [a], "average", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), "behind_average", 6, 5))
    g.output(g.conv(g.node("MaxPool", [a], "largest", kernel_shape=[2, 2], strides=[2, 2]), "behind_largest", 6, 5))
    g.output(g.conv(g.node("GlobalAveragePool", [b], "mean"), "behind_mean", 10, 5))
    scales = g.constant("scales", np.float32([1, 1, 2, 2]))
    g.output(g.conv(g.node("Resize", [a, "", scales], "nearest", mode="nearest"), "behind_nearest", 6, 5))
    g.output(g.conv(g.node("Resize", [a, "", scales], "linear", mode="linear"), "behind_linear", 6, 5))
    g.output(g.conv(g.node("LeakyRelu", [a], "leaky", alpha=0.1), "behind_leaky", 6, 5))
    gate = g.node("Sigmoid", [g.conv("x", "gate", 8, 6)], "sigmoid")
    g.output(g.conv(g.node("Mul", [a, gate], "gated"), "behind_gate", 6, 5))
    g.output(g.conv(g.node("Add", [a, g.conv("x", "c", 8, 6)], "sum"), "behind_sum", 6, 5))
    g.output(g.conv(g.node("Transpose", [a], "turned", perm=[0, 1, 3, 2]), "behind_turned", 6, 5))
    left, right = g.node("Slice", [b, *(g.constant(f"cut{i}", np.int64([v])) for i, v in enumerate((0, 5, 1)))], "left"), g.node(
        "Slice", [b, *(g.constant(f"cutr{i}", np.int64([v])) for i, v in enumerate((5, 10, 1)))], "right")
    g.output(g.conv(g.node("Max", [left, right], "larger"), "behind_larger", 5, 4))
    g.output(g.conv(g.node("Pad", [a, g.constant("pads", np.int64([0, 0, 1, 1, 0, 0, 2, 0])), g.constant("fill", np.float32(0.5))], "padded"), "behind_pad", 6, 4))


def rows(g):
    def product(x, name, inputs, outputs):
        return g.node("MatMul", [x, g.weight(name + "_w", inputs, outputs, depth=inputs)], name)

    a = product("r", "rows", 32, 24)
    g.output(g.node("Add", [a, g.constant("bias", g.random.standard_normal(24).astype(np.float32))], "biased"))
    g.output(product(g.node("Softmax", [a], "softmax", axis=-1), "behind_softmax", 24, 8))
    ones, zeros = g.constant("ones", np.ones(24, np.float32)), g.constant("zeros", np.zeros(24, np.float32))
    g.output(product(g.node("LayerNormalization", [a, ones, zeros], "norm"), "behind_norm", 24, 8))
    g.output(product(g.node("Gelu", [a], "gelu"), "behind_gelu", 24, 8))
    g.output(product(g.node("Tanh", [a], "tanh"), "behind_tanh", 24, 8))
    keys = g.node("Transpose", [product("r", "keys", 32, 24)], "turned_keys", perm=[0, 2, 1])
    g.output(g.node("MatMul", [a, keys], "scores"))
    flat = g.node("Reshape", ["r", g.constant("flat", np.int64([12, 32]))], "flat_rows")
    g.output(g.node("Gemm", [flat, g.weight("gemm_w", 9, 32, depth=32), g.constant("gemm_b", g.random.standard_normal(9).astype(np.float32))],
                    "gemm", transB=1))
    heads = g.node("Split", [product("r", "pairs", 32, 16), g.constant("parts", np.int64([8, 8]))], "split0", axis=-1)
    g.nodes[-1].output.append("split1")
    g.output(g.node("Mul", [heads, g.node("Sigmoid", ["split1"], "half_gate")], "glu"))


def build(*parts):
    g = Graphs()
    for part in parts:
        part(g)
    return g


def step_of(model, output):
    """The scale that an output is quantized by; 0 where it is not."""
    constants = {c.name: numpy_helper.to_array(c) for c in model.graph.initializer}
    last = next(n for n in model.graph.node if output in n.output)
    return float(constants[last.input[1]].max()) if last.op_type == "DequantizeLinear" else 0.0


class QuantizerForms(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.graphs = build(convolutions, pictures, rows)
        onnx.save(cls.graphs.model(), cls.folder / "float.onnx")
        cls.inputs = inputs(np.random.default_rng(11))
        np.savez(cls.folder / "in.npz", **cls.inputs)

    def multiplies_integers(self, name, but=()):
        """On a level with VNNI, where no such product is faster in FP32, all but some multiply 8-bit integers."""
        self.succeed("compile", f"{name}.onnx", "-o", f"{name}_vnni.tenon", "--target", "cpu:avx512-vnni")
        products = self.json("explain", "precision", f"{name}_vnni.tenon", "--variant", "avx512-vnni")["products"]
        with self.subTest(form=name):
            self.assertEqual(set(but), {p["nodes"][0] for p in products if p["computes"] != "u8 x s8, sums of i32"})
            self.assertGreater(len(products), 30)

    def agrees(self, name, allowed=0.0):
        path = self.folder / f"{name}.onnx"
        self.succeed("compile", path, "-o", f"{name}.tenon", "--target", "cpu:native")
        self.succeed("run", f"{name}.tenon", "--inputs", "in.npz", "-o", "out.npz")
        found, model = np.load(self.folder / "out.npz"), onnx.load(path)
        options = onnxruntime.SessionOptions()
        # its fused kernels round otherwise than the operators that it fuses
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        wanted = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, self.inputs)
        for output, value in zip(self.graphs.outputs, wanted):
            with self.subTest(form=name, output=output):
                step = max((1.01 + MORE_STEPS.get(output, 0)) * step_of(model, output), allowed * np.abs(value).max())
                np.testing.assert_allclose(found[output], value, rtol=0, atol=step + 1e-6 * np.abs(value).max())
                self.assertGreater(np.abs(value).max(), 8 * step)

    def test_static(self):
        for kind, (numbers, weights, is_per_channel) in STATIC.items():
            for form, how in FORMATS.items():
                name = f"{kind}_{form}"
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    # 7 bits, of which ONNX Runtime's sums are exact on x86 without VNNI
                    quantize_static(str(self.folder / "float.onnx"), str(self.folder / f"{name}.onnx"), Samples(), quant_format=how,
                                    activation_type=numbers, weight_type=weights, per_channel=is_per_channel, reduce_range=True)
                self.agrees(name)
                if kind in ("u8s8_channels", "u8u8"):
                    # "up" has no operator of integers
                    self.multiplies_integers(name, {"up"} if form == "operators" else ())

    def test_dynamic(self):
        for name, weights, is_per_channel in (("dynamic_s8", S8, True), ("dynamic_u8", U8, False)):
            quantize_dynamic(str(self.folder / "float.onnx"), str(self.folder / f"{name}.onnx"), weight_type=weights, per_channel=is_per_channel,
                             reduce_range=True)
            self.agrees(name, allowed=1e-2)
            self.multiplies_integers(name, {"up", "scores"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
