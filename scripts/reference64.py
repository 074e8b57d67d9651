#!/usr/bin/env python3
"""Evaluates an ONNX model in float64, with the model's own float32 weights and constants: the oracle for errors.

Relies on onnx's reference evaluator, which is independent of Tenon and of ONNX Runtime. Replaced are convolution and the
error function, because its own take minutes, LSTM, because its own has one direction, and Gather, because its own
forgets dims.
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
        if x.ndim == 3:
            row = self._run(x[:, :, None], w[:, :, None], b, auto_pad, [1, *(dilations or [1])], group, None,
                            [0, pads[0], 0, pads[1]] if pads else None, [1, *(strides or [1])])
            return (row[0][:, :, 0],)
        if x.ndim != 4 or auto_pad not in (None, "NOTSET"):
            raise NotImplementedError("only 1-D and 2-D convolution with explicit padding")
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


class LSTM(OpRun):
    """In one or both directions, with the usual activations and without lengths and peepholes."""

    def _run(self, x, w, r, b=None, sequence_lens=None, initial_h=None, initial_c=None, p=None, direction="forward",
             hidden_size=None, layout=0, **others):
        if layout or p is not None or sequence_lens is not None or direction == "reverse" or \
                any(value is not None for name, value in others.items() if name != "input_forget"):
            raise NotImplementedError("only LSTMs without lengths, peepholes and activations of their own")
        batch, width = x.shape[1], r.shape[2]
        results = np.zeros((len(x), len(w), batch, width), x.dtype)
        hidden = np.zeros((len(w), batch, width), x.dtype) if initial_h is None else initial_h.copy()
        cell = np.zeros((len(w), batch, width), x.dtype) if initial_c is None else initial_c.copy()
        for i in range(len(w)):
            bias = 0 if b is None else b[i, :4 * width] + b[i, 4 * width:]
            for t in range(len(x)) if i == 0 else reversed(range(len(x))):
                gates = x[t] @ w[i].T + hidden[i] @ r[i].T + bias
                enters, leaves, stays, new = np.split(gates, 4, axis=1)
                cell[i] = cell[i] / (1 + np.exp(-stays)) + np.tanh(new) / (1 + np.exp(-enters))
                hidden[i] = np.tanh(cell[i]) / (1 + np.exp(-leaves))
                results[t, i] = hidden[i]
        return results, hidden, cell


class Gather(OpRun):
    """With the dims of x also where nothing is taken."""

    def _run(self, x, indices, axis=None):
        return (np.take(x, indices.astype(np.int64), axis or 0),)


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
        if node.op_type == "ConstantOfShape" and not node.attribute:
            node.attribute.append(onnx.helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
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
    evaluator = ReferenceEvaluator(model, new_ops=[Conv, Erf, Gather, Gelu, LSTM])
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
