# One file, since its C interface is one struct.
"""Passes of your own over a model's graph, in Python. docs/guides/passes.md is the guide.

    import math
    import tenon
    from tenon import passes

    @passes.rewrite(tolerance=math.inf)
    def relu_to_gelu(graph):
        for match in graph.match("relu(x)"):
            match.replace(graph.create("gelu", match["x"]))

    engine = tenon.compile("model.onnx", passes=[relu_to_gelu])
    engine.report["passes"]             # what each did, and by how much the outputs changed

After each pass the graph's types are verified, and its outputs on seeded inputs are compared with those before it. A
pass that raises, or changes more than its tolerance, ends the compilation with TN0406, whose cause is what it raised.
A graph, its nodes, values and matches are of use while the pass runs, in its thread; afterwards they raise TN0408.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import threading
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

from . import _abi, _errors, _types

_LIST = ctypes.CFUNCTYPE(c_size_t, c_void_p, c_void_p, c_size_t)
_LIST_OF = ctypes.CFUNCTYPE(c_size_t, c_void_p, c_uint64, c_void_p, c_size_t)
_TEXT = ctypes.CFUNCTYPE(c_char_p, c_void_p)
_TEXT_OF = ctypes.CFUNCTYPE(c_char_p, c_void_p, c_uint64)
_COUNT = ctypes.CFUNCTYPE(c_int64, c_void_p, c_uint64, c_void_p, c_size_t)


class _Api(_abi.Sized):
    """The table of functions of tenon/graph.h."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("error", _TEXT),
        ("fail", ctypes.CFUNCTYPE(None, c_void_p, c_char_p)),
        ("symbols", _TEXT),
        ("nodes", _LIST),
        ("inputs", _LIST),
        ("outputs", _LIST),
        ("input_name", ctypes.CFUNCTYPE(c_char_p, c_void_p, c_size_t)),
        ("output_name", ctypes.CFUNCTYPE(c_char_p, c_void_p, c_size_t)),
        ("op", _TEXT_OF),
        ("name", _TEXT_OF),
        ("source", _TEXT_OF),
        ("attributes", _TEXT_OF),
        ("attribute", ctypes.CFUNCTYPE(c_char_p, c_void_p, c_uint64, c_char_p)),
        ("operands", _LIST_OF),
        ("results", _LIST_OF),
        ("flops", _COUNT),
        ("bytes", _COUNT),
        ("producer", ctypes.CFUNCTYPE(c_uint64, c_void_p, c_uint64)),
        ("users", _LIST_OF),
        ("type", _TEXT_OF),
        ("data", _COUNT),
        ("matches", ctypes.CFUNCTYPE(c_size_t, c_void_p, c_char_p, c_void_p, c_size_t)),
        ("match", ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_uint64)),
        ("captured", ctypes.CFUNCTYPE(c_uint64, c_void_p, c_char_p)),
        ("create", ctypes.CFUNCTYPE(c_uint64, c_void_p, c_char_p, c_void_p, c_size_t, c_char_p, c_char_p)),
        ("constant", ctypes.CFUNCTYPE(c_uint64, c_void_p, c_char_p, c_void_p, c_size_t)),
        ("replace", ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64, c_uint64)),
        ("set_operand", ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64, c_size_t, c_uint64)),
        ("set_attributes", ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64, c_char_p)),
        ("add_output", ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64, c_char_p)),
        ("erase", ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64)),
    ]


_Run = ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(_Api), c_void_p)


class _Pass(_abi.Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("name", c_char_p), ("phase", c_char_p), ("tolerance", c_double), ("run", _Run),
        ("user", c_void_p),
    ]  # fmt: skip


class Value:
    """A tensor of the graph. Two are equal if they are the same one."""

    def __init__(self, graph: "Graph", id: int):
        self.graph, self.id = graph, id

    @property
    def type(self) -> Dict[str, Any]:
        """{"dtype": "f32", "dims": [1, "batch"]}: a dim is a number or an expression over the model's symbols."""
        return json.loads(self.graph._text("type", self.id))

    @property
    def dtype(self) -> str:
        return self.type["dtype"]

    @property
    def dims(self) -> List[Union[int, str]]:
        return self.type["dims"]

    @property
    def producer(self) -> Optional["Node"]:
        """The node whose result it is; None for an input of the model."""
        node = self.graph._api.producer(self.graph._handle, self.id)
        return Node(self.graph, node) if node else None

    @property
    def users(self) -> List["Node"]:
        return [Node(self.graph, node) for node in self.graph._list("users", self.id)]

    @property
    def is_constant(self) -> bool:
        producer = self.producer
        return producer is not None and producer.op == "constant"

    def numpy(self):
        """A copy of a constant's elements; raises for other values."""
        import numpy

        graph, type_ = self.graph, self.type
        size = graph._checked(graph._api.data(graph._handle, self.id, None, 0), lambda size: size >= 0)
        buffer = numpy.empty(size, numpy.uint8)
        graph._api.data(graph._handle, self.id, buffer.ctypes.data, size)
        return buffer.view(_numpy_type(type_["dtype"])).reshape(type_["dims"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and other.graph is self.graph and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return self.graph._described(f"value {self.id}", lambda: f"{self.dtype} {self.dims}")


class Node:
    """An operation of the graph. Two are equal if they are the same one."""

    def __init__(self, graph: "Graph", id: int):
        self.graph, self.id = graph, id

    @property
    def op(self) -> str:
        """ "conv": docs/ops lists all; constants are nodes of the operation "constant"."""
        return self.graph._text("op", self.id)

    @property
    def name(self) -> str:
        return self.graph._text("name", self.id)

    @property
    def source(self) -> str:
        """ "model.py:12", or ""."""
        return self.graph._text("source", self.id)

    @property
    def attributes(self) -> Dict[str, Any]:
        return json.loads(self.graph._text("attributes", self.id))

    @property
    def operands(self) -> List[Optional[Value]]:
        """None stands for an optional operand that is absent."""
        return [Value(self.graph, id) if id else None for id in self.graph._list("operands", self.id)]

    @property
    def results(self) -> List[Value]:
        return [Value(self.graph, id) for id in self.graph._list("results", self.id)]

    @property
    def result(self) -> Value:
        return self.results[0]

    def flops(self, **symbols: int) -> int:
        """Arithmetic operations for these sizes of the model's symbols, the smallest ones by default."""
        return self.graph._count("flops", self.id, symbols)

    def bytes(self, **symbols: int) -> int:
        """Bytes of operands and results, likewise."""
        return self.graph._count("bytes", self.id, symbols)

    def set(self, **attributes: Any) -> None:
        """Changes attributes; the types of the results do not change."""
        self.graph._done(self.graph._api.set_attributes(self.graph._handle, self.id, json.dumps(attributes).encode()))

    def set_operand(self, index: int, value: Value) -> None:
        self.graph._done(self.graph._api.set_operand(self.graph._handle, self.id, index, value.id))

    def erase(self) -> None:
        """Removes a node whose results nobody reads. Such nodes are removed automatically when the pass ends."""
        self.graph._done(self.graph._api.erase(self.graph._handle, self.id))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other.graph is self.graph and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return self.graph._described(f"node {self.id}", lambda: f"{self.op} {self.name!r}")


class Match:
    """A node at which a pattern matches, and what its names stand for: `match["x"]`."""

    def __init__(self, graph: "Graph", pattern: bytes, node: Node):
        self.graph, self.node, self._pattern = graph, node, pattern

    def __getitem__(self, name: str) -> Value:
        if not self.graph._matches_at(self._pattern, self.node.id):
            raise self.graph._refused("an edit since has undone the match")
        return Value(self.graph, self.graph._checked(self.graph._api.captured(self.graph._handle, name.encode())))

    def replace(self, value: Value) -> None:
        """The readers of the node's result then read the value."""
        self.graph.replace(self.node.result, value)


class Graph:
    """The graph while a pass runs. Afterwards it is closed: it, its nodes, values and matches raise TN0408."""

    def __init__(self, handle: int, api: _Api):
        self._handle: Optional[int] = handle
        self._functions, self._thread = api, threading.get_ident()

    @property
    def _api(self) -> _Api:
        """Every way into C leads through here."""
        if self._handle is None:
            raise _errors.usage("TN0408", "the graph is closed, since its pass has ended", "read what you need of it while the pass runs")
        if threading.get_ident() != self._thread:
            raise _errors.usage("TN0408", "the graph is read in another thread than that of its pass", "read it in the pass's thread")
        return self._functions

    def _close(self) -> None:
        self._handle = None

    def _described(self, what: str, details: Callable[[], str]) -> str:
        return f"<{what} of a closed graph>" if self._handle is None else f"<{what}: {details()}>"

    @property
    def nodes(self) -> List[Node]:
        """In topological order: each node comes after those whose results it reads."""
        return [Node(self, id) for id in self._list("nodes")]

    @property
    def inputs(self) -> Dict[str, Value]:
        return self._ports("inputs", self._api.input_name)

    @property
    def outputs(self) -> Dict[str, Value]:
        return self._ports("outputs", self._api.output_name)

    @property
    def symbols(self) -> List[Dict[str, Any]]:
        """[{"name": "batch", "min": 1, "max": 64}]"""
        return json.loads(self._text("symbols"))

    def match(self, pattern: str) -> Iterator[Match]:
        """The matches of the pattern, in order; a match that an earlier edit undoes is left out.

        A pattern is written as `y:relu(batch_norm(conv(x, w, ...), scale, _, mean, var, epsilon=1e-5))`: names stand for
        any value, the same name for the same one; `_` for any; a number for a constant of it; `...` for
        further operands; `add|sub(a, b)` for either operation. Operands of add, mul and the like match in
        either order.
        """
        text = pattern.encode()
        for id in self._list("matches", text):
            if self._matches_at(text, id):
                yield Match(self, text, Node(self, id))

    def create(self, op: str, *operands: Optional[Value], types: Optional[Sequence[Dict[str, Any]]] = None,
               **attributes: Any) -> Value:  # fmt: skip
        """Creates a node and returns its first result. `None` is an absent optional operand.

        types: of the results, as Value.type gives them, where they do not follow from operands and attributes (reshape,
            broadcast, slice, cast).
        """
        ids = (c_uint64 * len(operands))(*(value.id if value is not None else 0 for value in operands))
        stated = json.dumps(list(types)).encode() if types is not None else None
        node = self._api.create(self._handle, op.encode(), ids, len(operands), json.dumps(attributes).encode(), stated)
        return Node(self, self._checked(node)).result

    def constant(self, array: Any, dtype: Optional[str] = None) -> Value:
        """A constant of an array's elements and shape. dtype: "bf16" and others that numpy lacks, for an array of their
        bytes."""
        import numpy

        array = numpy.ascontiguousarray(array)
        stated = {"dtype": dtype or _own_type(array.dtype), "dims": list(array.shape)}
        made = self._api.constant(self._handle, json.dumps(stated).encode(), array.ctypes.data, array.nbytes)
        return Value(self, self._checked(made))

    def replace(self, value: Value, by: Value) -> None:
        """The readers of `value` then read `by`, except the nodes that `by` is computed from."""
        self._done(self._api.replace(self._handle, value.id, by.id))

    def add_output(self, value: Value, name: str) -> None:
        """The value becomes an output of the model too, after the others."""
        self._done(self._api.add_output(self._handle, value.id, name.encode()))

    def _ports(self, which: str, name_of) -> Dict[str, Value]:
        ids = self._list(which)
        return {name_of(self._handle, index).decode(): Value(self, id) for index, id in enumerate(ids)}

    def _list(self, function: str, *of: Any) -> List[int]:
        call = getattr(self._api, function)
        room = call(self._handle, *of, None, 0)
        if self._api.error(self._handle):
            raise self._refused()
        ids = (c_uint64 * room)()
        call(self._handle, *of, ids, room)
        return list(ids)

    def _text(self, function: str, *of: int) -> str:
        text = getattr(self._api, function)(self._handle, *of)
        if text is None:
            raise self._refused()
        return text.decode()

    def _count(self, function: str, node: int, symbols: Dict[str, int]) -> int:
        values, count = None, 0
        if symbols:
            declared = self.symbols
            unknown = sorted(set(symbols) - {symbol["name"] for symbol in declared})
            if unknown:
                raise self._refused(f"the model has no symbol {unknown[0]!r}")
            count = len(declared)
            values = (c_int64 * count)(*(symbols.get(symbol["name"], symbol["min"]) for symbol in declared))
        return self._checked(getattr(self._api, function)(self._handle, node, values, count), lambda result: result >= 0)

    def _matches_at(self, pattern: bytes, node: int) -> bool:
        return self._checked(self._api.match(self._handle, pattern, node), lambda found: found >= 0) == 1

    def _checked(self, result: int, holds: Callable[[int], bool] = bool) -> int:
        if not holds(result):
            raise self._refused()
        return result

    def _done(self, code: int) -> None:
        self._checked(code, lambda code: code == 0)

    def _refused(self, text: str = "") -> _errors.Error:
        return _errors.UsageError(f"TN0408: {text or self._api.error(self._handle).decode()}", "TN0408")


@dataclasses.dataclass(frozen=True)
class Pass:
    """A function over a Graph, with its phase and tolerance.

    phase: after which it runs: "normalize" (the model's own operations, before Tenon's passes) or "optimize" (after them).
    tolerance: how much an output may change, relative to its largest element. 0 allows what rounding explains,
        infinity only measures and reports the change, below 0 nothing is compared.
    """

    function: Callable[[Graph], Any]
    name: str
    phase: str = "normalize"
    tolerance: float = 0.0

    def __call__(self, graph: Graph) -> Any:
        return self.function(graph)


def rewrite(function: Optional[Callable[[Graph], Any]] = None, *, name: Optional[str] = None,
            phase: str = "normalize", tolerance: float = 0.0):  # fmt: skip
    """Makes a function a Pass, with or without arguments: `@rewrite`, `@rewrite(tolerance=math.inf)`. The name is the
    function's by default."""

    def made(function: Callable[[Graph], Any]) -> Pass:
        return Pass(function, name or function.__name__.replace("_", "-").lower(), phase, tolerance)

    return made if function is None else made(function)


class Calls:
    """Passes as C takes them; keep it as long as the call lasts. `raised` is what the last one raised, if any did."""

    def __init__(self, passes: Sequence[Union[Pass, Callable[[Graph], Any]]]):
        self.raised: Optional[BaseException] = None
        own = [item if isinstance(item, Pass) else rewrite(item) for item in passes]
        self._runs = [_Run(self._caller(item)) for item in own]
        self.structs = (_Pass * len(own))(*(
            _Pass(name=item.name.encode(), phase=item.phase.encode(), tolerance=item.tolerance, run=run)
            for item, run in zip(own, self._runs)
        ))  # fmt: skip

    def _caller(self, item: Pass) -> Callable[..., int]:
        def run(handle: int, api: Any, user: Any) -> int:
            graph = Graph(handle, api.contents)
            try:
                item(graph)
                return 0
            except BaseException as error:  # it cannot pass through C
                self.raised = error
                api.contents.fail(handle, f"{type(error).__name__}: {error}".encode())
                return 1
            finally:
                graph._close()

        return run


# numpy's names of the types that constants have; the others hold raw bytes.
_NAMES = {"f32": 1, "f64": 2, "f16": 3, "bf16": 4, "i8": 5, "i16": 6, "i32": 7, "i64": 8, "u8": 9, "u16": 10, "u32": 11,
          "u64": 12, "bool": 13}  # fmt: skip


def _numpy_type(name: str):
    import numpy

    return _types.numpy_type(_NAMES[name]) if name in _NAMES else numpy.dtype("u1")


def _own_type(dtype: Any) -> str:
    for name, index in _NAMES.items():
        if _types.numpy_type(index) == dtype and (name != "bf16" or dtype.kind not in "u"):
            return name
    raise _errors.usage("TN0408", f"a constant cannot be of numpy's {dtype}", "convert it with astype, or give its dtype")
