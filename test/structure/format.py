"""Holds every C and C++ file to .clang-format, by the clang-format that scripts/requirements.txt pins; tried on a planted line."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
FORMAT = pathlib.Path(sys.executable).parent / "clang-format"
SUFFIXES = {".c", ".cpp", ".h", ".hpp"}


def unformatted(files, text=None):
    """The files that would change; with `text`, that instead of what one file holds."""
    command = [FORMAT, "--dry-run", *files] if text is None else [FORMAT, "--dry-run", f"--assume-filename={files[0]}"]
    done = subprocess.run(command, input=text, check=True, capture_output=True, text=True, cwd=SOURCE)
    return sorted(set(re.findall(r"^(\S+?):\d+:\d+: warning: code should be clang-formatted", done.stderr, re.M)))


class Format(unittest.TestCase):
    def test_pinned(self):
        version = re.search(r"clang-format==(\S+)", (SOURCE / "scripts/requirements.txt").read_text())[1]
        self.assertIn(version, subprocess.run([FORMAT, "--version"], check=True, capture_output=True, text=True).stdout)

    def test_tree(self):
        listed = subprocess.run(["git", "-C", SOURCE, "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines()
        files = [file for file in listed if pathlib.PurePath(file).suffix in SUFFIXES and (SOURCE / file).exists()]
        self.assertGreater(len(files), 1000)
        self.assertEqual([], unformatted(files), "run .venv/bin/clang-format -i on these")

    def test_planted(self):
        self.assertEqual(["support/Planted.cpp"], unformatted(["support/Planted.cpp"], "int  f( ){return 1;}\n"))
        self.assertEqual([], unformatted(["support/Planted.cpp"], "int f() { return 1; }\n"))


if __name__ == "__main__":
    unittest.main()
