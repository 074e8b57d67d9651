"""Graphs of one operator and what usually stands around it, at random large sizes, for find_cliffs.py."""

import math

import numpy as np
import onnx
from onnx import helper, numpy_helper

MOST = 1 << 22  # elements of a tensor

class Graph:
    """A model being written: inputs, constants and nodes in order; the last node's outputs are the model's."""

    def __init__(self, random):
        self.random, self.inputs, self.constants, self.nodes, self.text = random, {}, [], [], []

    def input(self, dims, kind=np.float32, low=-1.0, high=1.0):
        name = f"x{len(self.inputs)}"
        if kind == np.bool_:
            values = self.random.random(dims) < 0.5
        elif np.issubdtype(kind, np.integer):
            values = self.random.integers(int(low), int(high), dims)
        else:
            values = self.random.uniform(low, high, dims)
        self.inputs[name] = values.astype(kind)
        self.text.append(f"{np.dtype(kind).name}{list(dims)}")
        return name

    def constant(self, values, kind=np.float32):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def weight(self, dims, scale=None):
        scale = scale or 1 / math.sqrt(max(1, math.prod(dims[1:])))
        return self.constant(self.random.normal(0, scale, dims))

    def add(self, kind, *operands, outputs=1, **attributes):
        names = [f"y{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, operands, names, **attributes))
        said = ",".join(f"{key}={value}" for key, value in attributes.items())
        self.text.append(f"{kind}({said})" if said else kind)
        return names[0] if outputs == 1 else names

    def model(self):
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.nodes[-1].output]
        inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values.dtype), values.shape) for name, values in self.inputs.items()]
        graph = helper.make_graph(self.nodes, "case", inputs, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def pick(graph, *values):
    return values[graph.random.integers(len(values))]


def size(graph, low, high):
    """A size between two, as likely small as large, as often round as odd."""
    value = int(round(math.exp(graph.random.uniform(math.log(low), math.log(high)))))
    return max(low, value // 8 * 8) if graph.random.random() < 0.5 else value


def dims_of(graph, rank, most=MOST):
    """Dims of a tensor of between an eighth of `most` and `most` elements."""
    while True:
        dims = [size(graph, 1, most if rank == 1 else 4096) for _ in range(rank)]
        if most // 8 <= math.prod(dims) <= most:
            return dims


def epilogue(graph, y, channels, rank):
    kind = pick(graph, "", "Relu", "Silu", "Add", "Clip", "Bn", "Gelu", "LeakyRelu", "HardSwish")
    if kind == "Silu":
        return graph.add("Mul", y, graph.add("Sigmoid", y))
    if kind == "Add":
        return graph.add("Relu", graph.add("Add", y, graph.weight([channels] + [1] * (rank - 2), 1.0)))
    if kind == "Clip":
        return graph.add("Clip", y, graph.constant(0.0), graph.constant(6.0))
    if kind == "Bn":
        return graph.add("BatchNormalization", y, *(graph.constant(graph.random.uniform(0.5, 1, channels)) for _ in range(4)))
    if kind == "Gelu":
        return graph.add("Gelu", y)
    return graph.add(kind, y) if kind else y


def conv(graph):
    spatial = pick(graph, 1, 2, 2, 2, 2, 3)
    group, a_group, outs = pick(graph, (1, 0, 0), (1, 0, 0), (0, 1, 1), (0, 1, 2), (8, 4, 4), (32, 4, 8), (4, 24, 24), (3, 16, 32))
    if group == 1:
        channels, filters = size(graph, 1, 512), size(graph, 1, 512)
        per = channels
    else:
        group = group or size(graph, 8, 512)
        channels, filters, per = group * a_group, group * outs, a_group
    kernel = [int(pick(graph, 1, 3, 3, 3, 5, 7)) for _ in range(spatial)] if pick(graph, 0, 0, 1) else [int(pick(graph, 1, 3, 3, 5, 7))] * spatial
    stride, dilation = int(pick(graph, 1, 1, 1, 2)), int(pick(graph, 1, 1, 1, 1, 2, 4))
    batch = int(pick(graph, 1, 1, 2, 8))
    while True:
        high = {1: 8192, 2: 224, 3: 48}[spatial]
        extent = [size(graph, 7, high) for _ in range(spatial)]
        flops = batch * math.prod(extent) / stride**spatial * filters * per * math.prod(kernel)
        if batch * channels * math.prod(extent) <= MOST and batch * filters * math.prod(extent) <= 2 * MOST and flops < 2e9:
            break
        batch, channels, filters = 1, max(1, channels // 2) if group == 1 else channels, max(1, filters // 2) if group == 1 else filters
        per = channels if group == 1 else per
    pads = [dilation * (k // 2) for k in kernel]
    x = graph.input([batch, channels] + extent)
    if pick(graph, 0, 0, 0, 1):
        x = graph.add("Relu", graph.add("BatchNormalization", x, *(graph.constant(graph.random.uniform(0.5, 1, channels)) for _ in range(4))))
    w = graph.weight([filters, per] + kernel)
    bias = [graph.weight([filters], 0.1)] if pick(graph, 0, 1) else []
    y = graph.add("Conv", x, w, *bias, pads=pads * 2, strides=[stride] * spatial, dilations=[dilation] * spatial, group=group)
    epilogue(graph, y, filters, spatial + 2)


def conv_transpose(graph):
    spatial, stride = int(pick(graph, 1, 2, 2, 3)), int(pick(graph, 1, 2, 2, 4))
    group = int(pick(graph, 1, 1, 1, 4))
    channels, filters = size(graph, 8, 256) // group * group or group, size(graph, 4, 128)
    kernel = [int(pick(graph, 2, 3, 4, 5))] * spatial
    extent = [size(graph, 5, {1: 1024, 2: 64, 3: 16}[spatial]) for _ in range(spatial)]
    x = graph.input([int(pick(graph, 1, 2)), channels] + extent)
    y = graph.add("ConvTranspose", x, graph.weight([channels, max(1, filters // group)] + kernel), strides=[stride] * spatial, group=group)
    epilogue(graph, y, max(1, filters // group) * group, spatial + 2)


def product(graph):
    m, n, k = size(graph, 1, 4096), size(graph, 1, 4096), size(graph, 1, 4096)
    batch = [] if pick(graph, 0, 1) else [int(pick(graph, 1, 2, 12, 96))]
    while math.prod(batch) * m * n * k > 1e9 or math.prod(batch) * max(m * k, k * n, m * n) > MOST:
        m, n, k = max(1, m // 2), max(1, n // 2), max(1, k // 2)
    if pick(graph, 0, 1):
        a, b = batch + [m, k], [k, n] if pick(graph, 0, 1) else batch + [k, n]
        x = graph.input(a)
        if pick(graph, 0, 1):
            y = graph.add("MatMul", x, graph.weight(b, 1 / math.sqrt(k)))
        elif pick(graph, 0, 1):
            y = graph.add("MatMul", x, graph.add("Transpose", graph.input(b[:-2] + [n, k]), perm=list(range(len(b) - 2)) + [len(b) - 1, len(b) - 2]))
        else:
            y = graph.add("MatMul", x, graph.input(b))
        y = graph.add("Add", y, graph.weight([n], 0.1))
    else:
        ta, tb = int(pick(graph, 0, 1)), int(pick(graph, 0, 1))
        b = [n, k] if tb else [k, n]
        y = graph.add("Gemm", graph.input([k, m] if ta else [m, k]), graph.weight(b, 1 / math.sqrt(k)) if pick(graph, 0, 1) else graph.input(b), graph.weight([n], 0.1), transA=ta, transB=tb)
    kind = pick(graph, "", "Relu", "Gelu", "Silu", "Tanh")
    if kind == "Silu":
        graph.add("Mul", y, graph.add("Sigmoid", y))
    elif kind:
        graph.add(kind, y)


def attention(graph):
    batch, heads, wide = int(pick(graph, 1, 1, 4)), int(pick(graph, 1, 4, 12)), int(pick(graph, 16, 32, 40, 64, 80, 96, 128))
    queries, keys = (1, size(graph, 16, 4096)) if pick(graph, 0, 0, 1) else (size(graph, 16, 1024), size(graph, 16, 1024))
    q, k, v = (graph.add("Transpose", graph.input([batch, length, heads, wide]), perm=[0, 2, 1, 3]) for length in (queries, keys, keys))
    s = graph.add("Mul", graph.add("MatMul", q, graph.add("Transpose", k, perm=[0, 1, 3, 2])), graph.constant(1 / math.sqrt(wide)))
    if pick(graph, 0, 1):
        s = graph.add("Add", s, graph.input(pick(graph, [batch, 1, 1, keys], [1, 1, queries, keys], [1, heads, queries, keys])))
    y = graph.add("MatMul", graph.add("Softmax", s, axis=-1), v)
    graph.add("Transpose", y, perm=[0, 2, 1, 3])


def reduction(graph):
    rank = int(pick(graph, 1, 2, 3, 4, 5))
    dims = dims_of(graph, rank)
    axes = sorted(graph.random.permutation(rank)[: graph.random.integers(1, rank + 1)].tolist())
    kind = pick(graph, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1", "ReduceSumSquare", "ReduceLogSumExp", "ReduceProd", "ArgMax", "ArgMin")
    x = graph.input(dims)
    if kind.startswith("Arg"):
        graph.add(kind, x, axis=axes[0], keepdims=int(pick(graph, 0, 1)))
    else:
        graph.add(kind, x, graph.constant(axes, np.int64), keepdims=int(pick(graph, 0, 1)))


def normalization(graph):
    kind = pick(graph, "Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization", "GroupNormalization", "BatchNormalization", "LpNormalization", "Rms", "Lrn")
    if kind in ("Softmax", "LogSoftmax", "LpNormalization"):
        rank = int(pick(graph, 2, 3, 4))
        graph.add(kind, graph.input(dims_of(graph, rank)), axis=int(graph.random.integers(rank)))
        return
    if kind == "LayerNormalization":
        dims = dims_of(graph, int(pick(graph, 2, 3)))
        graph.add(kind, graph.input(dims), graph.weight([dims[-1]], 1.0), graph.weight([dims[-1]], 1.0), axis=-1)
        return
    if kind == "Rms":
        dims = dims_of(graph, int(pick(graph, 2, 3)))
        x = graph.input(dims)
        mean = graph.add("ReduceMean", graph.add("Mul", x, x), graph.constant([-1], np.int64), keepdims=1)
        graph.add("Mul", graph.add("Div", x, graph.add("Sqrt", graph.add("Add", mean, graph.constant(1e-5)))), graph.weight([dims[-1]], 1.0))
        return
    batch, channels = int(pick(graph, 1, 2, 8)), size(graph, 8, 512)
    extent = [size(graph, 7, 128)] * 2
    while batch * channels * math.prod(extent) > MOST:
        channels = max(8, channels // 2)
        extent = [max(7, value // 2) for value in extent]
        batch = 1
    if kind == "Lrn":
        graph.add("LRN", graph.input([batch, channels] + extent), size=5)
        return
    if kind == "GroupNormalization":
        groups = int(pick(graph, 2, 8))
        channels = max(groups, channels // groups * groups)
        x = graph.input([batch, channels] + extent)
        y = graph.add("InstanceNormalization", graph.add("Reshape", x, graph.constant([batch, groups, -1], np.int64)), graph.constant(np.ones(groups)), graph.constant(np.zeros(groups)))
        y = graph.add("Reshape", y, graph.constant([batch, channels] + extent, np.int64))
        y = graph.add("Add", graph.add("Mul", y, graph.weight([channels, 1, 1], 1.0)), graph.weight([channels, 1, 1], 1.0))
        graph.add("Mul", y, graph.add("Sigmoid", y))
        return
    count = 2 if kind == "InstanceNormalization" else 4
    graph.add(kind, graph.input([batch, channels] + extent), *(graph.constant(graph.random.uniform(0.5, 1, channels)) for _ in range(count)))


def movement(graph):
    kind = pick(graph, "Transpose", "Transpose", "Concat", "Slice", "Pad", "Expand", "Tile", "Split", "Gather", "GatherElements", "GatherND", "Space", "Flip", "Roll")
    rank = int(pick(graph, 2, 3, 4, 5))
    dims = dims_of(graph, rank)
    axis = int(graph.random.integers(rank))
    element = pick(graph, np.float32, np.float32, np.int64, np.float16, np.uint8)
    x = graph.input(dims, element, 0, 100)
    if kind == "Transpose":
        graph.add(kind, x, perm=graph.random.permutation(rank).tolist())
    elif kind == "Concat":
        other = list(dims)
        other[axis] = size(graph, 1, 64)
        graph.add(kind, x, graph.input(other, element, 0, 100), axis=axis)
    elif kind == "Slice":
        starts, ends, steps = [], [], []
        for dim in dims:
            low = int(graph.random.integers(0, max(1, dim // 4)))
            starts.append(low), ends.append(int(graph.random.integers(low + 1, dim + 1))), steps.append(int(pick(graph, 1, 1, 2)))
        graph.add(kind, x, *(graph.constant(part, np.int64) for part in (starts, ends, list(range(rank)), steps)))
    elif kind == "Pad":
        pads = [int(value) for value in graph.random.integers(0, 4, 2 * rank)]
        mode = pick(graph, "constant", "edge", "reflect")
        pads = [min(value, dims[i % rank] - 1) for i, value in enumerate(pads)]
        graph.add(kind, graph.input(dims), graph.constant(pads, np.int64), mode=mode)
    elif kind == "Expand":
        graph.add(kind, graph.input(dims[:axis] + [1] + dims[axis + 1 :], element, 0, 100), graph.constant(dims, np.int64))
    elif kind == "Tile":
        small = [max(1, dim // 2) if i == axis else dim for i, dim in enumerate(dims)]
        graph.add(kind, graph.input(small, element, 0, 100), graph.constant([2 if i == axis else 1 for i in range(rank)], np.int64))
    elif kind == "Split":
        first = max(1, dims[axis] // 3)
        if first == dims[axis]:
            graph.add("Neg" if element != np.uint8 else "Identity", x)
        else:
            graph.add(kind, x, graph.constant([first, dims[axis] - first], np.int64), axis=axis, outputs=2)
    elif kind == "Gather":
        graph.add(kind, x, graph.input([size(graph, 1, 512)], np.int64, 0, dims[axis]), axis=axis)
    elif kind == "GatherElements":
        graph.add(kind, x, graph.input(dims, np.int64, 0, dims[axis]), axis=axis)
    elif kind == "GatherND":
        graph.add(kind, x, graph.input([size(graph, 64, 8192), 1], np.int64, 0, dims[0]))
    elif kind == "Space":
        b = int(pick(graph, 2, 4))
        x = graph.input([int(pick(graph, 1, 4)), 16 * size(graph, 1, 8), 8 * size(graph, 2, 16), 8 * size(graph, 2, 16)])
        graph.add(*((["DepthToSpace"], ["SpaceToDepth"])[int(pick(graph, 0, 1))]), x, blocksize=b)
    elif kind == "Flip":
        graph.add("Slice", x, *(graph.constant([value], np.int64) for value in (-1, -(1 << 40), axis, -1)))
    else:
        if dims[axis] < 2:
            graph.add("Identity", x)
            return
        half = dims[axis] // 2
        first = graph.add("Slice", x, *(graph.constant([value], np.int64) for value in (half, 1 << 40, axis)))
        second = graph.add("Slice", x, *(graph.constant([value], np.int64) for value in (0, half, axis)))
        graph.add("Concat", first, second, axis=axis)


def picture(graph):
    kind = pick(graph, "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize", "Resize", "GridSample", "LpPool")
    batch, channels = int(pick(graph, 1, 1, 4)), size(graph, 1, 256)
    extent = [size(graph, 8, 160) for _ in range(2)]
    while batch * channels * math.prod(extent) > MOST // 4:
        batch, channels = 1, max(1, channels // 2)
    x = graph.input([batch, channels] + extent)
    if kind in ("MaxPool", "AveragePool", "LpPool"):
        kernel, stride = int(pick(graph, 2, 3, 5, 7)), int(pick(graph, 1, 2))
        graph.add(kind, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)
    elif kind.startswith("Global"):
        graph.add(kind, x)
    elif kind == "Resize":
        scale = pick(graph, [2.0, 2.0], [0.5, 0.5], [1.7, 1.3])
        mode = pick(graph, "nearest", "linear", "cubic")
        way = pick(graph, "half_pixel", "asymmetric", "align_corners")
        extra = {"nearest_mode": "floor"} if mode == "nearest" else {}
        graph.add(kind, x, "", graph.constant([1.0, 1.0] + scale), mode=mode, coordinate_transformation_mode=way, **extra)
    else:
        graph.add(kind, x, graph.input([batch] + [size(graph, 8, 160) for _ in range(2)] + [2]), mode=pick(graph, "linear", "nearest"), padding_mode=pick(graph, "zeros", "border"))


def selection(graph):
    kind = pick(graph, "TopK", "TopK", "CumSum", "NonZero", "OneHot", "ScatterElements", "ScatterND", "Trilu", "Where", "Unique")
    rank = int(pick(graph, 1, 2, 3))
    dims = dims_of(graph, rank, MOST // 2)
    axis = int(graph.random.integers(rank))
    if kind == "TopK":
        k = min(dims[axis], int(pick(graph, 1, 5, 50, 300, dims[axis])))
        graph.add(kind, graph.input(dims), graph.constant([k], np.int64), axis=axis, largest=int(pick(graph, 0, 1)), outputs=2)
    elif kind == "CumSum":
        graph.add(kind, graph.input(dims, pick(graph, np.float32, np.int64), 0, 9), graph.constant(axis, np.int64), reverse=int(pick(graph, 0, 1)), exclusive=int(pick(graph, 0, 1)))
    elif kind == "NonZero":
        graph.add(kind, graph.input(dims, np.bool_))
    elif kind == "OneHot":
        graph.add(kind, graph.input([size(graph, 64, 4096)], np.int64, 0, 900), graph.constant([900], np.int64), graph.constant([0.0, 1.0]), axis=int(pick(graph, 0, 1)))
    elif kind == "ScatterElements":
        part = [dim if i == axis else max(1, dim // 2) for i, dim in enumerate(dims)]
        reduction = pick(graph, "none", "add", "max")
        indices = np.argsort(graph.random.random(part), axis=axis)
        graph.add(kind, graph.input(dims), graph.constant(indices, np.int64), graph.input(part), axis=axis, reduction=str(reduction))
    elif kind == "ScatterND":
        count = size(graph, 1, dims[0])
        indices = graph.random.permutation(dims[0])[:count, None]
        graph.add(kind, graph.input(dims), graph.constant(indices, np.int64), graph.input([count] + dims[1:]), reduction=str(pick(graph, "none", "add")))
    elif kind == "Trilu":
        graph.add(kind, graph.input(dims if rank > 1 else [1024, 1024]), upper=int(pick(graph, 0, 1)))
    elif kind == "Where":
        graph.add(kind, graph.input(dims, np.bool_), graph.input(dims), graph.input([1] * rank))
    else:
        graph.add("Unique", graph.input([size(graph, 1000, 200000)], np.int64, 0, 5000), outputs=4, sorted=1)


def elementwise(graph):
    rank = int(pick(graph, 1, 2, 3, 4))
    dims = dims_of(graph, rank)
    other = [dim if pick(graph, 0, 1) else 1 for dim in dims]
    if pick(graph, 0, 1):
        kind = pick(graph, "Add", "Mul", "Div", "Pow", "Max", "Mod", "Less", "Equal", "PRelu")
        element = pick(graph, np.float32, np.float32, np.int64, np.float16, np.float64)
        element = np.float32 if kind in ("Pow", "PRelu") else np.int64 if kind == "Mod" else element
        graph.add(kind, graph.input(dims, element, 1, 9), graph.input(other, element, 1, 9))
    else:
        kind = pick(graph, "Exp", "Log", "Sqrt", "Erf", "Tanh", "Sigmoid", "Sin", "Cos", "Atan", "Asinh", "Acosh", "Atanh", "Sinh", "Softplus", "Mish", "Elu", "Selu", "Gelu", "Round", "Sign", "Tan", "Acos", "Softsign", "Reciprocal", "HardSwish")
        low, high = (1.1, 9) if kind == "Acosh" else (0.05, 0.9)
        graph.add(kind, graph.input(dims, np.float32, low, high))


def recurrent(graph):
    kind, gates = pick(graph, ("LSTM", 4), ("GRU", 3), ("RNN", 1))
    length, batch = size(graph, 8, 256), int(pick(graph, 1, 1, 8, 32))
    wide, hidden = size(graph, 16, 512), size(graph, 16, 256)
    ways = int(pick(graph, 1, 2))
    x = graph.input([length, batch, wide])
    w, r = graph.weight([ways, gates * hidden, wide], 0.05), graph.weight([ways, gates * hidden, hidden], 0.05)
    graph.add(kind, x, w, r, graph.weight([ways, 2 * gates * hidden], 0.1), hidden_size=hidden, direction="bidirectional" if ways == 2 else "forward", outputs=2, **({"linear_before_reset": int(pick(graph, 0, 1))} if kind == "GRU" else {}))


def quantized(graph):
    kind = pick(graph, "qdq_conv", "qdq_matmul", "dynamic", "MatMulInteger")
    scale, zero = graph.constant(0.02), graph.constant(128, np.uint8)
    signed, none = graph.constant(0.01), graph.constant(0, np.int8)
    if kind == "qdq_conv":
        channels, filters, extent = size(graph, 8, 128), size(graph, 8, 128), size(graph, 8, 64)
        x = graph.add("DequantizeLinear", graph.add("QuantizeLinear", graph.input([1, channels, extent, extent]), scale, zero), scale, zero)
        w = graph.add("DequantizeLinear", graph.constant(graph.random.integers(-127, 127, [filters, channels, 3, 3]), np.int8), signed, none)
        y = graph.add("Relu", graph.add("Conv", x, w, pads=[1, 1, 1, 1]))
        graph.add("DequantizeLinear", graph.add("QuantizeLinear", y, scale, zero), scale, zero)
        return
    m, n, k = size(graph, 1, 512), size(graph, 16, 1024), size(graph, 16, 1024)
    weights = graph.constant(graph.random.integers(-127, 127, [k, n]), np.int8)
    if kind == "qdq_matmul":
        x = graph.add("DequantizeLinear", graph.add("QuantizeLinear", graph.input([m, k]), scale, zero), scale, zero)
        y = graph.add("MatMul", x, graph.add("DequantizeLinear", weights, signed, none))
        graph.add("DequantizeLinear", graph.add("QuantizeLinear", y, graph.constant(0.1), zero), graph.constant(0.1), zero)
    elif kind == "dynamic":
        q, s, z = graph.add("DynamicQuantizeLinear", graph.input([m, k]), outputs=3)
        y = graph.add("Cast", graph.add("MatMulInteger", q, weights, z), to=1)
        graph.add("Mul", y, graph.add("Mul", s, signed))
    else:
        graph.add("MatMulInteger", graph.input([m, k], np.uint8, 0, 255), weights, zero)


# How often each kind is drawn.
WEIGHTS = {conv: 5, conv_transpose: 1, product: 3, attention: 1, reduction: 2, normalization: 2, movement: 2, picture: 2, selection: 2, elementwise: 1,
           recurrent: 1, quantized: 1}
