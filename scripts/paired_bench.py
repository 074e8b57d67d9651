#!/usr/bin/env python3
"""Compares an engine with ONNX Runtime: alternating rounds, same inputs and cores, outputs compared in the same run.

Relies on `tenon run` and `tenon bench --json`, and on peer_ort.py beside this file. Exits with 1 when the outputs differ by
more than the tolerance or, with --limit, when Tenon is slower than that ratio.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np

CANARY_DRIFT = 0.05
RESAMPLES = 4000
PEER = pathlib.Path(__file__).resolve().parent / "peer_ort.py"


def cpu_name():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def run(command, cpus):
    """Output of a command that may use only these cores."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    if done.returncode != 0:
        raise SystemExit(f"paired_bench: {' '.join(map(str, command))} exited with {done.returncode}:\n"
                         f"{done.stderr.strip()}")
    return done.stdout


def canary():
    """Milliseconds of a fixed product and a fixed copy, which tell whether the machine was disturbed."""
    a = np.ones((768, 768), np.float32)
    b = np.ones(1 << 24, np.float32)
    best = [np.inf, np.inf]
    for _ in range(5):
        for index, work in enumerate((lambda: a @ a, b.copy)):
            before = time.perf_counter()
            work()
            best[index] = min(best[index], (time.perf_counter() - before) * 1e3)
    return best


def largest_difference(ours, theirs):
    """Largest |ours - theirs| over the outputs, each relative to the largest magnitude of theirs."""
    worst = 0.0
    for name, expected in theirs.items():
        if name not in ours or ours[name].shape != expected.shape:
            raise SystemExit(f"paired_bench: output {name} is missing or has another shape")
        difference = np.abs(ours[name].astype(np.float64) - expected.astype(np.float64))
        worst = max(worst, np.nan_to_num(difference, nan=np.inf).max() / max(np.abs(expected).max(), 1e-30))
    return float(worst)


def quiet_rounds(canaries):
    """Rounds with undisturbed canaries on both sides; canary i was taken before round i, the last one at the end."""
    table = np.array(canaries)
    quiet = (table / table.min(axis=0) - 1).max(axis=1) <= CANARY_DRIFT
    return np.flatnonzero(quiet[:-1] & quiet[1:])


def ratio(ours, theirs, reduce):
    """Ratio ours / theirs of reduced rounds, with a 95 % interval by resampling rounds in pairs."""
    ours, theirs = np.array(ours), np.array(theirs)
    picks = np.random.default_rng(0).integers(0, len(ours), (RESAMPLES, len(ours)))
    samples = reduce(ours[picks], axis=1) / reduce(theirs[picks], axis=1)
    low, high = np.quantile(samples, [0.025, 0.975])
    return {"value": float(reduce(ours) / reduce(theirs)), "low": float(low), "high": float(high)}


def measure(options, cpus):
    """Results of both sides and the canaries around the rounds; which side goes first alternates.

    Ends with enough quiet rounds, or with three times as many rounds as asked for.
    """
    ours_command = [options.tenon, "bench", options.engine, "--inputs", options.inputs,
                    "--threads", options.threads, "--json", "--quiet"]
    peer_command = [sys.executable, PEER, options.model, "--inputs", options.inputs,
                    "--threads", options.threads, "--seconds", options.seconds]
    if options.fix_dims:
        peer_command.append("--fix-dims")
    ours, theirs, canaries = [], [], [canary()]
    while len(ours) < 3 * options.rounds and len(quiet_rounds(canaries)) < options.rounds:
        sides = [(ours_command, ours), (peer_command, theirs)]
        for command, results in sides if len(ours) % 2 == 0 else reversed(sides):
            results.append(json.loads(run(command, cpus)))
        canaries.append(canary())
        print(f"round {len(ours)}: tenon {ours[-1]['latency_ms']['min']:.3f} ms, "
              f"onnxruntime {theirs[-1]['latency_ms']['min']:.3f} ms, "
              f"{len(quiet_rounds(canaries))} of {options.rounds} quiet", file=sys.stderr)
    return ours, theirs, quiet_rounds(canaries)


def compare_outputs(options, cpus):
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = pathlib.Path(folder) / "ours.npz", pathlib.Path(folder) / "theirs.npz"
        run([options.tenon, "run", options.engine, "--inputs", options.inputs, "--threads",
             options.threads, "-o", ours, "--quiet"], cpus)
        run([sys.executable, PEER, options.model, "--inputs", options.inputs, "--threads",
             options.threads, "--seconds", 0, "--least", 1, "-o", theirs], cpus)
        return largest_difference(dict(np.load(ours)), dict(np.load(theirs)))


def column(rounds, key):
    return [one["latency_ms"][key] for one in rounds]


def summary(rounds, version):
    return {"min_ms": min(column(rounds, "min")), "median_ms": float(np.median(column(rounds, "median"))),
            "version": version, "isa": rounds[0].get("isa")}


def report(options, cpus):
    difference = compare_outputs(options, cpus)
    ours, theirs, quiet = measure(options, cpus)
    total, disturbed = len(ours), len(quiet) < 3
    if not disturbed:
        ours, theirs = [ours[i] for i in quiet], [theirs[i] for i in quiet]
    return {
        "engine": str(options.engine), "model": str(options.model),
        "ratio_of_minima": ratio(column(ours, "min"), column(theirs, "min"), np.min),
        "ratio_of_medians": ratio(column(ours, "median"), column(theirs, "median"), np.median),
        "largest_difference": difference,
        "tenon": summary(ours, run([options.tenon, "--version"], cpus).strip()),
        "onnxruntime": summary(theirs, theirs[0]["version"]),
        "inputs": {name: list(array.shape) for name, array in np.load(options.inputs).items()},
        "cpu": cpu_name(), "threads": options.threads, "rounds": total, "quiet_rounds": len(quiet),
        "disturbed": disturbed}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path, help="the same model as ONNX with weights (models/fill.py)")
    parser.add_argument("--inputs", type=pathlib.Path, required=True)
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="quiet ones wanted")
    parser.add_argument("--seconds", type=float, default=1.0, help="of ONNX Runtime in each round")
    parser.add_argument("--fix-dims", action="store_true", help="for an engine compiled for one shape")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--limit", type=float, help="largest allowed ratio of minima")
    options = parser.parse_args()

    cpus = sorted(os.sched_getaffinity(0))[:options.threads]
    result = report(options, cpus)
    print(json.dumps(result, indent=1))
    if result["largest_difference"] > options.tolerance:
        sys.exit(f"paired_bench: outputs differ by {result['largest_difference']:.2e} of the largest magnitude")
    if options.limit and result["ratio_of_minima"]["value"] > options.limit:
        sys.exit(f"paired_bench: slower than {options.limit} x ONNX Runtime")


if __name__ == "__main__":
    main()
