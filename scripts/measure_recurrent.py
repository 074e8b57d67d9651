#!/usr/bin/env python3
"""Measures LSTM and GRU layers of free length and batch beside cuDNN (by torch) on a GPU, or ONNX Runtime on a CPU, FP32.

    scripts/measure_recurrent.py cuda:sm_90        needs torch with CUDA
    scripts/measure_recurrent.py cpu --threads 2   needs torch and onnxruntime

One engine runs all sizes of a layer. Both sides run in alternating rounds on the same inputs and weights; outputs are compared in the
same run. Relies on the package tenon being importable. Prints a table.
"""

import argparse
import statistics
import sys
import tempfile
import time

import numpy as np
import torch

import tenon

LAYERS = ((256, 2, True), (256, 1, False), (512, 1, False))
BATCHES = (1, 4, 16, 64)
LENGTHS = (1, 10, 100, 1000, 5000)
LARGEST = 64000  # rows of the input
TOLERANCE = 1e-5


class Sequences(torch.nn.Module):
    """A layer without its last states."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


def exported(layer, width, path):
    torch.onnx.export(Sequences(layer), (torch.randn(7, 2, width),), path, dynamo=False, input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "T", 1: "B"}})
    return path


def gpu_milliseconds(call, count):
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before.record()
    for _ in range(count):
        call()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) / count


def cpu_milliseconds(call, count):
    before = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - before) * 1e3 / count


def paired(measure, ours, theirs, seconds):
    """Medians of both, and of the ratios of neighbouring rounds."""
    for call in (ours, theirs):
        measure(call, 2)
    count = max(1, int(20 / measure(ours, 2)))
    rounds, end = [], time.monotonic() + seconds
    while len(rounds) < 5 or time.monotonic() < end:
        rounds.append((measure(ours, count), measure(theirs, count)))
    return (statistics.median(a for a, _ in rounds), statistics.median(b for _, b in rounds), statistics.median(a / b for a, b in rounds))


def sides(layer, path, options):
    """(ours, theirs): functions of a torch tensor that give the first output as a NumPy array."""
    engine = tenon.compile(path, target=options.target, threads=options.threads, cache=False)
    if options.target.startswith("cuda"):
        layer.cuda()
        return engine, lambda x: layer(x)[0]
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    return lambda x: engine(x.numpy()), lambda x: session.run(["y"], {"x": x.numpy()})[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.25, help="of each pair")
    options = parser.parse_args()
    on_gpu = options.target.startswith("cuda")
    measure = gpu_milliseconds if on_gpu else cpu_milliseconds
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    wrong = 0
    print("| layer | batch | steps | Tenon, ms | peer, ms | ratio | difference |\n|---|---|---|---|---|---|---|")
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for kind in (torch.nn.LSTM, torch.nn.GRU):
            for width, layers, both_ways in LAYERS:
                torch.manual_seed(width + layers)
                layer = kind(width, width, layers, bidirectional=both_ways).eval()
                ours, theirs = sides(layer, exported(layer, width, f"{folder}/layer.onnx"), options)
                name = f"{kind.__name__} {width}, {layers} {'layers, both directions' if both_ways else 'layer'}"
                for batch in BATCHES:
                    for length in LENGTHS:
                        if batch * length > LARGEST:
                            continue
                        x = torch.randn(length, batch, width, device="cuda" if on_gpu else "cpu")
                        difference = float(np.abs(np.asarray(ours(x).cpu() if on_gpu else ours(x)) -
                                                  np.asarray(theirs(x).cpu() if on_gpu else theirs(x))).max())
                        wrong += not difference <= TOLERANCE
                        mine, peer, ratio = paired(measure, lambda: ours(x), lambda: theirs(x), options.seconds)
                        print(f"| {name} | {batch} | {length} | {mine:.4f} | {peer:.4f} | {ratio:.2f} | {difference:.0e} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
