"""Checks that support/Errors.def and the pages in docs/errors list the same errors, and that each page is complete.

Relies on the layout of a page: a title line, then the sections Cause, Example and What to do.
"""

import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
SECTIONS = ["## Cause", "## Example", "## What to do"]


def defined(text):
    rows = re.findall(r'^TENON_ERROR\((\d+),\s*(\w+),\s*(\w+),\s*"([^"]*)"\)', text, re.M)
    return {f"TN{int(number):04}": (code, title) for number, _, code, title in rows}


def page_faults(errors, pages):
    faults = [f"{name} has no page" for name in sorted(errors.keys() - pages.keys())]
    faults += [f"the page {name} has no row in Errors.def" for name in sorted(pages.keys() - errors.keys())]
    for name in sorted(errors.keys() & pages.keys()):
        first = pages[name].splitlines()[0] if pages[name] else ""
        if first != f"# {name}: {errors[name][1]}":
            faults.append(f"the page {name} must begin with '# {name}: {errors[name][1]}'")
        faults += [f"the page {name} lacks '{section}'" for section in SECTIONS if section not in pages[name]]
    return faults


class ErrorPages(unittest.TestCase):
    def test_lists_are_equal(self):
        errors = defined((SOURCE / "support/Errors.def").read_text())
        pages = {path.stem: path.read_text() for path in (SOURCE / "docs/errors").glob("TN*.md")}
        self.assertGreater(len(errors), 30)
        self.assertEqual([], page_faults(errors, pages))

    def test_planted(self):
        page = "# TN0101: gone\n\n## Cause\n\n## Example\n\n## What to do\n"
        errors = defined('TENON_ERROR(101, FileNotFound, Usage, "gone")\nTENON_ERROR(7, Other,\n  Usage, "b")\n')
        self.assertEqual({"TN0101", "TN0007"}, set(errors))
        self.assertEqual(["TN0007 has no page"], page_faults(errors, {"TN0101": page}))
        self.assertEqual(["the page TN0999 has no row in Errors.def"],
                         page_faults({"TN0101": ("Usage", "gone")}, {"TN0101": page, "TN0999": page}))
        self.assertEqual(2, len(page_faults({"TN0101": ("Usage", "other")},
                                            {"TN0101": page.replace("## Example", "")})))


if __name__ == "__main__":
    unittest.main()
