"""Holds that kernel families are told apart in one place: the table. Names of families and the objects of the table
stand in the families' own files and nowhere else in the sources, so no switch over families can grow.
"""

import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
TABLES = ("compiler/codegen/cuda/Families.cpp", "compiler/codegen/cuda/KernelFamily.h", "compiler/codegen/cpu/CpuCodegen.cpp")
FOLDERS = ("compiler", "tools")


def families():
    """Name of the object to the name in text."""
    rows = {}
    for path in (SOURCE / "compiler/codegen/cuda").glob("*/*.cpp"):
        rows |= dict(re.findall(r'constexpr KernelFamily (k\w+) = \{\s*\.name = "(\w+)"', path.read_text()))
    return rows


def faults(files, rows):
    """`files`: path to text. A family's own file defines it."""
    found = []
    for path, text in files.items():
        if path in TABLES:
            continue
        for variable, name in rows.items():
            if re.search(rf"constexpr KernelFamily {variable}\b", text):
                continue
            if re.search(rf'"{name}["{{]', text) or re.search(rf"\b{variable}\b", text):
                found.append(f"{path} tells the family {name} apart")
    return found


class KernelFamilies(unittest.TestCase):
    def test_nobody_switches(self):
        rows = families()
        listed = set(re.findall(r"&(k\w+)", (SOURCE / TABLES[0]).read_text()))
        self.assertEqual(listed, set(rows), "the table and the families' files name the same families")
        files = {str(path.relative_to(SOURCE)): path.read_text()
                 for folder in FOLDERS for path in (SOURCE / folder).rglob("*") if path.suffix in (".cpp", ".h")}
        self.assertGreater(len(files), 300)
        self.assertEqual([], faults(files, rows))

    def test_planted(self):
        rows = families()
        self.assertIn("kGemv", rows)
        for text in ('if (family == "gemv") {}', "switch (family) { case kGemv: break; }", 'kernel.starts_with("gemv{")'):
            self.assertEqual(1, len(faults({"compiler/plan/Any.cpp": text}, rows)), text)
        self.assertEqual([], faults({"compiler/plan/Any.cpp": "isGemvLike(op)"}, rows))


if __name__ == "__main__":
    unittest.main()
