"""Nets for the test of cuts, one for each way in which axes depend on each other: encoders, decoders with fused projections, experts, and
convolutions by channels. Each gives a model with seeded weights; all dims that matter divide by 2, most by 3 and 4.
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Net:
    def __init__(self, seed=0):
        self.random, self.nodes, self.weights = np.random.default_rng(seed), [], []

    def weight(self, name, *dims):
        scale = 1 / np.sqrt(np.prod(dims[1:]) if len(dims) > 2 else dims[0])
        self.weights.append(numpy_helper.from_array((self.random.standard_normal(dims) * scale).astype(np.float32), name))
        return name

    def numbers(self, name, *values, kind=np.int64):
        self.weights.append(numpy_helper.from_array(np.array(values, kind), name))
        return name

    def scalar(self, name, value):
        self.weights.append(numpy_helper.from_array(np.float32(value), name))
        return name

    def node(self, kind, inputs, name, outputs=None, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, outputs or [name], name=name, **attributes))
        return name if outputs is None else outputs

    def product(self, x, name, inputs, outputs, bias=True):
        y = self.node("MatMul", [x, self.weight(f"{name}.w", inputs, outputs)], f"{name}.product" if bias else name)
        return self.node("Add", [y, self.weight(f"{name}.b", outputs)], name) if bias else y

    def reshape(self, x, name, *dims):
        return self.node("Reshape", [x, self.numbers(f"{name}.dims", *dims)], name)

    def norm(self, x, name, width):
        return self.node("LayerNormalization", [x, self.weight(f"{name}.scale", width), self.weight(f"{name}.bias", width)], name, axis=-1)

    def heads(self, x, name, count, head, order=(0, 2, 1, 3)):
        return self.node("Transpose", [self.reshape(x, f"{name}.split", 0, -1, count, head), ], f"{name}.heads", perm=order)

    def attention(self, q, k, v, name, count, head):
        """Written out, of queries, keys and values [B, S, count * head]."""
        q, k, v = self.heads(q, f"{name}.q", count, head), self.heads(k, f"{name}.k", count, head, (0, 2, 3, 1)), self.heads(v, f"{name}.v", count, head)
        scores = self.node("Div", [self.node("MatMul", [q, k], f"{name}.scores"), self.scalar(f"{name}.scale", head**0.5)], f"{name}.scaled")
        y = self.node("MatMul", [self.node("Softmax", [scores], f"{name}.probabilities", axis=-1), v], f"{name}.mixed")
        return self.reshape(self.node("Transpose", [y], f"{name}.back", perm=[0, 2, 1, 3]), f"{name}.joined", 0, -1, count * head)

    def gelu(self, x, name):
        erf = self.node("Erf", [self.node("Div", [x, self.scalar(f"{name}.root", 2**0.5)], f"{name}.by")], f"{name}.erf")
        half = self.node("Mul", [x, self.node("Add", [erf, self.scalar(f"{name}.one", 1)], f"{name}.up")], f"{name}.times")
        return self.node("Mul", [half, self.scalar(f"{name}.half", 0.5)], name)

    def add(self, a, b, name):
        return self.node("Add", [a, b], name)

    def finish(self, inputs, y, rank):
        ports = [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in inputs.items()]
        out = helper.make_tensor_value_info(y, TensorProto.FLOAT, [None] * rank)
        graph = helper.make_graph(self.nodes, "net", ports, [out], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


TOKENS = {"tokens": (TensorProto.INT64, ["batch", "length"])}
WIDE = {"x": (TensorProto.FLOAT, ["batch", "length", 48])}
IMAGE = {"x": (TensorProto.FLOAT, [2, 3, 8, 8])}


def encoder(count=6, head=8, inner=96, layers=2, width=48):
    """Norms behind the residual, biases everywhere."""
    n = Net(1)
    x = n.node("Gather", [n.weight("words", 36, width), "tokens"], "embedded")
    for i in range(layers):
        q, k, v = (n.product(x, f"layer.{i}.{part}", width, count * head) for part in ("query", "key", "value"))
        y = n.product(n.attention(q, k, v, f"layer.{i}.attention", count, head), f"layer.{i}.output", count * head, width)
        x = n.norm(n.add(x, y, f"layer.{i}.sum"), f"layer.{i}.norm", width)
        y = n.product(n.gelu(n.product(x, f"layer.{i}.up", width, inner), f"layer.{i}.gelu"), f"layer.{i}.down", inner, width)
        x = n.norm(n.add(x, y, f"layer.{i}.sum2"), f"layer.{i}.norm2", width)
    return n.finish(TOKENS, x, 3)


def fused(order, count=6, head=8):
    """One matrix for queries, keys and values: in parts, head by head, or with the part as a dim."""
    n, width = Net(2), 48
    y = n.product("x", "qkv", width, 3 * count * head)
    if order == "parts":
        parts = n.node("Split", [y, n.numbers("sizes", *[count * head] * 3)], "parts", ["q", "k", "v"], axis=2)
    else:
        dims, axis = ((0, -1, 3, count, head), 2) if order == "dim" else ((0, -1, count, 3, head), 3)
        split = n.reshape(y, "five", *dims)
        parts = [n.node("Gather", [split, n.numbers(f"number{i}", i)], f"picked{i}", axis=axis) for i in range(3)]
        parts = [n.reshape(part, f"flat{i}", 0, -1, count * head) for i, part in enumerate(parts)]
    x = n.add("x", n.product(n.attention(*parts, "attention", count, head), "output", count * head, width), "sum")
    return n.finish(WIDE, x, 3)


def gated(is_fused, inner=96):
    """x * sigmoid(x) of one half times the other: two matrices, or one."""
    n, width = Net(3), 48
    if is_fused:
        gate, up = n.node("Split", [n.product("x", "gate_up", width, 2 * inner, bias=False)], "halves", ["gate", "up"], axis=2, num_outputs=2)
    else:
        gate, up = n.product("x", "gate", width, inner, bias=False), n.product("x", "up", width, inner, bias=False)
    y = n.node("Mul", [n.node("Mul", [gate, n.node("Sigmoid", [gate], "sigmoid")], "silu"), up], "product")
    return n.finish(WIDE, n.add("x", n.product(y, "down", inner, width, bias=False), "sum"), 3)


def parallel():
    """Attention and feed-forward side by side: their partial sums meet before they are added up."""
    n, width = Net(4), 48
    x = n.norm("x", "norm", width)
    q, k, v = (n.product(x, part, width, 48) for part in ("q", "k", "v"))
    y = n.product(n.attention(q, k, v, "attention", 6, 8), "output", 48, width)
    z = n.product(n.node("Relu", [n.product(x, "up", width, 96)], "relu"), "down", 96, width)
    return n.finish(WIDE, n.add("x", n.add(y, z, "both"), "sum"), 3)


def experts(count=12, inner=24):
    """All experts compute all tokens, weighted by a router: cut by experts or within each."""
    n, width = Net(5), 48
    gates = n.node("Softmax", [n.product("x", "router", width, count, bias=False)], "gates", axis=-1)
    x = n.node("Unsqueeze", ["x", n.numbers("axis", 1)], "each")  # [batch, 1, length, width]
    up = n.node("Relu", [n.node("MatMul", [x, n.weight("up", count, width, inner)], "up.product")], "relu")
    down = n.node("MatMul", [up, n.weight("down", count, inner, width)], "down.product")
    gates = n.node("Unsqueeze", [n.node("Transpose", [gates], "by", perm=[0, 2, 1]), n.numbers("last", 3)], "weights")
    y = n.node("ReduceSum", [n.node("Mul", [down, gates], "weighted"), n.numbers("over", 1)], "mixed", keepdims=0)
    return n.finish(WIDE, n.add("x", y, "sum"), 3)


def head_over_vocabulary():
    n, width = Net(6), 48
    x = n.node("Gather", [n.weight("words", 48, width), "tokens"], "embedded")
    x = n.product(n.node("Relu", [n.product(x, "up", width, 96)], "relu"), "down", 96, width)
    return n.finish(TOKENS, n.node("Softmax", [n.product(x, "head", width, 48)], "probabilities", axis=-1), 3)


def conv(n, x, name, inputs, outputs, kernel=3, groups=1, norm=True, bias=False):
    weights = [x, n.weight(f"{name}.w", outputs, inputs // groups, kernel, kernel), *([n.weight(f"{name}.b", outputs)] if bias else [])]
    x = n.node("Conv", weights, name, pads=[kernel // 2] * 4, group=groups)
    if norm:
        parts = [n.numbers(f"{name}.{part}", *n.random.uniform(0.5, 1.5, outputs), kind=np.float32) for part in ("scale", "shift", "mean", "variance")]
        x = n.node("BatchNormalization", [x, *parts], f"{name}.norm")
    return x


def pooled(n, x, channels):
    x = n.node("Flatten", [n.node("GlobalAveragePool", [x], "mean")], "flat")
    return n.finish(IMAGE, n.product(x, "head", channels, 12), 2)


def residual(bottleneck, bias):
    n = Net(7)
    x = n.node("Relu", [conv(n, "x", "stem", 3, 24, bias=bias)], "stem.relu")
    for i in range(2):
        y = n.node("Relu", [conv(n, x, f"{i}.a", 24, 48, 1 if bottleneck else 3, bias=bias)], f"{i}.a.relu")
        if bottleneck:
            y = n.node("Relu", [conv(n, y, f"{i}.b", 48, 48, bias=bias)], f"{i}.b.relu")
        x = n.node("Relu", [n.add(x, conv(n, y, f"{i}.c", 48, 24, 1, bias=bias), f"{i}.sum")], f"{i}.relu")
    return pooled(n, x, 24)


def depthwise():
    n = Net(8)
    x = conv(n, "x", "stem", 3, 24)
    y = n.node("Clip", [conv(n, x, "widen", 24, 96, 1), n.scalar("zero", 0), n.scalar("six", 6)], "clip")
    y = n.node("HardSigmoid", [conv(n, y, "own", 96, 96, groups=96)], "hard")
    return pooled(n, n.add(x, conv(n, y, "narrow", 96, 24, 1), "sum"), 24)


def grouped():
    n = Net(9)
    x = n.node("Relu", [conv(n, "x", "stem", 3, 48)], "stem.relu")
    return pooled(n, n.node("Relu", [conv(n, x, "groups", 48, 48, groups=12)], "relu"), 48)


def skip():
    """A concatenation of channels, a pooling and a resize between, and norms over groups."""
    n = Net(10)
    x = n.node("Relu", [conv(n, "x", "first", 3, 24, norm=False)], "first.relu")
    y = conv(n, n.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2]), "low", 24, 48, norm=False)
    y = n.node("InstanceNormalization", [y, n.weight("instance.scale", 48), n.weight("instance.bias", 48)], "instance")
    y = n.node("Resize", [y, "", n.numbers("scales", 1, 1, 2, 2, kind=np.float32)], "resized", mode="nearest")
    z = n.node("Concat", [x, y], "joined", axis=1)
    return pooled(n, conv(n, z, "last", 72, 24), 24)


NETS = {
    "encoder": encoder, "encoder of 8 heads": lambda: encoder(8, 6), "encoder of 5 heads": lambda: encoder(5, 8, 60),
    "fused parts": lambda: fused("parts"), "fused dim": lambda: fused("dim"), "fused heads": lambda: fused("heads"),
    "fused parts of 8 heads": lambda: fused("parts", 8, 12), "gated": lambda: gated(False), "gated in one": lambda: gated(True),
    "parallel": parallel, "experts": experts, "experts within": lambda: experts(5, 24), "vocabulary": head_over_vocabulary,
    "residual": lambda: residual(False, False), "residual with biases": lambda: residual(False, True), "bottleneck": lambda: residual(True, False),
    "bottleneck with biases": lambda: residual(True, True), "depthwise": depthwise, "groups": grouped, "skip": skip,
}  # fmt: skip
