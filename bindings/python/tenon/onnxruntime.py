"""ONNX Runtime's interface over Tenon, so that programs written for it run with one import changed:

    import tenon.onnxruntime as onnxruntime

    session = onnxruntime.InferenceSession("model.onnx")
    outputs = session.run(None, {"x": x})

A model is compiled when its session is made and read from the compile cache from then on. Answers are Tenon's: what it lacks is
tenon.UnsupportedError, a wrong input a tenon.UsageError (a ValueError). Of the options those count that have a meaning here: threads,
providers, free dimensions. Any number of threads may run one session.
"""

from __future__ import annotations

import enum
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _compile, _types
from ._compile import compile as _compiled
from ._engine import Engine, load
from ._errors import usage

_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
# ONNX Runtime's names of element types where they are not those of Tenon.
_ONNX_NAMES = {"float32": "float", "float64": "double", "float8_e4m3fn": "float8e4m3fn", "float8_e5m2": "float8e5m2"}


class NodeArg(NamedTuple):
    """An input or output: `type` is like "tensor(float)", a dim that varies in `shape` is its name."""

    name: str
    type: str
    shape: List[Union[int, str]]


class ModelMetadata:
    """`custom_metadata_map` is what the exporter wrote; other fields are empty, since engines do not keep them."""

    def __init__(self, entries: Dict[str, str]):
        self.custom_metadata_map = entries
        self.producer_name = self.graph_name = self.domain = self.description = self.graph_description = ""
        self.version = 0


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL, ORT_ENABLE_BASIC, ORT_ENABLE_EXTENDED, ORT_ENABLE_LAYOUT, ORT_ENABLE_ALL = 0, 1, 2, 3, 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL, ORT_PARALLEL = 0, 1


class SessionOptions:
    """`intra_op_num_threads` and the overrides of free dimensions count; other attributes may be set and change nothing."""

    def __init__(self):
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.log_severity_level = 2
        self._entries: Dict[str, str] = {}
        self._dims: Dict[str, int] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        return self._entries[key]

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        self._dims[name] = size


class RunOptions:
    """Taken and not looked at: a run has no options here."""


class OrtValue:
    """A tensor on the CPU."""

    def __init__(self, array: np.ndarray):
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(array: np.ndarray, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        return OrtValue(np.ascontiguousarray(array))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        return OrtValue(np.empty(shape, element_type))

    def numpy(self) -> np.ndarray:
        return self._array

    def shape(self) -> List[int]:
        return list(self._array.shape)

    def data_type(self) -> str:
        return f"tensor({_ONNX_NAMES.get(self._array.dtype.name, self._array.dtype.name)})"

    def element_type(self) -> int:
        raise usage("TN0105", "element_type is a number of ONNX, which this package does not have", "use data_type()")

    def device_name(self) -> str:
        return "cpu"

    def data_ptr(self) -> int:
        return self._array.ctypes.data

    def is_tensor(self) -> bool:
        return True

    def update_inplace(self, array: np.ndarray) -> None:
        np.copyto(self._array, array)


class IOBinding:
    """Tensors for InferenceSession.run_with_iobinding; all of them lie on the CPU."""

    def __init__(self, session: InferenceSession):
        self._session = session
        self._inputs: Dict[str, np.ndarray] = {}
        self._outputs: Dict[str, Optional[np.ndarray]] = {}
        self._results: Dict[str, np.ndarray] = {}

    def bind_cpu_input(self, name: str, array: np.ndarray) -> None:
        self._inputs[name] = array

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        self._inputs[name] = value.numpy()

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int) -> None:
        self._inputs[name] = _array_at(name, device_type, element_type, shape, buffer_ptr)

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:  # fmt: skip
        self._outputs[name] = None if buffer_ptr is None else _array_at(name, device_type, element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        self._outputs[name] = value.numpy()

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        pass

    def synchronize_outputs(self) -> None:
        pass

    def get_outputs(self) -> List[OrtValue]:
        return [OrtValue(self._results[name]) for name in self._outputs]

    def copy_outputs_to_cpu(self) -> List[np.ndarray]:
        return [self._results[name] for name in self._outputs]

    def _run(self) -> None:
        results = self._session.run(list(self._outputs), self._inputs)
        self._results = {}
        for (name, place), result in zip(self._outputs.items(), results):
            if place is not None:
                if place.shape != result.shape:
                    raise usage("TN0605", f"output '{name}' is {list(result.shape)}, its place {list(place.shape)}", "bind a place of that shape")
                np.copyto(place, result)
            self._results[name] = result if place is None else place


def _array_at(name: str, device_type: str, element_type: Any, shape: Optional[Sequence[int]], pointer: int) -> np.ndarray:
    import ctypes

    if device_type != "cpu" or shape is None:
        raise usage("TN0605", f"'{name}' is bound to memory of '{device_type}'", "bind memory of the CPU with a shape and a numpy type")
    dtype = np.dtype(element_type)
    memory = (ctypes.c_byte * (int(np.prod(shape)) * dtype.itemsize)).from_address(pointer)
    return np.frombuffer(memory, dtype).reshape(shape)


class InferenceSession:
    """A model of a path or of bytes, or an engine that `tenon compile` wrote."""

    def __init__(self, path_or_bytes: Union[str, os.PathLike, bytes], sess_options: Optional[SessionOptions] = None,
                 providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[dict]] = None, **kwargs):  # fmt: skip
        self._options = sess_options or SessionOptions()
        self._engine = self._open(path_or_bytes, _chosen(providers))
        self._names = [port.name for port in self._engine.outputs]
        self._facts: Optional[dict] = None

    def _open(self, model: Any, provider: str) -> Engine:
        threads = self._options.intra_op_num_threads
        if not isinstance(model, (bytes, bytearray, memoryview)) and str(model).endswith(".tenon"):
            return load(model, threads=threads)
        target = _cuda_target() if provider == _CUDA else None
        return _compiled(model, target=target, threads=threads, dynamic_shapes=self._fixed(model) if self._options._dims else None)

    def _fixed(self, model: Any) -> Dict[str, str]:
        """Shapes with the overridden dims in place of their names."""
        shapes = {}
        for port in _compile.inspect(model)["inputs"]:
            dims = [str(self._options._dims.get(dim, "?")) for dim in _dims_of(port["type"])]
            if any(dim != "?" for dim in dims):
                shapes[port["name"]] = "x".join(dims)
        return shapes

    def run(self, output_names: Optional[Sequence[str]], input_feed: Dict[str, Any], run_options: Optional[RunOptions] = None) -> list:
        """The outputs of these names, or all in the model's order."""
        feed = {name: value.numpy() if isinstance(value, OrtValue) else value for name, value in input_feed.items()}
        outputs = self._engine.run(feed)
        names = self._names if not output_names else output_names
        unknown = [name for name in names if name not in outputs]
        if unknown:
            raise usage("TN0601", f"there is no output '{unknown[0]}'", f"the outputs are {', '.join(self._names)}")
        return [outputs[name] for name in names]

    def run_with_ort_values(self, output_names: Optional[Sequence[str]], input_feed: Dict[str, OrtValue],
                            run_options: Optional[RunOptions] = None) -> List[OrtValue]:  # fmt: skip
        return [OrtValue(array) for array in self.run(output_names, input_feed)]

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Optional[RunOptions] = None) -> None:
        iobinding._run()

    def get_inputs(self) -> List[NodeArg]:
        return self._ports("inputs", self._engine.inputs)

    def get_outputs(self) -> List[NodeArg]:
        return self._ports("outputs", self._engine.outputs)

    def get_overridable_initializers(self) -> List[NodeArg]:
        return []

    def get_modelmeta(self) -> ModelMetadata:
        entries = self._engine.record("metadata") if "metadata" in self._inspected()["records"] else {}
        return ModelMetadata({key: value if isinstance(value, str) else str(value) for key, value in entries.items()})

    def get_providers(self) -> List[str]:
        return [_CPU] if self._engine.gpu is None else [_CUDA, _CPU]

    def get_provider_options(self) -> Dict[str, dict]:
        return {provider: {} for provider in self.get_providers()}

    def get_session_options(self) -> SessionOptions:
        return self._options

    def end_profiling(self) -> str:
        raise usage("TN0105", "sessions of this package do not write profiles", "use engine.profile() or `tenon bench --regions`")

    def _inspected(self) -> dict:
        if self._facts is None:
            self._facts = _compile.inspect(self._engine)
        return self._facts

    def _ports(self, kind: str, ports: list) -> List[NodeArg]:
        return [
            NodeArg(port.name, f"tensor({_ONNX_NAMES.get(port.dtype, port.dtype)})",
                    [int(dim) if dim.isdecimal() else dim for dim in _dims_of(told["type"])])
            for port, told in zip(ports, self._inspected()[kind])
        ]  # fmt: skip

    def __reduce__(self):
        return _session_of, (self._engine, self._options)


def _session_of(engine: Engine, options: SessionOptions) -> InferenceSession:
    session = InferenceSession.__new__(InferenceSession)
    session._options, session._engine, session._facts = options, engine, None
    session._names = [port.name for port in engine.outputs]
    return session


def _dims_of(port_type: str) -> List[str]:
    """ "f32 [T, 1, 256]" as ["T", "1", "256"]."""
    inner = port_type[port_type.index("[") + 1 : -1]
    return [dim.strip() for dim in inner.split(",")] if inner else []


def _chosen(providers: Optional[Sequence[Any]]) -> str:
    """The first of the providers that there is; ONNX Runtime falls back to the CPU as well."""
    for provider in providers or ():
        name = provider if isinstance(provider, str) else provider[0]
        # What there is takes a look at the driver, which a session for the CPU need not wait for.
        if name == _CPU or (name == _CUDA and _CUDA in get_available_providers()):
            return name
    return _CPU


def _cuda_target() -> str:
    return _compile.cuda_target(divmod(int(_compile.doctor()["gpu"]["devices"][0]["capability"].removeprefix("sm_")), 10))


def get_available_providers() -> List[str]:
    return [_CUDA, _CPU] if _compile.doctor()["gpu"]["devices"] else [_CPU]


def get_all_providers() -> List[str]:
    return [_CUDA, _CPU]


def get_device() -> str:
    return "GPU" if _CUDA in get_available_providers() else "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Taken and not looked at: nothing is logged."""


def disable_telemetry_events() -> None:
    """There are none."""
