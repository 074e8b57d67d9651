"""Turns an exported ONNX model into a weightless graph: large float tensors become recipes for models/fill.py.

Relies on the torch model having had sensible random weights: each recipe keeps the mean and spread of the values it replaces.
"""

import numpy as np
import onnx
from onnx import numpy_helper

from fill import LOCATION, WIDTHS

INLINE_ELEMENTS = 64


def recipe_for(name, array):
    """Scale and center of a uniform distribution with the array's moments.

    Refuses what is structure rather than weight (masks, tables of -inf): such values must not be replaced.
    """
    x = array.astype(np.float64)
    mean, deviation = x.mean(), x.std()
    if not np.isfinite(x).all() or np.abs(x - mean).max() > 8 * deviation:
        raise ValueError(f"{name}: does not look like a weight (mean {mean}, deviation {deviation})")
    if abs(mean) < 0.1 * deviation:
        mean = 0.0
    return float(f"{deviation * 3**0.5:.4g}"), float(f"{mean:.4g}")


def is_weight(tensor):
    count = int(np.prod(tensor.dims, dtype=np.int64))
    return tensor.data_type in WIDTHS and count > INLINE_ELEMENTS


def make_weightless(tensor, array):
    scale, center = recipe_for(tensor.name, array)
    for field in ("raw_data", "float_data", "double_data", "int32_data", "external_data"):
        tensor.ClearField(field)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", LOCATION), ("scale", scale), ("center", center)):
        tensor.external_data.add(key=key, value=str(value))


def strip_text(graph):
    """Drops stack traces and exporter notes, which are most of a weightless file."""
    for part in (graph, *graph.node, *graph.initializer, *graph.value_info, *graph.input,
                 *graph.output):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    for node in graph.node:
        for attribute in node.attribute:
            attribute.ClearField("doc_string")
            if attribute.HasField("g"):
                strip_text(attribute.g)


def weightless(path, properties):
    """The weightless ModelProto of the model in path, with the given metadata."""
    model = onnx.load(str(path), load_external_data=True)
    strip_text(model.graph)
    model.ClearField("doc_string")
    model.ClearField("metadata_props")
    onnx.helper.set_model_props(model, properties)
    for tensor in model.graph.initializer:
        if is_weight(tensor):
            make_weightless(tensor, numpy_helper.to_array(tensor))
    return model
