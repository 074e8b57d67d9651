"""Checks that docs/ops/tn.md is what the .td files say now, and that each operation is described.

Relies on the command line that it is given: mlir-tblgen with the .td file as its last argument, text on stdout.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
PAGE = SOURCE / "docs/ops/tn.md"
COMMAND = sys.argv[1:]


def generated(definitions):
    return subprocess.run([*COMMAND[:-1], definitions], check=True, capture_output=True, text=True).stdout


def undescribed(page):
    """Operations without a summary line under their heading."""
    return [name for name, text in re.findall(r"^### `(tn\.\w+)`.*\n\n(.*)", page, re.M) if not text.startswith("_")]


class OpDocs(unittest.TestCase):
    maxDiff = 2000

    def test_page_is_current(self):
        self.assertEqual(generated(COMMAND[-1]), PAGE.read_text(), "run the target docs_ops and commit the page")

    def test_each_operation_is_described(self):
        page = PAGE.read_text()
        self.assertGreater(page.count("### `tn."), 80)
        self.assertEqual([], undescribed(page))

    def test_planted(self):
        text = pathlib.Path(COMMAND[-1]).read_text()
        with tempfile.TemporaryDirectory() as folder:
            changed = pathlib.Path(folder) / "TnOps.td"
            changed.write_text(text.replace('"Absolute value"', '"Absolute worth"'))
            page = generated(changed)
            self.assertNotEqual(page, PAGE.read_text())
            changed.write_text(text.replace('"Absolute value"', '""'))
            self.assertEqual(["tn.abs"], undescribed(generated(changed)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
