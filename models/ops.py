#!/usr/bin/env python3
"""Prints what ONNX models consist of: inputs, opset and operators; with --union one table of operators over all of them.

Relies on onnx, whose shape inference supplies the operand types.
"""

import argparse
import collections
import pathlib

import onnx
from onnx import TensorProto, helper

SHOWN_VALUES = 6


def typed_names(graph, inherited):
    """Element type by value name; subgraphs see the names of the graphs around them."""
    types = dict(inherited)
    for value in (*graph.input, *graph.value_info, *graph.output):
        types[value.name] = value.type.tensor_type.elem_type
    types.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
    return types


def walk(graph, inherited=()):
    types = typed_names(graph, inherited)
    for node in graph.node:
        yield node, types
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from walk(attribute.g, types)


def operators(model):
    """Pairs of a node and the element types of its operands ('-' for an omitted one)."""
    inferred = onnx.shape_inference.infer_shapes(model)
    for node, types in walk(inferred.graph):
        yield node, ",".join(
            TensorProto.DataType.Name(types.get(name, 0)).lower() if name else "-"
            for name in node.input) or "none"


def dims(value):
    return "x".join(d.dim_param or str(d.dim_value) for d in value.type.tensor_type.shape.dim)


def show(path, model):
    opsets = ", ".join(f"{o.domain or 'onnx'} {o.version}" for o in model.opset_import)
    print(f"{path.name}: opset {opsets}, IR {model.ir_version}, by {model.producer_name} "
          f"{model.producer_version}")
    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        for value in values:
            element = TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
            print(f"  {kind} {value.name}: {element} {dims(value)}")
    counts = collections.Counter(node.op_type for node, _ in walk(model.graph))
    print("  " + ", ".join(f"{op} {count}" for op, count in sorted(counts.items())))


def text(attribute):
    if attribute.HasField("t"):
        tensor = attribute.t
        dims = "x".join(map(str, tensor.dims)) or "scalar"
        return f"<{TensorProto.DataType.Name(tensor.data_type).lower()} {dims}>"
    if attribute.HasField("g"):
        return "<graph>"
    value = helper.get_attribute_value(attribute)
    return value.decode() if isinstance(value, bytes) else str(value)


def show_union(models):
    attributes = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    operands, opsets = collections.defaultdict(collections.Counter), collections.defaultdict(set)
    for model in models:
        version = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        for node, types in operators(model):
            operands[node.op_type][types] += 1
            opsets[node.op_type].add(version)
            for attribute in node.attribute:
                attributes[node.op_type][attribute.name][text(attribute)] += 1
    for op in sorted(operands):
        print(f"{op}  (opset {', '.join(map(str, sorted(opsets[op])))})")
        for types, count in operands[op].most_common():
            print(f"    operands {types}: {count}")
        for name, seen in sorted(attributes[op].items()):
            shown = [f"{value} ({count})" for value, count in seen.most_common(SHOWN_VALUES)]
            more = f" and {len(seen) - SHOWN_VALUES} more" if len(seen) > SHOWN_VALUES else ""
            print(f"    {name} = {', '.join(shown)}{more}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--union", action="store_true")
    options = parser.parse_args()
    models = [onnx.load(str(path), load_external_data=False) for path in options.models]
    if options.union:
        show_union(models)
        return
    for path, model in zip(options.models, models):
        show(path, model)


if __name__ == "__main__":
    main()
