"""The table of decompositions, and what their functions share."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict

import torch

from .. import _errors

OWN: Dict[Any, Callable] = {}


def own(*names: str) -> Callable:
    """Enters a function for operators: all overloads of "cumprod", or "median.dim" alone."""

    def enter(function: Callable) -> Callable:
        for name in names:
            packet, _, overload = name.partition(".")
            found = getattr(torch.ops.aten, packet, None)
            for each in [overload] if overload else found.overloads() if found else []:
                if "out" not in each:
                    OWN[getattr(found, each)] = function
        return function

    return enter


def wide(function: Callable) -> Callable:
    """Computes in float64 and gives the type that the operator gives: of an integer the default one."""

    @functools.wraps(function)
    def call(x, *args, **kwargs):
        result = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
        return function(x.double(), *args, **kwargs).to(result)

    return call


def is_fixed(*sizes: Any) -> bool:
    """Whether sizes are numbers, for what is unrolled over them."""
    return all(isinstance(size, int) for size in sizes)


def along(tensor: torch.Tensor, dim: int, rank: int) -> torch.Tensor:
    """A list as a tensor of that rank that varies along one dim."""
    return tensor.reshape([-1 if axis == dim % rank else 1 for axis in range(rank)])


def positions(x: torch.Tensor, dim: int) -> torch.Tensor:
    return along(torch.arange(x.shape[dim], device=x.device), dim, x.dim())


def storage_error(what: str) -> _errors.UnsupportedError:
    hint = "index the tensor instead (slices, unfold, gather), or take options={'fallback': True}"
    return _errors.UnsupportedError(f"TN0301: {what} ({hint})", "TN0301", hint)
