"""Writes small GGUF files: a Llama of one layer whose tokens are the 256 bytes and a few more."""

import struct

import numpy as np

U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5
WIDTH, INNER = 32, 32
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", F32, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", U32, value)
    kind, form = (STRING, None) if value and isinstance(value[0], str) else (I32, "<i")
    body = b"".join(text(one) if kind == STRING else struct.pack(form, one) for one in value)
    return text(key) + struct.pack("<IIQ", ARRAY, kind, len(value)) + body


def alphabet():
    """GPT-2's signs of the 256 bytes."""
    prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in prints]
    return [chr(byte if byte in prints else 256 + others.index(byte)) for byte in range(256)]


def llama(version=3, template=TEMPLATE, keys=None, tensors=None):
    """The bytes of a file. `keys` and `tensors` change what it has; None takes one out."""
    tokens = alphabet() + ["<|end|>", "<|user|>", "<|system|>", "ab"]
    entries = {
        "general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 64, "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": INNER, "llama.attention.head_count": 2, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 256 + [3, 3, 3, 1], "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.eos_token_id": 256,
        "tokenizer.chat_template": template, **(keys or {})}
    random = np.random.default_rng(1)
    shapes = {"token_embd.weight": (len(tokens), WIDTH), "output_norm.weight": (WIDTH,)}
    for name, rows in (("attn_q", WIDTH), ("attn_k", WIDTH), ("attn_v", WIDTH), ("attn_output", WIDTH), ("ffn_gate", INNER), ("ffn_up", INNER), ("ffn_down", WIDTH)):
        shapes[f"blk.0.{name}.weight"] = (rows, WIDTH)
    shapes["blk.0.attn_norm.weight"] = shapes["blk.0.ffn_norm.weight"] = (WIDTH,)
    arrays = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    arrays.update(tensors or {})
    entries = {key: value for key, value in entries.items() if value is not None}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    head = b"GGUF" + struct.pack("<IQQ", version, len(arrays), len(entries)) + b"".join(entry(*item) for item in entries.items())
    data = b""
    for name, array in arrays.items():
        head += text(name) + struct.pack(f"<I{array.ndim}QIQ", array.ndim, *array.shape[::-1], 0, len(data))
        data += array.tobytes() + bytes(-array.nbytes % 32)
    return head + bytes(-len(head) % 32) + data
