"""`accuracy`: the verb of the command line, for data that lie in memory."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence, Union

from . import _compile, _errors
from ._engine import Engine

Sample = Mapping[str, Any]
#: A path; a dict of arrays whose first dim counts the samples; samples as dicts, or a function that gives them.
Data = Union[str, os.PathLike, Mapping[str, Any], Iterable[Sample], Callable[[], Iterable[Sample]]]
Model = Union[str, os.PathLike, Engine]


def accuracy(
    models: Union[Model, Sequence[Model]],
    data: Data,
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
    """How well models do on labelled data, with 95 % intervals, and what they cost: what `tenon accuracy --json` prints.

    models: one or several engines, or paths of engines and models; the others are compared with the first.
    data: a path as for --data, a dict of arrays whose first dim counts the samples, or samples as dicts of arrays by
      the names of the inputs (without the dim of the batch) and "label": a list, a generator, a function that gives them.
    metric: "top1", "top5", "f1", "perplexity", "mse", "mae", "cosine", "relative" or "cmd:PROGRAM"; or several.
    reference: for cosine and relative, what the models are to be near to; the first by default.
    """
    several = list(models) if isinstance(models, (list, tuple)) else [models]
    flags = [f"--metric={name}" for name in ([metric] if isinstance(metric, str) else metric)]
    flags += [f"--reference={_path(reference)}"] if reference is not None else []
    flags += [f"--output={output}"] if output is not None else []
    flags += [f"--shape={shape}" for shape in shapes]
    flags += [f"--target={','.join(_compile._names(target))}"] if target else []
    flags += [f"--threads={threads}"] if threads else []
    with tempfile.TemporaryDirectory(prefix="tenon-data-") as scratch:
        path = os.fspath(data) if isinstance(data, (str, os.PathLike)) else _write(data, scratch)
        paths = [_path(model) for model in several]
        return _compile.verb("accuracy", *paths, f"--data={path}", f"--batch={batch}", f"--seconds={seconds}", *flags)


def _path(model: Model) -> str:
    path = model._file() if isinstance(model, Engine) else os.fspath(model)
    return f"./{path}" if path.startswith("-") else path


def _write(data: Any, scratch: str) -> str:
    """The data as a file: an npz, or lines of JSON where samples differ in their shapes."""
    import numpy

    arrays = dict(data) if isinstance(data, Mapping) else None
    if arrays is None:
        samples = [{name: _array(numpy, value) for name, value in sample.items()} for sample in (data() if callable(data) else data)]
        if not samples:
            raise _errors.usage("TN0105", "the data are empty", "give at least one sample")
        for number, sample in enumerate(samples):
            if sample.keys() != samples[0].keys():
                raise _errors.usage(
                    "TN0105", f"sample {number} has {', '.join(sample)}, the first {', '.join(samples[0])}", "give each sample the same names"
                )
        names = samples[0].keys()
        if any(sample[name].shape != samples[0][name].shape for sample in samples for name in names):
            return _write_lines(samples, scratch)
        arrays = {name: numpy.stack([sample[name] for sample in samples]) for name in names}
    path = os.path.join(scratch, "data.npz")
    numpy.savez(path, **arrays)
    return path


def _array(numpy: Any, value: Any) -> Any:
    """Numbers of Python have no type of their own: fractions are taken as float32."""
    array = numpy.asarray(value)
    return array.astype(numpy.float32) if array.dtype == numpy.float64 and not hasattr(value, "dtype") else array


def _write_lines(samples: List[Dict[str, Any]], scratch: str) -> str:
    path = os.path.join(scratch, "data.jsonl")
    with open(path, "w") as file:
        for sample in samples:
            file.write(json.dumps({name: value.tolist() for name, value in sample.items()}) + "\n")
    return path
