"""Glosses of WordNet with their lexicographer's file as a class (nouns of food, verbs of motion, ...: 45 in all), from Debian's package
wordnet-base. Every tenth gloss is for tests, all others for training and calibration.
"""

import pathlib

WORDNET = pathlib.Path("/usr/share/wordnet")
CLASSES = 45
TEST_EVERY = 10


def read(folder=WORDNET):
    """All glosses without the sentences that show their use, in the order of the files: [(text, class)]."""
    rows = []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text().splitlines():
            if not line.startswith(" "):  # the licence is indented
                head, gloss = line.split(" | ", 1)
                rows.append((gloss.split('; "')[0].strip(), int(head.split()[1])))
    return rows


def split(rows):
    """(training, test)"""
    return ([row for i, row in enumerate(rows) if i % TEST_EVERY], [row for i, row in enumerate(rows) if i % TEST_EVERY == 0])
