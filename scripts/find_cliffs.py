#!/usr/bin/env python3
"""Searches for shapes at which Tenon falls behind ONNX Runtime: random operators at random large sizes, both in alternating rounds, outputs compared.

    scripts/find_cliffs.py --tenon build/dev/bin/tenon --cases 200 --seed 1 [--only conv] [--beyond 1.5] [--keep FOLDER] -o cliffs.json

A case is a small graph of one operator and what usually stands around it, weights constant. It prints each case that takes more than `--beyond`
times as long as ONNX Runtime on the same threads, or whose outputs differ; `--keep` leaves those models in a folder. ONNX Runtime resizes to other
positions than the operator's reference where corners align or a scale is no whole number: there a difference says nothing.
"""

import argparse
import json
import math
import pathlib
import shutil
import statistics
import sys
import tempfile

import measure_nets
import numpy as np
import onnx
import random_operators

LEAST_MS = 0.02  # below this a run is a launch


def difference(ours, theirs):
    """The largest difference of the largest number; infinite where shapes or specials differ."""
    if ours.shape != theirs.shape:
        return math.inf
    if ours.size == 0:
        return 0.0
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    apart = np.abs(np.where(same, 0.0, ours - theirs))
    return float(apart.max() / max(1e-30, np.abs(np.where(np.isfinite(theirs), theirs, 0.0)).max())) if np.isfinite(apart).all() else math.inf


def measure(options, number, folder):
    random = np.random.default_rng([options.seed, number])
    chosen = [make for make, weight in random_operators.WEIGHTS.items() for _ in range(weight) if options.only in make.__name__]
    graph = random_operators.Graph(random)
    make = chosen[random.integers(len(chosen))]
    make(graph)
    path, inputs, engine = folder / "case.onnx", folder / "case.npz", folder / "case.tenon"
    model = graph.model()
    onnx.save(model, path)
    np.savez(inputs, **graph.inputs)
    row = {"number": number, "kind": make.__name__, "case": " ".join(graph.text)}
    try:
        session = measure_nets.session_of(path, options.threads)
        peer = lambda: session.run(None, graph.inputs)  # noqa: E731
        theirs = peer()
    except Exception as error:  # pylint: disable=broad-except
        return row | {"peer": str(error).splitlines()[0]}
    measure_nets.tenon(options, "compile", path, "-o", engine, "--quiet", "--no-cache")
    measure_nets.tenon(options, "run", engine, "--inputs", inputs, "-o", folder / "out.npz", "--quiet", "--threads", options.threads)
    ours = np.load(folder / "out.npz")
    names = [value.name for value in model.graph.output]
    row["error"] = max(difference(ours[name], value) for name, value in zip(names, theirs))
    tenon_ms, peer_ms = [], []
    for _ in range(options.rounds):
        bench = measure_nets.tenon(options, "bench", engine, "--json", "--quiet", "--threads", options.threads, "--seconds", f"{options.seconds}s", "--inputs", inputs)
        tenon_ms.append(json.loads(bench)["latency_ms"]["min"])
        peer_ms.append(measure_nets.milliseconds_of(peer, options.seconds)[0])
    row |= {"tenon_ms": min(tenon_ms), "peer_ms": min(peer_ms)}
    row["times"] = max(row["tenon_ms"], LEAST_MS) / max(row["peer_ms"], LEAST_MS)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of the name of a kind: " + ", ".join(make.__name__ for make in random_operators.WEIGHTS))
    parser.add_argument("--beyond", type=float, default=1.5)
    parser.add_argument("--tolerance", type=float, default=1e-4, help="of the largest number of an output")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for models that are slow, differ or fail")
    parser.add_argument("-o", "--output", default="")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for number in range(options.first, options.first + options.cases):
            try:
                row = measure(options, number, folder)
            except RuntimeError as error:
                row = {"number": number, "problem": str(error)}
            rows.append(row)
            if "problem" in row or row.get("times", 0) > options.beyond or row.get("error", 0) > options.tolerance:
                print(f"{number}: {row.get('times', 0):.2f} x, {row.get('tenon_ms', 0):.3f} ms, error {row.get('error', 0):.0e} {row.get('problem', '')} {row.get('case', '')}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    for suffix in (".onnx", ".npz"):
                        shutil.copy(folder / f"case{suffix}", options.keep / f"{options.seed}-{number}{suffix}")
    times = [row["times"] for row in rows if "times" in row]
    if times:
        print(f"{len(times)} of {len(rows)} cases, median {statistics.median(times):.2f}, geometric mean {math.exp(statistics.fmean(map(math.log, times))):.2f}, most {max(times):.2f} times ONNX Runtime's; "
              f"{sum(value > options.beyond for value in times)} beyond {options.beyond:g}", file=sys.stderr)
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
