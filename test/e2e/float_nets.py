"""Nets of FP32 with seeded weights, from which the tests of `quantize` start: every form of layer that it knows, as ONNX models."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """An ONNX graph under construction with seeded weights."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name, *dims, depth):
        return self.constant(name, (self.random.standard_normal(dims) / np.sqrt(depth)).astype(np.float32))

    def node(self, op, operands, name, outputs=None, **attributes):
        self.nodes.append(helper.make_node(op, operands, outputs or [name], name=name, **attributes))
        return name

    def conv(self, x, name, inputs, outputs, kernel=1, group=1, norm=False, relu=True, **attributes):
        operands = [x, self.weight(name + "_w", outputs, inputs // group, kernel, kernel, depth=inputs // group * kernel * kernel / 2)]
        if not norm:
            operands.append(self.weight(name + "_b", outputs, depth=100))
        x = self.node("Conv", operands, name, group=group, kernel_shape=[kernel, kernel], pads=[kernel // 2] * 4, **attributes)
        if norm:
            parameters = [self.constant(f"{name}_{what}", value.astype(np.float32)) for what, value in (
                ("gamma", self.random.uniform(0.5, 1.5, outputs)), ("beta", self.random.normal(0, 0.1, outputs)),
                ("mean", self.random.normal(0, 0.1, outputs)), ("variance", self.random.uniform(0.5, 1.5, outputs)))]
            x = self.node("BatchNormalization", [x, *parameters], name + "_norm")
        return self.node("Relu", [x], name + "_relu") if relu else x

    def dense(self, x, name, inputs, outputs):
        x = self.node("MatMul", [x, self.weight(name + "_w", inputs, outputs, depth=inputs)], name)
        return self.node("Add", [x, self.weight(name + "_b", outputs, depth=100)], name + "_sum")

    def model(self, inputs, outputs, opset=17, ir=8):
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
        onnx.checker.check_model(model)
        return model


def cnn(opset=17):
    """A stem, a residual block with norms, depthwise and grouped convolutions, a joined branch, a transposed convolution, a head."""
    net = Net()
    x = net.conv("image", "stem", 3, 32, 3, norm=True, strides=[2, 2])
    x = net.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    y = net.conv(x, "block1", 32, 32, 3, norm=True)
    y = net.conv(y, "block2", 32, 32, 3, norm=True, relu=False)
    x = net.node("Relu", [net.node("Add", [y, x], "residual")], "residual_relu")
    x = net.conv(x, "depthwise", 32, 32, 3, group=32, norm=True)
    x = net.conv(x, "groups", 32, 64, 1, group=2)
    x = net.node("Concat", [x, net.conv(x, "branch", 64, 32, 3)], "joined", axis=1)
    x = net.node("ConvTranspose", [x, net.weight("up_w", 96, 48, 2, 2, depth=48)], "up", strides=[2, 2], kernel_shape=[2, 2])
    x = net.conv(net.node("Relu", [x], "up_relu"), "wide_path", 48, 128, 3)
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "mean")], "flat")
    x = net.node("Gemm", [x, net.weight("head_w", 100, 128, depth=128), net.weight("head_b", 100, depth=10)], "head", transB=1)
    return net.model([helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 32, 32])],
                     [helper.make_tensor_value_info("head", TensorProto.FLOAT, ["batch", 100])], opset)


def transformer(width=64, heads=4, layers=2, words=1000):
    """Token ids [batch, 16] through an embedding and attention blocks."""
    net = Net(1)
    x = net.node("Gather", [net.constant("table", net.random.standard_normal((words, width)).astype(np.float32)), "ids"], "embedded")
    split = net.constant("split", np.array([0, 16, heads, width // heads]))
    joined = net.constant("joined_dims", np.array([0, 16, width]))
    for i in range(layers):
        def norm(x, name):
            return net.node("LayerNormalization", [x, net.constant(name + "_g", np.ones(width, np.float32)),
                                                   net.constant(name + "_b", np.zeros(width, np.float32))], name)

        def headed(what, order):
            y = net.node("Reshape", [net.dense(x, f"{what}{i}", width, width), split], f"{what}{i}_split")
            return net.node("Transpose", [y], f"{what}{i}_heads", perm=order)

        q, k, v = headed("q", [0, 2, 1, 3]), headed("k", [0, 2, 3, 1]), headed("v", [0, 2, 1, 3])
        scores = net.node("Div", [net.node("MatMul", [q, k], f"scores{i}"),
                                  net.constant(f"root{i}", np.float32(np.sqrt(width // heads)))], f"scaled{i}")
        mixed = net.node("MatMul", [net.node("Softmax", [scores], f"softmax{i}", axis=-1), v], f"mixed{i}")
        mixed = net.node("Reshape", [net.node("Transpose", [mixed], f"back{i}", perm=[0, 2, 1, 3]), joined], f"joined{i}")
        x = norm(net.node("Add", [net.dense(mixed, f"out{i}", width, width), x], f"attended{i}"), f"norm{i}")
        y = net.node("Relu", [net.dense(x, f"up{i}", width, 4 * width)], f"act{i}")
        x = norm(net.node("Add", [net.dense(y, f"down{i}", 4 * width, width), x], f"fed{i}"), f"norm{i}b")
    return net.model([helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", 16])],
                     [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", 16, width])])
