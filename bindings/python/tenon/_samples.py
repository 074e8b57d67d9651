"""Data as PyTorch has them, as samples with the names of the model's inputs: arrays and tensors alone, tuples, and the batches of a
DataLoader. What an element is follows from the rank of the model's input: of the same rank it is a batch, of one less a sample."""

from __future__ import annotations

import functools
import os
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Union

from . import _compile, _errors

LABELS = ("labels", "label", "targets", "y")


class Inputs:
    """The inputs of a model or an engine in their order, asked for where data have no names."""

    def __init__(self, model: Union[str, "os.PathLike[str]"]) -> None:
        self.model = os.fspath(model)

    @functools.cached_property
    def ranks(self) -> Dict[str, Optional[int]]:
        return {port["name"]: _rank(port["type"]) for port in _compile.verb("inspect", "--", self.model)["inputs"]}

    def only(self) -> str:
        names = list(self.ranks)
        if len(names) != 1:
            raise _usage(f"the data are one array, and the model has {len(names)} inputs", f"give a dict with an array for each of {', '.join(names)}")
        return names[0]


def named(data: Any, inputs: Inputs) -> Any:
    """A path, a dict of arrays, or dicts of samples."""
    if isinstance(data, (str, os.PathLike)):
        return data
    if isinstance(data, Mapping):
        return {name: plain(value) for name, value in data.items()}
    if _is_array(data):
        return {inputs.only(): plain(data)}
    if callable(data):
        data = data()
    if isinstance(data, (list, tuple)) and data and all(map(_is_array, data)) and len(data) == len(inputs.ranks) > 1:
        return {name: plain(value) for name, value in zip(inputs.ranks, data)}
    if not hasattr(data, "__iter__") and not hasattr(data, "__getitem__"):
        raise _usage(f"the data are of {type(data).__name__}", "give a path, arrays, dicts of arrays, samples, or a DataLoader")
    return _samples(data, inputs, _has_batches(data))


def plain(value: Any) -> Any:
    """A tensor of torch as an array: detached, from its device, bfloat16 as float32, which NumPy lacks."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    return value


def _rank(port: str) -> Optional[int]:
    """Of "f32 [n, 64]"; none where the type has no dims."""
    dims = port.partition(" [")[2].rstrip("]")
    depth = commas = 0
    for letter in dims:
        depth += (letter == "(") - (letter == ")")
        commas += letter == "," and depth == 0
    return None if " [" not in port else commas + 1 if dims else 0


def _usage(text: str, hint: str) -> _errors.UsageError:
    return _errors.usage("TN0105", text, hint)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _has_batches(data: Any) -> bool:
    """Whether it is a DataLoader that makes batches."""
    return hasattr(data, "dataset") and (getattr(data, "batch_size", None) is not None or getattr(data, "batch_sampler", None) is not None)


def _samples(data: Iterable[Any], inputs: Inputs, are_batches: bool) -> Iterator[Mapping[str, Any]]:
    count = -1
    for count, element in enumerate(data):
        if isinstance(element, Mapping):
            sample = {name: plain(value) for name, value in element.items()}
            if not are_batches:
                yield sample
                continue
            sample = {name: value for name, value in sample.items() if name in inputs.ranks or name in LABELS}
        else:
            sample = _by_order(element, inputs, count)
        if are_batches or _is_batch(sample, inputs, count):
            yield from _rows(sample, count)
        else:
            yield sample
    if count < 0 and iter(data) is data:
        raise _usage("the data are empty: what an iterator gave before it does not give again", "give a list, or a function that makes the generator")


def _by_order(element: Any, inputs: Inputs, number: int) -> Dict[str, Any]:
    """The arrays of a tuple by the inputs' names, a label behind them."""
    fields: List[Any] = []
    is_tuple = isinstance(element, tuple) or (isinstance(element, list) and any(_is_array(field) or isinstance(field, (tuple, dict)) for field in element))
    for field in element if is_tuple else [element]:
        fields += field if isinstance(field, tuple) else [field]
    names = [*inputs.ranks, "labels"]
    if len(fields) not in (len(names) - 1, len(names)):
        raise _usage(f"element {number} of the data has {len(fields)} arrays, the model has the inputs {', '.join(inputs.ranks)}",
                     "give as many, in this order, and a label behind them if there is one; or dicts by these names")  # fmt: skip
    return dict(zip(names, map(plain, fields)))


def _is_batch(sample: Mapping[str, Any], inputs: Inputs, number: int) -> bool:
    import numpy

    for name, wanted in inputs.ranks.items():
        rank = numpy.ndim(sample[name])
        if wanted is None or rank == wanted - 1:
            return False
        if rank in (wanted, wanted + 1):
            return True
        raise _usage(f"element {number} of the data has an array of rank {rank} for the input '{name}', whose rank is {wanted}",
                     f"give samples of rank {wanted - 1}, or batches of rank {wanted}")  # fmt: skip
    return False


def _rows(batch: Mapping[str, Any], number: int) -> Iterator[Dict[str, Any]]:
    """Each row of a batch, of which the last may have fewer."""
    import numpy

    arrays = {name: numpy.asarray(value) for name, value in batch.items()}
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise _usage(f"batch {number} of the data has {', '.join(f'{count} rows of {name!r}' for name, count in counts.items())}",
                     "give each sample a row of each")  # fmt: skip
    for row in range(next(iter(counts.values()), 0)):
        yield {name: array[row] for name, array in arrays.items()}
