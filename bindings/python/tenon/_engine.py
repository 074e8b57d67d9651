# One file, since engines and sessions hold each other's lifetime.
"""Engines and sessions: tensors in, tensors out.

A call does little beyond the C function: shapes, room for outputs and structs are kept from the run before and made
anew only when shapes change. Contiguous tensors are used where they lie.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import operator
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _abi, _errors, _types
from ._errors import check, door, usage

if TYPE_CHECKING:
    from ._profile import Profile

_runtime = _abi.runtime
_run = _runtime.tenon_session_run
_run_tensors = _runtime.tenon_session_run_tensors

# In numpy's flags: contiguous in C's order, and aligned.
_DENSE = 0x0101
_HOST, _CUDA = 1, 2
# tenon_run_options.stream for the default stream, whose number is 0 in torch.
_DEFAULT_STREAM = 1


class Port(NamedTuple):
    """An input or output of an engine. A dim that varies is a pair of its smallest and largest value."""

    name: str
    dtype: str
    shape: Tuple[Union[int, Tuple[int, int]], ...]


class _Port:
    """What a session needs of a port."""

    def __init__(self, info: _abi.PortInfo):
        self.name = info.name.decode()
        self.type = info.dtype
        self.rank = info.rank
        least, most = info.min_dims[: info.rank], info.max_dims[: info.rank]
        self.shape = tuple(low if low == high else (low, high) for low, high in zip(least, most))
        self.is_fixed = least == most

    def numpy(self):
        return _types.numpy_type(self.type)


def _ports(count: int, describe, handle: int) -> List[_Port]:
    ports = []
    for index in range(count):
        info = _abi.PortInfo()
        check(describe(handle, index, ctypes.addressof(info)))
        ports.append(_Port(info))
    return ports


def _destroy_with(owner: Any, destroy) -> None:
    """Destroys the handle with its owner, but not as the interpreter ends: a daemon thread may be in a run then."""
    weakref.finalize(owner, destroy, owner._handle).atexit = False


class Session:
    """One run at a time of an engine, with its memory and its state. Made by `Engine.session`.

    Threads. Any number may call one session: they take turns and share the state that the model keeps.
    """

    def __init__(self, engine: "Engine", threads: int = 0, memory_limit: int = 0, values: Optional[Dict[str, int]] = None):
        handle = ctypes.c_void_p()
        values = {name: operator.index(value) for name, value in (values or {}).items()}
        given = (_abi.SessionValue * len(values))(*((name.encode(), value) for name, value in values.items()))
        options = _abi.SessionOptions(threads=threads, memory_limit=memory_limit, values=given, value_count=len(values))
        check(_runtime.tenon_session_create(engine._handle, ctypes.addressof(options), ctypes.addressof(handle)))
        self.engine, self._threads, self._memory_limit, self._values = engine, threads, memory_limit, values
        self._handle = handle.value
        _destroy_with(self, _runtime.tenon_session_destroy)
        self._inputs, self._outputs = engine._inputs, engine._outputs
        self._in = (_abi.Input * len(self._inputs))()
        self._out = (_abi.Output * len(self._outputs))()
        self._in_slots, self._out_slots = list(self._in), list(self._out)
        self._in_at, self._out_at = ctypes.addressof(self._in), ctypes.addressof(self._out)
        self._shapes: Optional[list] = None
        self._out_shapes: List[Tuple[int, ...]] = []
        self._varying = [i for i, port in enumerate(self._outputs) if not port.is_fixed]
        self._types: Optional[tuple] = None  # numpy's of inputs and outputs, once they are needed
        self._tensors = None  # of the last run on a GPU
        self._lock = threading.Lock()  # one run at a time: shapes, slots and memory are those of one

    def __reduce__(self):
        """For pickle: another session of the same engine; the state of the model is not taken along."""
        return Session, (self.engine, self._threads, self._memory_limit, self._values)

    def run(self, *args, **kwargs) -> Dict[str, Any]:
        """As `Engine.run`, with the state of this session."""
        return dict(zip(self.engine._output_names, self._call(self.engine._bind(args, kwargs))))

    def __call__(self, *args, **kwargs):
        """As `Engine.__call__`, with the state of this session."""
        outputs = self._call(args if not kwargs and len(args) == len(self._inputs) else self.engine._bind(args, kwargs))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def reset_state(self) -> None:
        """Sets the model's state (KV caches and the like) to zero."""
        with self._lock:
            check(_runtime.tenon_session_reset_state(self._handle))

    def memory(self) -> Dict[str, int]:
        """Bytes that the session holds, by purpose."""
        use = _abi.MemoryUse()
        with self._lock:
            check(_runtime.tenon_session_memory(self._handle, ctypes.addressof(use)))
        return {name: getattr(use, name) for name, _ in use._fields_[1:]}

    def facts(self) -> Dict[str, Any]:
        """The parts of a run with the dims last used, and the result of the last run."""
        facts = _abi.RunFacts()
        with self._lock:
            check(_runtime.tenon_session_facts(self._handle, ctypes.addressof(facts)))
        return {name: getattr(facts, name) for name, _ in facts._fields_[1:]}

    def _call(self, values: Sequence[Any]) -> list:
        with self._lock:
            return self._call_alone(values)

    def _call_alone(self, values: Sequence[Any]) -> list:
        numpy = sys.modules.get("numpy") or __import__("numpy")
        array = numpy.ndarray
        if self._types is None:
            self._types = [port.numpy() for port in self._inputs], [port.numpy() for port in self._outputs]
        in_types, out_types = self._types
        shapes, kept, torch = [], [], None
        for port, dtype, slot, value in zip(self._inputs, in_types, self._in_slots, values):
            if type(value) is not array:
                torch = torch or sys.modules.get("torch")
                if torch and isinstance(value, torch.Tensor):
                    return self._call_torch(torch, values)
                value = self._to_array(numpy, port, value)
            if value.dtype != dtype:
                self._refuse_type(port, value)
            if value.flags.num & _DENSE != _DENSE:
                value = numpy.require(value, requirements=["C", "A"])
            slot.data = value.ctypes.data
            shapes.append(value.shape)
            kept.append(value)
        if shapes != self._shapes:
            self._prepare(shapes)
        outputs = []
        for dtype, slot, shape in zip(out_types, self._out_slots, self._out_shapes):
            output = numpy.empty(shape, dtype)
            slot.data, slot.bytes = output.ctypes.data, output.nbytes
            outputs.append(output)
        status = _run(self._handle, self._in_at, len(self._in_slots), self._out_at, len(outputs))
        if status:
            raise _errors.take(status)
        return self._cut(outputs) if self._varying else outputs

    def _to_array(self, numpy, port: _Port, value):
        """Anything with the buffer protocol, __array__ or DLPack without a copy; numbers and lists with one."""
        try:
            if isinstance(value, (bool, int, float, complex, list, tuple)):
                return numpy.asarray(value, port.numpy())
            if isinstance(value, (bytes, bytearray)):
                return numpy.frombuffer(value, port.numpy())
            return numpy.asarray(value)
        except Exception as error:
            raise usage(
                "TN0105", f"input '{port.name}' is a {type(value).__name__}: {error}", "give a numpy array or a torch tensor"
            ) from None

    def _refuse_type(self, port: _Port, value) -> None:
        expected = _types.DTYPES[port.type - 1].name
        raise usage("TN0108", f"input '{port.name}' takes {expected}, not {value.dtype}", f"convert it to {expected}")

    def _refuse_layout(self, port: _Port, value) -> None:
        is_dense = str(value.layout) == "torch.strided" and not value.is_nested
        what = f"is on the device '{value.device.type}'" if is_dense else "is nested" if value.is_nested else f"has the layout {value.layout}"
        raise usage("TN0108", f"input '{port.name}' {what}", "give a dense tensor on the CPU or a CUDA device: x.to_dense(), x.cpu()")

    def _prepare(self, shapes: list) -> None:
        """Makes the session ready for these shapes and finds those of the outputs."""
        self._shapes = None
        self._dims = [(ctypes.c_int64 * max(len(shape), 1))(*shape) for shape in shapes]
        for slot, dims, shape in zip(self._in_slots, self._dims, shapes):
            slot.dims, slot.rank = ctypes.addressof(dims), len(shape)
        check(_runtime.tenon_session_prepare(self._handle, self._in_at, len(shapes)))
        self._out_shapes = [self._output_shape(index) for index in range(len(self._outputs))]
        self._shapes = shapes

    def _output_shape(self, index: int) -> Tuple[int, ...]:
        dims, rank = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_size_t()
        check(
            _runtime.tenon_session_output_shape(
                self._handle, index, ctypes.addressof(dims), ctypes.addressof(rank), None
            )
        )
        return tuple(dims[: rank.value])

    def _cut(self, outputs: list) -> list:
        """Outputs whose size the data decided, as large as they are; room was made for the largest."""
        for index in self._varying:
            shape = self._output_shape(index)
            if shape != self._out_shapes[index]:
                count = 1
                for dim in shape:
                    count *= dim
                outputs[index] = outputs[index].reshape(-1)[:count].reshape(shape)
        return outputs

    def _call_torch(self, torch, values: Sequence[Any]) -> list:
        tensors, shapes = [], []
        device = None
        for port, value in zip(self._inputs, values):
            expected = _types.torch_type(port.type)
            if not isinstance(value, torch.Tensor):
                value = torch.as_tensor(self._to_array(__import__("numpy"), port, value))
            if value.dtype != expected:
                self._refuse_type(port, value)
            if value.layout is not torch.strided or value.is_nested or value.device.type not in ("cpu", "cuda"):
                self._refuse_layout(port, value)
            if value.requires_grad and torch.is_grad_enabled():
                raise _errors.no_gradient(f"input '{port.name}' requires grad")
            if not value.is_contiguous() or value.is_conj() or value.is_neg():
                value = value.resolve_conj().resolve_neg().contiguous()
            if value.is_cuda:
                device = value.device
            tensors.append(value)
            shapes.append(tuple(value.shape))
        if shapes != self._shapes:
            self._prepare(shapes)
        if device is None:
            return self._run_host(torch, tensors)
        return self._run_device(torch, tensors, device)

    def _empty(self, torch, device) -> list:
        return [
            torch.empty(shape, dtype=_types.torch_type(port.type), device=device)
            for port, shape in zip(self._outputs, self._out_shapes)
        ]

    def _run_host(self, torch, tensors: list) -> list:
        for slot, tensor in zip(self._in_slots, tensors):
            slot.data = tensor.data_ptr()
        outputs = self._empty(torch, "cpu")
        for slot, output in zip(self._out_slots, outputs):
            slot.data, slot.bytes = output.data_ptr(), output.nbytes
        status = _run(self._handle, self._in_at, len(tensors), self._out_at, len(outputs))
        if status:
            raise _errors.take(status)
        return self._cut(outputs) if self._varying else outputs

    def _run_device(self, torch, tensors: list, device) -> list:
        """Puts the run on torch's current stream of the device. Memory is torch's, which orders its reuse by that
        stream; the tensors of the last run are kept because the run may not have begun."""
        outputs = self._empty(torch, device)
        stream = torch.cuda.current_stream(device).cuda_stream or _DEFAULT_STREAM
        options = _abi.RunOptions(stream=stream)
        given, room = self._descriptors(tensors, self._inputs), self._descriptors(outputs, self._outputs)
        status = _run_tensors(
            self._handle, ctypes.addressof(given[0]), len(tensors), ctypes.addressof(room[0]), len(outputs),
            ctypes.addressof(options),
        )  # fmt: skip
        if status:
            raise _errors.take(status)
        self._tensors = tensors
        return self._cut(outputs) if self._varying else outputs

    @staticmethod
    def _descriptors(tensors: list, ports: List[_Port]) -> tuple:
        """An array of pointers to DLTensors, and what it points to."""
        structs, dims = (_abi.Tensor * len(tensors))(), []
        pointers = (ctypes.c_void_p * len(tensors))()
        for index, (tensor, port) in enumerate(zip(tensors, ports)):
            entry = _types.DTYPES[port.type - 1]
            dims.append((ctypes.c_int64 * max(tensor.dim(), 1))(*tensor.shape))
            on_gpu = tensor.is_cuda
            structs[index] = _abi.Tensor(
                tensor.data_ptr(), _CUDA if on_gpu else _HOST, tensor.get_device() if on_gpu else 0, tensor.dim(),
                entry.code, entry.bits, 1, ctypes.addressof(dims[-1]), None, 0,
            )  # fmt: skip
            pointers[index] = ctypes.addressof(structs[index])
        return pointers, structs, dims


def _leaves(argument: Any) -> list:
    """The tensors of a tree, in the order of the engine's inputs; what has none stays as it is."""
    if isinstance(argument, dict):
        parts = list(argument.values())
    elif isinstance(argument, (list, tuple)):
        parts = list(argument)
    elif dataclasses.is_dataclass(argument) and not isinstance(argument, type):
        parts = [getattr(argument, field.name) for field in dataclasses.fields(argument)]
    else:
        return [argument]
    leaves = [leaf for part in parts for leaf in _leaves(part)]
    return leaves if leaves and all(hasattr(leaf, "shape") for leaf in leaves) else [argument]


class Engine:
    """A compiled model, made by `tenon.compile` or `tenon.load`.

    Threads. Any number may run one engine at once: each gets a session of its own at its first run. State that the
    model keeps between runs belongs to the session: use `session()` for several sequences in one thread. `values` are
    for symbols that size the state of its sessions, {"pages": 64}; `tenon inspect` lists them.
    """

    def __init__(self, source: Union[str, os.PathLike, bytes, memoryview], *, variant: Optional[str] = None, gpu: int = 0,
                 verify: bool = True, threads: int = 0, values: Optional[Dict[str, int]] = None):  # fmt: skip
        handle = ctypes.c_void_p()
        options = _abi.EngineOptions(variant=variant.encode() if variant else None, no_verify_weights=not verify, gpu=gpu)
        if isinstance(source, (str, os.PathLike)):
            self.path: Optional[str] = os.fspath(source)
            check(_runtime.tenon_engine_open(os.fsencode(source), ctypes.addressof(options), ctypes.addressof(handle)))
        else:
            import numpy

            self.path = None
            self._memory = numpy.frombuffer(source, numpy.uint8)  # kept: weights are read where they lie
            check(_runtime.tenon_engine_open_memory(
                self._memory.ctypes.data, self._memory.nbytes, ctypes.addressof(options), ctypes.addressof(handle)
            ))  # fmt: skip
        self._handle = handle.value
        _destroy_with(self, _runtime.tenon_engine_destroy)
        count = _runtime.tenon_engine_input_count(self._handle)
        self._inputs = _ports(count, _runtime.tenon_engine_input, self._handle)
        count = _runtime.tenon_engine_output_count(self._handle)
        self._outputs = _ports(count, _runtime.tenon_engine_output, self._handle)
        self._output_names = [port.name for port in self._outputs]
        self._threads = operator.index(threads)
        self._values = dict(values or {})
        self._options = dict(variant=variant, gpu=gpu, verify=verify, threads=threads, values=values)
        self._is_temporary = False
        self._local = threading.local()
        #: What the compiler said of the compilation; empty for an engine that was loaded.
        self.report: Dict[str, Any] = {}

    @property
    def inputs(self) -> List[Port]:
        return [Port(port.name, _types.DTYPES[port.type - 1].name, port.shape) for port in self._inputs]

    @property
    def outputs(self) -> List[Port]:
        return [Port(port.name, _types.DTYPES[port.type - 1].name, port.shape) for port in self._outputs]

    @property
    def variant(self) -> str:
        """The CPU level or GPU architecture in use."""
        return _runtime.tenon_engine_variant(self._handle).decode()

    @property
    def gpu(self) -> Optional[int]:
        """Number of the GPU in use; None on a CPU."""
        number = _runtime.tenon_engine_gpu(self._handle)
        return None if number < 0 else number

    @door
    def session(self, *, threads: int = 0, memory_limit: int = 0, values: Optional[Dict[str, int]] = None) -> Session:
        """A session with a state of its own. `threads` work on a run; 0 means all CPUs. `values` are for symbols that size
        the state, {"pages": 64}, in place of those of the engine."""
        return Session(self, threads or self._threads, memory_limit, {**self._values, **(values or {})})

    def run(self, *args, **kwargs) -> Dict[str, Any]:
        """Runs the model and returns the outputs by name.

        Inputs come in the engine's order, by name, or as one dict. They are numpy arrays, torch tensors (CPU or CUDA),
        or anything with the buffer protocol; contiguous ones are not copied. With a torch tensor among the inputs the
        outputs are torch tensors, on its device; on CUDA the run is put on torch's current stream. One that requires
        grad is refused with TN0303 unless gradients are off: its history would end here unseen.
        """
        return dict(zip(self._output_names, self._session()._call(self._bind(args, kwargs))))

    def __call__(self, *args, **kwargs):
        """As `run`, but returns the output, or a tuple of several."""
        outputs = self._session()._call(
            args if not kwargs and len(args) == len(self._inputs) else self._bind(args, kwargs)
        )
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _session(self) -> Session:
        try:
            return self._local.session
        except AttributeError:
            self._local.session = Session(self, self._threads, 0, self._values)
            return self._local.session

    def _bind(self, args: tuple, kwargs: Dict[str, Any]) -> Sequence[Any]:
        """The inputs in the engine's order."""
        names = [port.name for port in self._inputs]
        if len(args) == 1 and isinstance(args[0], dict) and not kwargs:
            leaves = _leaves(args[0])
            is_tree = len(leaves) == len(names) and not set(args[0]) & set(names)
            args, kwargs = (tuple(leaves), {}) if is_tree else ((), args[0])
        args = tuple(leaf for argument in args for leaf in _leaves(argument))
        unknown = [name for name in kwargs if name not in names[len(args) :]]
        missing = [name for name in names[len(args) :] if name not in kwargs]
        if len(args) > len(names) or unknown or missing:
            what = (
                f"{len(args)} inputs were given" if len(args) > len(names)
                else f"there is no input '{unknown[0]}'" if unknown
                else f"input '{missing[0]}' is missing"
            )  # fmt: skip
            raise usage("TN0601", what, f"the inputs are {', '.join(names) or 'none'}")
        return [*args, *(kwargs[name] for name in names[len(args) :])]

    @door
    def record(self, name: str) -> Dict[str, Any]:
        """What the compiler recorded: "fusion", "memory", "placement", "precision", or the "metadata" of a model that has some."""
        import json

        if name == "precision":
            return self.explain(name, format="json")
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        check(_runtime.tenon_engine_record(self._handle, name.encode(), ctypes.addressof(text), ctypes.addressof(size)))
        return json.loads(ctypes.string_at(text.value, size.value))

    @door
    def explain(self, topic: str = "fusion", node: Optional[str] = None, *, format: str = "text"):
        """Why each region is as it is: topic is "fusion", "memory", "placement",
        "precision" or "passes" (your own). Format "text" or "json"."""
        from . import _compile

        try:
            return _compile.explain(self._file(), topic, node, format)
        except _errors.Error as error:
            _errors.reword(error, f"tenon explain {topic} {self._file()} --all", f"engine.explain('{topic}')")
            raise

    @door
    def bench(self, *, seconds: float = 2.0, threads: Optional[int] = None, shapes: Sequence[str] = ()) -> Dict[str, Any]:
        """Latency, throughput, load time and memory on seeded inputs, as `tenon bench` measures them."""
        from . import _compile

        flags = [f"--seconds={seconds}", f"--variant={self.variant}", *(f"--shape={shape}" for shape in shapes)]
        flags += [f"--threads={threads or self._threads}"] if threads or self._threads else []
        return _compile.verb("bench", self._file(), *flags)

    @door
    def profile(
        self, *, seconds: float = 2.0, threads: Optional[int] = None, shapes: Sequence[str] = (), html: Optional[str] = None
    ) -> "Profile":
        """What the model's operators cost, what limits each and what to try, like `tenon profile --json`.

        A notebook shows it as a table; `html` names a file for the whole page. Inputs are seeded, with the likely sizes unless `shapes` sets them.
        """
        from . import _compile
        from ._profile import Profile

        flags = [f"--seconds={seconds}", f"--variant={self.variant}", *(f"--shape={shape}" for shape in shapes)]
        flags += [f"--threads={threads or self._threads}"] if threads or self._threads else []
        flags += [f"--html={html}"] if html else []
        return Profile(_compile.verb("profile", self._file(), *flags))

    @door
    def save(self, path: Union[str, os.PathLike]) -> None:
        """Writes the engine to a file of its own."""
        import shutil

        try:
            shutil.copyfile(self._file(), path)
        except OSError as error:
            raise usage("TN0103", f"cannot write '{os.fspath(path)}': {error.strerror}", "name a file in a folder that exists") from None

    def __reduce__(self):
        """For pickle and multiprocessing: the bytes of an engine that was compiled without `output` or opened in memory, else its path."""
        if self.path is None:
            source = self._memory.tobytes()
        elif self._is_temporary:
            with open(self.path, "rb") as file:
                source = file.read()
        else:
            source = os.path.abspath(self.path)
        return functools.partial(Engine, **self._options), (source,)

    def _file(self) -> str:
        """A path of the engine's file; an engine in memory is written once."""
        if self.path is None:
            import tempfile

            folder = tempfile.mkdtemp(prefix="tenon-")
            self._goes_with_me(folder)
            self.path = os.path.join(folder, "model.tenon")
            self._memory.tofile(self.path)
        return self.path

    def _goes_with_me(self, folder: str) -> None:
        import shutil

        self._is_temporary = True
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def __repr__(self) -> str:
        def ports(list_):
            return ", ".join(f"{port.name}: {port.dtype}{_shape_text(port.shape)}" for port in list_)

        return f"<tenon.Engine {self.variant}: {ports(self.inputs)} -> {ports(self.outputs)}>"

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><td>{kind}</td><td>{escape(port.name)}</td><td>{port.dtype}</td><td>{_shape_text(port.shape)}</td></tr>"
            for kind, ports in (("input", self.inputs), ("output", self.outputs))
            for port in ports
        )
        place = self.variant if self.gpu is None else f"{self.variant}, GPU {self.gpu}"
        return (
            f"<table><caption>Tenon engine ({escape(place)})</caption>"
            f"<tr><th></th><th>name</th><th>type</th><th>shape</th></tr>{rows}</table>"
        )


def _shape_text(shape: tuple) -> str:
    return "[" + ", ".join(f"{dim[0]}..{dim[1]}" if isinstance(dim, tuple) else str(dim) for dim in shape) + "]"


@door
def load(source: Union[str, os.PathLike, bytes, memoryview], *, variant: Optional[str] = None, gpu: int = 0,
         verify: bool = True, threads: int = 0, values: Optional[Dict[str, int]] = None) -> Engine:  # fmt: skip
    """Opens an engine file, one in memory, or a version of a registry.

    source: a path, the bytes of one, or "registry:NAME@ALIAS" or "registry:NAME:VERSION" of $TENON_REGISTRY (see `tenon.registry`).
    variant: CPU level or GPU architecture to use instead of the best one that this machine runs.
    gpu: number of the GPU, as NVIDIA's driver counts. verify: compare the weights with their hashes first.
    threads: CPU threads that work on a run; 0 means all that are usable.
    values: for symbols that size the state of its sessions, {"pages": 64}; `tenon inspect` lists them.
    An engine holds native code: open only engines from sources whose programs you would run.
    """
    if isinstance(source, str) and source.startswith("registry:"):
        from . import registry

        source = registry.file_of(source)
    return Engine(source, variant=variant, gpu=gpu, verify=verify, threads=threads, values=values)
