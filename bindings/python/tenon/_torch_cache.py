"""Engines of dynamo's graphs across processes, so that a second one neither traces nor compiles.

A folder beside the compile cache with an entry a graph: model.tenon and plan.json. Entries are named by a hash of the
graph, the types, shapes, strides and offsets of its inputs, the contents of its weights, the options and this release. Engines are code:
a folder that another user can write to is not used.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from . import _abi
from ._engine import Engine
from ._torch_graph import Program, contents, to_json

_MOST_BYTES = 4 << 30
# What JSON gives back as it was.
_PLAIN = (int, float, bool, str, type(None))


def folder() -> Optional[str]:
    base = os.environ.get("XDG_CACHE_HOME") or (os.path.join(os.environ["HOME"], ".cache") if "HOME" in os.environ else "")
    if not base:
        return None
    path = os.path.join(base, "tenon-torch")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.stat(path)
    except OSError:
        return None
    return path if status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def key_of(graph: torch.fx.GraphModule, arguments: Sequence[Any], options: Dict[str, Any]) -> str:
    from .torch import is_weight

    library = os.stat(os.path.join(_abi.LIBRARIES, "libtenon_compiler.so"))
    parts = [torch.__version__, str((library.st_size, library.st_mtime_ns)), repr(sorted(options.items()))]
    parts.append(graph.print_readable(print_output=False))
    weights = []
    for value in arguments:
        if isinstance(value, torch.Tensor):
            parts.append(f"{value.dtype} {tuple(value.shape)} {value.device} {value.requires_grad}")
            parts.append(f"{value.stride()} from {value.storage_offset()}")
            if options["freeze"] and is_weight(value):
                weights.append(value)
            parts += [f"{size} in {_range(size)}" for size in value.shape if isinstance(size, torch.SymInt)]
        else:
            parts.append(f"{type(value).__name__} {value}")
    with ThreadPoolExecutor() as pool:
        parts += pool.map(_content, weights)
    if torch.cuda.is_initialized():
        parts.append(str(torch.cuda.get_device_capability()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _range(size: torch.SymInt) -> str:
    environment = size.node.shape_env
    return str([environment.var_to_range[symbol] for symbol in sorted(size.node.expr.free_symbols, key=str)])


def _content(tensor: torch.Tensor) -> str:
    return hashlib.sha256(contents(tensor)[1]).hexdigest()


def find(key: str, gpu: int) -> Optional[Tuple[Engine, Program, List[int]]]:
    """The engine, its program, and the positions of the arguments whose values are in it."""
    base = folder()
    if not base:
        return None
    entry = os.path.join(base, key)
    try:
        with open(os.path.join(entry, "program.json")) as file:
            content = json.load(file)
        engine = Engine(os.path.join(entry, "model.tenon"), gpu=gpu)
        os.utime(entry)
    except (OSError, ValueError, RuntimeError):
        return None  # missing or damaged: it is made anew
    model, inputs, outputs, constants, _ = content["program"]
    program = Program(model, inputs, [tuple(output) for output in outputs], {k: _tensor(v) for k, v in constants.items()}, {})
    return engine, program, content["weights"]


def store(key: str, engine: Engine, program: Program, weights: List[int]) -> None:
    """Keeps an engine; does nothing where that is not possible."""
    base = folder()
    if not base or any(kind == "constant" and type(value) not in _PLAIN for kind, value in program.outputs):
        return
    if any(kind in ("view", "part") for kind, value in program.outputs):
        return  # what they look at may differ from call to call, which JSON cannot say
    try:
        made = tempfile.mkdtemp(prefix=".new-", dir=base)
        try:
            _link(engine._file(), os.path.join(made, "model.tenon"))
            with open(os.path.join(made, "program.json"), "wb") as file:
                constants = {name: _text(tensor) for name, tensor in program.constants.items()}
                file.write(to_json({"program": program._replace(constants=constants), "weights": weights}))
            os.rename(made, os.path.join(base, key))
        finally:
            shutil.rmtree(made, ignore_errors=True)
        _trim(base)
    except OSError:
        pass


def _text(tensor: torch.Tensor) -> List[Any]:
    dense, data = contents(tensor)
    return [str(dense.dtype).removeprefix("torch."), list(dense.shape), base64.b64encode(data).decode()]


def _tensor(text: List[Any]) -> torch.Tensor:
    dtype, shape, data = text
    if not data:
        return torch.empty(shape, dtype=getattr(torch, dtype))
    return torch.frombuffer(bytearray(base64.b64decode(data)), dtype=getattr(torch, dtype)).reshape(shape)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _trim(base: str) -> None:
    """Removes the entries that were unused longest until the rest takes no more than the limit."""
    entries = []
    for name in os.listdir(base):
        path = os.path.join(base, name)
        engine = os.path.join(path, "model.tenon")
        if os.path.exists(engine):
            entries.append((os.stat(path).st_mtime, os.stat(engine).st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= _MOST_BYTES:
            return
        shutil.rmtree(path, ignore_errors=True)
        total -= size
