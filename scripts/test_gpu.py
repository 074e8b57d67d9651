#!/usr/bin/env python3
"""Tests on the GPU of this machine: the operator table, ONNX's own suite, the library calls, faulty kernels of the user's, compute-sanitizer over the
operator table, and the models of the zoo; ends with a page of results. A part that cannot run here is named with its reason.

Relies on `tenon`, `conformance`, `library_check` and `kernel_trial_check` of one preset, by default those that need nothing else. The rest is used where
it is: onnx and numpy for the models, the sanitizer of a CUDA toolkit.
"""

import argparse
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEBIAN_SUITE = pathlib.Path("/usr/share/libonnx-testdata/data")


def newer_suite():
    """The node cases that the onnx package of this Python brings."""
    package = importlib.util.find_spec("onnx")
    return pathlib.Path(package.origin).parent / "backend/test/data/node" if package else pathlib.Path("onnx")


class Skipped(Exception):
    """Why a part cannot run here."""


def run(command):
    """Exit code and what was printed."""
    try:
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
    except OSError as error:
        raise Skipped(str(error)) from error
    return done.returncode, done.stdout


def conformance(options, *arguments, jobs=None):
    return [options.bin / "conformance", "--target", options.target, "--timeout", options.timeout, "--jobs", jobs or options.jobs,
            "--batch", options.batch, *arguments]


def operators(options):
    return run(conformance(options, "ops", "--expected", ROOT / "test/ops/expected-failures.txt",
                           "--report", options.reports / "operators.txt"))


def suite(folder, listed, name):
    def part(options):
        if not folder(options).is_dir():
            raise Skipped(f"the suite is not in {folder(options)}")
        return run(conformance(options, folder(options), "--expected", ROOT / "test/conformance" / listed,
                               "--report", options.reports / f"{name}.txt"))
    return part


def libraries(options):
    return run([options.bin / "library_check"])


def kernels(options):
    return run([options.bin / "kernel_trial_check"])


def models(options):
    if not importlib.util.find_spec("numpy") or not importlib.util.find_spec("onnx"):
        raise Skipped("this Python lacks numpy or onnx")
    return run([sys.executable, ROOT / "test/gpu/zoo.py", "--tenon", options.bin / "tenon", "--target", options.target])


def errors_in(text):
    """What compute-sanitizer counted over all processes; none if it did not come to an end."""
    counts = [int(number) for number in re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)", text)]
    return sum(counts) if counts else None


def sanitize(options, tool, *arguments):
    command = [options.sanitizer, "--tool", tool, "--target-processes", "all", "--print-limit", "20",
               *conformance(options, *arguments, jobs=1)]
    text = run(command)[1]
    (options.reports / f"{tool}-{arguments[0]}.txt").write_text(text)
    return text


def check_tool(options, tool):
    """Whether a tool reports the fault that is planted for it and nothing of the operator table, and its lines."""
    start = time.monotonic()
    planted = errors_in(sanitize(options, tool, "faults", "--filter", tool))
    text = sanitize(options, tool, "ops", "--filter", options.cells, "--seconds", options.seconds)
    found, summary = errors_in(text), re.findall(r"^\d+ cases at .*", text, re.M)
    is_clean = bool(planted) and found == 0 and bool(summary) and "not run" not in summary[-1]
    lines = [f"{tool}: {planted} errors of the planted fault, {found} of the operator table "
             f"({summary[-1] if summary else 'no summary'}), {time.monotonic() - start:.0f} s"]
    lines += [f"  {line}" for line in dict.fromkeys(re.findall(r"=+ ((?:Invalid|Error|Uninit|Barrier|Race|Warning).*)", text))][:8]
    return is_clean, lines


def sanitizer(options):
    """The tools side by side, a process each."""
    options.sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not options.sanitizer:
        raise Skipped("compute-sanitizer is not installed")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        checks = list(pool.map(lambda tool: check_tool(options, tool), options.tools.split(",")))
    return int(not all(is_clean for is_clean, _ in checks)), "\n".join(line for _, lines in checks for line in lines)


PARTS = {
    "operators": operators,
    "conformance": suite(lambda options: options.suite, "expected-failures.txt", "conformance"),
    "newer": suite(lambda options: options.newer, "expected-failures-1.22.txt", "newer"),
    "libraries": libraries,
    "kernels": kernels,
    "sanitizer": sanitizer,
    "models": models,
}


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
    parser.add_argument("--only", default="", help=f"parts by comma: {', '.join(PARTS)}")
    parser.add_argument("--tools", default="memcheck,racecheck,initcheck,synccheck", help="tools of the sanitizer")
    parser.add_argument("--cells", default="", help="part of the names of the cells that the sanitizer sees; all by default")
    parser.add_argument("--seconds", type=int, default=0, help="for each tool of the sanitizer, then cells are left out; 0: all cells")
    parser.add_argument("--batch", type=int, default=40, help="cases that a process does one after the other")
    # Contexts of one GPU get in each other's way: on an H200 3 processes did 69 cells a second, 12 did 29.
    parser.add_argument("--jobs", type=int, default=min(3, os.cpu_count() or 1), help="processes at a time")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for a case")
    parser.add_argument("--reports", type=pathlib.Path, default=pathlib.Path("."), help="folder for the rows of all cases")
    options = parser.parse_args()
    options.reports.mkdir(parents=True, exist_ok=True)
    try:
        print(run([options.bin / "tenon", "doctor"])[1].strip(), flush=True)
    except Skipped as reason:
        sys.exit(f"test_gpu: {reason}; build it, or name its folder with --bin")
    results = {}
    for name, part in PARTS.items():
        if options.only and name not in options.only.split(","):
            continue
        print(f"== {name}", flush=True)
        start = time.monotonic()
        try:
            code, text = part(options)
            print(text if name == "sanitizer" else shown(text, code), flush=True)
            results[name] = code
            print(f"   {time.monotonic() - start:.0f} s", flush=True)
        except Skipped as reason:
            print(f"not run: {reason}", flush=True)
            results[name] = None
    words = {None: "not run", 0: "pass"}
    print("== " + ", ".join(f"{name} {words.get(code, 'FAIL')}" for name, code in results.items()))
    codes = [code for code in results.values() if code is not None]
    return max(codes, default=2)


if __name__ == "__main__":
    sys.exit(main())
