"""The graph of a model or an engine, in the user's hands: as data, text, picture and page."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _compile
from ._engine import Engine
from ._errors import door, usage

_FORMATS = {".txt": "text", ".json": "json", ".dot": "dot", ".svg": "svg", ".html": "html", ".onnx": "onnx"}


class Graph:
    """Made by `tenon.graph`. `str(graph)` is its text; a notebook shows it as a picture."""

    def __init__(self, path: str, shapes: Sequence[str], folder: Optional[str]):
        self._path, self._shapes = path, list(shapes)
        if folder:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        #: All that `tenon inspect --json` knows.
        self.data: Dict[str, Any] = json.loads(self._render("json"))

    def _render(self, format: str) -> str:
        return _compile.inspect_file(self._path, format, self._shapes)

    @property
    def nodes(self) -> List[Dict[str, Any]]:
        """The operations in order: op, name, type and the other keys of the JSON."""
        return self.data.get("nodes", [])

    @property
    def inputs(self) -> List[Dict[str, Any]]:
        return self.data.get("inputs", [])

    @property
    def outputs(self) -> List[Dict[str, Any]]:
        return self.data.get("outputs", [])

    def text(self) -> str:
        return self._render("text")

    def dot(self) -> str:
        return self._render("dot")

    def svg(self) -> str:
        return self._render("svg")

    def html(self) -> str:
        """One page that needs nothing else: modules fold, nodes can be searched and clicked."""
        return self._render("html")

    def save(self, path: Union[str, os.PathLike]) -> None:
        """Writes the format of the name's suffix: .txt, .json, .dot, .svg, .html, or .onnx for ONNX viewers."""
        suffix = os.path.splitext(os.fspath(path))[1]
        if suffix not in _FORMATS:
            raise usage("TN0105", f"a graph has no form for '{path}'", "end the name in " + ", ".join(_FORMATS))
        _compile.inspect_file(self._path, _FORMATS[suffix], self._shapes, os.fspath(path))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<tenon.Graph: {len(self.nodes)} nodes>"

    def _repr_html_(self) -> str:
        return f'<div style="overflow: auto; max-height: 40em">{self.svg()}</div>'


@door
def graph(model: Any, example_inputs: Optional[Sequence[Any]] = None, *, dynamic_shapes: Any = None) -> Graph:
    """The graph of a model, given as for `compile`, or of an engine."""
    if isinstance(model, Engine):
        return Graph(model._file(), [], None)
    folder = tempfile.mkdtemp(prefix="tenon-graph-")
    try:
        file = _compile._file(model, example_inputs, dynamic_shapes, folder)
        return file.perform(lambda path: Graph(path, file.shapes, folder))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
