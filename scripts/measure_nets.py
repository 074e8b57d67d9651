#!/usr/bin/env python3
"""Measures Tenon on the nets of nets.py, which nothing here was built with: each side in alternating rounds of one run, outputs compared.

    scripts/measure_nets.py export FOLDER [NET | NET@BATCH ...]        needs what the nets are of: torch, torchvision, timm, transformers
    scripts/measure_nets.py cpu FOLDER --tenon build/dev/bin/tenon     against ONNX Runtime and OpenVINO, FP32
    scripts/measure_nets.py cuda FOLDER --tenon tenon --target cuda:h200   against torch's CUDA graph and Inductor in one, fp16

`export` writes an ONNX file and an input a net. The others measure all files of the folder. A peer that is not installed is left out and named.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import nets
import numpy as np


def say(text):
    print(f"measure_nets: {text}", file=sys.stderr, flush=True)


def export(options):
    import torch

    torch.backends.mha.set_fastpath_enabled(False)  # its attention has no form in ONNX
    for name in options.nets or nets.names():
        path = options.folder / f"{name}.onnx"
        if path.exists():
            continue
        try:
            net, x = nets.made(name)
            # torchvision's by the older exporter, the others by the one of today: both of them are in use.
            dynamo = name.startswith(("timm_", "hf_"))
            with torch.no_grad():
                torch.onnx.export(net, (x,), path, opset_version=20 if dynamo else 17, dynamo=dynamo, external_data=False, input_names=["x"], output_names=["y"])
            np.savez(options.folder / f"{name}.npz", x=x.numpy())
        except Exception as error:  # pylint: disable=broad-except
            path.unlink(missing_ok=True)
            say(f"{name}: not exported: {str(error).splitlines()[0]}")


def tenon(options, *arguments):
    done = subprocess.run([str(part) for part in (options.tenon, *arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0])
    return done.stdout


def milliseconds_of(call, least):
    """The fastest and the median of at least three calls, and of some time."""
    times, end = [], time.perf_counter() + least
    while len(times) < 3 or time.perf_counter() < end:
        before = time.perf_counter()
        call()
        times.append((time.perf_counter() - before) * 1e3)
    return min(times), statistics.median(times)


def session_of(path, threads):
    """ONNX Runtime's session of a model, on CPUs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def onnxruntime_of(path, threads):
    session = session_of(path, threads)
    return lambda x: session.run(None, {"x": x})[0]


def openvino_of(path, threads):
    import openvino

    config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.compile_model(path, "CPU", config).create_infer_request()
    return lambda x: request.infer({0: x}, share_inputs=True, share_outputs=True)[0]


def measure_cpu(options, path, engine, folder):
    inputs = path.with_suffix(".npz")
    x = np.load(inputs)["x"]
    tenon(options, "run", engine, "--inputs", inputs, "-o", folder / "out.npz", "--quiet", "--threads", options.threads)
    ours = np.load(folder / "out.npz")["y"]
    row, peers = {}, {}
    for name, make in (("onnxruntime", onnxruntime_of), ("openvino", openvino_of)):
        try:
            peers[name] = make(path, options.threads)
        except ImportError:
            say(f"{name} is not installed")
            continue
        theirs = np.array(peers[name](x))
        row[f"error_{name}"] = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    times = {"tenon": []} | {name: [] for name in peers}
    for _ in range(options.rounds):
        bench = tenon(options, "bench", engine, "--json", "--quiet", "--threads", options.threads, "--seconds", f"{options.seconds}s")
        latency = json.loads(bench)["latency_ms"]
        times["tenon"].append((latency["min"], latency["median"]))
        for name, call in peers.items():
            times[name].append(milliseconds_of(lambda call=call: call(x), options.seconds))
    fastest = {name: min(least for least, _ in values) for name, values in times.items()}
    medians = {f"{name}_median": statistics.median(median for _, median in values) for name, values in times.items()}
    return row | fastest | medians


def graph_ms(call, x, replays=10, rounds=50):
    """Milliseconds of a CUDA graph's replay among ten in a row, and what it gives."""
    import torch

    with torch.no_grad():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(5):
                call(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = call(x)
    best = math.inf
    for _ in range(rounds):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / replays)
    return best, y


def measure_cuda(options, path, engine, folder):
    import torch

    net, x = nets.made(path.stem)
    tenon(options, "run", engine, "--inputs", path.with_suffix(".npz"), "-o", folder / "out.npz", "--quiet")
    ours = np.load(folder / "out.npz")["y"].astype(np.float32)
    net, x = net.half().cuda(), x.cuda()
    x = x.half() if x.is_floating_point() else x
    if x.dim() == 4:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    row = {}
    row["eager"], theirs = graph_ms(net, x)
    theirs = theirs.float().cpu().numpy()
    row["error_eager"] = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    row["inductor"] = graph_ms(torch.compile(net), x)[0]
    bench = tenon(options, "bench", engine, "--json", "--quiet", "--seconds", f"{options.seconds}s")
    return row | {"tenon": json.loads(bench)["gpu"]["time_ms"]["min"]}


def measure(options):
    measured = measure_cpu if options.device == "cpu" else measure_cuda
    precision = [] if options.device == "cpu" else ["--precision", "fp16"]
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for path in sorted(options.folder.glob("*.onnx")):
            if options.nets and path.stem not in options.nets:
                continue
            engine = folder / "net.tenon"
            try:
                before = time.perf_counter()
                tenon(options, "compile", path, "-o", engine, "--quiet", "--no-cache", "--target", options.target or options.device, *precision)
                row = {"name": path.stem, "compile_s": time.perf_counter() - before}
                row |= measured(options, path, engine, folder)
            except Exception as error:  # pylint: disable=broad-except
                say(f"{path.stem}: {error}")
                rows.append({"name": path.stem, "problem": str(error)})
                continue
            sides = {name: row[name] for name in ("onnxruntime", "openvino", "eager", "inductor") if name in row}
            row["best"] = min(sides, key=sides.get)
            row["times"] = sides[row["best"]] / row["tenon"]
            medians = ""
            if "tenon_median" in row:
                row["median_times"] = min(row[f"{name}_median"] for name in sides) / row["tenon_median"]
                medians = f", medians {row['median_times']:.2f}"
            rows.append(row)
            text = " ".join(f"{name} {ms:.3f}" for name, ms in sides.items())
            errors = " ".join(f"{value:.0e}" for key, value in row.items() if key.startswith("error_"))
            say(f"{path.stem:24} tenon {row['tenon']:.3f} {text} ms; {row['times']:.2f} x {row['best']}{medians}; errors {errors}")
    done = [row["times"] for row in rows if "times" in row]
    if done:
        say(f"{len(done)} nets, geometric mean {math.exp(sum(map(math.log, done)) / len(done)):.3f}, least {min(done):.2f}")
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(rows, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", choices=("export", "cpu", "cuda"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("nets", nargs="*")
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("--target", default="", help="of the engines; by default the device")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("-o", "--output", default="")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    export(options) if options.device == "export" else measure(options)


if __name__ == "__main__":
    main()
