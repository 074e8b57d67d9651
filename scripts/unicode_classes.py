#!/usr/bin/env python3
"""Writes generate/tokenizer/UnicodeClasses.inc: the general category of every code point, as PyPI's tokenizers has it, whose patterns
language models were trained with. Relies on the package of scripts/requirements-torch.txt; run it when that moves to a new Unicode.
"""

import pathlib
import sys

from tokenizers import Regex, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
# In the order of tenon::generate::CodeClass; what none of them takes is Other.
CLASSES = [("Space", r"\s"), ("Upper", r"\p{Lu}"), ("Title", r"\p{Lt}"), ("Lower", r"\p{Ll}"), ("Modifier", r"\p{Lm}"), ("Letter", r"\p{Lo}"),
           ("Mark", r"\p{M}"), ("Digit", r"\p{Nd}"), ("Number", r"[\p{Nl}\p{No}]"), ("Punctuation", r"\p{P}"), ("Symbol", r"\p{S}")]
POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]


def taken(pattern):
    """The code points that a pattern matches."""
    text = "".join(map(chr, POINTS))
    left = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(text)
    matched = bytearray(b"\1") * len(POINTS)
    for _, (begin, end) in left:
        matched[begin:end] = bytes(end - begin)
    return matched


def main():
    kinds = ["Other"] * 0x110000
    for name, pattern in CLASSES:
        for point, isTaken in zip(POINTS, taken(pattern)):
            if isTaken:
                kinds[point] = name
    lines, previous = [], None
    for point, kind in enumerate(kinds):
        if kind != previous:
            lines.append(f"{{0x{point:x}, CodeClass::{kind}}},")
            previous = kind
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "generate/tokenizer/UnicodeClasses.inc"
    target.write_text("// Written by scripts/unicode_classes.py: where each run of code points of one class begins.\n" + "\n".join(lines) + "\n")
    print(f"{target}: {len(lines)} runs")


main()
