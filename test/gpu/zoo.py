"""The models of the zoo on the GPU of this machine, held against float64 and ONNX Runtime's error as test/zoo does on CPUs.

Relies on test/zoo/expected and on numpy and onnx; started by scripts/test_gpu.py, or with a target and names of models.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/zoo"))

import expectations  # noqa: E402


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exited with {done.returncode}")


def outputs_of(tenon, engine, arrays, folder):
    np.savez(folder / "inputs.npz", **arrays)
    run(tenon, "run", engine, "--inputs", folder / "inputs.npz", "-o", folder / "outputs.npz", "--quiet")
    with np.load(folder / "outputs.npz") as archive:
        return dict(archive)


def faults(name, options, folder):
    """What is wrong with a model at each of its sizes, through one engine."""
    engine, graph = folder / "model.tenon", expectations.GRAPHS[name]
    run(options.tenon, "compile", graph, "-o", engine, "--target", options.target, "--no-cache", "--quiet",
        *expectations.OPTIONS.get(name, []))
    found = []
    for case in expectations.read(name):
        arrays = expectations.inputs_for(expectations.load_graph(graph), case)
        outputs = outputs_of(options.tenon, engine, arrays, folder)
        for output, expected in case["outputs"].items():
            found += [f"{case['sizes']}: {output}: {fault}" for fault in expectations.faults(outputs[output], expected)]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=sorted(set(expectations.GRAPHS) - expectations.OF_CPUS))
    parser.add_argument("--tenon", type=pathlib.Path, required=True)
    parser.add_argument("--target", default="cuda:sm_90")
    options = parser.parse_args()
    failed = 0
    for name in options.models:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = faults(name, options, pathlib.Path(folder))
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                found = [str(error)]
        failed += bool(found)
        print(f"{'fail' if found else 'pass':<12} {name}  {time.monotonic() - start:.1f} s  {'; '.join(found)}", flush=True)
    print(f"{len(options.models)} models at {options.target}: {len(options.models) - failed} pass, {failed} fail")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
