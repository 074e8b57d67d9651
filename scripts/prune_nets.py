#!/usr/bin/env python3
"""Prunes every net of torchvision that can be exported, and compares the narrower one with the one that has zeros in the same places, both by ONNX
Runtime, and with the module that the recipe was applied to. Prints a row of a table for each; docs/measurements keeps the ledger.

Run by hand with the Python of .venv (onnx, onnxruntime) and the tool built; --torch is a Python with torch and torchvision. Weights are seeded, as no
figure of accuracy is taken. Names select nets; without, all classifiers, segmenters and detectors.
"""

import argparse
import atexit
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIDE = {"inception_v3": 299}


def bindings():
    """tenon.prune of the tree, beside the libraries of the build."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="tenon-bindings-"))
    atexit.register(shutil.rmtree, place)
    shutil.copytree(ROOT / "bindings/python/tenon", place / "tenon")
    (place / "tenon/lib").symlink_to(ROOT / "build/dev/lib")
    sys.path.insert(0, str(place))
    from tenon import prune

    return prune


def in_torch(arguments):
    """What needs torch, in a process of its own: `list`, `export NET MODEL`, or `apply NET RECIPE INPUT OUTPUT`."""
    import numpy
    import torch
    import torchvision

    if arguments[0] == "list":
        modules = (torchvision.models, torchvision.models.segmentation, torchvision.models.detection)
        print("\n".join(name for module in modules for name in torchvision.models.list_models(module)))
        return
    name, side = arguments[1], SIDE.get(arguments[1], 224)
    torch.manual_seed(1)
    options = {"weights": None} | ({"weights_backbone": None} if name in torchvision.models.list_models(torchvision.models.segmentation)
                                   + torchvision.models.list_models(torchvision.models.detection) else {})
    if name in ("googlenet", "inception_v3"):
        options |= {"init_weights": False}
    module = torchvision.models.get_model(name, **options).eval()
    # Fresh vectors are equal, which hides what is exchanged, and which the exporter stores once; heads of zeros give nothing.
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if tensor.is_floating_point() and tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all()):
            low, high = (0.5, 1.5) if name.endswith(("weight", "var")) and tensor.dim() == 1 else (-0.1, 0.1)
            torch.nn.init.uniform_(tensor, low, high)
    prune = bindings()
    if arguments[0] == "export":
        prune.export(module, torch.zeros(1, 3, side, side), arguments[2], input_names=["x"])
        return
    prune.apply(module, arguments[2])
    with torch.no_grad():
        y = module(torch.from_numpy(numpy.load(arguments[3])["x"]))
    while not isinstance(y, torch.Tensor):
        y = next(iter(y.values())) if isinstance(y, dict) else y[0]
    numpy.save(arguments[4], y.numpy())


def measure(options, name, folder):
    import numpy
    import onnx
    import onnxruntime

    sys.path.insert(0, str(ROOT / "test/e2e"))
    from prune_nets import masked

    def torch_side(*arguments):
        done = subprocess.run([options.torch, __file__, "--in-torch", *map(str, arguments)], capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1][:160])
        return done.stdout

    def run(path):
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        return session.run(None, {session.get_inputs()[0].name: x})[0]

    model, narrow, zeroed, recipe = (folder / what for what in ("m.onnx", "narrow.onnx", "zeroed.onnx", "r.json"))
    torch_side("export", name, model)
    start = time.time()
    done = subprocess.run([options.tenon, "prune", model, "-o", narrow, "--recipe", recipe, "--ratio", options.ratio, "--no-timing", "--json"],
                          capture_output=True, text=True, timeout=900)
    seconds = time.time() - start
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[0][:200])
    report, kept = json.loads(done.stdout), json.loads(recipe.read_text())
    side = SIDE.get(name, 224)
    x = numpy.random.default_rng(3).standard_normal((1, 3, side, side)).astype(numpy.float32)
    onnx.save(masked(onnx.load(model), kept), zeroed)
    expected, actual = run(zeroed), run(narrow)
    error = float(numpy.abs(actual - expected).max() / numpy.abs(expected).max())
    numpy.savez(folder / "x.npz", x=x)
    try:
        torch_side("apply", name, recipe, folder / "x.npz", folder / "y.npy")
        y = numpy.load(folder / "y.npy")
        applied = f"{float(numpy.abs(y - actual).max() / numpy.abs(actual).max()):.1e}"
    except RuntimeError as failure:
        applied = str(failure)
    width = sum(group["width"] for group in report["groups"])
    left = sum(group["kept"] for group in report["groups"])
    return f"| {name} | {len(report['groups'])} | {1 - left / width:.1%} | {report['parameters_after'] / report['parameters_before']:.2f} | {error:.1e} | {applied} | {seconds:.0f} s |"


def main():
    if sys.argv[1:2] == ["--in-torch"]:
        return in_torch(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tenon", default=str(ROOT / "build/dev/bin/tenon"))
    parser.add_argument("--torch", default=str(ROOT / ".venv-torch/bin/python"))
    parser.add_argument("--ratio", default="30%")
    options = parser.parse_args()
    names = options.names or subprocess.run([options.torch, __file__, "--in-torch", "list"], capture_output=True, text=True, check=True).stdout.split()
    print("| net | groups | channels removed | parameters kept | error to zeros | error of the module | time |\n|---|---|---|---|---|---|---|", flush=True)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(measure(options, name, pathlib.Path(folder)), flush=True)
            except (RuntimeError, subprocess.TimeoutExpired, ValueError, KeyError) as failure:
                print(f"| {name} | not: {failure} | | | | | |", flush=True)


if __name__ == "__main__":
    main()
