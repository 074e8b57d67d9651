"""Compares the headers and the libraries with the frozen C ABI of abi.py. Relies on a C compiler and nm."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import abi

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"])
HEADERS = [SOURCE / "include/tenon" / name for name in ("tenon.h", "compiler.h", "graph.h", "generate.h")]


def declared():
    """Structs with their members and enumerators, by the headers' text."""
    text = re.sub(r"/\*.*?\*/", "", "".join(header.read_text() for header in HEADERS), flags=re.S)
    structs = {}
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \w+;", text, re.S):
        structs[name] = [function or member for function, member in re.findall(r"(?:\(\*(\w+)\)\([^;]*|(\w+));", body)]
    enumerators = [word for body in re.findall(r"typedef enum \w+ \{(.*?)\}", text, re.S) for word in re.findall(r"(TENON_\w+) =", body)]
    return structs, enumerators


def measured():
    """The same with sizes, offsets and values, as a compiler sees them."""
    structs, enumerators = declared()
    lines = []
    for name, members in structs.items():
        lines.append(f'printf("S {name} %zu\\n", sizeof({name}));')
        lines += [f'printf("M {name} {member} %zu\\n", offsetof({name}, {member}));' for member in members]
    lines += [f'printf("E {name} %d\\n", (int){name});' for name in enumerators]
    program = "#include <stdio.h>\n#include <tenon/compiler.h>\n#include <tenon/generate.h>\nint main(void) {" + "\n".join(lines) + "return 0; }\n"
    with tempfile.TemporaryDirectory() as folder:
        source, binary = pathlib.Path(folder) / "abi.c", pathlib.Path(folder) / "abi"
        source.write_text(program)
        subprocess.run(["clang-22", f"-I{SOURCE / 'include'}", source, "-o", binary], check=True)
        output = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
    layouts, values = {}, {}
    for kind, name, *rest in map(str.split, output.splitlines()):
        if kind == "S":
            layouts[name] = (int(rest[0]), {})
        elif kind == "M":
            layouts[name][1][rest[0]] = int(rest[1])
        else:
            values[name] = int(rest[0])
    return layouts, values


def exported(library):
    text = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return sorted(line.split()[2] for line in text.splitlines() if line.split()[1] == "T")


class Abi(unittest.TestCase):
    def test_structs_and_enumerators(self):
        structs, values = measured()
        self.assertEqual(abi.STRUCTS, structs)
        self.assertEqual(abi.ENUMERATORS, values)

    def test_callers_structs_carry_their_size(self):
        arrays = {"tenon_input", "tenon_output", "tenon_tensor", "tenon_blob",
                  "tenon_draw", "tenon_logit_bias", "tenon_mean", "tenon_message", "tenon_session_value", "tenon_text", "tenon_tokens"}  # of fixed layout
        for name, (_, offsets) in abi.STRUCTS.items():
            self.assertEqual(offsets.get("struct_size") == 0, name not in arrays, name)

    def test_symbols(self):
        for name, symbols in (("runtime", abi.RUNTIME), ("compiler", abi.COMPILER), ("generate", abi.GENERATE)):
            self.assertEqual(symbols.split(), exported(BUILD / f"lib/libtenon_{name}.so"), name)

    def test_triton_backend(self):
        symbols = exported(BUILD / "lib/libtriton_tenon.so")
        self.assertIn("TRITONBACKEND_ModelInstanceExecute", symbols)
        self.assertEqual([], [name for name in symbols if not name.startswith("TRITONBACKEND_")])


if __name__ == "__main__":
    unittest.main()
