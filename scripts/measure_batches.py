#!/usr/bin/env python3
"""Measures engines of a free batch beside engines of one batch, and U-Nets beside torch, in one call on a GPU.

    scripts/measure_batches.py build/static/bin/tenon                   all; needs torch with CUDA
    scripts/measure_batches.py build/dev/bin/tenon --device cpu --quick  tries the script without a GPU

Relies on `tenon bench --ab --json`. U-Nets go to Tenon as programs of torch.export; torch runs the same module eagerly in a CUDA graph
and by Inductor, in alternating rounds. Prints tables; a ratio above 1 means that Tenon is the faster one, or that the free batch is slower.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

import numpy as np
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAPHS = {"bert_base.dynamo": "input_ids:{}x128", "vit_b16.dynamo": "image:{}x3x224x224",
          "resnet50.torchscript": "image:{}x3x224x224", "mobilenet_v2.dynamo": "image:{}x3x224x224"}
BATCHES = (1, 2, 3, 4, 8, 12, 16, 24, 32, 64)
UNETS = ((64, 64, 2), (128, 64, 2), (320, 64, 2), (64, 128, 1))  # channels, height and width, batch
ROUNDS, RUNS = 5, 30


class Block(nn.Module):
    """Two convolutions, each behind a norm of 32 groups and SiLU."""

    def __init__(self, inner, outer):
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(32, inner), nn.GroupNorm(32, outer)])
        self.convs = nn.ModuleList([nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)])
        self.skip = nn.Identity() if inner == outer else nn.Conv2d(inner, outer, 1)

    def forward(self, x):
        y = x
        for norm, conv in zip(self.norms, self.convs):
            y = conv(nn.functional.silu(norm(y)))
        return y + self.skip(x)


class UNet(nn.Module):
    """Three levels down and up again, as models of diffusion have them without attention."""

    def __init__(self, width):
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.first, kept, inner = nn.Conv2d(4, width, 3, padding=1), [width], width
        self.down, self.halve, self.up, self.grow = (nn.ModuleList() for _ in range(4))
        for level, outer in enumerate(widths):
            self.down.append(nn.ModuleList([Block(inner, outer), Block(outer, outer)]))
            kept += [outer, outer]
            inner = outer
            if level < 2:
                self.halve.append(nn.Conv2d(outer, outer, 3, stride=2, padding=1))
                kept.append(outer)
        self.middle = Block(inner, inner)
        for level, outer in reversed(list(enumerate(widths))):
            blocks = nn.ModuleList()
            for _ in range(3):
                blocks.append(Block(inner + kept.pop(), outer))
                inner = outer
            self.up.append(blocks)
            if level > 0:
                self.grow.append(nn.Conv2d(outer, outer, 3, padding=1))
        self.norm, self.last = nn.GroupNorm(32, width), nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x):
        x = self.first(x)
        kept = [x]
        for level, blocks in enumerate(self.down):
            for block in blocks:
                x = block(x)
                kept.append(x)
            if level < 2:
                x = self.halve[level](x)
                kept.append(x)
        x = self.middle(x)
        for level, blocks in enumerate(self.up):
            for block in blocks:
                x = block(torch.cat([x, kept.pop()], 1))
            if level < 2:
                x = self.grow[level](nn.functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.last(nn.functional.silu(self.norm(x)))


def call(tenon, *arguments):
    done = subprocess.run([str(tenon), *map(str, arguments), "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"tenon {arguments[0]}: {done.stderr.strip()[:800]}")
    return json.loads(done.stdout) if done.stdout.strip() else {}


def compiled(options, model, engine, *flags):
    call(options.tenon, "compile", model, "-o", engine, *flags, "--no-cache", *options.flags)
    return engine


def milliseconds(report):
    return report["gpu"]["time_ms"]["median"] if report.get("gpu") else report["latency_ms"]["median"]


def free_batches(options, folder):
    print("| net | batch | fixed, ms | free / fixed |\n|---|---|---|---|")
    for graph, shape in list(GRAPHS.items())[:1 if options.quick else None]:
        model = ROOT / f"models/graphs/{graph}.onnx"
        any_size = ["--shape", shape.format("?")] if "x128" in shape else []
        free = compiled(options, model, folder / "free.tenon", *any_size)
        for batch in BATCHES[:1 if options.quick else None]:
            dims = ["--shape", shape.format(batch)]
            fixed = compiled(options, model, folder / "fixed.tenon", *dims)
            sides = {"fixed": fixed, "free": free}
            times = {name: [] for name in sides}
            for index in range(1 if options.quick else ROUNDS):
                for name in list(sides)[::1 if index % 2 == 0 else -1]:
                    report = call(options.tenon, "bench", sides[name], *dims, "--runs", 1 if options.quick else 4 * RUNS, "--json")
                    times[name].append(milliseconds(report))
            fixed_ms, free_ms = (statistics.median(times[name]) for name in sides)
            print(f"| {graph} | {batch} | {fixed_ms:.4f} | {free_ms / fixed_ms:.3f} |", flush=True)


def replayed(function, x):
    """The function as a CUDA graph, and what it writes."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            function(x)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function(x)
    return graph.replay


def torch_milliseconds(function):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(RUNS):
        function()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / RUNS


def unets(options, folder):
    print("\n| U-Net: channels, size, batch | Tenon, ms | graph | Inductor | better of torch / Tenon | error |\n|---|---|---|---|---|---|")
    for width, size, batch in (((32, 16, 1),) if options.quick else UNETS):
        torch.manual_seed(0)
        model, x = UNet(width).eval(), torch.randn(batch, 4, size, size)
        torch.export.save(torch.export.export(model, (x,)), str(folder / "unet.pt2"))
        engine = compiled(options, folder / "unet.pt2", folder / "unet.tenon")
        np.savez(folder / "x.npz", x=x.numpy())
        call(options.tenon, "run", engine, "--inputs", folder / "x.npz", "-o", folder / "y.npz")
        with torch.no_grad(), np.load(folder / "y.npz") as outputs:
            want = model(x).numpy()
            error = np.abs(outputs[outputs.files[0]] - want).max() / np.abs(want).max()
        sides = {"tenon": lambda: milliseconds(call(options.tenon, "bench", engine, "--inputs", folder / "x.npz", "--runs",
                                                    1 if options.quick else 4 * RUNS, "--json"))}
        if options.device == "cuda":
            half, given = model.half().cuda().to(memory_format=torch.channels_last), x.half().cuda().to(memory_format=torch.channels_last)
            with torch.no_grad():
                for name, function in (("graph", half), ("inductor", torch.compile(half))):
                    replay = replayed(function, given)
                    sides[name] = lambda replay=replay: torch_milliseconds(replay)
        times = {name: [] for name in sides}
        for index in range(1 if options.quick else ROUNDS):
            for name in list(sides)[::1 if index % 2 == 0 else -1]:
                times[name].append(sides[name]())
        medians = {name: statistics.median(values) for name, values in times.items()}
        better = min((value for name, value in medians.items() if name != "tenon"), default=float("nan"))
        print(f"| {width}, {size}, {batch} | {medians['tenon']:.4f} | {medians.get('graph', float('nan')):.4f} | "
              f"{medians.get('inductor', float('nan')):.4f} | {better / medians['tenon']:.2f} | {error:.1e} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenon", type=pathlib.Path, help="the tool")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: without torch's sides")
    parser.add_argument("--quick", action="store_true", help="one net, one batch, one run, to try the script")
    parser.add_argument("--only", choices=("batches", "unets"), help="one of the two tables")
    options = parser.parse_args()
    options.flags = ["--target", "cuda:h200", "--precision", "fp16"] if options.device == "cuda" else []
    with tempfile.TemporaryDirectory() as folder:
        for name, table in (("unets", unets), ("batches", free_batches)):
            if options.only in (None, name):
                table(options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
