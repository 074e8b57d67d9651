"""PyTorch models as archives of torch.export, which the compiler reads. Relies on torch, which only this path needs."""

from __future__ import annotations

from typing import Any

from ._errors import UnsupportedError, usage


def save(model: Any, example_inputs: Any, dynamic_shapes: Any, path: str) -> None:
    """Writes a module or an ExportedProgram to `path`."""
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        program = model
    elif isinstance(model, torch.nn.Module):
        program = export(model, example_inputs, dynamic_shapes)
    else:
        raise usage(
            "TN0105", f"a model cannot be a {type(model).__name__}",
            "give a path, a torch.nn.Module or a torch.export.ExportedProgram",
        )  # fmt: skip
    torch.export.save(program, path)


def export(model: Any, example_inputs: Any, dynamic_shapes: Any):
    """The program of a module for inference."""
    import torch

    if example_inputs is None:
        raise usage("TN0105", "the module has no example inputs", "tenon.compile(module, (x,)) needs one call's inputs")
    if model.training:
        raise UnsupportedError(
            "TN0303: the module is in training mode, and Tenon compiles for inference (call model.eval() first)",
            "TN0303", "call model.eval() first",
        )  # fmt: skip
    args, kwargs = ((), dict(example_inputs)) if isinstance(example_inputs, dict) else (example_inputs, {})
    if isinstance(args, torch.Tensor):
        args = (args,)
    with torch.no_grad():
        return torch.export.export(model, tuple(args), kwargs, dynamic_shapes=dynamic_shapes, strict=False)
