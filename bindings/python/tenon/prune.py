"""Structured pruning: the verb, and its PyTorch side.

    tenon.prune.export(module, (x,), "model.onnx")               # with the names of its parameters
    tenon.prune.prune("model.onnx", "narrow.onnx", ratio=0.3, recipe="r.json")
    tenon.prune.apply(module, "r.json")                          # the same on the module, to train it on

Relies on torch for all but `prune`.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._compile import verb
from ._errors import door, usage

if TYPE_CHECKING:
    import numpy
    import torch

Path = Union[str, "os.PathLike[str]"]

__all__ = ["apply", "export", "prune", "taylor"]


@door
def prune(
    model: Path,
    output: Optional[Path] = None,
    *,
    ratio: Optional[float] = None,
    latency: Union[float, str, None] = None,
    recipe: Optional[Path] = None,
    importance: str = "magnitude",
    scores: Optional[Path] = None,
    keep: Sequence[str] = (),
    multiple: Optional[int] = None,
    timing: bool = True,
    threads: Optional[int] = None,
) -> Dict[str, Any]:
    """Writes the ONNX model without the channels, attention heads and FFN widths that matter least, and gives the report: what
    is left of each group of layers, why others stay, times before and after. `ratio` is the share to remove (0 to 1), `latency` how
    long the model may take here (seconds: 0.004, or "4ms" as on the command line): one of the two. `output` is by default the
    model's name with .pruned.onnx; the nodes of `keep` keep their widths."""
    arguments = ["prune", f"--importance={importance}", *(f"--keep={name}" for name in keep)]
    latency_text = latency if latency is None or isinstance(latency, str) else f"{latency * 1000:.9f}ms"
    flags = {"ratio": ratio, "latency": latency_text, "recipe": recipe, "scores": scores, "multiple": multiple, "threads": threads, "output": output}
    arguments += [f"--{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}" for name, value in flags.items() if value is not None]
    return verb(*arguments, *([] if timing else ["--no-timing"]), "--", os.fspath(model))


def export(module: "torch.nn.Module", example_inputs: Any, path: Path, **options: Any) -> None:
    """Writes the module as ONNX so that parameters keep their names and no norm is folded: what `apply` and `taylor` find
    their tensors by. `options` go to torch.onnx.export (dynamic_axes, input_names, opset_version)."""
    import torch

    module.eval()
    args = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    torch.onnx.export(module, args, os.fspath(path), dynamo=False, do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE,
                      **{"opset_version": 17, **options})  # fmt: skip


def taylor(
    module: "torch.nn.Module",
    data: Iterable[Tuple[Any, Any]],
    loss: Optional[Callable[[Any, Any], "torch.Tensor"]] = None,
    path: Optional[Path] = None,
) -> Dict[str, "numpy.ndarray"]:
    """What the loss would change by each weight becoming zero, to first order: |weight * gradient|, the mean over batches, in FP32
    and in the parameter's shape. `data` gives (inputs, targets); `loss` is by default cross-entropy of logits. With `path` it is
    also written for `tenon prune --importance scores --scores PATH`. Gradients of the module are cleared."""
    import numpy
    import torch

    loss = loss or torch.nn.functional.cross_entropy
    training = module.training
    module.eval()
    sums: Dict[str, torch.Tensor] = {name: torch.zeros_like(parameter) for name, parameter in module.named_parameters()}
    batches = 0
    for inputs, targets in data:
        module.zero_grad(set_to_none=True)
        loss(module(*inputs) if isinstance(inputs, (tuple, list)) else module(inputs), targets).backward()
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                sums[name] += (parameter.detach() * parameter.grad).abs()
        batches += 1
    if batches == 0:
        raise usage("TN0105", "there are no batches to take gradients of", "give pairs of inputs and targets")
    module.zero_grad(set_to_none=True)
    module.train(training)
    scores = {name: (total / batches).to(torch.float32).cpu().numpy() for name, total in sums.items()}
    if path is not None:
        numpy.savez(os.fspath(path), **scores)
    return scores


def _check_heads(module: "torch.nn.Module", path: str) -> None:
    """Heads can go where the attention is torch's own; other code has their number in its own way."""
    import torch

    from ._heads import HeadAttention

    for at in (path, path.rpartition(".")[0]):
        if type(module.get_submodule(at)).forward in (torch.nn.MultiheadAttention.forward, HeadAttention.forward):
            return
    at = path.rpartition(".")[0]
    raise usage(
        "TN0105", f"the recipe removes heads of '{path}', part of a {type(module.get_submodule(at)).__name__}, whose code has their number in its own way",
        "prune without its heads: --keep the nodes that the report lists with them",
    )  # fmt: skip


def _owners(module: "torch.nn.Module", tensor: "torch.Tensor") -> List[Tuple[str, Dict[str, Any], str]]:
    """All that have the tensor: path, the dict that holds it, and its name there."""
    return [(path, held, name) for path, owner in module.named_modules() for held in (owner._parameters, owner._buffers)
            for name, own in held.items() if own is tensor]  # fmt: skip


def _set_sizes(owner: "torch.nn.Module", groups: int) -> None:
    """Attributes that say what the tensors now are."""
    import torch

    nn, weight = torch.nn, getattr(owner, "weight", None)
    if isinstance(owner, nn.modules.conv._ConvNd):
        if groups:
            owner.groups = groups
        first, second = (1, 0) if owner.transposed else (0, 1)
        sizes = {first: weight.shape[first], second: weight.shape[second]}
        owner.out_channels = sizes[0] if not owner.transposed else sizes[1] * owner.groups
        owner.in_channels = sizes[1] * owner.groups if not owner.transposed else sizes[0]
    elif isinstance(owner, nn.Linear):
        owner.out_features, owner.in_features = weight.shape
    elif isinstance(owner, (nn.modules.batchnorm._NormBase,)):
        owner.num_features = (weight if weight is not None else owner.running_mean).shape[0]
    elif isinstance(owner, nn.GroupNorm):
        owner.num_groups = weight.shape[0] // (owner.num_channels // owner.num_groups)
        owner.num_channels = weight.shape[0]
    elif isinstance(owner, nn.Embedding):
        owner.embedding_dim = weight.shape[1]
    elif isinstance(owner, nn.PReLU):
        owner.num_parameters = weight.shape[0]
    elif isinstance(owner, nn.RNNBase):
        owner.input_size = owner.weight_ih_l0.shape[1]
        owner._flat_weights = [getattr(owner, name) for name in owner._flat_weights_names]
        owner.flatten_parameters()
    elif isinstance(owner, nn.MultiheadAttention):
        from ._heads import HeadAttention

        HeadAttention.take(owner)


@door
def apply(module: "torch.nn.Module", recipe: Union[Path, Mapping[str, Any]]) -> "torch.nn.Module":
    """Removes from the module what `tenon prune --recipe` removed from the model that it was exported to, in place: parameters,
    buffers, and attributes such as out_channels, groups and num_features. Nothing is changed where it does not fit. An
    attention of torch.nn.MultiheadAttention that loses heads becomes one that returns no attention weights. A warning names code of the
    module that may have a width as a number: the file has one there. Export with a free batch (dynamic_axes), since a file
    of one batch has numbers also where code takes sizes of tensors. Create optimizers again afterwards."""
    import torch

    from . import _recipe
    from ._heads import HeadAttention

    if not isinstance(recipe, Mapping):
        with open(recipe, encoding="utf-8") as file:
            recipe = json.load(file)
    if recipe.get("schema") != "tenon.recipe/1":
        raise usage("TN0105", "this is no recipe of tenon prune", "give the file of --recipe")
    tensors = _recipe.tensors_of(module)
    normed: List[_recipe.NormedWeight] = []
    cuts: Dict[int, Tuple["torch.Tensor", Dict[int, List[int]]]] = {}
    groups: Dict[str, int] = {}
    for name, entry in recipe["parameters"].items():
        if entry.get("constant") and name not in tensors:
            continue
        if entry.get("computed_of"):
            normed.append(_recipe.NormedWeight(module, name, entry))
            path = normed[-1].path
            groups[path] = max(groups.get(path, 0), entry.get("groups", 0))
            continue
        own, is_transposed = _recipe.find(tensors, name, recipe)
        tensor = tensors[own]
        kept = {(1 - int(axis) if is_transposed else int(axis)): indices for axis, indices in entry["kept"].items()}
        if id(tensor) in cuts and cuts[id(tensor)][1] != kept:
            raise usage("TN0105", f"the recipe keeps different parts of '{own}' for different readers",
                        "untie the parameter in the module, and export it again")  # fmt: skip
        cuts[id(tensor)] = tensor, kept
        for path, _, _ in _owners(module, tensor):
            groups[path] = max(groups.get(path, 0), entry.get("groups", 0))
            if entry.get("heads"):
                _check_heads(module, path)
    for path in groups:
        owner = module.get_submodule(path)
        if isinstance(owner, torch.nn.MultiheadAttention):
            HeadAttention.check(owner, path)
    for tensor, kept in cuts.values():
        owners = _owners(module, tensor)
        smaller = _recipe.cut(tensor.detach(), kept)
        if isinstance(tensor, torch.nn.Parameter):
            smaller = torch.nn.Parameter(smaller, requires_grad=tensor.requires_grad)
        for _, held, name in owners:
            held[name] = smaller
    for weight in normed:
        weight.cut()
    for path, number in groups.items():
        _set_sizes(module.get_submodule(path), number)
    for text in _recipe.held_widths(module, recipe):
        warnings.warn(f"the code of the module may hold a width that is another now: {text}", stacklevel=3)
    return module
