"""Nets with free dims for the tests of `prune`, as those of prune_nets: what follows the batch or the length stays an expression in the pruned file,
and what is computed of sizes that shrink stays the number that it was.
"""

import numpy as np
from onnx import TensorProto
from prune_nets import HEADS, IMAGE, OUT, SIZE, WIDTH, Graph

FREE_IMAGE, FREE_TOKENS, FREE_OUT = ["batch", *IMAGE[1:]], ["batch", "length", WIDTH], ["batch", *OUT[1:]]


def size_of(g, x, axis, name):
    """A vector of one dim."""
    one = g.node("Gather", [g.node("Shape", [x], name + "_shape"), g.constant(name + "_at", np.int64(axis))], name)
    return g.node("Unsqueeze", [one, g.numbers(name + "_front", 0)], name + "_1")


def reshaped(g, x, name, *sizes):
    parts = [size if isinstance(size, str) else g.numbers(f"{name}_{i}", size) for i, size in enumerate(sizes)]
    return g.node("Reshape", [x, g.node("Concat", parts, name + "_dims", axis=0)], name)


def mixed(g, q, k, v, scale):
    """[rows, length, SIZE] each."""
    scores = g.node("Div", [g.node("MatMul", [q, g.node("Transpose", [k], "k_t", perm=[0, 2, 1])], "scores"), scale], "scaled")
    return g.node("MatMul", [g.node("Softmax", [scores], "softmax", axis=-1), v], "mixed")


def heads_in_batch():
    """As torch.nn.MultiheadAttention is exported: [length, batch * heads, size], and back to rows of all tokens."""
    g = Graph()
    x = g.node("Transpose", ["x"], "first", perm=[1, 0, 2])
    length, batch = size_of(g, x, 0, "length"), size_of(g, x, 1, "batch")
    folded = g.node("Mul", [batch, g.numbers("heads", HEADS)], "batch_heads")
    q, k, v = (g.node("Transpose", [reshaped(g, g.dense(x, name, WIDTH, WIDTH), name + "_heads", length, folded, SIZE)], name + "_t0", perm=[1, 0, 2]) for name in "qkv")
    y = g.node("Transpose", [mixed(g, q, k, v, g.constant("scale", np.float32(SIZE**0.5)))], "back", perm=[1, 0, 2])
    y = reshaped(g, y, "rows", g.node("Mul", [length, batch], "tokens"), WIDTH)
    y = g.node("Gemm", [y, g.weight("out_w", WIDTH, WIDTH, depth=WIDTH), g.weight("out_b", WIDTH, depth=9)], "out", transB=1)
    y = reshaped(g, y, "apart", length, batch, WIDTH)
    return g.finish(g.node("Transpose", [y], "last", perm=[1, 0, 2]), FREE_TOKENS, FREE_TOKENS), {"q_w": [32, 16], "k_b": [16], "out_w": [32, 16]}


def heads_of_sizes():
    """The size of a head and its scale are computed of a width that shrinks."""
    g = Graph()
    q, k, v = (g.dense("x", name, WIDTH, WIDTH) for name in "qkv")
    batch, length = size_of(g, q, 0, "batch"), size_of(g, q, 1, "length")
    width = size_of(g, q, 2, "width")
    each = g.node("Div", [width, g.numbers("heads", HEADS)], "each")

    def folded(y, name):
        y = g.node("Transpose", [reshaped(g, y, name + "_heads", batch, length, HEADS, each)], name + "_t0", perm=[0, 2, 1, 3])
        return reshaped(g, y, name + "_folded", -1, length, each)

    scale = g.node("Sqrt", [g.node("Cast", [each], "real", to=TensorProto.FLOAT)], "scale")
    y = mixed(g, *(folded(y, name) for y, name in ((q, "q"), (k, "k"), (v, "v"))), scale)
    y = g.node("Transpose", [reshaped(g, y, "unfolded", batch, HEADS, length, each)], "back", perm=[0, 2, 1, 3])
    y = reshaped(g, y, "joined", batch, length, width)
    return g.finish(g.dense(y, "out", WIDTH, WIDTH), FREE_TOKENS, FREE_TOKENS), {"q_w": [32, 16], "v_w": [32, 16], "out_w": [16, 32]}


def channels_as_rows():
    g = Graph()
    x = g.conv("x", "a", 3, 16, 3)
    batch = size_of(g, x, 0, "batch")
    y = g.node("MatMul", [g.node("Reshape", [x, g.numbers("rows", -1, 12)], "all_rows"), g.weight("each_w", 12, 12, depth=12)], "each")
    x = g.conv(reshaped(g, y, "apart", batch, 16, 12, 12), "b", 16, 16)
    return g.finish(g.head(x, 16), FREE_IMAGE, FREE_OUT), {"a_w": [8, 3, 3, 3], "b_w": [8, 8, 1, 1]}


def expanded_token():
    """A token that is given the dims of others: the batch is computed, the width is a number."""
    g = Graph()
    x = g.dense("x", "a", WIDTH, 48)
    dims = g.node("Concat", [size_of(g, x, 0, "batch"), g.numbers("one", 1), size_of(g, x, 2, "width")], "token_dims", axis=0)
    x = g.node("Concat", [g.node("Expand", [g.weight("token", 1, 1, 48, depth=1), dims], "tokens"), x], "all", axis=1)
    return g.finish(g.dense(g.node("Relu", [x], "r"), "b", 48, WIDTH), FREE_TOKENS, ["batch", "more", WIDTH]), {"a_w": [32, 24], "token": [1, 1, 24], "b_w": [24, 32]}


def computed_operands():
    """What a convolution and a Gemm multiply two computed values over stays: behind a Sigmoid the missing would not be zero."""
    g = Graph()
    x = g.node("Sigmoid", [g.conv("x", "a", 3, 16, 3, relu=False)], "s")
    mean = g.node("Reshape", [g.node("ReduceMean", [x, g.numbers("spots", 0, 2, 3)], "mean", keepdims=0), g.numbers("row", 1, 16)], "mean_row")
    kernel = g.node("Reshape", [g.node("Mul", [mean, g.weight("kernel", 8, 16, depth=16)], "kernels"), g.numbers("window", 8, 16, 1, 1)], "kernel4")
    y = g.conv(g.node("Conv", [x, kernel], "both"), "b", 8, 16)
    y = g.node("Flatten", [g.node("GlobalAveragePool", [y], "pooled")], "row16")
    left, right = (g.node("Sigmoid", [g.dense(y, name, 16, 24)], name + "_s") for name in ("left", "right"))
    one = g.node("Gemm", [left, right], "pairs", transB=1)
    y = g.node("Mul", [y, g.node("ReduceMean", [one, g.numbers("columns", 1)], "of_pairs")], "by_pairs")
    return g.finish(g.node("MatMul", [y, g.weight("head_w", 16, 10, depth=16)], "head"), FREE_IMAGE, FREE_OUT), {"a_w": [16, 3, 3, 3], "b_w": [8, 8, 1, 1], "left_w": [8, 24]}


def equal_parameters():
    """Stored once, and given their names by Identity."""
    g = Graph()
    x, bias = "x", g.constant("a_b", np.full(16, 0.1, np.float32))
    for name, before in (("a", 3), ("b", 16), ("c", 16)):
        own = bias if name == "a" else g.node("Identity", [bias], name + "_b")
        x = g.node("Relu", [g.node("Conv", [x, g.weight(name + "_w", 16, before, 1, 1, depth=before), own], name)], name + "_r")
    return g.finish(g.head(x, 16), FREE_IMAGE, FREE_OUT), {"a_w": [8, 3, 1, 1], "b_w": [8, 8, 1, 1], "c_w": [8, 8, 1, 1]}


def recurrent():
    """Features that an LSTM reads can go, its state stays."""
    g = Graph()
    x = g.node("Transpose", [g.node("Relu", [g.dense("x", "a", WIDTH, 48)], "r")], "by_time", perm=[1, 0, 2])
    y = g.node("LSTM", [x, g.weight("w", 1, 64, 48, depth=48), g.weight("state", 1, 64, 16, depth=16)], "lstm", hidden_size=16)
    y = g.node("Transpose", [g.node("Squeeze", [y, g.numbers("direction", 1)], "one")], "by_batch", perm=[1, 0, 2])
    return g.finish(g.dense(y, "b", 16, WIDTH), FREE_TOKENS, FREE_TOKENS), {"a_w": [32, 24], "w": [1, 64, 24], "b_w": [16, 32]}


def long_axis():
    """Places in a row, more than are followed: the channels beside them are."""
    g = Graph()
    x = g.node("Reshape", [g.conv("x", "a", 1, 8), g.numbers("flat", 0, 8, -1)], "places")
    x = g.node("ReduceMean", [x, g.numbers("all", 2)], "mean", keepdims=0)
    return g.finish(g.node("MatMul", [x, g.weight("head_w", 8, 10, depth=8)], "head"), ["batch", 1, 300, 300], FREE_OUT), {"a_w": [4, 1, 1, 1], "head_w": [4, 10]}


FREE_NETS = [heads_in_batch, heads_of_sizes, channels_as_rows, expanded_token, computed_operands, equal_parameters, recurrent, long_axis]
