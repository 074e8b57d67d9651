"""What an ONNX file says of itself: producer, domain, version, notes of the exporter.

Reads the top level of the file's ModelProto (fields as in onnx.proto) and of its graph, and passes over everything else, so that
weights are not read.
"""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO, Dict, Iterator, Tuple, Union

_TEXT = {2: "producer_name", 3: "producer_version", 4: "domain", 6: "description"}
_VERSION, _GRAPH, _PROPERTY = 5, 7, 14
_GRAPH_TEXT = {2: "graph_name", 10: "graph_description"}
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


class ModelMetadata:
    """`custom_metadata_map` is what the exporter wrote. Of an engine that is all there is."""

    def __init__(self, entries: Dict[str, str]):
        self.custom_metadata_map = entries
        self.producer_name = self.producer_version = self.graph_name = self.domain = self.description = self.graph_description = ""
        self.version = 0


def metadata_of(model: Union[str, os.PathLike, bytes]) -> ModelMetadata:
    result = ModelMetadata({})
    with open(model, "rb") if isinstance(model, (str, os.PathLike)) else io.BytesIO(model) as file:
        for field, value in _fields(file, file.seek(0, io.SEEK_END)):
            if field in _TEXT:
                setattr(result, _TEXT[field], _text(file, value))
            elif field == _VERSION:
                result.version = value
            elif field == _GRAPH:
                for inner, place in _fields(file, value[1], value[0]):
                    if inner in _GRAPH_TEXT:
                        setattr(result, _GRAPH_TEXT[inner], _text(file, place))
            elif field == _PROPERTY:
                pair = {inner: _text(file, place) for inner, place in _fields(file, value[1], value[0])}
                result.custom_metadata_map[pair.get(1, "")] = pair.get(2, "")
    return result


def _fields(file: BinaryIO, end: int, start: int = 0) -> Iterator[Tuple[int, Any]]:
    """(number, value) of each field from start to end: a number, or (first, last) place of what is longer."""
    while start < end:
        file.seek(start)
        key = _varint(file)
        kind, value = key & 7, None
        if kind == _VARINT:
            value = _varint(file)
            start = file.tell()
        else:
            size = {_FIXED_64: 8, _FIXED_32: 4}.get(kind) or (_varint(file) if kind == _BYTES else end)
            value = file.tell(), file.tell() + size
            start = value[1]
        yield key >> 3, value


def _varint(file: BinaryIO) -> int:
    result = shift = 0
    while byte := file.read(1):
        result |= (byte[0] & 127) << shift
        shift += 7
        if byte[0] < 128:
            break
    return result


def _text(file: BinaryIO, place: Tuple[int, int]) -> str:
    file.seek(place[0])
    return file.read(place[1] - place[0]).decode(errors="replace")
