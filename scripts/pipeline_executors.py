#!/usr/bin/env python3
"""Many small compiles as steps of one pipeline, by the local pool and by Ray in turn: seconds, and the ratio of their rates.

    scripts/pipeline_executors.py [--steps 200] [--rounds 3] [--jobs 2] [--running]

Runs in a Python with the package tenon, onnx and ray; both ways compile the same models without the compile cache, each into a work folder of its
own. A run with Ray also starts and ends its processes, which a cluster that is there does not need: --running starts it before the first round.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import tempfile
import time

import numpy
import onnx
import onnx.helper
import onnx.numpy_helper

from tenon import pipeline


def models(folder, count):
    """Perceptrons of two layers with weights of their own: small ones, so that what an executor costs shows."""
    generator, names = numpy.random.default_rng(1), []
    for index in range(count):
        weights = [onnx.numpy_helper.from_array(generator.standard_normal(dims, numpy.float32), name) for name, dims in (("a", (64, 64)), ("b", (64, 10)))]
        nodes = [onnx.helper.make_node("MatMul", ["x", "a"], ["p"]), onnx.helper.make_node("Relu", ["p"], ["r"]), onnx.helper.make_node("MatMul", ["r", "b"], ["y"])]
        ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size]) for name, size in (("x", 64), ("y", 10))]
        graph = onnx.helper.make_graph(nodes, "perceptron", ports[:1], ports[1:], weights)
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), folder / f"m{index}.onnx")
        names.append(f"m{index}.onnx")
    return names


def measure(folder, names, jobs, executor):
    """(seconds of the whole run, seconds from the end of the first step to that of the last)."""
    made = pipeline.Pipeline("many", folder=str(folder), work=f"work-{executor}")
    made.add("compile", each={"model": names}, target="cpu:avx2", no_cache=True)
    ends = []
    start = time.time()
    report = made.run(jobs=jobs, executor=executor, progress=lambda event: ends.append(time.time()) if event["state"] == "done" else None)
    whole = time.time() - start
    assert report["executed"] == len(names), report
    shutil.rmtree(folder / f"work-{executor}")
    return whole, ends[-1] - ends[0]


def start_ray(jobs):
    import ray

    os.environ["PYTHONPATH"] = str(pathlib.Path(pipeline.__file__).parents[2])  # which its workers inherit
    ray.init(num_cpus=jobs, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _system_config={"worker_niceness": 0})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--running", action="store_true", help="Ray runs already, as a cluster does")
    given = parser.parse_args()
    if given.running:
        start_ray(given.jobs)
    ratios = {"whole run": [], "from the first end to the last": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        names = models(folder, given.steps)
        for index in range(given.rounds):
            order = ("local", "ray") if index % 2 == 0 else ("ray", "local")
            took = {executor: measure(folder, names, given.jobs, executor) for executor in order}
            for place, name in enumerate(ratios):
                ratios[name].append(took["local"][place] / took["ray"][place])
            print("; ".join(f"{name}: {whole:.2f} s, from the first end to the last {steps:.2f} s" for name, (whole, steps) in took.items()), flush=True)
    for name, values in ratios.items():
        print(f"rate of ray by that of the local pool, {name}: {statistics.median(values):.3f} ({min(values):.3f} .. {max(values):.3f})")


if __name__ == "__main__":
    main()
