"""Bad ONNX models: each class is one fault in a model that is right but for it."""

import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import Classes, field, varint

onnx_files = Classes("onnx")
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def name(rng):
    return "".join(rng.choice("abcdefgh") for _ in range(8))


def model(nodes, inputs=None, initializers=(), opset=17, outputs=("y",), functions=(), domains=()):
    inputs = {"x": [2, 3]} if inputs is None else inputs
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(key, *(dims if isinstance(dims, tuple) else (FLOAT, dims)))
         for key, dims in inputs.items()],
        [helper.make_tensor_value_info(key, FLOAT, None) for key in outputs], list(initializers))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def relu():
    return helper.make_node("Relu", ["x"], ["y"])


def good(rng):
    """A model of a few nodes with a weight, other for each draw."""
    rows, columns = rng.randrange(1, 6), rng.randrange(1, 6)
    weight = numpy_helper.from_array(np.arange(columns, dtype=np.float32), "w")
    body = rng.choice(["Add", "Mul", "Sub", "Div"])
    last = rng.choice(["Relu", "Sigmoid", "Tanh", "Exp"])
    return model([helper.make_node(body, ["x", "w"], ["t"]), helper.make_node(last, ["t"], ["y"])],
                 {"x": [rows, columns]}, [weight])


def one(op, inputs=("x",), outputs=("y",), shapes=None, opset=17, initializers=(), **attributes):
    return model([helper.make_node(op, list(inputs), list(outputs), **attributes)], shapes, initializers,
                 opset).SerializeToString()


def wire(fields=b"", graph=b"", node=b"", tensor=b""):
    """A good model as bytes with more fields at the end of the file, the graph, its node or its weight."""
    weight = field(1, 3) + field(2, 1) + field(8, "w") + field(9, bytes(12)) + tensor
    body = field(1, field(1, "x") + field(1, "w") + field(2, "y") + field(4, "Add") + node) + field(2, "g")
    value = lambda key: field(1, key) + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 2)) + field(1, field(1, 3)))))
    body += field(5, weight) + field(11, value("x")) + field(12, value("y")) + graph
    return field(1, 8) + field(7, body) + field(8, field(2, 17)) + fields


def anywhere(rng, extra):
    return wire(**{rng.choice(["fields", "graph", "node", "tensor"]): extra})


add = onnx_files.add
ANY_WIRE = tuple(f"TN02{number:02}" for number in range(1, 13))

# The file and its messages
add("model empty", "TN0201", 1)(lambda rng, n: b"")
add("model of one byte", "TN0202")(lambda rng, n: bytes([[0x08, 0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72, 0xA2, 0x82, 0xF2][n]]))
add("model cut off", "TN0202", 48)(lambda rng, n: wire()[:rng.randrange(5, len(wire()) - 6)])
add("model is text", ANY_WIRE)(lambda rng, n: (name(rng) + " is not a model\n").encode() * (n + 1))
add("model is noise", ANY_WIRE, 24)(lambda rng, n: rng.randbytes(1 << (n % 12)))
add("model is another format", ANY_WIRE)(
    lambda rng, n: [b"PK\x03\x04", b"\x89PNG\r\n\x1a\n", b"\x7fELF", b"\x93NUMPY", b"\x1f\x8b", b"TFL3"][n % 6] + rng.randbytes(50))
add("group begins", "TN0205")(lambda rng, n: anywhere(rng, varint(rng.randrange(16, 1000) << 3 | 3)))
add("group ends", "TN0205")(lambda rng, n: anywhere(rng, varint(rng.randrange(16, 1000) << 3 | 4)))
add("field zero", "TN0204")(lambda rng, n: anywhere(rng, bytes([rng.choice([0, 1, 2, 5])])))
add("wire type", "TN0204")(lambda rng, n: anywhere(rng, varint(rng.randrange(16, 1000) << 3 | 6 + n % 2)))
add("varint of many bytes", "TN0203")(lambda rng, n: anywhere(rng, varint(100 << 3) + b"\xff" * (10 + n) + b"\x01"))
add("varint of 65 bits", "TN0203")(lambda rng, n: anywhere(rng, varint(100 << 3) + b"\xff" * 9 + bytes([2 + n])))
add("length beyond the message", "TN0202")(
    lambda rng, n: anywhere(rng, varint(100 << 3 | 2) + varint(1 << rng.randrange(3, 63)) + b"ab"))
add("field twice", "TN0207")(
    lambda rng, n: [wire(fields=field(1, 8)), wire(fields=field(2, "a") * 2), wire(graph=field(2, "h")),
                    wire(node=field(4, "Mul")), wire(tensor=field(2, 1)), wire(tensor=field(8, "v"))][n % 6])
add("field of another wire type", "TN0206")(
    lambda rng, n: [wire(fields=field(7, 1)), wire(fields=field(8, 1)), wire(graph=field(1, 7)), wire(graph=field(5, 7)),
                    wire(node=field(1, 7)), wire(node=field(5, 7)), wire(tensor=field(9, 1)), wire(graph=field(11, 5)),
                    wire(graph=field(12, 5)), wire(fields=field(2, 5)), wire(fields=field(14, 5)), wire(fields=field(25, 5))][n])
add("part of a packed element", "TN0202")(
    lambda rng, n: wire(tensor=field([4, 10][n % 2], bytes([1] * (8 * n + 1 + n % 3)))))


@add("graphs nested too deeply", "TN0208")
def _(rng, n):
    inner = field(2, "g")
    for _ in range(25 + 40 * n):
        inner = field(1, field(4, "If") + field(5, field(1, "then_branch") + field(6, inner) + field(20, 5)))
    return field(1, 8) + field(7, inner) + field(8, field(2, 17))


add("too many nodes", "TN0210", 3)(lambda rng, n: wire(graph=field(1, field(4, "A")) * (131073 + n)))
add("too many values", "TN0210", 3)(lambda rng, n: wire(graph=field(13, b"") * ((1 << 20) + n)))
add("no graph", "TN0211")(lambda rng, n: field(1, 8) + field(8, field(2, 17)) + field(2, name(rng)))
add("no version", "TN0211")(lambda rng, n: field(7, field(2, name(rng))) + field(8, field(2, 17)))

# Versions, names, edges
add("opset is none", "TN0212")(
    lambda rng, n: one("Relu", opset=[0, -1, 1 << 31, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63), 1 << 32, -7, -1000,
                                      1 << 33, -(1 << 40)][n]))
add("opset twice", "TN0212")(lambda rng, n: wire(fields=field(8, field(2, 18 + n))))
add("opset missing", "TN0212")(lambda rng, n: field(1, 8) + field(7, field(1, field(4, "Relu") + field(2, name(rng)))))
add("opset of the future", "TN0213")(lambda rng, n: one("Relu", opset=rng.randrange(100, 1 << 30)))
add("name of 64 KiB", "TN0214")(
    lambda rng, n: model([helper.make_node("Relu", ["x"], ["z" * (65536 + n)]),
                          helper.make_node("Relu", ["z" * (65536 + n)], ["y"])]).SerializeToString())
add("name with a zero", "TN0214")(lambda rng, n: wire(node=field(2, name(rng) + "\0" + name(rng))))
add("input without a name", "TN0214")(lambda rng, n: one("Relu", shapes={"x": [2, n + 1], "": [3]}))
add("value defined twice", "TN0215")(
    lambda rng, n: model([[relu(), relu()], [helper.make_node("Relu", ["x"], ["x"])],
                          [helper.make_node("Split", ["x"], ["y", "y"], axis=0)]][n % 3],
                         {"x": [2, n + 1]}).SerializeToString())
add("weight defined twice", "TN0215")(
    lambda rng, n: model([relu()], None, [numpy_helper.from_array(np.zeros(n + 1, np.float32), "w")] * 2).SerializeToString())
add("value that nothing defines", "TN0216")(lambda rng, n: one("Add", ["x", name(rng)]))
add("output that nothing defines", "TN0216")(lambda rng, n: model([relu()], outputs=["y", name(rng)]).SerializeToString())
add("no outputs", "TN0216")(lambda rng, n: model([relu()], {"x": [n + 1]}, outputs=[]).SerializeToString())


@add("cycle", "TN0217")
def _(rng, n):
    names = [f"v{index}" for index in range(n + 1)]
    nodes = [helper.make_node("Relu", [names[index - 1]], [names[index]]) for index in range(n + 1)]
    return model(nodes + [helper.make_node("Relu", [names[0]], ["y"])]).SerializeToString()


@add("nodes out of order", "TN0217")
def _(rng, n):
    nodes = [helper.make_node("Relu", [f"v{index}"], [f"v{index + 1}"]) for index in range(1, n + 2)]
    nodes = [helper.make_node("Relu", ["x"], ["v1"])] + nodes + [helper.make_node("Relu", [f"v{n + 2}"], ["y"])]
    at = rng.randrange(len(nodes) - 1)
    nodes[at], nodes[at + 1] = nodes[at + 1], nodes[at]
    return model(nodes).SerializeToString()


add("too few inputs", "TN0218")(
    lambda rng, n: one(["Add", "MatMul", "Gemm", "Conv", "Gather", "Concat", "Where", "Pow", "Expand", "Tile", "Less",
                        "PRelu"][n], [] if n == 5 else ["x"], **({"axis": 0} if n == 5 else {})))
add("too few inputs for a shape", "TN0218")(
    lambda rng, n: one(["Reshape", "Slice", "Pad", "Resize", "TopK", "OneHot", "LSTM", "GRU", "RNN", "ScatterND", "GatherND",
                        "BatchNormalization"][n], [] if n in (2, 3) else ["x"]))
add("missing attribute", "TN0219")(
    lambda rng, n: one(*[("Concat", ["x", "x"]), ("Cast", ["x"]), ("LRN", ["x"]), ("MaxPool", ["x"]), ("AveragePool", ["x"]),
                         ("SpaceToDepth", ["x"]), ("DepthToSpace", ["x"]), ("LpPool", ["x"]), ("BitShift", ["x", "x"]),
                         ("Concat", ["x"]), ("Einsum", ["x"]), ("MaxUnpool", ["x", "x"])][n]))
add("attribute that the operator lacks", "TN0219")(
    lambda rng, n: one(["Relu", "Add", "Sigmoid", "Softmax", "MatMul", "Erf", "Sqrt", "Transpose", "Tanh", "Flatten", "Abs",
                        "Mul"][n], ["x", "x"] if n in (1, 4, 11) else ["x"], **{f"own{rng.randrange(99)}": n}))
add("too many inputs", "TN0218")(
    lambda rng, n: one(["Relu", "Add", "Sigmoid", "Softmax", "MatMul", "Erf", "Sqrt", "Transpose", "Tanh", "Flatten", "Not",
                        "Mul"][n], ["x"] * 9))
add("too many outputs", "TN0218")(
    lambda rng, n: one(["Relu", "Add", "Sigmoid", "Softmax", "MatMul", "Erf", "Sqrt", "Transpose", "Tanh", "Flatten", "Abs",
                        "Mul"][n], ["x", "x"] if n in (1, 4, 11) else ["x"], ["y", "z", "u"]))
add("domain not imported", "TN0221")(
    lambda rng, n: model([helper.make_node("Relu", ["x"], ["y"], domain=name(rng))]).SerializeToString())


def function(key, called):
    return helper.make_function("own", key, ["a"], ["b"], [helper.make_node(called, ["a"], ["b"], domain="own")],
                                [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)])


@add("functions that call each other in a ring", "TN0238")
def _(rng, n):
    ring = [function(f"f{index}", f"f{(index + 1) % (n + 1)}") for index in range(n + 1)]
    return model([helper.make_node("f0", ["x"], ["y"], domain="own")], functions=ring, domains=["own"]).SerializeToString()


@add("function twice", "TN0238")
def _(rng, n):
    made = helper.make_function("own", "f", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])],
                                [helper.make_opsetid("", 17)])
    return model([helper.make_node("f", ["x"], ["y"], domain="own")], functions=[made] * (n + 2),
                 domains=["own"]).SerializeToString()


# Attributes
add("attribute twice", "TN0220")(
    lambda rng, n: wire(node=(field(5, field(1, "axis") + field(3, n) + field(20, 2))) * 2))
add("attribute of another type", "TN0219")(
    lambda rng, n: one(["Softmax", "Concat", "Flatten", "LeakyRelu", "Elu", "Transpose"][n % 6],
                       **{["axis", "axis", "axis", "alpha", "alpha", "perm"][n % 6]: [1.5, name(rng), 0.5, 3, 2, 1][n % 6]}))
add("attribute missing", "TN0219")(
    lambda rng, n: one("Cast", shapes={"x": [2, n + 1]}))
add("attribute of an unknown type", "TN0219")(
    lambda rng, n: wire(node=field(5, field(1, "axis") + field(3, 1) + field(20, 15 + n))))
add("cast to nothing", "TN0219")(lambda rng, n: one("Cast", to=[0, -1, 99, 27, 1000, 1 << 31, 1 << 40, -5, 64, 77, 200, 28][n]))
AXIS = [2, -3, (1 << 63) - 1, -(1 << 63), 100, -100]
for op, kept in (("Softmax", 17), ("LogSoftmax", 17), ("Concat", 17), ("Flatten", 17), ("ArgMax", 17), ("ArgMin", 17),
                 ("Split", 17), ("ReduceMean", 13), ("ReduceMax", 13), ("Squeeze", 11), ("Unsqueeze", 11)):
    many = op[:2] in ("Re", "Sq", "Un")
    values = [value for value in AXIS if abs(value) > (3 if op in ("Flatten", "Unsqueeze") else 0)]
    add(f"axis of {op}", "TN0219", len(values))(
        lambda rng, n, op=op, many=many, kept=kept, values=values: one(
            op, opset=kept, **({"axes": [values[n]]} if many else {"axis": values[n]})))
add("axis of Gather", "TN0219", 6)(
    lambda rng, n: one("Gather", ["x", "i"], shapes={"x": [2, 3], "i": (INT64, [1])}, axis=AXIS[n]))
add("permutation", "TN0219")(
    lambda rng, n: one("Transpose", perm=[[0, 0], [1, 1], [0, 5], [-1, 0], [0], [0, 1, 2], [2, 1], [1 << 40, 0], [3, 3], [1, 2],
                                          [0, -2], [-7, -8]][n]))
BAD_SIZES = [0, -1, (1 << 63) - 1, -(1 << 63), -(1 << 31), -2]


def window(op, kernel=(2, 4, 3, 3), image=(1, 4, 5, 5), **attributes):
    inputs = {"x": list(image)}
    if op == "Conv":
        inputs["w"] = list(kernel)
    else:
        attributes.setdefault("kernel_shape", [3, 3])
    return one(op, list(inputs), shapes=inputs, **attributes)


for op in ("Conv", "MaxPool", "AveragePool"):
    add(f"strides of {op}", "TN0219")(lambda rng, n, op=op: window(op, strides=[1, BAD_SIZES[n % 6]][:: 1 - 2 * (n % 2)]))
    add(f"pads of {op}", "TN0219")(
        lambda rng, n, op=op: window(op, pads=[[0, 0], [0, 0, 0], [0, 0, -1, 0], [-(1 << 63), 0, 0, 0], [0, -7, 0, 0], [0]][n % 6]))
for op in ("Conv", "MaxPool"):
    add(f"dilations of {op}", "TN0219")(lambda rng, n, op=op: window(op, dilations=[BAD_SIZES[n % 6], 1][:: 1 - 2 * (n % 2)]))
add("group of Conv", "TN0219", 6)(lambda rng, n: window("Conv", group=BAD_SIZES[n]))
add("kernel shape of Conv", "TN0219")(
    lambda rng, n: window("Conv", kernel_shape=[[3, 4], [4, 3], [1, 1], [3], [3, 3, 3], [0, 0]][n % 6]))
add("kernel shape of a pool", "TN0219")(
    lambda rng, n: window(["MaxPool", "AveragePool"][n % 2], kernel_shape=[[0, 3], [-1, 3], [3], [3, 3, 3], [-(1 << 63), 1], [3, 0]][n // 2]))

# Shapes that contradict each other
add("channels of Conv", "TN0236")(lambda rng, n: window("Conv", (2, [3, 5, 1, 8][n % 4], 1 + n % 3, 3)))
add("kernel larger than its input", "TN0236")(lambda rng, n: window("Conv", (2, 4, 6 + n, 3)))
add("broadcast", "TN0236")(lambda rng, n: one(["Add", "Mul", "Sub", "Div"][n % 4], ["x", "w"], shapes={"x": [2, 3], "w": [4 + n]}))
add("product", "TN0236")(lambda rng, n: one("MatMul", ["x", "w"], shapes={"x": [2, 3], "w": [4 + n, 2]}))
add("product with transposition", "TN0236")(
    lambda rng, n: one("Gemm", ["x", "w"], shapes={"x": [2, 3], "w": [2, 4 + n]}, transB=1))
add("concatenation", "TN0236")(lambda rng, n: one("Concat", ["x", "w"], shapes={"x": [2, 3], "w": [2, 4 + n]}, axis=0))


def with_constant(op, values, kind=np.int64, inputs=("x", "c"), **attributes):
    return one(op, inputs, initializers=[numpy_helper.from_array(np.array(values, kind), "c")], **attributes)


add("reshape to another count", ("TN0236", "TN0219"))(lambda rng, n: with_constant("Reshape", [[7], [5, 2], [-1, 4], [-1, 5]][n % 4] + [1] * n))
add("reshape with two unknowns", ("TN0236", "TN0219"))(lambda rng, n: with_constant("Reshape", [-1, -1] + [1] * n))
add("reshape to a negative dim", ("TN0236", "TN0219"))(lambda rng, n: with_constant("Reshape", [-2 - n, 3]))
add("expand to another dim", "TN0236")(lambda rng, n: with_constant("Expand", [2, 4 + n]))
add("split sizes", ("TN0236", "TN0219"))(lambda rng, n: with_constant("Split", [1, 4 + n], axis=1, outputs=["y", "z"]))
add("slice with step zero", ("TN0219", "TN0236"))(
    lambda rng, n: model([helper.make_node("Slice", ["x", "a", "b", "c", "d"], ["y"])], {"x": [2, n + 1]},
                         [numpy_helper.from_array(np.array([value], np.int64), key)
                          for key, value in zip("abcd", (0, 1, n % 2, 0))]).SerializeToString())
add("squeeze of a dim that is not one", "TN0236")(lambda rng, n: with_constant("Squeeze", [n % 2]))
add("types that differ", "TN0236")(
    lambda rng, n: one("Add", ["x", "w"], shapes={"x": [2, 3], "w": ([INT64, 11, 10, 6][n % 4], [2, 3])}))

# Small models that ask for a lot
add("tile amplifies", ("TN0223", "TN0219", "TN0236", "TN0301"))(lambda rng, n: with_constant("Tile", [1 << (32 + n), 1 << 31]))
add("constant of any shape amplifies", ("TN0223", "TN0219", "TN0236", "TN0301"))(
    lambda rng, n: with_constant("ConstantOfShape", [1 << (32 + n), 1 << 31], inputs=["c"]))
add("expand amplifies", ("TN0223", "TN0219", "TN0236", "TN0301"))(lambda rng, n: with_constant("Expand", [1 << (31 + n), 1 << 31, 2, 3]))
add("negative dim of a constant of any shape", ("TN0219", "TN0236", "TN0222"))(
    lambda rng, n: with_constant("ConstantOfShape", [2, -1 - n], inputs=["c"]))
add("negative repeats", ("TN0219", "TN0236"))(lambda rng, n: with_constant("Tile", [1, -1 - n]))
add("resize by impossible scales", ("TN0219", "TN0236"))(
    lambda rng, n: one("Resize", ["x", "", "c"], shapes={"x": [1, 1, 4, 4]}, initializers=[numpy_helper.from_array(
        np.array([1, 1, 1, [0, -1, np.nan, np.inf, -np.inf, -1e30][n % 6]], np.float32), "c")]))
add("resize amplifies", ("TN0223", "TN0219", "TN0236", "TN0301"))(
    lambda rng, n: one("Resize", ["x", "", "c"], shapes={"x": [1, 1, 4, 4]}, initializers=[numpy_helper.from_array(
        np.array([1, 1, 1e18, 10.0 ** (18 + n)], np.float32), "c")]))
add("pads that leave nothing", ("TN0219", "TN0236"))(lambda rng, n: with_constant("Pad", [-3 - n, 0, 0, 0]))


# Tensors
def tensor(dims=(3,), kind=1, more=b"", raw=bytes(12)):
    weight = b"".join(field(1, dim) for dim in dims) + field(2, kind) + field(8, "w")
    weight += (b"" if raw is None else field(9, raw)) + more
    return around(weight)


def around(weight):
    value = lambda key: field(1, key) + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 2)) + field(1, field(1, 3)))))
    body = field(1, field(1, "x") + field(1, "w") + field(2, "y") + field(4, "Add")) + field(2, "g") + field(5, weight)
    return field(1, 8) + field(7, body + field(11, value("x")) + field(12, value("y"))) + field(8, field(2, 17))


add("negative dim", "TN0222")(lambda rng, n: tensor([-(1 << rng.randrange(63))]))
add("dims overflow", "TN0223")(lambda rng, n: tensor([(1 << 63) - 1 - n, rng.randrange(2, 1 << 40)]))
add("dims overflow together", "TN0223")(lambda rng, n: tensor([1 << 31, 1 << 31, 4 + n]))
add("rank", "TN0224")(lambda rng, n: tensor([1] * (33 + n * 1000)))
add("less data than dims", "TN0225")(lambda rng, n: tensor([4 + n]))
add("more data than dims", "TN0225")(lambda rng, n: tensor(raw=bytes(13 + n)))
add("large dims and little data", "TN0225")(lambda rng, n: tensor([1 << (30 + n)]))
add("no data", "TN0225")(lambda rng, n: tensor([1 + n], raw=None))
add("unknown data type", "TN0226")(lambda rng, n: tensor(kind=[0, 27, 99, 100, 1000, 1 << 31, -1, 64, 77, 200, 255, 28][n]))
add("raw and typed data", "TN0227")(lambda rng, n: tensor(more=field(4, bytes(12 if n % 2 else 4))))
add("data of another type", "TN0227")(lambda rng, n: tensor([1], kind=[1, 11, 7][n % 3], raw=None, more=field(5, n)))
add("element out of its type's range", "TN0227")(
    lambda rng, n: tensor([1], kind=[2, 3, 4, 5][n % 4], raw=None, more=field(5, [300, 300, 70000, 70000][n % 4] + n)))
add("tensor in segments", "TN0227")(lambda rng, n: tensor(more=field(3, field(1, n))))
add("bits beyond the last element", "TN0228")(
    lambda rng, n: tensor([3], kind=21 + n % 2, raw=bytes([0x11, (1 + n) << 4])))
add("truth value that is neither", "TN0228")(lambda rng, n: tensor([1], kind=9, raw=bytes([2 + n])))
add("negative dim of an input", "TN0222")(lambda rng, n: one("Relu", shapes={"x": [2, -1 - (1 << n)]}))
add("dims of an input overflow", "TN0223")(lambda rng, n: one("Relu", shapes={"x": [(1 << 63) - 1 - n, 1 << 20]}))
add("rank of an input", "TN0224")(lambda rng, n: one("Relu", shapes={"x": [1] * (33 + 50 * n)}))


# External data
def outside(folder):
    (folder.parent / "outside.bin").write_bytes(bytes(512))


def beside(folder):
    (folder / "data.bin").write_bytes(bytes(512))
    (folder / "inner").mkdir()
    (folder / "inner" / "data.bin").write_bytes(bytes(512))
    outside(folder)


def external(entries, place=beside, dims=(3,), more=b""):
    pairs = entries.items() if isinstance(entries, dict) else entries
    listed = b"".join(field(13, field(1, key) + field(2, value)) for key, value in pairs)
    return tensor(dims, raw=None, more=listed + field(14, 1) + more), place


def entry(make):
    """Beside the model there is `entry`, made by make(path)."""
    def place(folder):
        beside(folder)
        make(folder / "entry")
    return place


add("data outside of the folder", "TN0229")(
    lambda rng, n: external({"location": ["../" * (n // 3 + 1), "inner/../../", "./../"][n % 3] + "outside.bin"}))
add("absolute path of data", "TN0229")(
    lambda rng, n: external({"location": ["/etc/passwd", "/dev/zero", "/proc/self/mem", "//etc/hosts"][n % 4]}))
add("data through a link", "TN0229")(
    lambda rng, n: external({"location": "entry" + ("/data.bin" if n % 2 else "")},
                            entry(lambda path: path.symlink_to("inner" if n % 2 else ["data.bin", "/etc/passwd"][n // 2 % 2]))))
add("data without a place", "TN0229")(
    lambda rng, n: external({"location": ["", "data.bin\0", "\0", "x" * 5000][n % 4] + ("" if n % 4 == 0 else "y" * n)}))
add("data with two names", "TN0230")(lambda rng, n: external({"location": "entry"}, entry(lambda path: os.link(path.parent / "data.bin", path))))
add("data is a pipe", "TN0230")(lambda rng, n: external({"location": "entry"}, entry(os.mkfifo)))
add("data is a folder", "TN0230")(lambda rng, n: external({"location": ["inner", ".", "inner/."][n % 3]}))
add("data is not there", "TN0231")(lambda rng, n: external({"location": name(rng)}))
add("data beyond its file", "TN0232")(lambda rng, n: external({"location": "data.bin", "offset": str(501 + (1 << (5 * n)))}))
add("offset that is no number", "TN0232")(
    lambda rng, n: external({"location": "data.bin", "offset": ["-1", "1e3", "", " 4", "0x10", "4.0", "18446744073709551616",
                                                               "9" * 40, "+4", "4 ", "four", "--4"][n]}))
add("length that is no number", "TN0232")(
    lambda rng, n: external({"location": "data.bin", "length": ["-1", "1e3", "", " 4", "0x10", "4.0", "18446744073709551616",
                                                               "9" * 40, "+4", "4 ", "four", "--4"][n]}))
add("length of another tensor", "TN0225")(lambda rng, n: external({"location": "data.bin", "length": str(13 + n)}))
add("data larger than its file", "TN0232")(lambda rng, n: external({"location": "data.bin"}, dims=[200 + (1 << (4 * n))]))
add("unknown key of data", "TN0233")(lambda rng, n: external({"location": "data.bin", name(rng): "1"}))
add("key of data twice", "TN0233")(
    lambda rng, n: external([("location", "data.bin")] + [(["location", "offset", "length"][n % 3], "12")] * 2))
add("data in memory", "TN0234")(lambda rng, n: external({"location": f"*/_ORT_MEM_ADDR_/*{n}"}))
add("recipe of a seeded tensor", "TN0235")(
    lambda rng, n: external({"location": "tenon-seeded", **[{}, {"scale": "1"}, {"center": "0"}, {"scale": "-1", "center": "0"},
                                                            {"scale": "nan", "center": "0"}, {"scale": "x", "center": "0"}][n % 6]}))
add("raw and external data", ("TN0227",))(lambda rng, n: external({"location": "data.bin"}, more=field(9, bytes(12))))
