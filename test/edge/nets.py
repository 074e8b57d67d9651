"""Small quantized models for tests: random ones of the class that `--target c` has kernels for, two with the layers of MLPerf Tiny's keyword spotting and
anomaly detection, and a MobileNetV2. Seeded; scales keep the numbers of each layer in range, and no model is trained.
"""

import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Net:
    """A graph under construction. A value is (name of floats, shape, scale)."""

    def __init__(self, seed, is_deep=False):
        self.is_deep = is_deep  # numbers of a layer are about as large as those of the one before
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.names = [], [], 0

    def name(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    def constant(self, value):
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, inputs, **attributes):
        name = self.name("v")
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{op}_{self.names}", **attributes))
        return name

    def quantize(self, name, shape, scale, zero=None):
        unsigned = self.random.random() < 0.3
        kind = np.uint8 if unsigned else np.int8
        zero = int(self.random.integers(-40, 40)) if zero is None else zero
        parameters = [self.constant(np.float32(scale)), self.constant(kind(zero + (128 if unsigned else 0)))]
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [name, *parameters]), *parameters]), tuple(shape), float(np.float32(scale))

    def weights(self, shape, axis):
        """(floats, real size of a weight)"""
        columns = shape[axis]
        per_channel = self.random.random() < 0.6
        scale = self.random.uniform(0.004, 0.02, columns if per_channel else 1).astype(np.float32)
        if self.is_deep:
            scale /= np.float32(math.sqrt(math.prod(shape) / columns))
        if self.random.random() < 0.2 and not per_channel:
            numbers, zero = self.random.integers(0, 256, shape).astype(np.uint8), np.uint8(128)
        else:
            numbers, zero = self.random.integers(-127, 128, shape).astype(np.int8), np.int8(0)
        parameters = [self.constant(scale if per_channel else scale[0]), self.constant(np.full(columns, zero) if per_channel else zero)]
        return self.node("DequantizeLinear", [self.constant(numbers), *parameters], axis=axis), float(scale.mean()) * 70, scale

    def bias(self, x_scale, scale):
        numbers = self.random.integers(-3000, 3000, scale.size).astype(np.int32)
        scales = (np.float32(x_scale) * scale).astype(np.float32)
        return self.node("DequantizeLinear", [self.constant(numbers), self.constant(scales), self.constant(np.zeros(scale.size, np.int32))], axis=0)

    def activated(self, name, scale, kind=None):
        kind = self.random.integers(0, 4) if kind is None else kind
        if kind == 1:
            return self.node("Relu", [name])
        if kind == 2:
            return self.node("Clip", [name, self.constant(np.float32(0)), self.constant(np.float32(scale * 90))])
        return name

    def conv(self, x, outputs, kernel, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), groups=1, activation=None, zero=None):
        name, shape, x_scale = x
        depth = shape[1] // groups
        weights, size, scales = self.weights((outputs, depth, *kernel), 0)
        inputs = [name, weights]
        if scales.size in (1, outputs) and self.random.random() < 0.8:
            inputs.append(self.bias(x_scale, np.broadcast_to(scales, outputs)))
        made = self.node("Conv", inputs, strides=strides, pads=pads, dilations=dilations, group=groups, kernel_shape=kernel)
        scale = x_scale * 60 * size * math.sqrt(depth * math.prod(kernel)) / 40
        space = [(shape[2 + i] + pads[i] + pads[2 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(2)]
        return self.quantize(self.activated(made, scale, activation), (shape[0], outputs, *space), scale, zero)

    def dense(self, x, outputs, activation=None, is_gemm=True, zero=None):
        name, shape, x_scale = x
        transposed = is_gemm and bool(self.random.random() < 0.5)
        weights, size, scales = self.weights((outputs, shape[-1]) if transposed else (shape[-1], outputs), 0 if transposed else 1)
        bias = self.bias(x_scale, np.broadcast_to(scales, outputs))
        if is_gemm:
            made = self.node("Gemm", [name, weights, bias], transB=int(transposed))
        else:
            made = self.node("Add", [self.node("MatMul", [name, weights]), bias])
        scale = x_scale * 60 * size * math.sqrt(shape[-1]) / 40
        return self.quantize(self.activated(made, scale, activation), (*shape[:-1], outputs), scale, zero)

    def model(self, x_shape, y):
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape)], [helper.make_tensor_value_info(y[0], TensorProto.FLOAT, y[1])]
        return helper.make_model(helper.make_graph(self.nodes, "g", *ports, self.constants), opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def random_net(seed):
    """A few blocks over a picture, then a mean, a layer and sometimes a softmax."""
    net = Net(seed)
    pick = net.random.integers
    shape = (int(pick(1, 3)), int(pick(1, 5)), int(pick(6, 11)), int(pick(6, 11)))
    x = net.quantize("x", shape, 0.05)
    for _ in range(4):
        x = BLOCKS[int(pick(len(BLOCKS)))](net, x)
    return finished(net, shape, x)


def finished(net, shape, x):
    x = net.quantize(net.node("GlobalAveragePool", [x[0]]), (*x[1][:2], 1, 1), x[2] / 3)
    x = (net.node("Flatten", [x[0]]), x[1][:2], x[2])
    x = net.dense(x, 7)
    if net.random.random() < 0.6:
        made = net.node("Softmax", [x[0]], axis=-1)
        x = (made, x[1], 1 / 256) if net.random.random() < 0.5 else net.quantize(made, x[1], 1 / 255, -128)
    return net.model(shape, x)


def block_conv(net, x):
    if min(x[1][2:]) < 5:
        return net.conv(x, 6, (1, 1))
    kernel = [int(net.random.integers(1, 4)) for _ in range(2)]
    pads = [int(net.random.integers(0, 2)) for _ in range(4)]
    groups = 2 if x[1][1] % 2 == 0 and net.random.random() < 0.4 else 1
    return net.conv(x, 2 * int(net.random.integers(2, 5)), kernel, [int(net.random.integers(1, 3)), 1], pads, [1, int(net.random.integers(1, 3))], groups)


def block_depthwise(net, x):
    return net.conv(x, x[1][1] * int(net.random.integers(1, 3)), (3, 3), pads=(1, 1, 1, 1), groups=x[1][1])


def block_add(net, x):
    branch = net.conv(x, x[1][1], (1, 1))
    op = ("Add", "Sub")[int(net.random.integers(2))]
    return net.quantize(net.activated(net.node(op, [x[0], branch[0]]), branch[2]), x[1], branch[2] * 1.3)


def block_mul(net, x):
    gate = net.conv(x, x[1][1], (1, 1))
    gate = net.quantize(net.node("Sigmoid", [gate[0]]), x[1], 1 / 256, -128)
    return net.quantize(net.node("Mul", [x[0], gate[0]]), x[1], x[2] * 0.7)


def block_squeeze(net, x):
    """A gate for each channel."""
    mean = net.quantize(net.node("GlobalAveragePool", [x[0]]), (*x[1][:2], 1, 1), x[2] / 2)
    if x[1][0] != 1:
        return mean
    gate = net.quantize(net.node("HardSigmoid", [net.conv(mean, x[1][1], (1, 1))[0]], alpha=0.2, beta=0.5), mean[1], 1 / 256, -128)
    return net.quantize(net.node("Mul", [x[0], gate[0]]), x[1], x[2] * 0.6)


def block_constants(net, x):
    shape = (1, x[1][1], 1, 1)
    numbers = [net.random.uniform(-1, 1, shape).astype(np.float32) for _ in range(2)]
    x = net.quantize(net.node("Mul", [x[0], net.constant(numbers[0])]), x[1], x[2] * 0.8)
    return net.quantize(net.node("Add", [net.constant(numbers[1] * np.float32(20 * x[2])), x[0]]), x[1], x[2])


def block_pools(net, x):
    if min(x[1][2:]) < 4:
        return x
    how = dict(kernel_shape=[3, 3], strides=[1, 2], pads=[1, 0, 0, 1])
    shape = (*x[1][:2], x[1][2] - 1, (x[1][3] - 2) // 2 + 1)
    if net.random.random() < 0.5:
        return net.node("MaxPool", [x[0]], **how), shape, x[2]
    return net.quantize(net.node("AveragePool", [x[0]], count_include_pad=int(net.random.integers(2)), **how), shape, x[2] * 0.7)


def block_concat(net, x):
    branch = net.conv(x, 3, (1, 1))
    scale = max(x[2], branch[2])
    return net.quantize(net.node("Concat", [x[0], branch[0]], axis=1), (x[1][0], x[1][1] + 3, *x[1][2:]), scale)


def block_move(net, x):
    """Height and width change places, and rows are added."""
    turned = net.node("Transpose", [x[0]], perm=[0, 1, 3, 2])
    pads = net.constant(np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64))
    padded = net.node("Pad", [turned, pads, net.constant(np.float32(0.5 * x[2]))])
    n, c, h, w = x[1]
    return net.quantize(padded, (n, c, w + 1, h + 2), x[2] * 1.1)


def block_function(net, x):
    op, attributes = (("Tanh", {}), ("LeakyRelu", {"alpha": 0.1}), ("Abs", {}))[int(net.random.integers(3))]
    return net.quantize(net.node(op, [x[0]], **attributes), x[1], 1 / 100 if op == "Tanh" else x[2])


def block_wide(net, x):
    """Filters with more taps than are gathered first."""
    x = net.conv(x, 13, (1, 1))
    return net.conv(x, 5, (3, 3), pads=(1, 1, 1, 1))


BLOCKS = [block_wide, block_conv, block_depthwise, block_add, block_mul, block_squeeze, block_constants, block_pools, block_concat, block_move, block_function, block_conv, block_depthwise]


def keyword_spotting():
    """The layers of MLPerf Tiny's DS-CNN."""
    net = Net(1)
    shape = (1, 1, 49, 10)
    x = net.conv(net.quantize("x", shape, 0.5), 64, (10, 4), (2, 2), (4, 1, 5, 1), activation=1, zero=-128)
    for _ in range(4):
        x = net.conv(x, 64, (3, 3), pads=(1, 1, 1, 1), groups=64, activation=1, zero=-128)
        x = net.conv(x, 64, (1, 1), activation=1, zero=-128)
    x = net.quantize(net.node("GlobalAveragePool", [x[0]]), (1, 64, 1, 1), x[2])
    x = net.dense((net.node("Reshape", [x[0], net.constant(np.array([1, -1], np.int64))]), (1, 64), x[2]), 12, 0)
    return net.model(shape, (net.node("Softmax", [x[0]], axis=-1), x[1], 0))


def anomaly_detection():
    """The layers of MLPerf Tiny's autoencoder."""
    net = Net(2)
    x = net.quantize("x", (1, 640), 0.3)
    for outputs in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        x = net.dense(x, outputs, 1, zero=-128)
    return net.model((1, 640), net.dense(x, 640, 0))


def mobilenet_v2():
    """The layers of MobileNetV2, a width of 0.35 over pictures of 96 by 96."""

    def width(channels):
        made = max(8, int(channels * 0.35 + 4) // 8 * 8)
        return made + 8 if made < 0.9 * channels * 0.35 else made

    net = Net(3, is_deep=True)
    shape = (1, 3, 96, 96)
    x = net.conv(net.quantize("x", shape, 0.05), width(32), (3, 3), (2, 2), (0, 0, 1, 1), activation=2)
    for expansion, channels, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(count):
            before, hidden, strides = x, expansion * x[1][1], (stride, stride) if i == 0 else (1, 1)
            x = net.conv(x, hidden, (1, 1), activation=2) if expansion > 1 else x
            x = net.conv(x, hidden, (3, 3), strides, (0, 0, 1, 1) if strides == (2, 2) else (1, 1, 1, 1), groups=hidden, activation=2)
            x = net.conv(x, width(channels), (1, 1), activation=0)
            if before[1] == x[1]:
                x = net.quantize(net.node("Add", [before[0], x[0]]), x[1], max(before[2], x[2]))
    x = net.conv(x, 1280, (1, 1), activation=2)
    x = net.quantize(net.node("GlobalAveragePool", [x[0]]), (1, 1280, 1, 1), x[2] / 2)
    x = net.dense((net.node("Flatten", [x[0]]), (1, 1280), x[2]), 1000, 0)
    return net.model(shape, (net.node("Softmax", [x[0]], axis=-1), x[1], 0))
