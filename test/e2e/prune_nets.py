"""Nets for the tests of `prune`, one for each way in which axes depend on each other: each gives a model and the dims that its weights must have
when half of what can go is gone.
"""

import numpy as np
import onnx
from float_nets import Net
from onnx import TensorProto, helper


def value(name, dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


class Graph(Net):
    """Net with an input of one sample and a head, so that all that is between can be pruned."""

    def head(self, x, channels):
        """Means of the channels through a product, whose 10 results stay."""
        x = self.node("Flatten", [self.node("GlobalAveragePool", [x], "mean")], "flat")
        return self.node("Gemm", [x, self.weight("head_w", 10, channels, depth=channels), self.weight("head_b", 10, depth=10)], "head", transB=1)

    def numbers(self, name, *values):
        return self.constant(name, np.array(values, np.int64))

    def finish(self, x, dims, out, opset=18):
        return self.model([value("x", dims)], [value(x, out)], opset)


IMAGE, OUT = [2, 3, 12, 12], [2, 10]


def chain():
    g = Graph()
    x = g.conv(g.conv("x", "a", 3, 16, 3, norm=True), "b", 16, 24, 3)
    return g.finish(g.head(x, 24), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "a_gamma": [8], "b_w": [12, 8, 3, 3], "b_b": [12], "head_w": [10, 12]}


def exported_pads():
    """Pads as torch's exporter by traces writes them: a list of its own order is filled up with zeros, turned and flattened by operators."""
    g = Graph()
    own = g.node("Cast", [g.numbers("torch_pads", 1, 1, 1, 1)], "pads_cast", to=TensorProto.INT64)
    count = g.node("Gather", [g.node("Shape", [own], "pads_shape"), g.numbers("first", 0)], "pads_count", axis=0)
    zeros = g.node("ConstantOfShape", [g.node("Sub", [g.numbers("twice_rank", 8), count], "pads_lack")], "pads_zeros", value=helper.make_tensor("v", TensorProto.INT64, [1], [0]))
    pairs = g.node("Reshape", [g.node("Concat", [own, zeros], "pads_all", axis=0), g.numbers("pairs", -1, 2)], "pads_pairs")
    back = [g.numbers(name, number) for name, number in (("from", -1), ("to", -2 ** 63 + 1), ("axes", 0), ("steps", -1))]
    turned = g.node("Transpose", [g.node("Slice", [pairs, *back], "pads_back")], "pads_turned", perm=[1, 0])
    pads = g.node("Reshape", [turned, g.numbers("in_a_row", -1)], "pads")
    x = g.conv(g.node("Pad", [g.conv("x", "a", 3, 16, 3), pads], "padded"), "b", 16, 24, 3)
    return g.finish(g.head(x, 24), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "b_w": [12, 8, 3, 3]}


def residual():
    g = Graph()
    x = g.conv("x", "a", 3, 16, 3)
    y = g.conv(g.conv(x, "b", 16, 32), "c", 32, 16, relu=False)
    x = g.node("Relu", [g.node("Add", [x, y], "sum")], "sum_relu")
    return g.finish(g.head(x, 16), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "b_w": [16, 8, 1, 1], "c_w": [8, 16, 1, 1]}


def dense():
    g = Graph()
    x, channels = g.conv("x", "a", 3, 16, 3), 16
    for i in range(3):
        scale = [g.constant(f"n{i}_{what}", g.random.uniform(0.5, 1.5, channels).astype(np.float32)) for what in ("scale", "shift", "mean", "variance")]
        y = g.node("BatchNormalization", [x, *scale], f"n{i}")
        x = g.node("Concat", [x, g.conv(y, f"grow{i}", channels, 8, 3)], f"joined{i}", axis=1)
        channels += 8
    return g.finish(g.head(x, channels), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "grow2_w": [4, 16, 3, 3], "n2_scale": [16], "head_w": [10, 20]}


def whole_groups():
    g = Graph()
    x = g.conv(g.conv("x", "a", 3, 32), "groups", 32, 32, 3, group=8)
    return g.finish(g.head(x, 32), IMAGE, OUT), {"a_w": [16, 3, 1, 1], "groups_w": [16, 4, 3, 3], "head_w": [10, 16]}


def within_groups():
    g = Graph()
    x = g.conv(g.conv("x", "a", 3, 16), "groups", 16, 32, 3, group=2)
    return g.finish(g.head(x, 32), IMAGE, OUT), {"a_w": [8, 3, 1, 1], "groups_w": [16, 4, 3, 3], "head_w": [10, 16]}


def depthwise():
    g = Graph()
    x = g.conv(g.conv("x", "a", 3, 16), "deep", 16, 16, 3, group=16, norm=True)
    x = g.conv(g.conv(x, "b", 16, 32), "multiplied", 32, 64, 3, group=32)
    return g.finish(g.head(x, 64), IMAGE, OUT), {"a_w": [8, 3, 1, 1], "deep_w": [8, 1, 3, 3], "b_w": [16, 8, 1, 1], "multiplied_w": [32, 1, 3, 3]}


def gate():
    g = Graph()
    x = g.conv("x", "a", 3, 32, 3)
    y = g.node("GlobalAveragePool", [x], "squeeze")
    y = g.conv(g.conv(y, "down", 32, 8), "up", 8, 32, relu=False)
    x = g.node("Mul", [x, g.node("Sigmoid", [y], "gate")], "gated")
    return g.finish(g.head(x, 32), IMAGE, OUT), {"a_w": [16, 3, 3, 3], "down_w": [4, 16, 1, 1], "up_w": [16, 4, 1, 1]}


def shuffle():
    g = Graph()
    x = g.conv("x", "a", 3, 32)
    left, right = g.node("Split", [x], "left", ["left", "right"], axis=1, num_outputs=2), "right"
    right = g.conv(g.conv(right, "b", 16, 16, 3, group=16), "c", 16, 16)
    x = g.node("Concat", [left, right], "joined", axis=1)
    x = g.node("Reshape", [x, g.numbers("apart", 2, 2, 16, 12, 12)], "grouped")
    x = g.node("Transpose", [x], "swapped", perm=[0, 2, 1, 3, 4])
    x = g.node("Reshape", [x, g.numbers("together", 2, 32, 12, 12)], "shuffled")
    x = g.conv(x, "d", 32, 16)
    return g.finish(g.head(x, 16), IMAGE, OUT), {"a_w": [16, 3, 1, 1], "b_w": [8, 1, 3, 3], "c_w": [8, 8, 1, 1], "d_w": [8, 16, 1, 1]}


def flattened():
    g = Graph()
    x = g.node("Flatten", [g.conv("x", "a", 3, 16, 3)], "flat")
    x = g.node("Relu", [g.node("Gemm", [x, g.weight("wide_w", 64, 16 * 144, depth=2304), g.weight("wide_b", 64, depth=10)], "wide", transB=1)], "r")
    x = g.node("Gemm", [x, g.weight("head_w", 64, 10, depth=64)], "head")
    return g.finish(x, IMAGE, OUT), {"a_w": [8, 3, 3, 3], "wide_w": [32, 8 * 144], "wide_b": [32], "head_w": [32, 10]}


WIDTH, HEADS, SIZE = 32, 4, 8
TOKENS = [2, 6, WIDTH]


def attend(g, q, k, v, heads=HEADS):
    """Heads of [2, heads, 6, SIZE] to [2, 6, heads * SIZE]."""
    k = g.node("Transpose", [k], k + "_t", perm=[0, 1, 3, 2])
    scores = g.node("Mul", [g.node("MatMul", [q, k], "scores"), g.constant("scale", np.float32(SIZE ** -0.5))], "scaled")
    y = g.node("MatMul", [g.node("Softmax", [scores], "softmax", axis=-1), v], "mixed")
    y = g.node("Reshape", [g.node("Transpose", [y], "back", perm=[0, 2, 1, 3]), g.numbers("joined", 2, 6, heads * SIZE)], "flat_heads")
    return y


def headed(g, x, name, heads):
    y = g.node("Reshape", [x, g.numbers(name + "_split", 2, 6, heads, SIZE)], name + "_heads")
    return g.node("Transpose", [y], name + "_first", perm=[0, 2, 1, 3])


def ended(g, x):
    """The residual sum, a norm that keeps the width, and an FFN."""
    x = g.node("Add", [g.dense(x, "out", WIDTH, WIDTH), "x"], "attended")
    x = g.node("LayerNormalization", [x, g.constant("g", np.ones(WIDTH, np.float32)), g.constant("b", np.zeros(WIDTH, np.float32))], "norm")
    y = g.node("Gelu", [g.dense(x, "up", WIDTH, 64)], "act")
    x = g.node("Add", [g.dense(y, "down", 64, WIDTH), x], "fed")
    return g.finish(x, TOKENS, TOKENS, 20)


FFN = {"up_w": [32, 32], "up_b": [32], "down_w": [32, 32], "out_w": [16, 32]}


def split_attention():
    g = Graph()
    q, k, v = (headed(g, g.dense("x", name, WIDTH, WIDTH), name, HEADS) for name in "qkv")
    return ended(g, attend(g, q, k, v)), {**FFN, "q_w": [32, 16], "k_w": [32, 16], "v_b": [16]}


def fused_attention():
    g = Graph()
    y = g.node("Reshape", [g.dense("x", "qkv", WIDTH, 3 * WIDTH), g.numbers("split", 2, 6, 3, HEADS, SIZE)], "apart")
    y = g.node("Transpose", [y], "order", perm=[2, 0, 3, 1, 4])
    q, k, v = (g.node("Gather", [y, g.constant(f"i{i}", np.int64(i))], f"part{i}", axis=0) for i in range(3))
    return ended(g, attend(g, q, k, v)), {**FFN, "qkv_w": [32, 48], "qkv_b": [48]}


def sliced_attention():
    g = Graph()
    y = g.dense("x", "qkv", WIDTH, 3 * WIDTH)
    parts = [g.node("Slice", [y, g.numbers(f"s{i}", i * WIDTH), g.numbers(f"e{i}", (i + 1) * WIDTH), g.numbers(f"a{i}", 2)], f"part{i}") for i in range(3)]
    q, k, v = (headed(g, part, part, HEADS) for part in parts)
    return ended(g, attend(g, q, k, v)), {**FFN, "qkv_w": [32, 48]}


def grouped_queries():
    g = Graph()
    q = headed(g, g.dense("x", "q", WIDTH, WIDTH), "q", HEADS)
    shared = []
    for name in "kv":
        y = headed(g, g.dense("x", name, WIDTH, 2 * SIZE), name, 2)
        y = g.node("Unsqueeze", [y, g.numbers(name + "_at", 2)], name + "_more")
        y = g.node("Expand", [y, g.numbers(name + "_times", 2, 2, 2, 6, SIZE)], name + "_repeated")
        shared.append(g.node("Reshape", [y, g.numbers(name + "_all", 2, HEADS, 6, SIZE)], name + "_each"))
    return ended(g, attend(g, q, *shared)), {**FFN, "q_w": [32, 16], "k_w": [32, 8], "v_w": [32, 8]}


def attention_operator():
    g = Graph()
    q, k, v = g.dense("x", "q", WIDTH, WIDTH), g.dense("x", "k", WIDTH, 2 * SIZE), g.dense("x", "v", WIDTH, 2 * SIZE)
    y = g.node("Attention", [q, k, v], "attention", q_num_heads=HEADS, kv_num_heads=2)
    x = g.node("Add", [g.dense(y, "out", WIDTH, WIDTH), "x"], "attended")
    return g.finish(x, TOKENS, TOKENS, 23), {"q_w": [32, 16], "k_w": [32, 8], "v_w": [32, 8], "out_w": [16, 32]}


def group_norm():
    g = Graph()
    x = g.conv("x", "a", 3, 32, 3)
    x = g.node("Reshape", [x, g.numbers("apart", 2, 8, -1)], "grouped")
    x = g.node("InstanceNormalization", [x, g.constant("one", np.ones(8, np.float32)), g.constant("zero", np.zeros(8, np.float32))], "norm")
    x = g.node("Reshape", [x, g.numbers("together", 2, 32, 12, 12)], "whole")
    x = g.node("Mul", [x, g.weight("scale", 32, 1, 1, depth=1)], "scaled")
    return g.finish(g.head(x, 32), IMAGE, OUT), {"a_w": [16, 3, 3, 3], "scale": [16, 1, 1], "one": [4]}


def group_norm_operator():
    g = Graph()
    x = g.conv("x", "a", 3, 32, 3)
    x = g.node("GroupNormalization", [x, g.weight("scale", 32, depth=1), g.weight("shift", 32, depth=1)], "norm", num_groups=8)
    return g.finish(g.head(x, 32), IMAGE, OUT, 21), {"a_w": [16, 3, 3, 3], "scale": [16]}


def transposed():
    g = Graph()
    x = g.conv("x", "a", 3, 32)
    x = g.node("ConvTranspose", [x, g.weight("up_w", 32, 16, 2, 2, depth=32), g.weight("up_b", 16, depth=9)], "up", strides=[2, 2], kernel_shape=[2, 2])
    x = g.node("ConvTranspose", [x, g.weight("each_w", 16, 1, 2, 2, depth=4)], "each", strides=[2, 2], kernel_shape=[2, 2], group=16)
    return g.finish(g.head(x, 16), IMAGE, OUT), {"a_w": [16, 3, 1, 1], "up_w": [16, 8, 2, 2], "up_b": [8], "each_w": [8, 1, 2, 2]}


def one_dim():
    g = Graph()
    x = g.node("Relu", [g.node("Conv", ["x", g.weight("a_w", 16, 4, 3, depth=12)], "a", pads=[1, 1])], "r")
    x = g.node("Conv", [x, g.weight("b_w", 4, 16, 3, depth=48)], "b", pads=[1, 1])
    return g.finish(x, [2, 4, 20], [2, 4, 20]), {"a_w": [8, 4, 3], "b_w": [4, 8, 3]}


def three_dims():
    g = Graph()
    x = g.node("Relu", [g.node("Conv", ["x", g.weight("a_w", 16, 2, 3, 3, 3, depth=54)], "a", pads=[1] * 6)], "r")
    x = g.node("MaxPool", [x], "pool", kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    x = g.node("Conv", [x, g.weight("b_w", 4, 16, 1, 1, 1, depth=16)], "b")
    return g.finish(x, [1, 2, 4, 8, 8], [1, 4, 2, 4, 4]), {"a_w": [8, 2, 3, 3, 3], "b_w": [4, 8, 1, 1, 1]}


def padded_shortcut():
    """A shortcut that zeros make wider, as in the first residual nets."""
    g = Graph()
    x = g.conv("x", "a", 3, 16, 3)
    y = g.conv(x, "b", 16, 32, 3, relu=False)
    short = g.node("Pad", [x, g.numbers("pads", 0, 8, 0, 0, 0, 8, 0, 0)], "wider")
    x = g.node("Relu", [g.node("Add", [y, short], "sum")], "r")
    return g.finish(g.head(x, 32), IMAGE, OUT), {"head_w": [10, 16], "b_w": [16, None, 3, 3]}


def rolled():
    """Channels that move by 8, as windows do along other axes."""
    g = Graph()
    x = g.conv("x", "a", 3, 16, 3)
    parts = [g.node("Slice", [x, g.numbers(f"s{i}", s), g.numbers(f"e{i}", e), g.numbers(f"a{i}", 1)], f"part{i}") for i, (s, e) in enumerate(((8, 1 << 40), (0, 8)))]
    x = g.conv(g.node("Concat", parts, "rolled", axis=1), "b", 16, 16)
    return g.finish(g.head(x, 16), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "b_w": [8, 8, 1, 1]}


def windows():
    """Windows of 4 x 4 of a map with channels last, rolled, through an attention-like product, and back."""
    g = Graph()
    x = g.node("Transpose", [g.conv("x", "a", 3, 16, 3)], "last", perm=[0, 2, 3, 1])
    parts = [g.node("Slice", [x, g.numbers(f"s{i}", s), g.numbers(f"e{i}", e), g.numbers(f"a{i}", 1)], f"part{i}") for i, (s, e) in enumerate(((2, 12), (0, 2)))]
    x = g.node("Concat", parts, "rolled", axis=1)
    x = g.node("Reshape", [x, g.numbers("cut", 2, 3, 4, 3, 4, 16)], "cells")
    x = g.node("Reshape", [g.node("Transpose", [x], "order", perm=[0, 1, 3, 2, 4, 5]), g.numbers("list", 18, 16, 16)], "windows")
    x = g.dense(x, "b", 16, 32)
    x = g.node("Reshape", [x, g.numbers("uncut", 2, 3, 3, 4, 4, 32)], "cells2")
    x = g.node("Reshape", [g.node("Transpose", [x], "order2", perm=[0, 1, 3, 2, 4, 5]), g.numbers("map", 2, 12, 12, 32)], "again")
    return g.finish(g.head(g.node("Transpose", [x], "first", perm=[0, 3, 1, 2]), 32), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "b_w": [8, 16], "head_w": [10, 16]}


def pixels():
    g = Graph()
    x = g.node("DepthToSpace", [g.conv("x", "a", 3, 64)], "pixels", blocksize=2, mode="CRD")
    x = g.conv(g.node("SpaceToDepth", [x], "blocks", blocksize=2), "b", 64, 16)
    return g.finish(g.head(x, 16), IMAGE, OUT), {"a_w": [32, 3, 1, 1], "b_w": [8, 32, 1, 1]}


def computed_dims():
    """The batch of a Reshape is computed, its channels are a constant."""
    g = Graph()
    x = g.conv("x", "a", 3, 16, 3)
    batch = g.node("Unsqueeze", [g.node("Gather", [g.node("Shape", [x], "dims"), g.constant("zero", np.int64(0))], "batch"), g.numbers("front", 0)], "b1")
    dims = g.node("Concat", [batch, g.numbers("rest", 16 * 144)], "flat_dims", axis=0)
    x = g.node("MatMul", [g.node("Reshape", [x, dims], "flat"), g.weight("head_w", 16 * 144, 10, depth=2304)], "head")
    return g.finish(x, ["batch", *IMAGE[1:]], ["batch", 10]), {"a_w": [8, 3, 3, 3], "head_w": [8 * 144, 10]}


def resized():
    g = Graph()
    x = g.conv("x", "a", 3, 16, 3)
    y = g.node("Resize", [g.conv(x, "b", 16, 16, 3, strides=[2, 2]), "", "", g.numbers("sizes", 2, 16, 12, 12)], "up", mode="linear")
    return g.finish(g.head(g.node("Add", [x, y], "sum"), 16), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "b_w": [8, 8, 3, 3]}


def picked():
    """Constant indices reorder the channels, and a tile repeats them."""
    g = Graph()
    x = g.node("Gather", [g.conv("x", "a", 3, 16, 3), g.constant("order", np.arange(16)[::-1].copy())], "turned", axis=1)
    x = g.conv(g.node("Tile", [x, g.numbers("times", 1, 2, 1, 1)], "twice"), "b", 32, 16)
    return g.finish(g.head(x, 16), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "b_w": [8, 16, 1, 1]}


def shared_weight():
    """One convolution in two places, and equal vectors that an exporter stored once."""
    g = Graph()
    x = g.conv("x", "a", 3, 16, 3)
    bias = g.weight("bias", 16, depth=9)
    for i, weight in enumerate((g.weight("w", 16, 16, 3, 3, depth=144), "w")):
        x = g.node("Relu", [g.node("Conv", [x, weight, bias], f"twice{i}", pads=[1] * 4)], f"r{i}")
    return g.finish(g.head(x, 16), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "w": [8, 8, 3, 3], "bias": [8]}


def einsum():
    g = Graph()
    x = g.node("Relu", [g.node("Einsum", ["x", g.weight("a_w", 32, 48, depth=32)], "a", equation="bnc,cd->bnd")], "r")
    return g.finish(g.node("Einsum", [x, g.weight("b_w", 48, 32, depth=48)], "b", equation="bnd,dc->bnc"), TOKENS, TOKENS), {"a_w": [32, 24], "b_w": [24, 32]}


def unknown():
    """What an operator without a rule reads stays; what is before it can go."""
    g = Graph()
    x = g.conv(g.conv("x", "a", 3, 16, 3), "b", 16, 16)
    x = g.node("MeanVarianceNormalization", [x], "odd", axes=[1, 2, 3])
    return g.finish(g.head(g.conv(x, "c", 16, 16), 16), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "b_w": [16, 8, 1, 1], "c_w": [8, 16, 1, 1]}


def means():
    """A mean over the channels needs all of them."""
    g = Graph()
    x = g.conv(g.conv("x", "a", 3, 16, 3), "b", 16, 16)
    x = g.node("Sub", [x, g.node("ReduceMean", [x, g.numbers("axes", 1)], "average")], "centered")
    return g.finish(g.head(x, 16), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "b_w": [16, 8, 1, 1]}


def short_part():
    """A part of a split whose 8 channels matter least."""
    g = Graph()
    x = g.conv("x", "a", 3, 40, 3)
    g.constants[-2].CopyFrom(onnx.numpy_helper.from_array(np.concatenate([np.full((32, 3, 3, 3), 1, np.float32), np.full((8, 3, 3, 3), 1e-3, np.float32)]) *
                                                          g.random.standard_normal((40, 3, 3, 3)).astype(np.float32), "a_w"))
    left = g.node("Split", [x, g.numbers("sizes", 32, 8)], "left", ["left", "right"], axis=1)
    left, right = g.conv(left, "b", 32, 8), g.conv("right", "c", 8, 8)
    return g.finish(g.head(g.node("Add", [left, right], "sum"), 8), IMAGE, OUT)


def resized_axes(computed=False):
    """Sizes of the two last dims alone, constant or computed."""
    g = Graph()
    x = g.conv("x", "a", 3, 16, 3)
    sizes = g.node("Slice", [g.node("Shape", [x], "dims"), g.numbers("s", 2), g.numbers("e", 4)], "sizes") if computed else g.numbers("sizes", 12, 12)
    y = g.node("Resize", [g.conv(x, "b", 16, 16, 3, strides=[2, 2]), "", "", sizes], "up", mode="linear", axes=[2, 3])
    return g.finish(g.head(g.node("Add", [x, y], "sum"), 16), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "b_w": [8, 8, 3, 3]}


def resized_axes_computed():
    return resized_axes(True)


def expanded():
    """The sizes of an Expand are those of the last dims."""
    g = Graph()
    x = g.node("GlobalAveragePool", [g.conv("x", "a", 3, 16, 3)], "mean1")
    x = g.node("Expand", [x, g.numbers("sizes", 16, 12, 12)], "wide")
    return g.finish(g.head(g.conv(x, "b", 16, 16), 16), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "b_w": [8, 8, 1, 1]}


def masked_attention(rank):
    g = Graph()
    q, k, v = g.dense("x", "q", WIDTH, WIDTH), g.dense("x", "k", WIDTH, 2 * SIZE), g.dense("x", "v", WIDTH, 2 * SIZE)
    mask = g.weight("mask", *[2, HEADS, 6, 6][4 - rank:], depth=1)
    y = g.node("Attention", [q, k, v, mask], "attention", q_num_heads=HEADS, kv_num_heads=2)
    x = g.node("Add", [g.dense(y, "out", WIDTH, WIDTH), "x"], "attended")
    return g.finish(x, TOKENS, TOKENS, 23), {"q_w": [32, 16], "k_w": [32, 8], "out_w": [16, 32], "mask": [2, 2, 6, 6][4 - rank:]}


def mask_of_heads():
    return masked_attention(3)


def mask_of_samples_and_heads():
    return masked_attention(4)


def group_norm_of_torch():
    """As its exporter writes it: the dims behind are read from what is before."""
    g = Graph()
    x = g.conv("x", "a", 3, 32, 3)
    y = g.node("Reshape", [x, g.numbers("apart", 0, 8, -1)], "grouped")
    y = g.node("InstanceNormalization", [y, g.constant("one", np.ones(8, np.float32)), g.constant("zero", np.zeros(8, np.float32))], "norm")
    y = g.node("Reshape", [y, g.node("Shape", [x], "dims")], "whole")
    y = g.node("Mul", [y, g.weight("scale", 32, 1, 1, depth=1)], "scaled")
    return g.finish(g.head(y, 32), IMAGE, OUT), {"a_w": [16, 3, 3, 3], "scale": [16, 1, 1], "one": [4]}


def part_of_shape():
    """Of a list of dims with a start and an end, only those are read: places count from its own ends."""
    g = Graph()
    x = g.conv("x", "a", 3, 16, 3)
    sizes = g.node("Shape", [x], "sizes", start=2, end=4)
    y = g.node("Resize", [g.conv(x, "b", 16, 16, 3, strides=[2, 2]), "", "", sizes], "up", mode="linear", axes=[2, 3])
    x = g.node("Add", [x, y], "sum")
    last = g.node("Gather", [g.node("Shape", [x], "batch_channels", end=2), g.constant("minus", np.int64(-2))], "batch")
    x = g.node("Mul", [x, g.node("Cast", [last], "factor", to=TensorProto.FLOAT)], "by_batch")
    return g.finish(g.head(x, 16), IMAGE, OUT), {"a_w": [8, 3, 3, 3], "b_w": [8, 8, 3, 3]}


def summed_letter():
    """A sum without weights keeps what it sums over: behind a Sigmoid the missing would not be zero."""
    g = Graph()
    x = g.node("Sigmoid", [g.node("Relu", [g.dense("x", "a", WIDTH, 48)], "r")], "s")
    x = g.node("Mul", [g.dense(x, "b", 48, 64), g.node("Unsqueeze", [g.node("Einsum", [x], "total", equation="bnc->bn"), g.numbers("at", 2)], "column")], "by_total")
    return g.finish(g.dense(x, "c", 64, WIDTH), TOKENS, TOKENS), {"a_w": [32, 48], "b_w": [48, 32], "c_w": [32, 32]}


def old_opset():
    g = Graph()
    left = g.node("Split", [g.conv("x", "a", 3, 32)], "left", ["left", "right"], axis=1, split=[16, 16])
    x = g.node("Add", [left, "right"], "sum")
    x = g.node("ReduceMean", [x], "mean", axes=[2, 3], keepdims=0)
    x = g.node("Gemm", [x, g.weight("head_w", 10, 16, depth=16), g.weight("head_b", 10, depth=9)], "head", transB=1)
    return g.model([value("x", IMAGE)], [value(x, OUT)], 11), {"a_w": [16, 3, 1, 1], "head_w": [10, 8]}


NETS = [chain, exported_pads, residual, dense, whole_groups, within_groups, depthwise, gate, shuffle, flattened, split_attention, fused_attention, sliced_attention,
        grouped_queries, attention_operator, group_norm, group_norm_operator, transposed, one_dim, three_dims, padded_shortcut, rolled, windows, pixels,
        computed_dims, resized, picked, shared_weight, einsum, unknown, means, old_opset, resized_axes, resized_axes_computed, expanded, mask_of_heads, mask_of_samples_and_heads, group_norm_of_torch,
        part_of_shape, summed_letter]


def masked(model, recipe):
    """The model with zeros where the recipe removes: what the smaller one must equal. Each reader of a part reads its own."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    tensors = {tensor.name: tensor for tensor in copy.graph.initializer}
    for name, entry in recipe["parameters"].items():
        own, result = entry["tensor"], "masked " + name
        mask = np.ones(entry["dims"], np.float32)
        for axis, kept in entry["kept"].items():
            gone = np.setdiff1d(np.arange(entry["dims"][int(axis)]), kept)
            mask[(slice(None),) * int(axis) + (gone,)] = 0
        readers = [node for node in copy.graph.node if (node.name or node.output[0]) in entry["readers"] and own in node.input]
        if not readers:
            raise ValueError(f"nobody reads {own}")
        for node in readers:
            node.input[:] = [result if operand == own else operand for operand in node.input]
        if own in tensors:
            array = onnx.numpy_helper.to_array(tensors[own])
            copy.graph.initializer.append(onnx.numpy_helper.from_array(array * mask.astype(array.dtype), result))
        else:  # the result of a node, as of Identity
            copy.graph.initializer.append(onnx.numpy_helper.from_array(mask, result + " mask"))
            at = next(i for i, node in enumerate(copy.graph.node) if own in node.output)
            copy.graph.node.insert(at + 1, helper.make_node("Mul", [own, result + " mask"], [result]))
    return copy
