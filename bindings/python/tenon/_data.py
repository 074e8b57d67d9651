"""Data sets that lie in memory, as files for the verbs of the command line."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Union

from . import _errors

Sample = Mapping[str, Any]
#: A path; a dict of arrays whose first dim counts the samples; samples as dicts, or a function that gives them.
Data = Union[str, os.PathLike, Mapping[str, Any], Iterable[Sample], Callable[[], Iterable[Sample]]]


def path(data: Data, scratch: str) -> str:
    """The data as a file in the folder `scratch`, if they are none yet: an npz, or lines of JSON where samples differ in their shapes."""
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
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
    file = os.path.join(scratch, "data.npz")
    numpy.savez(file, **arrays)
    return file


def _array(numpy: Any, value: Any) -> Any:
    """Numbers of Python have no type of their own: fractions are taken as float32."""
    array = numpy.asarray(value)
    return array.astype(numpy.float32) if array.dtype == numpy.float64 and not hasattr(value, "dtype") else array


def _write_lines(samples: List[Dict[str, Any]], scratch: str) -> str:
    lines = os.path.join(scratch, "data.jsonl")
    with open(lines, "w") as file:
        for sample in samples:
            file.write(json.dumps({name: value.tolist() for name, value in sample.items()}) + "\n")
    return lines
