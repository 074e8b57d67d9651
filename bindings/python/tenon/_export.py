"""PyTorch models as archives of torch.export, which the compiler reads. Relies on torch, which only this path needs."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from typing import Any, Optional, Sequence

from ._errors import Error, UnsupportedError, usage

FALLBACK = "compute it outside the model, or run it by torch.compile(model, backend='tenon', options={'fallback': True})"


def program_of(model: Any, example_inputs: Any, dynamic_shapes: Any):
    """The ExportedProgram of a module, or the one that is given."""
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return model
    if isinstance(model, torch.nn.Module):
        return export(model, example_inputs, dynamic_shapes)
    raise usage(
        "TN0105", f"a model cannot be a {type(model).__name__}", "give a path, a torch.nn.Module or a torch.export.ExportedProgram"
    )


def export(model: Any, example_inputs: Any, dynamic_shapes: Any):
    """The program of a module for inference."""
    import torch

    from ._torch_decompositions import functions

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
    _register_dataclasses((args, kwargs))
    hook = model.register_forward_hook(lambda module, given, result: _register_dataclasses(result))
    try:
        with torch.no_grad(), functions.Replaced():
            return torch.export.export(model, tuple(args), kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except Error:
        raise
    except Exception as error:  # torch has no class of its own for them
        raise _not_exported(error) from error
    finally:
        hook.remove()


# What modules raise for inputs that they do not take; torch has other classes for what tracing cannot do.
_OF_INPUTS = (TypeError, ValueError, RuntimeError, IndexError, KeyError, AttributeError, AssertionError, ArithmeticError, ZeroDivisionError)


def _not_exported(error: Exception) -> Error:
    from torch._dynamo.exc import UserError

    what = " ".join(str(error).split("\n\n")[0].split())[:500] or type(error).__name__
    if isinstance(error, UserError) and any(word in f"{error} {error.__cause__}" for word in ("dynamic_shapes", "Constraints violated")):
        return usage("TN0105", f"torch.export does not take these dynamic_shapes: {what}", "declare the dims as its message says")
    if type(error) in _OF_INPUTS:
        return usage("TN0105", f"the module cannot be exported with these inputs: {what}", "call the module itself with the same inputs first; if that works, take torch.compile(model, backend='tenon')")
    return UnsupportedError(f"TN0301: torch.export cannot state the module: {what} ({FALLBACK})", "TN0301", FALLBACK)


def _register_dataclasses(tree: Any) -> None:
    """Makes PyTorch's trees know the dataclasses among inputs or outputs."""
    import torch
    from torch.utils import _pytree

    for leaf in _pytree.tree_leaves(tree):
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            torch.export.register_dataclass(type(leaf))
            _register_dataclasses([getattr(leaf, field.name) for field in dataclasses.fields(leaf)])


def save(program: Any, path: str) -> Any:
    """Writes a program; gives the one that was written, which differs where PyTorch's schema cannot state the first."""
    import torch
    from torch._export.serde.serialize import SerializeError

    for change in (None, _with_plain_trees, _retraced):
        try:
            program = change(program) if change else program
            torch.export.save(program, path)
            return program
        except (NotImplementedError, SerializeError) as error:
            failure = error
    what = " ".join(str(failure).split(" Original exception")[0].split())[:500]
    raise UnsupportedError(f"TN0301: PyTorch's schema cannot state the program: {what} ({FALLBACK})", "TN0301", FALLBACK) from failure


def _retraced(program: Any) -> Any:
    """Without what only tracing has, as vmap's marks."""
    return _with_plain_trees(program.run_decompositions({}))


def _with_plain_trees(program: Any) -> Any:
    """Named tuples and dataclasses among inputs and outputs as dicts, which have their names too."""
    copied = copy.copy(program)
    copied._module_call_graph = [
        dataclasses.replace(
            entry, signature=dataclasses.replace(
                entry.signature, in_spec=_plain(entry.signature.in_spec), out_spec=_plain(entry.signature.out_spec)
            ),
        ) if entry.signature else entry
        for entry in program.module_call_graph
    ]  # fmt: skip
    return copied


def _plain(spec: Any) -> Any:
    from torch.utils import _pytree

    children = [_plain(child) for child in spec.children()]
    context = spec.context
    if spec.is_leaf() or spec.type in (tuple, list, dict):
        return _pytree.TreeSpec(spec.type, context, children) if children else spec
    if hasattr(context, "_fields"):
        return _pytree.TreeSpec(dict, list(context._fields), children)
    names = context[0] if isinstance(context, (list, tuple)) and context and isinstance(context[0], list) else []
    is_named = len(names) == len(children) and all(isinstance(name, str) for name in names)
    return _pytree.TreeSpec(dict, names, children) if is_named else _pytree.TreeSpec(tuple, None, children)


class Decomposer:
    """Replaces what the importer lacks in a program, step by step: a replacement may have gaps itself."""

    def __init__(self, program: Any):
        self.program = program
        self._tried: set = set()

    def step(self, gaps: Sequence[dict]) -> Optional[Any]:
        """The program with replacements of these gaps; None if there are none that were not tried."""
        from ._torch_decompositions import replacements

        table = {op: function for op, function in replacements(gap["op"] for gap in gaps).items() if op not in self._tried}
        if not table:
            return None
        self._tried |= table.keys()
        try:
            program = self.program.run_decompositions(table)
        except Error:
            raise
        except Exception:  # of torch's or a decomposition's: the gap stays
            return None
        if _results(program) != _results(self.program):
            return None
        self.program = program
        return program


def _results(program: Any) -> list:
    """Types and constant sizes of what a program gives."""
    output = program.graph_module.graph.find_nodes(op="output")[0]
    values = [getattr(node, "meta", {}).get("val") for node in output.args[0]]
    return [
        (value.dtype, [size if isinstance(size, int) else None for size in value.shape]) if hasattr(value, "shape") else None for value in values
    ]


def load(path: str) -> Optional[Any]:
    """The program of an archive, where torch is there and reads it."""
    with contextlib.suppress(Exception):
        import torch

        return torch.export.load(path)
    return None
