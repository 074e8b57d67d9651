"""Operators of ATen that Tenon's importer lacks, as functions of those that it has.

PyTorch's own decompositions come where Tenon has none. Functions are traced with fake tensors: they see sizes, perhaps symbolic ones, and
never data. NotImplemented leaves an operator as it is.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable

import torch

from . import _bits, _linear, _modules, _order, _special, _transforms  # noqa: F401  they fill the table
from ._table import OWN, storage_error

__all__ = ["replacements", "storage_error"]


def replacements(lacking: Iterable[str]) -> Dict[Any, Callable]:
    """What is known of operators, given by their names ("aten.erfinv.default")."""
    names = set(lacking)
    composite = {op: op.decompose for name in names if (op := _operator(name)) and op._can_decompose()}
    return composite | {op: function for table in (torch.export.default_decompositions(), OWN) for op, function in table.items() if str(op) in names}


def _operator(name: str) -> Any:
    parts = name.split(".")
    is_aten = len(parts) == 3 and parts[0] == "aten"
    return getattr(getattr(torch.ops.aten, parts[1], None), parts[2], None) if is_aten else None
