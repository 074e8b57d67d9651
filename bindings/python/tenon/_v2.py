"""KServe's protocol v2 over engines, without a server: bodies of requests to arrays, requests that fit to one run, outputs to replies.

Relies on numpy. What a server of Python adds is its own: ray_serve.py.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple, Union

import numpy

from . import _errors
from ._engine import Engine, Port

TYPES = {
    "float32": "FP32", "float64": "FP64", "float16": "FP16", "bool": "BOOL",
    **{f"{sign}int{bits}": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
# How far rows of a batch may lie from the same rows alone, by the output's largest value: kernels for other sizes add in another order.
TOLERANCE = {"float32": 1e-4, "float16": 2.5e-3, "float64": 1e-10}
PROOF_ROWS = 3


class BadRequest(Exception):
    """What a client has to change; `status` is that of HTTP."""

    def __init__(self, text: str, status: int = 400):
        super().__init__(text)
        self.status = status


class Request(NamedTuple):
    """An inference as a client asked for it."""

    id: str
    inputs: Dict[str, numpy.ndarray]
    outputs: Tuple[str, ...]  # that it wants; all if empty


class Model:
    """An engine under a name.

    Threads. As those of the engine: any number may call it.
    """

    def __init__(self, name: str, engine: Engine):
        """Raises UsageError TN0105 where a port has a type that JSON does not carry."""
        for port in (*engine.inputs, *engine.outputs):
            if port.dtype not in TYPES:
                raise _errors.usage("TN0105", f"'{port.name}' of the model '{name}' is {port.dtype}, which this protocol does not carry as JSON", "serve it by `tenon serve`")
        self.name, self.engine = name, engine
        self.inputs = {port.name: port for port in engine.inputs}
        self.outputs = [port.name for port in engine.outputs]
        self.can_batch = _has_rows(engine) and _rows_are_apart(engine)

    def metadata(self) -> Dict[str, Any]:
        def tensor(port: Port) -> Dict[str, Any]:
            return {"name": port.name, "datatype": TYPES[port.dtype], "shape": [-1 if isinstance(dim, tuple) else dim for dim in port.shape]}

        return {"name": self.name, "versions": ["1"], "platform": "tenon", "inputs": [tensor(each) for each in self.engine.inputs], "outputs": [tensor(each) for each in self.engine.outputs]}

    def read(self, body: Union[bytes, str]) -> Request:
        """The request in a body of JSON. Raises BadRequest."""
        try:
            document = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"the body is not JSON: {error}") from error
        if not isinstance(document, dict) or not isinstance(document.get("inputs"), list):
            raise BadRequest("the body is an object with a list 'inputs'")
        inputs: Dict[str, numpy.ndarray] = {}
        for each in document["inputs"]:
            name, value = self._tensor(each)
            if name in inputs:
                raise BadRequest(f"the input '{name}' stands twice")
            inputs[name] = value
        if missing := self.inputs.keys() - inputs.keys():
            raise BadRequest(f"the input '{min(missing)}' is missing")
        return Request(str(document.get("id") or ""), inputs, self._wanted(document.get("outputs")))

    def _wanted(self, outputs: Any) -> Tuple[str, ...]:
        if outputs is not None and not isinstance(outputs, list):
            raise BadRequest("'outputs' is a list of objects with a name")
        names = tuple(each.get("name") if isinstance(each, dict) else None for each in outputs or ())
        for name in names:
            if name not in self.outputs:
                raise BadRequest(f"there is no output '{name}'; the outputs are {', '.join(self.outputs)}")
        return names

    def _tensor(self, given: Any) -> Tuple[str, numpy.ndarray]:
        if not isinstance(given, dict) or not isinstance(given.get("name"), str):
            raise BadRequest("an input is an object with name, datatype, shape and data")
        name, shape = given["name"], given.get("shape")
        port = self.inputs.get(name)
        if port is None:
            raise BadRequest(f"there is no input '{name}'; the inputs are {', '.join(self.inputs)}")
        if given.get("datatype") != TYPES[port.dtype]:
            raise BadRequest(f"the input '{name}' is {TYPES[port.dtype]}, not {given.get('datatype')}")
        if not isinstance(shape, list) or not all(isinstance(dim, int) and not isinstance(dim, bool) and dim >= 0 for dim in shape):
            raise BadRequest(f"the shape of '{name}' is a list of whole numbers")
        if "data" not in given:
            raise BadRequest(f"'{name}' has no data; binary tensors are `tenon serve`'s")
        if len(shape) != len(port.shape) or not all(_takes(dim, size) for dim, size in zip(port.shape, shape)):
            raise BadRequest(f"the input '{name}' is {_shape_text(port)}, not {shape}")
        return name, _array(name, given["data"], port.dtype, shape)

    def reply(self, request: Request, outputs: Mapping[str, numpy.ndarray]) -> bytes:
        """The body for the outputs of a request. Raises BadRequest where one is no number that JSON has."""
        tensors = []
        for name in request.outputs or self.outputs:
            value = outputs[name]
            if value.dtype.kind == "f" and not numpy.isfinite(value).all():
                raise BadRequest(f"the output '{name}' has numbers that are infinite or none, which JSON does not have; `tenon serve` sends them as binary data", 422)
            tensors.append({"name": name, "datatype": TYPES[value.dtype.name], "shape": list(value.shape), "data": value.reshape(-1).tolist()})
        return json.dumps({"model_name": self.name, "model_version": "1", **({"id": request.id} if request.id else {}), "outputs": tensors}).encode()

    def run(self, requests: Sequence[Request], most_rows: int) -> List[Union[Dict[str, numpy.ndarray], Exception]]:
        """The outputs of each request, or its error. Those that fit run in batches along dim 0 of at most so many rows, in their order.

        Where a batch fails, its requests run one by one, so that an error meets only the one that it is of.
        """
        found: List[Any] = [None] * len(requests)
        for group in self._groups(requests, most_rows):
            try:
                found = _with(found, group, self._run_batch([requests[index] for index in group]))
            except _errors.Error as error:
                alone = [error] if len(group) == 1 else [self._run_alone(requests[index]) for index in group]
                found = _with(found, group, alone)
        return found

    def _groups(self, requests: Sequence[Request], most_rows: int) -> List[List[int]]:
        """Which requests run together, by their places."""
        groups: List[List[int]] = []
        open_groups: Dict[Any, Tuple[List[int], int]] = {}  # the last group of a kind of shapes, with its rows
        for index, request in enumerate(requests):
            rows = {value.shape[0] for value in request.inputs.values()} if self.can_batch else set()
            if len(rows) != 1:  # what the engine says of it is for this request alone
                groups.append([index])
                continue
            kind = tuple((name, value.shape[1:]) for name, value in sorted(request.inputs.items()))
            count = rows.pop()
            group, so_far = open_groups.get(kind, ([], most_rows))
            if so_far + count > most_rows:
                group, so_far = [], 0
                groups.append(group)
            group.append(index)
            open_groups[kind] = group, so_far + count
        return groups

    def _run_batch(self, requests: Sequence[Request]) -> List[Dict[str, numpy.ndarray]]:
        if len(requests) == 1:
            return [self.engine.run(requests[0].inputs)]
        outputs = self.engine.run({name: numpy.concatenate([each.inputs[name] for each in requests]) for name in self.inputs})
        ends = numpy.cumsum([next(iter(each.inputs.values())).shape[0] for each in requests])[:-1]
        parts = {name: numpy.split(value, ends) for name, value in outputs.items()}
        return [{name: value[index] for name, value in parts.items()} for index in range(len(requests))]

    def _run_alone(self, request: Request) -> Union[Dict[str, numpy.ndarray], Exception]:
        try:
            return self.engine.run(request.inputs)
        except _errors.Error as error:
            return error


def status_of(error: Exception) -> int:
    """The status of HTTP for an error of a request."""
    if isinstance(error, BadRequest):
        return error.status
    if isinstance(error, (_errors.UsageError, _errors.BadInputError)):
        return 400
    return 503 if isinstance(error, _errors.ExhaustedError) else 500


def _with(found: List[Any], places: Sequence[int], values: Sequence[Any]) -> List[Any]:
    for place, value in zip(places, values):
        found[place] = value
    return found


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _takes(dim: Any, size: int) -> bool:
    return dim[0] <= size <= dim[1] if isinstance(dim, tuple) else dim == size


def _shape_text(port: Port) -> str:
    return "[" + ", ".join(f"{dim[0]}..{dim[1]}" if isinstance(dim, tuple) else str(dim) for dim in port.shape) + "]"


def _array(name: str, data: Any, dtype: str, shape: List[int]) -> numpy.ndarray:
    """Numbers, nested or not, as an array; without rounding one kind into another."""
    try:
        value = numpy.asarray(data)
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"the data of '{name}': {error}") from error
    wanted = numpy.dtype(dtype)
    kinds = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}[wanted.kind]
    if value.size and value.dtype.kind not in kinds:
        raise BadRequest(f"the data of '{name}' is {value.dtype.name}, not numbers of {TYPES[dtype]}")
    count = 1
    for dim in shape:
        count *= dim
    if value.size != count:
        raise BadRequest(f"the data of '{name}' has {value.size} elements, and its shape {count}")
    if wanted.kind in "iu" and value.size and (value.min() < numpy.iinfo(wanted).min or value.max() > numpy.iinfo(wanted).max):
        raise BadRequest(f"the data of '{name}' has numbers that {TYPES[dtype]} has not")
    with numpy.errstate(over="ignore"):
        made = value.astype(wanted).reshape(shape)
    if wanted.kind == "f" and not numpy.isfinite(made).all():
        raise BadRequest(f"the data of '{name}' has numbers that {TYPES[dtype]} has not")
    return made


def _has_rows(engine: Engine) -> bool:
    """Whether dim 0 of every port is free."""
    ports = [*engine.inputs, *engine.outputs]
    return bool(engine.inputs) and all(port.shape and isinstance(port.shape[0], tuple) and port.shape[0][0] <= 1 and port.shape[0][1] >= PROOF_ROWS for port in ports)


def _rows_are_apart(engine: Engine) -> bool:
    """Whether seeded rows give the same alone and batched: a free dim 0 does not say that rows leave each other alone."""
    rng = numpy.random.default_rng(0)

    def rows(port: Port) -> numpy.ndarray:
        shape = [PROOF_ROWS, *(dim[0] if isinstance(dim, tuple) else dim for dim in port.shape[1:])]
        wanted = numpy.dtype(port.dtype)
        return rng.standard_normal(shape).astype(wanted) if wanted.kind == "f" else rng.integers(0, 2, shape).astype(wanted)

    batched = {port.name: rows(port) for port in engine.inputs}
    try:
        whole = engine.run(batched)
        alone = [engine.run({name: value[index : index + 1] for name, value in batched.items()}) for index in range(PROOF_ROWS)]
    except _errors.Error:
        return False
    for name, value in whole.items():
        beside = numpy.concatenate([each[name] for each in alone]) if all(each[name].shape[:1] == (1,) for each in alone) else None
        if beside is None or beside.shape != value.shape:
            return False
        bound = TOLERANCE.get(value.dtype.name, 0) * float(numpy.max(numpy.abs(value), initial=0))
        if not numpy.array_equal(beside, value) and not (value.dtype.kind == "f" and numpy.max(numpy.abs(beside - value)) <= bound):
            return False
    return True
