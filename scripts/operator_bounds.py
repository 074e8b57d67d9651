#!/usr/bin/env python3
"""Every operator at large sizes against its bound: the bytes it must move and the operations it must do, by what this machine reaches.

    scripts/operator_bounds.py --tenon build/dev/bin/tenon --target cpu -o cpu.json [--threads 2] [--only conv]
    scripts/operator_bounds.py --page cpu.json h200.json > docs/measurements/operators.md

A case is a graph of one operator, in onnx's text form. The bandwidth is what `Add` of large tensors reaches in the same run,
the peak what a large `MatMul` reaches. Sizes are such that a launch counts for little.
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import onnx
import onnx.parser
import onnx.shape_inference

LIMIT = 4.0  # times the bound
BYTES = {"float": 4, "float16": 2, "double": 8, "int64": 8, "int32": 4, "int8": 1, "uint8": 1, "bool": 1}
NUMPY = {v: k for k, v in {"float": onnx.TensorProto.FLOAT, "float16": onnx.TensorProto.FLOAT16, "double": onnx.TensorProto.DOUBLE,
                           "int64": onnx.TensorProto.INT64, "int32": onnx.TensorProto.INT32, "int8": onnx.TensorProto.INT8,
                           "uint8": onnx.TensorProto.UINT8, "bool": onnx.TensorProto.BOOL}.items()}


class Case:
    """`inputs` are parameters in onnx's text, `F` standing for the model's float; `outputs` likewise. `flops` counts a multiplication and
    an addition as two; `moved` says the bytes where they are not those of all inputs and outputs."""

    def __init__(self, name, inputs, outputs, nodes, flops=0, moved=None, fills=()):
        self.name, self.inputs, self.outputs, self.nodes = name, inputs, outputs, nodes
        self.flops, self.moved, self.fills = flops, moved, fills

    def model(self, element):
        text = (f'<ir_version: 8, opset_import: ["" : 21]> case ({self.inputs}) => ({self.outputs}) {{ {self.nodes} }}')
        model = onnx.parser.parse_model(re.sub(r"\bF\b", element, text))
        onnx.checker.check_model(model)
        return model

    def bytes(self, model):
        if self.moved is not None:
            return self.moved
        total = 0
        for value in [*model.graph.input, *model.graph.output]:
            kind = value.type.tensor_type
            total += BYTES[NUMPY[kind.elem_type]] * math.prod(dim.dim_value for dim in kind.shape.dim)
        return total


def constant(name, values):
    return f"{name} = Constant <value_ints = {list(values)}> ()"


def elementwise():
    shape = "[4096,2048]"
    for op in ("Abs Neg Exp Log Sqrt Reciprocal Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Ceil Floor Round Sign Relu "
               "Sigmoid Softplus LeakyRelu Elu HardSigmoid HardSwish").split():
        yield Case(op, f"F{shape} x", f"F{shape} y", f"y = {op}(x)", fills=("x:0.1..0.9",))
    for op in "Add Sub Mul Div Pow Max Min".split():
        yield Case(op, f"F{shape} a, F{shape} b", f"F{shape} y", f"y = {op}(a, b)", fills=("a:0.1..0.9",))
    yield Case("Add of a row", f"F{shape} a, F[2048] b", f"F{shape} y", "y = Add(a, b)")
    yield Case("Add of a column", f"F{shape} a, F[4096,1] b", f"F{shape} y", "y = Add(a, b)")
    yield Case("Mul, odd width", "F[1357,5001] a, F[1357,5001] b", "F[1357,5001] y", "y = Mul(a, b)")
    yield Case("Where", f"bool{shape} c, F{shape} a, F{shape} b", f"F{shape} y", "y = Where(c, a, b)")
    yield Case("Less", f"F{shape} a, F{shape} b", f"bool{shape} y", "y = Less(a, b)")
    yield Case("And", f"bool{shape} a, bool{shape} b", f"bool{shape} y", "y = And(a, b)")
    yield Case("IsNaN", f"F{shape} a", f"bool{shape} y", "y = IsNaN(a)")
    yield Case("Mod of integers", f"int32{shape} a, int32{shape} b", f"int32{shape} y", "y = Mod(a, b)", fills=("a:1..90", "b:1..9"))
    yield Case("Cast to int32", f"F{shape} a", f"int32{shape} y", "y = Cast <to = 6> (a)")
    yield Case("Cast to uint8", f"int32{shape} a", f"uint8{shape} y", "y = Cast <to = 2> (a)")


def movement():
    yield Case("Transpose 2-D", "F[4096,2048] x", "F[2048,4096] y", "y = Transpose <perm = [1, 0]> (x)")
    yield Case("Transpose 2-D, odd", "F[4097,2049] x", "F[2049,4097] y", "y = Transpose <perm = [1, 0]> (x)")
    yield Case("Transpose 0213", "F[16,512,16,64] x", "F[16,16,512,64] y", "y = Transpose <perm = [0, 2, 1, 3]> (x)")
    yield Case("Transpose to channels last", "F[16,64,112,112] x", "F[16,112,112,64] y", "y = Transpose <perm = [0, 2, 3, 1]> (x)")
    yield Case("Transpose reversed", "F[128,128,128,4] x", "F[4,128,128,128] y", "y = Transpose <perm = [3, 2, 1, 0]> (x)")
    yield Case("Concat inner", "F[4096,1000] a, F[4096,1048] b", "F[4096,2048] y", "y = Concat <axis = 1> (a, b)")
    yield Case("Concat outer", "F[2000,2048] a, F[2096,2048] b", "F[4096,2048] y", "y = Concat <axis = 0> (a, b)")
    yield Case("Slice", "F[4096,4096] x", "F[4000,2000] y",
               " ".join([constant("s", [7, 9]), constant("e", [4007, 2009]), constant("a", [0, 1]), "y = Slice(x, s, e, a)"]))
    yield Case("Slice by steps", "F[4096,4096] x", "F[4096,2048] y",
               " ".join([constant("s", [0]), constant("e", [4096]), constant("a", [1]), constant("t", [2]), "y = Slice(x, s, e, a, t)"]))
    yield Case("Slice backwards", "F[4096,2048] x", "F[4096,2048] y",
               " ".join([constant("s", [-1]), constant("e", [-4096]), constant("a", [1]), constant("t", [-1]), "y = Slice(x, s, e, a, t)"]))
    yield Case("Pad", "F[64,64,110,110] x", "F[64,64,112,112] y", " ".join([constant("p", [0, 0, 1, 1, 0, 0, 1, 1]), "y = Pad(x, p)"]))
    yield Case("Pad reflect", "F[64,64,110,110] x", "F[64,64,112,112] y",
               " ".join([constant("p", [0, 0, 1, 1, 0, 0, 1, 1]), 'y = Pad <mode = "reflect"> (x, p)']))
    yield Case("Expand", "F[4096,1] x", "F[4096,2048] y", " ".join([constant("s", [4096, 2048]), "y = Expand(x, s)"]))
    yield Case("Tile", "F[512,1024] x", "F[4096,2048] y", " ".join([constant("s", [8, 2]), "y = Tile(x, s)"]))
    yield Case("Split", "F[4096,2048] x", "F[4096,1024] y, F[4096,1024] z", "y, z = Split <axis = 1, num_outputs = 2> (x)")
    yield Case("DepthToSpace", "F[16,256,64,64] x", "F[16,64,128,128] y", "y = DepthToSpace <blocksize = 2> (x)")
    yield Case("Gather of rows", "F[50257,768] x, int64[8192] i", "F[8192,768] y", "y = Gather(x, i)", moved=(2 * 8192 * 768 * 4 + 8192 * 8),
               fills=("i:0..50256",))
    yield Case("Gather of columns", "F[4096,2048] x, int64[1024] i", "F[4096,1024] y", "y = Gather <axis = 1> (x, i)", fills=("i:0..2047",))
    yield Case("GatherElements", "F[4096,2048] x, int64[4096,2048] i", "F[4096,2048] y", "y = GatherElements <axis = 1> (x, i)", fills=("i:0..2047",))
    yield Case("GatherND", "F[512,512,64] x, int64[65536,2] i", "F[65536,64] y", "y = GatherND(x, i)", moved=2 * 65536 * 64 * 4 + 65536 * 16,
               fills=("i:0..511",))
    yield Case("ScatterElements", "F[4096,2048] x, int64[4096,512] i, F[4096,512] u", "F[4096,2048] y", "y = ScatterElements <axis = 1> (x, i, u)",
               fills=("i:0..2047",))
    yield Case("ScatterElements add", "F[4096,2048] x, int64[4096,512] i, F[4096,512] u", "F[4096,2048] y",
               'y = ScatterElements <axis = 1, reduction = "add"> (x, i, u)', fills=("i:0..2047",))
    yield Case("ScatterElements add, axis 0", "F[4096,512] x, int64[16384,512] i, F[16384,512] u", "F[4096,512] y",
               'y = ScatterElements <axis = 0, reduction = "add"> (x, i, u)', fills=("i:0..4095",))
    yield Case("ScatterND", "F[65536,64] x, int64[32768,1] i, F[32768,64] u", "F[65536,64] y", "y = ScatterND(x, i, u)", fills=("i:0..65535",))
    yield Case("ScatterND add", "F[65536,64] x, int64[32768,1] i, F[32768,64] u", "F[65536,64] y", 'y = ScatterND <reduction = "add"> (x, i, u)',
               fills=("i:0..65535",))
    yield Case("OneHot", "int64[8192] i", "float[8192,1000] y", "d = Constant <value_ints = [1000]> () v = Constant <value_floats = [0.0, 1.0]> () "
               "y = OneHot(i, d, v)", fills=("i:0..999",))
    yield Case("Trilu", "F[16,1024,1024] x", "F[16,1024,1024] y", "y = Trilu <upper = 0> (x)")
    yield Case("Resize nearest", "F[16,64,64,64] x", "F[16,64,128,128] y",
               's = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () y = Resize <mode = "nearest"> (x, , s)')
    yield Case("Resize linear", "F[16,64,64,64] x", "F[16,64,128,128] y",
               's = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () y = Resize <mode = "linear"> (x, , s)')
    yield Case("Resize cubic", "F[8,64,64,64] x", "F[8,64,128,128] y",
               's = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () y = Resize <mode = "cubic"> (x, , s)', flops=2 * 25 * 8 * 64 * 128 * 128)
    yield Case("GridSample", "F[4,64,128,128] x, F[4,128,128,2] g", "F[4,64,128,128] y", "y = GridSample(x, g)")


def reductions():
    for label, shape, axes, result in (("last", "4096,2048", [1], "4096,1"), ("axis 0", "4096,2048", [0], "1,2048"),
                                       ("middle", "64,512,256", [1], "64,1,256"), ("0 and 2", "64,512,256", [0, 2], "1,512,1"),
                                       ("all", "8388608", [0], "1"), ("odd width", "1357,5001", [1], "1357,1"),
                                       ("spatial", "32,256,28,28", [2, 3], "32,256,1,1")):
        for op in ("ReduceSum", "ReduceMax", "ReduceMean"):
            yield Case(f"{op} {label}", f"F[{shape}] x", f"F[{result}] y", f"{constant('a', axes)} y = {op}(x, a)")
    yield Case("ReduceL2 last", "F[4096,2048] x", "F[4096,1] y", f"{constant('a', [1])} y = ReduceL2(x, a)")
    yield Case("ReduceLogSumExp last", "F[4096,2048] x", "F[4096,1] y", f"{constant('a', [1])} y = ReduceLogSumExp(x, a)")
    yield Case("ReduceProd axis 0", "F[4096,2048] x", "F[1,2048] y", f"{constant('a', [0])} y = ReduceProd(x, a)")
    yield Case("ArgMax last", "F[4096,2048] x", "int64[4096,1] y", "y = ArgMax <axis = 1> (x)")
    yield Case("ArgMax axis 0", "F[4096,2048] x", "int64[1,2048] y", "y = ArgMax <axis = 0> (x)")
    yield Case("ArgMax of one row", "F[1,4194304] x", "int64[1,1] y", "y = ArgMax <axis = 1> (x)")
    for label, shape, axis in (("last", "4096,2048", 1), ("axis 0", "4096,2048", 0), ("middle", "64,512,256", 1), ("vocabulary", "256,50257", 1),
                               ("short", "131072,64", 1), ("197", "12288,197", 1)):
        yield Case(f"Softmax {label}", f"F[{shape}] x", f"F[{shape}] y", f"y = Softmax <axis = {axis}> (x)")
    yield Case("LogSoftmax vocabulary", "F[256,50257] x", "F[256,50257] y", "y = LogSoftmax <axis = 1> (x)")
    yield Case("LayerNormalization", "F[8192,1024] x, F[1024] s, F[1024] b", "F[8192,1024] y", "y = LayerNormalization <axis = 1> (x, s, b)")
    yield Case("LayerNormalization of 197 by 768", "F[64,197,768] x, F[768] s, F[768] b", "F[64,197,768] y", "y = LayerNormalization <axis = 2> (x, s, b)")
    yield Case("InstanceNormalization", "F[16,64,112,112] x, F[64] s, F[64] b", "F[16,64,112,112] y", "y = InstanceNormalization(x, s, b)")
    yield Case("GroupNormalization", "F[8,256,64,64] x, F[256] s, F[256] b", "F[8,256,64,64] y", "y = GroupNormalization <num_groups = 32> (x, s, b)")
    yield Case("BatchNormalization", "F[16,64,112,112] x, F[64] s, F[64] b, F[64] m, F[64] v", "F[16,64,112,112] y",
               "y = BatchNormalization(x, s, b, m, v)", fills=("v:0.5..1",))
    yield Case("LpNormalization", "F[4096,2048] x", "F[4096,2048] y", "y = LpNormalization <axis = 1, p = 2> (x)")


def selections():
    for label, shape, axis in (("256 rows", "256,8192", 1), ("axis 0", "8192,256", 0), ("one row", "1,2097152", 1), ("short rows", "65536,32", 1)):
        yield Case(f"CumSum {label}", f"F[{shape}] x", f"F[{shape}] y", f"a = Constant <value_int = {axis}> () y = CumSum(x, a)")
    for rows, width, k in ((64, 32000, 1), (64, 32000, 5), (64, 32000, 50), (1, 1000000, 100), (4096, 1024, 8), (16, 8400, 8400)):
        yield Case(f"TopK {k} of {width}, {rows} rows", f"F[{rows},{width}] x", f"F[{rows},{k}] v, int64[{rows},{k}] i",
                   f"{constant('k', [k])} v, i = TopK <axis = 1> (x, k)")
    yield Case("NonZero", "bool[1048576] x", "int64[1,n] y", "y = NonZero(x)", moved=1048576 * 9)


def conv_flops(out, per_output):
    return 2 * math.prod(out) * per_output


def products():
    for label, m, n, k in (("square", 2048, 2048, 2048), ("tall", 16384, 256, 256), ("narrow, 8 columns", 16384, 8, 512), ("1 row", 1, 4096, 4096),
                           ("7 rows", 7, 4096, 4096), ("odd", 1000, 1001, 997), ("deep", 64, 64, 65536)):
        yield Case(f"MatMul {label}", f"F[{m},{k}] a, F[{k},{n}] b", f"F[{m},{n}] y", "y = MatMul(a, b)", flops=2 * m * n * k)
    yield Case("MatMul batched", "F[96,128,64] a, F[96,64,128] b", "F[96,128,128] y", "y = MatMul(a, b)", flops=2 * 96 * 128 * 128 * 64)
    yield Case("MatMul by vectors", "F[64,1,512] a, F[64,512,512] b", "F[64,1,512] y", "y = MatMul(a, b)", flops=2 * 64 * 512 * 512)
    yield Case("Gemm transposed", "F[1024,512] a, F[1024,512] b, F[512] c", "F[512,512] y", "y = Gemm <transA = 1> (a, b, c)", flops=2 * 512 * 512 * 1024)

    def conv(name, x, w, out, attributes="", op="Conv", per=None):
        text = lambda dims: ",".join(map(str, dims))  # noqa: E731
        per = per if per is not None else math.prod(w[1:])
        count = out if op == "Conv" else x
        return Case(name, f"F[{text(x)}] x, F[{text(w)}] w", f"F[{text(out)}] y", f"y = {op} <{attributes}> (x, w)" if attributes else f"y = {op}(x, w)",
                    flops=conv_flops(count, per))

    yield conv("Conv 3x3", (4, 64, 56, 56), (64, 64, 3, 3), (4, 64, 56, 56), "pads = [1, 1, 1, 1]")
    yield conv("Conv 3x3 strided", (4, 64, 56, 56), (128, 64, 3, 3), (4, 128, 28, 28), "pads = [1, 1, 1, 1], strides = [2, 2]")
    yield conv("Conv 1x1", (4, 256, 28, 28), (256, 256, 1, 1), (4, 256, 28, 28))
    yield conv("Conv stem 7x7", (4, 3, 224, 224), (64, 3, 7, 7), (4, 64, 112, 112), "pads = [3, 3, 3, 3], strides = [2, 2]")
    yield conv("Conv dilated 12", (1, 256, 65, 65), (256, 256, 3, 3), (1, 256, 65, 65), "pads = [12, 12, 12, 12], dilations = [12, 12]")
    yield conv("Conv grouped, 4 a group", (4, 128, 56, 56), (128, 4, 3, 3), (4, 128, 56, 56), "pads = [1, 1, 1, 1], group = 32")
    yield conv("Conv grouped, 16 a group", (4, 256, 28, 28), (256, 16, 3, 3), (4, 256, 28, 28), "pads = [1, 1, 1, 1], group = 16")
    yield conv("Conv grouped, 24 a group", (4, 240, 28, 28), (240, 24, 3, 3), (4, 240, 28, 28), "pads = [1, 1, 1, 1], group = 10")
    yield conv("Conv depthwise 3x3", (4, 256, 56, 56), (256, 1, 3, 3), (4, 256, 56, 56), "pads = [1, 1, 1, 1], group = 256")
    yield conv("Conv depthwise 7x7", (4, 256, 56, 56), (256, 1, 7, 7), (4, 256, 56, 56), "pads = [3, 3, 3, 3], group = 256")
    yield conv("Conv depthwise 1-D", (4, 512, 2048), (512, 1, 9), (4, 512, 2048), "pads = [4, 4], group = 512")
    yield conv("Conv 1-D", (4, 128, 2048), (128, 128, 3), (4, 128, 2048), "pads = [1, 1]")
    yield conv("Conv 3-D", (1, 64, 16, 56, 56), (64, 64, 3, 3, 3), (1, 64, 16, 56, 56), "pads = [1, 1, 1, 1, 1, 1]")
    yield conv("Conv 5 to 7 channels", (4, 5, 128, 128), (7, 5, 3, 3), (4, 7, 128, 128), "pads = [1, 1, 1, 1]")
    yield conv("ConvTranspose 2x2", (4, 128, 28, 28), (128, 64, 2, 2), (4, 64, 56, 56), "strides = [2, 2]", "ConvTranspose", 64 * 4)
    yield conv("ConvTranspose 4x4", (4, 128, 28, 28), (128, 64, 4, 4), (4, 64, 56, 56), "strides = [2, 2], pads = [1, 1, 1, 1]", "ConvTranspose", 64 * 16)
    yield conv("ConvTranspose 3x3 grouped", (4, 128, 28, 28), (128, 4, 3, 3), (4, 128, 57, 57), "strides = [2, 2], group = 32", "ConvTranspose", 4 * 9)
    yield Case("MaxPool 3x3", "F[16,64,112,112] x", "F[16,64,56,56] y", "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)")
    yield Case("MaxPool with indices", "F[4,64,112,112] x", "F[4,64,56,56] y, int64[4,64,56,56] i", "y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)")
    yield Case("AveragePool 3x3", "F[16,64,112,112] x", "F[16,64,112,112] y", "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)")
    yield Case("GlobalAveragePool", "F[32,512,28,28] x", "F[32,512,1,1] y", "y = GlobalAveragePool(x)")
    heads, queries, keys, size = 12, 512, 512, 64
    yield Case("Attention", f"F[4,{heads},{queries},{size}] q, F[4,{heads},{size},{keys}] k, F[4,{heads},{keys},{size}] v", f"F[4,{heads},{queries},{size}] y",
               "s = MatMul(q, k) c = Constant <value_float = 0.125> () d = CastLike(c, q) t = Mul(s, d) p = Softmax <axis = 3> (t) y = MatMul(p, v)",
               flops=4 * 4 * heads * queries * keys * size)
    yield Case("Attention, 4,096 keys", "F[1,8,256,64] q, F[1,8,64,4096] k, F[1,8,4096,64] v", "F[1,8,256,64] y",
               "s = MatMul(q, k) c = Constant <value_float = 0.125> () d = CastLike(c, q) t = Mul(s, d) p = Softmax <axis = 3> (t) y = MatMul(p, v)",
               flops=4 * 8 * 256 * 4096 * 64)


def quantized():
    yield Case("QuantizeLinear", "float[4096,2048] x", "uint8[4096,2048] y", "s = Constant <value_float = 0.01> () z = Constant <value = uint8 {128}> () y = QuantizeLinear(x, s, z)")
    yield Case("DequantizeLinear", "uint8[4096,2048] x", "float[4096,2048] y", "s = Constant <value_float = 0.01> () z = Constant <value = uint8 {128}> () y = DequantizeLinear(x, s, z)")
    yield Case("MatMulInteger", "uint8[1024,1024] a, int8[1024,1024] b", "int32[1024,1024] y", "y = MatMulInteger(a, b)", flops=2 * 1024 ** 3)
    yield Case("ConvInteger", "uint8[1,64,56,56] x, int8[64,64,3,3] w", "int32[1,64,56,56] y", "y = ConvInteger <pads = [1, 1, 1, 1]> (x, w)",
               flops=2 * 64 * 56 * 56 * 576)


def cases():
    for group in (elementwise, movement, reductions, selections, products, quantized):
        yield from group()


def say(text):
    print(f"operator_bounds: {text}", file=sys.stderr, flush=True)


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def measure(options):
    chosen = [case for case in cases() if re.search(options.only, case.name) or case.name in ("Add", "MatMul square")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def compile_case(numbered):
            number, case = numbered
            model = case.model(options.element)
            path = folder / f"{number}.onnx"
            onnx.save(model, path)
            command = [options.tenon, "compile", path, "-o", path.with_suffix(".tenon"), "--quiet", "--target", options.target]
            return case, model, path.with_suffix(".tenon"), run(command)

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            compiled = list(pool.map(compile_case, enumerate(chosen)))
        for case, model, engine, (status, _, error) in compiled:
            row = {"name": case.name, "flops": case.flops, "bytes": case.bytes(model) if status == 0 else 0}
            rows.append(row)
            if status:
                row["error"] = error.strip().splitlines()[0] if error.strip() else f"exit {status}"
                say(f"{case.name}: {row['error']}")
                continue
            command = [options.tenon, "bench", engine, "--regions", "--json", "--quiet", "--seconds", options.seconds]
            command += ["--threads", options.threads] if options.target.startswith("cpu") else ["--cold"]
            for fill in case.fills:
                command += ["--fill", fill]
            status, output, error = run(command)
            if status:
                row["error"] = error.strip().splitlines()[0] if error.strip() else f"exit {status}"
                say(f"{case.name}: {row['error']}")
                continue
            facts = json.loads(output)
            row["us"] = sum(region["time_us"] for region in facts["regions"])  # without the way of inputs to a GPU
            row["isa"] = facts.get("isa", "")
            say(f"{case.name}: {row['us']:.1f} us")
    find = {row["name"]: row for row in rows}
    bandwidth = find["Add"]["bytes"] / find["Add"]["us"]  # bytes a microsecond
    peak = find["MatMul square"]["flops"] / find["MatMul square"]["us"]
    for row in rows:
        if "us" in row:
            row["bound_us"] = max(row["bytes"] / bandwidth, row["flops"] / peak) + options.start
            row["times"] = row["us"] / row["bound_us"]
    result = {"target": options.target, "element": options.element, "threads": options.threads, "machine": options.machine,
              "gb_s": bandwidth / 1e3, "gflops": peak / 1e3, "rows": rows}
    pathlib.Path(options.output).write_text(json.dumps(result, indent=1))
    beyond = [row for row in rows if row.get("times", 0) > LIMIT or "error" in row]
    say(f"{len(rows)} cases, {bandwidth / 1e3:.0f} GB/s, {peak / 1e3:.0f} GFLOP/s; {len(beyond)} beyond {LIMIT:g} times the bound or without a result")
    for row in sorted(beyond, key=lambda each: -each.get("times", math.inf)):
        say(f"  {row['name']}: " + (row.get("error") or f"{row['times']:.1f}"))


def page(paths):
    runs = [json.loads(pathlib.Path(path).read_text()) for path in paths]
    print("# Operators at large sizes\n")
    print("Generated by `scripts/operator_bounds.py --page`. A row's number is its time over its bound: the larger of its bytes by the bandwidth of `Add`, "
          "and its operations by the rate of a large `MatMul`, both of the same run.\n")
    for each in runs:
        print(f"- {each['machine'] or each['target']}: {each['element']}, {each['gb_s']:.0f} GB/s, {each['gflops']:.0f} GFLOP/s")
    names = [row["name"] for row in runs[0]["rows"]]
    found = [{row["name"]: row for row in each["rows"]} for each in runs]
    beyond = [name for name in names if any(rows.get(name, {}).get("times", math.inf) > LIMIT for rows in found)]
    print(f"\nBeyond {LIMIT:g} times the bound somewhere, or without a result: {len(beyond)} of {len(names)}.\n")
    print("| operator | " + " | ".join(f"{each['target']} us | times" for each in runs) + " |")
    print("|---|" + "---|---|" * len(runs))
    for name in beyond + [name for name in names if name not in beyond]:
        cells = []
        for rows in found:
            row = rows.get(name, {})
            cells.append(f"{row['us']:.1f} | {row['times']:.1f}" if "times" in row else f"{row.get('error', 'not run')} | -")
        print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--element", default="float", help="of the models: float or float16")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--seconds", default="0.3s")
    parser.add_argument("--start", type=float, default=2.0, help="microseconds that any run takes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--machine", default="", help="what the page calls this machine")
    parser.add_argument("-o", "--output", default="operators.json")
    parser.add_argument("--page", nargs="+")
    options = parser.parse_args()
    page(options.page) if options.page else measure(options)


if __name__ == "__main__":
    main()
