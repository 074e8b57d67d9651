"""InferenceSession: an engine for all sizes of the model's inputs, or engines for one set of sizes each where Tenon has none for all."""

from __future__ import annotations

import collections
import os
import threading
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from .. import _compile
from .._engine import Engine, load
from .._errors import Error, UnsupportedError, usage
from ._metadata import ModelMetadata, metadata_of
from ._options import RunOptions, SessionOptions
from ._values import IOBinding, OrtValue, type_name

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
# So many sets of sizes have an engine in memory; those of others are read from the compile cache again.
_KEPT = 16
# What an engine answers to a dim beyond its range, which is what the compiler assumes of free dims; where it has left a branch out that
# these sizes take; and where a node of it has a meaning for other sizes only.
_OUT_OF_RANGE, _RULED_OUT, _MISFIT = "TN0603", "TN0611", "TN0612"


class NodeArg(NamedTuple):
    """An input or output: `type` is like "tensor(float)"; in `shape` a dim that varies is its name, or None without one."""

    name: str
    type: str
    shape: List[Union[int, str, None]]


class InferenceSession:
    """A model of a path or of bytes, or an engine that `tenon compile` wrote."""

    def __init__(self, path_or_bytes: Union[str, os.PathLike, bytes], sess_options: Optional[SessionOptions] = None,
                 providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[dict]] = None, **kwargs):  # fmt: skip
        is_bytes = isinstance(path_or_bytes, (bytes, bytearray, memoryview))
        self._model = bytes(path_or_bytes) if is_bytes else os.path.abspath(path_or_bytes)
        self._options = sess_options or SessionOptions()
        self._provider = _chosen(providers)
        self._is_engine = not is_bytes and self._model.endswith(".tenon")
        self._shapes = self._fixed() if self._options._dims else {}
        self._initializers: tuple = ()  # those that are inputs of this session's engines
        self._begin(self._open())

    def _begin(self, engine: Optional[Engine]) -> None:
        self._engine = engine
        self._overriding: Dict[tuple, "InferenceSession"] = {}
        self._has_said = False  # that sets of sizes have engines of their own
        self._sized: "collections.OrderedDict[tuple, Engine]" = collections.OrderedDict()
        self._lock = threading.Lock()
        self._facts: Optional[dict] = None
        self._defaults: Optional[List[NodeArg]] = None
        self._names = [port["name"] for port in self._inspected()["outputs"]] if engine is None else [port.name for port in engine.outputs]
        inputs = {port["name"] for port in self._inspected()["inputs"]} if engine is None else {port.name for port in engine.inputs}
        self._inputs = inputs.union(self._initializers)

    def _open(self) -> Optional[Engine]:
        """The engine for all sizes; None where Tenon has engines for fixed sizes only."""
        if self._is_engine:
            return load(self._model, threads=self._options.intra_op_num_threads)
        try:
            return self._compiled(self._shapes)
        except UnsupportedError as error:
            if error.id != "TN0301" or not self._may_run_with_fixed_sizes():
                raise
            warnings.warn(f"the model is compiled at the first run of each set of sizes: {error}", RuntimeWarning, stacklevel=3)
            return None

    def _compiled(self, shapes: Dict[str, Sequence[Any]]) -> Engine:
        target = _cuda_target() if self._provider == CUDA else None
        return _compile.compile(self._model, target=target, threads=self._options.intra_op_num_threads, dynamic_shapes=shapes)

    def _fixed(self) -> Dict[str, List[str]]:
        """Shapes with the overridden dims in place of their names."""
        dims = {port["name"]: _dims_of(port["type"]) for port in _compile.inspect(self._model)["inputs"]}
        return {name: [str(self._options._dims.get(dim, "?")) for dim in each] for name, each in dims.items() if each}

    def _may_run_with_fixed_sizes(self) -> bool:
        """Whether free dims are all that may stand in the way: with a size of 1 for each, no node has the same gap."""
        facts = _compile.inspect(self._model)
        shapes = {port["name"]: _dims_of(port["type"]) for port in facts["inputs"]}
        if all(dim.isdecimal() for dims in shapes.values() for dim in dims):
            return False
        ones = {name: [dim if dim.isdecimal() else "1" for dim in dims] for name, dims in shapes.items() if dims}
        try:
            still = {(gap["node"], gap["why"]) for gap in _compile.check(self._model, dynamic_shapes=ones)["gaps"]}
        except Error:  # sizes of 1 do not fit, which says nothing
            return True
        return not any((gap["node"], gap["why"]) in still for gap in facts["missing"])

    def run(self, output_names: Optional[Sequence[str]], input_feed: Dict[str, Any], run_options: Optional[RunOptions] = None) -> list:
        """The outputs of these names, or all in the model's order."""
        names = self._names if not output_names else output_names
        unknown = [name for name in names if name not in self._names]
        if unknown:
            raise usage("TN0601", f"there is no output '{unknown[0]}'", f"the outputs are {', '.join(self._names)}")
        feed = {name: value.numpy() if isinstance(value, OrtValue) else value for name, value in input_feed.items()}
        more = tuple(sorted(set(feed) - self._inputs))
        if more and not self._is_engine and set(more) <= {port.name for port in self.get_overridable_initializers()}:
            return self._with_inputs(more).run(names, feed)
        outputs = self._run_for_sizes(feed) if self._engine is None else self._run_for_all(self._engine, feed)
        return [outputs[name] for name in names]

    def _with_inputs(self, names: tuple) -> "InferenceSession":
        """A session of the same model in which these initializers are inputs."""
        with self._lock:
            if names not in self._overriding:
                ranks = {port.name: len(port.shape) for port in self.get_overridable_initializers()}
                session = InferenceSession.__new__(InferenceSession)
                session.__dict__.update(self._kept(), _initializers=names, _shapes={**self._shapes, **{name: ["?"] * ranks[name] for name in names}})
                session._begin(session._open())
                self._overriding[names] = session
            return self._overriding[names]

    def _run_for_all(self, engine: Engine, feed: Dict[str, Any]) -> Dict[str, np.ndarray]:
        if self._sized and _key_of(feed) in self._sized:
            return self._run_for_sizes(feed)
        try:
            return engine.run(feed)
        except Error as error:
            has_free_dims = any(isinstance(dim, tuple) for port in engine.inputs for dim in port.shape)
            if self._is_engine or not has_free_dims or error.id not in (_OUT_OF_RANGE, _RULED_OUT, _MISFIT):
                raise
            if error.id == _OUT_OF_RANGE and self._widen(engine, feed):
                return self._run_for_all(self._engine, feed)
            try:
                outputs = self._run_for_sizes(feed)
            except Error:
                raise error from None
            if not self._has_said:
                self._has_said = True
                warnings.warn(f"sizes that the engine for all does not take have engines of their own, compiled at their first run: {error}",
                              RuntimeWarning, stacklevel=4)  # fmt: skip
            return outputs

    def _widen(self, engine: Engine, feed: Dict[str, Any]) -> bool:
        """Whether the session has another engine now, which takes larger dims, or empty ones, where these are beyond its range."""
        with self._lock:
            if self._engine is not engine:  # another thread's
                return True
            wider = dict(self._shapes)
            for port in engine.inputs:
                dims = wider.get(port.name, ["?"] * len(port.shape))
                wider[port.name] = [
                    f"[{min(known[0], size)}..{max(known[1], 1 << (size - 1).bit_length())}]"
                    if isinstance(known, tuple) and not known[0] <= size <= known[1] else dim
                    for dim, known, size in zip(dims, port.shape, np.shape(feed[port.name]))
                ]  # fmt: skip
            if all(dim == "?" for name, dims in wider.items() if name not in self._shapes for dim in dims) and self._shapes.items() <= wider.items():
                return False
            try:
                self._engine, self._shapes = self._compiled(wider), wider
            except Error:  # as where nothing is said of no elements
                return False
            return True

    def _run_for_sizes(self, feed: Dict[str, Any]) -> Dict[str, np.ndarray]:
        key = _key_of(feed)
        shapes = dict(key)
        if self._inputs != set(shapes):
            raise usage("TN0601", f"inputs were given by the names {', '.join(shapes) or 'none'}", f"the inputs are {', '.join(sorted(self._inputs))}")
        with self._lock:
            engine = self._sized.pop(key, None) or self._compiled({name: shape for name, shape in shapes.items() if shape or name in self._initializers})
            self._sized[key] = engine
            if len(self._sized) > _KEPT:
                self._sized.popitem(last=False)
        return engine.run(feed)

    def run_with_ort_values(self, output_names: Optional[Sequence[str]], input_feed: Dict[str, OrtValue],
                            run_options: Optional[RunOptions] = None) -> List[OrtValue]:  # fmt: skip
        return [OrtValue(array) for array in self.run(output_names, input_feed)]

    def run_async(self, output_names: Optional[Sequence[str]], input_feed: Dict[str, Any], callback: Callable, user_data: Any,
                  run_options: Optional[RunOptions] = None) -> None:  # fmt: skip
        """Calls callback(outputs, user_data, error text) from another thread."""

        def work() -> None:
            try:
                outputs, failure = self.run(output_names, input_feed), ""
            except Exception as error:  # the caller's to raise
                outputs, failure = [], str(error)
            callback(outputs, user_data, failure)

        threading.Thread(target=work, daemon=True).start()

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Optional[RunOptions] = None) -> None:
        iobinding._run()

    def get_inputs(self) -> List[NodeArg]:
        return self._ports("inputs")

    def get_outputs(self) -> List[NodeArg]:
        return self._ports("outputs")

    def get_overridable_initializers(self) -> List[NodeArg]:
        """Initializers that the model lists among its inputs: a feed that names some has engines in which these are inputs."""
        if self._is_engine:
            return []
        if self._defaults is None:
            self._defaults = [
                NodeArg(told["name"], type_name(told["type"].partition(" ")[0]), [int(dim) if dim.isdecimal() else dim for dim in _dims_of(told["type"])])
                for told in _compile.inspect(self._model)["overridable"]
            ]  # fmt: skip
        return list(self._defaults)

    def get_modelmeta(self) -> ModelMetadata:
        if not self._is_engine:
            return metadata_of(self._model)
        entries = self._engine.record("metadata") if "metadata" in self._inspected()["records"] else {}
        return ModelMetadata({key: value if isinstance(value, str) else str(value) for key, value in entries.items()})

    def get_providers(self) -> List[str]:
        return [CUDA, CPU] if self._provider == CUDA or (self._engine and self._engine.gpu is not None) else [CPU]

    def get_provider_options(self) -> Dict[str, dict]:
        return {provider: {} for provider in self.get_providers()}

    def set_providers(self, providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[dict]] = None) -> None:
        if _chosen(providers) != self._provider:
            self._provider = _chosen(providers)
            self._begin(self._open())

    def enable_fallback(self) -> None:
        """Taken and not looked at: there is nothing to fall back to."""

    def disable_fallback(self) -> None:
        """There is nothing to fall back to."""

    def get_session_options(self) -> SessionOptions:
        return self._options

    def end_profiling(self) -> str:
        raise usage("TN0105", "sessions of this package do not write profiles", "use engine.profile() or `tenon bench --regions`")

    def _inspected(self) -> dict:
        if self._facts is None:
            self._facts = _compile.inspect(self._engine or self._model)
        return self._facts

    def _ports(self, kind: str) -> List[NodeArg]:
        facts = self._inspected()
        # The compiler names a dim without a name by input and axis.
        unnamed = {f"{port['name']}.{axis}" for port in facts["inputs"] for axis in range(len(_dims_of(port["type"])))} | {"?"}
        # Types of a model are in ONNX's words, those of an engine are not.
        words = [told["type"].partition(" ")[0] for told in facts[kind]]
        if self._engine is not None:
            words = [port.dtype for port in getattr(self._engine, kind)]
        return [
            NodeArg(told["name"], type_name(word),
                    [int(dim) if dim.isdecimal() else None if dim in unnamed else dim for dim in _dims_of(told["type"])])
            for word, told in zip(words, facts[kind])
        ]  # fmt: skip

    def _kept(self) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in ("_model", "_options", "_provider", "_is_engine", "_shapes", "_initializers")}

    def __reduce__(self):
        return _session_of, (self._kept(), self._engine)


def _session_of(kept: Dict[str, Any], engine: Optional[Engine]) -> InferenceSession:
    session = InferenceSession.__new__(InferenceSession)
    session.__dict__.update(kept)
    session._begin(engine)
    return session


def _key_of(feed: Dict[str, Any]) -> tuple:
    """The sizes of a run's inputs."""
    return tuple(sorted((name, np.shape(value)) for name, value in feed.items()))


def _dims_of(port_type: str) -> List[str]:
    """ "f32 [T, 1, 256]" as ["T", "1", "256"]; none of a type without a shape."""
    inner = port_type.partition("[")[2].removesuffix("]")
    return [dim.strip() for dim in inner.split(",")] if inner else []


def _chosen(providers: Optional[Sequence[Any]]) -> str:
    """The first of the providers that there is; ONNX Runtime falls back to the CPU as well."""
    for provider in providers or ():
        name = provider if isinstance(provider, str) else provider[0]
        # What there is takes a look at the driver, which a session for the CPU need not wait for.
        if name == CPU or (name == CUDA and CUDA in get_available_providers()):
            return name
    return CPU


def _cuda_target() -> str:
    return _compile.cuda_target(divmod(int(_compile.doctor()["gpu"]["devices"][0]["capability"].removeprefix("sm_")), 10))


def get_available_providers() -> List[str]:
    return [CUDA, CPU] if _compile.doctor()["gpu"]["devices"] else [CPU]
