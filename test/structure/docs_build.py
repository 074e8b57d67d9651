"""Builds the site of docs as `make docs` does, and searches it in a browser, opened as a file: `docs_build.py MKDOCS`.

MkDocs fails where a link or an anchor is dead. Without its environment the test is skipped: `scripts/setup.sh docs` makes it.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
MKDOCS = sys.argv[1]
sys.path.insert(0, str(SOURCE / "test/e2e"))
from browser import Browser  # noqa: E402


def build(source, site):
    command = [MKDOCS, "build", "--config-file", source / "mkdocs.yml", "--site-dir", site]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})


def found(browser, words):
    """The pages that the search finds, without a server."""
    browser.click('[data-md-component="search-query"]')
    browser.type(words)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        browser.press(" ")
        if results := browser.evaluate("[...document.querySelectorAll('.md-search-result__item > a')].map(link => link.href)"):
            return results
    return []


@unittest.skipUnless(pathlib.Path(MKDOCS).exists(), "scripts/setup.sh docs makes the environment")
class Site(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_site(self):
        done = build(SOURCE, self.folder)
        self.assertEqual(0, done.returncode, done.stderr)
        for page in ("index.html", "errors/TN0301.html", "adr/0015-kernel-families.html", "tree/examples/c_api.c.txt"):
            self.assertTrue((self.folder / page).exists(), page)
        with Browser() as browser:
            browser.open(self.folder / "index.html")
            results = found(browser, "unsupported operator")
            self.assertTrue(any("errors/TN" in page for page in results), results)
            self.assertEqual([], browser.errors)
            self.assertEqual([], [address for address in browser.requests if not address.startswith(("file:", "data:", "about:", "blob:"))])

    def test_planted(self):
        """A dead link, a dead anchor and a page outside of the navigation."""
        shutil.copytree(SOURCE / "scripts", self.folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        settings = (SOURCE / "mkdocs.yml").read_text().split("\nnav:\n")[0] + "\nnav:\n  - A: index.md\n"
        (self.folder / "mkdocs.yml").write_text(settings)
        (self.folder / "docs").mkdir()
        (self.folder / "docs/index.md").write_text("# A\n\n## B c\n\n[here](#b-c)\n")
        self.assertEqual(0, build(self.folder, self.folder / "site").returncode)
        for page, text in (("index.md", "# A\n\n[x](none.md)\n"), ("index.md", "# A\n\n[x](#none)\n"), ("other.md", "# Other\n")):
            (self.folder / "docs" / page).write_text(text)
            self.assertEqual(1, build(self.folder, self.folder / "site").returncode, text)
            (self.folder / "docs/index.md").write_text("# A\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
