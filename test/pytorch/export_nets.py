"""Exports nets with free sizes into a folder: NAME-KIND.pt2 or .onnx, and inputs and eager results at each size.

`export_nets.py FOLDER KINDS [NAME...]`. Kinds: `auto` and `named`, torch.export with Dim.AUTO and with named Dims; `dynamo` and `script`, either
exporter to ONNX (`dynamo` needs onnxscript). An export that fails is told in NAME-KIND.failed.
"""

import pathlib
import sys
import warnings

import numpy as np
import onnx
import torch
from torch.export import Dim

import architectures  # noqa: F401  it adds to NETS
from free_nets import NETS, Fn

# The sizes of the export, and four that it never saw.
EXPORT = {"n": 3, "h": 24, "w": 40, "l": 12, "s": 5, "samples": 64}
SIZES = [{"n": 1, "h": 32, "w": 24, "l": 7, "s": 3, "samples": 40}, {"n": 2, "h": 16, "w": 48, "l": 33, "s": 21, "samples": 100},
         {"n": 5, "h": 40, "w": 16, "l": 18, "s": 6, "samples": 77}, {"n": 1, "h": 48, "w": 64, "l": 9, "s": 11, "samples": 128}]
ODD = [(33, 29), (17, 50), (41, 18), (22, 67)]
LEAST = {"l": 4, "s": 2, "samples": 32, "h": 16, "w": 16}


def values(shape, sizes, ids):
    shape = [sizes.get(size, size) for size in shape]
    random = torch.Generator().manual_seed(sum(shape))
    return torch.randint(0, 50, shape, generator=random) if ids else torch.randn(shape, generator=random)


def dims(shapes, kind, named, odd):
    """For named Dims those of height and width are multiples of eight, as in the list of sizes, unless they may be odd."""
    def one(size):
        if kind == "auto":
            return Dim.AUTO
        if kind == "script":
            return size
        if size in "hw" and not odd:
            return 8 * named.setdefault(size, Dim(f"{size}8", min=1, max=64))
        return named.setdefault(size, Dim(size, min=LEAST.get(size, 1), max=512))
    return [{i: one(size) for i, size in enumerate(shape) if isinstance(size, str)} for shape in shapes]


def leaves(result):
    return result if isinstance(result, dict) else {"output": result}


def require_free(names, dynamic, is_free):
    fixed = [f"{name}.{i}" for name, own in zip(names, dynamic) for i in own if not is_free(name, i)]
    if fixed:
        raise ValueError(f"the exporter unrolls a loop and so fixes {', '.join(fixed)}")


def export(module, inputs, dynamic, kind, path):
    """Saves the export and gives the names of its inputs."""
    if kind in ("auto", "named"):
        program = torch.export.export(module, inputs, dynamic_shapes=(tuple(dynamic),) if isinstance(module, Fn) else tuple(dynamic))
        names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        made = {node.name: node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder"}
        require_free(names, dynamic, lambda name, i: not isinstance(made[name][i], int))
        torch.export.save(program, f"{path}.pt2")
        return names
    names = [f"x{i}" for i in range(len(inputs))]
    with torch.no_grad():
        outputs = list(leaves(module(*inputs)))
    options = {"input_names": names, "output_names": outputs, "verbose": False}
    if kind == "script":
        torch.onnx.export(module, inputs, f"{path}.onnx", dynamo=False, dynamic_axes=dict(zip(names, dynamic)), opset_version=17, **options)
    else:
        shapes = (tuple(dynamic),) if isinstance(module, Fn) else tuple(dynamic)
        torch.onnx.export(module, inputs, f"{path}.onnx", dynamo=True, dynamic_shapes=shapes, external_data=False, **options)
        made = {port.name: port.type.tensor_type.shape.dim for port in onnx.load(f"{path}.onnx").graph.input}
        try:
            require_free(names, dynamic, lambda name, i: made[name][i].dim_param)
        except ValueError:
            pathlib.Path(f"{path}.onnx").unlink()
            raise
    return names


def main(folder, kinds, *names):
    for name, (make, shapes, ids, odd) in NETS.items():
        if names and name not in names:
            continue
        torch.manual_seed(0)
        module = make().eval()
        for kind in kinds.split(","):
            inputs = tuple(values(shape, EXPORT, own) for shape, own in zip(shapes, ids))
            try:
                ports = export(module, inputs, dims(shapes, kind, {}, odd), kind, folder / f"{name}-{kind}")
            except Exception as error:  # whatever the exporter raises
                (folder / f"{name}-{kind}.failed").write_text(f"{type(error).__name__}: {error}")
                continue
            for number, sizes in enumerate(SIZES):
                sizes = dict(sizes, h=ODD[number][0], w=ODD[number][1]) if odd else sizes
                given = [values(shape, sizes, own) for shape, own in zip(shapes, ids)]
                with torch.no_grad():
                    results = leaves(module(*given))
                at = f"{name}-{kind}.{number}"
                np.savez(folder / f"{at}.in.npz", **{port: x.numpy() for port, x in zip(ports, given)})
                np.savez(folder / f"{at}.out.npz", **{key: x.numpy() for key, x in results.items()})


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
