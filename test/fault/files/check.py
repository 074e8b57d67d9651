"""Every bad file is refused with the error of its class, within a second of a processor and 64 MiB + 16 times its size.

usage: check.py BAD_FILES [--seed SEED] [--stay] [--any-error]. --stay opens all in one process, for sanitizers, and takes
more time; --any-error is for a program that holds only the readers below the importer, which let pass what is not theirs.
"""

import argparse
import collections
import itertools
import pathlib
import secrets
import subprocess
import sys
import tempfile

import array_files
import common
import engine_files
import onnx_files
import pt2_files

LEAST_CLASSES, LEAST_FILES = 120, 1500
SECONDS, KILOBYTES, FACTOR = 1.0, 64 << 10, 16


def outcomes(program, verb, saved, folder):
    """(file, error, seconds, kilobytes) for each."""
    (folder / "list").write_text("".join(f"{file.door}\t{path}\n" for file, path in saved))
    done = subprocess.run([program, verb, folder / "list"], capture_output=True, text=True, errors="replace")
    lines = done.stdout.splitlines()
    for (file, path), line in itertools.zip_longest(saved, lines):
        if line is None:
            yield file, "ended the program", 0, 0
            sys.stderr.write(done.stderr[-5000:])
            return
        _, _, error, seconds, kilobytes = line.split("\t")
        yield file, error, float(seconds), int(kilobytes)


def complaint(file, error, seconds, kilobytes, strict=True, limits=True):
    if error != "ok" and not "TN01" <= error < "TN09":
        return f"{error}, where one of {file.errors} is right"
    if strict and error not in file.errors:
        return f"{error}, where one of {file.errors} is right"
    if limits and kilobytes > KILOBYTES + FACTOR * len(file.content) // 1024:
        return f"takes {kilobytes >> 10} MiB"
    if limits and seconds > SECONDS:
        return f"takes {seconds} s of a processor"
    return None


def planted(program, folder, good):
    """Each detector must report the fault that it is there for."""
    file = lambda door, errors=("TN0106",): common.BadFile(door, "planted", b"PK", errors)
    rows = [(file("slow"), "takes 1."), (file("hungry"), " MiB"), (file("crashing"), "signal-11"),
            (common.BadFile("engine", "planted", good, ("TN0502",)), "ok, where"),
            (file("npz", ("TN0502",)), "TN0106, where")]
    saved = common.save([row[0] for row in rows], folder)
    for (_, expected), outcome in zip(rows, outcomes(program, "check", saved, folder)):
        found = complaint(*outcome)
        assert found and expected in found, (expected, outcome)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--any-error", action="store_true")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([flags.program, "seed", folder / "good.tenon"], check=True)
        good = (folder / "good.tenon").read_bytes()
        classes = [onnx_files.onnx_files, pt2_files.pt2, array_files.npy, array_files.npz, array_files.image, *engine_files.classes(good)]
        files = [file for group in classes for file in group.files(flags.seed)]
        kinds = {file.kind for file in files}
        (folder / "planted").mkdir()
        (folder / "bad").mkdir()
        if not flags.stay:
            planted(flags.program, folder / "planted", good)
        failed = collections.Counter()
        saved = common.save(files, folder / "bad")
        for outcome in outcomes(flags.program, "stay" if flags.stay else "check", saved, folder):
            found = complaint(*outcome, strict=not flags.any_error, limits=not flags.stay)
            if found:
                failed[outcome[0].kind] += 1
                if failed[outcome[0].kind] == 1:
                    print(f"{outcome[0].kind}: {found}; its first bytes: {outcome[0].content[:200].hex()}")
        print(f"{len(files)} bad files of {len(kinds)} classes, seed {flags.seed}: {sum(failed.values())} wrong in "
              f"{len(failed)} classes")
        assert len(kinds) >= LEAST_CLASSES and len(files) >= LEAST_FILES, (len(kinds), len(files))
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
