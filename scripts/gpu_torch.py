"""The models of measure_gpu.py as torch modules, with the weights of their ONNX graphs; nothing of timing is in here.

Relies on torch (BERT also on transformers) and onnx. Names of parameters are those of the exported graphs.
"""

import math
import pathlib
import sys

import numpy as np
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))

import fill  # noqa: E402

CHUNK = 1 << 26


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def mix64(z):
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ ((z >> shift) & ((1 << (64 - shift)) - 1))) * signed(factor)
    return z ^ ((z >> 31) & ((1 << 33) - 1))


def generated(tensor, keys, device):
    """What models/fill.py writes for a weightless tensor, made on the device: seed 0, rounded to float32."""
    state, count = signed(int(fill.stream_state(tensor.name, 0))), math.prod(tensor.dims)
    scale, center = float(np.float32(keys["scale"])), float(np.float32(keys["center"]))
    result = torch.empty(count, dtype=torch.float32, device=device)
    for begin in range(0, count, CHUNK):
        end = min(begin + CHUNK, count)
        index = torch.arange(begin + 1, end + 1, dtype=torch.int64, device=device)
        top = (mix64(state + index * signed(int(fill.GAMMA))) >> 40) & 0xFFFFFF
        result[begin:end] = center + scale * ((top.double() - 2.0**23) * 2.0**-23)
    return result.reshape(tuple(tensor.dims))


class Weights:
    """Initializers of a graph by the name of the parameter that they are in torch."""

    def __init__(self, model, device):
        self.tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self.readers, self.makers, self.device = {}, {}, device
        for node in model.graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
            for name in node.output:
                self.makers[name] = node

    def value(self, name):
        keys = fill.recipe(self.tensors[name])
        if keys is not None:
            return generated(self.tensors[name], keys, self.device)
        return torch.from_numpy(numpy_helper.to_array(self.tensors[name]).copy()).to(self.device)

    def linear(self, name):
        """Exporters transpose the matrix of a linear layer and may drop its name: its bias leads to it."""
        matrix = f"{name}.weight"
        if matrix not in self.tensors:
            add = self.readers[f"{name}.bias"][0]
            product = next(self.makers[value] for value in add.input if value in self.makers)
            matrix = product.input[1]
        is_transposed = self.readers[matrix][0].op_type == "MatMul"
        return self.value(matrix).T if is_transposed else self.value(matrix)

    def load(self, module):
        with torch.no_grad():
            matrices = {name: part for name, part in module.named_modules() if isinstance(part, nn.Linear)}
            for name, parameter in module.state_dict().items():
                owner, _, field = name.rpartition(".")
                if field == "num_batches_tracked" or name not in self.tensors and field == "position_ids":
                    continue
                value = self.linear(owner) if owner in matrices and field == "weight" else self.value(name)
                parameter.copy_(value)
        return module


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False),
                                            nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(y)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    """With torchvision's names."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        inputs = 64
        for index, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            layer = []
            for block in range(blocks):
                layer.append(Bottleneck(inputs, width, 2 if index > 0 and block == 0 else 1))
                inputs = 4 * width
            setattr(self, f"layer{index + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(2048, 1000)

    def forward(self, image):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(image))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class VitBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.qkv, self.attn.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.attn.qkv(self.norm1(x)).reshape(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.attn.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, w))
        return x + self.mlp.fc2(F.gelu(self.mlp.fc1(self.norm2(x))))


class VitB16(nn.Module):
    """With timm's names."""

    def __init__(self, width=768):
        super().__init__()
        self.cls_token, self.pos_embed = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 197, width))
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, width, 16, 16)
        self.blocks = nn.Sequential(*(VitBlock(width, 12) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 1000)

    def forward(self, image):
        x = self.patch_embed.proj(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bert(nn.Module):
    def __init__(self, **config):
        from transformers import BertConfig, BertModel
        super().__init__()
        shape = BertConfig(**config)
        shape._attn_implementation = "sdpa"
        self.model = BertModel(shape, add_pooling_layer=False)

    def forward(self, input_ids, attention_mask, token_type_ids):
        # A mask of four dims is taken as it is: making one from two reads the GPU, which a graph cannot hold.
        mask = attention_mask[:, None, None, :].bool()
        return self.model(input_ids=input_ids, attention_mask=mask, token_type_ids=token_type_ids).last_hidden_state


class LlamaLayer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.self_attn, self.mlp = nn.Module(), nn.Module()
        for name, inputs, outputs in (("q_proj", shape.width, shape.heads * shape.head),
                                      ("k_proj", shape.width, shape.key_heads * shape.head),
                                      ("v_proj", shape.width, shape.key_heads * shape.head),
                                      ("o_proj", shape.heads * shape.head, shape.width)):
            setattr(self.self_attn, name, nn.Linear(inputs, outputs, bias=False))
        for name, inputs, outputs in (("gate_proj", shape.width, shape.inner), ("up_proj", shape.width, shape.inner),
                                      ("down_proj", shape.inner, shape.width)):
            setattr(self.mlp, name, nn.Linear(inputs, outputs, bias=False))
        self.input_layernorm = nn.RMSNorm(shape.width, shape.epsilon)
        self.post_attention_layernorm = nn.RMSNorm(shape.width, shape.epsilon)

    def forward(self, x, key, value, position, cosine, sine, seen):
        b, a, head = x.shape[0], self.self_attn, self.shape.head
        y = self.input_layernorm(x)
        q, k, v = (part(y).view(b, 1, -1, head).transpose(1, 2) for part in (a.q_proj, a.k_proj, a.v_proj))
        q, k = rotated(q, cosine, sine), rotated(k, cosine, sine)
        # In place, as a served model does: all rows of a batch are at one position.
        key.index_copy_(2, position, k)
        value.index_copy_(2, position, v)
        # Query heads that share a key head stand as its rows: the fastest form that torch has for one token.
        q = q.reshape(b, self.shape.key_heads, -1, head)
        y = F.scaled_dot_product_attention(q, key, value, attn_mask=seen)
        x = x + a.o_proj(y.reshape(b, 1, -1))
        y = self.post_attention_layernorm(x)
        return x + self.mlp.down_proj(F.silu(self.mlp.gate_proj(y)) * self.mlp.up_proj(y))


def rotated(x, cosine, sine):
    first, second = x.chunk(2, -1)
    return torch.cat([cosine * first - sine * second, sine * first + cosine * second], -1)


class Llama(nn.Module):
    """One decode step; returns the logits and changes the caches that it is given."""

    def __init__(self, shape):
        super().__init__()
        self.shape, self.model = shape, nn.Module()
        self.model.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.model.layers = nn.ModuleList(LlamaLayer(shape) for _ in range(shape.layers))
        self.model.norm = nn.RMSNorm(shape.width, shape.epsilon)

    def forward(self, input_ids, position_ids, *cache):
        position = position_ids[0]
        seen = torch.arange(self.shape.cache, device=position.device) <= position_ids[:, None, None, :]
        step = torch.arange(0, self.shape.head, 2, device=position.device) / self.shape.head
        angles = position_ids[:, :, None].float() * self.shape.theta ** -step
        x = self.model.embed_tokens(input_ids)
        cosine, sine = (f(angles)[:, None].to(x.dtype) for f in (torch.cos, torch.sin))
        for index, layer in enumerate(self.model.layers):
            x = layer(x, cache[2 * index], cache[2 * index + 1], position, cosine, sine, seen)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)
