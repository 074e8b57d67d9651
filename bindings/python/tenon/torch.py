"""`torch.compile(model, backend="tenon")`: each graph that dynamo finds becomes an engine.

Options (`options={...}`): target ("cpu:avx2", "cuda:sm_90a"; the machine's own by default), precision, allow, threads,
cache (True), verify, fallback (False: Tenon's error is raised; True: that graph runs in eager mode and
`tenon.report()` says why), freeze (True: parameters become part of the engine, which is compiled again when one of them
changes; False: they are inputs), passes, plugins, kernel_libraries and unchecked_kernels (as for tenon.compile). `mode` is "default", "reduce-overhead" (the same), "max-autotune" or "max-autotune-no-cudagraphs", which let matmuls round to TF32.

Changes of parameters through `.data` go unnoticed, because PyTorch does not count them.
"""

from __future__ import annotations

import functools
import operator
import os
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

from . import _compile, _errors, _torch_cache, _torch_graph, _torch_static
from ._engine import Engine
from ._model_file import DECOMPOSES
from ._torch_decompositions import replacements, storage_error
from ._torch_graph import Program

__all__ = ["backend", "report", "reset"]

_OPTIONS = {
    "target": None, "precision": "keep", "allow": (), "threads": 0, "cache": True, "verify": False, "fallback": False,
    "freeze": True,
    "passes": (),
    "plugins": (),
    "kernel_libraries": (), "unchecked_kernels": False,
}  # fmt: skip
# PyTorch's; all of Tenon's runs have the overhead that "reduce-overhead" asks for.
_MODES = {None: {}, "default": {}, "reduce-overhead": {}, "max-autotune": {"allow": ("tf32",)}, "max-autotune-no-cudagraphs": {"allow": ("tf32",)}}

# A graph whose weights change more often than this takes them as inputs from then on.
_MOST_CHANGES = 3
# Engines that are kept of a graph that has one for each set of sizes.
_MOST_SIZES = 16

_graphs: List[Dict[str, Any]] = []


def report() -> Dict[str, Any]:
    """What the backend did in this process: {"graphs": [...], "breaks": [...]}.

    A graph has source (its first line), nodes, seconds, from_cache, recompiled (how often its weights changed), specialized
    (why it has an engine for each set of sizes instead of one for all, or None), error (why it was not compiled, or None), fallback (whether it runs in eager mode for that), and break: why dynamo ended
    the graph, with the line, or None.
    """
    breaks = [graph["break"] for graph in _graphs if graph["break"]]
    return {"graphs": [dict(graph) for graph in _graphs], "breaks": breaks}


def reset() -> None:
    """Forgets what `report` gives."""
    _graphs.clear()


def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any], *, mode: Optional[str] = None,
            options: Optional[Dict[str, Any]] = None) -> Callable:  # fmt: skip
    """A dynamo backend; PyTorch finds it by the name "tenon"."""
    chosen = _options(mode, options)
    entry = {
        "source": _first_line(graph), "nodes": len(graph.graph.nodes), "seconds": 0.0, "from_cache": False,
        "recompiled": 0, "specialized": None, "error": None, "fallback": False, "break": _break_of(graph),
    }  # fmt: skip
    _graphs.append(entry)
    start = time.perf_counter()
    try:
        compiled = _compile_graph(graph, inputs, chosen, entry)
    except _errors.Error as error:
        entry["error"] = str(error)
        if not chosen["fallback"]:
            raise
        entry["fallback"] = True
        return graph.forward
    except BaseException:
        _graphs.remove(entry)  # dynamo begins anew, or Ctrl-C
        raise
    finally:
        entry["seconds"] = time.perf_counter() - start
    if _torch_graph.names_storage(graph):
        compiled = _at_offsets(compiled, graph, inputs, chosen["fallback"])
    wants_grad = torch.is_grad_enabled() and any(
        isinstance(t, torch.Tensor) and t.requires_grad for t in [*graph.parameters(), *inputs]
    )
    return _without_gradient(compiled) if wants_grad else compiled


def _options(mode: Optional[str], options: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    unknown = sorted(set(options or {}) - set(_OPTIONS))
    if mode not in _MODES or unknown:
        what = f"the backend has no option '{unknown[0]}'" if unknown else f"the backend has no mode '{mode}'"
        known = ", ".join(_OPTIONS if unknown else filter(None, _MODES))
        raise _errors.usage("TN0105", what, f"known are {known}")
    return {**_OPTIONS, **_MODES[mode], **(options or {})}


def _first_line(graph: torch.fx.GraphModule) -> str:
    return next((line for node in graph.graph.nodes if (line := _torch_graph.source_of(node))), "")


def _break_of(graph: torch.fx.GraphModule) -> Optional[Dict[str, str]]:
    reason = getattr(graph, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    line = reason.user_stack[-1] if reason.user_stack else None
    return {"reason": reason.reason, "source": f"{line.filename}:{line.lineno}" if line else ""}


def _compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[Any], options: Dict[str, Any], entry: Dict[str, Any]):
    own = [*graph.parameters(), *graph.buffers()]  # AOTAutograd puts them before the inputs
    arguments = [*own, *inputs]
    # What files of the user's hold is in no key.
    has_files = any(options[name] for name in ("passes", "plugins", "kernel_libraries"))
    key = _torch_cache.key_of(graph, arguments, options) if options["cache"] and not has_files else None
    options = {**options, "gpu": _gpu_of(arguments)}
    found = _torch_cache.find(key, options["gpu"]) if key else None
    if found:
        entry["from_cache"] = True
        engine, program, positions = found
        return _with_own(own, _Compiled(engine, program, {i: arguments[i] for i in positions}, options, entry))

    made: List[Optional[_Compiled]] = []
    context = torch._guards.TracingContext.try_get()

    def compile_traced(traced: torch.fx.GraphModule, fakes: Sequence[Any]):
        compiled = None
        if _torch_graph.computes(traced):
            _torch_graph.refuse_training(traced)
            is_known = len(fakes) == len(arguments) and options["freeze"]
            written = _written(context)
            weights = {i: value for i, value in enumerate(arguments) if is_known and i not in written and is_weight(value)}
            compiled = _compiled_for(traced, fakes, weights, options, entry, decompositions)
        made.append(compiled)
        return make_boxed_func(compiled or traced.forward)

    decompositions, wrapped = replacements(["aten.as_strided.default"]), None
    while wrapped is None:
        made.clear()
        try:
            with torch.no_grad():
                wrapped = aot_module_simplified(
                    graph, inputs, fw_compiler=compile_traced, inference_compiler=compile_traced, decompositions=decompositions
                )
        except _errors.UnsupportedError as error:
            if decompositions.keys() >= _replaceable(error).keys():
                raise
            decompositions |= _replaceable(error)
    # Without mutated inputs and aliases AOTAutograd's wrapper has nothing to do at run time.
    if len(made) != 1 or not isinstance(made[0], _Compiled) or not context or not _is_plain(context.fw_metadata):
        return wrapped
    if key:
        _torch_cache.store(key, made[0].engine, made[0].program, sorted(made[0].weights))
    return _with_own(own, made[0])


def _compiled_for(traced: torch.fx.GraphModule, fakes: Sequence[Any], weights, options, entry, decompositions) -> Callable:
    """One engine for all sizes; where only symbols are what Tenon lacks, one for each set of sizes."""
    try:
        program = _torch_graph.program_of(traced)
        return _Compiled(_engine_of(program, weights, options), program, weights, options, entry)
    except _errors.UnsupportedError as error:
        may_fit = error.id == "TN0301" and _torch_static.varying(fakes) and decompositions.keys() >= _replaceable(error).keys()
        examples = _torch_static.examples(fakes) if may_fit else None
        if examples is None:
            raise
        specialized = _Specialized(traced, fakes, weights, options, entry)
        specialized.engine_for(examples)  # what it lacks with constants too is said now
        entry["specialized"] = str(error)
        return specialized


def _replaceable(error: _errors.UnsupportedError) -> Dict[Any, Callable]:
    """Decompositions of the operators that Tenon was found to lack."""
    return replacements(gap["op"] for gap in error.gaps)


def _gpu_of(arguments: Sequence[Any]) -> int:
    """Number of the GPU that the graph is on; 0 for one on the CPU, where it does not matter."""
    return next((t.device.index or 0 for t in arguments if isinstance(t, torch.Tensor) and t.is_cuda), 0)


def _at_offsets(compiled: Callable, graph: torch.fx.GraphModule, inputs: Sequence[Any], falls_back: bool) -> Callable:
    """For tensors that begin in their storages where those did that the graph was compiled for: dynamo does not compare that."""
    offsets = [value.storage_offset() if isinstance(value, torch.Tensor) else None for value in inputs]

    def call(*arguments):
        for value, offset in zip(arguments, offsets):
            if offset is not None and value.storage_offset() != offset:
                if falls_back:
                    return graph.forward(*arguments)
                began = f"the input began at element {offset} of it when the graph was compiled, and begins at {value.storage_offset()} now"
                raise storage_error(f"as_strided counts from the start of a storage; {began}")
        return compiled(*arguments)

    return call


def _with_own(own: List[torch.Tensor], compiled: Callable) -> Callable:
    """For calls without the tensors that the graph's module holds itself."""
    return (lambda *inputs: compiled(*own, *inputs)) if own else compiled


def _is_plain(metadata) -> bool:
    if metadata is None or metadata.num_mutated_inp_runtime_indices or getattr(metadata, "tokens", None):
        return False
    return all(info.output_type.name == "non_alias" for info in metadata.output_info)


def _written(context) -> set:
    """Positions of arguments that the graph writes, such as a cache: buffers that are no weights."""
    metadata = context.fw_metadata if context else None
    return {index for index, info in enumerate(metadata.input_info) if info.mutates_data} if metadata else set()


def is_weight(value: Any) -> bool:
    """Whether it is a parameter or buffer of a module, of which PyTorch counts the changes."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or value.is_inference():
        return False
    return isinstance(value, torch.nn.Parameter) or getattr(value, "_dynamo_static_input_type", None) is not None


def _engine_of(program: Program, weights: Dict[int, torch.Tensor], options: Dict[str, Any]) -> Engine:
    descriptor = _torch_graph.write(program, weights)
    path = f"/proc/self/fd/{descriptor}"
    try:
        return _compile.compile(
            path, target=options["target"] or _target(program), precision=options["precision"],
            allow=options["allow"], threads=options["threads"], verify=options["verify"], cache=options["cache"],
            gpu=options["gpu"], passes=options["passes"], plugins=options["plugins"],
            kernel_libraries=options["kernel_libraries"], unchecked_kernels=options["unchecked_kernels"],
        )  # fmt: skip
    except _errors.Error as error:
        _errors.reword(error, path, "the graph")
        _errors.reword(error, DECOMPOSES, _torch_graph.FALLBACK)
        raise
    finally:
        os.close(descriptor)


@functools.cache
def _cpu_target() -> str:
    return "cpu:" + _compile.doctor_cpu_level()


def _target(program: Program) -> str:
    for tensor in program.model["graph_module"]["graph"]["tensor_values"].values():
        if tensor["device"]["type"] == "cuda":
            return _compile.cuda_target(torch.cuda.get_device_capability(tensor["device"]["index"]))
    return _cpu_target()


_version_of = torch.Tensor._version.__get__
_address_of = torch.Tensor.data_ptr


class _Compiled:
    """A graph's engine, called with the graph's arguments. Weights are in the engine: each call compares that they are
    the same tensors with the same contents, by PyTorch's count of changes."""

    def __init__(self, engine: Engine, program: Program, weights: Dict[int, torch.Tensor], options, entry):
        self.engine, self.program, self.weights, self.options, self.entry = engine, program, weights, options, entry
        position = dict(program.inputs)
        self.positions = [position[port.name] for port in engine._inputs]
        self.tensors = list(weights.values())
        self.given = operator.itemgetter(*weights, *weights) if weights else None  # twice, so that it is a tuple
        self.versions, self.addresses = list(map(_version_of, self.tensors)), list(map(_address_of, self.tensors))
        self.is_simple = list(program.outputs) == [("engine", i) for i in range(len(engine._outputs))]
        self.other: Optional[_Compiled] = None

    def __call__(self, *arguments):
        if not self._fits(arguments):
            return self._with_other_weights(arguments)
        tensors = [arguments[index] for index in self.positions]
        try:
            results = self.engine._session()._call_torch(torch, tensors)
        except _errors.UsageError as error:
            if error.id != "TN0603" or not self._grow(arguments):
                raise
            results = self.engine._session()._call_torch(torch, tensors)
        if self.is_simple:
            return results
        for number, strides in self.program.strides.items():
            results[number] = _torch_graph.laid_out(results[number], strides, arguments)
        return [_output(kind, value, results, arguments) for kind, value in self.program.outputs]

    def _fits(self, arguments: Sequence[Any]) -> bool:
        """Whether the weights are those of the engine. In C's loops, since a model has hundreds."""
        if self.given is None:
            return True
        given = self.given(arguments)[: len(self.tensors)]
        return (
            all(map(operator.is_, given, self.tensors))
            and list(map(_version_of, given)) == self.versions
            and list(map(_address_of, given)) == self.addresses
        )

    def _grow(self, arguments: Sequence[Any]) -> bool:
        """Takes an engine for the sizes of these arguments too, which PyTorch allows; false if the engine has those already."""
        program = _torch_graph.at_sizes(self.program, arguments)
        if program.model == self.program.model:
            return False
        self.engine, self.program = _engine_of(program, self.weights, self.options), program
        return True

    def _with_other_weights(self, arguments: Sequence[Any]):
        """For another module with the same graph, or weights that were written to."""
        if self.other is None or not self.other._fits(arguments):
            self.entry["recompiled"] += 1
            keeps = self.entry["recompiled"] < _MOST_CHANGES
            weights = {index: arguments[index] for index in self.weights if keeps and is_weight(arguments[index])}
            engine = _engine_of(self.program, weights, self.options)
            self.other = _Compiled(engine, self.program, weights, self.options, self.entry)
        return self.other(*arguments)


class _Specialized:
    """A graph that has an engine for each set of sizes; the latest are kept."""

    def __init__(self, traced: torch.fx.GraphModule, fakes: Sequence[Any], weights: Dict[int, torch.Tensor], options, entry):
        self.traced, self.weights, self.options, self.entry = traced, weights, options, entry
        self.varying = _torch_static.varying(fakes)
        self.engines: Dict[tuple, _Compiled] = {}

    def __call__(self, *arguments):
        return self.engine_for(arguments)(*arguments)

    def engine_for(self, arguments: Sequence[Any]) -> _Compiled:
        sizes = _torch_static.sizes(arguments, self.varying)
        compiled = self.engines.pop(sizes, None)
        if compiled is None:
            program = _torch_graph.program_of(_torch_static.with_constant_sizes(self.traced, arguments))
            compiled = _Compiled(_engine_of(program, self.weights, self.options), program, self.weights, self.options, self.entry)
            while len(self.engines) >= _MOST_SIZES:
                del self.engines[next(iter(self.engines))]
        self.engines[sizes] = compiled
        return compiled


def _output(kind: str, value: Any, results: list, arguments: Sequence[Any]):
    if kind == "engine":
        return results[value]
    if kind == "size":
        return int(results[value])
    if kind == "view":
        return _torch_graph.view(results[value[0]], value[1], arguments)
    if kind == "part":
        return _torch_graph.view(arguments[value[0]], value[1], arguments)
    return arguments[value] if kind == "argument" else value


class _NoGradient(torch.autograd.Function):
    """Gives outputs a history that says what is missing."""

    @staticmethod
    def forward(ctx, anchor, *outputs):
        return tuple(output.view_as(output) if isinstance(output, torch.Tensor) else output for output in outputs)

    @staticmethod
    def backward(ctx, *gradients):
        raise _torch_graph.training_error("gradients were asked for of a model that was compiled by Tenon")


def _without_gradient(compiled: Callable) -> Callable:
    anchor = torch.empty((), requires_grad=True)

    def call(*arguments):
        with torch.no_grad():
            outputs = compiled(*arguments)
        return _NoGradient.apply(anchor, *outputs)

    return call
