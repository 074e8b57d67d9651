"""Checks that docs/explanation/folders.md and docs/explanation/folders-tests.md list the folders of the tree, all of them and no others, and that files stay readable.

Relies on git for the list of files, so build output does not count; each check is tried on a planted fault.
"""

import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
MAX_LINES = 800
# Longer files outside of tests say in their head why they are one file.
REASONED_LINES, HEAD, REASON = 400, 15, "One file"
MAX_DEPTH = 4


def tracked():
    listed = subprocess.run(["git", "-C", str(SOURCE), "ls-files"], check=True, capture_output=True, text=True)
    return [pathlib.PurePath(line) for line in listed.stdout.splitlines() if (SOURCE / line).exists()]


def folders_of(files):
    """Every folder that holds tracked files, itself or below."""
    return {str(parent) for file in files for parent in file.parents if str(parent) != "."}


def listed_folders(text):
    return re.findall(r"^\| `([^`]+)/` \|", text, re.M)


def map_faults(listed, present):
    faults = [f"{name} is listed twice" for name in sorted(set(listed)) if listed.count(name) > 1]
    faults += [f"{name} is listed but not in the tree" for name in sorted(set(listed) - present)]
    covered = {name for name in listed if not any(other.startswith(name + "/") for other in listed)}
    for name in sorted(present - set(listed)):
        if not any(name.startswith(leaf + "/") for leaf in covered):
            faults.append(f"{name} is in the tree but not listed")
    return faults


def unreasoned(code):
    return [name for name, text in code.items()
            if text.count("\n") > REASONED_LINES and REASON not in "\n".join(text.splitlines()[:HEAD])]


class Folders(unittest.TestCase):
    def test_map(self):
        listed = listed_folders((SOURCE / "docs/explanation/folders.md").read_text() + (SOURCE / "docs/explanation/folders-tests.md").read_text())
        self.assertGreater(len(listed), 20)
        self.assertEqual([], map_faults(listed, folders_of(tracked())))

    def test_planted(self):
        present = {"engine", "compiler", "compiler/opt", "compiler/opt/deep"}
        self.assertEqual([], map_faults(["engine", "compiler", "compiler/opt"], present))
        self.assertEqual(["engine is in the tree but not listed"],
                         map_faults(["compiler", "compiler/opt"], present))
        self.assertEqual(["compiler/opt is in the tree but not listed",
                          "compiler/opt/deep is in the tree but not listed"],
                         map_faults(["engine", "compiler", "compiler/plan"], present | {"compiler/plan"}))
        self.assertEqual(["gone is listed but not in the tree"],
                         map_faults(["engine", "compiler", "gone"], present))

    def test_depth(self):
        deep = [name for name in folders_of(tracked()) if name.count("/") >= MAX_DEPTH]
        self.assertEqual([], deep)

    def test_lengths(self):
        code = [file for file in tracked() if file.suffix in {".h", ".hpp", ".cpp", ".c", ".py"}]
        long = [str(file) for file in code if len((SOURCE / file).read_text().splitlines()) > MAX_LINES]
        self.assertEqual([], long, f"files over {MAX_LINES} lines want a split")

    def test_reasons(self):
        code = {str(file): (SOURCE / file).read_text() for file in tracked()
                if file.suffix in {".h", ".hpp", ".cpp", ".c", ".py"} and file.parts[0] not in ("test", "scripts")}
        self.assertGreater(len(code), 700)
        self.assertEqual([], unreasoned(code))
        long = "\n" * 500
        self.assertEqual(["a.cpp"], unreasoned({"a.cpp": "// Engines." + long, "b.cpp": "// One file, since both share a cache." + long}))


if __name__ == "__main__":
    unittest.main()
