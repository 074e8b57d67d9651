#!/usr/bin/env python3
"""Exports the architectures with torch's two ONNX exporters and writes the weightless graphs of models/graphs and models/large.

Relies on models/requirements.txt. The variants below cover what users' files look like, not every combination.
"""

import argparse
import json
import pathlib
import tempfile
import warnings
from dataclasses import dataclass

import onnx
import torch
from torch.export import Dim

import architectures
import sequences
import vision
from weightless import weightless


@dataclass
class Variant:
    """One graph: its file name is <model>.<exporter>[_<note>].onnx; see the table in README.md for the reasons."""

    model: str
    exporter: str
    attention: str = ""
    opset: int = 0
    keep_norms: bool = False
    note: str = ""
    folder: str = "graphs"

    @property
    def name(self):
        return f"{self.model}.{self.exporter}" + (f"_{self.note}" if self.note else "")


VARIANTS = [
    Variant("resnet50", "dynamo"),
    Variant("resnet50", "torchscript", opset=17, keep_norms=True),
    Variant("mobilenet_v2", "dynamo"),
    Variant("mobilenet_v2", "torchscript", opset=13),
    Variant("vit_b16", "dynamo"),
    Variant("vit_b16", "torchscript", opset=17),
    Variant("bert_base", "dynamo", "sdpa"),
    Variant("bert_base", "torchscript", "sdpa", opset=17),
    Variant("minilm_l6", "dynamo", "sdpa"),
    Variant("minilm_l6", "torchscript", "eager", opset=14),
    Variant("gpt2", "dynamo", "sdpa"),
    Variant("gpt2", "torchscript", "sdpa", opset=17),
    Variant("bert_base", "dynamo", "eager", note="eager"),
    Variant("bert_large", "dynamo", "sdpa", folder="large"),
    Variant("swin_t", "dynamo"),
    Variant("swin_t", "torchscript", opset=17),
    Variant("unet", "dynamo"),
    Variant("unet", "torchscript", opset=17),
    Variant("ssdlite", "torchscript", opset=17),
    Variant("faster_rcnn", "torchscript", opset=17),
    Variant("t5_encoder", "dynamo"),
    Variant("t5_encoder", "torchscript", opset=17),
    Variant("t5_decoder", "dynamo"),
    Variant("t5_decoder", "torchscript", opset=17),
    Variant("whisper_encoder", "dynamo"),
    Variant("whisper_encoder", "torchscript", opset=17),
    Variant("whisper_decoder", "dynamo"),
    Variant("greedy_loop", "torchscript", opset=17),
    Variant("lstm", "torchscript", opset=17),
]


def build(variant):
    family = next(module for module in (architectures, vision, sequences) if hasattr(module, variant.model))
    make = getattr(family, variant.model)
    return make(variant.attention) if variant.attention else make()


def export_dynamo(built, variant, path):
    symbols = {}
    for name in built.inputs:
        for symbol in built.axes_of(name).values():
            least, largest = built.range_of(symbol)
            symbols.setdefault(symbol, Dim(symbol, min=least, max=largest))
    shapes = [{axis: symbols[symbol] for axis, symbol in built.axes_of(name).items()} for name in built.inputs]
    torch.onnx.export(built.model, tuple(built.inputs.values()), path, dynamo=True, verbose=False,
                      input_names=list(built.inputs), output_names=built.outputs,
                      dynamic_shapes=tuple(shapes), external_data=True,
                      opset_version=variant.opset or None)


def export_torchscript(built, variant, path):
    axes = {name: built.axes_of(name) for name in built.inputs}
    axes.update({name: built.output_axes.get(name, built.usual_axes()) for name in built.outputs})
    mode = torch.onnx.TrainingMode
    torch.onnx.export(built.model, tuple(built.inputs.values()), path, dynamo=False,
                      input_names=list(built.inputs), output_names=built.outputs,
                      dynamic_axes={name: named for name, named in axes.items() if named},
                      opset_version=variant.opset or None,
                      training=mode.PRESERVE if variant.keep_norms else mode.EVAL,
                      do_constant_folding=not variant.keep_norms)


def write(variant, folder, seed):
    torch.manual_seed(seed)
    built = build(variant)
    properties = {"input_limits": json.dumps(built.limits)} if built.limits else {}
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "model.onnx"
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            export = export_dynamo if variant.exporter == "dynamo" else export_torchscript
            export(built, variant, str(path))
        graph = weightless(path, properties)
    target = folder / variant.folder / f"{variant.name}.onnx"
    target.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(graph, str(target))
    print(f"{target}: {target.stat().st_size / 1024:.0f} KiB, {len(graph.graph.node)} nodes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="variant or model names; all by default")
    parser.add_argument("-o", "--output", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for variant in VARIANTS:
        if not options.models or variant.name in options.models or variant.model in options.models:
            write(variant, options.output, options.seed)


if __name__ == "__main__":
    main()
