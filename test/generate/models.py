"""Seeded language models as GGUF files, and what they compute, in float64.

The weights of the reference are what the package gguf takes out of the blocks: another reader of them than Tenon's. The models are small, and
their vocabulary is the bytes and two control tokens.
"""

import dataclasses
import math
import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # products this small are slower on several threads

import gguf
import numpy as np

Type = gguf.GGMLQuantizationType
VOCABULARY = 256 + 3
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
    layer_norm: bool = False
    norms_after: bool = False
    activation: str = "silu"
    gated: bool = True
    fused: bool = False  # queries, keys and values in one matrix; what is activated and what that scales in one
    parallel: bool = False
    embedding_scale: float = 1.0
    position_embedding: bool = False
    score_scale: float = 0.0  # 0 for 1 / sqrt(head)
    score_cap: float = 0.0
    logit_cap: float = 0.0
    window: int = 0
    windowed: tuple = ()  # by layer
    window_base: float = 0.0  # 0 for the base of all
    factor: float = 1.0
    yarn: int = 0  # the original positions
    factors: tuple = ()  # divisors of frequencies
    magnitude: float = 1.0
    extra: list = dataclasses.field(default_factory=list)  # what else is written: methods of the writer and their arguments
    extra_tensors: dict = dataclasses.field(default_factory=dict)
    context: int = 512
    template: str = CHAT  # empty for a file without one
    seed: int = 0


# Every option of a sampler, as flags and as arguments of Python. interface.c has them too.
SAMPLED = ["--temperature", "1.5", "--top-k", "200", "--top-p", "0.98", "--min-p", "0.001", "--repetition-penalty", "1.1", "--frequency-penalty", "0.2",
           "--presence-penalty", "0.1", "--logit-bias", "7=3.5", "--logit-bias", "9=-2", "--seed", "7", "--stop", "\x01\x02\x03"]  # fmt: skip
SAMPLED_IN_PYTHON = {"temperature": 1.5, "top_k": 200, "top_p": 0.98, "min_p": 0.001, "repetition_penalty": 1.1, "frequency_penalty": 0.2,
                     "presence_penalty": 0.1, "logit_bias": {7: 3.5, 9: -2}, "seed": 7, "stop": "\x01\x02\x03"}  # fmt: skip


def alphabet():
    """GPT-2's sign of each byte."""
    prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
    signs, extra = {}, 0
    for byte in range(256):
        signs[byte] = chr(byte) if byte in prints else chr(256 + extra)
        extra += byte not in prints
    return [signs[byte] for byte in range(256)]


def begin(model, path, tensors_of_part=0):
    """A writer with the keys of the model."""
    writer = gguf.GGUFWriter(path, model.family, split_max_tensors=tensors_of_part)
    writer.add_context_length(model.context)
    writer.add_embedding_length(model.width)
    writer.add_block_count(model.layers)
    writer.add_feed_forward_length(model.inner)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.key_heads)
    if model.head != model.width // model.heads:
        writer.add_key_length(model.head)
        writer.add_value_length(model.head)
    (writer.add_layer_norm_eps if model.layer_norm else writer.add_layer_norm_rms_eps)(model.epsilon)
    if model.base != 10000:
        writer.add_rope_freq_base(model.base)
    for method, *arguments in model.extra:
        getattr(writer, method)(*arguments)
    if model.turned:
        writer.add_rope_dimension_count(model.turned)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*alphabet(), "<|start|>", "<|end|>", "he"])
    writer.add_token_types([1] * 256 + [3, 3, 1])
    writer.add_token_merges(["h e"])
    writer.add_eos_token_id(257)
    if model.template:
        writer.add_chat_template(model.template)
    return writer


def end(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random_blocks(random, kind, shape):
    """The bytes of each row of a matrix."""
    halves, size = RANDOM_BLOCKS[kind]
    elements = gguf.GGML_QUANT_SIZES[kind][0]
    raw = random.integers(0, 256, (shape[0], shape[1] // elements, size), dtype=np.uint8)
    for at in halves:
        scale = np.full(raw.shape[:2], 1 / np.sqrt(shape[-1]) / (1024 if elements == 256 else 64), np.float16)
        raw[..., at : at + 2] = scale[..., None].view(np.uint8)
    return raw.reshape(shape[0], -1)


def write(model, path, tensors_of_part=0):
    """Writes the file, or parts of so many tensors, and returns the weights by name, in float64."""
    random = np.random.default_rng(model.seed)
    writer = begin(model, path, tensors_of_part)
    weights, number = {}, 0

    def tensor(name, shape, mean=0.0, spread=None):
        nonlocal number
        values = (mean + random.standard_normal(shape) * (spread or 1 / np.sqrt(shape[-1]))).astype(np.float32)
        kind = model.types[number % len(model.types)] if len(shape) == 2 else Type.F32
        number += len(shape) == 2
        if shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
            kind = Type.Q8_0  # as writers do for rows that no block of 256 fits
        if kind in RANDOM_BLOCKS:
            raw = random_blocks(random, kind, shape)
        elif kind == Type.F32:
            raw = values
        else:
            raw = gguf.quantize(values, kind)
        writer.add_tensor(name, raw, raw_dtype=kind)
        weights[name] = gguf.dequantize(raw, kind).astype(np.float64).reshape(shape) if kind != Type.F32 else values.astype(np.float64)

    def norm(name, size):
        tensor(name + ".weight", (size,), 1.0, 0.1)
        if model.layer_norm:
            tensor(name + ".bias", (size,), 0.0, 0.1)

    def linear(name, outputs, inputs, bias=model.layer_norm):
        tensor(name + ".weight", (outputs, inputs))
        if bias:
            tensor(name + ".bias", (outputs,), 0.0, 0.1)

    tensor("token_embd.weight", (VOCABULARY, model.width), spread=1 / model.embedding_scale)
    if model.position_embedding:
        tensor("position_embd.weight", (model.context, model.width), spread=1.0)
    for layer in range(model.layers):
        at = f"blk.{layer}."
        norm(at + "attn_norm", model.width)
        parts = (("q", model.heads), ("k", model.key_heads), ("v", model.key_heads))
        for part, heads in (("qkv", sum(heads for _, heads in parts)),) if model.fused else parts:
            linear(f"{at}attn_{part}", heads * model.head, model.width, model.biases or model.layer_norm)
        if model.head_norms:
            norm(at + "attn_q_norm", model.head)
            norm(at + "attn_k_norm", model.head)
        linear(at + "attn_output", model.width, model.heads * model.head)
        norm(at + "ffn_norm", model.width)
        if model.norms_after:
            norm(at + "post_attention_norm", model.width)
            norm(at + "post_ffw_norm", model.width)
        if model.gated and not model.fused:
            linear(at + "ffn_gate", model.inner, model.width)
        linear(at + "ffn_up", model.inner * (2 if model.gated and model.fused else 1), model.width)
        linear(at + "ffn_down", model.width, model.inner)
    norm("output_norm", model.width)
    if not model.tied:
        linear("output", VOCABULARY, model.width, bias=False)
    for name, values in model.extra_tensors.items():
        writer.add_tensor(name, np.array(values, np.float32))
    end(writer)
    return weights


def rms(x, scale, epsilon):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * scale


def frequencies(model, base):
    """As transformers' modeling_rope_utils."""
    turned = model.turned or model.head
    plain = 1 / base ** (np.arange(0, turned, 2) / turned)
    if model.yarn:
        pair = lambda rotations: turned * np.log(model.yarn / (rotations * 2 * np.pi)) / (2 * np.log(base))
        low, high = max(np.floor(pair(32)), 0), min(np.ceil(pair(1)), turned - 1)
        kept = 1 - np.clip((np.arange(turned // 2) - low) / (high - low), 0, 1)
        return plain / model.factor * (1 - kept) + plain * kept
    return plain / model.factor / np.array(model.factors or 1)


def rope(model, x, is_windowed):
    """x: [tokens, heads, head], at the positions from 0."""
    turned = model.turned or model.head
    plain = Model(model.family, head=model.head, turned=model.turned)
    each = frequencies(plain, model.window_base) if is_windowed and model.window_base else frequencies(model, model.base)
    angles = np.arange(x.shape[0])[:, None, None] * each
    cos, sin, y = np.cos(angles) * model.magnitude, np.sin(angles) * model.magnitude, x.copy()
    first = np.arange(0, turned, 2) if model.pairs else np.arange(turned // 2)
    second = first + (1 if model.pairs else turned // 2)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., first] * sin + x[..., second] * cos
    return y


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def activated(kind, x):
    if kind == "silu":
        return x / (1 + np.exp(-x))
    if kind == "gelu":
        return x / 2 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def capped(x, cap):
    return cap * np.tanh(x / cap) if cap else x


def bfloat16(x):
    """The nearest number that bf16 has."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32).astype(np.float64)


def logits(model, weights, tokens, rounded=lambda x: x):
    """[tokens, vocabulary], in float64; `rounded` is done to weights, and to what products, norms and sums give."""
    count = len(tokens)
    weights = {name: rounded(value) for name, value in weights.items()}

    def norm(x, name):
        if model.layer_norm:
            mean = x.mean(-1, keepdims=True)
            return rounded((x - mean) / np.sqrt(x.var(-1, keepdims=True) + model.epsilon) * weights[name + ".weight"] + weights[name + ".bias"])
        return rounded(rms(x, weights[name + ".weight"], model.epsilon))

    def linear(x, name):
        return rounded(x @ weights[name + ".weight"].T + weights.get(name + ".bias", 0))

    x = weights["token_embd.weight"][tokens] * model.embedding_scale
    if model.position_embedding:
        x = x + weights["position_embd.weight"][:count]
    distance = np.arange(count)[:, None] - np.arange(count)
    for layer in range(model.layers):
        at, is_windowed = f"blk.{layer}.", bool(model.windowed) and model.windowed[layer]
        h = norm(x, at + "attn_norm")
        sizes = np.array([model.heads, model.key_heads, model.key_heads]) * model.head
        if model.fused:
            parts = np.split(linear(h, at + "attn_qkv"), np.cumsum(sizes)[:-1], axis=1)
        else:
            parts = [linear(h, f"{at}attn_{part}") for part in "qkv"]
        q, k, v = (y.reshape(count, -1, model.head) for y in parts)
        if model.head_norms:
            q, k = norm(q, at + "attn_q_norm"), norm(k, at + "attn_k_norm")
        if not model.position_embedding and (not model.no_rope_every or (layer + 1) % model.no_rope_every):
            q, k = rounded(rope(model, q, is_windowed)), rounded(rope(model, k, is_windowed))
        groups = model.heads // model.key_heads
        k, v = np.repeat(k, groups, 1), np.repeat(v, groups, 1)
        scores = capped(np.einsum("qhd,khd->hqk", q, k) * (model.score_scale or model.head**-0.5), model.score_cap)
        seen = (distance >= 0) & (distance < model.window if is_windowed else True)
        y = rounded(np.einsum("hqk,khd->qhd", rounded(softmax(np.where(seen, scores, -np.inf))), v).reshape(count, -1))
        y = linear(y, at + "attn_output")
        y = norm(y, at + "post_attention_norm") if model.norms_after else y
        h = norm(x if model.parallel else x + y, at + "ffn_norm")
        x = rounded(x + y)
        up = linear(h, at + "ffn_up")
        if model.gated:
            gate, up = np.split(up, 2, axis=1) if model.fused else (linear(h, at + "ffn_gate"), up)
            y = rounded(activated(model.activation, gate) * up)
        else:
            y = rounded(activated(model.activation, up))
        y = linear(y, at + "ffn_down")
        x = rounded(x + (norm(y, at + "post_ffw_norm") if model.norms_after else y))
    x = norm(x, "output_norm")
    return capped(x @ weights["token_embd.weight" if model.tied else "output.weight"].T, model.logit_cap)
