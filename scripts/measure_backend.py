"""How long `torch.compile` takes to the first result of BERT-base, by Tenon and by Inductor, in turn on the same CPUs.

    python scripts/measure_backend.py [--rounds 3] [--threads 2] [--layers 12] [--device cpu]

Needs a Python that has torch, transformers and tenon. Each first result comes in a process of its own: cold with empty
caches, warm with those that the cold one left. Dynamo's own share, which no backend can save, is measured by a backend that does
nothing. Outputs are compared with eager mode in every process. Prints each time, then medians and paired ratios.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

TOLERANCE = 1e-3  # of the largest output: what FP32 kernels of any order of sums keep


def first_result(backend, layers, device, threads):
    """Runs in a process of its own; prints seconds and the error."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model = BertModel(BertConfig(num_hidden_layers=layers, attn_implementation="sdpa")).eval().to(device)
    ids = torch.randint(0, 30000, (1, 128), device=device)
    if backend == "nothing":
        backend = lambda graph, inputs: graph.forward  # noqa: E731
    options = {"threads": threads} if backend == "tenon" else None
    if backend == "tenon":
        import tenon  # noqa: F401
    with torch.no_grad():
        expected = model(ids).last_hidden_state
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        actual = torch.compile(model, backend=backend, options=options)(ids).last_hidden_state
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    error = ((actual - expected).abs().max() / expected.abs().max()).item()
    print(json.dumps({"seconds": seconds, "error": error, "torch": torch.__version__}))


def measured(backend, caches, options):
    places = {name: os.path.join(caches, name) for name in ("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
    command = [sys.executable, __file__, "--child", backend, f"--layers={options.layers}", f"--device={options.device}",
               f"--threads={options.threads}"]  # fmt: skip
    done = subprocess.run(command, env={**os.environ, **places}, stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    if not result["error"] <= TOLERANCE:
        sys.exit(f"{backend}: the outputs differ from eager mode's by {result['error']:.2g} of the largest")
    return result


def cpu_name():
    with open("/proc/cpuinfo") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "?")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return first_result(options.child, options.layers, options.device, options.threads)
    times = {}
    for round in range(options.rounds):
        for backend in ("tenon", "inductor")[:: 1 if round % 2 == 0 else -1]:
            with tempfile.TemporaryDirectory() as caches:
                for state in ("cold", "warm"):
                    result = measured(backend, caches, options)
                    times.setdefault((backend, state), []).append(result["seconds"])
                    print(f"{backend:9} {state} {result['seconds']:7.2f} s, error {result['error']:.1e}", flush=True)
        with tempfile.TemporaryDirectory() as caches:
            times.setdefault(("nothing", "warm"), []).append(measured("nothing", caches, options)["seconds"])
    print(f"{cpu_name()}, {options.threads} threads, {options.device}, torch {result['torch']}, load {os.getloadavg()[0]:.1f}")
    for (backend, state), seconds in times.items():
        print(f"{backend:9} {state} median {statistics.median(seconds):.2f} s")
    for state in ("cold", "warm"):
        ratios = [a / b for a, b in zip(times["tenon", state], times["inductor", state])]
        print(f"tenon / inductor {state}: {', '.join(f'{ratio:.3f}' for ratio in ratios)}")


if __name__ == "__main__":
    main()
