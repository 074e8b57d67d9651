"""Writes the signatures of operators, as the Python packages onnx and onnxruntime know them, in a line for each opset
that changed one: name, opset, least and most inputs, most outputs, attributes with their types ('!' if required).
Where an input before the least number may be left out, its index follows that number. Of onnxruntime it takes the
domain com.microsoft, and those that it has in the default domain beside ONNX's.

    signatures.py test/data/onnx-signatures.txt            writes the file
    signatures.py test/data/onnx-signatures.txt --check    fails if the file is not what would be written
"""

import pathlib
import sys

from onnx import defs
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

MANY = 2**31 - 1
FOLDED = {"LayerNormalization", "SimplifiedLayerNormalization"}


def count(number):
    return "*" if number == MANY else str(number)


def kind(value):
    return str(value).split(".")[-1]


def signature(schema):
    attributes = sorted(schema.attributes.items())
    listed = [f"{name}:{kind(a.type).lower()}{'!' if a.required else ''}" for name, a in attributes]
    first = list(enumerate(schema.inputs))[: schema.min_input]
    optional = "".join(f"?{i}" for i, value in first if kind(value.option) == "Optional")
    return " ".join([count(schema.min_input) + optional, count(schema.max_input), count(schema.max_output), *listed])


def schemas():
    for s in defs.get_all_schemas_with_history():
        if s.domain in ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"):
            yield (f"{s.domain}:{s.name}" if s.domain else s.name), s
    for s in runtime.get_all_operator_schema():
        if s.domain == "com.microsoft":
            yield f"{s.domain}:{s.name}", s
        elif s.domain == "" and s.name in FOLDED and s.since_version == 1:
            yield s.name, s


def lines():
    last = {}
    for name, schema in sorted(schemas(), key=lambda entry: (entry[0], entry[1].since_version)):
        text = signature(schema)
        if last.get(name) != text:
            last[name] = text
            yield f"{name} {schema.since_version} {text}\n"


path = pathlib.Path(sys.argv[1])
text = "".join(lines())
if sys.argv[2:] != ["--check"]:
    path.write_text(text)
elif path.read_text() != text:
    sys.exit(f"{path} is not what the packages say: write it again with this program")
