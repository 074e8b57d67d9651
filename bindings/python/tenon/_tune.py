"""`tune`: kernels measured on this machine, over the verb of the command line."""

from __future__ import annotations

import os
from typing import Any, Dict, Sequence, Union

from . import _compile
from ._errors import door


@door
def tune(
    model: Union[str, os.PathLike],
    output: Union[str, os.PathLike, None] = None,
    *,
    seconds: float = 60.0,
    shapes: Sequence[str] = (),
    target: _compile.Names = (),
    precision: str = "keep",
    store: Union[str, os.PathLike, None] = None,
    again: bool = False,
    allow_noise: bool = False,
) -> Dict[str, Any]:
    """Measures which kernels are fastest for a model on this machine, for later compilations: what `tenon tune --json` prints.

    model: the path of an ONNX file or a .pt2 whose sizes are fixed, by `shapes` ("x:1x128") where the file leaves them free.
    output: where to write the tuned engine; without it, only the store is updated.
    seconds: how long to measure kernels, the longest-running regions first, without compiling.
    store: a folder; by default the one that `tenon.compile` reads.
    again: measures again what the store has.
    allow_noise: measures even if other programs disturb; without it, a busy machine raises ExhaustedError with id "TN0143".
    """
    path = os.fspath(model)
    flags = [f"--time={seconds}", f"--precision={precision}", *(f"--shape={shape}" for shape in shapes)]
    flags += [f"--output={os.fspath(output)}"] if output is not None else []
    flags += [f"--target={','.join(_compile._names(target))}"] if target else []
    flags += [f"--store={os.fspath(store)}"] if store is not None else []
    flags += [*(["--again"] if again else []), *(["--allow-noise"] if allow_noise else [])]
    return _compile.verb("tune", f"./{path}" if path.startswith("-") else path, *flags)
