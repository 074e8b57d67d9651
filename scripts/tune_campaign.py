#!/usr/bin/env python3
"""How near the kernels that `tenon tune` takes are to the best: products and convolutions by themselves, each tuned with at most 16
candidates, and all of its kernels measured at length besides.

    scripts/tune_campaign.py --tenon build/dev/bin/tenon -o campaign.json [--products 50] [--convolutions 20] [--passes 3]
    scripts/tune_campaign.py --page campaign.json

The exhaustive times are the least of `tenon bench --kernels all` over some passes with all problems between two passes of one, so that a
disturbance of the machine does not last over all passes of a problem. A result is: time of the tuned, and of the untuned kernel, over the best.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Rows, depth, columns: layers of transformers and heads at usual batches and lengths.
PRODUCTS = [(rows, depth, columns)
            for depth, columns in ((384, 384), (384, 1536), (1536, 384), (768, 768), (768, 3072), (3072, 768), (1024, 1024), (1024, 4096), (512, 1000), (64, 256))
            for rows in (1, 8, 64, 128, 512)]
# Channels, filters, height and width, size of a filter, stride, groups.
CONVOLUTIONS = [(3, 64, 224, 7, 2, 1), (64, 64, 56, 1, 1, 1), (64, 64, 56, 3, 1, 1), (64, 256, 56, 1, 1, 1), (256, 128, 56, 1, 1, 1), (128, 128, 56, 3, 2, 1),
                (128, 128, 28, 3, 1, 1), (128, 512, 28, 1, 1, 1), (512, 256, 28, 1, 2, 1), (256, 256, 14, 3, 1, 1), (256, 1024, 14, 1, 1, 1), (512, 512, 7, 3, 1, 1),
                (2048, 512, 7, 1, 1, 1), (32, 64, 112, 3, 1, 1), (16, 16, 112, 3, 1, 1), (96, 192, 28, 3, 1, 1), (64, 64, 28, 5, 1, 1), (128, 128, 28, 3, 1, 32),
                (32, 32, 56, 3, 1, 4), (3, 32, 112, 3, 2, 1)]


def product(rows, depth, columns):
    weight = np.random.default_rng(0).standard_normal((depth, columns), np.float32) / math.sqrt(depth)
    return [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], weight, [rows, depth]


def convolution(channels, filters, size, kernel, stride, groups):
    weight = np.random.default_rng(0).standard_normal((filters, channels // groups, kernel, kernel), np.float32) / math.sqrt(channels // groups * kernel * kernel)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="convolution", pads=[kernel // 2] * 4, strides=[stride] * 2, group=groups)
    return [node], weight, [1, channels, size, size]


def write(path, nodes, weight, dims):
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims), helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def call(arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def problems(options):
    for shape in PRODUCTS[::max(1, len(PRODUCTS) // options.products)][:options.products]:
        yield f"product {' x '.join(map(str, shape))}", product(*shape)
    for shape in CONVOLUTIONS[::max(1, len(CONVOLUTIONS) // options.convolutions)][:options.convolutions]:
        channels, filters, size, kernel, stride, groups = shape
        yield f"convolution {channels} -> {filters}, {size} x {size}, {kernel} x {kernel} / {stride}, {groups} groups", convolution(*shape)


def measure(options):
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for index, (name, content) in enumerate(problems(options)):
            write(pathlib.Path(folder) / f"{index}.onnx", *content)
            names.append(name)
        for index, name in enumerate(names):
            model = f"{folder}/{index}.onnx"
            tuned = call([options.tenon, "tune", model, "--store", f"{folder}/store", "--json", *(["--allow-noise"] if options.allow_noise else [])])
            # Layouts are converted in regions of the same name, which have one kernel.
            longest = next(row for row in tuned["problems"] if row["state"] != "skipped" and any(name.split()[0] in region for region in row["regions"]))
            results[name] = {"state": longest["state"], "kernel": longest["kernel"], "untuned": longest["untuned"], "raced": longest["kernels_raced"],
                             "disturbed": longest["disturbed_rounds"], "times_us": {}}
        for _ in range(options.passes):
            for index, name in enumerate(names):
                found = call([options.tenon, "bench", f"{folder}/{index}.onnx", "--kernels", "all", "--target", "cpu:native", "--json"])
                times = results[name]["times_us"]
                region = next(row for row in found["regions"] if name.split()[0] in row["label"] and row["strategy"] == "contraction")
                for kernel in region["kernels"]:
                    if "time_us" in kernel:
                        times[kernel["kernel"]] = min(times.get(kernel["kernel"], math.inf), kernel["time_us"])
    return results


def ratios(row):
    best = min(row["times_us"].values())
    return best / row["times_us"][row["kernel"]], best / row["times_us"][row["untuned"]]


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def page(results):
    print("| problem | raced | tuned: best / its time | untuned | kernel |\n|---|---|---|---|---|")
    decided = {name: row for name, row in results.items() if row["kernel"]}
    for name, row in decided.items():
        tuned, untuned = ratios(row)
        print(f"| {name} | {row['raced']} | {tuned:.3f} | {untuned:.3f} | {row['kernel']} |")
    for kind in ("product", "convolution"):
        found = [ratios(row) for name, row in decided.items() if name.startswith(kind)]
        if found:
            tuned, untuned = zip(*found)
            print(f"\n{len(found)} {kind}s: tuned {mean(tuned):.3f} (geometric mean), {min(tuned):.3f} (worst); untuned {mean(untuned):.3f}, {min(untuned):.3f}")
    if len(decided) < len(results):
        print(f"\nundecided: {', '.join(sorted(results.keys() - decided.keys()))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("-o", dest="output")
    parser.add_argument("--page", help="print the tables of such a file")
    parser.add_argument("--products", type=int, default=len(PRODUCTS))
    parser.add_argument("--convolutions", type=int, default=len(CONVOLUTIONS))
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--allow-noise", action="store_true", help="on a machine that does other things too")
    options = parser.parse_args()
    if options.page:
        return page(json.loads(pathlib.Path(options.page).read_text()))
    results = measure(options)
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps(results, indent=1))
    page(results)


if __name__ == "__main__":
    main()
