"""Operators of ATen that Tenon's importer lacks, as functions of those that it has.

PyTorch's own decompositions come where Tenon has none. Functions are traced with fake tensors: they see sizes, perhaps symbolic ones, and
never data. NotImplemented leaves an operator as it is.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable

import torch

from . import _bits, _linear, _modules, _order, _special, _transforms  # noqa: F401  they fill the table
from ._table import OWN


def replacements(lacking: Iterable[str]) -> Dict[Any, Callable]:
    """What is known of operators, given by their names ("aten.erfinv.default")."""
    from torch._decomp import global_decomposition_table

    names = set(lacking)
    tables = [global_decomposition_table["post_autograd"], torch.export.default_decompositions(), OWN]
    return {op: function for table in tables for op, function in table.items() if str(op) in names}
