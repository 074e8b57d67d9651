"""Seeded language models as GGUF files, and what they compute, in float64.

The weights of the reference are what the package gguf takes out of the blocks: another reader of them than Tenon's. The models are small, and
their vocabulary is the bytes and two control tokens.
"""

import dataclasses

import gguf
import numpy as np

Type = gguf.GGMLQuantizationType
CHAT = "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
# Of types that the package does not write, blocks of random numbers: where their half floats stand, and how large a block is.
RANDOM_BLOCKS = {Type.Q4_K: ((0, 2), 144), Type.Q5_K: ((0, 2), 176), Type.Q6_K: ((208,), 210), Type.IQ4_NL: ((0,), 18)}


@dataclasses.dataclass
class Model:
    family: str
    types: list = dataclasses.field(default_factory=lambda: [Type.F32])
    width: int = 256
    inner: int = 512
    heads: int = 4
    key_heads: int = 2
    head: int = 64
    layers: int = 2
    turned: int = 0  # elements of a head that rotary embeddings turn; 0 for all
    base: float = 10000.0
    epsilon: float = 1e-5
    tied: bool = True
    biases: bool = False
    head_norms: bool = False
    pairs: bool = False
    no_rope_every: int = 0
    seed: int = 0


def alphabet():
    """GPT-2's sign of each byte."""
    prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
    signs, extra = {}, 0
    for byte in range(256):
        signs[byte] = chr(byte) if byte in prints else chr(256 + extra)
        extra += byte not in prints
    return [signs[byte] for byte in range(256)]


def write(model, path):
    """Writes the file and returns the weights by name, in float64."""
    random = np.random.default_rng(model.seed)
    tokens = [*alphabet(), "<|start|>", "<|end|>", "he"]
    writer = gguf.GGUFWriter(path, model.family)
    writer.add_context_length(512)
    writer.add_embedding_length(model.width)
    writer.add_block_count(model.layers)
    writer.add_feed_forward_length(model.inner)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.key_heads)
    writer.add_key_length(model.head)
    writer.add_value_length(model.head)
    writer.add_layer_norm_rms_eps(model.epsilon)
    writer.add_rope_freq_base(model.base)
    if model.turned:
        writer.add_rope_dimension_count(model.turned)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 256 + [3, 3, 1])
    writer.add_token_merges(["h e"])
    writer.add_eos_token_id(257)
    writer.add_chat_template(CHAT)
    weights, number = {}, 0

    def tensor(name, shape, mean=0.0, spread=None):
        nonlocal number
        values = (mean + random.standard_normal(shape) * (spread or 1 / np.sqrt(shape[-1]))).astype(np.float32)
        kind = model.types[number % len(model.types)] if len(shape) == 2 else Type.F32
        number += len(shape) == 2
        if kind in RANDOM_BLOCKS:
            halves, size = RANDOM_BLOCKS[kind]
            elements = gguf.GGML_QUANT_SIZES[kind][0]
            raw = random.integers(0, 256, (shape[0], shape[1] // elements, size), dtype=np.uint8)
            for at in halves:
                scale = np.full(raw.shape[:2], 1 / np.sqrt(shape[-1]) / (1024 if elements == 256 else 64), np.float16)
                raw[..., at : at + 2] = scale[..., None].view(np.uint8)
            raw = raw.reshape(shape[0], -1)
        elif kind == Type.F32:
            raw = values
        else:
            raw = gguf.quantize(values, kind)
        writer.add_tensor(name, raw, raw_dtype=kind)
        weights[name] = gguf.dequantize(raw, kind).astype(np.float64).reshape(shape) if kind != Type.F32 else values.astype(np.float64)

    tensor("token_embd.weight", (len(tokens), model.width), spread=1.0)
    for layer in range(model.layers):
        at = f"blk.{layer}."
        tensor(at + "attn_norm.weight", (model.width,), 1.0, 0.1)
        for part, heads in (("q", model.heads), ("k", model.key_heads), ("v", model.key_heads)):
            tensor(f"{at}attn_{part}.weight", (heads * model.head, model.width))
            if model.biases:
                tensor(f"{at}attn_{part}.bias", (heads * model.head,), 0.0, 0.1)
        if model.head_norms:
            tensor(at + "attn_q_norm.weight", (model.head,), 1.0, 0.1)
            tensor(at + "attn_k_norm.weight", (model.head,), 1.0, 0.1)
        tensor(at + "attn_output.weight", (model.width, model.heads * model.head))
        tensor(at + "ffn_norm.weight", (model.width,), 1.0, 0.1)
        tensor(at + "ffn_gate.weight", (model.inner, model.width))
        tensor(at + "ffn_up.weight", (model.inner, model.width))
        tensor(at + "ffn_down.weight", (model.width, model.inner))
    tensor("output_norm.weight", (model.width,), 1.0, 0.1)
    if not model.tied:
        tensor("output.weight", (len(tokens), model.width))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def rms(x, scale, epsilon):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * scale


def rope(model, x):
    """x: [tokens, heads, head], at the positions from 0."""
    turned = model.turned or model.head
    angles = np.arange(x.shape[0])[:, None, None] * model.base ** (-np.arange(0, turned, 2) / turned)
    cos, sin, y = np.cos(angles), np.sin(angles), x.copy()
    first = np.arange(0, turned, 2) if model.pairs else np.arange(turned // 2)
    second = first + (1 if model.pairs else turned // 2)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., first] * sin + x[..., second] * cos
    return y


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def logits(model, weights, tokens):
    """[tokens, vocabulary], in float64."""
    count = len(tokens)
    x = weights["token_embd.weight"][tokens]
    for layer in range(model.layers):
        get = lambda name: weights[f"blk.{layer}.{name}"]
        h = rms(x, get("attn_norm.weight"), model.epsilon)
        parts = []
        for part, heads in (("q", model.heads), ("k", model.key_heads), ("v", model.key_heads)):
            y = h @ get(f"attn_{part}.weight").T + (get(f"attn_{part}.bias") if model.biases else 0)
            parts.append(y.reshape(count, heads, model.head))
        q, k, v = parts
        if model.head_norms:
            q, k = rms(q, get("attn_q_norm.weight"), model.epsilon), rms(k, get("attn_k_norm.weight"), model.epsilon)
        if not model.no_rope_every or (layer + 1) % model.no_rope_every:
            q, k = rope(model, q), rope(model, k)
        groups = model.heads // model.key_heads
        k, v = np.repeat(k, groups, 1), np.repeat(v, groups, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(model.head)
        scores = np.where(np.tri(count, dtype=bool), scores, -np.inf)
        y = np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(count, -1)
        x = x + y @ get("attn_output.weight").T
        h = rms(x, get("ffn_norm.weight"), model.epsilon)
        gate = h @ get("ffn_gate.weight").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ get("ffn_up.weight").T)) @ get("ffn_down.weight").T
    x = rms(x, weights["output_norm.weight"], model.epsilon)
    return x @ weights["token_embd.weight" if model.tied else "output.weight"].T
