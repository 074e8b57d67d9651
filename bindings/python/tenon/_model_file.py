"""A model in any form as a file for the compiler."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, Sequence

from . import _errors

# The compiler's remedy for operators without an import.
DECOMPOSES = "compile it in Python, which decomposes what it can: tenon.compile('model.pt2')"


class ModelFile:
    """path: the file. shapes: in the words of the command line."""

    def __init__(self, model: Any, example_inputs: Any, dynamic_shapes: Any, scratch: str, gaps: Callable[[str, Sequence[str]], list]):
        self._scratch, self._gaps = scratch, gaps
        self._dynamic_shapes, self._decomposer = dynamic_shapes, None
        self.shapes: Sequence[str] = []
        if isinstance(model, (str, os.PathLike)):
            self.path = os.fspath(model)
            # Of another registry the compiler's side reads it itself.
            if self.path.startswith("registry:") and os.environ.get("TENON_REGISTRY", "").startswith(("http://", "https://")):
                from . import registry

                self.path = registry.file_of(self.path)
        elif isinstance(model, (bytes, bytearray, memoryview)):
            self.path = os.path.join(scratch, "model.pt2" if bytes(model[:2]) == b"PK" else "model.onnx")
            with open(self.path, "wb") as file:
                file.write(model)
        elif "torch" not in sys.modules:
            raise _errors.usage(
                "TN0105", f"a model cannot be a {type(model).__name__}", "give a path, a torch.nn.Module or an ExportedProgram"
            )
        else:
            from . import _export

            self.path = os.path.join(scratch, "model.pt2")
            self._decomposer = _export.Decomposer(_export.save(_export.program_of(model, example_inputs, dynamic_shapes), self.path))

    def perform(self, work: Callable[[str], Any]) -> Any:
        """Does `work` with the path: again, where a program has gaps that decompositions fill."""
        while True:
            try:
                return work(self.path)
            except _errors.Error as error:
                if error.id == "TN0301":
                    error.gaps = self._gaps(self.path, self.shapes)
                    if self.decompose(error.gaps):
                        continue
                raise self._told(error) from error.__cause__

    def decompose(self, gaps: Sequence[Dict[str, Any]]) -> bool:
        """Whether the file has another program now, with fewer of these gaps."""
        from . import _export

        if not gaps or not self._is_program():
            return False
        if self._decomposer is None:
            program = _export.load(self.path)
            self._decomposer = _export.Decomposer(program) if program else None
        program = self._decomposer.step(gaps) if self._decomposer else None
        if program is None:
            return False
        self.path = os.path.join(self._scratch, "decomposed.pt2")
        self._decomposer.program = _export.save(program, self.path)
        return True

    def _is_program(self) -> bool:
        if self._decomposer:
            return True
        try:
            with open(self.path, "rb") as file:
                return file.read(4) == b"PK\x03\x04" and os.fspath(self.path).endswith(".pt2")
        except OSError:
            return False

    def _told(self, error: _errors.Error) -> _errors.Error:
        if self._decomposer:
            from . import _export

            _errors.reword(error, DECOMPOSES, _export.FALLBACK)
        if error.gaps:
            error.node = error.node or error.gaps[0].get("node")
            error.source = error.source or error.gaps[0].get("source")
        return error
