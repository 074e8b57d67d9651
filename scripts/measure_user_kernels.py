#!/usr/bin/env python3
"""A kernel of one's own in an engine beside the same in PyTorch: vector adds in CUDA C++ and in Triton (examples/kernels), on a GPU.

Each is compiled, which checks it on the GPU. Two ways of timing, each the same on both sides, over as many sets of tensors as fill the cache four times, one after the other on
one stream with the host ahead, median of many:
- "alone": a CUDA graph of one kernel a set, so with the start of a graph, as `tenon bench --cold` runs an engine;
- "in a row": a graph of kernels of which each adds to the result of the one before, the time of each, as in a model of many.
PyTorch's are its own add and Inductor's kernel. Prints a line for each as it is measured, and what `tenon profile` says of the engine.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples/kernels"
LIBRARIES = {"CUDA C++": "vector_add.ptx", "Triton": "vector_add_triton.ptx"}
IN_A_ROW = 32
LEAD_BYTES = 1 << 30
"""Written before what is timed, as by `tenon bench --cold`."""
ROUNDS = 20


def tenon(options, *arguments):
    done = subprocess.run([options.tenon, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"tenon {' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def write_model(path, length):
    """c = a + b / 2 + b / 2 + ..., `length` times, by the operator of the examples."""
    import onnx
    from onnx import TensorProto, helper

    names = ["a", *(f"c{i}" for i in range(1, length)), "c"]
    nodes = [
        helper.make_node("vector_add", [before, "b"], [after], name=f"add{i}", domain="example", alpha=0.5)
        for i, (before, after) in enumerate(zip(names, names[1:]))
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "abc"]
    graph = helper.make_graph(nodes, "adds", ports[:2], ports[2:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def compiled(options, folder, library, length):
    model, engine = folder / f"adds{length}.onnx", folder / f"{library}-{length}.tenon"
    write_model(model, length)
    shapes = (f"{name}:[1..{max(options.elements)}]" for name in "ab")
    tenon(options, "compile", model, "--kernel-library", EXAMPLES / library, "--target", options.target, *(word for shape in shapes for word in ("--shape", shape)), "-o", engine)
    return engine


def engine_seconds(options, engine, elements, length):
    """Of a kernel: the median of cold runs on the GPU."""
    text = tenon(options, "bench", engine, "--shape", f"a:{elements}", "--shape", f"b:{elements}", "--cold", "--seconds", options.seconds, "--json")
    return json.loads(text)["gpu"]["time_ms"]["median"] * 1e-3 / length


def torch_calls():
    import torch

    return {"PyTorch": lambda a, b: torch.add(a, b, alpha=0.5), "Inductor": torch.compile(lambda a, b: a + 0.5 * b, dynamic=False)}


def torch_seconds(call, elements, length):
    """Of a kernel, as `engine_seconds` has it."""
    import torch

    cache = torch.cuda.get_device_properties(0).L2_cache_size
    sets = min(max(4 * cache // (12 * elements) + 1, 2), 64)
    graphs, kept = [], []
    with torch.inference_mode():
        lead = torch.empty(LEAD_BYTES, dtype=torch.uint8, device="cuda")
        for _ in range(sets):
            a, b = (torch.rand(elements, device="cuda") for _ in range(2))
            call(a, b)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                c = a
                for _ in range(length):
                    c = call(c, b)
            graphs.append(graph)
            kept.append((a, b, c))
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        times = []
        for _ in range(ROUNDS):
            lead.zero_()
            start.record()
            for graph in graphs:
                graph.replay()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e-3 / (sets * length))
    return statistics.median(times)


def told(way, elements, name, seconds):
    print(f"{way:>8} {elements:>10}  {name:<8} {seconds * 1e6:9.2f} us {12 * elements / seconds / 1e9:6.0f} GB/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--elements", type=int, nargs="+", default=[1 << 12, 1 << 20, 1 << 24])
    parser.add_argument("--seconds", default="0.3s", help="of each measurement of an engine")
    parser.add_argument("--no-torch", action="store_true")
    options = parser.parse_args()
    calls = {} if options.no_torch else torch_calls()
    with tempfile.TemporaryDirectory() as folder:
        engines = {}
        for name, library in LIBRARIES.items():
            engines[name] = {length: compiled(options, pathlib.Path(folder), library, length) for length in (1, IN_A_ROW)}
            print(f"{name}:", tenon(options, "explain", "kernels", engines[name][1], "add0"), flush=True)
        for way, length in (("alone", 1), ("in a row", IN_A_ROW)):
            for elements in options.elements:
                for name, made in engines.items():
                    told(way, elements, name, engine_seconds(options, made[length], elements, length))
                for name, call in calls.items():
                    told(way, elements, name, torch_seconds(call, elements, length))
        largest = max(options.elements)
        print(tenon(options, "profile", engines["CUDA C++"][1], "--shape", f"a:{largest}", "--shape", f"b:{largest}"))


if __name__ == "__main__":
    main()
