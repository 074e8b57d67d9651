"""Small quantized models for tests: random ones of the class that `--target c` has kernels for, and two with the layers of MLPerf Tiny's keyword spotting and
anomaly detection. Seeded; scales keep the numbers of each layer in range, and no model is trained.
"""

import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Net:
    """A graph under construction. A value is (name of floats, shape, scale)."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.names = [], [], 0
        self.is_deep = False # weights get smaller as sums get longer, so that scales stay where they are

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
            scale = (scale / (1.3 * math.sqrt(math.prod(shape) / columns))).astype(np.float32)
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


def random_picture_net(seed):
    """A picture with more rows, and blocks that have kernels for rows."""
    net = Net(seed)
    pick = net.random.integers
    shape = (1, int(pick(1, 5)), int(pick(12, 20)), int(pick(6, 11)))
    x = net.quantize("x", shape, 0.05)
    for _ in range(5):
        x = ROW_BLOCKS[int(pick(len(ROW_BLOCKS)))](net, x)
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

ROW_BLOCKS = [block_wide, block_conv, block_depthwise, block_add, block_mul, block_squeeze, block_constants, block_pools, block_function, block_conv, block_depthwise]


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


def picture_conv(net, x, outputs, kernel, stride=1, activation=1, groups=1):
    """Padded so that the result has 1 / stride of the rows, rounded up, with the larger part behind."""
    pads = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in x[1][2:]]
    return net.conv(x, outputs, (kernel, kernel), (stride, stride), [pads[0] // 2, pads[1] // 2, pads[0] - pads[0] // 2, pads[1] - pads[1] // 2], groups=groups, activation=activation, zero=-128 if activation else 0)


def classified(net, shape, x, classes):
    x = net.quantize(net.node("GlobalAveragePool", [x[0]]), (1, x[1][1], 1, 1), x[2])
    x = net.dense((net.node("Reshape", [x[0], net.constant(np.array([1, -1], np.int64))]), x[1][:2], x[2]), classes, 0)
    return net.model(shape, (net.node("Softmax", [x[0]], axis=-1), x[1], 0))


def image_classification():
    """The layers of MLPerf Tiny's ResNet-8."""
    net = Net(3)
    shape = (1, 3, 32, 32)
    x = picture_conv(net, net.quantize("x", shape, 0.5), 16, 3)
    for outputs, stride in [(16, 1), (32, 2), (64, 2)]:
        y = picture_conv(net, picture_conv(net, x, outputs, 3, stride), outputs, 3, activation=0)
        x = x if stride == 1 else picture_conv(net, x, outputs, 1, stride, activation=0)
        x = net.quantize(net.activated(net.node("Add", [x[0], y[0]]), y[2], 1), y[1], y[2] * 1.3, -128)
    return classified(net, shape, x, 10)


def visual_wake_words():
    """The layers of MLPerf Tiny's MobileNetV1 0.25."""
    net = Net(4)
    shape = (1, 3, 96, 96)
    x = picture_conv(net, net.quantize("x", shape, 0.5), 8, 3, 2)
    for outputs, stride in [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)]:
        x = picture_conv(net, x, x[1][1], 3, stride, groups=x[1][1])
        x = picture_conv(net, x, outputs, 1)
    return classified(net, shape, x, 2)


def streaming_wake_word():
    """The layers of MLPerf Tiny's streaming wake word, whose rows are moments."""
    net = Net(5)
    shape = (1, 40, 30, 1)
    x = net.quantize("x", shape, 0.5)
    for taps, outputs in [(3, 128), (5, 128), (10, 128), (15, 32)]:
        x = net.conv(x, x[1][1], (taps, 1), groups=x[1][1], activation=1, zero=-128)
        x = net.conv(x, outputs, (1, 1), activation=1, zero=-128)
    x = (net.node("Flatten", [x[0]]), (1, math.prod(x[1])), x[2])
    return net.model(shape, net.dense(x, 3, 0))


def mobilenet(alpha, size):
    """The layers of MobileNetV2."""
    net = Net(6)
    net.is_deep = True
    shape = (1, 3, size, size)

    def wide(channels):
        near = max(8, int(channels * alpha + 4) // 8 * 8)
        return near + 8 if near < 0.9 * channels * alpha else near

    x = picture_conv(net, net.quantize("x", shape, 0.5), wide(32), 3, 2)
    for growth, channels, count, first in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(count):
            stride = first if i == 0 else 1
            y = picture_conv(net, x, x[1][1] * growth, 1) if growth > 1 else x
            y = picture_conv(net, y, y[1][1], 3, stride, groups=y[1][1])
            y = picture_conv(net, y, wide(channels), 1, activation=0)
            x = net.quantize(net.node("Add", [x[0], y[0]]), y[1], y[2] * 1.3, 0) if x[1] == y[1] and stride == 1 else y
    return classified(net, shape, picture_conv(net, x, max(1280, wide(1280)), 1), 1000)
