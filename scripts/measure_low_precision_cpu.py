#!/usr/bin/env python3
"""Measures nets in bf16 and INT8 on CPU cores beside OpenVINO: every row of a net in turn, in one process, outputs compared with FP32 in the same run.

    scripts/measure_nets.py export FOLDER mobilenet_v2 vit_b_16            needs torch and torchvision
    scripts/measure_low_precision_cpu.py quantize FOLDER mobilenet_v2      needs onnxruntime: writes mobilenet_v2.int8.onnx, u8s8, one scale a channel
    taskset -c 14,15 scripts/measure_low_precision_cpu.py measure FOLDER   needs openvino and the package tenon

A call is the second of two behind a rest of 30 ms; each round begins with another row. NET.int8.onnx adds the rows in INT8.
"""

import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import numpy as np

REST = 0.03  # seconds, in which the threads of the row before go to sleep


def quantize(options):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self, shape):
            random = np.random.default_rng(0)
            self.rows = iter([{"x": random.standard_normal(shape).astype(np.float32)} for _ in range(8)])

        def get_next(self):
            return next(self.rows, None)

    for net in options.nets:
        model, prepared = options.folder / f"{net}.onnx", options.folder / f"{net}.prepared"
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        quantize_static(prepared, options.folder / f"{net}.int8.onnx", Reader(np.load(model.with_suffix(".npz"))["x"].shape), quant_format=QuantFormat.QDQ,
                        per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)  # fmt: skip
        prepared.unlink()


def ours(options, model, precision, level=""):
    """A call that runs the model compiled by Tenon."""
    import tenon

    engine = options.folder / f"{model.stem}.{precision}{level}.tenon"
    subprocess.run([options.tenon, "compile", model, "-o", engine, "--target", f"cpu:{level}" if level else options.target, "--precision", precision, "--quiet",
                    "--no-cache", "--force"], check=True)  # fmt: skip
    loaded = tenon.load(str(engine), threads=options.threads)
    return lambda x: next(iter(loaded.run(x=x).values()))


def openvino_of(options, model, hint):
    import openvino

    config = {"INFERENCE_NUM_THREADS": options.threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": hint}
    request = openvino.Core().compile_model(str(model), "CPU", config).create_infer_request()
    return lambda x: request.infer({0: x}, share_inputs=True, share_outputs=True)[0]


def rows_of(options, net):
    """Of each row its call; the first, FP32, is what outputs are compared with."""
    model, eight = options.folder / f"{net}.onnx", options.folder / f"{net}.int8.onnx"
    rows = {"FP32, Tenon": ours(options, model, "keep"), "bf16, Tenon": ours(options, model, "bf16"), "bf16, OpenVINO": openvino_of(options, model, "bf16")}
    if eight.exists():
        rows["INT8, Tenon"] = ours(options, eight, "keep")
        for level in options.levels:
            rows[f"INT8, Tenon, {level}"] = ours(options, eight, "keep", level)
        rows["INT8, OpenVINO"] = openvino_of(options, eight, "f32")
    return rows


def measure(options):
    import openvino

    version = subprocess.run([options.tenon, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    part = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    print(f"{part}, {options.threads} threads; {version}; OpenVINO {openvino.__version__}; {options.rounds} rounds\n")
    print("| net | row | minimum, ms | median, ms | against FP32 |\n|---|---|---|---|---|")
    report = []
    for net in options.nets:
        x = np.load(options.folder / f"{net}.npz")["x"]
        rows = rows_of(options, net)
        outputs = {name: np.array(call(x), np.float32) for name, call in rows.items()}
        expected = outputs["FP32, Tenon"]
        times = {name: [] for name in rows}
        for round_ in range(options.rounds):
            order = list(rows)
            for name in order[round_ % len(order) :] + order[: round_ % len(order)]:
                time.sleep(REST)
                rows[name](x)
                before = time.perf_counter()
                rows[name](x)
                times[name].append((time.perf_counter() - before) * 1e3)
        for name, taken in times.items():
            error = float(np.abs(outputs[name] - expected).max() / np.abs(expected).max())
            report.append({"net": net, "row": name, "min_ms": min(taken), "median_ms": statistics.median(taken), "error": error})
            print(f"| {net} | {name} | {min(taken):.3f} | {statistics.median(taken):.3f} | {error:.4f} |", flush=True)
    if options.output:
        options.output.write_text(json.dumps(report, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=("quantize", "measure"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("nets", nargs="*", default=["mobilenet_v2", "vit_b_16"])
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("--target", default="cpu:native")
    parser.add_argument("--levels", nargs="*", default=[], help="CPU levels of more rows of Tenon in INT8, such as avx512-vnni-bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    options = parser.parse_args()
    sys.exit(quantize(options) if options.way == "quantize" else measure(options))


if __name__ == "__main__":
    main()
