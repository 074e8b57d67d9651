#!/usr/bin/env python3
"""What pruning and training on cost in accuracy: ResNet-20 of models/ on Fashion-MNIST, pruned by tenon and by torch-pruning to the same ratio and
trained on in the same way (examples/finetune_pruned.py). Prints a row for each; docs/measurements keeps them.

Run by hand with a Python of torch, onnx and numpy; torch-pruning is only measured where it is installed, in an environment of its own. Relies on
the tool and libraries built, and on Debian's dataset-fashion-mnist.
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
import train_resnet20
from finetune_pruned import finetune
from prune_nets import bindings


def dense_net():
    module = train_resnet20.ResNet20()
    stored = onnx.load(ROOT / "models/resnet20_fashion.onnx")
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


def by_peer(options, module):
    import torch_pruning

    x = torch.zeros(1, 1, 28, 28)
    pruner = torch_pruning.pruner.MetaPruner(module, x, importance=torch_pruning.importance.GroupMagnitudeImportance(p=2), pruning_ratio=options.ratio,
                                             ignored_layers=[module.classifier])
    pruner.step()
    return module


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenon", default=str(ROOT / "build/dev/bin/tenon"))
    parser.add_argument("--ratio", type=float, default=0.3)
    parser.add_argument("--multiple", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rate", type=float, default=4e-3 / 5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, help="samples of an epoch, for a shorter run")
    parser.add_argument("--by", nargs="*", default=["tenon", "torch-pruning"])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    folder = pathlib.Path("/usr/share/datasets/fashion-mnist")
    images, labels = fashion.load_split(folder, "train", "cpu")
    tests = fashion.load_split(folder, "t10k", "cpu")
    dense = dense_net()
    print(f"dense: {fashion.accuracy(dense, *tests):.2%}, {sum(p.numel() for p in dense.parameters())} parameters", flush=True)

    def batches():
        order = torch.randperm(len(images))[: options.most or len(images)]
        for chosen in order.split(options.batch):
            x = images[chosen].float() / 255
            yield (x.flip(3) if torch.rand(()) < 0.5 else x), labels[chosen]

    for name, narrow in (("tenon", by_tenon), ("torch-pruning", by_peer)):
        if name not in options.by:
            continue
        try:
            module = narrow(options, copy.deepcopy(dense))
        except ImportError as missing:
            print(f"{name}: not measured, {missing}", flush=True)
            continue
        before = fashion.accuracy(module, *tests)
        torch.manual_seed(options.seed)
        finetune(module, dense, batches, options.epochs, options.rate)
        print(f"{name}: {before:.2%} pruned, {fashion.accuracy(module, *tests):.2%} trained on, {sum(p.numel() for p in module.parameters())} parameters",
              flush=True)


if __name__ == "__main__":
    main()
