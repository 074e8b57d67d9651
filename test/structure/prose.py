"""Checks that README, docs, help, messages, public headers and descriptions of operations keep to the words of the field and to plain sentences.

Relies on git for the lists of files and on `tenon help --json` for the help. Each pattern comes with a sentence in which it must be found.
Pages of the past (decisions, measurements) are not read; those written from C++ sources are read there. Nor are texts that engines record.
"""

import json
import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
TENON = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "bin/tenon"
NOT_READ = {"adr", "c.md", "measurements", "ops"}
# Their texts are records in engines and quantized models, whose bytes stay.
RECORDED = ("compiler/codegen/", "compiler/dispatch/", "compiler/quant/")

# What is not said, and a sentence that says it.
PATTERNS = {
    r"\bare none\b|\b(?:it|that|which|what) is none\b": "Where there are none, the default holds.",
    r"\b(?:is|are|was|were|be|unless|once) told\b": "A client is told the reason.",
    r"\bas usual\b": "0, as usual, runs what is there.",
    r"\bso many\b": "At most so many requests wait.",
    r"\bthat it is of\b": "The error meets the request that it is of.",
    r"\bpass(?:es|ed|ing)? over (?:by|in|with|such|those|files|fields|where|when|and)\b|\b(?:is|are) passed over\b": "Such fields are passed over.",
    r"\banew\b": "The model is measured anew.",
    r"\bbut for\b": "All of them, but for the last.",
    r"\bstands? (?:in|on|there|beside|behind|before|at|for all)\b": "The reason stands in the log.",
    r"\bgo(?:es)? on (?:with|from|where|when|by|as)\b": "The search goes on where it ended.",
    r"\bmend(?:s|ed|ing)?\b": "Mend it and load the model again.",
    r"\brac(?:e|es|ed|ing) (?:of |kernels|in)|\b(?:are|is) raced\b": "Kernels are raced for a minute.",
    r"\bnets?\b": "The net has five layers.",
    r"\b(?:matrix|large|skinny|narrow|library's|generated) products?\b|\bconvolutions? (?:and|or) products?\b|\bproducts? (?:and|or) convolutions?\b|\bof products\b": "Convolutions and products run in integers.",
    r"\bstrips?\b": "A thread takes a strip of each tensor.",
    r"\bwish(?:es)?\b": "What you wish is a target.",
    r"\bin turn with\b": "Both engines run in turn with each other.",
    r"\btak(?:e|es|en) off\b": "The shift is taken off the bias.",
    r"\bcomput(?:e|es|ed|ing) wide\b|\bstays? wide\b": "The last layer stays wide.",
    r"\b(?:as|that) few as\b|\bas little as the model needs\b": "It removes as few as the model needs.",
    r"\bthe most (?:rows|bytes|requests|samples)\b": "Up to the most rows.",
    r"\bwho (?:runs|has|wants|signs|reads) (?:models|it|them|one)\b": "Who runs models needs a token.",
    r"\beverybody may everything\b": "Without tokens everybody may everything.",
    r"\bis not one that\b": "This is not one that the server has.",
    r"(?<!there )(?<!where )\b(?:is|are) no (?!longer|more|less|larger|smaller|faster|slower|worse|better|different|need|use|such)\w+": "The file is no registry.",
    r"\b(?:inside|outside) of\b": "It lies outside of the folder.",
}

COMPILED = [re.compile(pattern, re.I) for pattern in PATTERNS]


def prose(text):
    """A page without code, quotations of code and targets of links."""
    return re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", " ", text, flags=re.S)


def faults(text):
    """Each find with what is around it."""
    text = " ".join(prose(text).split())
    return [text[max(0, found.start() - 20):found.end() + 20] for pattern in COMPILED for found in pattern.finditer(text)]


LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|\'(?:[^\'\\\n]|\\.)+\'|R"(\w*)\(.*?\)\1"|#include[^\n]*|((?:"(?:[^"\\\n]|\\.)*"\s*)+)', re.S)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def messages(source):
    """The texts of C++ code that have more than a word: adjacent literals are one."""
    pieces = [re.findall(r'"((?:[^"\\\n]|\\.)*)"', found[2]) for found in LITERAL.finditer(source) if found[2]]
    return [text for piece in pieces if " " in (text := "".join(piece))]


def comments(source):
    return " ".join(re.sub(r"^[ \t]*(?://+|/?\*+/?)", " ", found[0], flags=re.M) for found in COMMENT.finditer(source))


def descriptions(source):
    """The texts of a .td file, without its code."""
    return messages(source) + re.findall(r"description = \[\{(.*?)\}\]", source, re.S)


def tracked(*patterns):
    listed = subprocess.run(["git", "-C", str(SOURCE), "ls-files", *patterns], check=True, capture_output=True, text=True)
    return [path for line in listed.stdout.splitlines() if (path := SOURCE / line).exists()]


def pages():
    return [page for page in tracked("README.md", "CONTRIBUTING.md", "docs/*.md") if not NOT_READ & set(page.relative_to(SOURCE).parts)]


def name_of(page):
    return str(page.relative_to(SOURCE))


def help_texts(verbs):
    for verb in verbs:
        yield verb["verb"], verb["summary"]
        for each in verb["arguments"] + verb["flags"]:
            yield f"{verb['verb']} {each.get('name') or each['names'][-1]}", each["help"]
        yield from help_texts(verb["verbs"])


class Prose(unittest.TestCase):
    maxDiff = None

    def test_pages(self):
        self.assertGreater(len(pages()), 200)
        self.assertEqual({}, {name_of(page): found for page in pages() if (found := faults(page.read_text()))})

    def test_help(self):
        verbs = json.loads(subprocess.run([TENON, "help", "--json"], capture_output=True, check=True).stdout)["verbs"]
        texts = list(help_texts(verbs))
        self.assertGreater(len(texts), 200)
        self.assertEqual({}, {name: found for name, text in texts if (found := faults(text))})

    def test_messages(self):
        files = [file for file in tracked("*.cpp", "*.h", "*.def") if not name_of(file).startswith(("test/", "examples/", *RECORDED))]
        texts = [(name_of(file), text) for file in files for text in messages(file.read_text())]
        self.assertGreater(len(texts), 5_000)
        self.assertEqual([], [(name, found) for name, text in texts if (found := faults(text))])

    def test_interfaces(self):
        texts = [(name_of(file), comments(file.read_text())) for file in tracked("include/tenon/*.h")]
        texts += [(name_of(file), text) for file in tracked("*.td") for text in descriptions(file.read_text())]
        self.assertGreater(len(texts), 100)
        self.assertEqual([], [(name, found) for name, text in texts if (found := faults(text))])

    def test_planted(self):
        self.assertEqual(["so many bytes, 'x'", "go on"], messages("""// "a b"\nerror("so many "\n"bytes, 'x'", '"', "go", R"(b b)", "go on"); /* "c d" */"""))
        self.assertEqual(1, len(faults(comments("int a; /* As\n * usual. */"))))
        self.assertEqual(["Op one.", "Op two.", "A\n  net."], descriptions('summary = "Op one."; description = [{A\n  net.}]; description = "Op two.";'))
        for pattern, sentence in PATTERNS.items():
            self.assertEqual(1, len(faults(sentence)), f"{pattern}: {sentence}")
            self.assertTrue(re.search(pattern, faults(sentence)[0], re.I), sentence)
            self.assertEqual(1, len(faults(f"A line\nof a page.\n{sentence.replace(' ', chr(10), 1)}")), sentence)
        self.assertEqual([], faults("`products are none` [a net](docs/products.md)\n```\nso many\n```\nThe default is 0. Fix the file and load the model again.".replace("a net", "a page")))


if __name__ == "__main__":
    unittest.main()
