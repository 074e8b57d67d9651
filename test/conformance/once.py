"""Runs the cases of a suite that another suite does not hold: `once.py CONFORMANCE SUITE OTHER --expected LIST --other-expected LIST --report FILE`.

A case is the same where its model and all its data are the same bytes; a name alone says nothing, since the newer suite has the older one's cases at newer opsets. Cases that both
hold are expected to do the same in both, so the two lists must agree on them.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

LIMIT = "# at most "


def digest(folder):
    """Of the names and the content of all files of a case."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(folder)}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.digest()


def cases_of(suite):
    """{name: digest}"""
    return {str(model.parent.relative_to(suite)): digest(model.parent) for model in sorted(suite.rglob("model.onnx"))}


def held_twice(cases, others):
    """{name of a case: its name in the other suite} of those that are the same."""
    names = {found: name for name, found in others.items()}
    return {name: names[found] for name, found in cases.items() if found in names}


def names_of(text):
    return {line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#")}


def without(text, twice):
    """A list of expected failures without these cases, and its limit as much lower."""
    lines, gone = [], len(names_of(text) & set(twice))
    for line in text.splitlines():
        if line.startswith(LIMIT):
            line = f"{LIMIT}{int(line[len(LIMIT):]) - gone}"
        if line.startswith("#") or not line.strip() or line.split()[0] not in twice:
            lines.append(line)
    return "\n".join(lines) + "\n"


def disagreements(text, other, twice):
    """Cases of both suites that one list has and the other has not."""
    listed, others = names_of(text), names_of(other)
    return [name for name, elsewhere in twice.items() if (name in listed) != (elsewhere in others)]


def link(source, target):
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("program", "suite", "other"):
        parser.add_argument(name, type=pathlib.Path)
    for flag in ("--expected", "--other-expected", "--report"):
        parser.add_argument(flag, type=pathlib.Path, required=True)
    flags = parser.parse_args()
    cases = cases_of(flags.suite)
    twice = held_twice(cases, cases_of(flags.other))
    expected, other = flags.expected.read_text(), flags.other_expected.read_text()
    wrong = disagreements(expected, other, twice)
    if wrong:
        sys.exit(f"once: {flags.expected} and {flags.other_expected} do not say the same of {', '.join(wrong)}")
    print(f"{len(twice)} of {len(cases)} cases are those of {flags.other} to the byte, and are run there", flush=True)
    with tempfile.TemporaryDirectory(dir=flags.report.parent) as name:
        folder = pathlib.Path(name)
        for case in cases:
            if case not in twice:
                shutil.copytree(flags.suite / case, folder / "cases" / case, copy_function=link)
        (folder / "expected.txt").write_text(without(expected, twice))
        sys.exit(subprocess.run([flags.program, folder / "cases", "--expected", folder / "expected.txt", "--report", flags.report]).returncode)


if __name__ == "__main__":
    main()
