"""Holds that kernel families are told apart in one place: the table. Names of families and the objects of the table
stand in the families' own files and nowhere else in the sources, so no switch over families can grow. Holds too that what
chooses and emits kernels asks a target for its features and numbers, never for the number of an architecture, and that each
room of families says what it is and what tunes it.
"""

import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
DEVICES = ("cpu", "cuda")
TABLES = tuple(f"compiler/codegen/{name}" for name in ("cpu/Families.cpp", "cpu/base/KernelFamily.h", "cuda/Families.cpp", "cuda/KernelFamily.h"))
FOLDERS = ("compiler", "tools")


def families(device):
    """Name of the object to the name in text."""
    rows = {}
    for path in (SOURCE / "compiler/codegen" / device).glob("*/*.cpp"):
        rows |= dict(re.findall(r'constexpr KernelFamily (k\w+) = \{\s*\.name = "(\w+)"', path.read_text()))
    return rows


def faults(files, rows):
    """`files`: path to text. A family's own file defines it."""
    found = []
    for path, text in files.items():
        if path in TABLES:
            continue
        text = re.sub(r"\.needs = \{[^}]*\}", "", text)  # names of operations
        for variable, name in rows.items():
            if re.search(rf"constexpr KernelFamily {variable}\b", text):
                continue
            if re.search(rf'"{name}["{{]', text) or re.search(rf"\b{variable}\b", text):
                found.append(f"{path} tells the family {name} apart")
    return found


def bare_constants(text):
    """Constants without a comment over them or over those that they stand right behind."""
    found, isExplained = [], False
    for line in text.splitlines():
        if line.startswith("inline constexpr"):
            found += [] if isExplained else [re.search(r"k\w+", line)[0]]
        isExplained = line.startswith("///") or (isExplained and line.startswith("inline constexpr"))
    return found


def arch_faults(files):
    """Where the architecture itself decides."""
    word = re.compile(r"CudaArch\b|isSpecific|target::targetOf\(|\"sm_|\barch(\.|->)number")
    return [f"{path}:{number} asks for the architecture" for path, text in files.items()
            for number, line in enumerate(text.splitlines(), 1) if word.search(line.split("//")[0])]


class KernelFamilies(unittest.TestCase):
    def test_nobody_switches(self):
        rows = {}
        for device in DEVICES:
            own = families(device)
            listed = set(re.findall(r"&(k[A-Z]\w+)", (SOURCE / f"compiler/codegen/{device}/Families.cpp").read_text()))
            self.assertEqual(listed, set(own), "the table and the families' files name the same families")
            rows |= own
        files = {str(path.relative_to(SOURCE)): path.read_text()
                 for folder in FOLDERS for path in (SOURCE / folder).rglob("*") if path.suffix in (".cpp", ".h")}
        self.assertGreater(len(files), 300)
        self.assertEqual([], faults(files, rows))

    def test_targets_are_asked_for_features(self):
        files = {str(path.relative_to(SOURCE)): path.read_text() for folder in ("codegen", "dispatch", "plan", "opt")
                 for path in (SOURCE / "compiler" / folder).rglob("*") if path.suffix in (".cpp", ".h")}
        self.assertGreater(len(files), 200)
        self.assertEqual([], arch_faults(files))
        for text in ("if (arch.number >= 90) {", "target::targetOf(arch).cores", 'name == "sm_90a"'):
            self.assertEqual(1, len(arch_faults({"a.cpp": text})), text)
        self.assertEqual([], arch_faults({"a.cpp": "gpu.has(target::Feature::Tma); // since sm_90, CudaArch"}))

    def test_rooms(self):
        """Each has a README, and a Tuning.h whose every constant stands below a comment."""
        rooms = {path.parent for path in (SOURCE / "compiler/codegen/cuda").glob("*/*.cpp") if "constexpr KernelFamily" in path.read_text()}
        self.assertGreaterEqual(len(rooms), 6)
        for room in rooms:
            self.assertTrue((room / "README.md").exists(), room)
            tuning = (room / "Tuning.h").read_text()
            self.assertEqual([], bare_constants(tuning), room)
        self.assertEqual(["kB"], bare_constants("/// Threads.\ninline constexpr int kA = 1;\ninline constexpr int kC = 1;\n\ninline constexpr int kB = 2;"))

    def test_planted(self):
        rows = families("cuda")
        self.assertIn("kGemv", rows)
        for text in ('if (family == "gemv") {}', "switch (family) { case kGemv: break; }", 'kernel.starts_with("gemv{")'):
            self.assertEqual(1, len(faults({"compiler/plan/Any.cpp": text}, rows)), text)
        self.assertEqual([], faults({"compiler/plan/Any.cpp": "isGemvLike(op)"}, rows))


if __name__ == "__main__":
    unittest.main()
