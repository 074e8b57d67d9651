"""The files of weights that an ONNX model names, found in its protobuf by field numbers, without the package onnx.

Relies on the wire format alone: messages on the way to a tensor are entered, everything else is skipped by its length.
"""

from __future__ import annotations

import mmap
import os
from typing import Iterator, List, Tuple, Union

# Of each message the fields that lead to tensors, by number, with the message behind them.
_WAYS = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
# The wire types of a model's own fields, which tell another kind of file at its first bytes.
_MODEL_KINDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
_MOST_DEPTH = 64


def weights_of(path: str) -> List[str]:
    """Locations relative to the model's folder; none where the file is no ONNX model or has its weights inside."""
    if os.path.getsize(path) == 0:
        return []
    found = set()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            _walk(data, 0, len(data), "model", found, 0)
        except (IndexError, ValueError):  # damaged, which the step that reads it says
            return []
    folder = os.path.dirname(path)
    # One that is missing or outside of the folder is said by the step that reads the model.
    inside = [name for name in found if not os.path.isabs(name) and ".." not in name.split("/")]
    return sorted(name for name in inside if os.path.isfile(os.path.join(folder, name)))


def _walk(data, start: int, end: int, message: str, found: set, depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise ValueError("too deep")
    ways = _WAYS[message]
    for number, value in _fields(data, start, end):
        if message == "model" and _MODEL_KINDS.get(number) != (0 if isinstance(value, int) else 2):
            raise ValueError("not a field of a model")
        inner = ways.get(number)
        if inner is None or isinstance(value, int):
            continue
        if inner == "entry":
            texts = {number: bytes(data[slice(*part)]) for number, part in _fields(data, *value) if not isinstance(part, int)}
            if texts.get(1) == b"location":
                found.add(texts.get(2, b"").decode())
        else:
            _walk(data, *value, inner, found, depth + 1)


def _fields(data, start: int, end: int) -> Iterator[Tuple[int, Union[int, Tuple[int, int]]]]:
    """(number, value) of a message: a number, or where its bytes are."""
    while start < end:
        tag, start = _varint(data, start)
        kind = tag & 7
        if kind == 0:
            value, start = _varint(data, start)
            yield tag >> 3, value
        elif kind in (1, 5):
            yield tag >> 3, 0
            start += 8 if kind == 1 else 4
        elif kind == 2:
            length, start = _varint(data, start)
            if length > end - start:
                raise ValueError("longer than its message")
            yield tag >> 3, (start, start + length)
            start += length
        else:
            raise ValueError("a wire type that protobuf 3 does not have")


def _varint(data, start: int) -> Tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[start]
        start += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, start
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
