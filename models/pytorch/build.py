"""Makes the models of list.py, their seeded weights and their inputs. Relies on torch, torchvision and transformers."""

import math
import operator
import pathlib
import sys

import numpy as np
import torch
import torchvision
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck

from list import EXAMPLE, RANGES

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from detection import Detections  # noqa: E402
from inputs import pictures  # noqa: E402

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def construct(model):
    """In training mode, with whatever weights its library gives."""
    if ":" not in model.make:
        return operator.attrgetter(model.make)(torchvision.models)(weights=None, **model.config)
    import transformers
    auto, kind = model.make.split(":")
    config = transformers.AutoConfig.for_model(kind, **model.config)
    return getattr(transformers, auto).from_config(config)


def uniform(tensor, deviation, center=0.0):
    tensor.uniform_(-1, 1).mul_(deviation * 3**0.5).add_(center)


@torch.no_grad()
def randomize(model):
    """Weights of variance 1 / fan_in, vectors that are ones near one, other zeros small: no layer passes unseen."""
    done = set()
    for module in model.modules():
        for weight in module.parameters(recurse=False):
            if id(weight) in done:
                continue
            done.add(id(weight))
            if weight.dim() >= 2:
                fan_in = weight[0].numel() if isinstance(module, CONVOLUTIONS) else weight.shape[-1]
                uniform(weight, fan_in**-0.5)
            elif weight.numel() > 1 and bool((weight == weight[0]).all()):
                uniform(weight, 0.1, weight[0].item())
    return model


@torch.no_grad()
def calm(model):
    """Branches of residual nets add less than what they are added to, and boxes move little, as in nets that were trained:
    otherwise depth makes differences of the last bits of an activation into different detections."""
    for module in model.modules():
        if isinstance(module, Bottleneck):
            module.bn3.weight.mul_(0.4)
        elif isinstance(module, BasicBlock):
            module.bn2.weight.mul_(0.4)
    for name, weight in model.named_parameters():
        if any(head in name for head in ("bbox_pred", "bbox_reg", "regression_head.module_list")):
            weight.mul_(0.05)
    return model


def calibrate(module, inputs):
    """BatchNorm's statistics as training would leave them."""
    x = inputs[0]
    axes = [axis for axis in range(x.dim()) if axis != 1]
    module.running_mean.copy_(x.mean(axes))
    module.running_var.copy_(x.var(axes, correction=0) + 0.01)


@torch.no_grad()
def calibrated(model, run):
    """Runs the model once, setting each BatchNorm just before it is used: a deep random net explodes or forgets otherwise."""
    norms = [module for module in model.modules() if isinstance(module, NORMS) and module.running_mean is not None]
    if not norms:
        return model
    handles = [module.register_forward_pre_hook(calibrate) for module in norms]
    run()
    for handle in handles:
        handle.remove()
    return model


class Last(nn.Module):
    """The last of a list of refinements."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, first, second):
        return self.model(first, second)[-1]


class Step(nn.Module):
    """One decoding step of a language model: its token's keys and values are written into caches that are buffers."""

    LENGTH = 16

    def __init__(self, model):
        super().__init__()
        from transformers import StaticCache
        self.model, config = model, model.config.get_text_config()
        self.cache = StaticCache(config=config, max_cache_len=self.LENGTH)
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.cache.early_initialization(1, getattr(config, "num_key_value_heads", None) or config.num_attention_heads, width,
                                        torch.float32, torch.device("cpu"))
        for number, layer in enumerate(self.cache.layers):
            self.register_buffer(f"keys_{number}", layer.keys, persistent=False)
            self.register_buffer(f"values_{number}", layer.values, persistent=False)
            self.register_buffer(f"length_{number}", layer.cumulative_length, persistent=False)

    def forward(self, input_ids, position):
        for number, layer in enumerate(self.cache.layers):
            layer.keys, layer.values = getattr(self, f"keys_{number}"), getattr(self, f"values_{number}")
            layer.cumulative_length = getattr(self, f"length_{number}")
        return self.model(input_ids=input_ids, position_ids=position, past_key_values=self.cache, use_cache=True).logits


WRAPS = {"detections": Detections, "last": Last, "step": Step}


def fill(one, sizes, generator):
    """A video is its pictures one below the other; a mask has zeros at the tail of all rows but the first."""
    dims = [sizes.get(d, d) for d in one.dims]
    if one.fill == "picture":
        *outer, height, width = dims
        return pictures((1, math.prod(outer), height, width), generator).reshape(dims)
    if one.fill == "ids":
        return generator.integers(3, one.limit, dims)
    if one.fill == "mask":
        mask = np.ones(dims, np.int64)
        mask[1:, dims[1] * 3 // 4:] = 0
        return mask
    if one.fill == "zeros":
        return np.zeros(dims, np.int64)
    return generator.random(dims, np.float32) if one.fill == "unit" else generator.standard_normal(dims, np.float32)


def example(model, sizes=EXAMPLE, seed=0):
    """Seeded inputs by name."""
    generator = np.random.default_rng(seed)
    return {name: torch.from_numpy(fill(one, sizes, generator)) for name, one in model.inputs.items()}


# What torch.export takes, the strictest first: a named dim is one symbol wherever it stands, a dynamic one a symbol of its
# own, and of an automatic one torch may make a constant.
MODES = ("named", "dynamic", "automatic", "static")


def dynamic_shapes(model, mode):
    """Per input the dims that an export leaves open; None where there are none."""
    if mode == "static":
        return None
    marks = {"named": None, "dynamic": torch.export.Dim.DYNAMIC, "automatic": torch.export.Dim.AUTO}
    symbols = {name: marks[mode](min=least, max=most) if marks[mode] else torch.export.Dim(name, min=least, max=most)
               for name, (least, most) in RANGES.items()}
    shapes = {name: {axis: symbols[d] for axis, d in enumerate(one.dims) if isinstance(d, str)}
              for name, one in model.inputs.items()}
    return tuple(shapes.values()) if positional(model) else shapes


def positional(model):
    """transformers names its inputs; torchvision's are positional, and their names in list.py ours."""
    return model.family.startswith("torchvision")


def call(model, made, inputs):
    return made(*inputs.values()) if positional(model) else made(**inputs)


def build(model, seed=1):
    """The model in eval mode, seeded."""
    torch.manual_seed(seed)
    made = calm(randomize(construct(model)))
    made = (WRAPS[model.wrap](made) if model.wrap else made).eval()
    return calibrated(made, lambda: call(model, made, example(model)))
