#!/usr/bin/env python3
"""Tests on the GPU of this machine: the operator table, ONNX's own suite and the models of the zoo; ends with a summary.

Relies on `tenon` and `conformance` of any preset, and on numpy and onnx for the models. Compiler and GPU are all it needs.
"""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEBIAN_SUITE = pathlib.Path("/usr/share/libonnx-testdata/data")


def newer_suite():
    """The node cases that the onnx package of this Python brings."""
    package = importlib.util.find_spec("onnx")
    return pathlib.Path(package.origin).parent / "backend/test/data/node" if package else pathlib.Path("onnx")


def suites(options):
    """Name and command of each part."""
    conformance = [options.bin / "conformance", "--target", options.target, "--jobs", options.jobs, "--timeout", options.timeout]
    reports = options.reports
    yield "operators", [*conformance, "ops", "--expected", ROOT / "test/ops/expected-failures.txt", "--report", reports / "operators.txt"]
    for name, folder, listed in (("conformance", options.suite, "expected-failures.txt"),
                                 ("newer", options.newer, "expected-failures-1.22.txt")):
        if folder.is_dir():
            yield name, [*conformance, folder, "--expected", ROOT / "test/conformance" / listed, "--report", reports / f"{name}.txt"]
        else:
            print(f"test_gpu: the suite {name} is not in {folder}")
    yield "models", [sys.executable, ROOT / "test/gpu/zoo.py", "--tenon", options.bin / "tenon", "--target", options.target]


def shown(text, code):
    """What matters of a part's output: contradictions of its list, failing rows where there is no list, the last line."""
    lines = text.splitlines()
    picked = [line for line in lines if line.startswith("UNEXPECTED")] or [line for line in lines if code and line.startswith("fail ")]
    return "\n".join([*picked[:60], *([f"… {len(picked) - 60} more"] if len(picked) > 60 else []), *lines[-1:]])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/static/bin")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--suite", type=pathlib.Path, default=DEBIAN_SUITE, help="folder of the cases of libonnx-testdata")
    parser.add_argument("--newer", type=pathlib.Path, default=newer_suite(), help="folder of the node cases of onnx 1.22")
    parser.add_argument("--only", default="", help="parts by comma: operators, conformance, newer, models")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--timeout", type=int, default=120, help="seconds for a case")
    parser.add_argument("--reports", type=pathlib.Path, default=pathlib.Path("."), help="folder for the rows of all cases")
    options = parser.parse_args()
    options.reports.mkdir(parents=True, exist_ok=True)
    found = subprocess.run([str(options.bin / "tenon"), "doctor"], capture_output=True, text=True)
    print(found.stdout.strip(), flush=True)
    results = {}
    for name, command in suites(options):
        if options.only and name not in options.only.split(","):
            continue
        print(f"== {name}", flush=True)
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(shown(done.stdout, done.returncode), flush=True)
        results[name] = done.returncode
    print("== " + ", ".join(f"{name} {'pass' if code == 0 else 'FAIL'}" for name, code in results.items()))
    return max(results.values(), default=2)


if __name__ == "__main__":
    sys.exit(main())
