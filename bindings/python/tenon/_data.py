"""Data sets that lie in memory, as files for the verbs of the command line."""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from typing import IO, Any, Callable, Dict, Iterable, Iterator, Mapping, Union

from . import _errors, _samples

Sample = Mapping[str, Any]
#: A path; a dict of arrays whose first dim counts the samples, or the array of the only input; samples as dicts, arrays or tuples in
#: the order of the inputs, or batches of them, as of a DataLoader; or a function that gives them.
Data = Union[str, os.PathLike, Mapping[str, Any], Iterable[Any], Callable[[], Iterable[Any]]]


def path(data: Data, scratch: str, model: Union[str, os.PathLike]) -> str:
    """The data as a file in the folder `scratch`, if they are none yet: an npz, or lines of JSON where samples differ in their shapes.
    The model or engine is asked for its inputs where the data have no names."""
    data = _samples.named(data, _samples.Inputs(model))
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
    import numpy

    if not isinstance(data, Mapping):
        return _write_samples(numpy, data, scratch)
    arrays = {name: _array(numpy, array) for name, array in data.items()}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise _errors.usage("TN0105", f"'{name}' of the data is no array of numbers", "give numbers, or samples as a list of dicts where their lengths differ")
    return _write_arrays(numpy, {name: _array_writer(numpy, array) for name, array in arrays.items()}, scratch)


def _array(numpy: Any, value: Any) -> Any:
    """Numbers of Python have no type of their own: fractions are taken as float32."""
    try:
        array = numpy.asarray(value)
    except ValueError:  # lists of other lengths
        array = numpy.asarray(None)
    return array.astype(numpy.float32) if array.dtype == numpy.float64 and not hasattr(value, "dtype") else array


def _array_writer(numpy: Any, array: Any) -> Callable[[IO[bytes]], None]:
    return lambda file: numpy.lib.format.write_array(file, array)


def _write_arrays(numpy: Any, writers: Mapping[str, Callable[[IO[bytes]], None]], scratch: str) -> str:
    """An npz as numpy.savez writes it, which takes no array of the name `file` and none that is not in memory."""
    path = os.path.join(scratch, "data.npz")
    with zipfile.ZipFile(path, "w") as archive:
        for name, write in writers.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                write(file)
    return path


class _Spool:
    """The arrays of one name, one for each sample, in a file: a generator's samples together may not fit into memory."""

    def __init__(self, numpy: Any, path: str) -> None:
        self.numpy = numpy
        self.file = open(path, "w+b")
        self.count = 0
        self.shape: Any = None
        self.dtype: Any = None
        self.is_even = True  # all of one shape

    def add(self, array: Any) -> None:
        self.is_even = self.is_even and (self.count == 0 or array.shape == self.shape)
        self.dtype = array.dtype if self.count == 0 else self.numpy.promote_types(self.dtype, array.dtype)
        self.shape = array.shape
        self.count += 1
        self.numpy.save(self.file, array)

    def __iter__(self) -> Iterator[Any]:
        self.file.seek(0)
        for _ in range(self.count):
            yield self.numpy.load(self.file)

    def write(self, file: IO[bytes]) -> None:
        """All as one array with a row for each."""
        format = self.numpy.lib.format
        header = {"descr": format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.count, *self.shape)}
        format.write_array_header_1_0(file, header)
        for array in self:
            file.write(array.astype(self.dtype).tobytes())


def _write_samples(numpy: Any, samples: Iterable[Sample], scratch: str) -> str:
    spools: Dict[str, _Spool] = {}
    with contextlib.ExitStack() as files:
        for number, sample in enumerate(samples):
            if number == 0:
                spools = {name: _Spool(numpy, os.path.join(scratch, f"samples{i}.npy")) for i, name in enumerate(sample)}
                for spool in spools.values():
                    files.enter_context(spool.file)
            if sample.keys() != spools.keys():
                raise _errors.usage(
                    "TN0105", f"sample {number} has {', '.join(sample)}, the first {', '.join(spools)}", "give each sample the same names"
                )
            for name, value in sample.items():
                array = _array(numpy, value)
                if array.dtype.hasobject:
                    raise _errors.usage(
                        "TN0105", f"'{name}' of sample {number} is no array of numbers", "give numbers, or lists of equal lengths"
                    )
                spools[name].add(array)
        if not spools:
            raise _errors.usage("TN0105", "the data are empty", "give at least one sample")
        if all(spool.is_even for spool in spools.values()):
            return _write_arrays(numpy, {name: spool.write for name, spool in spools.items()}, scratch)
        return _write_lines(spools, scratch)


def _write_lines(spools: Mapping[str, Iterable[Any]], scratch: str) -> str:
    path = os.path.join(scratch, "data.jsonl")
    with open(path, "w") as file:
        for values in zip(*spools.values()):
            file.write(json.dumps({name: value.tolist() for name, value in zip(spools, values)}) + "\n")
    return path
