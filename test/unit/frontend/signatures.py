"""Writes the signatures of ONNX's operators, as the Python package onnx knows them, in a line for each opset that
changed one: name, opset, least and most inputs, most outputs, attributes with their types ('!' if required).

    signatures.py test/data/onnx-signatures.txt            writes the file
    signatures.py test/data/onnx-signatures.txt --check    fails if the file is not what would be written
"""

import pathlib
import sys

from onnx import defs

MANY = 2**31 - 1


def count(number):
    return "*" if number == MANY else str(number)


def signature(schema):
    attributes = sorted(schema.attributes.items())
    listed = [f"{name}:{a.type.name.lower()}{'!' if a.required else ''}" for name, a in attributes]
    return " ".join([count(schema.min_input), count(schema.max_input), count(schema.max_output), *listed])


def lines():
    schemas = [s for s in defs.get_all_schemas_with_history() if s.domain == ""]
    last = {}
    for schema in sorted(schemas, key=lambda s: (s.name, s.since_version)):
        text = signature(schema)
        if last.get(schema.name) != text:
            last[schema.name] = text
            yield f"{schema.name} {schema.since_version} {text}\n"


path = pathlib.Path(sys.argv[1])
text = "".join(lines())
if sys.argv[2:] != ["--check"]:
    path.write_text(text)
elif path.read_text() != text:
    sys.exit(f"{path} is not what onnx says: write it again with this program")
