"""Operators of ONNX Runtime's domain com.microsoft against ONNX Runtime, and attributes of ONNX's own that choose a type
against their definition: many nodes in one model, compiled once with symbolic batch and sequence, run with two shapes.
"""

import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from tool import PEER_INT8, ToolTest

RANDOM = np.random.default_rng(16)
HEADS, WIDTH = 4, 16
HIDDEN = HEADS * WIDTH


class Builder:
    """A model whose nodes' results are all its outputs."""

    def __init__(self, opset=17):
        self.nodes, self.inputs, self.outputs, self.constants, self.opset = [], [], [], [], opset

    def input(self, name, dims, kind=T.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, dims))

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def random(self, name, *dims):
        return self.constant(name, RANDOM.standard_normal(dims).astype(np.float32))

    def add(self, op, inputs, outputs, kind=T.FLOAT, domain="com.microsoft", **attributes):
        results = outputs if isinstance(outputs, list) else [outputs]
        self.nodes.append(helper.make_node(op, inputs, results, name=results[0], domain=domain, **attributes))
        self.outputs += [helper.make_tensor_value_info(name, kind, None) for name in results if name]

    def model(self):
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def floats(*dims):
    return RANDOM.standard_normal(dims).astype(np.float32)


def by_runtime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


class PeerTest(ToolTest):
    def compare(self, name, builder, feeds, shapes=(), oracle=by_runtime, tolerance=2e-5, steps=0, valid=None):
        """Compiles once; each set of inputs gives the oracle's outputs, integers within `steps`."""
        model = builder.model()
        onnx.save(model, self.folder / f"{name}.onnx")
        ranges = [word for shape in shapes for word in ("--shape", shape)]
        self.succeed("compile", f"{name}.onnx", "-o", f"{name}.tenon", "--target", "cpu:avx2", *ranges)
        for feed in feeds:
            np.savez(self.folder / "in.npz", **feed)
            self.succeed("run", f"{name}.tenon", "--inputs", "in.npz", "-o", "out.npz")
            actual = np.load(self.folder / "out.npz")
            for value, wanted in zip(builder.outputs, oracle(model, feed)):
                found = actual[value.name]
                with self.subTest(model=name, output=value.name):
                    self.assertEqual((wanted.shape, wanted.dtype), (found.shape, found.dtype))
                    if valid:
                        wanted, found = valid(value.name, wanted, feed), valid(value.name, found, feed)
                    if wanted.dtype.kind == "f":
                        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64),
                                                   rtol=tolerance, atol=tolerance)
                    else:
                        self.assertLessEqual(np.abs(found.astype(int) - wanted.astype(int)).max(), steps)


class Microsoft(PeerTest):
    def test_fusions(self):
        b = Builder()
        b.input("x", ["batch", "length", HIDDEN])
        b.input("skip", ["batch", "length", HIDDEN])
        b.input("ids", ["batch", "length"], T.INT32)
        for name in ("gamma", "beta", "bias"):
            b.random(name, HIDDEN)
        for name, rows in (("words", 20), ("places", 16)):
            b.random(name, rows, HIDDEN)
        b.random("w", 24, HIDDEN)
        b.add("Gelu", ["x"], "gelu")
        b.add("BiasGelu", ["x", "bias"], "bias_gelu")
        b.add("FastGelu", ["x"], "fast_gelu")
        b.add("FastGelu", ["x", "bias"], "fast_bias_gelu")
        b.add("QuickGelu", ["x"], "quick_gelu", alpha=1.5)
        b.add("SkipLayerNormalization", ["x", "skip", "gamma", "beta", "bias"], ["sln", "", "", "sln_sum"], epsilon=1e-3)
        b.add("SkipLayerNormalization", ["x", "skip", "gamma"], "sln_plain")
        b.add("SkipSimplifiedLayerNormalization", ["x", "skip", "gamma", "bias"], ["ssln", "", "", "ssln_sum"])
        b.add("SimplifiedLayerNormalization", ["x", "gamma"], "simplified", domain="", epsilon=1e-2, axis=-1)
        b.add("FusedMatMul", ["x", "w"], "fused", transB=1, alpha=0.25)
        b.add("TransposeMatMul", ["x", "w"], "transposed", transB=1)
        b.input("image", ["batch", 4, 6, 6])
        b.input("more", ["batch", 8, 6, 6])
        b.random("filter", 8, 4, 3, 3)
        b.random("channel", 8)
        for name, attributes in (("relu", {"activation": "Relu"}), ("leaky", {"activation": "LeakyRelu", "activation_params": [0.2]}),
                                 ("clip", {"activation": "Clip", "activation_params": [-1.0, 2.0]}), ("bare", {})):
            b.add("FusedConv", ["image", "filter", "channel", "more"], "conv_" + name, pads=[1, 1, 1, 1], **attributes)
        b.input("matrix", ["batch", HIDDEN])
        for name, attributes in (("tanh", {"activation": "Tanh"}), ("leaky", {"activation": "LeakyRelu", "activation_alpha": 0.3})):
            b.add("FusedGemm", ["matrix", "w"], "gemm_" + name, transB=1, alpha=0.5, **attributes)
        b.add("FusedMatMul", ["x", "skip"], "fused_a", transA=1)
        b.input("rows", [6, "batch", 5, 8])
        b.input("columns", [8, "batch", 5, 7])
        b.input("many", ["batch", 5, 8, 6])
        b.add("FusedMatMul", ["rows", "columns"], "fused_batches", transBatchA=1, transBatchB=1)
        b.add("FusedMatMul", ["columns", "rows"], "fused_turned", transBatchA=1, transA=1, transBatchB=1, transB=1)
        b.add("FusedMatMul", ["rows", "many"], "fused_batch", transBatchA=1, alpha=0.5)
        b.input("seen", ["batch", "length"], T.INT32)
        embedded = ["ids", "", "words", "places", "", "gamma", "beta"]
        b.add("EmbedLayerNormalization", [*embedded, "seen"], ["embed", "embed_mask"], epsilon=1e-3)
        b.outputs[-1].type.tensor_type.elem_type = T.INT32
        feeds = [{"x": floats(n, s, HIDDEN), "skip": floats(n, s, HIDDEN),
                  "ids": RANDOM.integers(0, 20, (n, s)).astype(np.int32),
                  "image": floats(n, 4, 6, 6), "more": floats(n, 8, 6, 6), "matrix": floats(n, HIDDEN),
                  "rows": floats(6, n, 5, 8), "columns": floats(8, n, 5, 7), "many": floats(n, 5, 8, 6),
                  "seen": (np.arange(s) < s - 2).astype(np.int32) * np.ones((n, 1), np.int32)}
                 for n, s in ((2, 5), (1, 16))]
        shapes = [f"{name}:[1..4]x[1..16]x{HIDDEN}" for name in ("x", "skip")] + [f"{name}:[1..4]x[1..16]" for name in ("ids", "seen")]
        shapes += ["rows:6x[1..4]x5x8", "columns:8x[1..4]x5x7", "many:[1..4]x5x8x6", "image:[1..4]x4x6x6", "more:[1..4]x8x6x6", f"matrix:[1..4]x{HIDDEN}"]
        self.compare("fusions", b, feeds, shapes)

    def test_causal_attention_of_padded_caches(self):
        b = Builder(opset=24)
        b.input("q", ["batch", 4, "queries", WIDTH])
        for name in ("k", "v"):
            b.input(name, ["batch", 2, 9, WIDTH])
        b.input("lengths", ["batch"], T.INT64)
        for name, attributes in (("causal", {"is_causal": 1}), ("whole", {}), ("capped", {"is_causal": 1, "softcap": 2.0})):
            b.add("Attention", ["q", "k", "v", "", "", "", "lengths"], name, domain="", **attributes)
        feeds = [{"q": floats(n, 4, s, WIDTH), "k": floats(n, 2, 9, WIDTH), "v": floats(n, 2, 9, WIDTH),
                  "lengths": np.arange(s, s + n)} for n, s in ((3, 4), (2, 1), (1, 9))]
        shapes = [f"q:[1..4]x4x[1..9]x{WIDTH}", *(f"{name}:[1..4]x2x9x{WIDTH}" for name in ("k", "v")), "lengths:[1..4]"]
        self.compare("padded_causal", b, feeds, shapes)

    def test_quantized(self):
        b = Builder()
        b.input("x", ["batch", 3, "height", 8], T.UINT8)
        b.input("y", ["batch", 3, "height", 8], T.UINT8)
        b.input("a", ["batch", "length", 48])
        for name, scale, zero in (("s", 0.05, 120), ("t", 0.07, 3), ("u", 0.03, 128)):
            b.constant(name, np.float32(scale))
            b.constant(name + "z", np.uint8(zero))
        first, second, result = ["x", "s", "sz"], ["y", "t", "tz"], ["u", "uz"]
        b.add("QLinearAdd", first + second + result, "qadd", T.UINT8)
        b.add("QLinearMul", first + second + result, "qmul", T.UINT8)
        b.add("QLinearSigmoid", first + result, "qsigmoid", T.UINT8)
        b.add("QLinearLeakyRelu", first + result, "qleaky", T.UINT8, alpha=0.2)
        b.add("QLinearAveragePool", first + result, "qpool", T.UINT8, kernel_shape=[2, 3], pads=[1, 1, 0, 1],
              strides=[1, 2])
        b.add("QLinearGlobalAveragePool", first + result, "qglobal", T.UINT8)
        b.add("QLinearConcat", result + first + second, "qconcat", T.UINT8, axis=1)
        b.add("QLinearSoftmax", first + result, "qsoftmax", T.UINT8, axis=-1, opset=13)
        b.input("flag", ["batch", 1, "height", 8], T.BOOL)
        b.add("QLinearWhere", ["flag"] + first + second + result, "qwhere", T.UINT8)
        b.constant("channel_scales", np.abs(floats(8)) / 16 + 0.01)
        b.constant("channel_zeros", RANDOM.integers(0, 256, 8).astype(np.uint8))
        b.input("r", ["batch", 3, "height", 8])
        by_channel = ["channel_scales", "channel_zeros"]
        b.add("QuantizeLinear", ["r"] + by_channel, "ms_quantized", T.UINT8, axis=3)
        b.add("DequantizeLinear", ["x"] + by_channel, "ms_real", axis=3)
        b.add("QuantizeLinear", ["r", "s", "sz"], "ms_quantized_all", T.UINT8)
        b.add("DequantizeLinear", ["x", "s"], "ms_real_all")
        for bits, block, name in ((4, 16, "n4"), (4, 32, "n4_ragged"), (8, 16, "n8")):
            blocks = -(-48 // block)
            b.constant(name + "w", RANDOM.integers(0, 256, (10, blocks, block * bits // 8)).astype(np.uint8))
            b.constant(name + "s", np.abs(floats(10, blocks)) / 16)
            packed = -(-blocks * bits // 8)
            b.constant(name + "z", RANDOM.integers(0, 256, (10, packed)).astype(np.uint8))
            shared = dict(N=10, K=48, bits=bits, block_size=block)
            b.add("MatMulNBits", ["a", name + "w", name + "s"], name, **shared)
            b.add("MatMulNBits", ["a", name + "w", name + "s", name + "z"], name + "_zero", **shared)
        feeds = [{"x": RANDOM.integers(0, 256, (n, 3, h, 8)).astype(np.uint8),
                  "y": RANDOM.integers(0, 256, (n, 3, h, 8)).astype(np.uint8), "a": floats(n, h, 48),
                  "r": floats(n, 3, h, 8), "flag": RANDOM.random((n, 1, h, 8)) < 0.5}
                 for n, h in ((1, 4), (3, 7))]
        shapes = [f"{name}:[1..4]x3x[2..9]x8" for name in "xyr"] + ["flag:[1..4]x1x[2..9]x8"] + ["a:[1..4]x[1..9]x48"]
        self.compare("quantized", b, feeds, shapes, tolerance=1e-3, steps=1)

    def test_quantized_products(self):
        b = Builder()
        b.input("a", ["batch", "length", 24])
        b.input("x", ["batch", "length", 24], T.UINT8)
        b.input("rows", ["length", 24], T.UINT8)
        b.constant("w", RANDOM.integers(*PEER_INT8, (24, 10)).astype(np.int8))
        b.constant("wz", np.int8(5))
        for name, dims in (("u", (24, 10)), ("ut", (10, 24)), ("uzs", 10)):
            b.constant(name, RANDOM.integers(0, 256, dims).astype(np.uint8))
        b.constant("s", np.float32(0.02))
        b.constant("xz", np.uint8(130))
        b.constant("ss", np.abs(floats(10)) / 32)
        b.constant("sums", RANDOM.integers(-2000, 2000, 10).astype(np.int32))
        b.constant("yz", np.uint8(120))
        b.random("bias", 10)
        b.add("DynamicQuantizeMatMul", ["a", "w", "s"], "dynamic")
        b.add("DynamicQuantizeMatMul", ["a", "u", "ss", "uzs", "bias"], "dynamic_columns")
        b.add("MatMulIntegerToFloat", ["x", "w", "s", "s"], "to_float")
        b.add("MatMulIntegerToFloat", ["x", "u", "s", "ss", "xz", "uzs", "bias"], "to_float_columns")
        b.add("QGemm", ["rows", "s", "xz", "w", "s", "wz"], "gemm")
        b.add("QGemm", ["rows", "s", "xz", "ut", "ss", "uzs", "sums", "s", "yz"], "gemm_quantized", T.UINT8, transB=1, alpha=0.05)
        feeds = [{"a": floats(n, s, 24), "x": RANDOM.integers(0, 256, (n, s, 24)).astype(np.uint8),
                  "rows": RANDOM.integers(0, 256, (s, 24)).astype(np.uint8)} for n, s in ((2, 5), (1, 1))]
        shapes = ["a:[1..4]x[1..8]x24", "x:[1..4]x[1..8]x24", "rows:[1..8]x24"]
        self.compare("products", b, feeds, shapes, tolerance=1e-4, steps=1)

    def test_packed_attention(self):
        """Attention and QAttention in the forms of their masks, with a past and without."""
        b = Builder()
        b.input("x", ["batch", "length", 24])
        b.input("bytes", ["batch", "length", 24], T.UINT8)
        b.input("seen", ["batch", "length"], T.INT32)
        b.input("pairs", ["batch", "length", "length"], T.INT32)
        b.input("ends", ["batch"], T.INT32)
        b.input("bounds", [4], T.INT32)
        b.input("x2", [2, "length", 24])
        b.input("past", [2, "batch", HEADS, "before", WIDTH])
        b.input("longer", ["batch", "all"], T.INT32)
        b.random("w", 24, 3 * HIDDEN)
        b.random("bias", 3 * HIDDEN)
        b.random("narrow", 24, 2 * HIDDEN + 2 * HEADS)
        b.random("narrow_bias", 2 * HIDDEN + 2 * HEADS)
        b.constant("wq", RANDOM.integers(*PEER_INT8, (24, 3 * HIDDEN)).astype(np.int8))
        for name, value in (("xs", 0.02), ("ws", 0.01)):
            b.constant(name, np.float32(value))
        b.constant("xz", np.uint8(127))
        b.constant("wz", np.int8(0))
        heads = dict(num_heads=HEADS)
        packed, quantized = ["x", "w", "bias"], ["bytes", "wq", "bias", "xs", "ws"]
        b.add("Attention", packed, "plain", **heads)
        b.add("Attention", ["x", "narrow", "narrow_bias"], "narrow_values", qkv_hidden_sizes=[HIDDEN, HIDDEN, 2 * HEADS], scale=0.3, **heads)
        b.add("Attention", packed + ["seen"], "masked", unidirectional=1, **heads)
        b.add("Attention", packed + ["pairs"], "masked_pairs", mask_filter_value=-500.0, **heads)
        b.add("Attention", packed + ["ends"], "ends_only", **heads)
        b.add("Attention", ["x2", "w", "bias", "bounds"], "starts_too", **heads)
        b.add("Attention", packed + ["longer", "past"], ["after", "present"], unidirectional=1, **heads)
        b.add("QAttention", quantized, "q_plain", **heads)
        b.add("QAttention", quantized + ["seen", "xz", "wz"], "q_masked", unidirectional=1, **heads)
        b.add("QAttention", quantized + ["longer", "xz", "wz", "past"], ["q_after", "q_present"], **heads)
        feeds = []
        for n, s, p in ((2, 5, 3), (3, 1, 6)):
            mask = (RANDOM.random((n, s + p)) < 0.7).astype(np.int32)
            pairs = np.tril(np.ones((n, s, s), np.int32))
            feeds.append({"x": floats(n, s, 24), "x2": floats(2, s, 24), "bytes": RANDOM.integers(0, 256, (n, s, 24)).astype(np.uint8),
                          "seen": np.maximum(mask[:, :s], np.arange(s) == 0).astype(np.int32), "pairs": pairs,
                          "longer": np.maximum(mask, np.arange(s + p) == 0).astype(np.int32),
                          "ends": RANDOM.integers(1, s + 1, n).astype(np.int32), "bounds": np.array([s, max(s - 1, 1), 0, min(1, s - 1)], np.int32),
                          "past": floats(2, n, HEADS, p, WIDTH)})
        shapes = [f"{name}:[1..4]x[1..8]x24" for name in ("x", "bytes")] + ["seen:[1..4]x[1..8]", "pairs:[1..4]x[1..8]x[1..8]", "ends:[1..4]"]
        shapes += ["x2:2x[1..8]x24", f"past:2x[1..4]x{HEADS}x[1..8]x{WIDTH}", "longer:[1..4]x[2..16]"]
        self.compare("packed", b, feeds, shapes, tolerance=2e-4)

    def test_attention(self):
        b = Builder()
        b.input("q", ["batch", "length", HIDDEN])
        b.input("k", ["batch", "keys", HIDDEN])
        b.input("v", ["batch", "keys", HIDDEN])
        b.input("mask", ["batch", "keys"], T.INT32)
        b.input("places", ["batch", "length"], T.INT64)
        b.input("past_key", ["batch", HEADS, "past", WIDTH])
        b.input("past_value", ["batch", HEADS, "past", WIDTH])
        b.random("bias", 3 * HIDDEN)
        b.random("cos", 32, WIDTH // 2)
        b.random("sin", 32, WIDTH // 2)
        b.constant("start", np.array([3], np.int64))
        heads = dict(num_heads=HEADS)
        b.add("MultiHeadAttention", ["q", "k", "v", "bias", "mask"], "mha", **heads)
        b.add("MultiHeadAttention", ["q", "k", "v"], "mha_scaled", scale=0.2, **heads)
        b.input("ends", ["batch"], T.INT32)
        b.add("MultiHeadAttention", ["q", "k", "v", "", "ends"], "mha_ends", **heads)
        b.add("MultiHeadAttention", ["q", "q", "q", "", "", "", "past_key", "past_value"],
              ["mha_past", "mha_key", "mha_value"], unidirectional=1, **heads)
        b.add("RotaryEmbedding", ["q", "places", "cos", "sin"], "rotary")
        b.add("RotaryEmbedding", ["q", "start", "cos", "sin"], "rotary_offset", interleaved=1)
        feeds = []
        for n, s, t, p in ((2, 3, 5, 4), (1, 6, 1, 1)):
            mask = (RANDOM.random((n, t)) < 0.7).astype(np.int32)
            mask[:, 0] = 1
            feeds.append({"q": floats(n, s, HIDDEN), "k": floats(n, t, HIDDEN), "v": floats(n, t, HIDDEN), "mask": mask,
                          "ends": RANDOM.integers(1, t + 1, n).astype(np.int32),
                          "places": RANDOM.integers(0, 32, (n, s)), "past_key": floats(n, HEADS, p, WIDTH),
                          "past_value": floats(n, HEADS, p, WIDTH)})
        shapes = [f"{name}:[1..4]x[1..8]x{HIDDEN}" for name in "qkv"] + ["mask:[1..4]x[1..8]", "places:[1..4]x[1..8]", "ends:[1..4]"]
        shapes += [f"past_{name}:[1..4]x{HEADS}x[1..8]x{WIDTH}" for name in ("key", "value")]
        self.compare("attention", b, feeds, shapes)

    def group_query(self, name, past, length, filled, isData=False, sinks=False, biased=False, **attributes):
        """One call with a cache of `past`, whose batch entries have `filled` keys, and `length` new ones; with `isData` an input says how
        many these are."""
        groups, batch = 2, len(filled)
        total = length if past == 0 else max(filled) + length
        b = Builder()
        b.input("q", ["batch", length, HIDDEN])
        for x in "kv":
            b.input(x, ["batch", length, groups * WIDTH])
            b.input("past_" + x, ["batch", groups, past, WIDTH])
        b.input("lengths", ["batch"], T.INT32)
        if isData:
            b.input("total", [], T.INT32)
        else:
            b.constant("total", np.array(total, np.int32))
        b.random("cos", 32, WIDTH // 2)
        b.random("sin", 32, WIDTH // 2)
        b.random("sinks", HEADS)
        b.random("bias", 1, HEADS, length, total)
        rest = ["", "bias" if biased else "", "sinks"] if sinks or biased else []
        b.add("GroupQueryAttention", ["q", "k", "v", "past_k", "past_v", "lengths", "total", "cos", "sin", *rest[: 3 if sinks else 2]],
              ["y", "present_k", "present_v"], num_heads=HEADS, kv_num_heads=groups, **attributes)
        lengths = np.array([max(f + length, 1) - 1 for f in filled], np.int32)
        if isData and past >= total:
            for output in b.outputs[1:]:
                output.CopyFrom(helper.make_tensor_value_info(output.name, T.FLOAT, ["batch", groups, past, WIDTH]))
        feed = {"q": floats(batch, length, HIDDEN), "lengths": lengths, **({"total": np.array(total, np.int32)} if isData else {})}
        for x in "kv":
            feed[x] = floats(batch, length, groups * WIDTH)
            feed["past_" + x] = floats(batch, groups, past, WIDTH)

        def valid(output, value, given):
            """Of the caches what is filled."""
            if output == "y":
                return value
            return np.concatenate([value[i, :, : n + 1].ravel() for i, n in enumerate(given["lengths"])])

        shapes = [f"{x}:[1..4]x{length}x{width}" for x, width in (("q", HIDDEN), ("k", groups * WIDTH), ("v", groups * WIDTH))]
        shapes += [f"past_{x}:[1..4]x{groups}x{past}x{WIDTH}" for x in "kv"] + ["lengths:[1..4]"]
        self.compare(name, b, [feed], shapes, valid=valid)

    def refuse_total(self, name, total):
        """A run with the last inputs but this total length ends with an error."""
        feed = dict(np.load(self.folder / "in.npz"))
        np.savez(self.folder / "wrong.npz", **{**feed, "total": np.array(total, np.int32)})
        self.assertIn("total_sequence_length", self.refuse(5, "TN0611", "run", f"{name}.tenon", "--inputs", "wrong.npz").stderr)

    def test_group_query_attention(self):
        self.group_query("prompt", 0, 5, [0, 0], do_rotary=1)
        self.group_query("grown", 6, 1, [6, 6], do_rotary=1, rotary_interleaved=1, local_window_size=3)
        self.group_query("ragged", 6, 1, [6, 3], scale=0.3)
        self.group_query("buffer", 12, 1, [6, 9])
        self.group_query("prompt_of_data", 0, 5, [0, 0], isData=True, do_rotary=1)
        self.group_query("grown_of_data", 6, 1, [6, 6], isData=True, do_rotary=1)
        self.refuse_total("grown_of_data", 8)
        self.group_query("buffer_of_data", 12, 1, [6, 9], isData=True)
        self.refuse_total("buffer_of_data", 13)
        self.group_query("first_of_data", 12, 5, [0, 0], isData=True)

    def test_group_query_attention_of_a_mask(self):
        """Lengths come from a mask over past and new keys, whose width nothing else ties to these."""
        b = Builder()
        b.input("q", ["batch", "new", HIDDEN])
        for x in "kv":
            b.input(x, ["batch", "new", 2 * WIDTH])
            b.input("past_" + x, ["batch", 2, "past", WIDTH])
        b.input("mask", ["batch", "all"], T.INT64)
        b.constant("one", np.array([1], np.int64))
        b.constant("axis", np.array(1, np.int64))
        for op, inputs, output, attributes in (("ReduceSum", ["mask", "one"], "sums", {"keepdims": 0}), ("Sub", ["sums", "one"], "lasts", {}),
                                               ("Cast", ["lasts"], "lengths", {"to": T.INT32}), ("Shape", ["mask"], "shape", {}),
                                               ("Gather", ["shape", "axis"], "width", {"axis": 0}), ("Cast", ["width"], "total", {"to": T.INT32})):
            b.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        b.add("GroupQueryAttention", ["q", "k", "v", "past_k", "past_v", "lengths", "total"], ["y", "present_k", "present_v"],
              num_heads=HEADS, kv_num_heads=2)
        feeds = [{"q": floats(n, s, HIDDEN), **{x: floats(n, s, 2 * WIDTH) for x in "kv"}, "mask": np.ones((n, p + s), np.int64),
                  **{f"past_{x}": floats(n, 2, p, WIDTH) for x in "kv"}} for n, s, p in ((2, 1, 6), (1, 1, 3), (1, 4, 0))]
        shapes = [f"{x}:[1..4]x[1..8]x{width}" for x, width in (("q", HIDDEN), ("k", 2 * WIDTH), ("v", 2 * WIDTH))]
        shapes += [f"past_{x}:[1..4]x2x[0..8]x{WIDTH}" for x in "kv"] + ["mask:[1..4]x[1..16]"]
        self.compare("masked_groups", b, feeds, shapes)

    def test_types_that_attributes_choose(self):
        gamma, levels = floats(16).astype(np.float16), RANDOM.integers(-128, 128, (5, 7)).astype(np.int8)
        b = Builder(opset=23)
        b.input("x", ["batch", 6, 16], T.FLOAT16)
        b.input("f", ["batch", 6, 16])
        for name, value in (("gamma", gamma), ("scale", np.float32(0.1)), ("zero", np.int8(3)), ("levels", levels)):
            b.constant(name, value)
        own = {"domain": ""}
        b.add("LayerNormalization", ["x", "gamma"], "stashed", T.FLOAT16, stash_type=T.DOUBLE, **own)
        b.add("RMSNormalization", ["x", "gamma"], "rms_stashed", T.FLOAT16, stash_type=T.DOUBLE, **own)
        b.add("QuantizeLinear", ["f", "scale", "zero"], "divided", T.INT8, precision=T.FLOAT16, **own)
        b.add("DequantizeLinear", ["levels", "scale", "zero"], "half", T.FLOAT16, output_dtype=T.FLOAT16, **own)
        b.add("Attention", ["f", "f", "f"], "coarse", softmax_precision=T.FLOAT16, q_num_heads=1, kv_num_heads=1, **own)

        def by_definition(_, given):
            x, f, half = given["x"].astype(np.float64), given["f"], np.float16
            centered = x - x.mean(-1, keepdims=True)

            def unit(v):
                return (v / np.sqrt((v * v).mean(-1, keepdims=True) + 1e-5)).astype(half) * gamma

            scores = (f @ f.transpose(0, 2, 1) / 4).astype(half)
            weights = np.exp((scores - scores.max(-1, keepdims=True)).astype(np.float32))
            weights = (weights / weights.sum(-1, keepdims=True)).astype(half).astype(np.float32)
            quotient = f.astype(half) / half(0.1)
            return [unit(centered), unit(x), np.clip(np.rint(quotient) + 3, -128, 127).astype(np.int8),
                    ((levels.astype(np.float32) - 3) * np.float32(0.1)).astype(half), weights @ f]

        feeds = [{"x": floats(n, 6, 16).astype(np.float16), "f": floats(n, 6, 16) * 3} for n in (1, 3)]
        self.compare("types", b, feeds, ["x:[1..4]x6x16", "f:[1..4]x6x16"], by_definition, tolerance=2e-3)

    def test_group_query_attention_in_forms_of_its_scores(self):
        self.group_query("capped", 6, 1, [6, 3], softcap=1.5)
        self.group_query("capped_bias", 0, 5, [0, 0], softcap=1.5, biased=True)
        self.group_query("smooth", 6, 1, [6, 3], smooth_softmax=1)
        self.group_query("sinks", 6, 1, [6, 3], sinks=True)
        self.group_query("sinks_of_prompt", 0, 5, [0, 0], sinks=True, softcap=3.0, do_rotary=1, local_window_size=3)
        self.group_query("bidirectional", 0, 5, [0, 0], causal=0)

    def test_what_is_not_there_is_a_gap(self):
        with self.assertRaisesRegex(AssertionError, "TN0301"):
            self.group_query("gap", 6, 1, [6], qk_output=1)


if __name__ == "__main__":
    sys.exit(unittest.main())
