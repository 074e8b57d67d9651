"""Graphs of ATen operators, as AOTAutograd traces them, as programs in the form of torch.export.save.

The graph's JSON is written by PyTorch's own serializer, so that its schema is PyTorch's; weights lie beside it in a
file in memory, so nothing touches a disk. Relies on torch._export.serde.serialize, which is PyTorch's private module.
"""

from __future__ import annotations

import json
import operator
import os
import zipfile
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch._export.serde import serialize as serde
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import graph_signature as signature

from ._errors import UnsupportedError

FALLBACK = "keep this part out of the compiled function, or take options={'fallback': True}"
_ALIGNMENT = 64
_LOCAL_HEADER = 30
_PADDING_ID = 0x4350

# Operators that only training has; those of batch normalization do where they have running statistics.
_RANDOM = {"native_dropout", "bernoulli", "bernoulli_", "_fused_dropout"}
_BATCH_NORM = {"_native_batch_norm_legit", "_native_batch_norm_legit_functional", "native_batch_norm", "cudnn_batch_norm"}


class Program(NamedTuple):
    """A graph in PyTorch's schema, and how a call of the graph becomes a run of its engine.

    model: the content of models/model.json, in which every argument of the graph is an input.
    inputs: (name, position) of the graph's arguments that are tensors.
    outputs: of each of the graph's outputs ("engine", number), ("size", number) for an integer that the engine gives,
        ("argument", position), ("constant", value), ("view", [number, views]) where several outputs look at one
        tensor, or ("part", [position, views]) of an output that looks at an argument. Views may hold a `Size`.
    constants: tensors that are in the graph, by their names in it.
    strides: of tensors that several outputs look at, by their numbers, where eager's do not lie as the engine's do: views
        of a tensor depend on how it lies.
    """

    model: Dict[str, Any]
    inputs: List[Tuple[str, int]]
    outputs: List[Tuple[str, Any]]
    constants: Dict[str, torch.Tensor]
    strides: Dict[int, list]


class Size:
    """An expression over sizes of the arguments."""

    def __init__(self, expression, bindings: Dict[Any, Tuple[int, Any]]):
        self.expression = expression
        self.bindings = [(symbol, *bindings[symbol]) for symbol in expression.free_symbols]

    def __call__(self, arguments: Sequence[Any]) -> int:
        values = {
            symbol: arguments[position] if dim is None else arguments[position].shape[dim]
            for symbol, position, dim in self.bindings
        }
        return int(self.expression.xreplace(values))


def program_of(graph: torch.fx.GraphModule) -> Program:
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    inputs = [(node.name, index) for index, node in enumerate(placeholders) if isinstance(node.meta["val"], torch.Tensor)]
    outputs, computed = program_outputs(graph)
    constants = {
        node.name: value
        for node in graph.graph.find_nodes(op="get_attr")
        if isinstance(value := operator.attrgetter(node.target)(graph), torch.Tensor)
    }
    bases = {value[0] for kind, value in outputs if kind == "view"}
    strides = {number: lies for number in bases if (lies := _strides_of(computed[number], _bindings(placeholders)))}
    return Program(_model(graph, placeholders, constants, computed), inputs, outputs, constants, strides)


def program_outputs(graph: torch.fx.GraphModule) -> Tuple[List[Tuple[str, Any]], list]:
    """As Program.outputs, and the nodes that the engine computes."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    position = {node: index for index, node in enumerate(placeholders)}
    outputs, computed = [], {}  # with their numbers
    results = _results(graph)
    bindings = _bindings(placeholders)
    shared = _shared_bases(results, position, bindings)
    for value in results:
        base, views = _base_of(value, bindings)
        if not isinstance(value, torch.fx.Node):
            outputs.append(("constant", value))
        elif value in position:
            outputs.append(("argument", position[value]))
        elif base in position and isinstance(value.meta["val"], torch.Tensor):
            outputs.append(("part", [position[base], views]))
        elif base in shared:
            outputs.append(("view", [computed.setdefault(base, len(computed)), views]))
        else:
            kind = "engine" if isinstance(value.meta["val"], torch.Tensor) else "size"
            outputs.append((kind, computed.setdefault(value, len(computed))))
    return outputs, list(computed)


def computes(graph: torch.fx.GraphModule) -> bool:
    """Whether a call computes anything; if not, the graph only looks at its arguments."""
    return any(node.op == "call_function" for node in graph.graph.nodes) and any(
        kind in ("engine", "size", "view") for kind, _ in program_outputs(graph)[0]
    )


def _bindings(placeholders: Sequence[torch.fx.Node]) -> Dict[Any, Tuple[int, Any]]:
    """Where a call has each symbol: (position, dim), or (position, None) of an argument that is a number."""
    bindings: Dict[Any, Tuple[int, Any]] = {}
    for position, node in enumerate(placeholders):
        value = node.meta["val"]
        sizes = enumerate(value.shape) if isinstance(value, torch.Tensor) else [(None, value)]
        for dim, size in sizes:
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                bindings.setdefault(size.node.expr, (position, dim))
    return bindings


def _base_of(value: Any, bindings: Dict[Any, Tuple[int, Any]]) -> Tuple[Any, list]:
    """The tensor that a result looks at, and how: [[operator, further arguments, keyword arguments], ...]."""
    views: list = []
    while isinstance(value, torch.fx.Node) and isinstance(value.target, torch._ops.OpOverload):
        returns = value.target._schema.returns
        if len(returns) != 1 or not returns[0].alias_info or str(returns[0].type) != "Tensor":
            break
        try:
            others = [_known(other, bindings) for other in value.args[1:]]
            named = {name: _known(other, bindings) for name, other in value.kwargs.items()}
        except KeyError:  # of what only the engine knows
            break
        views.insert(0, [str(value.target), others, named])
        value = value.args[0]
    return value, views


def _known(value: Any, bindings: Dict[Any, Tuple[int, Any]]) -> Any:
    """A number, text, or list of them, with a `Size` for what differs from call to call."""
    if isinstance(value, (list, tuple)):
        return [_known(part, bindings) for part in value]
    if isinstance(value, torch.fx.Node):
        value = value.meta["val"]
    if isinstance(value, torch.SymInt):
        return Size(value.node.expr, bindings)
    if isinstance(value, (int, float, bool, str, type(None))):
        return value
    raise KeyError(value)


def _shared_bases(results: Sequence[Any], position: Dict[torch.fx.Node, int], bindings: Dict[Any, Tuple[int, Any]]) -> set:
    """What several results look at: there a write through one is seen by the others."""
    lookers: Dict[Any, set] = {}
    for value in results:
        base, _ = _base_of(value, bindings)
        if isinstance(base, torch.fx.Node) and base not in position and isinstance(base.meta["val"], torch.Tensor):
            lookers.setdefault(base, set()).add(value)
    return {base for base, values in lookers.items() if len(values) > 1 and _has_known_strides(base, bindings)}


def _has_known_strides(base: torch.fx.Node, bindings: Dict[Any, Tuple[int, Any]]) -> bool:
    try:
        return 0 not in _strides_of(base, bindings)
    except KeyError:  # data decides a size: the engine gives each result by itself
        return False


def _strides_of(node: torch.fx.Node, bindings: Dict[Any, Tuple[int, Any]]) -> list:
    """How a result lies in memory in eager mode; nothing where that is as the engine gives it."""
    value = node.meta["val"]
    return [] if value.is_contiguous() else _known(list(value.stride()), bindings)


def laid_out(tensor: torch.Tensor, strides: list, arguments: Sequence[Any]) -> torch.Tensor:
    own = torch.empty_strided(tensor.shape, _valued(strides, arguments), dtype=tensor.dtype, device=tensor.device)
    return own.copy_(tensor)


def view(tensor: torch.Tensor, views: list, arguments: Sequence[Any]) -> torch.Tensor:
    for name, args, kwargs in views:
        target = torch.ops
        for part in name.split("."):
            target = getattr(target, part)
        tensor = target(tensor, *_valued(args, arguments), **{key: _valued(value, arguments) for key, value in kwargs.items()})
    return tensor


def _valued(value: Any, arguments: Sequence[Any]) -> Any:
    if isinstance(value, list):
        return [_valued(part, arguments) for part in value]
    return value(arguments) if isinstance(value, Size) else value


def _results(graph: torch.fx.GraphModule) -> Sequence[Any]:
    output = next(node for node in reversed(graph.graph.nodes) if node.op == "output")
    return output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]


def names_storage(graph: torch.fx.GraphModule) -> bool:
    """Whether a node says where in a storage it reads."""
    parts = [part for part in graph.modules() if isinstance(part, torch.fx.GraphModule)]
    return any("as_strided" in str(getattr(node.target, "__name__", node.target)) for part in parts for node in part.graph.nodes)


def refuse_training(graph: torch.fx.GraphModule) -> None:
    for node in graph.graph.nodes:
        name = getattr(node.target, "_opname", "")
        is_norm = name in _BATCH_NORM and len(node.args) > 3 and node.args[3] is not None and True in node.args[4:7]
        if name in _RANDOM or is_norm:
            raise training_error(f"the graph has {name}, which only training does", source_of(node))


def training_error(what: str, source: str = "") -> UnsupportedError:
    hint = "call model.eval() before it is compiled and run, under torch.no_grad() or torch.inference_mode()"
    error = UnsupportedError(f"TN0303: {what}; Tenon compiles for inference ({hint})", "TN0303", hint)
    error.source = source or error.source
    return error


def source_of(node: torch.fx.Node) -> str:
    """ "file.py:12" of the innermost line of the user's code."""
    import re

    lines = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return f"{lines[-1][0]}:{lines[-1][1]}" if lines else ""


def at_sizes(program: Program, arguments: Sequence[Any]) -> Program:
    """The program as if it had been traced with at least the sizes that these arguments have, up to which an engine of it goes."""
    graph = dict(program.model["graph_module"]["graph"])
    values = graph["tensor_values"] = dict(graph["tensor_values"])
    for name, position in program.inputs:
        sizes = [
            {"as_expr": {**size["as_expr"], "hint": {"as_int": max(actual, (size["as_expr"].get("hint") or {}).get("as_int", 0))}}} if "as_expr" in size else size
            for size, actual in zip(values[name]["sizes"], arguments[position].shape)
        ]
        values[name] = {**values[name], "sizes": sizes}
    return program._replace(model={**program.model, "graph_module": {**program.model["graph_module"], "graph": graph}})


def write(program: Program, weights: Dict[int, torch.Tensor]) -> int:
    """An archive with the program as a file in memory, whose descriptor the caller closes. `weights` are arguments, by
    position, whose values become part of the program."""
    descriptor = os.memfd_create("tenon-program")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            _add(archive, "models/model.json", to_json(_with_weights(program, weights)))
            _add(archive, "byteorder", b"little")
            config = {}
            for name, tensor in [*((_weight_name(index), weights[index]) for index in weights), *program.constants.items()]:
                dense, data = contents(tensor)
                _add(archive, f"data/weights/{name}", data)
                meta = serde._dataclass_to_dict(serde.serialize_tensor_meta(dense))
                config[name] = {"path_name": name, "is_param": True, "use_pickle": False, "tensor_meta": meta}
            _add(archive, "data/weights/model_weights_config.json", to_json({"config": config}))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _weight_name(index: int) -> str:
    return f"weight.{index}"  # no name of a graph has a dot


def to_json(value: Any) -> bytes:
    return json.dumps(value, cls=serde.EnumEncoder, allow_nan=False).encode()


def _with_weights(program: Program, weights: Dict[int, torch.Tensor]) -> Dict[str, Any]:
    module = program.model["graph_module"]
    specs = list(module["signature"]["input_specs"])
    for name, index in program.inputs:
        if index in weights:
            specs[index] = {"parameter": {"arg": {"name": name}, "parameter_name": _weight_name(index)}}
    signature_ = {**module["signature"], "input_specs": specs}
    return {**program.model, "graph_module": {**module, "signature": signature_}}


def contents(tensor: torch.Tensor) -> Tuple[torch.Tensor, memoryview]:
    """A dense copy on the host, or the tensor itself where it is that, and its bytes."""
    with unset_fake_temporarily():  # AOTAutograd calls the compiler within its mode
        dense = tensor.detach().contiguous().cpu()
        return dense, memoryview(dense.reshape(-1).view(torch.uint8).numpy())


def _add(archive: zipfile.ZipFile, name: str, data) -> None:
    """Stored, so that the compiler reads it where it lies, on a border that suits any type."""
    entry = zipfile.ZipInfo("model/" + name)
    start = archive.fp.tell() + _LOCAL_HEADER + len(entry.filename) + 4
    padding = -start % _ALIGNMENT
    entry.extra = _PADDING_ID.to_bytes(2, "little") + padding.to_bytes(2, "little") + bytes(padding)
    archive.writestr(entry, data)


def _model(graph: torch.fx.GraphModule, placeholders: list, constants: Dict[str, Any], computed: list) -> Dict[str, Any]:
    inputs = [signature.InputSpec(signature.InputKind.USER_INPUT, _argument(node), None) for node in placeholders]
    inputs += [
        signature.InputSpec(signature.InputKind.CONSTANT_TENSOR, signature.TensorArgument(name), name) for name in constants
    ]
    outputs = [signature.OutputSpec(signature.OutputKind.USER_OUTPUT, _argument(node), None) for node in computed]
    serializer = serde.GraphModuleSerializer(signature.ExportGraphSignature(inputs, outputs), [])
    try:
        module = serializer.serialize(_trimmed(graph, constants, computed))
    except serde.SerializeError as error:
        what = str(error).split(" Original exception")[0].strip()
        raise UnsupportedError(f"TN0301: PyTorch's schema cannot state the graph: {what} ({FALLBACK})", "TN0301", FALLBACK) from error
    return {
        "graph_module": serde._dataclass_to_dict(module),
        "opset_version": {"aten": torch._C._get_max_operator_version()},
        "range_constraints": serde._dataclass_to_dict(serde.serialize_range_constraints(_ranges(placeholders))),
        "schema_version": {"major": serde.SCHEMA_VERSION[0], "minor": serde.SCHEMA_VERSION[1]},
        "torch_version": torch.__version__,
    }


def _argument(node: torch.fx.Node):
    value = node.meta["val"]
    if isinstance(value, torch.Tensor):
        return signature.TensorArgument(node.name)
    if isinstance(value, torch.SymInt):
        return signature.SymIntArgument(node.name)
    return signature.ConstantArgument(node.name, value)


def _trimmed(graph: torch.fx.GraphModule, constants: Dict[str, torch.Tensor], wanted: list) -> torch.fx.GraphModule:
    """The graph with its constants as arguments behind the others, and those outputs only that the engine gives."""
    copied: Dict[torch.fx.Node, torch.fx.Node] = {}
    trimmed = torch.fx.Graph()
    constant_nodes = [node for node in graph.graph.nodes if node.op == "get_attr" and node.name in constants]
    for node in constant_nodes:
        copied[node] = trimmed.placeholder(node.name)
        copied[node].meta["val"] = constants[node.name]
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            with trimmed.inserting_before(next(iter(copied[c] for c in constant_nodes), None)):
                copied[node] = trimmed.node_copy(node)
        elif node.target is torch.sym_sum:
            copied[node] = _sum_of([copied.get(term, term) for term in node.args[0]], trimmed)
        elif node.op != "output" and node not in copied:
            copied[node] = trimmed.node_copy(node, lambda n: copied[n])
            copied[node].meta["nn_module_stack"] = _modules(node)
    for part in graph.modules():
        for node in part.graph.nodes if part is not graph and isinstance(part, torch.fx.GraphModule) else ():
            node.meta["nn_module_stack"] = _modules(node)
    output = trimmed.output(tuple(copied[value] for value in wanted))
    output.meta["val"] = tuple(value.meta["val"] for value in wanted)
    return torch.fx.GraphModule(graph, trimmed)


def _sum_of(terms: list, graph: torch.fx.Graph) -> Any:
    """A sum of sizes in twos, as the schema has it."""
    total = terms[0]
    for term in terms[1:]:
        before, total = total, graph.call_function(operator.add, (total, term))
        total.meta["val"] = sum(part.meta["val"] if isinstance(part, torch.fx.Node) else part for part in (before, term))
    return total


def _modules(node: torch.fx.Node) -> Dict[str, Tuple[str, str]]:
    """The modules around a node, their classes by name as torch.export has them."""
    stack = node.meta.get("nn_module_stack") or {}
    return {
        key: (path, kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}")
        for key, (path, kind) in stack.items()
    }


def _ranges(placeholders: list) -> Dict[Any, Any]:
    """The ranges of all symbols that sizes of the graph's inputs have."""
    ranges = {}
    for node in placeholders:
        value = node.meta["val"]
        for size in value.shape if isinstance(value, torch.Tensor) else [value]:
            if isinstance(size, torch.SymInt):
                for symbol in size.node.expr.free_symbols:
                    ranges[symbol] = size.node.shape_env.var_to_range[symbol]
    return ranges
