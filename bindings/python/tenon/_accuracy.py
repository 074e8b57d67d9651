"""`accuracy`: the verb of the command line, for data that lie in memory."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Dict, Sequence, Union

from . import _compile, _data
from ._engine import Engine
from ._errors import door

Model = Union[str, os.PathLike, Engine]


@door
def accuracy(
    models: Union[Model, Sequence[Model]],
    data: _data.Data,
    *,
    metric: Union[str, Sequence[str]] = "top1",
    reference: Union[Model, None] = None,
    output: Union[str, None] = None,
    batch: int = 32,
    shapes: Sequence[str] = (),
    target: _compile.Names = (),
    threads: int = 0,
    seconds: float = 1.0,
) -> Dict[str, Any]:
    """The accuracy of models on labelled data, with 95 % intervals, and their cost: what `tenon accuracy --json` prints.

    models: one or several engines, or paths of engines and models; the others are compared with the first.
    data: a path as for --data, a dict of arrays whose first dim counts the samples, or samples as dicts of arrays by
      the names of the inputs (without the dim of the batch) and "label": a list, a generator, a function that gives them.
      Without names: an array for the only input, samples or batches as tuples in the order of the inputs, with a label behind
      them; a DataLoader. Tensors of torch are taken where arrays are.
    metric: "top1", "top5", "f1", "perplexity", "mse", "mae", "cosine", "relative" or "cmd:PROGRAM"; or several.
    reference: for cosine and relative, the model to compare with; the first by default.
    """
    several = list(models) if isinstance(models, (list, tuple)) else [models]
    flags = [f"--metric={name}" for name in ([metric] if isinstance(metric, str) else metric)]
    flags += [f"--reference={_path(reference)}"] if reference is not None else []
    flags += [f"--output={output}"] if output is not None else []
    flags += [f"--shape={shape}" for shape in shapes]
    flags += [f"--target={','.join(_compile._names(target))}"] if target else []
    flags += [f"--threads={threads}"] if threads else []
    with tempfile.TemporaryDirectory(prefix="tenon-data-") as scratch:
        paths = [_path(model) for model in several]
        path = _data.path(data, scratch, paths[0])
        return _compile.verb("accuracy", *paths, f"--data={path}", f"--batch={batch}", f"--seconds={seconds}", *flags)


def _path(model: Model) -> str:
    path = model._file() if isinstance(model, Engine) else os.fspath(model)
    return f"./{path}" if path.startswith("-") else path
