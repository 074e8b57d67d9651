"""Writes TensorFlow Lite models: tensors with their quantization, operators with their options, by FlatBuffers' own builder.

Tables are lists of (field number, kind, value); fields have the numbers of the format.
"""

import flatbuffers
import numpy as np

OPERATORS = {"ADD": 0, "AVERAGE_POOL_2D": 1, "CONCATENATION": 2, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 4, "DEQUANTIZE": 6, "FLOOR": 8, "FULLY_CONNECTED": 9, "L2_NORMALIZATION": 11, "LOGISTIC": 14,
             "MAX_POOL_2D": 17, "MUL": 18, "RELU": 19, "RELU_N1_TO_1": 20, "RELU6": 21, "RESHAPE": 22, "RESIZE_BILINEAR": 23, "SOFTMAX": 25, "TANH": 28, "CUSTOM": 32, "PAD": 34, "GATHER": 36,
             "TRANSPOSE": 39, "MEAN": 40, "SUB": 41, "DIV": 42, "SQUEEZE": 43, "UNIDIRECTIONAL_SEQUENCE_LSTM": 44, "STRIDED_SLICE": 45, "EXP": 47, "SPLIT": 49, "CAST": 53, "PRELU": 54, "MAXIMUM": 55, "ARG_MAX": 56,
             "MINIMUM": 57, "LESS": 58, "NEG": 59, "PADV2": 60, "SLICE": 65, "SIN": 66, "TRANSPOSE_CONV": 67, "EXPAND_DIMS": 70, "LOG": 73, "SUM": 74, "SQRT": 75, "RSQRT": 76, "SHAPE": 77, "REDUCE_MAX": 82,
             "PACK": 83, "UNPACK": 88, "SQUARE": 92, "RESIZE_NEAREST_NEIGHBOR": 97, "LEAKY_RELU": 98, "SQUARED_DIFFERENCE": 99, "MIRROR_PAD": 100, "ABS": 101, "SPLIT_V": 102, "ELU": 111, "QUANTIZE": 114,
             "HARD_SWISH": 117, "WHILE": 119, "BATCH_MATMUL": 126, "CALL_ONCE": 129, "BROADCAST_TO": 130, "VAR_HANDLE": 142, "READ_VARIABLE": 143, "ASSIGN_VARIABLE": 144, "GELU": 150}  # fmt: skip
TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int32): 2, np.dtype(np.uint8): 3, np.dtype(np.int64): 4, np.dtype(np.bool_): 6, np.dtype(np.int16): 7, np.dtype(np.int8): 9}
RESOURCE = 13
SAME, VALID = 0, 1


def conv(padding=SAME, stride=(1, 1), activation=0, dilation=(1, 1)):
    return 1, [(0, "i8", padding), (1, "i32", stride[1]), (2, "i32", stride[0]), (3, "i8", activation), (4, "i32", dilation[1]), (5, "i32", dilation[0])]


def depthwise(padding=SAME, stride=(1, 1), activation=0, dilation=(1, 1), multiplier=1):
    return 2, [(0, "i8", padding), (1, "i32", stride[1]), (2, "i32", stride[0]), (3, "i32", multiplier), (4, "i8", activation), (5, "i32", dilation[1]), (6, "i32", dilation[0])]


def pool(kernel, padding=SAME, stride=(1, 1), activation=0):
    return 5, [(0, "i8", padding), (1, "i32", stride[1]), (2, "i32", stride[0]), (3, "i32", kernel[1]), (4, "i32", kernel[0]), (5, "i8", activation)]


def dense(activation=0, keeps=False):
    return 8, [(0, "i8", activation), (2, "bool", keeps)]


def arithmetic(op, activation=0):
    return {"ADD": 11, "MUL": 21, "SUB": 28, "DIV": 29}[op], [(0, "i8", activation)]


SLOTS = {"i8": "PrependInt8Slot", "i32": "PrependInt32Slot", "u32": "PrependUint32Slot", "u8": "PrependUint8Slot", "bool": "PrependBoolSlot", "f32": "PrependFloat32Slot"}


class Lite:
    """A model under construction. A tensor is its number in the graph that is being built."""

    def __init__(self):
        self.buffers, self.codes, self.graphs = [b""], [], []
        self.begin()

    def begin(self):
        """Another graph."""
        self.tensors, self.ops = [], []

    def tensor(self, name, shape, dtype=np.int8, scale=None, zero=0, data=None, dim=0):
        buffer = 0
        if data is not None:
            self.buffers.append(np.ascontiguousarray(data).tobytes())
            buffer = len(self.buffers) - 1
        kind = dtype if isinstance(dtype, int) else TYPES[np.dtype(dtype)]
        self.tensors.append({"name": name, "shape": list(shape), "type": kind, "buffer": buffer, "scale": None if scale is None else np.atleast_1d(np.float32(scale)), "zero": np.atleast_1d(np.int64(zero)), "dim": dim})  # fmt: skip
        return len(self.tensors) - 1

    def constant(self, name, data, scale=None, zero=0, dim=0):
        data = np.asarray(data)
        return self.tensor(name, data.shape, data.dtype, scale, zero, data, dim)

    def op(self, name, inputs, outputs, options=None, custom=None):
        code = (OPERATORS[name] if isinstance(name, str) else name, custom)
        if code not in self.codes:
            self.codes.append(code)
        self.ops.append((self.codes.index(code), list(inputs), list(outputs), options))

    def end(self, inputs, outputs):
        self.graphs.append((self.tensors, self.ops, list(inputs), list(outputs)))

    def table(self, fields):
        count = max([number for number, _, _ in fields], default=-1) + 1
        self.b.StartObject(count)
        for number, kind, value in fields:
            if kind == "offset":
                self.b.PrependUOffsetTRelativeSlot(number, value, 0)
            else:
                getattr(self.b, SLOTS[kind])(number, value, None)
        return self.b.EndObject()

    def offsets(self, tables):
        self.b.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            self.b.PrependUOffsetTRelative(table)
        return self.b.EndVector()

    def vector(self, values, dtype):
        return self.b.CreateNumpyVector(np.asarray(values, dtype))

    def bytes(self, version=3):
        self.b = b = flatbuffers.Builder(1024)
        buffers = []
        for data in self.buffers:
            vector = [(0, "offset", b.CreateNumpyVector(np.frombuffer(data, np.uint8)))] if data else []
            buffers.append(self.table(vector))
        graphs = []
        for tensors, ops, inputs, outputs in self.graphs:
            made = []
            for t in tensors:
                fields = [(0, "offset", self.vector(t["shape"], np.int32)), (1, "i8", t["type"]), (2, "u32", t["buffer"]), (3, "offset", b.CreateString(t["name"]))]
                if t["scale"] is not None:
                    quantization = [(2, "offset", self.vector(t["scale"], np.float32)), (3, "offset", self.vector(t["zero"], np.int64)), (6, "i32", t["dim"])]
                    fields.append((4, "offset", self.table(quantization)))
                made.append(self.table(fields))
            calls = []
            for code, ins, outs, options in ops:
                fields = [(0, "u32", code), (1, "offset", self.vector(ins, np.int32)), (2, "offset", self.vector(outs, np.int32))]
                if options:
                    texts = [(number, "offset", b.CreateString(value)) if kind == "text" else (number, kind, value) for number, kind, value in options[1]]
                    fields += [(3, "u8", options[0]), (4, "offset", self.table(texts))]
                calls.append(self.table(fields))
            graphs.append(self.table([(0, "offset", self.offsets(made)), (1, "offset", self.vector(inputs, np.int32)), (2, "offset", self.vector(outputs, np.int32)), (3, "offset", self.offsets(calls))]))
        codes = []
        for code, custom in self.codes:
            fields = [(0, "i8", min(code, 127)), (3, "i32", code)]
            codes.append(self.table(fields + ([(1, "offset", b.CreateString(custom))] if custom else [])))
        model = self.table([(0, "u32", version), (1, "offset", self.offsets(codes)), (2, "offset", self.offsets(graphs)), (4, "offset", self.offsets(buffers))])
        b.Finish(model, file_identifier=b"TFL3")
        return bytes(b.Output())
