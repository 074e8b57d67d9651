"""Checks docs/explanation/claims.md: what it quotes is on the page, the test that it names exists, and no page promises more in strong words.

Relies on ctest for the names of the tests in the folder of the build, and on prose.py for the pages that are read.
"""

import os
import pathlib
import re
import subprocess
import unittest

import prose

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"])
LIST = SOURCE / "docs/explanation/claims.md"
STRONG = re.compile(r"\b(?:never|always|every|proven|guarantee[sd]?)\b", re.I)


def rows(text):
    """(page, claim, test, function) of each row."""
    return re.findall(r"^\| ([\w/-]+\.md) \| (.*) \| `([\w.-]+)`: `([\w.]+)` \|$", text, re.M)


def plain(text):
    return " ".join(text.split())


def is_there(test, function, files):
    """Whether a script whose name is in the test's has the function, or any C++ test the case Suite.Name."""
    if "." in function:
        suite, case = function.split(".")
        return any(re.search(rf"\bTEST(?:_F|_P)?\(\s*{suite},\s*{case}\)", text) for path, text in files if path.suffix == ".cpp")
    return any(f"def {function}(" in text for path, text in files if path.suffix == ".py" and path.stem.removeprefix("test_").removesuffix("ed") in test)


def without_title(page):
    """The title of an error's page says what the error is, and promises nothing."""
    text = page.read_text()
    return text.partition("\n")[2] if re.fullmatch(r"TN\d{4}", page.stem) else text


def unlisted(text, claims):
    """Sentences of a page with a strong word that no claim is part of."""
    sentences = re.split(r"(?<=[.:;])\s|\n\n|\n(?=[-|#])", prose.prose(text))
    return [plain(sentence) for sentence in sentences if STRONG.search(sentence) and not any(plain(prose.prose(claim)) in plain(sentence) for claim in claims)]


class Claims(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.rows = rows(LIST.read_text())
        cls.files = [(path, path.read_text(errors="ignore")) for path in (SOURCE / "test").rglob("*") if path.suffix in (".py", ".cpp")]

    def test_quotations(self):
        self.assertGreater(len(self.rows), 60)
        self.assertEqual([], [(name, claim) for name, claim, *_ in self.rows if plain(claim) not in plain((SOURCE / "docs" / name).read_text())])

    def test_each_has_a_test(self):
        listed = subprocess.run(["ctest", "-N"], cwd=BUILD, capture_output=True, text=True, check=True).stdout
        names = set(re.findall(r"Test +#\d+: (\S+)", listed))
        self.assertEqual([], [test for _, _, test, _ in self.rows if test not in names])
        self.assertEqual([], [(test, function) for _, _, test, function in self.rows if not is_there(test, function, self.files)])

    def test_strong_words(self):
        claims = [claim for _, claim, *_ in self.rows]
        read = [page for page in prose.pages() if page != LIST and page.parent.name != "api"]
        self.assertEqual({}, {prose.name_of(page): found for page in read if (found := unlisted(without_title(page), claims))})

    def test_planted(self):
        self.assertEqual([("a.md", "it holds", "e2e_cache", "test_x")], rows("| page | claim | test |\n| a.md | it holds | `e2e_cache`: `test_x` |\n"))
        files = [(pathlib.PurePath("cache.py"), "def test_x(self)"), (pathlib.PurePath("A.cpp"), "TEST(Engine, Opens) {")]
        self.assertTrue(is_there("e2e_cache", "test_x", files) and is_there("unit", "Engine.Opens", files))
        self.assertFalse(is_there("e2e_cache", "test_y", files) or is_there("e2e_tune", "test_x", files) or is_there("unit", "Engine.Closes", files))
        self.assertEqual(["It never fails."], unlisted("It works. It never fails.\n\nIt never stops.", ["never stops"]))
        self.assertEqual(["- Every size is right"], unlisted("- Every size is right\n- some", []))


if __name__ == "__main__":
    unittest.main()
