#!/usr/bin/env python3
"""A kernel of one's own in an engine beside the same in PyTorch: vector adds in CUDA C++ and in Triton (examples/kernels), on a GPU.

Each is compiled, which checks it on the GPU, and timed by `tenon bench`, cold and in a graph; PyTorch's are its own add and Inductor's kernel, in CUDA graphs, over as many sets of
tensors as fill the cache four times. Prints a table of microseconds and GB/s for each number of elements, what `tenon profile` says of the engine, and what was checked.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples/kernels"
LIBRARIES = {"CUDA C++": "vector_add.ptx", "Triton": "vector_add_triton.ptx"}


def tenon(options, *arguments):
    done = subprocess.run([options.tenon, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"tenon {' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def engine_seconds(options, engine, elements):
    """The median of a cold run on the GPU."""
    text = tenon(options, "bench", engine, "--shape", f"a:{elements}", "--shape", f"b:{elements}", "--cold", "--json")
    return json.loads(text)["gpu"]["time_ms"]["median"] * 1e-3


def torch_seconds(elements, rounds=20):
    """Seconds of a call in CUDA graphs, by its name: PyTorch's add and Inductor's kernel, over sets of tensors that do not fit the cache."""
    import torch

    sets = max(2, 4 * torch.cuda.get_device_properties(0).L2_cache_size // (12 * elements) + 1)
    tensors = [(torch.rand(elements, device="cuda"), torch.rand(elements, device="cuda")) for _ in range(min(sets, 64))]
    inductor = torch.compile(lambda a, b: a + 0.5 * b)
    seconds = {}
    for name, call in (("PyTorch", lambda a, b: torch.add(a, b, alpha=0.5)), ("Inductor", inductor)):
        with torch.inference_mode():
            for pair in tensors:
                call(*pair)
            graph, best = torch.cuda.CUDAGraph(), float("inf")
            with torch.cuda.graph(graph):
                kept = [call(*pair) for pair in tensors]
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(rounds):
                start.record()
                graph.replay()
                end.record()
                end.synchronize()
                best = min(best, start.elapsed_time(end) * 1e-3 / len(tensors))
            del kept
        seconds[name] = best
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("--elements", type=int, nargs="+", default=[1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 27])
    parser.add_argument("--no-torch", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engines = {}
        for name, library in LIBRARIES.items():
            engines[name] = pathlib.Path(folder) / f"{library}.tenon"
            tenon(options, "compile", EXAMPLES / "add_model.onnx", "--kernel-library", EXAMPLES / library, "--target", "cuda", "-o", engines[name])
            print(f"{name}:", *tenon(options, "explain", "kernels", engines[name]).splitlines()[:3], sep="\n  ")
        for elements in options.elements:
            row = {}
            for name, engine in engines.items():
                row[name] = engine_seconds(options, engine, elements)
            row.update({} if options.no_torch else torch_seconds(elements))
            print(f"{elements:>10}  " + "  ".join(f"{name} {seconds * 1e6:.2f} us ({12 * elements / seconds / 1e9:.0f} GB/s)" for name, seconds in row.items()))
        largest = max(options.elements)
        print(tenon(options, "profile", engines["CUDA C++"], "--shape", f"a:{largest}", "--shape", f"b:{largest}"))


if __name__ == "__main__":
    main()
