"""What the entries of a recipe are in a module: parameters by their names, or by their elements where the exporter calls them something else; weights
that weight_norm computes; code that holds a width. Relies on torch."""

from __future__ import annotations

import zlib
from typing import Any, Dict, List, Mapping, Sequence, Set, Tuple

import torch
from torch import nn

from ._errors import usage


def tensors_of(module: nn.Module) -> Dict[str, torch.Tensor]:
    """By all names: a tied parameter has one in each of its owners."""
    return {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}


def _crc(tensor: torch.Tensor) -> int:
    return zlib.crc32(tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy())


def _owner_of(node: str) -> str:
    """The path of the module that the node is of: '/deep/deep.1/conv/Conv' is of 'deep.1.conv'."""
    path = ""
    for part in node.split("/")[1:-1]:
        path = part if not path or part.startswith(path + ".") else f"{path}.{part}"
    return path


def find(tensors: Mapping[str, torch.Tensor], name: str, recipe: Mapping[str, Any]) -> Tuple[str, bool]:
    """The parameter that a tensor of the model is, and whether the model has it transposed. By name; else by its elements, since
    exporters transpose the weights of products and call them something else. Of equal ones it is that of the module whose nodes
    read it, or the one that no other entry names."""
    entries = recipe["parameters"]
    entry, seen = entries[name], set()
    dims = list(entry["dims"])
    shares = [own for own in entries.values() if own.get("tensor") == entry.get("tensor")]
    if name in tensors and list(tensors[name].shape) == dims and len(shares) == 1:
        if _crc(tensors[name]) != entry["crc32"]:
            raise usage("TN0105", f"'{name}' of the module has other values than what was pruned", "apply the recipe to the module that was exported, as it was then")
        return name, False
    found: List[Tuple[str, bool]] = []
    for own, tensor in tensors.items():
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        if list(tensor.shape) == dims and _crc(tensor) == entry["crc32"]:
            found.append((own, False))
        elif tensor.dim() == 2 and list(tensor.shape) == dims[::-1] and _crc(tensor.t()) == entry["crc32"]:
            found.append((own, True))
    owners = {_owner_of(node) for node in entry.get("readers", [])}
    for rest in ([own for own in found if own[0].rpartition(".")[0] in owners], [own for own in found if own[0] not in entries]):
        found = rest if len(found) > 1 and rest else found
    if len(found) != 1:
        raise usage(
            "TN0105", f"the module has {len(found) or 'no'} parameters that can be '{name}' of the recipe, which {', '.join(entry.get('readers', [])[:3])} read",
            "make the recipe of the file that tenon.prune.export(module, …) writes, and apply it to that module as it was",
        )  # fmt: skip
    return found[0]


def cut(tensor: torch.Tensor, kept: Mapping[int, Sequence[int]]) -> torch.Tensor:
    for axis, indices in kept.items():
        tensor = tensor.index_select(axis, torch.tensor(indices, device=tensor.device))
    return tensor.contiguous()


class NormedWeight:
    """A weight that torch.nn.utils.weight_norm, in either form, computes of a length and a direction."""

    def __init__(self, module: nn.Module, name: str, entry: Mapping[str, Any]) -> None:
        sources = entry["computed_of"]
        self.path = next((own[: -len(end)] for own in sources for end in (".parametrizations.weight.original1", ".weight_v") if own.endswith(end)), None)
        self.owner = None if self.path is None else module.get_submodule(self.path)
        self.held: Dict[str, Any] = {}
        if self.owner is not None and "weight_v" in self.owner._parameters:
            hooks = [hook for hook in self.owner._forward_pre_hooks.values() if type(hook).__name__ == "WeightNorm"]
            self.held, self.names, self.axis = self.owner._parameters, ("weight_g", "weight_v"), hooks[0].dim if hooks else None
        elif self.owner is not None:
            computed = self.owner.parametrizations["weight"]
            is_norm = len(computed) == 1 and type(computed[0]).__name__ == "_WeightNorm"
            self.held, self.names, self.axis = computed._parameters, ("original0", "original1"), computed[0].dim if is_norm else None
        if not self.held or self.axis is None or len(sources) != 2:
            raise usage(
                "TN0105", f"'{name}' of the recipe is no parameter of the module: the model computes it of {', '.join(sources)}",
                "export the module without this parametrization (torch.nn.utils.parametrize.remove_parametrizations), or --keep the nodes that read it",
            )  # fmt: skip
        dims, shape = list(entry["dims"]), list(self.owner.weight.shape)
        is_transposed = dims != shape or (len(dims) == 2 and dims[0] == dims[1] and "Transpose" in name)
        if (dims[::-1] if is_transposed else dims) != shape:
            raise usage("TN0105", f"'{self.path}.weight' has dims {shape}, and {dims} in the recipe", "apply the recipe to the module that was exported, as it was then")
        self.kept = {len(dims) - 1 - int(axis) if is_transposed else int(axis): indices for axis, indices in entry["kept"].items()}

    def cut(self) -> None:
        """The weight that is left is the direction, its norm the length: a direction that was cut would have another norm."""
        weight = cut(self.owner.weight.detach(), self.kept)
        length, direction = (self.held[name] for name in self.names)
        self.held[self.names[0]] = nn.Parameter(torch.norm_except_dim(weight, 2, self.axis), requires_grad=length.requires_grad)
        self.held[self.names[1]] = nn.Parameter(weight, requires_grad=direction.requires_grad)
        if self.names[1] == "weight_v":
            self.owner.weight = weight


def held_widths(module: nn.Module, recipe: Mapping[str, Any]) -> List[str]:
    """Where code of the module has a size as a number that is another now, in words. What torch's own modules compute of their
    attributes is none, nor are parts of one size, as of torch.chunk."""
    paths: Set[str] = {path for path, _ in module.named_modules()}
    found = []
    for entry in recipe.get("sizes", []):
        path, before, after = _owner_of(entry["node"]), entry["before"], entry["after"]
        owner = module.get_submodule(path) if path in paths else module
        is_torch = type(owner).__module__.startswith(("torch.nn.", "tenon.")) and not isinstance(owner, nn.Unflatten)
        is_even = entry["op"] == "Split" and len(set(before)) == 1 and len(set(after)) == 1
        if not is_torch and not is_even:
            where = f"'{path}' ({type(owner).__name__})" if path in paths and path else type(owner).__name__
            found.append(f"{where}: {entry['op']} '{entry['node']}' has {before}, now {after}")
    return found
