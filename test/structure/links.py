"""Checks that what pages link to is in the tree, and the files that CONTRIBUTING.md names.

Relies on git for the list of pages; each check is tried on a planted fault.
"""

import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])


def pages():
    listed = subprocess.run(["git", "-C", str(SOURCE), "ls-files", "*.md"], check=True, capture_output=True, text=True)
    return [SOURCE / line for line in listed.stdout.splitlines() if (SOURCE / line).exists()]


def anchors_of(text):
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def link_faults(page, text):
    faults = []
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists():
            faults.append(f"{page.name} links to {target}, which is not there")
        elif anchor and file.suffix == ".md" and anchor not in anchors_of(text if file == page else file.read_text()):
            faults.append(f"{page.name} links to {target}, a page without that heading")
    return faults


def named_faults(text):
    """Paths in backticks that begin with a folder of the tree."""
    named = [name for name in re.findall(r"`([\w./-]+/[\w./-]+)`", text) if (SOURCE / name.split("/")[0]).is_dir()]
    built = {name for name in named if name.startswith("build/")}
    return [f"{name} is named, but not in the tree" for name in named if name not in built and not (SOURCE / name).exists()]


class Links(unittest.TestCase):
    def test_pages(self):
        self.assertGreater(len(pages()), 50)
        self.assertEqual([], [fault for page in pages() for fault in link_faults(page, page.read_text())])

    def test_contributing(self):
        self.assertEqual([], named_faults((SOURCE / "CONTRIBUTING.md").read_text()))

    def test_planted(self):
        page = SOURCE / "README.md"
        self.assertEqual([], link_faults(page, "# A b\n[x](docs/explanation/folders.md) [y](#a-b) [z](docs/explanation/folders.md#the-folders) [w](https://a.b)"))
        self.assertEqual(3, len(link_faults(page, "[x](docs/none.md) [y](#none) [z](docs/explanation/folders.md#none)")))
        self.assertEqual(1, len(named_faults("`compiler/opt/None.cpp` `compiler/opt/Optimize.cpp` `build/none/x`")))


if __name__ == "__main__":
    unittest.main()
