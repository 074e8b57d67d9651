"""Checks the pages of docs without MkDocs: each is in the navigation of mkdocs.yml, none is too long to be read, and those that the tree's files name exist.

Relies on git to search the tree. Links and anchors are checked by links.py, the site itself by docs_build.py.
"""

import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
DOCS = SOURCE / "docs"
LONGEST = 12_000
# Pages that are longer: those that programs write, and ledgers. One that is short enough leaves the list.
LONG = {
    "api/c.md", "api/python.md", "ops/tn.md",  # generated
    "measurements/2026-11-27-optimizers.md", "measurements/appendix.md",
}
# What stands for a page, pages that tests plant, and onnx's own.
NO_PAGES = {"docs/errors/TNnnnn.md", "docs/measurements/DATE-programs.md", "docs/measurements/DATE-real-models.md", "docs/none.md", "docs/products.md", "docs/other.md", "docs/Changelog.md", "docs/Versioning.md"}


def entries(settings):
    """The files and folders that the navigation names."""
    return re.findall(r"^ *- (?:.*: )?(\S+(?:\.md|/))$", settings.split("\nnav:\n")[1], re.M)


def navigation_faults(named, pages):
    folders = tuple(entry for entry in named if entry.endswith("/"))
    faults = [f"{entry} is named twice" for entry in sorted(set(named)) if named.count(entry) > 1]
    faults += [f"{entry} is in the navigation but not in docs" for entry in named if entry not in pages and not any(page.startswith(entry) for page in pages if entry in folders)]
    return faults + [f"{page} is not in the navigation" for page in sorted(pages) if page not in named and not (folders and page.startswith(folders))]


def length_faults(lengths, long):
    faults = [f"{page} has {length} characters: split it" for page, length in sorted(lengths.items()) if length > LONGEST and page not in long]
    return faults + [f"{page} is short enough now: take it off the list" for page in sorted(long) if lengths.get(page, 0) <= LONGEST]


def named_pages(text):
    return set(re.findall(r"(?<![\w./-])docs/[\w/-]+\.md\b", text))


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = {str(page.relative_to(DOCS)): page for page in DOCS.rglob("*.md")}
        cls.named = entries((SOURCE / "mkdocs.yml").read_text())

    def test_navigation(self):
        self.assertEqual([], navigation_faults(self.named, self.pages))

    def test_lengths(self):
        self.assertEqual([], length_faults({name: len(page.read_text()) for name, page in self.pages.items()}, LONG))

    def test_readme(self):
        """README is read to its end."""
        self.assertLessEqual((SOURCE / "README.md").read_text().count("\n"), 120)

    def test_named_pages(self):
        """Comments, messages, help and tests name pages that exist."""
        lines = subprocess.run(["git", "-C", str(SOURCE), "grep", "-hI", r"docs/[[:alnum:]_/-]*\.md"], check=True, capture_output=True, text=True).stdout
        named = named_pages(lines)
        self.assertGreater(len(named), 50)
        self.assertEqual([], sorted(name for name in named - NO_PAGES if not (SOURCE / name).exists()))

    def test_titles(self):
        self.assertEqual([], [name for name, page in self.pages.items() if not re.match(r"(<!--.*-->\s*)?# ", page.read_text())])

    def test_planted(self):
        pages = ["a.md", "b/c.md", "b/d.md"]
        self.assertEqual({"docs/none.md", "docs/other.md"}, named_pages("see docs/none.md, (docs/other.md#e) and other/docs/f.md"))
        self.assertEqual([], navigation_faults(entries("\nnav:\n  - A: a.md\n  - B:\n      - C: b/\n"), pages))
        self.assertEqual(["b/d.md is not in the navigation"], navigation_faults(["a.md", "b/c.md"], pages))
        self.assertEqual(["e/ is in the navigation but not in docs"], navigation_faults(["a.md", "b/", "e/"], pages))
        self.assertEqual(["a.md is named twice"], navigation_faults(["a.md", "b/", "a.md"], pages))
        self.assertEqual(["a.md has 12001 characters: split it"], length_faults({"a.md": 12_001}, set()))
        self.assertEqual(["a.md is short enough now: take it off the list"], length_faults({"a.md": 12_000}, {"a.md"}))


if __name__ == "__main__":
    unittest.main()
