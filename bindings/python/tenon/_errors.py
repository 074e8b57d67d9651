"""The exceptions: one class for each class of errors, which all carry what Tenon knows of the error."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import sys
import tempfile
from typing import Any, Callable, Iterator, Optional, TypeVar

from . import _abi


class Error(RuntimeError):
    """An error of Tenon. `str(error)` says what, where and what to do next.

    id: the stable number, "TN0301"; `tenon help TN0301` explains it.
    code: the class of the error, which is also the exit code of the command line.
    hint: what to try next, or "".
    node: the node of the model, or None.
    source: "file.py:12" where that node comes from, or None.
    gaps: for TN0301, what the model needs and Tenon lacks; as `tenon.check` gives them.
    """

    code = 70

    def __init__(self, text: str, id: str = "TN0902", hint: str = ""):
        super().__init__(text)
        self.id = id
        self.hint = hint
        self.gaps: list = []
        node = re.search(r"node '([^']*)'", text)
        self.node: Optional[str] = node[1] if node else None
        source = re.search(r"(?:File \"([^\"]+)\", line |\bat ([^\s:]+\.py):)(\d+)", text)
        self.source: Optional[str] = f"{source[1] or source[2]}:{source[3]}" if source else None


class CheckFailedError(Error):
    """A check failed."""

    code = 1


class CancelledError(CheckFailedError):
    """A progress function ended the compilation."""


class UsageError(Error, ValueError):
    """A wrong argument or tensor; correct it and call again."""

    code = 2


class UnsupportedError(Error, NotImplementedError):
    """The model needs something that Tenon lacks, or the engine needs another machine or release."""

    code = 3


class DeviceError(Error):
    """A GPU, its driver or one of its libraries is missing or failed."""

    code = 4


class BadInputError(Error, ValueError):
    """A damaged file, or data that the model cannot take."""

    code = 5


class ExhaustedError(Error, MemoryError):
    """Memory, threads or disk ran out; it may succeed later."""

    code = 6


class InternalError(Error):
    """A bug in Tenon; please report it."""


@contextlib.contextmanager
def scratch(purpose: str, model: Any) -> Iterator[str]:
    """A folder for as long as the block runs. An error that names a form of the model in it names the caller's model instead."""
    with tempfile.TemporaryDirectory(prefix=f"tenon-{purpose}-") as folder:
        try:
            yield folder
        except Error as error:
            for file in ("model.pt2", "model.onnx", "decomposed.pt2"):
                reword(error, os.path.join(folder, file), _name_of(model))
            raise


def _name_of(model: Any) -> str:
    if isinstance(model, (str, os.PathLike)):
        return os.fsdecode(model)
    kind = "module " if hasattr(model, "forward") else "program " if hasattr(model, "graph_signature") else ""
    return f"the {kind}{type(model).__name__}"


_CLASSES = {
    kind.code: kind
    for kind in (CheckFailedError, UsageError, UnsupportedError, DeviceError, BadInputError, ExhaustedError, InternalError)
}


def take(status: int) -> Error:
    """The exception for a status of the C interface, which is destroyed."""
    runtime = _abi.runtime
    id = runtime.tenon_status_id(status).decode()
    kind = CancelledError if id == "TN0407" else _CLASSES.get(runtime.tenon_status_code(status), InternalError)
    error = kind(
        runtime.tenon_status_text(status).decode(errors="replace"),
        id,
        runtime.tenon_status_hint(status).decode(errors="replace"),
    )
    runtime.tenon_status_destroy(status)
    return error


def made(code: int, id: str, text: str, hint: str) -> Error:
    """The exception for an error of the command line or of a server."""
    return _CLASSES.get(code, InternalError)(f"{id}: {text}" + (f" ({hint})" if hint else ""), id, hint)


def check(status: Optional[int]) -> None:
    if status:
        raise take(status)


Function = TypeVar("Function", bound=Callable[..., Any])
_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def door(function: Function) -> Function:
    """A function of the interface: an argument of a wrong type, where Tenon's own code stumbles over it, is a UsageError. What the
    user's code raises, and a call that does not fit the signature, stays as it is."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except (TypeError, AttributeError, ValueError, OverflowError) as error:
            if isinstance(error, Error) or not _is_own(error):
                raise
            raise usage("TN0105", f"an argument of {function.__qualname__} has a wrong type: {error}", f"see help({function.__qualname__})") from error

    return call  # type: ignore[return-value]


def _is_own(error: BaseException) -> bool:
    trace, frames = error.__traceback__, []
    while trace:
        frames.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    # Python's own helpers, as os.fsencode, count as their caller; the first frame is `call`.
    while len(frames) > 2 and frames[-1] in (os.__file__, "<frozen os>"):
        frames.pop()
    return len(frames) > 1 and os.path.abspath(frames[-1]).startswith(_PACKAGE)


def reword(error: Error, before: str, after: str) -> None:
    """Says something else where an error says `before`, its hint and its gaps too."""
    error.args = (str(error).replace(before, after), *error.args[1:])
    error.hint = error.hint.replace(before, after)
    for gap in error.gaps:
        gap.update({key: value.replace(before, after) for key, value in gap.items() if isinstance(value, str)})


def tell(error: Error, as_json: bool) -> None:
    """Prints an error as the command line does: on stderr, and with --json as a document on stdout too."""
    text = str(error).removesuffix(f" ({error.hint})").removeprefix(f"{error.id}: ")
    if as_json:
        document = {"schema": "tenon.error/1", "code": error.id, "exit": error.code, "message": text, "hint": error.hint}
        print(json.dumps(document, indent=2))
    lines = [printable(line) for line in text.split("\n")]
    lines += [f"  try: {printable(error.hint)}"] * bool(error.hint) + [f"  see: tenon help {error.id}"]
    print(f"error {error.id}: " + "\n".join(lines), file=sys.stderr)


def printable(text: str) -> str:
    """Without what moves a terminal's cursor or starts a line of a log."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def no_gradient(what: str) -> UnsupportedError:
    hint = "run it under torch.no_grad() or torch.inference_mode(), or pass tensor.detach()"
    return UnsupportedError(f"TN0303: {what}, and an engine gives no gradients ({hint})", "TN0303", hint)


def usage(id: str, text: str, hint: str) -> UsageError:
    """An error that is found before the C interface is called."""
    return UsageError(f"{id}: {text} ({hint})", id, hint)
