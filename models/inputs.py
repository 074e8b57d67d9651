#!/usr/bin/env python3
"""Writes seeded inputs for a model as an npz: pictures, noise, identifiers in range, masks with zeros at the tail.

Relies on onnx and numpy, and for integer inputs on the model's metadata "input_limits" (largest value by input name).
"""

import argparse
import json
import pathlib

import numpy as np
import onnx


def pictures(shape, generator):
    """Random patches of several sizes over fine noise, mean 0 and deviation 1.

    Plain noise would look the same to a net that pools over the whole picture.
    """
    batch, channels, height, width = shape
    total = generator.standard_normal(shape, np.float32)
    for patches in (1, 4, 16):
        coarse = generator.standard_normal((batch, channels, patches, patches), np.float32)
        rows, columns = -(-height // patches), -(-width // patches)
        total += coarse.repeat(rows, 2).repeat(columns, 3)[:, :, :height, :width]
    return total / np.float32(2)


def tail_mask(shape, generator):
    """Ones, then zeros from a position in the last half of each row; the first row stays full."""
    mask = np.ones(shape, np.int64)
    for row in range(1, shape[0]):
        mask[row, generator.integers(shape[1] // 2 + 1, shape[1] + 1):] = 0
    return mask


def make_inputs(model, sizes, seed=0):
    """Arrays by input name; sizes gives the extent of each symbolic dimension."""
    limits = json.loads({p.key: p.value for p in model.metadata_props}.get("input_limits", "{}"))
    generator = np.random.default_rng(seed)
    arrays = {}
    for value in model.graph.input:
        tensor_type = value.type.tensor_type
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor_type.shape.dim]
        if tensor_type.elem_type == onnx.TensorProto.FLOAT:
            is_picture = len(shape) == 4
            arrays[value.name] = pictures(shape, generator) if is_picture else generator.standard_normal(shape, np.float32)
        elif value.name.endswith("mask"):
            arrays[value.name] = tail_mask(shape, generator)
        else:
            arrays[value.name] = generator.integers(0, limits[value.name], shape, np.int64, endpoint=True)
    return arrays


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model = onnx.load(str(options.model), load_external_data=False)
    sizes = {"batch": options.batch, "sequence": options.sequence}
    arrays = make_inputs(model, sizes, options.seed)
    np.savez(options.output, **arrays)
    print(", ".join(f"{name} {a.dtype} {'x'.join(map(str, a.shape))}" for name, a in arrays.items()))


if __name__ == "__main__":
    main()
