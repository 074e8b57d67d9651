#!/usr/bin/env python3
"""Writes the weightless graph of one decode step of a Llama-3.2-1B-shaped model: a token in, logits and the cache out.

Relies on onnx only. Attention sees a static cache of 2,048 positions, of which those up to `position_ids` are filled.
"""

import argparse
import pathlib
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fill import LOCATION

OPSET = 23


@dataclass(frozen=True)
class Shape:
    vocabulary: int = 128256
    width: int = 2048
    inner: int = 8192
    layers: int = 16
    heads: int = 32
    key_heads: int = 8
    head: int = 64
    cache: int = 2048
    theta: float = 500000.0
    epsilon: float = 1e-5

    def frequencies(self):
        return self.theta ** (-np.arange(0, self.head, 2) / self.head)


class Graph:
    """Nodes and weights in the order in which they are asked for; every value has a name that says what it is."""

    def __init__(self):
        self.nodes, self.weights = [], []

    def op(self, kind, inputs, name, outputs=1, **attributes):
        names = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=name, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, name, values, dtype=np.int64):
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weight(self, name, dims, scale, center=0.0):
        """A tensor that is generated where the model runs (models/README.md)."""
        tensor = TensorProto(name=name, dims=dims, data_type=TensorProto.FLOAT,
                             data_location=TensorProto.EXTERNAL)
        for key, value in (("location", LOCATION), ("scale", f"{scale:.4g}"), ("center", f"{center:.4g}")):
            tensor.external_data.add(key=key, value=value)
        self.weights.append(tensor)
        return name

    def linear(self, x, name, inputs, outputs, gain=1.0):
        """x times a matrix of variance gain² / inputs, stored as [inputs, outputs]."""
        weight = self.weight(f"{name}.weight", [inputs, outputs], gain * (3 / inputs) ** 0.5)
        return self.op("MatMul", [x, weight], name)

    def norm(self, x, name, shape):
        weight = self.weight(f"{name}.weight", [shape.width], 0.17, 1.0)
        return self.op("RMSNormalization", [x, weight], name, axis=-1, epsilon=shape.epsilon)


def add_attention(graph, x, name, cache, shape):
    """Appends the token's key and value to the cache and attends to all positions up to it."""
    key, value = cache
    q = graph.linear(x, f"{name}.q_proj", shape.width, shape.heads * shape.head)
    k = graph.linear(x, f"{name}.k_proj", shape.width, shape.key_heads * shape.head)
    v = graph.linear(x, f"{name}.v_proj", shape.width, shape.key_heads * shape.head)
    parts = {}
    for part, y in (("q", q), ("k", k), ("v", v)):
        split = graph.op("Reshape", [y, "query_dims" if part == "q" else "key_dims"], f"{name}.{part}_split")
        parts[part] = graph.op("Transpose", [split], f"{name}.{part}_heads", perm=[0, 2, 1, 3])
    for part in "qk":
        parts[part] = graph.op("RotaryEmbedding", [parts[part], "cosines", "sines"], f"{name}.{part}_rotated")
    dims = graph.op("Shape", [parts["k"]], f"{name}.k_shape")
    rows = graph.op("Expand", ["position", dims], f"{name}.rows")
    filled = [graph.op("ScatterElements", [past, rows, parts[part]], past.replace("past", "present"), axis=2)
              for past, part in ((key, "k"), (value, "v"))]
    attended = graph.op("Attention", [parts["q"], *filled, "seen"], f"{name}.attended")
    merged = graph.op("Transpose", [attended], f"{name}.merged", perm=[0, 2, 1, 3])
    flat = graph.op("Reshape", [merged, "token_dims"], f"{name}.flat")
    return graph.linear(flat, f"{name}.o_proj", shape.heads * shape.head, shape.width, 0.4)


def add_mlp(graph, x, name, shape):
    gate = graph.linear(x, f"{name}.gate_proj", shape.width, shape.inner)
    up = graph.linear(x, f"{name}.up_proj", shape.width, shape.inner)
    sigmoid = graph.op("Sigmoid", [gate], f"{name}.sigmoid")
    silu = graph.op("Mul", [gate, sigmoid], f"{name}.silu")
    inner = graph.op("Mul", [silu, up], f"{name}.inner")
    return graph.linear(inner, f"{name}.down_proj", shape.inner, shape.width, 0.4)


def add_positions(graph, shape):
    """Cosines and sines of the token's position, and which positions of the cache it sees."""
    graph.constant("token_dims", [0, 1, shape.heads * shape.head])
    graph.constant("query_dims", [0, 1, shape.heads, shape.head])
    graph.constant("key_dims", [0, 1, shape.key_heads, shape.head])
    frequencies = graph.constant("frequencies", shape.frequencies(), np.float32)
    four = graph.constant("row_dims", [0, 1, 1, 1])
    three = graph.constant("angle_dims", [0, 1, 1])
    graph.op("Reshape", ["position_ids", four], "position")
    number = graph.op("Cast", ["position_ids"], "position_number", to=TensorProto.FLOAT)
    column = graph.op("Reshape", [number, three], "position_column")
    angles = graph.op("Mul", [column, frequencies], "angles")
    graph.op("Cos", [angles], "cosines")
    graph.op("Sin", [angles], "sines")
    first, step = graph.constant("first", 0), graph.constant("step", 1)
    rows = graph.op("Range", [first, graph.constant("cache_rows", shape.cache), step], "cache_positions")
    graph.op("LessOrEqual", [rows, "position"], "seen")


def build(shape):
    graph = Graph()
    add_positions(graph, shape)
    table = graph.weight("model.embed_tokens.weight", [shape.vocabulary, shape.width], (3 / shape.width) ** 0.5)
    x = graph.op("Gather", [table, "input_ids"], "embedded")
    dims = ["batch", shape.key_heads, shape.cache, shape.head]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", 1]) for name in ("input_ids", "position_ids")]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1, shape.vocabulary])]
    for layer in range(shape.layers):
        name, cache = f"model.layers.{layer}", [f"past_{part}_{layer}" for part in ("key", "value")]
        for past in cache:
            inputs.append(helper.make_tensor_value_info(past, TensorProto.FLOAT, dims))
            outputs.append(helper.make_tensor_value_info(past.replace("past", "present"), TensorProto.FLOAT, dims))
        normed = graph.norm(x, f"{name}.input_layernorm", shape)
        x = graph.op("Add", [x, add_attention(graph, normed, f"{name}.self_attn", cache, shape)], f"{name}.attention_sum")
        normed = graph.norm(x, f"{name}.post_attention_layernorm", shape)
        x = graph.op("Add", [x, add_mlp(graph, normed, f"{name}.mlp", shape)], f"{name}.mlp_sum")
    x = graph.norm(x, "model.norm", shape)
    head = graph.op("Transpose", [table], "lm_head.weight", perm=[1, 0])
    graph.op("MatMul", [x, head], "logits")
    model = helper.make_model(helper.make_graph(graph.nodes, "llama_decode", inputs, outputs, graph.weights),
                              opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    limits = f'{{"input_ids": {shape.vocabulary - 1}, "position_ids": {shape.cache - 1}}}'
    helper.set_model_props(model, {"input_limits": limits})
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048, help="of the model; with fewer heads and a smaller vocabulary for tests")
    options = parser.parse_args()
    part = Shape.width // options.width
    shape = Shape(layers=options.layers, width=options.width, inner=Shape.inner // part, heads=Shape.heads // part,
                  key_heads=max(1, Shape.key_heads // part), vocabulary=Shape.vocabulary // part)
    model = build(shape)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    onnx.save(model, str(options.output))
    print(f"{options.output}: {options.output.stat().st_size / 1024:.0f} KiB, {len(model.graph.node)} nodes")


if __name__ == "__main__":
    main()
