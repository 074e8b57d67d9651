#!/usr/bin/env python3
"""What pruning and training on cost in accuracy: ResNet-20 of models/, and the depthwise net of models/train_mobilenet.py (--mobilenet: the file that it wrote),
on Fashion-MNIST, pruned by tenon and by torch-pruning to about the same number of parameters and trained on in the same way (examples/finetune_pruned.py).
Prints a row for each seed; docs/measurements keeps them.

Run by hand with a Python of torch, onnx and numpy; torch-pruning is only measured where it is installed, in an environment of its own. Relies on
the tool and libraries built, and on Debian's dataset-fashion-mnist. Where a GPU is on another machine: --narrow FOLDER writes the modules here, and
--narrowed FOLDER trains them there.
"""

import argparse
import copy
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "examples"), str(ROOT / "scripts")]

import train_fashion_cnn as fashion
import train_mobilenet
import train_resnet20
from finetune_pruned import finetune, update_bn
from prune_nets import bindings

NETS = {"resnet20": train_resnet20.ResNet20, "mobilenet": train_mobilenet.MobileNet}
BY = ("tenon", "torch-pruning")


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def dense_net(name, path):
    module = NETS[name]()
    stored = onnx.load(path)
    state = {tensor.name: torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy()) for tensor in stored.graph.initializer}
    # The exporter stores equal tensors once, and gives the others as Identity nodes.
    for node in stored.graph.node:
        if node.op_type == "Identity" and node.input[0] in state:
            state[node.output[0]] = state[node.input[0]]
    missing = set(module.state_dict()) - set(state) - {name for name in module.state_dict() if name.endswith("num_batches_tracked")}
    assert not missing, missing
    module.load_state_dict({name: value for name, value in state.items() if name in module.state_dict()}, strict=False)
    return module.eval()


def by_tenon(options, module):
    prune = bindings()
    with tempfile.TemporaryDirectory() as folder:
        model, recipe = f"{folder}/m.onnx", f"{folder}/r.json"
        prune.export(module, torch.zeros(1, 1, 28, 28), model, input_names=["image"])
        subprocess.run([options.tenon, "prune", model, "-o", f"{folder}/p.onnx", "--recipe", recipe, "--ratio", str(options.ratio), "--no-timing",
                        "--multiple", str(options.multiple)], check=True, stdout=subprocess.DEVNULL)
        return prune.apply(module, recipe)


def by_peer(options, module, parameters):
    """Of ratios about the one that is asked for, that which comes nearest to the number of parameters."""
    import torch_pruning

    def narrowed(ratio):
        copied = copy.deepcopy(module)
        pruner = torch_pruning.pruner.MetaPruner(copied, torch.zeros(1, 1, 28, 28), importance=torch_pruning.importance.GroupMagnitudeImportance(p=2),
                                                 pruning_ratio=ratio, ignored_layers=[copied.classifier])
        pruner.step()
        return copied
    return min((narrowed(options.ratio + step / 400) for step in range(-24, 25)), key=lambda tried: abs(size(tried) - parameters))


def narrow(options, name, folder):
    """Writes the dense net and both narrow ones."""
    dense = dense_net(name, options.mobilenet if name == "mobilenet" else ROOT / "models/resnet20_fashion.onnx")
    torch.save(dense, folder / f"{name}.dense.pt")
    ours = by_tenon(options, copy.deepcopy(dense))
    torch.save(ours, folder / f"{name}.tenon.pt")
    try:
        torch.save(by_peer(options, dense, size(ours)), folder / f"{name}.torch-pruning.pt")
    except ImportError as missing:
        print(f"torch-pruning: not measured, {missing}", flush=True)


def train_on(options, name, folder):
    data = pathlib.Path(options.data)
    images, labels = fashion.load_split(data, "train", options.device)
    tests = fashion.load_split(data, "t10k", options.device)

    def batches():
        order = torch.randperm(len(images), device=options.device)[: options.most or len(images)]
        for chosen in order[: len(order) // options.batch * options.batch].split(options.batch):
            x = images[chosen].float() / 255
            yield (x.flip(3) if torch.rand(()) < 0.5 else x), labels[chosen]

    def load(by):
        return torch.load(folder / f"{name}.{by}.pt", weights_only=False).to(options.device).eval()
    dense = load("dense")
    print(f"{name}, dense: {fashion.accuracy(dense, *tests):.2%}, {size(dense)} parameters", flush=True)
    for by in (by for by in options.by if (folder / f"{name}.{by}.pt").exists()):
        for seed in options.seeds:
            torch.manual_seed(seed)
            module = load(by)
            before = fashion.accuracy(module, *tests)
            update_bn(batches(), module)
            renewed = fashion.accuracy(module, *tests)
            finetune(module, dense, batches, options.epochs, options.rate)
            print(f"{name}, {by}, seed {seed}: {before:.2%} pruned, {renewed:.2%} with its norms' statistics anew, {fashion.accuracy(module, *tests):.2%} trained "
                  f"on, {size(module)} parameters", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenon", default=str(ROOT / "build/dev/bin/tenon"))
    parser.add_argument("--nets", nargs="*", default=["resnet20"], choices=list(NETS))
    parser.add_argument("--mobilenet", help="the file of models/train_mobilenet.py")
    parser.add_argument("--narrow", type=pathlib.Path, help="only prunes, into this folder")
    parser.add_argument("--narrowed", type=pathlib.Path, help="only trains on what lies in this folder")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ratio", type=float, default=0.3)
    parser.add_argument("--multiple", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rate", type=float, default=4e-3 / 2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1])
    parser.add_argument("--most", type=int, help="samples of an epoch, for a shorter run")
    parser.add_argument("--by", nargs="*", default=list(BY))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.narrowed or options.narrow or pathlib.Path(temporary)
        for name in options.nets:
            if not options.narrowed:
                folder.mkdir(exist_ok=True)
                narrow(options, name, folder)
            if not options.narrow:
                train_on(options, name, folder)


if __name__ == "__main__":
    main()
