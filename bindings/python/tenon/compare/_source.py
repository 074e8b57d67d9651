"""The model that is compared, and its inputs: the same in every process, by seeds."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from typing import Any, Dict, List, NamedTuple, Sequence

from .. import _errors

SEED = 0
EXPECTED = "make_model() gives a torch.nn.Module and make_inputs() a tuple of tensors, or make_model() gives both as a pair"


class Source(NamedTuple):
    kind: str  # "module", "pt2" or "onnx"
    path: str
    module: Any  # of the kinds module and pt2, where torch is there
    inputs: Sequence[Any]  # torch tensors, or numpy arrays in the order of an ONNX file's inputs
    names: List[str]  # of an ONNX file's inputs


def kind_of(model: str) -> str:
    if re.search(r"\.py:\w+$", model):
        return "module"
    for kind in ("onnx", "pt2"):
        if model.endswith("." + kind):
            return kind
    raise _errors.usage("TN0105", f"'{model}' is no model to compare", "give model.py:make_model, a .onnx or a .pt2 file")


def load(model: str, shapes: Sequence[str] = ()) -> Source:
    kind = kind_of(model)
    path = model.rsplit(":", 1)[0] if kind == "module" else model
    if not os.path.exists(path):
        raise _errors.usage("TN0101", f"there is no file '{path}'", "check the path")
    if kind == "onnx":
        inputs = seeded_inputs(path, shapes)
        return Source(kind, path, None, list(inputs.values()), list(inputs))
    if shapes:
        raise _errors.usage("TN0105", "--shape is for ONNX files", "the example inputs of a PyTorch model have its shapes")
    return _pt2(path) if kind == "pt2" else _module(path, model.rsplit(":", 1)[1])


def _pt2(path: str) -> Source:
    import torch

    program = torch.export.load(path)
    if program.example_inputs is None or program.example_inputs[1]:
        raise _errors.usage("TN0105", f"'{path}' has no example inputs by position", "export it with a tuple of inputs")
    return Source("pt2", path, program.module(), program.example_inputs[0], [])


def _module(path: str, function: str) -> Source:
    import torch

    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("tenon_compared_model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(SEED)
    make = getattr(module, function, None)
    if not callable(make):
        raise _errors.usage("TN0105", f"{path} has no function {function}", EXPECTED)
    made = make()
    if isinstance(made, tuple) and len(made) == 2:
        model, inputs = made
    elif callable(getattr(module, "make_inputs", None)):
        model, inputs = made, module.make_inputs()
    else:
        model, inputs = made, None
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    if not isinstance(model, torch.nn.Module) or not isinstance(inputs, (tuple, list)):
        raise _errors.usage("TN0105", f"{path}:{function} gives no module with inputs", EXPECTED)
    return Source("module", path, model.eval(), tuple(inputs), [])


def seeded_inputs(path: str, shapes: Sequence[str]) -> Dict[str, Any]:
    """Values for the inputs of an ONNX file: floats in [-1, 1), integers 0 or 1; dims that vary are 1, or as `shapes` says."""
    import numpy as np

    from .. import _compile

    stated = dict(shape.split(":", 1) for shape in shapes)
    generator, values = np.random.default_rng(SEED), {}
    for entry in _compile.inspect(path)["inputs"]:
        dtype, dims = re.fullmatch(r"(\w+) \[(.*)\]", entry["type"]).groups()
        sizes = [int(dim) if dim.strip().isdigit() else 1 for dim in dims.split(",") if dim.strip()]
        sizes = [int(dim) for dim in stated.pop(entry["name"]).split("x")] if entry["name"] in stated else sizes
        values[entry["name"]] = _values(generator, dtype, sizes)
    if stated:
        raise _errors.usage("TN0105", f"the model has no input '{next(iter(stated))}'", f"it has {', '.join(values)}")
    return values


def _values(generator, dtype: str, sizes: List[int]):
    import numpy as np

    types = {"f": "float", "i": "int", "ui": "uint", "u": "uint", "float": "float", "int": "int", "uint": "uint"}
    # A model that Tenon supports for some sizes only is told in ONNX's words.
    letters, bits = re.fullmatch(r"([a-z]+)(\d*)", {"float": "float32", "double": "float64"}.get(dtype, dtype)).groups()
    if dtype in ("i1", "bool"):
        return generator.integers(0, 2, sizes).astype(bool)
    if letters not in types:
        raise _errors.usage("TN0105", f"an input is of type {dtype}, which numpy lacks", "compare it as a PyTorch model")
    if types[letters] == "float":
        return generator.uniform(-1, 1, sizes).astype(f"float{bits}")
    return generator.integers(0, 2, sizes).astype(np.dtype(f"{types[letters]}{bits}"))
