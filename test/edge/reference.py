"""The integer meaning of a QDQ model in numpy's 64-bit integers, from the ONNX graph alone: what `--target c` is held against, byte for byte.

It shares nothing with the compiler: channels come first, padding is written out, zero points are subtracted before products.
"""

import math

import numpy as np
from onnx import numpy_helper


def fixed_point(factor):
    """(multiplier of 31 bits, shift)"""
    if factor == 0:
        return 0, 1
    fraction, exponent = math.frexp(abs(factor))
    if np.rint(math.ldexp(fraction, 31)) >= 2**31:
        exponent += 1
    shift = min(31 - exponent, 62)
    return int(np.rint(math.ldexp(factor, shift))), shift


def requantized(products, shift):
    return (products + (1 << (shift - 1))) >> shift


def nearest(value, scale, zero):
    return int(np.clip(np.rint(value / scale) + zero, -128, 127))


def windows(x, kernel, strides, pads, dilations, fill):
    """[N, C, taps, OH, OW] of x [N, C, H, W]."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill)
    out = [(x.shape[2 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(2)]
    taps = [x[:, :, dilations[0] * a : dilations[0] * a + strides[0] * (out[0] - 1) + 1 : strides[0],
              dilations[1] * b : dilations[1] * b + strides[1] * (out[1] - 1) + 1 : strides[1]] for a in range(kernel[0]) for b in range(kernel[1])]  # fmt: skip
    return np.stack(taps, 2)


FUNCTIONS = {
    "Sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "Tanh": np.tanh,
    "HardSigmoid": lambda v: np.clip(0.2 * v + 0.5, 0, 1),
    "LeakyRelu": lambda v: np.where(v >= 0, v, np.float64(np.float32(0.1)) * v),
    "Abs": np.abs,
}
MOVEMENT = {"Reshape", "Flatten", "Transpose", "Squeeze", "Identity"}


class Reference:
    def __init__(self, model):
        self.graph = model.graph
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self.makers = {name: node for node in model.graph.node for name in node.output}

    def run(self, inputs):
        """Signed 8-bit numbers of each output, for those of each input by its name."""
        self.known = {}
        self.inputs = inputs
        outputs = []
        for port in self.graph.output:
            name = port.name
            while self.makers[name].op_type == "Identity":
                name = self.makers[name].input[0]
            view = self.view(name)
            outputs.append(view[0] if view else self.produce(name, 1 / 256, -128, -128, 127))
        return outputs

    def attributes(self, node):
        return {a.name: a.ints if a.ints else a.f if a.type == 1 else a.i for a in node.attribute}

    def parameters(self, node):
        """Scale and zero point of signed numbers."""
        zero = self.constants[node.input[2]]
        return float(self.constants[node.input[1]]), int(zero) - (128 if zero.dtype == np.uint8 else 0)

    def real(self, name):
        """A constant as floats, which may lie behind DequantizeLinear; None where it is computed."""
        if name in self.constants:
            return self.constants[name].astype(np.float64)
        node = self.makers.get(name)
        if node is None or node.op_type != "DequantizeLinear" or node.input[0] not in self.constants:
            return None
        numbers, scale, zero = (self.constants[n] for n in node.input)
        shape = [-1 if i == self.attributes(node).get("axis", 1) and scale.size > 1 else 1 for i in range(numbers.ndim)]
        levels = (numbers.astype(np.int64) - zero.astype(np.int64).reshape(shape)).astype(np.float32)
        return (levels * scale.reshape(shape)).astype(np.float64)

    def weights(self, name):
        """Numbers less their zero points, and their scales as doubles."""
        node = self.makers[name]
        numbers, scale, zero = (self.constants[n] for n in node.input)
        shape = [-1 if i == self.attributes(node).get("axis", 1) and scale.size > 1 else 1 for i in range(numbers.ndim)]
        return numbers.astype(np.int64) - zero.astype(np.int64).reshape(shape), scale.astype(np.float64).ravel()

    def view(self, name):
        """(numbers, scale, zero point) of what is quantized as it is; None of what is not."""
        node = self.makers.get(name)
        if node is None:
            return None
        if node.op_type == "DequantizeLinear" and node.input[0] not in self.constants:
            return self.quantized(node.input[0]), *self.parameters(node)
        if node.op_type in MOVEMENT or node.op_type == "MaxPool":
            view = self.view(node.input[0])
            return (self.moved(node, view[0]), *view[1:]) if view else None
        return None

    def quantized(self, name):
        if name not in self.known:
            node = self.makers[name]
            if node.op_type == "QuantizeLinear":
                self.known[name] = self.inputs[node.input[0]] if node.input[0] in self.inputs else self.produce(node.input[0], *self.parameters(node), -128, 127)
            else:
                raise AssertionError(node.op_type)
        return self.known[name]

    def moved(self, node, x):
        attributes = self.attributes(node)
        if node.op_type == "Transpose":
            return x.transpose(attributes["perm"])
        if node.op_type == "MaxPool":
            return windows(x, attributes["kernel_shape"], attributes.get("strides", [1, 1]), attributes.get("pads", [0] * 4), attributes.get("dilations", [1, 1]), -128).max(2)
        if node.op_type == "Flatten":
            return x.reshape(x.shape[0], -1)
        if node.op_type == "Reshape":
            return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(self.constants[node.input[1]])])
        return x

    def produce(self, name, scale, zero, low, high):
        """What a quantizer of this scale and zero point makes of a value, within bounds of numbers."""
        view = self.view(name)
        bounded = lambda values: np.clip(values + zero, low, high)
        if view:
            if view[1:] == (scale, zero) and (low, high) == (-128, 127):
                return view[0]
            multiplier, shift = fixed_point(view[1] / scale)
            return bounded(requantized((view[0] - view[2]) * multiplier, shift))
        node = self.makers[name]
        if node.op_type == "Relu":
            return self.produce(node.input[0], scale, zero, max(low, nearest(0, scale, zero)), high)
        if node.op_type == "Clip":
            least, most = (float(self.constants[n]) for n in node.input[1:])
            return self.produce(node.input[0], scale, zero, max(low, nearest(least, scale, zero)), min(high, nearest(most, scale, zero)))
        if node.op_type in MOVEMENT or node.op_type == "MaxPool":
            return self.moved(node, self.produce(node.input[0], scale, zero, low, high))
        if node.op_type in FUNCTIONS:
            numbers, x_scale, x_zero = self.view(node.input[0])
            values = FUNCTIONS[node.op_type]((numbers - x_zero) * x_scale)
            return np.clip(np.clip(np.rint(values / scale) + zero, -128, 127), low, high).astype(np.int64)
        made = getattr(self, node.op_type)(node, scale)
        return made(zero, low, high) if callable(made) else bounded(made)

    def scaled(self, sums, axis, x_scale, scales, bias, scale):
        """Sums with their bias, rounded once; scales belong to indices of `axis`."""
        shape = [-1 if i == axis else 1 for i in range(sums.ndim)]
        scales = np.broadcast_to(scales, sums.shape[axis])
        if bias is not None:
            sums = sums + np.rint(np.broadcast_to(bias, sums.shape[axis]) / (x_scale * scales)).astype(np.int64).reshape(shape)
        pairs = [fixed_point(x_scale * each / scale) for each in scales]
        multipliers, shifts = (np.array(values, np.int64).reshape(shape) for values in zip(*pairs, strict=True))
        return (sums * multipliers + (np.int64(1) << (shifts - 1))) >> shifts

    def Conv(self, node, scale):
        x, x_scale, x_zero = self.view(node.input[0])
        weights, scales = self.weights(node.input[1])
        bias = self.real(node.input[2]) if len(node.input) > 2 else None
        attributes = self.attributes(node)
        groups = attributes.get("group", 1)
        flat = x.ndim == 3
        x = x[:, :, None] if flat else x
        weights = weights[:, :, None] if flat else weights
        of = lambda key, missing: [missing, *attributes.get(key, [missing])] if flat else attributes.get(key, [missing] * 2)
        pads = attributes.get("pads", [0] * (2 if flat else 4))
        pads = [0, pads[0], 0, pads[1]] if flat else pads
        taken = windows(x - x_zero, weights.shape[2:], of("strides", 1), pads, of("dilations", 1), 0)
        batch, channels, taps, *space = taken.shape
        taken = taken.reshape(batch, groups, channels // groups, taps, *space)
        filters = weights.reshape(groups, -1, channels // groups, taps)
        sums = np.einsum("bgitxy,goit->bgoxy", taken, filters).reshape(batch, -1, *space)
        made = self.scaled(sums, 1, x_scale, scales, bias, scale)
        return made[:, :, 0] if flat else made

    def matmul(self, x_name, w_name, transposed, bias, scale):
        x, x_scale, x_zero = self.view(x_name)
        weights, scales = self.weights(w_name)
        sums = (x - x_zero) @ (weights.T if transposed else weights)
        return self.scaled(sums, sums.ndim - 1, x_scale, scales, bias, scale)

    def Gemm(self, node, scale):
        bias = self.real(node.input[2]) if len(node.input) > 2 else None
        return self.matmul(node.input[0], node.input[1], self.attributes(node).get("transB", 0), bias, scale)

    def MatMul(self, node, scale):
        return self.matmul(node.input[0], node.input[1], 0, None, scale)

    def summed(self, node, scale, sign):
        operands = [(self.view(name), self.real(name), s) for name, s in zip(node.input, (1, sign), strict=True)]
        for name, other in (node.input, node.input[::-1]):
            if self.makers.get(name) is not None and self.makers[name].op_type == "MatMul":
                return self.matmul(*self.makers[name].input, 0, self.real(other), scale)
        factors = [s * view[1] / scale for view, _, s in operands if view]
        shift = fixed_point(max(map(abs, factors)))[1]
        total = 0
        for view, real, s in operands:
            if view:
                total = total + (view[0] - view[2]) * int(np.rint(math.ldexp(s * view[1] / scale, shift)))
            else:
                total = total + np.rint(np.ldexp(s * real / scale, shift)).astype(np.int64)
        return requantized(total, shift)

    def Add(self, node, scale):
        return self.summed(node, scale, 1)

    def Sub(self, node, scale):
        return self.summed(node, scale, -1)

    def Mul(self, node, scale):
        views = [self.view(name) for name in node.input]
        if all(views):
            (a, a_scale, a_zero), (b, b_scale, b_zero) = views
            multiplier, shift = fixed_point(a_scale * b_scale / scale)
            return requantized((a - a_zero) * (b - b_zero) * multiplier, shift)
        index = 0 if views[0] else 1
        x, x_scale, x_zero = views[index]
        factors = self.real(node.input[1 - index]) * x_scale / scale
        shift = fixed_point(float(np.abs(factors).max()))[1]
        return requantized((x - x_zero) * np.rint(np.ldexp(factors, shift)).astype(np.int64), shift)

    def means(self, sums, counts, x_scale, scale):
        pairs = {count: fixed_point(x_scale / (scale * float(count))) for count in np.unique(counts)}
        made = np.zeros_like(sums)
        for count, (multiplier, shift) in pairs.items():
            made = np.where(counts == count, requantized(sums * multiplier, shift), made)
        return made

    def AveragePool(self, node, scale):
        x, x_scale, x_zero = self.view(node.input[0])
        attributes = self.attributes(node)
        how = attributes["kernel_shape"], attributes.get("strides", [1, 1]), attributes.get("pads", [0] * 4), [1, 1], 0
        counts = windows(np.ones_like(x), *how).sum(2)
        if attributes.get("count_include_pad", 0):
            counts = np.full_like(counts, math.prod(how[0]))
        return self.means(windows(x - x_zero, *how).sum(2), counts, x_scale, scale)

    def GlobalAveragePool(self, node, scale):
        x, x_scale, x_zero = self.view(node.input[0])
        sums = (x - x_zero).sum(tuple(range(2, x.ndim)), keepdims=True)
        return self.means(sums, np.full_like(sums, math.prod(x.shape[2:])), x_scale, scale)

    def ReduceMean(self, node, scale):
        x, x_scale, x_zero = self.view(node.input[0])
        attributes = self.attributes(node)
        sums = (x - x_zero).sum(tuple(attributes["axes"]), keepdims=bool(attributes.get("keepdims", 1)))
        return self.means(sums, np.full_like(sums, x.size // sums.size), x_scale, scale)

    def Softmax(self, node, scale):
        x, x_scale, _ = self.view(node.input[0])
        coarse, fine = ([int(np.rint(math.ldexp(math.exp(-step * i * x_scale), 15))) for i in range(16)] for step in (16, 1))
        table = np.array([(coarse[d >> 4] * fine[d & 15] + 2**14) >> 15 for d in range(256)])
        shift = next(s for s in range(15, -1, -1) if np.rint(math.ldexp(1 / scale, s)) < 2**16 and x.shape[-1] << (15 + s) <= 2**31)
        powers = table[x.max(-1, keepdims=True) - x]
        total = powers.sum(-1, keepdims=True) << shift
        return (powers * int(np.rint(math.ldexp(1 / scale, shift))) + total // 2) // total

    def Concat(self, node, scale):
        def made(zero, low, high):
            return np.concatenate([self.produce(name, scale, zero, low, high) for name in node.input], self.attributes(node)["axis"])

        return made

    def Pad(self, node, scale):
        def made(zero, low, high):
            pads = self.constants[node.input[1]]
            value = float(self.constants[node.input[2]]) if len(node.input) > 2 else 0.0
            numbers, x_scale, x_zero = self.view(node.input[0])
            padded = np.pad(numbers, list(zip(pads[: len(pads) // 2], pads[len(pads) // 2 :], strict=True)), constant_values=nearest(value, x_scale, x_zero))
            multiplier, shift = fixed_point(x_scale / scale)
            is_same = (x_scale, x_zero, low, high) == (scale, zero, -128, 127)
            return padded if is_same else np.clip(requantized((padded - x_zero) * multiplier, shift) + zero, low, high)

        return made
