#!/usr/bin/env python3
"""`tenon quantize` beside other quantizers on the same samples, in one run: each file in its best runtime and in Tenon, accuracy with 95 % intervals
by pairs, latency in turns.

Files of ONNX Runtime's quantizer run in ONNX Runtime, NNCF's in OpenVINO, Tenon's in Tenon; all of them in Tenon too. Relies on what measure_quantize.py
relies on, and an environment with the package tenon, onnxruntime, openvino and nncf. Top-1 alone: perplexity is measured as its mean surprise.
"""

import argparse
import pathlib
import statistics
import subprocess
import time

import numpy as np

import measure_quantize

THREADS = 2


def by_onnxruntime(model, data, path, transformer):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.rows = iter([{name: rows[i:i + 1] for name, rows in data.items()} for i in range(measure_quantize.SAMPLES)])

        def get_next(self):
            return next(self.rows, None)
    prepared = path.with_suffix(".prepared.onnx")
    quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    quantize_static(prepared, path, Reader(), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


def by_nncf(model, data, path, transformer):
    import nncf
    import onnx
    rows = [{name: values[i:i + 1] for name, values in data.items()} for i in range(measure_quantize.SAMPLES)]
    more = {"model_type": nncf.ModelType.TRANSFORMER} if transformer else {}
    onnx.save(nncf.quantize(onnx.load(model), nncf.Dataset(rows), subset_size=len(rows), **more), path)


class InOnnxRuntime:
    def __init__(self, path):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(self, inputs):
        return self.session.run(None, inputs)[0]


class InOpenVino:
    def __init__(self, path):
        import openvino
        core = openvino.Core()
        self.model = core.compile_model(core.read_model(str(path)), "CPU", {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY"})

    def run(self, inputs):
        return self.model(inputs)[0]


class InTenon:
    def __init__(self, path, tool):
        import tenon
        engine = path.with_suffix(".tenon")
        subprocess.run([tool, "compile", path, "-o", engine, "--target", "cpu:native", "--quiet"], check=True)
        self.engine = tenon.load(str(engine), threads=THREADS)

    def run(self, inputs):
        return next(iter(self.engine.run(**inputs).values()))


def scores(side, test, metric, batch=32):
    """Of each sample: whether it is right, or minus its mean surprise."""
    inputs = {name: rows for name, rows in test.items() if name != "labels"}
    count, result = len(next(iter(inputs.values()))), []
    for first in range(0, count - count % batch, batch):
        part = {name: rows[first:first + batch] for name, rows in inputs.items()}
        output = np.asarray(side.run(part), np.float32)
        if metric == "top1":
            result.append(output.argmax(1) == test["labels"][first:first + batch])
        else:
            shifted = output[:, :-1].astype(np.float64)
            shifted -= shifted.max(2, keepdims=True)
            logs = shifted - np.log(np.exp(shifted).sum(2, keepdims=True))
            ids = part["input_ids"][:, 1:]
            result.append(np.take_along_axis(logs, ids[:, :, None], 2)[:, :, 0].mean(1))
    return np.concatenate(result).astype(np.float64)


def interval(differences):
    random = np.random.default_rng(0)
    means = [differences[random.integers(0, len(differences), len(differences))].mean() for _ in range(1000)]
    return np.percentile(means, [2.5, 97.5])


def latencies(sides, test, rounds):
    one = {name: np.ascontiguousarray(rows[:1]) for name, rows in test.items() if name != "labels"}
    times = {name: [] for name in sides}
    for name, side in sides.items():
        side.run(one)
    for round_ in range(rounds):
        order = list(sides)
        for name in order[round_ % len(order):] + order[:round_ % len(order)]:
            sides[name].run(one)
            before = time.perf_counter()
            sides[name].run(one)
            times[name].append(time.perf_counter() - before)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default=measure_quantize.SOURCE / "build/dev/bin/tenon", type=pathlib.Path)
    parser.add_argument("--nets", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--only", nargs="+", default=list(measure_quantize.NETS), choices=list(measure_quantize.NETS))
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    print("| net | file by | runs in | accuracy | lost against FP32 (95 %) | Tenon's file less this one (95 %) | ms | Tenon's time by it |\n|---|---|---|---|---|---|---|---|")
    for net in args.only:
        metric, _ = measure_quantize.NETS[net]
        transformer = net in ("minilm", "gloss_lm")
        model, training, test = measure_quantize.load(net, args.nets)
        test = {name: rows[:args.rows] for name, rows in test.items()}
        chosen = np.sort(np.random.default_rng(0).choice(len(next(iter(training.values()))), measure_quantize.SAMPLES, replace=False))
        data = {name: np.ascontiguousarray(rows[chosen]) for name, rows in training.items() if name != "labels"}
        np.savez(args.work / f"{net}.npz", **data)
        files = {"tenon": args.work / f"{net}.tenon.onnx", "onnxruntime": args.work / f"{net}.onnxruntime.onnx", "nncf": args.work / f"{net}.nncf.onnx"}
        subprocess.run([args.tenon, "quantize", model, "--data", args.work / f"{net}.npz", "-o", files["tenon"], "--quiet"], check=True)
        for name, make in (("onnxruntime", by_onnxruntime), ("nncf", by_nncf)):
            try:
                make(model, data, files[name], transformer)
            except Exception as error:  # pylint: disable=broad-except
                print(f"<!-- {net}: {name} does not quantize it: {str(error).splitlines()[0][:200]} -->")
                del files[name]
        sides = {}
        for name, where, make in (("fp32", "Tenon", lambda: InTenon(link(model, args.work / f"{net}.fp32.onnx"), args.tenon)),
                                  *((name, "Tenon", lambda path=path: InTenon(path, args.tenon)) for name, path in files.items()),
                                  *((name, "ONNX Runtime", lambda name=name: InOnnxRuntime(files[name])) for name in ("tenon", "onnxruntime") if name in files),
                                  *((name, "OpenVINO", lambda name=name: InOpenVino(files[name])) for name in ("tenon", "nncf") if name in files)):
            try:
                sides[name, where] = make()
            except Exception as error:  # pylint: disable=broad-except
                print(f"<!-- {net}: {where} does not run {name}'s file: {str(error).splitlines()[0][:200]} -->")
        right = {key: scores(side, test, metric) for key, side in sides.items()}
        times = latencies(sides, test, args.rounds)
        ours, base = ("tenon", "Tenon"), right["fp32", "Tenon"]
        scale = 100  # points of top-1, per cent of perplexity
        for key in sides:
            lost, beside = interval(base - right[key]), interval(right[ours] - right[key])
            ratio = statistics.median(a / b for a, b in zip(times[ours], times[key]))
            value = f"{100 * right[key].mean():.2f} %" if metric == "top1" else f"{np.exp(-right[key].mean()):.2f}"
            print(f"| {net} | {key[0]} | {key[1]} | {value} | {scale * (base - right[key]).mean():+.2f} ({scale * lost[0]:+.2f} .. {scale * lost[1]:+.2f}) | "
                  f"{scale * (right[ours] - right[key]).mean():+.2f} ({scale * beside[0]:+.2f} .. {scale * beside[1]:+.2f}) | "
                  f"{1000 * statistics.median(times[key]):.2f} | {ratio:.2f} |", flush=True)


def link(model, path):
    path.unlink(missing_ok=True)
    path.symlink_to(pathlib.Path(model).resolve())
    return path


if __name__ == "__main__":
    main()
