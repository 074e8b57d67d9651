"""Operators of TensorFlow Lite with what they mean in numpy: the cases of tflite.py. A case has an operator, its options, and a function of real arrays."""

import math

import numpy as np
import tflite_writer as w

SIGMOID = lambda v: 1 / (1 + np.exp(-v))


def softmax(v, beta=1):
    e = np.exp(beta * (v - v.max(-1, keepdims=True)))
    return e / e.sum(-1, keepdims=True)


def pads(size, kernel, stride, dilation, padding):
    """(before, results) of one dim."""
    reach = (kernel - 1) * dilation + 1
    if padding == w.VALID:
        return 0, (size - reach) // stride + 1
    count = -(-size // stride)
    return max(0, (count - 1) * stride + reach - size) // 2, count


def taps(x, kernel, stride, dilation, padding):
    """[batch, height, width, taps, channels] and which taps are inside."""
    n, h, width, c = x.shape
    (top, rows), (left, columns) = (pads(s, k, t, d, padding) for s, k, t, d in zip((h, width), kernel, stride, dilation, strict=True))
    out, inside = np.zeros((n, rows, columns, kernel[0] * kernel[1], c), x.dtype), np.zeros((rows, columns, kernel[0] * kernel[1]), bool)
    for r in range(rows):
        for q in range(columns):
            for t in range(kernel[0] * kernel[1]):
                y, z = r * stride[0] - top + t // kernel[1] * dilation[0], q * stride[1] - left + t % kernel[1] * dilation[1]
                if 0 <= y < h and 0 <= z < width:
                    out[:, r, q, t], inside[r, q, t] = x[:, y, z], True
    return out, inside


def conv(x, weight, bias, padding=w.SAME, stride=(1, 1), dilation=(1, 1)):
    """Weights [outputs, height, width, inputs]."""
    patch, _ = taps(x, weight.shape[1:3], stride, dilation, padding)
    return np.einsum("nhwtc,otc->nhwo", patch, weight.reshape(weight.shape[0], -1, weight.shape[3])) + bias


def depthwise(x, weight, bias, padding=w.SAME, stride=(1, 1), dilation=(1, 1)):
    """Weights [1, height, width, outputs]."""
    patch, _ = taps(x, weight.shape[1:3], stride, dilation, padding)
    patch = np.repeat(patch, weight.shape[3] // x.shape[3], -1)
    return np.einsum("nhwtc,tc->nhwc", patch, weight.reshape(-1, weight.shape[3])) + bias


def average(x, kernel, padding, stride):
    patch, inside = taps(x, kernel, stride, (1, 1), padding)
    return patch.sum(3) / inside.sum(-1)[None, ..., None]


def maximum(x, kernel, padding, stride):
    patch, inside = taps(x, kernel, stride, (1, 1), padding)
    return np.where(inside[None, ..., None], patch, -np.inf).max(3)


def transpose_conv(x, weight, padding, stride, out):
    """Each element spreads over its window."""
    y = np.zeros((x.shape[0], out[0] + 8, out[1] + 8, weight.shape[0]))
    top, left = (pads(o, k, s, 1, padding)[0] for o, k, s in zip(out, weight.shape[1:3], stride, strict=True))
    for r in range(x.shape[1]):
        for q in range(x.shape[2]):
            y[:, 4 + r * stride[0] - top :, 4 + q * stride[1] - left :][:, : weight.shape[1], : weight.shape[2]] += np.einsum("nc,ohwc->nhwo", x[:, r, q], weight)
    return y[:, 4 : 4 + out[0], 4 : 4 + out[1]]


def resized(x, size, corners, half, linear):
    def positions(out, old):
        scale = (old - 1) / (out - 1) if corners and out > 1 else old / out
        at = (np.arange(out) + 0.5) * scale - (0.5 if linear else 0) if half else np.arange(out) * scale
        if not linear:
            return np.clip(np.floor(at + 0.5) if corners else np.floor(at), 0, old - 1).astype(int), None, None
        low = np.clip(np.floor(at).astype(int), 0, old - 1)
        return low, np.minimum(low + 1, old - 1), np.clip(at - low, 0, 1)

    for axis, out in ((1, size[0]), (2, size[1])):
        low, high, part = positions(out, x.shape[axis])
        shape = [-1 if i == axis else 1 for i in range(4)]
        x = np.take(x, low, axis) if part is None else np.take(x, low, axis) * (1 - part.reshape(shape)) + np.take(x, high, axis) * part.reshape(shape)
    return x


def number(values, dtype=np.int32):
    return np.asarray(values, dtype)


def erf(v):
    return np.vectorize(math.erf)(v)


X, V = "x", "v"  # [1, 6, 5, 4] and the same once more
# (operator, operands: x, v or constants, options, real function of the tensors among them, scale and zero point of a quantized result)
MOVES = None  # a result that keeps the scale of x
QUANTIZED = [
    ("ADD", (X, V), w.arithmetic("ADD"), np.add, (0.1137, -3)), ("ADD", (X, V), w.arithmetic("ADD", 1), lambda a, b: np.maximum(a + b, 0), (0.0619, -128)), ("SUB", (X, V), w.arithmetic("SUB"), np.subtract, (0.0917, 5)),
    ("MUL", (X, V), w.arithmetic("MUL", 3), lambda a, b: np.clip(a * b, 0, 6), (0.03141, -128)), ("QUANTIZE", (X,), None, lambda a: a, (0.0719, 11)),
    ("AVERAGE_POOL_2D", (X,), w.pool((3, 2), w.SAME, (2, 1)), lambda a: average(a, (3, 2), w.SAME, (2, 1)), (0.02411, 1)), ("MAX_POOL_2D", (X,), w.pool((2, 2), w.VALID, (2, 2)), lambda a: maximum(a, (2, 2), w.VALID, (2, 2)), MOVES),
    ("MEAN", (X, number([1, 2])), (27, [(0, "bool", True)]), lambda a: a.mean((1, 2), keepdims=True), (0.01733, 4)), ("SUM", (X, number([2])), (27, [(0, "bool", False)]), lambda a: a.sum(2), (0.2029, 0)),
    ("SOFTMAX", (X,), (9, [(0, "f32", 1.0)]), softmax, (1 / 256, -128)), ("LOGISTIC", (X,), None, SIGMOID, (1 / 256, -128)), ("TANH", (X,), None, np.tanh, (1 / 128, 0)), ("RELU", (X,), None, lambda a: np.maximum(a, 0), (0.02339, -128)),
    ("RELU6", (X,), None, lambda a: np.clip(a, 0, 6), (0.02357, -128)), ("LEAKY_RELU", (X,), (75, [(0, "f32", 0.25)]), lambda a: np.where(a > 0, a, a / 4), (0.02179, -40)), ("HARD_SWISH", (X,), None, lambda a: a * np.clip(a + 3, 0, 6) / 6, (0.02213, -100)),
    ("ABS", (X,), None, np.abs, (0.02111, -127)), ("ELU", (X,), (0, []), lambda a: np.where(a > 0, a, np.expm1(a)), (0.02093, -60)), ("RESHAPE", (X, number([1, 120])), None, lambda a: a.reshape(1, 120), MOVES),
    ("TRANSPOSE", (X, number([0, 3, 1, 2])), None, lambda a: a.transpose(0, 3, 1, 2), MOVES), ("CONCATENATION", (X, V), (10, [(0, "i32", 2), (1, "i8", 0)]), lambda a, b: np.concatenate([a, b], 2), (0.03017, 2)),
    ("PAD", (X, number([[0, 0], [1, 2], [0, 1], [0, 0]])), None, lambda a: np.pad(a, ((0, 0), (1, 2), (0, 1), (0, 0))), MOVES), ("SLICE", (X, number([0, 1, 2, 0]), number([1, 4, -1, 3])), None, lambda a: a[:, 1:5, 2:, :3], MOVES),
    ("STRIDED_SLICE", (X, number([0, -1, 0, 1]), number([1, -6, 9, 2]), number([1, -2, 2, 1])), (32, [(4, "i32", 8), (1, "i32", 1)]), lambda a: a[:, -1:-6:-2, 0:9:2, 1], MOVES),
    ("SQUEEZE", (X,), None, lambda a: a[0], MOVES), ("EXPAND_DIMS", (X, number(0)), None, lambda a: a[None], MOVES), ("PACK", (X, V), (59, [(0, "i32", 2), (1, "i32", 1)]), lambda a, b: np.stack([a, b], 1), (0.03017, 2)),
    ("SPLIT", (number(2), X), (35, [(0, "i32", 5)]), lambda a: np.split(a, 5, 2), MOVES), ("SPLIT_V", (X, number([1, 3]), number(3)), None, lambda a: np.split(a, [1], 3), MOVES), ("UNPACK", (X,), (64, [(0, "i32", 4), (1, "i32", 3)]), lambda a: [a[..., i] for i in range(4)], MOVES),
]  # fmt: skip
REAL = [
    ("DIV", (X, V), w.arithmetic("DIV"), np.divide), ("EXP", (X,), None, np.exp), ("LOG", (V,), None, np.log), ("SQRT", (V,), None, np.sqrt), ("RSQRT", (V,), None, lambda a: 1 / np.sqrt(a)), ("SIN", (X,), None, np.sin), ("NEG", (X,), None, np.negative),
    ("FLOOR", (X,), None, np.floor), ("SQUARE", (X,), None, np.square), ("SQUARED_DIFFERENCE", (X, V), None, lambda a, b: (a - b) ** 2), ("MAXIMUM", (X, V), None, np.maximum), ("MINIMUM", (X, V), None, np.minimum),
    ("PRELU", (X, number([0.5, 0.25, -1, 2], np.float32)), None, lambda a: np.where(a > 0, a, a * [0.5, 0.25, -1, 2])), ("GELU", (X,), (116, [(0, "bool", False)]), lambda a: a / 2 * (1 + erf(a / math.sqrt(2)))),
    ("L2_NORMALIZATION", (X,), None, lambda a: a / np.sqrt((a * a).sum(-1, keepdims=True))), ("REDUCE_MAX", (X, number([1, 3])), (27, [(0, "bool", False)]), lambda a: a.max((1, 3))), ("RELU_N1_TO_1", (X,), None, lambda a: np.clip(a, -1, 1)),
    ("ARG_MAX", (X, number(3)), None, lambda a: a.argmax(3)), ("LESS", (X, V), None, np.less), ("SHAPE", (X,), None, lambda a: np.array(a.shape)), ("GATHER", (X, number([2, 0, 2])), (23, [(0, "i32", 2)]), lambda a: a[:, :, [2, 0, 2]]),
    ("CAST", (X,), None, lambda a: a.astype(np.int32)), ("PADV2", (X, number([[0, 0], [0, 0], [2, 0], [1, 0]]), number(1.5, np.float32)), None, lambda a: np.pad(a, ((0, 0), (0, 0), (2, 0), (1, 0)), constant_values=1.5)),
    ("MIRROR_PAD", (X, number([[0, 0], [2, 1], [0, 0], [0, 0]])), (77, [(0, "i8", 0)]), lambda a: np.pad(a, ((0, 0), (2, 1), (0, 0), (0, 0)), "reflect")), ("BROADCAST_TO", (X, number([2, 6, 5, 4])), None, lambda a: np.broadcast_to(a, (2, 6, 5, 4))),
    ("BATCH_MATMUL", (X, V), (101, [(0, "bool", False), (1, "bool", True)]), lambda a, b: a @ b.transpose(0, 1, 3, 2)),
    *[("RESIZE_NEAREST_NEIGHBOR", (X, number([9, 7])), (74, [(0, "bool", c), (1, "bool", h)]), lambda a, c=c, h=h: resized(a, (9, 7), c, h, False)) for c, h in ((0, 0), (1, 0), (0, 1))],
    *[("RESIZE_BILINEAR", (X, number([9, 7])), (15, [(2, "bool", c), (3, "bool", h)]), lambda a, c=c, h=h: resized(a, (9, 7), c, h, True)) for c, h in ((0, 0), (1, 0), (0, 1))],
]  # fmt: skip
