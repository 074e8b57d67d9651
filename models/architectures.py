"""The architectures that export.py exports: each is built from its library's own configuration, with seeded weights.

Relies on torch, torchvision, timm and transformers. The weights are scaled so that activations keep their size through
the depth and outputs vary from input to input; only their moments reach the committed graphs.
"""

from dataclasses import dataclass, field

import numpy as np
import timm
import torch
import torchvision
from torch import nn
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D

from inputs import pictures

RELU_THRESHOLD = 0.3
RESIDUAL_GAIN = 0.4


@dataclass
class Architecture:
    """A model in eval mode, example inputs by name, and per input the largest value of integers (inclusive).

    `axes`: per input the names of its symbolic dims; without an entry the first is the batch, and with `max_sequence` the
    second the sequence. `output_axes`: the same for outputs, where a data-dependent size is left to the exporter.
    `ranges`: the least and the largest size by name, where they are not those of batch and sequence.
    """

    model: nn.Module
    inputs: dict
    outputs: list
    limits: dict = field(default_factory=dict)
    max_sequence: int = 0
    axes: dict = field(default_factory=dict)
    output_axes: dict = field(default_factory=dict)
    ranges: dict = field(default_factory=dict)

    def usual_axes(self):
        return {0: "batch", 1: "sequence"} if self.max_sequence else {0: "batch"}

    def axes_of(self, name):
        return self.axes.get(name, self.usual_axes())

    def range_of(self, symbol):
        return self.ranges.get(symbol, (1, self.max_sequence if symbol == "sequence" else 256))


def uniform(tensor, deviation, center=0.0):
    with torch.no_grad():
        tensor.uniform_(-1, 1).mul_(deviation * 3**0.5).add_(center)


def randomize(model):
    """Weights of variance 1 / fan_in, norms around one, small biases, embeddings and other tables below one."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
            uniform(module.weight, 0.1, 1.0)
            uniform(module.bias, 0.1)
        elif isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, Conv1D)):
            matrix = module.weight
            fan_in = matrix.shape[0] if isinstance(module, Conv1D) else matrix[0].numel()
            uniform(matrix, fan_in**-0.5)
            if module.bias is not None:
                uniform(module.bias, 0.1)
        elif isinstance(module, nn.Embedding):
            uniform(module.weight, module.weight.shape[1] ** -0.5)
    return model.eval()


def calibrate(module, inputs):
    """BatchNorm's statistics as training would leave them, one pair for all channels so that moments keep them."""
    square = inputs[0].pow(2).mean().item()
    uniform(module.running_mean, 0.1 * square**0.5)
    uniform(module.running_var, 0.1 * square, square)


def calibrated(model, inputs):
    """Runs the model once, setting each BatchNorm just before it is used.

    Without this a deep random net either explodes or forgets its input.
    """
    handles = [module.register_forward_pre_hook(calibrate)
               for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    with torch.no_grad():
        model(*inputs.values())
    for handle in handles:
        handle.remove()
    return model


def lower(norm):
    """Shifts a BatchNorm before a ReLU down: sparse activations keep inputs apart that a zero mean would merge."""
    uniform(norm.bias, 0.1, -RELU_THRESHOLD)


def image_inputs():
    return {"image": torch.from_numpy(pictures((2, 3, 224, 224), np.random.default_rng(0)))}


def token_inputs(vocabulary, names):
    mask = torch.ones(2, 16, dtype=torch.int64)
    mask[1, 11:] = 0
    examples = {"input_ids": torch.randint(0, vocabulary, (2, 16)), "attention_mask": mask,
                "token_type_ids": torch.randint(0, 2, (2, 16))}
    return {name: examples[name] for name in names}


def resnet50():
    model = randomize(torchvision.models.resnet50(weights=None))
    for block in model.modules():
        if isinstance(block, torchvision.models.resnet.Bottleneck):
            uniform(block.bn3.weight, 0.1 * RESIDUAL_GAIN, RESIDUAL_GAIN)
            lower(block.bn1)
            lower(block.bn2)
    inputs = image_inputs()
    return Architecture(calibrated(model, inputs), inputs, ["logits"])


def mobilenet_v2():
    model = randomize(torchvision.models.mobilenet_v2(weights=None))
    for block in model.modules():
        if isinstance(block, torchvision.models.mobilenetv2.InvertedResidual):
            uniform(block.conv[-1].weight, 0.1 * RESIDUAL_GAIN, RESIDUAL_GAIN)
            for layer in block.conv[:-2]:
                lower(layer[1])
    inputs = image_inputs()
    return Architecture(calibrated(model, inputs), inputs, ["logits"])


def vit_b16():
    model = randomize(timm.create_model("vit_base_patch16_224", pretrained=False))
    uniform(model.cls_token, 0.5)
    uniform(model.pos_embed, 0.5)
    return Architecture(model, image_inputs(), ["logits"])


class LastHiddenState(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask,
                          token_type_ids=token_type_ids).last_hidden_state


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


def bert(config, attention):
    config._attn_implementation = attention
    model = LastHiddenState(randomize(BertModel(config, add_pooling_layer=False)))
    inputs = token_inputs(config.vocab_size, ["input_ids", "attention_mask", "token_type_ids"])
    limits = {"input_ids": config.vocab_size - 1, "attention_mask": 1, "token_type_ids": 1}
    return Architecture(model.eval(), inputs, ["last_hidden_state"], limits, 512)


def bert_base(attention):
    return bert(BertConfig(), attention)


def bert_large(attention):
    return bert(BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                           intermediate_size=4096), attention)


def minilm_l6(attention):
    """The shape of sentence-transformers/all-MiniLM-L6-v2."""
    return bert(BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                           intermediate_size=1536), attention)


def gpt2(attention):
    config = GPT2Config(use_cache=False)
    config._attn_implementation = attention
    network = randomize(GPT2LMHeadModel(config))
    for block in network.transformer.h:
        uniform(block.attn.c_proj.weight, (RESIDUAL_GAIN / config.n_embd) ** 0.5)
        uniform(block.mlp.c_proj.weight, (RESIDUAL_GAIN / config.n_embd / 4) ** 0.5)
    limits = {"input_ids": config.vocab_size - 1, "attention_mask": 1}
    inputs = token_inputs(config.vocab_size, ["input_ids", "attention_mask"])
    return Architecture(Logits(network).eval(), inputs, ["logits"], limits, config.n_positions)
