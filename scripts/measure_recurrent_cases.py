#!/usr/bin/env python3
"""Measures 24 recurrent layers of fixed sizes beside cuDNN (by torch) on a GPU, both in CUDA graphs, FP16 and FP32 without TF32.

    scripts/measure_recurrent_cases.py cuda:h200             needs torch with CUDA; below 8 minutes
    scripts/measure_recurrent_cases.py cuda:h200 --predict build/dev/bin/tenon
                                                             the kernels and the predicted times alone, without a GPU

Both sides run in alternating rounds on the same inputs and weights. The truth is the layer in FP64 on the GPU: outputs may be as far
from it as twice cuDNN's, and a rounding of the type. Predicted and measured times of all kernels of the recurrence stand side by
side, so that a wrong constant of the cost model shows. Relies on the package tenon being importable. Prints a table.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from measure_recurrent import Sequences, gpu_milliseconds

import tenon

# (layer, type, hidden units, batch, steps)
CASES = (
    ("LSTM", "fp16", 64, 32, 500), ("LSTM", "fp16", 256, 1, 500), ("LSTM", "fp16", 256, 128, 500), ("LSTM", "fp16", 512, 1, 500),
    ("LSTM", "fp16", 512, 8, 500), ("LSTM", "fp16", 512, 128, 200), ("LSTM", "fp16", 1024, 1, 200), ("LSTM", "fp16", 1024, 8, 200),
    ("LSTM", "fp16", 1024, 32, 200), ("LSTM", "fp16", 1024, 128, 100), ("LSTM", "fp16", 2048, 8, 100), ("LSTM", "fp16", 2048, 32, 100),
    ("GRU", "fp16", 256, 32, 500), ("GRU", "fp16", 512, 8, 500), ("GRU", "fp16", 1024, 32, 200), ("GRU", "fp16", 2048, 32, 100),
    ("LSTM", "fp32", 64, 8, 500), ("LSTM", "fp32", 256, 32, 500), ("LSTM", "fp32", 512, 8, 200), ("LSTM", "fp32", 512, 64, 200),
    ("LSTM", "fp32", 1024, 32, 100), ("LSTM", "fp32", 2048, 8, 50), ("GRU", "fp32", 512, 32, 200), ("GRU", "fp32", 1024, 8, 100))
TYPES = {"fp16": torch.float16, "fp32": torch.float32}
ROUNDING = {"fp16": 2e-3, "fp32": 1e-5}


def compiled(layer, x, options, path):
    """(engine, None of --predict; what the compiler says of its kernels)"""
    try:
        engine = tenon.compile(layer, (x,), target=options.target, cache=False, output=path)
        return engine, engine.explain("kernels", format="json")
    except tenon.Error:
        if not options.predict:
            raise
    # It is there, but cannot be opened without a GPU.
    return None, json.loads(subprocess.run([options.predict, "explain", "kernels", path, "--json"], stdout=subprocess.PIPE, check=True).stdout)


def kernel_of(report):
    """The recurrence's kernel with its parameters, and its predicted microseconds."""
    for region in report["regions"]:
        for candidate in region["candidates"]:
            if candidate["kernel"].startswith("recurrence") and candidate["verdict"] == "chosen":
                return candidate["kernel"], candidate["us"]
    return "?", math.nan


def captured(call):
    """A function that replays what `call` launches."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def paired(ours, theirs, seconds):
    """Medians of both, and of the ratios of neighbouring rounds."""
    for call in (ours, theirs):
        gpu_milliseconds(call, 3)
    count = max(1, int(20 / gpu_milliseconds(ours, 2)))
    rounds, end = [], time.monotonic() + seconds
    while len(rounds) < 5 or time.monotonic() < end:
        rounds.append((gpu_milliseconds(ours, count), gpu_milliseconds(theirs, count)))
    return (statistics.median(a for a, _ in rounds), statistics.median(b for _, b in rounds), statistics.median(b / a for a, b in rounds))


def measure(layer, engine, x, kind, options):
    """(ours, cuDNN's, cuDNN's time / ours, error / allowed error)"""
    ours, theirs = engine(x), layer(x)
    truth = type(layer.layer)(layer.layer.input_size, layer.layer.hidden_size).cuda().double().eval()
    truth.load_state_dict(layer.layer.state_dict())
    exact = truth(x.double())[0]
    error, other = ((side.double() - exact).abs().max().item() for side in (ours, theirs))
    replay = captured(lambda: layer(x))
    return (*paired(lambda: engine(x), replay, options.seconds), error / (2 * other + ROUNDING[kind]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=float, default=2, help="of each pair")
    parser.add_argument("--only", type=int, nargs="+", default=range(len(CASES)), metavar="N", help="these cases, numbered from 0 in the table's order")
    parser.add_argument("--predict", metavar="TENON", help="measure nothing; the program tells what it predicts")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    device = "cpu" if options.predict else "cuda"
    wrong, ratios = 0, []
    print("| layer | batch | steps | kernel | predicted, ms | Tenon, ms | cuDNN, ms | cuDNN / Tenon | error / allowed |\n"
          "|---|---|---|---|---|---|---|---|---|")
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for name, kind, hidden, batch, steps in (CASES[number] for number in options.only):
            torch.manual_seed(hidden)
            layer = Sequences(getattr(torch.nn, name)(hidden, hidden)).to(device, TYPES[kind]).eval()
            x = torch.randn(steps, batch, hidden, device=device, dtype=TYPES[kind])
            engine, report = compiled(layer, x, options, f"{folder}/layer.tenon")
            kernel, predicted = kernel_of(report)
            line = f"| {name} {hidden}, {kind} | {batch} | {steps} | {kernel} | {predicted / 1e3:.3f} |"
            if options.predict:
                print(line + " | | | |", flush=True)
                continue
            mine, peer, ratio, error = measure(layer, engine, x, kind, options)
            ratios.append(ratio)
            wrong += not error <= 1
            print(f"{line} {mine:.3f} | {peer:.3f} | {ratio:.2f} | {error:.2f} |", flush=True)
    if ratios:
        print(f"\n{sum(ratio >= 1 for ratio in ratios)} of {len(ratios)} at least as fast as cuDNN; geometric mean {statistics.geometric_mean(ratios):.2f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
