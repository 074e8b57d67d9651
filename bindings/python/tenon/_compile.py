"""What needs the compiler: compile, check, inspect, explain, doctor, and any verb of the command line."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import tempfile
import threading
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

from . import _abi, _errors
from ._engine import Engine
from ._errors import check as check_status
from ._model_file import ModelFile

Progress = Callable[[str, float], Any]
Names = Union[str, Iterable[str]]


@_errors.door
def compile(
    model: Any,
    example_inputs: Optional[Sequence[Any]] = None,
    *,
    output: Union[str, os.PathLike, None] = None,
    target: Optional[Names] = None,
    precision: str = "keep",
    allow: Names = (),
    dynamic_shapes: Any = None,
    optimize_for: Sequence[Any] = (),
    states: Optional[Dict[str, str]] = None,
    taps: Names = (),
    passes: Sequence[Any] = (),
    plugins: Names = (),
    kernel_libraries: Names = (),
    unchecked_kernels: bool = False,
    kernels: Optional[Dict[str, str]] = None,
    disabled_families: Names = (),
    max_weights: float = 0,
    strict: bool = False,
    threads: int = 0,
    cache: bool = True,
    verify: bool = False,
    cubin: bool = False,
    gpu: int = 0,
    progress: Optional[Progress] = None,
) -> Engine:
    """Compiles a model and opens the engine.

    model: path or bytes of an ONNX file or of an archive of torch.export (.pt2), a torch.nn.Module with `example_inputs` (a tuple
        of positional ones or a dict of keyword ones), or a torch.export.ExportedProgram.
    output: where the engine is written; without it the engine lives as long as the object.
    target: "cpu" (any CPU with AVX2), levels "cpu:avx2,avx512" or "cpu:native", GPUs "cuda:sm_90"; several as a list. By default what
        this machine has: its CPU, or the GPU that the model's parameters are on.
    precision: "keep", "fp16", "bf16" or "fp8". allow: "tf32", "tanh-gelu", "int8-activations".
    dynamic_shapes: for torch as torch.export takes them; for files {"input": "[1..8]x128"} or {"input": {0: (1, 8)}}.
    optimize_for: sizes at which the engine is as fast as a fixed one: [1, 8, 32] for the only free one, or
        [{"input": "8x128"}, {"input": (32, 128)}]; text as the command line has it.
    states: {"input": "output"}: both are one buffer of the session, zero at first. A session decides free sizes in their dims (`Engine.session`).
    taps: inner values that become outputs too, or "all".
    passes: functions of tenon.passes that change the graph. plugins: shared objects with such passes.
    kernel_libraries: your own kernels for operators that Tenon does not have: object files, each with its description beside it
        (docs/guides/kernels.md). unchecked_kernels: also those that have no reference or do not run on this machine.
    kernels: {"node": "gemm_skinny{tile=64x48}"}: the kernel for the region of a node; `explain("kernels")` lists the choices.
    disabled_families: kernel families to exclude.
    max_weights: limit of a device's weights, as a multiple of the model's, if need be with slower kernels; 0 for no limit.
    strict: raises TN0305 if a node takes fewer sizes than the model or `dynamic_shapes` declares; `engine.report["narrowed"]` lists such nodes.
    threads: CPU threads that compile, and those that work on a run; 0 means all that are usable.
    gpu: number of the GPU for an engine that runs on one.
    progress: called with (phase, fraction); a true result ends the compilation with CancelledError.
    Ctrl-C ends it too. Raises tenon.Error; an UnsupportedError lists in `gaps` what the model needs and Tenon lacks.
    """
    with _errors.scratch("export", model) as scratch:
        file = _file(model, example_inputs, dynamic_shapes, scratch)
        # In a folder that goes with the engine, or with the failure.
        folder = None if output is not None else tempfile.mkdtemp(prefix="tenon-")
        engine_path = os.fspath(output) if folder is None else os.path.join(folder, "model.tenon")
        options = dict(
            targets=_names(target) or [_own_target(model)], precision=precision, allow=_names(allow), shapes=file.shapes,
            optimize_for=_size_sets(optimize_for), states=[f"{source}={result}" for source, result in (states or {}).items()],
            taps=_names(taps), plugins=_names(plugins), passes=passes,
            kernel_libraries=_names(kernel_libraries), unchecked_kernels=unchecked_kernels,
            kernels=[f"{node}={kernel}" for node, kernel in (kernels or {}).items()], disabled_families=_names(disabled_families),
            max_weights=max_weights, strict=strict,
            threads=threads, no_cache=not cache, verify=verify, cubin=cubin,
        )  # fmt: skip
        try:
            report = file.perform(lambda path: compile_file(path, engine_path, options, progress))
            engine = Engine(engine_path, gpu=gpu, threads=threads)
        except BaseException as error:
            # The graph before a pass that failed is there, which the error names.
            if folder and getattr(error, "id", "") != "TN0406":
                shutil.rmtree(folder, ignore_errors=True)
            raise
    if folder:
        engine._goes_with_me(folder)
    engine.report = report
    return engine


def _size_sets(sizes: Any) -> List[str]:
    """`optimize_for` as the command line has it."""
    return [
        ",".join(f"{name}:{dims if isinstance(dims, str) else 'x'.join(map(str, dims))}" for name, dims in each.items())
        if isinstance(each, dict) else str(each)
        for each in ([sizes] if isinstance(sizes, (str, dict, int)) else sizes)
    ]  # fmt: skip


def compile_file(path: str, output: str, options: Dict[str, Any], progress: Optional[Progress] = None) -> Dict[str, Any]:
    """A model file to an engine file; gives the compiler's report. KeyboardInterrupt ends it and leaves nothing."""
    library = _abi.compiler()
    cancelled = threading.Event()
    failure = []

    def told(user, phase, fraction) -> int:
        try:
            stop = progress is not None and progress(phase.decode(), fraction)
        except BaseException as error:  # it cannot pass through C
            failure.append(error)
            stop = True
        return 1 if stop or cancelled.is_set() else 0

    lists = {name: _abi.texts(options[name]) for name in ("targets", "allow", "shapes", "optimize_for", "states", "taps", "plugins", "kernels", "disabled_families", "kernel_libraries") if options.get(name)}
    own = None
    if options.get("passes"):
        from . import passes

        own = passes.Calls(options["passes"])
        lists["passes"] = own.structs
    given = _abi.CompileOptions(
        precision=options.get("precision", "keep").encode(), threads=options.get("threads", 0),
        max_weights=options.get("max_weights", 0), strict=bool(options.get("strict")),
        no_cache=bool(options.get("no_cache")), verify=bool(options.get("verify")), unchecked_kernels=bool(options.get("unchecked_kernels")), cubin=bool(options.get("cubin")),
        progress=_abi.Progress(told), pass_count=len(lists.get("passes", ())),
        **{name: ctypes.cast(value, ctypes.c_void_p if name == "passes" else _abi.Texts) for name, value in lists.items()},
    )  # fmt: skip
    blob = _abi.Blob()

    def work() -> Optional[int]:
        return library.tenon_compile(
            os.fsencode(path), os.fsencode(output), ctypes.addressof(given), ctypes.addressof(blob)
        )

    status = _interruptible(work, cancelled)
    if failure:
        if status:
            _errors.take(status)
        raise failure[0]
    try:
        check_status(status)
    except _errors.Error as error:
        raise error from (own.raised if own else None)
    return _json_of(library, blob)


def _interruptible(work: Callable[[], Optional[int]], cancelled: threading.Event) -> Optional[int]:
    """Does C work in another thread, because signals reach Python only between two of its own instructions."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    result = []
    thread = threading.Thread(target=lambda: result.append(work()), name="tenon-compile")
    thread.start()
    try:
        thread.join()
    except BaseException:
        cancelled.set()
        thread.join()
        if result and result[0]:
            _errors.take(result[0])
        raise
    return result[0]


def _file(model: Any, example_inputs, dynamic_shapes, scratch: str) -> ModelFile:
    file = ModelFile(model, example_inputs, dynamic_shapes, scratch, lambda path, shapes: check_file(path, shapes)["gaps"])
    if isinstance(model, (str, os.PathLike, bytes, bytearray, memoryview)):
        file.shapes = _shape_arguments(file.path, dynamic_shapes)
    return file


def _shape_arguments(path: str, dynamic_shapes: Any) -> list:
    arguments = []
    for name, dims in (dynamic_shapes or {}).items():
        if isinstance(dims, dict):
            types = {entry["name"]: entry["type"] for entry in inspect(path)["inputs"]}
            rank = types[name].count(",") + 1 if name in types else max(dims) + 1
            if outside := [axis for axis in dims if axis not in range(rank)]:
                raise _errors.usage("TN0105", f"input '{name}' has no dim {outside[0]}", f"it has {rank} dims, from 0")
            dims = [dims.get(axis, "?") for axis in range(rank)]
        text = dims if isinstance(dims, str) else "x".join(
            f"[{dim[0]}..{dim[1]}]" if isinstance(dim, (tuple, list)) else str(dim) for dim in dims
        )  # fmt: skip
        arguments.append(f"{name}:{text}")
    return arguments


def _names(names: Optional[Names]) -> list:
    return [names] if isinstance(names, str) else list(names or ())


def _own_target(model: Any) -> str:
    """The target of this machine that a model is for."""
    device = next((p.device for p in model.parameters()), None) if hasattr(model, "parameters") and callable(
        model.parameters
    ) else None  # fmt: skip
    if device is not None and device.type == "cuda":
        import torch

        return cuda_target(torch.cuda.get_device_capability(device))
    return "cpu:native"  # asking `doctor` would open the libraries of GPUs


def cuda_target(capability) -> str:
    """ "cuda:sm_90a" for (9, 0); the feature set of one architecture where Tenon has kernels for it."""
    major, minor = capability
    suffix = "a" if major in (9, 10) else ""
    return f"cuda:sm_{major}{minor}{suffix}"


def doctor_cpu_level() -> str:
    return doctor()["will_use"] or "avx2"


@_errors.door
def check(
    model: Any,
    example_inputs: Optional[Sequence[Any]] = None,
    *,
    target: Names = "cpu",
    dynamic_shapes: Any = None,
    shapes: Sequence[str] = (),
) -> Dict[str, Any]:
    """For a model, all gaps in one report: `["gaps"]` is empty if everything is supported. For an engine file, which of its
    variants this machine runs. The model is given as for `compile`."""
    with _errors.scratch("export", model) as scratch:
        file = _file(model, example_inputs, dynamic_shapes, scratch)
        while True:
            report = file.perform(lambda path: check_file(path, [*shapes, *file.shapes], _names(target)))
            if not file.decompose(report.get("gaps", [])):
                return report


def check_file(path: str, shapes: Sequence[str], targets: Sequence[str] = ("cpu",)) -> Dict[str, Any]:
    lists = [_abi.texts(targets), _abi.texts(shapes)]
    options = _abi.CheckOptions(targets=ctypes.cast(lists[0], _abi.Texts), shapes=ctypes.cast(lists[1], _abi.Texts))
    blob = _abi.Blob()
    library = _abi.compiler()
    check_status(library.tenon_check(os.fsencode(path), ctypes.addressof(options), ctypes.addressof(blob)))
    return _json_of(library, blob)


@_errors.door
def inspect(
    model: Any,
    example_inputs: Optional[Sequence[Any]] = None,
    *,
    format: str = "dict",
    dynamic_shapes: Any = None,
):
    """The contents of a model or an engine: a dict, or text of the format "text", "json", "dot", "svg" or "html".
    The model is given as for `compile`; an engine by its path or as an Engine. See also `tenon.graph`."""
    if format == "onnx":
        raise _errors.usage("TN0105", "a graph in ONNX's form is no text", "write it to a file: tenon.graph(model).save('graph.onnx')")
    if isinstance(model, Engine):
        model = model._file()
    with _errors.scratch("export", model) as scratch:
        file = _file(model, example_inputs, dynamic_shapes, scratch)
        text = file.perform(lambda path: inspect_file(path, "json" if format == "dict" else format, file.shapes))
    return json.loads(text) if format == "dict" else text


def inspect_file(path: str, format: str, shapes: Sequence[str] = (), output: Optional[str] = None) -> str:
    """The text, or "" where it goes to the file `output`."""
    texts = _abi.texts(shapes)
    options = _abi.InspectOptions(
        format=format.encode(), shapes=ctypes.cast(texts, _abi.Texts), output=os.fsencode(output) if output else None
    )
    library, blob = _abi.compiler(), _abi.Blob()
    check_status(library.tenon_inspect(os.fsencode(path), ctypes.addressof(options), ctypes.addressof(blob)))
    return _take_text(library, blob)


def explain(engine: str, topic: str, node: Optional[str], format: str):
    library, blob = _abi.compiler(), _abi.Blob()
    check_status(
        library.tenon_explain(
            os.fsencode(engine), topic.encode(), node.encode() if node else None, format == "json", ctypes.addressof(blob)
        )
    )
    text = _take_text(library, blob)
    return json.loads(text) if format == "json" else text


def verb(*arguments: str) -> Dict[str, Any]:
    """Performs a verb of the command line and gives what it prints with --json."""
    library, blob = _abi.compiler(), _abi.Blob()
    check_status(library.tenon_verb(_abi.texts(arguments), _abi.Progress(), None, ctypes.addressof(blob)))
    return _json_of(library, blob)


def doctor() -> Dict[str, Any]:
    """What this machine has, and what Tenon uses of it."""
    return verb("doctor")


def _take_text(library, blob: _abi.Blob) -> str:
    text = ctypes.string_at(blob.data, blob.bytes).decode()
    library.tenon_blob_destroy(ctypes.addressof(blob))
    return text


def _json_of(library, blob: _abi.Blob) -> Dict[str, Any]:
    return json.loads(_take_text(library, blob))
