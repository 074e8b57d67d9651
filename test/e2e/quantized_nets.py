"""A small CNN as ONNX Runtime's quantizer writes it (signed and unsigned, per tensor and per channel, as QDQ and as operators), and as NNCF
does (Q and DQ on float weights), against ONNX Runtime: the outputs are at most one step of their scale apart, for sizes that the model
leaves free, and the weights stay in 8 bits.
"""

import sys
import unittest
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from tool import ToolTest

# quantized numbers, weights, whether each channel has a scale, and the form
FORMS = {
    "u8s8": (QuantType.QUInt8, QuantType.QInt8, True, QuantFormat.QDQ),
    "s8s8": (QuantType.QInt8, QuantType.QInt8, True, QuantFormat.QDQ),
    "s8s8_tensor": (QuantType.QInt8, QuantType.QInt8, False, QuantFormat.QDQ),
    "u8u8": (QuantType.QUInt8, QuantType.QUInt8, False, QuantFormat.QDQ),
    "u8s8_operators": (QuantType.QUInt8, QuantType.QInt8, True, QuantFormat.QOperator),
    "s8s8_operators": (QuantType.QInt8, QuantType.QInt8, False, QuantFormat.QOperator),
}
SIZES = ((1, 3, 32, 32), (3, 3, 20, 44))


class Samples(CalibrationDataReader):
    def __init__(self):
        random = np.random.default_rng(7)
        self.samples = iter([{"x": random.standard_normal(size).astype(np.float32)} for size in SIZES])

    def get_next(self):
        return next(self.samples, None)


def build():
    """A stem with a pooling, a bottleneck with a depthwise convolution and a residual, two branches that are joined, an upsampling, a
    dilated convolution by groups, and a mean."""
    random = np.random.default_rng(3)
    nodes, constants = [], []

    def node(op, operands, name, **attributes):
        nodes.append(helper.make_node(op, operands, [name], name=name, **attributes))
        return name

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def conv(x, name, inputs, outputs, kernel=1, group=1, relu=True, **attributes):
        depth = inputs // group * kernel * kernel
        weight = random.standard_normal((outputs, inputs // group, kernel, kernel)) * np.sqrt(2 / depth)
        operands = [x, constant(name + "_w", weight.astype(np.float32)),
                    constant(name + "_b", (0.1 * random.standard_normal(outputs)).astype(np.float32))]
        y = node("Conv", operands, name, group=group, kernel_shape=[kernel, kernel], **attributes)
        return node("Relu", [y], name + "_relu") if relu else y

    x = conv("x", "stem", 3, 32, 3, strides=[2, 2], pads=[1, 1, 1, 1])
    x = node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = conv(x, "expand", 32, 64)
    y = conv(y, "depthwise", 64, 64, 3, group=64, pads=[1, 1, 1, 1])
    y = conv(y, "project", 64, 32, relu=False)
    x = node("Relu", [node("Add", [x, y], "sum")], "residual")
    x = node("Concat", [conv(x, "left", 32, 64), conv(x, "right", 32, 32, 3, relu=False, pads=[1, 1, 1, 1])], "joined", axis=1)
    x = node("Resize", [x, "", constant("scales", np.array([1, 1, 2, 2], np.float32))], "larger", mode="nearest",
             coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    x = conv(x, "grouped", 96, 64, 3, group=2, dilations=[2, 2], pads=[2, 2, 2, 2])
    x = node("Flatten", [node("GlobalAveragePool", [x], "mean")], "flat")
    weight = constant("head_w", (0.2 * random.standard_normal((10, 64))).astype(np.float32))
    node("Gemm", [x, weight, constant("head_b", np.zeros(10, np.float32))], "y", transB=1)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def on_float_weights(model):
    """The same with Q before each DQ of a weight, as NNCF writes it."""
    constants = {c.name: c for c in model.graph.initializer}
    for node in [n for n in model.graph.node if n.op_type == "DequantizeLinear"]:
        stored, scale, zero = (numpy_helper.to_array(constants[n]) if n in constants else None for n in node.input)
        if stored is None or stored.ndim < 2:
            continue
        along = [-1, *[1] * (stored.ndim - 1)] if scale.size > 1 else []
        values = (stored.astype(np.float32) - zero.astype(np.float32).reshape(along)) * scale.reshape(along)
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), node.input[0] + "_float"))
        axis = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        quantize = helper.make_node("QuantizeLinear", [node.input[0] + "_float", *node.input[1:]], [node.input[0] + "_quantized"], **axis)
        model.graph.initializer.remove(constants[node.input[0]])
        node.input[0] = quantize.output[0]
        model.graph.node.insert(0, quantize)
    return model


class QuantizedNets(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.net = build()
        onnx.save(cls.net, cls.folder / "float.onnx")
        for name, (numbers, weights, is_per_channel, form) in FORMS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # 7 bits, of which ONNX Runtime's sums are exact on x86 without VNNI
                quantize_static(str(cls.folder / "float.onnx"), str(cls.folder / f"{name}.onnx"), Samples(), quant_format=form,
                                activation_type=numbers, weight_type=weights, per_channel=is_per_channel, reduce_range=True)
        onnx.save(on_float_weights(onnx.load(cls.folder / "s8s8.onnx")), cls.folder / "nncf.onnx")

    def step(self, name):
        model = onnx.load(self.folder / f"{name}.onnx")
        constants = {c.name: numpy_helper.to_array(c) for c in model.graph.initializer}
        last = next(n for n in model.graph.node if n.output[0] == "y")
        return float(constants[last.input[1]])

    def test_agrees_with_onnx_runtime(self):
        random = np.random.default_rng(11)
        for name in (*FORMS, "nncf"):
            self.succeed("compile", f"{name}.onnx", "-o", f"{name}.tenon", "--target", "cpu:native")
            peer = onnxruntime.InferenceSession(str(self.folder / f"{name}.onnx"))
            for size in (*SIZES, (2, 3, 33, 17)):
                x = random.standard_normal(size).astype(np.float32)
                np.savez(self.folder / "in.npz", x=x)
                self.succeed("run", f"{name}.tenon", "--inputs", "in.npz", "-o", "out.npz")
                with self.subTest(model=name, size=size):
                    wanted = peer.run(None, {"x": x})[0]
                    np.testing.assert_allclose(np.load(self.folder / "out.npz")["y"], wanted, rtol=0, atol=1.01 * self.step(name))
                    self.assertGreater(np.abs(wanted).max(), 20 * self.step(name))

    def test_weights_stay_narrow(self):
        # on a level where no convolution is faster in FP32
        weights = [numpy_helper.to_array(c).size for c in self.net.graph.initializer]
        for name in (*FORMS, "nncf"):
            self.succeed("compile", f"{name}.onnx", "-o", f"{name}.tenon", "--target", "cpu:avx512-vnni")
            self.assertLess(self.json("inspect", f"{name}.tenon")["weights_bytes"], 1.5 * sum(weights), name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
