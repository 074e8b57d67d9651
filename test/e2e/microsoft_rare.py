"""Rarer operators of ONNX Runtime's domain com.microsoft against ONNX Runtime: mixtures of experts, weights of two bits and of
groups, embeddings of a few bits, and its own forms of ONNX's operators. Where the installed one lacks a form: its documented formula.
"""

import sys
import unittest

import numpy as np
from microsoft import RANDOM, Builder, PeerTest, floats
from onnx import TensorProto as T


def packed(numbers, bits):
    """Numbers of so many bits in bytes along the last dim, the lowest first."""
    each = 8 // bits
    apart = numbers.reshape(*numbers.shape[:-1], -1, each).astype(np.uint8)
    return sum(apart[..., i] << (i * bits) for i in range(each)).astype(np.uint8)


def levels(bits, *dims):
    return RANDOM.integers(0, 1 << bits, dims).astype(np.uint8)


class MicrosoftRare(PeerTest):
    def test_matrices(self):
        b = Builder()
        b.input("a", ["rows", 6])
        b.input("b", ["others", 6])
        b.input("m", ["batch", 5, 5])
        b.input("l", ["count"])
        b.constant("pads", np.array([0, 1, 2, 1, 0, 1], np.int64))
        b.constant("value", np.float32(7))
        b.constant("k", np.array(-1, np.int64))
        for metric in ("euclidean", "sqeuclidean"):
            b.add("CDist", ["a", "b"], metric, metric=metric)
        b.add("Inverse", ["m"], "inverse")
        b.add("Pad", ["m", "pads", "value"], "padded", mode="constant")
        b.add("Pad", ["m", "pads"], "reflected", mode="reflect")
        b.add("Trilu", ["m"], "upper")
        b.add("Trilu", ["m", "k"], "lower", upper=0)
        b.add("Unique", ["l"], ["unique", "places", "counts"])
        for output in b.outputs[-2:]:
            output.type.tensor_type.elem_type = T.INT64
        permuted = np.eye(5, dtype=np.float32)[[3, 0, 4, 1, 2]] * 2
        feeds = [{"a": floats(n, 6), "b": floats(n + 1, 6), "m": np.concatenate([floats(n, 5, 5) + 3 * np.eye(5, dtype=np.float32), permuted[None]]),
                  "l": RANDOM.integers(0, 4, 3 * n).astype(np.float32)} for n in (1, 3)]
        self.compare("matrices", b, feeds, ["m:[1..8]x5x5"], tolerance=1e-4)

    def test_products_of_few_bits(self):
        def dequantized(numbers, scales, zeros, groups):
            return (numbers.astype(np.float32) - zeros.astype(np.float32)[:, groups]) * scales[:, groups]

        n, k, block, wanted = 6, 64, 16, {}
        blocks, a = k // block, floats(3, k)
        b = Builder()
        b.input("a", ["rows", k])
        groups = RANDOM.permutation(np.arange(k) // block)
        b.constant("groups", groups.astype(np.int32))
        for bits in (2, 4, 8):
            numbers, scales, zeros = levels(bits, n, k), np.abs(floats(n, blocks)), levels(bits, n, 4)
            b.constant(f"w{bits}", packed(numbers, bits).reshape(n, blocks, -1))
            b.constant(f"s{bits}", scales)
            b.constant(f"z{bits}", packed(zeros, bits))
            middle = np.full((n, blocks), 1 << (bits - 1))
            for name, inputs, parts in ((f"plain{bits}", [], (middle, np.arange(k) // block)), (f"zero{bits}", [f"z{bits}"], (zeros, np.arange(k) // block)),
                                        (f"groups{bits}", [f"z{bits}", "groups"], (zeros, groups)), (f"bare{bits}", ["", "groups"], (middle, groups))):
                b.add("MatMulNBits", ["a", f"w{bits}", f"s{bits}", *inputs], name, N=n, K=k, bits=bits, block_size=block)
                wanted[name] = a @ dequantized(numbers, scales, *parts).T
        self.compare("few_bits", b, [{"a": a}], oracle=lambda *_: [wanted[x.name] for x in b.outputs], tolerance=1e-4)

    def test_embeddings_of_few_bits(self):
        b = Builder(opset=21)
        b.input("ids", ["batch", "length"], T.INT64)
        for bits in (2, 4, 8):
            b.constant(f"rows{bits}", packed(levels(bits, 9, 64), bits))
            b.constant(f"scales{bits}", np.abs(floats(9, 4)))
            b.constant(f"zeros{bits}", packed(levels(bits, 9, 4), bits))
            for name, more in (("", []), ("_zero", [f"zeros{bits}"])):
                b.add("GatherBlockQuantized", [f"rows{bits}", "ids", f"scales{bits}", *more], f"gathered{bits}{name}", bits=bits, block_size=16)
        feeds = [{"ids": RANDOM.integers(0, 9, dims)} for dims in ((1, 1), (2, 5))]
        self.compare("embeddings", b, feeds, tolerance=1e-6)

    def test_experts(self):
        rows, experts, width, inner = 5, 4, 16, 32
        b = Builder()
        b.input("x", ["rows", width])
        b.input("router", ["rows", experts])
        for name, dims in (("w1", (experts, inner, width)), ("b1", (experts, inner)), ("w2", (experts, width, inner)), ("b2", (experts, width)),
                           ("w3", (experts, inner, width)), ("g1", (experts, 2 * inner, width)), ("gb1", (experts, 2 * inner))):
            b.random(name, *dims)
        for number, (activation, k, normalizes) in enumerate((("relu", 1, 0), ("gelu", 2, 1), ("silu", 2, 0), ("identity", 3, 1))):
            b.add("MoE", ["x", "router", "w1", "b1", "w2", "b2"], f"{activation}{number}", activation_type=activation, k=k,
                  normalize_routing_weights=normalizes)
        b.add("MoE", ["x", "router", "w1", "", "w2"], "bare", k=2)
        b.add("MoE", ["x", "router", "g1", "gb1", "w2", "b2"], "swiglu", activation_type="swiglu", swiglu_fusion=1, k=2, activation_alpha=1.702,
              activation_beta=1.0, swiglu_limit=7.0, normalize_routing_weights=1)
        feeds = [{"x": floats(n, width), "router": floats(n, experts)} for n in (rows, 1)]
        self.compare("experts", b, feeds, ["x:[1..8]x16", "router:[1..8]x4"], tolerance=2e-4)

    def test_experts_of_few_bits(self):
        experts, width, inner = 3, 32, 32
        b = Builder()
        b.input("x", [4, width])
        b.input("router", [4, experts])
        for bits in (4, 8):
            for name, rows, columns in (("w1", inner, width), ("w2", width, inner), ("g1", 2 * inner, width)):
                b.constant(f"{name}_{bits}", packed(levels(bits, experts, rows, columns), bits))
                b.constant(f"{name}_{bits}_s", np.abs(floats(experts, rows)) / 16)
                b.constant(f"{name}_{bits}_b", np.abs(floats(experts, rows, columns // 16)) / 16)
            for kind, options in (("s", {}), ("b", {"block_size": 16})):
                b.add("QMoE", ["x", "router", f"w1_{bits}", f"w1_{bits}_{kind}", "", f"w2_{bits}", f"w2_{bits}_{kind}"], f"relu{bits}{kind}",
                      k=2, expert_weight_bits=bits, normalize_routing_weights=1, **options)
                b.add("QMoE", ["x", "router", f"g1_{bits}", f"g1_{bits}_{kind}", "", f"w2_{bits}", f"w2_{bits}_{kind}"], f"swiglu{bits}{kind}",
                      k=2, expert_weight_bits=bits, activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, **options)
        for name, normalizes in (("weighted", 0), ("normalized", 1)):
            b.add("QMoE", ["x", "router", "w1_4", "w1_4_s", "", "w2_4", "w2_4_s", *7 * [""], "weights"], name, k=2, normalize_routing_weights=normalizes)
        b.input("weights", [4, experts])
        feed = {"x": floats(4, width), "router": floats(4, experts), "weights": np.abs(floats(4, experts))}

        def valid(output, value, _):
            """ONNX Runtime quantizes what comes in where blocks have 8 bits."""
            return value / (10 * np.abs(value).max()) if output.endswith("8b") else value

        self.compare("experts_of_few_bits", b, [feed], tolerance=2e-3, valid=valid)


if __name__ == "__main__":
    sys.exit(unittest.main())
