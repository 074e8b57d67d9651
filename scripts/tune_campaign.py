#!/usr/bin/env python3
"""How near the kernels that `tenon tune` takes are to the best: products and convolutions by themselves, each tuned with at most 16
candidates, and all of its kernels measured at length besides.

    scripts/tune_campaign.py --tenon build/dev/bin/tenon -o campaign.json [--products 50] [--convolutions 20] [--passes 3]
    scripts/tune_campaign.py --gpu --tenon build/dev/bin/tenon -o campaign.json
    scripts/tune_campaign.py --page campaign.json

On a GPU the 30 products and 15 convolutions are branches of two models in fp16, and BERT-large and ResNet-50 follow, tuned and beside Inductor's
max-autotune in the same call, where torch is installed (gpu_peers.py): how long each takes to within 2 % of its own best, and both at the end.
Predicted before it ran on any GPU, by counted candidates, samples and what ptxas says of its own time (0.12 to 0.2 s a kernel, on 14 threads):
0.3 to 0.5 s a problem, so 5 s of measuring for BERT-large (11 problems) and 15 s for ResNet-50 (29), 20 and 30 s with both engines compiled.
Lines that it is to reach: products and convolutions 0.98 by geometric mean, 0.92 the worst; models in 60 s, and not slower than Inductor's.

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
import time

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


# Of encoders, decoders and heads; batch, then as above: of ResNet-50, MobileNet, U-Net and YOLO.
GPU_PRODUCTS = [(rows, depth, columns)
                for depth, columns in ((768, 768), (768, 3072), (3072, 768), (1024, 4096), (4096, 4096), (1024, 1000))
                for rows in (8, 64, 384, 1536, 8192)]
GPU_CONVOLUTIONS = [(8, 3, 64, 224, 7, 2, 1), (8, 64, 64, 56, 3, 1, 1), (8, 64, 256, 56, 1, 1, 1), (8, 256, 128, 56, 1, 1, 1), (8, 128, 128, 28, 3, 1, 1),
                    (8, 512, 256, 28, 1, 2, 1), (8, 256, 256, 14, 3, 1, 1), (8, 512, 512, 7, 3, 1, 1), (8, 2048, 512, 7, 1, 1, 1), (1, 256, 256, 14, 3, 1, 1),
                    (32, 96, 96, 56, 3, 1, 96), (32, 128, 128, 28, 3, 1, 32), (2, 320, 320, 64, 3, 1, 1), (2, 640, 640, 32, 3, 1, 1), (16, 64, 128, 80, 3, 2, 1)]
MODELS = ("bert_large_b1_s384", "resnet50_b64")
PEERS = ("best",)
SECONDS = 60  # of tuning


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
    arguments = [str(each) for each in arguments]
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


def branches(path, kind, shapes):
    """One model with a branch for each shape, whose node is called KIND-NUMBER."""
    nodes, weights, ports = [], [], ([], [])
    for index, shape in enumerate(shapes):
        (node,), weight, dims = product(*shape) if kind == "product" else convolution(*shape[1:])
        dims = dims if kind == "product" else [shape[0], *dims[1:]]
        node.name = f"{kind}-{index}"
        node.input[:], node.output[:] = [f"x{index}", f"w{index}"], [f"y{index}"]
        nodes.append(node)
        weights.append(numpy_helper.from_array(weight, f"w{index}"))
        ports[0].append(helper.make_tensor_value_info(f"x{index}", TensorProto.FLOAT, dims))
        ports[1].append(helper.make_tensor_value_info(f"y{index}", TensorProto.FLOAT, None))
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *ports, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


ON_GPU = ["--target", "cuda:native", "--precision", "fp16", "--json"]


def measure_branches(options, folder):
    """As `measure`, of all shapes of a kind in one call."""
    results = {}
    for kind, shapes in (("product", GPU_PRODUCTS[:options.products]), ("convolution", GPU_CONVOLUTIONS[:options.convolutions])):
        model = f"{folder}/{kind}.onnx"
        branches(model, kind, shapes)
        start = time.monotonic()
        tuned = call([options.tenon, "tune", model, "--store", f"{folder}/store", "--time", "240s", *ON_GPU])
        print(f"{kind}s: tuned in {time.monotonic() - start:.0f} s, {tuned['tune_s']:.0f} s of them measuring", file=sys.stderr, flush=True)
        found = []
        for _ in range(options.passes):
            found += call([options.tenon, "bench", model, "--kernels", "all", "--cold", *ON_GPU])["regions"]
        for index, shape in enumerate(shapes):
            name = f"{kind}-{index}"
            # Layouts and types are converted in regions of the same name, which are no contractions.
            regions = [row for row in found if row["label"].split("+")[0].strip() == name or name in row["label"].split()]
            regions = [row for row in regions if row["strategy"] == "contraction" and len(row["kernels"]) > 1]
            row = next((row for row in tuned["problems"] if row["kernels_raced"] > 1 and any(name == each or name in each.split() for each in row["regions"])), None)
            if not row or not regions:
                print(f"{name} {shape}: not tuned or not measured", file=sys.stderr)
                continue
            times = {}
            for kernel in (kernel for region in regions for kernel in region["kernels"] if "time_us" in kernel):
                times[kernel["kernel"]] = min(times.get(kernel["kernel"], math.inf), kernel["time_us"])
            results[f"{kind} {' x '.join(map(str, shape))}"] = {
                "state": row["state"], "kernel": row["kernel"], "untuned": row["untuned"], "raced": row["kernels_raced"],
                "disturbed": row["disturbed_rounds"], "refused": row["refused"], "times_us": times}
    return results


def measure_models(options, folder):
    """Each model tuned from an empty store, compiled with and without it, and beside Inductor, which measures until its first result."""
    import gpu_cases
    import measure_gpu
    options.work, options.device, options.limit, options.together = pathlib.Path(folder), "cuda", 300, False
    results = {}
    for number, name in enumerate(MODELS):
        case = gpu_cases.all_cases()[name]
        graph, arrays, files = measure_gpu.written(case, number, options)
        shapes = [part for input, array in arrays.items() if array.ndim for part in ("--shape", f"{input}:{'x'.join(map(str, array.shape))}")]
        start = time.monotonic()
        tuned = call([options.tenon, "tune", graph, "-o", f"{folder}/tuned.tenon", "--store", f"{folder}/{name}.store", "--time", f"{SECONDS}s", *ON_GPU, *shapes])
        row = {"tenon_s": time.monotonic() - start, "measuring_s": tuned["tune_s"], "whole": tuned["whole"], "best_so_far": tuned["best_so_far"],
               "left": tuned["left"], "rounds_ms": {"tenon": [], "untuned": []}}
        call([options.tenon, "compile", graph, "-o", f"{folder}/untuned.tenon", "--no-cache", *ON_GPU, *shapes])
        peers = [measure_gpu.Peer(peer, options) for peer in PEERS] if options.peers else []
        for peer in peers:
            row[peer.name] = peer.ask(do="prepare", case=name, **files)
            row["rounds_ms"][peer.name] = []
        for _ in range(3):
            for side in ("tenon", "untuned"):
                engine = f"{folder}/{'tuned' if side == 'tenon' else side}.tenon"
                bench = call([options.tenon, "bench", engine, "--inputs", files["inputs"], "--runs", "70", "--json"])
                row["rounds_ms"][side].append(bench["gpu"]["time_ms"]["median"])
            for peer in peers:
                row["rounds_ms"][peer.name] += peer.ask(do="round", runs=70).get("times", [])
        for peer in peers:
            peer.stop()
        results[name] = row
    return results


def seconds_to_best(row):
    """From the beginning until what the races let expect is within 2 % of the last: compiling before them counts."""
    last = row["best_so_far"][-1]["run_us"]
    return row["tenon_s"] - row["measuring_s"] + next(each["elapsed_s"] for each in row["best_so_far"] if each["run_us"] <= 1.02 * last)


def models_page(models):
    if not models:
        return
    print("\n| model | tuning s | of it measuring | to 98 % of its best s | untuned ms | tuned ms | Inductor s | Inductor ms |\n|---|---|---|---|---|---|---|---|")
    for name, row in models.items():
        ms = {side: f"{sorted(times)[len(times) // 2]:.4f}" if times else "" for side, times in row["rounds_ms"].items()}
        peer = row.get(PEERS[0], {})
        print(f"| {name} | {row['tenon_s']:.1f} | {row['measuring_s']:.1f} | {seconds_to_best(row):.1f} | {ms['untuned']} | {ms['tenon']} | "
              f"{peer.get('failed') or '%.1f' % peer.get('prepare_s', math.nan)} | {ms.get(PEERS[0], '')} |")


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


def show(results):
    page(results.get("problems", {}))
    models_page(results.get("models", {}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("-o", dest="output")
    parser.add_argument("--page", help="print the tables of such a file")
    parser.add_argument("--products", type=int, default=len(PRODUCTS))
    parser.add_argument("--convolutions", type=int, default=len(CONVOLUTIONS))
    parser.add_argument("--passes", type=int, help="of all kernels; by default 3, and 1 on a GPU")
    parser.add_argument("--allow-noise", action="store_true", help="on a machine that does other things too")
    parser.add_argument("--gpu", action="store_true", help="on the GPU of this machine")
    parser.add_argument("--part", choices=("models", "problems"), help="of the GPU's part, which takes about 15 minutes; by default both")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without torch")
    options = parser.parse_args()
    if options.page:
        return show(json.loads(pathlib.Path(options.page).read_text()))
    options.passes = options.passes or (1 if options.gpu else 3)
    results = {}

    def keep(part):
        """What was measured stays, whatever comes behind it."""
        results.update(part)
        if options.output:
            pathlib.Path(options.output).write_text(json.dumps(results, indent=1))

    if options.gpu:
        with tempfile.TemporaryDirectory() as folder:
            if options.part != "problems":
                keep({"models": measure_models(options, folder)})
            if options.part != "models":
                keep({"problems": measure_branches(options, folder)})
    else:
        keep({"problems": measure(options)})
    show(results)


if __name__ == "__main__":
    main()
