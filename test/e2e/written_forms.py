"""Every form that `tenon quantize` writes, over a table of graphs: ONNX Runtime (default optimizations and none), OpenVINO and Tenon run the file, and lose what
Tenon loses against the FP32 model, within a decibel.

By hand, each graph in a file of its own: `python written_forms.py --all [NAME [FORMS [SEED [OPSET]]]]`.
"""

import itertools
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from float_nets import Net
from tool import PEER_INT8, ToolTest

try:
    import openvino
except ImportError:
    openvino = None

ROWS, PICTURE, SIGNAL, VOLUME = (3, 12, 64), (3, 32, 10, 10), (3, 32, 24), (3, 16, 5, 5, 5)
INPUTS = {"r": ROWS, "x": PICTURE, "s": SIGNAL, "v": VOLUME}
FORMS = {
    "int8": [], "minmax": ["--ranges", "minmax"], "fp8": ["--precision", "fp8"],
    "dynamic": ["--dynamic"], "per_tensor": ["--dynamic", "--per-tensor"],
    "w8": ["--weights-only", "8"], "w4": ["--weights-only", "4"], "w4_qdq": ["--weights-only", "4", "--int4-form", "qdq"],
}
# What docs/guides/quantize.md names of a runtime: ONNX Runtime turns a table that a head shares with an embedding, and rounds activations too.
KNOWN = {("w8", "onnxruntime"): {"y_head"}}
# of these no sample says anything
BLIND = {"dynamic", "per_tensor", "w8", "w4", "w4_qdq"}
# Above it two runtimes differ by the order of their FP32 sums.
MOST = 70.0


class Table(Net):
    """A net whose cases begin behind a first layer and end before an output, so that nothing of them is first or last."""

    def __init__(self, seed=0):
        super().__init__(seed)
        self.outputs, self.asked = {}, []

    def normal(self, *dims, scale=1.0):
        return (self.random.standard_normal(dims) * scale).astype(np.float32)

    def front(self, name):
        """Values that a layer made of an input."""
        if f"front_{name}" in {node.output[0] for node in self.nodes}:
            return f"front_{name}"
        if name == "r":
            return self.node("MatMul", ["r", self.weight("front_r_w", 64, 64, depth=64)], "front_r")
        channels, rank = INPUTS[name][1], len(INPUTS[name]) - 2
        return self.node("Conv", [name, self.weight(f"front_{name}_w", channels, channels, *[1] * rank, depth=channels)], f"front_{name}")

    def layer(self, op, operands, name, **attributes):
        self.asked.append(name)
        return self.node(op, operands, name, **attributes)

    def conv(self, x, name, weight, bias=None, op="Conv", **attributes):
        return self.layer(op, [x, self.constant(name + ".w", weight), *([] if bias is None else [self.constant(name + ".b", bias)])], name, **attributes)

    def product(self, x, name, weight):
        return self.layer("MatMul", [x, self.constant(name + ".w", weight)], name)

    def gemm(self, x, name, weight, bias=None, **attributes):
        return self.layer("Gemm", [x, self.constant(name + ".w", weight), *([] if bias is None else [self.constant(name + ".b", bias)])], name, **attributes)

    def norm(self, x, name, scale, shift):
        size = len(scale)
        parameters = {"g": scale, "o": shift, "m": self.normal(size, scale=0.1), "v": self.random.uniform(0.5, 2, size)}
        return self.node("BatchNormalization", [x, *(self.constant(f"{name}_{k}", np.float32(v)) for k, v in parameters.items())], name)

    def flat(self, name="flat_r"):
        if name not in {node.output[0] for node in self.nodes}:
            self.node("Reshape", [self.front("r"), self.constant("flat_dims", np.int64([-1, 64]))], name)
        return name

    def end(self, value, name, channels):
        """`channels` is the axis of its channels."""
        self.outputs[self.node("Neg", [value], f"y_{name}")] = channels

    def finished(self, opset=17):
        makes = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        read = {name for node in self.nodes for name in node.input}
        inputs = [makes(name, ["n", *dims[1:]]) for name, dims in INPUTS.items() if name in read]
        graph = helper.make_graph(self.nodes, "g", inputs, [makes(name, None) for name in self.outputs], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 19 else 10)
        model = onnx.shape_inference.infer_shapes(model)
        onnx.checker.check_model(model)
        return model


def gemms(t):
    w = lambda *d: t.normal(*d, scale=0.15)
    yield "gemm", lambda: t.gemm(t.flat(), "gemm", w(64, 48))
    yield "gemm_bias", lambda: t.gemm(t.flat(), "gemm_bias", w(64, 48), w(48))
    yield "gemm_bias_turned", lambda: t.gemm(t.flat(), "gemm_bias_turned", w(48, 64), w(48), transB=1)
    yield "gemm_scalar_bias", lambda: t.gemm(t.flat(), "gemm_scalar_bias", w(64, 48), w(1))
    yield "gemm_row_bias", lambda: t.gemm(t.flat(), "gemm_row_bias", w(64, 48), w(1, 48))
    yield "gemm_scaled", lambda: t.gemm(t.flat(), "gemm_scaled", w(64, 48), w(48), alpha=0.5, beta=2.0)
    yield "gemm_chain", lambda: t.gemm(t.node("Relu", [t.gemm(t.flat(), "chain_a", w(64, 64), w(64))], "chain_relu"), "chain_b", w(64, 48), w(48))
    yield "gemm_no_relu_chain", lambda: t.gemm(t.gemm(t.flat(), "bare_a", w(64, 64), w(64)), "bare_b", w(64, 48), w(48))
    yield "gemm_turned_left", lambda: t.gemm(t.node("Transpose", [t.flat()], "turned_left", perm=[1, 0]), "gemm_turned_left", w(64, 48), w(48), transA=1)
    huge = np.float32([3e7, -2e7] + [0.1] * 46)
    yield "gemm_huge_bias", lambda: t.gemm(t.flat(), "gemm_huge_bias", w(64, 48) * np.float32([1e-4] * 2 + [1] * 46), huge)
    dead = np.float32([0, 1e-6, 1e-12, 1e-30, 1e-38, 1e-42] + [1] * 42)
    yield "gemm_dead", lambda: t.gemm(t.flat(), "gemm_dead", w(64, 48) * dead, w(48) + np.float32(dead < 1))
    yield "gemm_dead_chain", lambda: t.gemm(t.gemm(t.flat(), "gemm_dead_a", w(64, 48) * dead, w(48) + np.float32(dead < 1)), "gemm_dead_b", w(48, 64))
    yield "gemm_row_bias_chain", lambda: t.gemm(t.gemm(t.flat(), "row_a", w(64, 48) * dead, w(1, 48) + np.float32(dead < 1)), "row_b", w(48, 64))
    yield "gemm_scaled_chain", lambda: t.gemm(t.gemm(t.flat(), "scaled_a", w(64, 48) * dead, w(48) + np.float32(dead < 1), alpha=0.5, beta=2.0), "scaled_b", w(48, 64))
    yield "gemm_denormal", lambda: t.gemm(t.flat(), "gemm_denormal", w(64, 48) * np.float32(1e-39), w(48))


def products(t):
    w = lambda *d: t.normal(*d, scale=0.15)
    bias = lambda x, name, *d: t.node("Add", [x, t.constant(name + ".b", w(*d))], name + "_sum")
    yield "matmul2", lambda: t.product(t.flat(), "matmul2", w(64, 48))
    yield "matmul2_bias", lambda: bias(t.product(t.flat(), "matmul2_bias", w(64, 48)), "matmul2_bias", 48)
    yield "matmul3", lambda: t.product(t.front("r"), "matmul3", w(64, 48))
    yield "matmul3_bias", lambda: bias(t.product(t.front("r"), "matmul3_bias", w(64, 48)), "matmul3_bias", 48)
    yield "matmul3_bias3", lambda: bias(t.product(t.front("r"), "matmul3_bias3", w(64, 48)), "matmul3_bias3", 1, 1, 48)
    yield "matmul3_full_bias", lambda: bias(t.product(t.front("r"), "matmul3_full_bias", w(64, 48)), "matmul3_full_bias", 12, 48)
    yield "matmul3_left_bias", lambda: t.node("Add", [t.constant("left_b", w(48)), t.product(t.front("r"), "matmul3_left", w(64, 48))], "left_sum")

    def once(op, operands, name, **attributes):
        return name if name in {node.output[0] for node in t.nodes} else t.node(op, operands(), name, **attributes)

    heads = lambda: once("Reshape", lambda: [t.front("r"), t.constant("heads_dims", np.int64([-1, 4, 3, 64]))], "heads")
    yield "matmul4", lambda: bias(t.product(heads(), "matmul4", w(64, 48)), "matmul4", 48)
    yield "matmul_residual", lambda: t.node("Add", [t.product(t.front("r"), "residual", w(64, 64)), t.front("r")], "residual_sum")
    yield "matmul_chain", lambda: t.product(t.node("Relu", [bias(t.product(t.front("r"), "up", w(64, 96)), "up", 96)], "up_relu"), "down", w(96, 64))
    apart = lambda: once("Unsqueeze", lambda: [t.front("r"), t.constant("apart_axes", np.int64([1]))], "apart")
    yield "experts", lambda: t.product(apart(), "experts", w(4, 64, 48))
    yield "experts_bias", lambda: bias(t.product(apart(), "experts_bias", w(4, 64, 48)), "experts_bias", 4, 1, 48)
    yield "one_expert", lambda: t.product(apart(), "one_expert", w(1, 64, 48))
    yield "experts_chain", lambda: t.product(t.product(apart(), "experts_a", w(4, 64, 48)), "experts_b", w(4, 48, 64))
    yield "heads4", lambda: t.product(apart(), "heads4", w(1, 4, 64, 48))
    yield "batched_weights", lambda: t.product(t.node("Reshape", [t.front("r"), t.constant("batched_dims", np.int64([12, -1, 64]))], "batched"), "batched_weights", w(12, 64, 48))
    rows = lambda x, name: t.node("Mul", [x, t.constant(name + "_steps", np.float32(10.0 ** np.linspace(-2, 2, 12))[:, None])], name + "_scaled")
    yield "uneven_rows", lambda: bias(t.product(rows(t.front("r"), "uneven"), "uneven_rows", w(64, 48)), "uneven_rows", 48)
    yield "uneven_gemm", lambda: t.gemm(t.node("Reshape", [rows(t.front("r"), "uneven_g"), t.constant("ug_dims", np.int64([-1, 64]))], "ug_flat"), "uneven_gemm", w(64, 48), w(48))
    tiny = lambda x, name: t.node("Mul", [x, t.constant(name + "_tiny", np.float32(1e-39))], name + "_denormal")
    yield "denormal_rows", lambda: t.node("Add", [t.product(tiny(t.front("r"), "tiny"), "denormal_rows", w(64, 48)), t.product(t.front("r"), "denormal_other", w(64, 48))], "denormal_sum")
    wide = np.ones(64, np.float32); wide[[3, 17]] = 60
    yield "outliers", lambda: bias(t.product(t.node("Mul", [t.front("r"), t.constant("outlier_factors", wide)], "outlier"), "outliers", w(64, 48)), "outliers", 48)
    yield "no_weights3", lambda: t.layer("MatMul", [t.front("r"), t.node("Transpose", [t.front("r")], "keys", perm=[0, 2, 1])], "no_weights3")
    yield "no_weights4", lambda: t.layer("MatMul", [heads(), t.node("Transpose", [heads()], "keys4", perm=[0, 1, 3, 2])], "no_weights4")
    yield "no_weights2", lambda: t.layer("MatMul", [t.flat(), t.node("Transpose", [t.flat()], "keys2", perm=[1, 0])], "no_weights2")
    dead = np.float32([0, 1e-6, 1e-12, 1e-30, 1e-38, 1e-42] + [1] * 42)
    yield "matmul_dead", lambda: t.node("Add", [t.product(t.front("r"), "matmul_dead", w(64, 48) * dead), t.constant("dead_b", w(48) + np.float32(dead < 1))], "dead_sum")
    yield "matmul_dead_chain", lambda: t.product(t.node("Relu", [t.node("Add", [t.product(t.flat(), "dead_up", w(64, 48) * dead), t.constant("dead_up_b", w(48) + np.float32(dead < 1))], "dead_up_sum")], "dead_up_relu"), "dead_down", w(48, 64))
    yield "joined_rows", lambda: t.product(t.node("Concat", [t.product(t.front("r"), "part_a", w(64, 32)), t.product(t.front("r"), "part_b", w(64, 32))], "parts", axis=-1), "joined_rows", w(64, 48))


def sharing(t):
    w = lambda *d: t.normal(*d, scale=0.15)

    def tied():
        t.constant("tied", w(64, 64))
        a = t.layer("MatMul", [t.front("r"), "tied"], "tied_a")
        return t.layer("MatMul", [t.node("Relu", [a], "tied_relu"), "tied"], "tied_b")

    def tied_biases():
        t.constant("tied2", w(64, 64)); t.constant("tied2_b", w(64))
        a = t.layer("Gemm", [t.flat(), "tied2", "tied2_b"], "tied2_a")
        return t.layer("Gemm", [t.node("Relu", [a], "tied2_relu"), "tied2", "tied2_b"], "tied2_c")

    def tied_directions():
        t.constant("tied3", w(64, 64))
        a = t.layer("Gemm", [t.flat(), "tied3"], "tied3_a")
        return t.layer("Gemm", [t.node("Relu", [a], "tied3_relu"), "tied3"], "tied3_b", transB=1)

    def tied_transposes():
        turned = t.node("Transpose", [t.constant("tied4", w(48, 64))], "tied4_turned", perm=[1, 0])
        a = t.layer("MatMul", [t.front("r"), turned], "tied4_a")
        return t.node("Add", [a, t.layer("MatMul", [t.node("Relu", [t.front("r")], "tied4_relu"), turned], "tied4_b")], "tied4_sum")

    def tied_convolutions():
        t.constant("tied5", w(32, 32, 3, 3)); t.constant("tied5_b", w(32))
        a = t.layer("Conv", [t.front("x"), "tied5", "tied5_b"], "tied5_a", pads=[1] * 4)
        return t.layer("Conv", [t.node("Relu", [a], "tied5_relu"), "tied5", "tied5_b"], "tied5_c", pads=[1] * 4)

    def head():
        table = t.constant("words", t.normal(512, 64))
        ids = t.node("Cast", [t.node("Mul", [t.node("Sigmoid", [t.node("ReduceMean", [t.front("r")], "ids_mean", axes=[-1], keepdims=0)], "ids_gate"), t.constant("ids_most", np.float32(511))], "ids_real")], "ids", to=TensorProto.INT64)
        rows = t.node("Gather", [table, ids], "word_rows")
        x = t.node("Add", [rows, t.layer("MatMul", [t.front("r"), t.constant("word_w", w(64, 64))], "word_layer")], "word_sum")
        return t.layer("MatMul", [x, t.node("Transpose", [table], "words_turned", perm=[1, 0])], "word_head")

    yield "tied", tied
    yield "tied_biases", tied_biases
    yield "tied_directions", tied_directions
    yield "tied_transposes", tied_transposes
    yield "tied_convolutions", tied_convolutions
    yield "head", head


def convolutions(t):
    w = lambda *d: t.normal(*d, scale=0.1)
    same = {"pads": [1] * 4}
    relu = lambda x: t.node("Relu", [x], x + "_relu")
    yield "conv", lambda: t.conv(t.front("x"), "conv", w(48, 32, 3, 3), **same)
    yield "conv_bias", lambda: t.conv(t.front("x"), "conv_bias", w(48, 32, 3, 3), w(48), **same)
    yield "conv1d", lambda: t.conv(t.front("s"), "conv1d", w(48, 32, 5), w(48), pads=[2, 2])
    yield "conv3d", lambda: t.conv(t.front("v"), "conv3d", w(32, 16, 3, 3, 3), w(32))
    yield "conv_chain", lambda: t.conv(relu(t.conv(t.front("x"), "chain1", w(32, 32, 3, 3), w(32), **same)), "chain2", w(48, 32, 1, 1), w(48))
    yield "conv1d_chain", lambda: t.conv(relu(t.conv(t.front("s"), "chain1d", w(32, 32, 3), w(32))), "chain1d2", w(48, 32, 1))
    yield "conv3d_chain", lambda: t.conv(relu(t.conv(t.front("v"), "chain3d", w(32, 16, 1, 1, 1), w(32))), "chain3d2", w(16, 32, 1, 1, 1))
    yield "depthwise", lambda: t.conv(t.conv(t.front("x"), "depthwise", w(32, 1, 3, 3), w(32), group=32, **same), "pointwise", w(48, 32, 1, 1), w(48))
    yield "grouped", lambda: t.conv(t.front("x"), "grouped", w(64, 8, 3, 3), w(64), group=4, strides=[2, 2])
    yield "up", lambda: t.conv(t.front("x"), "up_conv", w(32, 24, 2, 2), w(24), "ConvTranspose", strides=[2, 2])
    yield "up_chain", lambda: t.conv(relu(t.conv(t.front("x"), "up_a", w(32, 24, 2, 2), w(24), "ConvTranspose", strides=[2, 2])), "up_b", w(32, 24, 1, 1), w(32))
    yield "up_grouped", lambda: t.conv(t.front("x"), "up_grouped", w(32, 8, 2, 2), w(32), "ConvTranspose", strides=[2, 2], group=4)
    yield "up1d", lambda: t.conv(t.front("s"), "up1d", w(32, 24, 4), w(24), "ConvTranspose", strides=[2])
    yield "residual", lambda: relu(t.node("Add", [t.conv(relu(t.conv(t.front("x"), "res1", w(32, 32, 3, 3), w(32), **same)), "res2", w(32, 32, 3, 3), w(32), **same), t.front("x")], "res_sum"))
    yield "residual_chain", lambda: t.conv(relu(t.node("Add", [t.conv(t.front("x"), "rc1", w(32, 32, 3, 3), w(32), **same), t.conv(t.front("x"), "rc2", w(32, 32, 1, 1))], "rc_sum")), "rc3", w(48, 32, 1, 1))
    yield "concat", lambda: t.conv(t.node("Concat", [t.conv(t.front("x"), "cat1", w(16, 32, 1, 1), w(16)), relu(t.conv(t.front("x"), "cat2", w(24, 32, 3, 3), **same))], "cat", axis=1), "cat3", w(32, 40, 1, 1), w(32))
    yield "pooled", lambda: t.conv(t.node("MaxPool", [relu(t.conv(t.front("x"), "pool1", w(32, 32, 3, 3), w(32)))], "pool", kernel_shape=[2, 2], strides=[2, 2]), "pool2", w(32, 32, 1, 1))
    yield "averaged", lambda: t.conv(t.node("AveragePool", [relu(t.conv(t.front("x"), "avg1", w(32, 32, 3, 3), w(32)))], "avg", kernel_shape=[2, 2], strides=[2, 2]), "avg2", w(32, 32, 1, 1))
    yield "mean_head", lambda: t.gemm(t.node("Flatten", [t.node("GlobalAveragePool", [relu(t.conv(t.front("x"), "mean1", w(64, 32, 3, 3), w(64)))], "mean")], "mean_flat"), "mean_gemm", w(64, 48), w(48))
    yield "clipped", lambda: t.conv(t.node("Clip", [t.conv(t.front("x"), "clip1", w(32, 32, 3, 3), w(32)), t.constant("low", np.float32(0)), t.constant("high", np.float32(1))], "clip"), "clip2", w(32, 32, 1, 1))
    yield "leaky", lambda: t.conv(t.node("LeakyRelu", [t.conv(t.front("x"), "leaky1", w(32, 32, 3, 3), w(32))], "leaky_relu", alpha=0.1), "leaky2", w(32, 32, 1, 1))
    yield "swish", lambda: t.conv(t.node("Mul", [t.conv(t.front("x"), "swish1", w(32, 32, 1, 1), w(32)), t.node("Sigmoid", ["swish1"], "swish_gate")], "swish_mul"), "swish2", w(32, 32, 1, 1))
    parts = lambda: t.nodes.append(helper.make_node("Split", [t.conv(t.front("x"), "split1", w(64, 32, 1, 1), w(64)), t.constant("split_parts", np.int64([32, 32]))], ["split_a", "split_b"], axis=1, name="split"))
    yield "split", lambda: (parts(), t.node("Mul", [t.conv("split_a", "split2", w(32, 32, 1, 1)), "split_b"], "split_mul"))[1]
    for i, gamma in enumerate((1e-4, 1e-6, 1e-8, 1e-12, 1e-30, 1e-40, 0.0)):
        scale = t.random.uniform(0.5, 1.5, 32); scale[[3, 7]] = gamma
        shift = t.normal(32, scale=0.3); shift[3], shift[7] = 2, 1
        yield f"dead_{gamma:g}", lambda i=i, scale=scale, shift=shift: t.conv(relu(t.norm(t.conv(t.front("x"), f"dead{i}a", w(32, 32, 3, 3), **same), f"dead{i}n", scale, shift)), f"dead{i}b", w(32, 32, 1, 1), w(32))
    yield "conv_huge_bias", lambda: t.conv(t.front("x"), "conv_huge_bias", w(32, 32, 3, 3) * np.float32([1e-5] * 2 + [1] * 30).reshape(-1, 1, 1, 1), np.float32([3e6, -2e6] + [0.1] * 30))
    yield "up_dead", lambda: t.conv(t.front("x"), "up_dead", w(32, 24, 2, 2) * np.float32([1e-12, 0] + [1] * 22).reshape(1, -1, 1, 1), np.float32([2, 1] + [0.1] * 22), "ConvTranspose", strides=[2, 2])
    yield "conv_denormal", lambda: t.conv(t.front("x"), "conv_denormal", w(32, 32, 3, 3) * np.float32(1e-40), w(32))


def names(t):
    w = lambda *d: t.normal(*d, scale=0.15)

    def unread():
        x = t.product(t.front("r"), "clash", w(64, 48))
        for name in ("clash_weight_quantized", "clash_weight_scale", "clash_weight", "front_r_quantized", "front_r_scale", "front_r_dequantized", "front_r_Abs", "front_r_Abs_result",
                     "clash_MatMulInteger_result", "front_r_DynamicQuantizeLinear_result"):
            t.constant(name, np.float32([7]))
        return x

    def within():
        x = t.product(t.front("r"), "within", w(64, 48))
        def body(sign):
            inner = [helper.make_node(sign, ["within"], [f"within_weight_quantized"], name="within_weight_DequantizeLinear"),
                     helper.make_node("Abs", ["within_weight_quantized"], ["front_r_scale_1"]), helper.make_node("Relu", ["front_r_scale_1"], ["within_weight_scale"])]
            return helper.make_graph(inner, sign, [], [helper.make_tensor_value_info("within_weight_scale", TensorProto.FLOAT, None)])
        condition = t.node("Greater", [t.node("ReduceMax", [t.front("r")], "within_most", keepdims=0), t.constant("within_zero", np.float32(0))], "within_condition")
        return t.node("Add", [x, t.node("If", [condition], "within_if", then_branch=body("Neg"), else_branch=body("Abs"))], "within_sum")

    yield "unread_names", unread
    yield "names_within_if", within


PRODUCTS = (gemms, products, sharing)
PARTS = (*PRODUCTS, convolutions, names)


def built(parts, only=None, seed=0, opset=17):
    t = Table(seed)
    for part in parts:
        for name, make in part(t):
            if only is None or name == only:
                t.end(make(), name, 1 if part is convolutions else -1)
    return t


def decibels(found, truth, axis):
    """Signal over noise of the worst channel; of one that is nearly silent, as if it had a hundredth of the others' amplitude."""
    found, truth = np.float64(found), np.float64(truth)
    others = tuple(i for i in range(truth.ndim) if i != axis % truth.ndim)
    signal, noise = (truth ** 2).mean(others), ((truth - found) ** 2).mean(others)
    signal = np.maximum(signal, 1e-4 * np.median(signal))
    return min(MOST, 10 * np.log10(signal / np.maximum(noise, 1e-7 * signal + 1e-300)).min()) if np.isfinite(found).all() else -np.inf


def in_onnxruntime(path, inputs, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, inputs)))


def in_openvino(path, inputs, options):
    request = openvino.compile_model(str(path), "CPU", options)
    found = request(inputs)
    return {output.get_any_name(): found[output] for output in request.outputs}


LEVELS = onnxruntime.GraphOptimizationLevel


class WrittenForms(ToolTest):
    def samples(self, model, seed):
        random = np.random.default_rng(seed)
        return {port.name: random.standard_normal((24, *INPUTS[port.name][1:])).astype(np.float32) for port in model.graph.input}

    def run_all(self, table, form, opset=17):
        """Decibels by runtime and output; the text of what was refused in place of them."""
        model = table.finished(opset)
        onnx.save(model, self.folder / "float.onnx")
        inputs = self.samples(model, 5)
        np.savez(self.folder / "calib.npz", **inputs)
        inputs = {name: value[:3] for name, value in inputs.items()}
        np.savez(self.folder / "in.npz", **inputs)
        truth = in_onnxruntime(self.folder / "float.onnx", inputs, LEVELS.ORT_DISABLE_ALL)
        flags = [*FORMS[form], *([] if form in BLIND else ["--data", "calib.npz", *(f"--narrow={name}" for name in table.asked)])]
        if PEER_INT8[0] == -64:
            flags.append("--reduce-range")
        self.succeed("quantize", "float.onnx", "-o", "narrow.onnx", "--quiet", *flags)
        path = self.folder / "narrow.onnx"
        onnx.checker.check_model(onnx.load(path), full_check=True)

        def tenon():
            self.succeed("run", "narrow.onnx", "--inputs", "in.npz", "-o", "out.npz", "--quiet")
            return np.load(self.folder / "out.npz")

        # OpenVINO and, without VNNI, OpenVINO and ONNX Runtime round activations too where only weights are small, unless told (docs/guides/quantize.md).
        options = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
        runs = {"tenon": tenon, "onnxruntime": lambda: in_onnxruntime(path, inputs, LEVELS.ORT_ENABLE_ALL), "unoptimized": lambda: in_onnxruntime(path, inputs, LEVELS.ORT_DISABLE_ALL)}
        if openvino:
            runs["openvino"] = lambda: in_openvino(path, inputs, options)
        found = {}
        for runtime, run in runs.items():
            try:
                values = run()
                found[runtime] = {output: decibels(values[output], truth[output], axis) for output, axis in table.outputs.items()}
            except Exception as error:
                found[runtime] = str(error)[-300:]
        return found

    def holds(self, parts, forms):
        """Of all graphs of these parts in one model."""
        for form in forms:
            found = self.run_all(built(parts), form)
            own = found.pop("tenon")
            self.assertIsInstance(own, dict, own)
            for runtime, values in found.items():
                with self.subTest(form=form, runtime=runtime):
                    self.assertEqual([], differing(form, runtime, own, values))

    def test_activations_in_8_bits(self):
        self.holds(PARTS[:-1], ["int8"])
        self.holds(PRODUCTS, ["dynamic", "per_tensor"])

    def test_weights_alone(self):
        self.holds(PARTS[:-1], ["w8"])
        self.holds(PRODUCTS, ["w4", "w4_qdq"])

    def test_names(self):
        self.holds(PARTS[-1:], ["int8", "dynamic", "w4_qdq"])

    def test_fp8(self):
        """ONNX Runtime's optimizations know no E4M3: they make operators of the file that it then refuses, but none that computes other numbers."""
        self.holds(PARTS[:-1], ["fp8"])
        for part in (convolutions, products):
            for name in ("up_chain", "pooled", "clipped", "matmul_chain"):
                if name in (own for own, _ in part(Table())):
                    found = self.run_all(built([part], name), "fp8")
                    refused = isinstance(found["onnxruntime"], str)
                    self.assertTrue(refused or not differing("fp8", "unoptimized", found["tenon"], found["onnxruntime"]), name)

    def test_a_planted_fault_is_found(self):
        own = {"y_conv": 40.0, "y_head": 37.0, "y_far": -np.inf}
        self.assertEqual([], differing("int8", "onnxruntime", own, dict(own, y_conv=39.1)))
        self.assertEqual(["y_conv", "y_head"], [name for name, *_ in differing("int8", "onnxruntime", own, dict(own, y_conv=38.9, y_head=-np.inf))])
        self.assertEqual(["refused"], differing("int8", "openvino", own, "refused"))
        noise = np.float32([[1, 2], [3, 4]])
        self.assertLess(decibels(noise * np.float32([1, 1.1]), noise, 1), 21)


def differing(form, runtime, own, found):
    """The outputs where a runtime is more than a decibel from Tenon, or the text of what it refuses."""
    if runtime == "onnxruntime" and form == "fp8":
        return []
    if isinstance(found, str):
        return [found]
    known = KNOWN.get((form, runtime), set())
    return [(name, own[name], found[name]) for name in own if abs(own[name] - found[name]) > 1 and name not in known]


def by_hand(only="", forms=",".join(FORMS), seed=0, opset=17):
    """Prints the decibels of each graph in a file of its own, and marks what differs."""
    test = WrittenForms()
    WrittenForms.setUpClass()
    for form, part in itertools.product(forms.split(","), PARTS):
        for name in [name for name, _ in part(Table()) if only in (name, part.__name__, "")]:
            try:
                found = test.run_all(built([part], name, int(seed)), form, int(opset))
            except AssertionError as error:
                if "nothing in the model can be quantized" not in str(error):
                    print(form, name, error, " <--", flush=True)
                continue
            differs = [runtime for runtime, values in found.items() if isinstance(found["tenon"], str) or differing(form, runtime, found["tenon"], values)]
            text = "  ".join(f"{runtime} {values if isinstance(values, str) else round(min(values.values()), 1)}" for runtime, values in found.items())
            print(form, name, text, *(f"<-- {runtime}" for runtime in differs), flush=True)
    WrittenForms.doClassCleanups()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--all"]:
        by_hand(*sys.argv[2:])
    else:
        unittest.main(argv=sys.argv[:1])
