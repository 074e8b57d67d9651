#!/usr/bin/env python3
"""Evaluates an ONNX model in float64, with the model's own float32 weights and constants: the oracle for errors.

Relies on onnx's reference evaluator, which is independent of Tenon and of ONNX Runtime; only convolution and the error
function are replaced, because its own take minutes.
"""

import argparse
import math
import pathlib
import time

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

ERF = np.frompyfunc(math.erf, 1, 1)


class Erf(OpRun):
    def _run(self, x):
        return (ERF(x).astype(x.dtype),)


class Gelu(OpRun):
    def _run(self, x, approximate="none"):
        if approximate == "tanh":
            return (0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),)
        return (0.5 * x * (1 + ERF(x / math.sqrt(2)).astype(x.dtype)),)


class Conv(OpRun):
    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None,
             pads=None, strides=None):
        if x.ndim != 4 or auto_pad not in (None, "NOTSET"):
            raise NotImplementedError("only 2-D convolution with explicit padding")
        dilations, strides, pads = dilations or [1, 1], strides or [1, 1], pads or [0, 0, 0, 0]
        group = group or 1
        padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
        size = [(padded.shape[2 + i] - dilations[i] * (w.shape[2 + i] - 1) - 1) // strides[i] + 1
                for i in range(2)]
        batch, outputs = x.shape[0], w.shape[0]
        kernel = w.reshape(group, outputs // group, w.shape[1], *w.shape[2:])
        total = np.zeros((batch, group, outputs // group, size[0] * size[1]), x.dtype)
        for row in range(w.shape[2]):
            for column in range(w.shape[3]):
                top, left = row * dilations[0], column * dilations[1]
                part = padded[:, :, top:top + strides[0] * (size[0] - 1) + 1:strides[0],
                              left:left + strides[1] * (size[1] - 1) + 1:strides[1]]
                part = part.reshape(batch, group, w.shape[1], size[0] * size[1])
                total += kernel[..., row, column] @ part
        total = total.reshape(batch, outputs, *size)
        return (total if b is None else total + b[:, None, None],)


def widened(tensor):
    if tensor.data_type != TensorProto.FLOAT:
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)


def widen_graph(graph):
    """Every float32 tensor and type of the graph becomes float64; the values stay those of float32."""
    for index, tensor in enumerate(graph.initializer):
        graph.initializer[index].CopyFrom(widened(tensor))
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                attribute.t.CopyFrom(widened(attribute.t))
            elif attribute.HasField("g"):
                widen_graph(attribute.g)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE


def evaluate(model, inputs):
    """Outputs by name, floats in float64; the model is changed."""
    widen_graph(model.graph)
    evaluator = ReferenceEvaluator(model, new_ops=[Conv, Erf, Gelu])
    wide = {name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in inputs.items()}
    return dict(zip(evaluator.output_names, evaluator.run(None, wide)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--inputs", type=pathlib.Path, required=True)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    start = time.time()
    outputs = evaluate(onnx.load(str(options.model)), dict(np.load(options.inputs)))
    np.savez(options.output, **outputs)
    for name, array in outputs.items():
        print(f"{name}: {array.dtype} {array.shape}, {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
