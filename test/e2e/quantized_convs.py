"""Convolutions of quantized numbers as quantizers write them, against the integers and scales that they stand for, on every CPU level
that this machine runs: over one to three dims, strided, dilated, padded unevenly with zero points, by groups and depthwise, channels
that fill no word, signed and unsigned numbers and weights, one scale or one for each channel, and sizes that the model leaves free.
"""

import itertools
import sys
import unittest

import numpy as np
from quantized_model import QuantizedModel, QuantizedTest

# data, weights, and what the convolution has beyond its defaults
CASES = {
    "padded": ((2, 8, 9, 7), (35, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
    "deep": ((2, 68, 7, 7), (33, 68, 3, 3), {"pads": [1, 1, 1, 1]}),
    "deep_without_padding": ((1, 72, 9, 5), (20, 72, 3, 3), {}),
    "pointwise": ((2, 16, 5, 6), (33, 16, 1, 1), {}),
    "pointwise_strided": ((1, 8, 9, 9), (32, 8, 1, 1), {"strides": [2, 2]}),
    "long_rows": ((1, 4096, 2, 3), (5, 4096, 1, 1), {}),
    "image": ((1, 3, 13, 11), (20, 3, 7, 7), {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
    "uneven": ((1, 8, 9, 8), (40, 8, 3, 2), {"pads": [2, 0, 1, 3], "dilations": [2, 1]}),
    "dilated_columns": ((1, 12, 7, 9), (32, 12, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    "grouped": ((1, 24, 7, 7), (12, 8, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}),
    "small_groups": ((1, 12, 6, 5), (24, 2, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}),
    "odd_groups": ((1, 9, 6, 6), (15, 3, 3, 3), {"group": 3}),
    "depthwise": ((2, 32, 9, 9), (32, 1, 3, 3), {"group": 32, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "depthwise_odd": ((1, 13, 5, 20), (13, 1, 5, 3), {"group": 13, "pads": [2, 1, 2, 1]}),
    "depthwise_twice": ((1, 8, 7, 7), (16, 1, 3, 3), {"group": 8, "pads": [0, 1, 0, 1]}),
    "signal": ((2, 8, 19), (12, 8, 5), {"pads": [2, 2]}),
    "volume": ((1, 4, 5, 6, 7), (9, 4, 2, 3, 3), {"pads": [1, 1, 0, 0, 1, 2], "strides": [1, 2, 1]}),
}
# numbers, the zero point of those from the least on, weights, whether each output channel has a scale
FORMS = ((np.uint8, 100, np.int8, True), (np.int8, 100, np.int8, False), (np.uint8, 0, np.uint8, False),
         (np.int8, 0, np.uint8, True))


def convolve(x, w, group=1, strides=None, pads=None, dilations=None):
    """Sums of integers, a tap at a time."""
    spatial = x.ndim - 2
    strides, pads, dilations = strides or [1] * spatial, pads or [0] * 2 * spatial, dilations or [1] * spatial
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:])])
    out = [(size - (k - 1) * d - 1) // s + 1 for size, k, d, s in zip(x.shape[2:], w.shape[2:], dilations, strides)]
    y = np.zeros((x.shape[0], w.shape[0], *out), np.int64)
    inputs, outputs = w.shape[1], w.shape[0] // group
    for tap in itertools.product(*map(range, w.shape[2:])):
        at = tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilations, out, strides))
        seen = x[(slice(None), slice(None), *at)]
        for g in range(group):
            weights = w[(slice(g * outputs, (g + 1) * outputs), slice(None), *tap)]
            part = seen[:, g * inputs:(g + 1) * inputs]
            y[:, g * outputs:(g + 1) * outputs] += np.einsum("oc,nc...->no...", weights, part)
    return y


class Model(QuantizedModel):
    def free_dims(self, name, value):
        return [f"{name[1:]}_n", value.shape[1], *(f"{name}{i}" for i in range(value.ndim - 2))]

    def data(self, label, dims, kind, start):
        """What is quantized, the names of that and of its parameters, and its numbers less the zero point."""
        x = self.inputs[f"x{label}"] = (2 * self.random.standard_normal(dims)).astype(np.float32)
        scale, zero = np.float32(0.025), kind(np.iinfo(kind).min + start)
        parameters = [self.constant(f"s{label}", scale), self.constant(f"z{label}", zero)]
        q = self.node("QuantizeLinear", [f"x{label}", *parameters], f"q{label}")
        limits = np.iinfo(kind)
        levels = np.clip(np.rint(x / scale) + int(zero), limits.min, limits.max).astype(np.int64) - int(zero)
        return q, parameters, levels, scale

    def weights(self, label, dims, kind, is_per_channel):
        extent = dims[:1] if is_per_channel else ()
        values = self.numbers(kind, *dims)
        scales = self.random.uniform(0.001, 0.01, extent).astype(np.float32)
        middle = 128 if kind == np.uint8 else 0
        zeros = np.asarray(middle + self.random.integers(-2, 3, extent)).astype(kind)
        names = [self.constant(f"w{label}", values), self.constant(f"sw{label}", scales), self.constant(f"zw{label}", zeros)]
        along = zeros.astype(np.int64).reshape(-1, *[1] * (len(dims) - 1)) if is_per_channel else int(zeros)
        return names, values.astype(np.int64) - along, scales

    def add_static(self, label, case, form):
        """Between quantization and its inverse, with a bias."""
        dims, weight_dims, attributes = case
        kind, start, weight_kind, is_per_channel = form
        q, parameters, levels, scale = self.data(label, dims, kind, start)
        a = self.node("DequantizeLinear", [q, *parameters], f"a{label}")
        names, weights, scales = self.weights(label, weight_dims, weight_kind, is_per_channel)
        b = self.node("DequantizeLinear", names, f"b{label}", **({"axis": 0} if is_per_channel else {}))
        bias = self.random.standard_normal(weight_dims[0]).astype(np.float32)
        y = self.node("Conv", [a, b, self.constant(f"c{label}", bias)], f"y{label}", **attributes)
        sums = convolve(levels, weights, **attributes).astype(np.float64)
        channels = [-1, *[1] * (len(dims) - 2)]
        factor = (np.float64(scale) * scales.astype(np.float64)).reshape(channels if is_per_channel else ())
        self.wanted[y] = sums * factor + bias.reshape(channels)

    def add_integer(self, label, case, form):
        """ConvInteger of numbers and a zero point that are found at run time."""
        dims, weight_dims, attributes = case
        weight_kind = form[2]
        x = self.inputs[f"x{label}"] = self.random.standard_normal(dims).astype(np.float32)
        self.node("DynamicQuantizeLinear", [f"x{label}"], f"q{label}", f"s{label}", f"z{label}")
        names, weights, _ = self.weights(label, weight_dims, weight_kind, False)
        y = self.node("ConvInteger", [f"q{label}", names[0], f"z{label}", names[2]], f"y{label}", **attributes)
        low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
        scale = (high - low) / np.float32(255)
        start = np.rint(np.clip(-low / scale, 0, 255))
        levels = np.clip(np.rint(x / scale) + start, 0, 255).astype(np.int64) - int(start)
        self.wanted[y] = convolve(levels, weights, **attributes)

    def add_linear(self, label, case, form):
        """QLinearConv, whose result may be one off where its quotient is close to a half."""
        dims, weight_dims, attributes = case
        kind, start, weight_kind, is_per_channel = form
        q, parameters, levels, scale = self.data(label, dims, kind, start)
        names, weights, scales = self.weights(label, weight_dims, weight_kind, is_per_channel)
        bias = self.random.integers(-1000, 1000, weight_dims[0]).astype(np.int32)
        channels = [-1, *[1] * (len(dims) - 2)]
        sums = convolve(levels, weights, **attributes) + bias.astype(np.int64).reshape(channels)
        factor = (np.float64(scale) * scales.astype(np.float64)).reshape(channels if is_per_channel else ())
        real = sums * factor
        out_scale, out_zero = np.float32(np.abs(real).max() / 100), kind(np.iinfo(kind).min + 120)
        out = [self.constant(f"so{label}", out_scale), self.constant(f"zo{label}", out_zero)]
        y = self.node("QLinearConv", [q, *parameters, names[0], names[1], names[2], *out, self.constant(f"c{label}", bias)],
                      f"l{label}", **attributes)
        self.node("DequantizeLinear", [y, *out], f"y{label}")
        limits = np.iinfo(kind)
        levels = np.clip(np.rint(real / out_scale) + int(out_zero), limits.min, limits.max) - int(out_zero)
        self.wanted[f"y{label}"] = levels * np.float64(out_scale)


class QuantizedConvs(QuantizedTest):
    is_whole = True  # every form of a case; else one in turn

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = Model()
        for number, (name, case) in enumerate(CASES.items()):
            for j, form in enumerate(FORMS):
                if cls.is_whole or j == number % len(FORMS):
                    cls.model.add_static(f"_{name}_{j}", case, form)
            if cls.is_whole or number % 2:
                cls.model.add_integer(f"_{name}_integer", case, FORMS[1 + number % 2])
            if cls.is_whole or not number % 2:
                cls.model.add_linear(f"_{name}_linear", case, FORMS[number % len(FORMS)])
        for name in ("padded", "depthwise", "grouped"):
            cls.model.add_static(f"free_{name}", CASES[name], FORMS[0])
            cls.model.free |= {f"xfree_{name}", f"yfree_{name}"}
        cls.save(cls.model)

    def test_every_level_of_this_machine(self):
        self.check_levels(self.model, lambda name, wanted: np.abs(wanted).max() / 90 if name.endswith("linear") else 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
