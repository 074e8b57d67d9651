"""A graph of dynamo's with symbolic sizes, traced again with the sizes of one call as constants.

For graphs that Tenon cannot compile for all sizes: what decides a size is no dimension of an input, or its expression is
not one that shapes may have. Traces with fake tensors, so nothing is computed.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv


def varying(fakes: Sequence[Any]) -> List[int]:
    """Positions of the arguments that are symbols or have some among their sizes."""
    return [
        index for index, value in enumerate(fakes)
        if isinstance(value, torch.SymInt) or (isinstance(value, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in value.shape))
    ]  # fmt: skip


def sizes(arguments: Sequence[Any], positions: Sequence[int]) -> tuple:
    """What `with_constant_sizes` makes constant of these arguments."""
    return tuple(tuple(value.shape) if isinstance(value := arguments[index], torch.Tensor) else value for index in positions)


def examples(fakes: Sequence[Any]) -> Optional[List[Any]]:
    """The arguments that dynamo traced with, as far as their sizes say; None where data decides some."""
    try:
        return [_example(value) for value in fakes]
    except _Unknown:
        return None


class _Unknown(Exception):
    pass


def _number(value: Any) -> int:
    if isinstance(value, torch.SymInt):
        if not value.node.has_hint():
            raise _Unknown
        return int(value.node.hint)
    return value


def _example(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return _number(value)
    with FakeTensorMode(allow_non_fake_inputs=True):
        return torch.empty_strided(
            [_number(n) for n in value.shape], [_number(n) for n in value.stride()], dtype=value.dtype, device=value.device
        )


def with_constant_sizes(graph: torch.fx.GraphModule, arguments: Sequence[Any]) -> torch.fx.GraphModule:
    """The graph for arguments of these sizes and these integers. It takes the same arguments."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    with mode, torch.no_grad():
        fakes = [
            torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
            if isinstance(value, torch.Tensor) else value
            for value in arguments
        ]  # fmt: skip
    with torch.no_grad(), torch.fx.traceback.preserve_node_meta():
        traced = make_fx(lambda *inputs: torch.fx.Interpreter(graph).run(*inputs), tracing_mode="fake")(*fakes)
    for node, value in zip(traced.graph.find_nodes(op="placeholder"), fakes):
        node.meta.setdefault("val", value)
    return traced
