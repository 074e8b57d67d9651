#!/usr/bin/env python3
"""Measures wide recurrent layers of free length and batch on a CPU: threads that share each step, rows on their own, ONNX Runtime.

    scripts/measure_recurrent_cpu.py --threads 1 --cpu-time    seconds of the process alone, on a machine that others use
    scripts/measure_recurrent_cpu.py --threads 2               seconds that pass

One engine runs all sizes of a layer. The three run in alternating rounds on the same inputs and weights; outputs are compared in the same
run. Needs torch (for the export) and onnxruntime; relies on the package tenon being importable. Prints a table of minima.
"""

import argparse
import sys
import tempfile
import time

import numpy as np
import onnxruntime
import torch
from measure_recurrent import exported

import tenon

BATCHES = (1, 4, 8, 32, 64)
LENGTHS = (10, 50, 200)
TOLERANCE = 1e-5


def contenders(path, options):
    """Functions of an array that give the first output, by name."""
    calls = {}
    for name, disabled in (("shared", ()), ("rows", ("recurrence_shared",))):
        engine = tenon.compile(path, target=options.target, threads=options.threads, disabled_families=disabled, cache=False)
        calls[name] = engine
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    calls["peer"] = lambda x: session.run(["y"], {"x": x})[0]
    return calls


def minima(calls, x, options):
    """Milliseconds of a call, of the fastest of alternating rounds."""
    clock = time.process_time if options.cpu_time else time.perf_counter
    counts, times, end = {}, {name: [] for name in calls}, time.monotonic() + options.seconds
    while len(times["peer"]) < 3 or time.monotonic() < end:
        for name, call in calls.items():
            start = clock()
            for _ in range(counts.get(name, 1)):
                call(x)
            passed = clock() - start
            if name in counts:
                times[name].append(passed * 1e3 / counts[name])
            else:  # the first also warms up
                counts[name] = max(1, int(3e-4 / max(passed, 1e-6)))
    return {name: min(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu:native")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each cell")
    parser.add_argument("--cpu-time", action="store_true", help="counts the process's own seconds; says nothing of several threads")
    parser.add_argument("--widths", type=int, nargs="+", default=(512, 768, 1024, 2048))
    parser.add_argument("--rows", type=int, default=640, help="most rows of the input, batch times steps")
    options = parser.parse_args()
    wrong = 0
    print("| layer | batch | steps | shared, ms | rows, ms | peer, ms | shared / peer | rows / peer | difference |\n|---|---|---|---|---|---|---|---|---|")
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for width in options.widths:
            for kind, both_ways in ((torch.nn.LSTM, False), (torch.nn.GRU, False), (torch.nn.RNN, False), (torch.nn.LSTM, True)):
                torch.manual_seed(width)
                layer = kind(width, width, 1, bidirectional=both_ways).eval()
                calls = contenders(exported(layer, width, f"{folder}/layer.onnx"), options)
                name = f"{kind.__name__} {width}{', both directions' if both_ways else ''}"
                for batch in BATCHES:
                    for length in LENGTHS:
                        if batch * length > options.rows:
                            continue
                        x = np.random.default_rng(length).standard_normal((length, batch, width)).astype(np.float32)
                        outputs = {key: np.asarray(call(x)) for key, call in calls.items()}
                        difference = max(float(np.abs(outputs[key] - outputs["peer"]).max()) for key in ("shared", "rows"))
                        wrong += not difference <= TOLERANCE
                        best = minima(calls, x, options)
                        print(f"| {name} | {batch} | {length} | {best['shared']:.3f} | {best['rows']:.3f} | {best['peer']:.3f} | {best['shared'] / best['peer']:.2f} | "
                              f"{best['rows'] / best['peer']:.2f} | {difference:.0e} |", flush=True)  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
