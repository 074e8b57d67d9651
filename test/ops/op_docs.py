"""Checks that docs/ops/tn.md is what the .td files say now, that each operation is described, and that
docs/guides/adding-an-op.md quotes the files as they are.

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


def generated(*options):
    return subprocess.run([COMMAND[0], *options, *COMMAND[1:]], check=True, capture_output=True, text=True).stdout


def undescribed(page):
    """Operations without a summary line under their heading."""
    return [name for name, text in re.findall(r"^### `(tn\.\w+)`.*\n\n(.*)", page, re.M) if not text.startswith("_")]


def quotations(page):
    """Pairs of a file and the code quoted from it: a line with its path, then a block."""
    return re.findall(r"^`([^`\n]+)`\n\n```\w*\n(.*?)^```$", page, re.M | re.S)


def misquotations(page):
    """Parts of quotations (divided by a line of dots) that their file does not contain, whatever its line breaks."""
    faults = []
    for name, block in quotations(page):
        text = " ".join((SOURCE / name).read_text().split())
        faults += [(name, part) for part in re.split(r"^\.\.\.$", block, flags=re.M) if " ".join(part.split()) not in text]
    return faults


class OpDocs(unittest.TestCase):
    maxDiff = 2000

    def test_page_is_current(self):
        self.assertEqual(generated(), PAGE.read_text(), "run the target docs_ops and commit the page")

    def test_each_operation_is_described(self):
        page = PAGE.read_text()
        self.assertGreater(page.count("### `tn."), 80)
        self.assertEqual([], undescribed(page))

    def test_quotations(self):
        page = (SOURCE / "docs/guides/adding-an-op.md").read_text()
        self.assertEqual(6, len(quotations(page)))
        self.assertEqual([], misquotations(page))
        planted = "`compiler/graph/TnOps.td`\n\n```\ndef Tn_TriluOp\n...\ndef Tn_GoneOp\n```\n"
        self.assertEqual([("compiler/graph/TnOps.td", "\ndef Tn_GoneOp\n")], misquotations(planted))

    def test_planted(self):
        name = "compiler/graph/TnOps.td"
        text = (SOURCE / name).read_text()
        with tempfile.TemporaryDirectory() as folder:
            changed = pathlib.Path(folder) / name
            changed.parent.mkdir(parents=True)
            changed.write_text(text.replace('"Absolute value"', '"Absolute worth"'))
            self.assertNotEqual(generated("-I", folder), PAGE.read_text())
            changed.write_text(text.replace('"Absolute value"', '""'))
            self.assertEqual(["tn.abs"], undescribed(generated("-I", folder)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
