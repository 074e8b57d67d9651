#!/usr/bin/env python3
"""Engines with one known defect each: does the first advice of `tenon profile` name it, and does following it gain what it predicts?

    scripts/planted_causes.py --tenon build/dev/bin/tenon -o causes.json
    scripts/planted_causes.py --tenon build/dev/bin/tenon --gpu -o causes-gpu.json

Relies on a machine that does nothing else: rows whose profile was disturbed are marked and are no evidence. Both engines of a row are
measured in turn by `tenon bench --ab`; where the advice is another way to run, by runs of `tenon bench` in turn. Defects that need a machine with more
than AVX2 are left out where it has no more.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROUNDS = 5
# Of what is saved, as a part of what was predicted.
NEAR = (0.7, 1.3)


def value(name, dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def model(nodes, weights, inputs, outputs):
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, weights), opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def products(length, width, rows, follower="Gelu", normed=False):
    """x [rows, width] through products with GELU or another function between; the nodes have the names of layers. Behind a norm, products
    read what is bounded."""
    rng = np.random.default_rng(1)
    weights, nodes, last = [], [], "x"
    if normed:
        weights.append(numpy_helper.from_array(np.ones(width, np.float32), "scale"))
        nodes.append(helper.make_node("LayerNormalization", ["x", "scale"], ["n"], name="/norm"))
        last = "n"
    for index in range(length):
        weights.append(numpy_helper.from_array(rng.standard_normal((width, width), np.float32) / np.float32(width**0.5), f"w{index}"))
        nodes += [helper.make_node("MatMul", [last, f"w{index}"], [f"p{index}"], name=f"/layer.{index}/dense/MatMul"),
                  helper.make_node(follower, [f"p{index}"], [f"g{index}"], name=f"/layer.{index}/act/{follower}")]
        last = f"g{index}"
    return model(nodes, weights, [value("x", [rows, width])], [value(last, [rows, width])])


def chain(length, rows, width):
    """Elementwise operations that are one kernel."""
    nodes, last = [], "x"
    for index in range(length):
        nodes.append(helper.make_node("Relu" if index % 2 else "Neg", [last], [f"v{index}"], name=f"/step.{index}"))
        last = f"v{index}"
    return model(nodes, [], [value("x", [rows, width])], [value(last, [rows, width])])


def convolutions(length):
    """Of 3 x 3 on 64 channels, whose Winograd form wants larger weights."""
    rng = np.random.default_rng(2)
    weights, nodes, last = [], [], "x"
    for index in range(length):
        weights.append(numpy_helper.from_array(rng.standard_normal((64, 64, 3, 3), np.float32) / 24, f"w{index}"))
        nodes += [helper.make_node("Conv", [last, f"w{index}"], [f"c{index}"], name=f"/block.{index}/Conv", pads=[1] * 4),
                  helper.make_node("Relu", [f"c{index}"], [f"r{index}"], name=f"/block.{index}/Relu")]
        last = f"r{index}"
    return model(nodes, weights, [value("x", [1, 64, 56, 56])], [value(last, [1, 64, 56, 56])])


class Cause:
    """One defect: `rule` has to be the first advice; on a GPU, `part` is what holds the longest kernel, by the model's parts."""

    def __init__(self, name, rule, graph, compile_flags=(), run_flags=(), needs="", part=""):
        self.name, self.rule, self.graph = name, rule, graph
        self.compile_flags, self.run_flags, self.needs = list(compile_flags), list(run_flags), needs
        self.part = part


def tile(node, rows, columns, warp, stages, split):
    """A kernel by hand, where a library's call is predicted to be faster."""
    return ["--kernel", f"{node}=gemm_tensorcore{{tile={rows}x{columns}x64,warp={warp},stages={stages},split_k={split}}}"]


CAUSES = [
    Cause("guard", "guard", lambda: products(4, 512, 128), ["--guard"]),
    Cause("disabled family", "forbidden-kernels", lambda: products(4, 512, 128), ["--disable-family", "gemm_packed"]),
    Cause("kernel by hand", "forbidden-kernels", lambda: products(2, 512, 128), ["--kernel", "/layer.0/dense/MatMul=tiled"]),
    Cause("taps", "taps", lambda: chain(8, 2048, 2048), ["--tap", "all"]),
    Cause("one thread", "threads", lambda: products(4, 768, 256), run_flags=["--threads", "1"]),
    Cause("threads for nothing", "threads", lambda: chain(2, 4, 64), run_flags=[]),
    Cause("other sizes", "sizes", lambda: products(4, 768, "rows"), run_flags=["--shape", "x:1x768"]),
    Cause("weights of 1x", "forbidden-kernels", lambda: convolutions(6), ["--max-weights", "1x"]),
    Cause("old level", "level", lambda: products(4, 768, 256), ["--target", "cpu:avx2"], needs="avx512f"),
    Cause("FP32 beside AMX", "bf16", lambda: products(4, 1024, 256), needs="amx_bf16"),
]


FIRST = "/layer.0/dense/MatMul"
HALF = ["--precision", "fp16"]
GPU_CAUSES = [
    Cause("no library", "forbidden-kernels", lambda: products(4, 1024, 2048, "Relu"), [*HALF, "--disable-family", "cublaslt"], part="products"),
    Cause("small tiles by hand", "forbidden-kernels", lambda: products(2, 1024, 2048, "Relu"), [*HALF, *tile(FIRST, 16, 32, "16x16", 6, 1)], part="loads"),
    Cause("few blocks by hand", "forbidden-kernels", lambda: products(2, 2048, 128, "Relu"), [*HALF, *tile(FIRST, 128, 64, "32x32", 3, 1)], part="idle"),
    Cause("split too far by hand", "forbidden-kernels", lambda: products(2, 512, 64, "Relu"), [*HALF, *tile(FIRST, 64, 64, "32x32", 4, 8)], part="split"),
    Cause("taps", "taps", lambda: chain(4, 4096, 2048), ["--tap", "all"]),
    Cause("FP32", "half", lambda: products(3, 2048, 2048, "Relu")),
    Cause("fp16 where fp8 pays", "float8", lambda: products(2, 2048, 8192, "Relu", normed=True), HALF),
    Cause("few rows", "rows", lambda: products(8, 1024, "rows", "Relu"), [*HALF, "--shape", "x:256x1024"], part="start"),
    Cause("one sample", "batch", lambda: products(4, 2048, "rows", "Relu"), [*HALF, "--shape", "x:[1..8]x2048"], ["--shape", "x:1x2048"]),
]


class Bench:
    def __init__(self, tenon, folder, target):
        self.tenon, self.folder, self.target = pathlib.Path(tenon).resolve(), pathlib.Path(folder), target
        self.medians = []  # milliseconds before and after, of the last command that compiles

    def run(self, *arguments):
        done = subprocess.run([self.tenon, *arguments], capture_output=True, text=True, cwd=self.folder)
        if done.returncode:
            raise RuntimeError(f"tenon {shlex.join(arguments)}: {done.stderr}")
        return done.stdout

    def json(self, *arguments):
        return json.loads(self.run(*arguments, "--json"))

    def samples(self, command, run_flags):
        """How many times as fast a sample is after the command of an advice for several at once."""
        words = shlex.split(command)[1:]
        rows = {}
        for engine, flags in (("cause.tenon", run_flags), ("after", words)):
            if engine == "after" and words[0] == "compile":
                self.run(*words)
                flags = ["bench", "faster.tenon"]
            report = self.json(*(flags if engine == "after" else ["bench", engine, *flags]), "--seconds", "2")
            rows[engine] = report["latency_ms"]["median"], int(next(iter(report["inputs"].values())).split("x")[0])
        (before, few), (after, many) = rows["cause.tenon"], rows["after"]
        return before / few / (after / many)

    def follow(self, command, run_flags):
        """How many times as fast the run is after the command of the advice."""
        words = shlex.split(command)[1:]
        if words[0] == "compile":
            self.run(*words)
            report = self.json("bench", "cause.tenon", "--ab", "faster.tenon", "--seconds", "2", *run_flags)
            both = report, report["ab"]["other"]
            self.medians = [(each["gpu"]["time_ms"] if each.get("gpu") else each["latency_ms"])["median"] for each in both]
            return report["ab"]["ratio_of_medians"] ** -1
        if words[0] != "bench":
            return None
        before, after = [], []
        for _ in range(ROUNDS):
            before.append(self.json("bench", "cause.tenon", "--seconds", "0.5", *run_flags)["latency_ms"]["median"])
            after.append(self.json(*words, "--seconds", "0.5")["latency_ms"]["median"])
        return statistics.median(b / a for b, a in zip(before, after))

    def one_is_faster(self):
        """Whether threads really are for nothing here: on some machines they meet so fast that they pay for any step."""
        return self.follow("tenon bench cause.tenon --threads 1", []) > 1.02

    def compile(self, cause):
        onnx.save(cause.graph(), self.folder / "cause.onnx")
        flags = cause.compile_flags if "--target" in cause.compile_flags else [*cause.compile_flags, "--target", self.target]
        self.run("compile", "cause.onnx", "-o", "cause.tenon", *flags)

    def row(self, cause):
        self.compile(cause)
        report = self.json("profile", "cause.tenon", *cause.run_flags)
        first = report["advice"][0] if report["advice"] else {"rule": "none", "speedup": 1, "command": ""}
        row = {"cause": cause.name, "expected": cause.rule, "named": first["rule"], "command": first["command"], "predicted": first["speedup"],
               "disturbed": report["measured"]["disturbed"]}
        if cause.rule == "threads" and not cause.run_flags and not self.one_is_faster():
            row["no_defect"] = True
        longest = max(report["regions"], key=lambda region: region["time_us"])
        row["longest"] = {key: longest[key] for key in ("kernel", "time_us", "predicted_us", "class", "cause")}
        if cause.part:
            row["part"] = next((part["part"] for part in (longest["gpu"] or {"causes": []})["causes"]), "none")
        if first["rule"] == cause.rule:
            measure = self.samples if first["of"] == "sample" else self.follow
            self.medians = []
            row["measured"] = measure(first["command"], cause.run_flags)
            row["medians_ms"], row["run_us"] = self.medians, report["measured"]["run_us"]
        if row.get("measured"):
            row["of_prediction"] = (1 - 1 / row["measured"]) / (1 - 1 / row["predicted"])
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default="tenon", help="the program")
    parser.add_argument("-o", "--output", help="JSON of the rows")
    parser.add_argument("--gpu", action="store_true", help="the causes on a GPU, of which one is needed")
    parser.add_argument("--target", help="what to compile for, by default cpu:native, or cuda with --gpu")
    parser.add_argument("--only", help="causes whose names contain this")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.tenon, folder, options.target or ("cuda" if options.gpu else "cpu:native"))
        flags = pathlib.Path("/proc/cpuinfo").read_text()
        for cause in GPU_CAUSES if options.gpu else CAUSES:
            if (options.only and options.only not in cause.name) or (cause.needs and cause.needs not in flags):
                continue
            row = bench.row(cause)
            if row.get("no_defect"):
                print(f"{row['cause']:<22} is no defect on this machine", flush=True)
                continue
            rows.append(row)
            if options.output:
                pathlib.Path(options.output).write_text(json.dumps(rows, indent=1) + "\n")
            near = "" if "of_prediction" not in row else f"gained {row['measured']:.2f} x, {row['of_prediction']:.2f} of the prediction"
            print(f"{row['cause']:<22} {row['named']:<18} predicted {row['predicted']:.2f} x  {near}{'  DISTURBED' if row['disturbed'] else ''}", flush=True)
    named = sum(row["named"] == row["expected"] for row in rows)
    held = sum(NEAR[0] <= row.get("of_prediction", 0) <= NEAR[1] for row in rows)
    print(f"{named} of {len(rows)} named first, {held} gain {NEAR[0]} to {NEAR[1]} of the prediction")
    return 0 if named == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
