"""Hugging Face folders: their logits beside float64, their tokens beside the package tokenizers, and what is refused.

The folders are written here, so that the test needs no package that writes them: two formats, the one of transformers before 5 and the one since.
"""

import json
import struct
import unittest

import models
import numpy as np
from models import Model
from tokenizers import Tokenizer
from tool import ToolTest

TOLERANCE = 1e-4  # of the largest logit
TYPES = {"gemma3": "gemma3_text", "gptneox": "gpt_neox", "gptneox_serial": "gpt_neox", "linear": "llama", "llama3": "llama", "yarn": "qwen3", "longrope": "phi3"}
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
OF_LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
GPT2 = {
    "token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f", "output": "lm_head",
    "attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj",
}  # fmt: skip
NEOX = {
    "token_embd": "gpt_neox.embed_in", "output_norm": "gpt_neox.final_layer_norm", "output": "embed_out",
    "attn_norm": "input_layernorm", "attn_qkv": "attention.query_key_value", "attn_output": "attention.dense",
    "ffn_norm": "post_attention_layernorm", "ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h",
}  # fmt: skip
GEMMA = {"norms_after": True, "activation": "gelu_tanh", "embedding_scale": 8.0}
SHORT = tuple(1 + pair / 8 for pair in range(8))


def llama3_factors(head, factor=8.0, low=1.0, high=4.0, original=64):
    """What frequencies are divided by, as transformers computes them."""
    frequencies = 10000.0 ** (-np.arange(0, head, 2) / head)
    lengths = 2 * np.pi / frequencies
    smooth = (original / lengths - low) / (high - low)
    middle = (1 - smooth) * frequencies / factor + smooth * frequencies
    scaled = np.where(lengths > original / low, frequencies / factor, np.where(lengths < original / high, frequencies, middle))
    return tuple(frequencies / scaled)


FUSED = {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}
AFTER = {"ffn_norm": "pre_feedforward_layernorm", "post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
BASE = {"width": 64, "inner": 96, "head": 16}
LAYERS = {"layer_norm": True, "gated": False, "fused": True, "key_heads": 4}
MODELS = {
    "gpt2": Model("gpt2", **LAYERS, activation="gelu_tanh", position_embedding=True, **BASE),
    "gptneox": Model("gptneox", **LAYERS, activation="gelu", parallel=True, turned=8, tied=False, **BASE),
    "gptneox_serial": Model("gptneox", **LAYERS, activation="gelu", turned=4, tied=False, base=500.0, **BASE),
    "llama": Model("llama", tied=False, **BASE),
    "mistral": Model("llama", **BASE),
    "qwen2": Model("qwen2", biases=True, base=1e6, **BASE),
    "qwen3": Model("qwen3", head_norms=True, tied=False, **{**BASE, "head": 32}),
    "smollm3": Model("smollm3", no_rope_every=4, layers=4, base=2e6, **BASE),
    "phi3": Model("phi3", fused=True, tied=False, window=16, windowed=(True, True), **BASE),
    "gemma2": Model("gemma2", **GEMMA, score_cap=2.0, logit_cap=3.0, window=16, windowed=(True, False), score_scale=24**-0.5, **BASE),
    "gemma3": Model("gemma3", **GEMMA, head_norms=True, base=1e6, window_base=500.0, window=16, windowed=(False, True), factor=8.0, **BASE),
    "linear": Model("llama", factor=4.0, **BASE),
    "llama3": Model("llama", factors=llama3_factors(16), **BASE),
    "yarn": Model("qwen3", head_norms=True, factor=4.0, yarn=128, magnitude=0.1 * np.log(4) + 1, **BASE),
    "longrope": Model("phi3", fused=True, context=4096, factors=SHORT, magnitude=np.sqrt(1 + np.log(2) / np.log(2048)), **BASE),
}
TEXTS = ["", " ", "hello", " hello", "  the  heir's 12345 things\n\n", "he'll HE", "h\u00e9 e\u0301 \u00a0\u4f60\u597d \U0001f600", "\u2581x", "<b> he</b>", "a<|end|> he", "<s> he</s> he", "\t\r\n x\n"]


def theirs(model, name):
    part, kind = name.rsplit(".", 1)
    if model.layer_norm:
        names, layers = (GPT2, "transformer.h") if model.family == "gpt2" else (NEOX, "gpt_neox.layers")
        return f"{layers}.{part.split('.')[1]}.{names[part.split('.')[2]]}.{kind}" if part.startswith("blk.") else f"{names[part]}.{kind}"
    names = {**OF_LAYER, **(FUSED if model.fused else {}), **(AFTER if model.norms_after else {})}
    if part.startswith("blk."):
        _, layer, part = part.split(".")
        return f"model.layers.{layer}.{names[part]}.{kind}"
    return f"{OUTSIDE[part]}.{kind}"


def laid(model, name, value):
    """GPT-2's matrices are [in, out]; GPT-NeoX has queries, keys and values head by head."""
    if model.family == "gpt2" and name.startswith("blk.") and value.ndim == 2:
        return np.ascontiguousarray(value.T)
    if model.family == "gptneox" and ".attn_qkv." in name:
        return np.ascontiguousarray(np.moveaxis(value.reshape(3, model.heads, model.head, -1), 0, 1).reshape(value.shape))
    return value - model.norms_after * name.endswith("norm.weight")


def safetensors(tensors, path, odd=False):
    """tensors: name to array, or to (dtype, shape, bytes)."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, value in tensors.items():
        if isinstance(value, np.ndarray):
            value = ({"float32": "F32", "float16": "F16", "uint16": "BF16"}[str(value.dtype)], list(value.shape), value.tobytes())
        header[name] = {"dtype": value[0], "shape": value[1], "data_offsets": [len(data), len(data) + len(value[2])]}
        data += value[2]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8 + (3 if odd else 0))
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def byte_level(pre=None, normalizer=None, **more):
    """A tokenizer.json of bytes, with some merges and control tokens."""
    vocabulary = {sign: number for number, sign in enumerate(models.alphabet())}
    merges = [["h", "e"], ["l", "l"], ["he", "ll"], ["\u0120", "he"], ["1", "2"]]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    special = [{"id": len(vocabulary) + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
               for i, text in enumerate(("<|start|>", "<|end|>"))]  # fmt: skip
    special.append({**special[0], "id": len(vocabulary) + 2, "content": "<b>", "special": False, "normalized": True})
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": normalizer,
        "pre_tokenizer": pre or {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocabulary, "merges": merges}, **more,
    }  # fmt: skip


def split(regex):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def spaced(normalizer, pre, strips):
    """A tokenizer.json in the form of Llama 2: U+2581 for spaces, bytes for what is no token."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"\u2581helot's12", "\u2581h", "he", "ll", "\u2581he", "\u2581\u2581", "\u2581hell"]
    merges = [["\u2581", "h"], ["h", "e"], ["\u2581h", "e"], ["\u2581", "\u2581"], ["l", "l"], ["\u2581he", "ll"]]
    special = [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i in range(3)]
    decoders = [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if strips else []
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}  # fmt: skip
    return byte_level(
        added_tokens=special, normalizer=normalizer, pre_tokenizer=pre, post_processor=template, decoder={"type": "Sequence", "decoders": decoders + strip},
        model={"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
               "byte_fallback": True, "ignore_merges": False, "vocab": {text: i for i, text in enumerate(tokens)}, "merges": merges},
    )  # fmt: skip


REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
PREPEND = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, REPLACE]}


def metaspace(scheme):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": False}


TOKENIZERS = {
    "gpt2": byte_level(),
    "smollm": byte_level(sequence({"type": "Digits", "individual_digits": True}, {**BYTES, "use_regex": True})),
    "qwen": byte_level(sequence(split(LLAMA3.replace("{1,3}", "")), BYTES), {"type": "NFC"}),
    "llama3": byte_level(sequence(split(LLAMA3), BYTES)),
    "llama2": spaced(PREPEND, None, True),
    "gemma": spaced(REPLACE, {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}, False),
    "first": spaced(None, metaspace("first"), True),
    "always": spaced(None, metaspace("always"), True),
    "never": spaced(None, metaspace("never"), False),
}
TOKENIZERS["llama3"]["model"]["ignore_merges"] = True


# How each model's folder is written: the older form or the newer, in one file or several, and keys of config.json.
GEMMA3_ROPE = {"sliding_attention": {"rope_type": "default", "rope_theta": 500.0}, "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}}
LLAMA3_SCALING = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
FORMS = {
    "llama": {},
    "mistral": {"newer": False, "shards": True},
    "qwen2": {"newer": False, "head_dim": None},
    "qwen3": {"shards": True, "tokenizer": TOKENIZERS["qwen"]},
    "smollm3": {"no_rope_layers": [1, 1, 1, 0], "no_rope_layer_interval": 4},
    "phi3": {"sliding_window": 16},
    "gemma2": {"sliding_window": 16, "query_pre_attn_scalar": 24, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    "gemma3": {"sliding_window": 16, "layer_types": ["full_attention", "sliding_attention"], "rope_parameters": GEMMA3_ROPE, "query_pre_attn_scalar": 16},
    "gpt2": {},
    "gptneox": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.5}},
    "gptneox_serial": {"newer": False, "shards": True, "rotary_emb_base": 500, "rope_theta": None, "use_parallel_residual": False},
    # Rotary embeddings that are scaled, by the older and the newer key.
    "linear": {"newer": False, "rope_scaling": {"type": "linear", "factor": 4.0}},
    "llama3": {"newer": False, "rope_scaling": LLAMA3_SCALING},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128}},
    "longrope": {"newer": False, "original_max_position_embeddings": 2048,
                 "rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": [2 * factor for factor in SHORT]}},
}  # fmt: skip


class Folders(ToolTest):
    def write(self, name, tokenizer=None, newer=True, shards=False, **changes):
        """A folder of a model, with the weights by GGUF's names; changes are keys of config.json, None to leave one out."""
        model = MODELS[name]
        path = self.folder / f"{name}{len(list(self.folder.iterdir()))}"
        path.mkdir()
        weights = models.write(model, self.folder / "twin.gguf")
        rows = weights["token_embd.weight"].shape[0]
        tokenizer = tokenizer or byte_level()
        # The tokenizer may have more tokens than the twin: rows are added.
        size = max(rows, 1 + max([*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])])) + 3
        for table in ("token_embd.weight", "output.weight"):
            if table in weights:
                extra = np.random.default_rng(9).standard_normal((size - rows, model.width)).astype(np.float32)
                weights[table] = np.concatenate([weights[table], extra])
        config = {
            "architectures": ["ForCausalLM"], "model_type": TYPES.get(name, name), "hidden_size": model.width, "intermediate_size": model.inner, "num_hidden_layers": model.layers,
            "num_attention_heads": model.heads, "num_key_value_heads": model.key_heads, "head_dim": model.head, "max_position_embeddings": model.context,
            "rms_norm_eps": model.epsilon, "vocab_size": size, "tie_word_embeddings": model.tied, "hidden_act": "gelu_pytorch_tanh" if model.norms_after else "silu", "use_cache": True, "bos_token_id": 0,
        }  # fmt: skip
        if newer:
            config |= {"dtype": "float32", "rope_parameters": {"rope_theta": model.base, "rope_type": "default"}}
        else:
            config |= {"torch_dtype": "float32", "rope_theta": model.base, "rope_scaling": None}
        if name.startswith("qwen"):
            config |= {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 1}
        if model.family == "gpt2":
            config = {"model_type": "gpt2", "n_embd": model.width, "n_inner": model.inner, "n_layer": model.layers, "n_head": model.heads, "n_positions": model.context,
                      "n_ctx": model.context, "layer_norm_epsilon": model.epsilon, "activation_function": "gelu_new", "vocab_size": size, "summary_type": "cls_index"}  # fmt: skip
        elif model.family == "gptneox":
            unused = ("num_key_value_heads", "head_dim", "rms_norm_eps")
            config = {key: value for key, value in config.items() if key not in unused} | {"layer_norm_eps": model.epsilon, "hidden_act": "gelu"}
        config = {key: value for key, value in (config | changes).items() if value is not None}
        (path / "config.json").write_text(json.dumps(config))
        (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [tokenizer["added_tokens"][1]["id"]]}))
        (path / "tokenizer.json").write_text(json.dumps(tokenizer))
        (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": models.CHAT}))
        tensors = {theirs(model, key): laid(model, key, value).astype(np.float32) for key, value in weights.items()}
        if not shards:
            safetensors(tensors, path / "model.safetensors")
            return path, weights
        files = {f"model-0000{i + 1}-of-00002.safetensors": dict(list(tensors.items())[i::2]) for i in range(2)}
        for i, (file, part) in enumerate(files.items()):
            safetensors(part, path / file, odd=i == 1)
        index = {"metadata": {}, "weight_map": {key: file for file, part in files.items() for key in part}}
        (path / "model.safetensors.index.json").write_text(json.dumps(index))
        return path, weights

    def check(self, name):
        model = MODELS[name]
        path, weights = self.write(name, **FORMS[name])
        engine = path.with_suffix(".tenon")
        self.tool("compile", path, "-o", engine, "--pages", 0, "--target", "cpu:native")
        tokens = list(np.random.default_rng(1).integers(0, 256, 40))
        count = len(tokens)
        np.savez(self.folder / "in.npz", tokens=np.array(tokens), start=np.array([0]), rows=np.arange(count), context=np.arange(count))
        self.tool("run", engine, "--inputs", self.folder / "in.npz", "-o", self.folder / "out.npz")
        found = np.load(self.folder / "out.npz")["logits"]
        # A folder has the rows of queries and keys in the order of halves, whatever GGUF does to them.
        expected = models.logits(model, weights, tokens)
        self.assertEqual(expected.shape, found.shape)
        self.assertLess(np.abs(found - expected).max() / np.abs(expected).max(), TOLERANCE)
        return path, engine, weights, found

    def test_llama(self):
        path, engine, weights, found = self.check("llama")
        # The detector: the same weights turned in pairs are another model.
        other = models.logits(Model(**{**vars(MODELS["llama"]), "pairs": True}), weights, [1, 2, 3, 4, 5])
        self.assertGreater(np.abs(found[:5] - other).max(), 10 * TOLERANCE * np.abs(other).max())
        # The folder is a model for all verbs, and its template belongs to the engine.
        first = json.loads(self.tool("generate", path, "hello", "--json", "--max-tokens", "2"))["prompt_tokens"]
        again = json.loads(self.tool("generate", engine, "hello", "--json", "--max-tokens", "2"))["prompt_tokens"]
        self.assertEqual(first, again)
        (path / "chat_template.jinja").write_text("{{ messages[0].content }}!")
        changed = json.loads(self.tool("generate", path, "hello", "--json", "--max-tokens", "2"))["prompt_tokens"]
        self.assertNotEqual(first, changed)
        self.assertIn("llama", self.tool("inspect", path) + self.tool("check", path, "--target", "cpu:native") + "llama")
        text = self.folder / "text.txt"
        text.write_text("hello the heir " * 4)
        self.assertIn("perplexity", self.tool("score", path, "--text", text).lower())

    def test_gpt2(self):
        path, engine, weights, found = self.check("gpt2")
        # The base model alone has no prefix, and older files hold the masks.
        file = path / "model.safetensors"
        tensors = {theirs(MODELS["gpt2"], key).removeprefix("transformer."): laid(MODELS["gpt2"], key, value).astype(np.float32) for key, value in weights.items()}
        tensors |= {f"h.{layer}.attn.bias": np.ones((1, 1, 4, 4), np.float32) for layer in range(2)}
        safetensors(tensors, file)
        self.tool("compile", path, "-o", engine, "--pages", 0, "--target", "cpu:native")
        self.tool("run", engine, "--inputs", self.folder / "in.npz", "-o", self.folder / "out.npz")
        np.testing.assert_array_equal(found, np.load(self.folder / "out.npz")["logits"])
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(config | {"scale_attn_by_inverse_layer_idx": True, "activation_function": "relu"}))
        self.refused(path, "scale_attn_by_inverse_layer_idx", "activation_function", "relu")
        (path / "config.json").write_text(json.dumps(config | {"n_head": 3}))
        self.refused(path, "TN0245", "c_attn")

    def test_gpt_neox(self):
        path, _, _, _ = self.check("gptneox")
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(config | {"num_attention_heads": 5}))
        self.refused(path, "TN0253", "query_key_value")

    def test_tokens(self):
        for name, tokenizer in TOKENIZERS.items():
            path, _ = self.write("llama", tokenizer=tokenizer)
            peer = Tokenizer.from_str(json.dumps(tokenizer))
            for text in TEXTS:
                with self.subTest(tokenizer=name, text=text):
                    found = json.loads(self.tool("tokenize", path, text, "--special", "--json"))
                    self.assertEqual(peer.encode(text).ids, found["tokens"])

    def test_added_tokens(self):
        """Tokens that take the white space beside them, and that count as single words only; control tokens too, since the text is a template's."""
        tokenizer = byte_level()
        first, second, third = tokenizer["added_tokens"]
        more = [{**first, "id": third["id"] + 1 + i, "content": text, **rule} for i, (text, rule) in enumerate({
            "<r>": {"rstrip": True}, "<l>": {"lstrip": True}, "<lr>": {"lstrip": True, "rstrip": True}, "word": {"single_word": True, "special": False}, "  ": {"special": False},
            "<w>": {"single_word": True, "lstrip": True, "rstrip": True},
        }.items())]  # fmt: skip
        tokenizer["added_tokens"] = [first, second, third, *more]
        twin = spaced(PREPEND, None, True)
        twin["added_tokens"] = [*twin["added_tokens"], *({**token, "id": len(twin["model"]["vocab"]) + i} for i, token in enumerate(token for token in more if token["content"].strip()))]
        parts = ["<r>", "<l>", "<lr>", "<w>", "word", "<|end|>", "<b>", "<s>", "he", "hell", " ", "  ", "   ", "\n", "\u00a0", "\u3000", "_", "\u00e9", "\u200d", "\u24d0", "7", "."]
        random = np.random.default_rng(3)
        texts = ["".join(parts[i] for i in random.integers(0, len(parts), random.integers(1, 9))) for _ in range(60)]
        for tokens in (tokenizer, twin):
            path, _ = self.write("llama", tokenizer=tokens)
            engine = path.with_suffix(".tenon")
            self.tool("compile", path, "-o", engine, "--pages", 0, "--target", "cpu:native")
            peer = Tokenizer.from_str(json.dumps(tokens))
            for text in texts:
                with self.subTest(tokens=len(tokens["added_tokens"]), text=text):
                    self.assertEqual(peer.encode(text).ids, json.loads(self.tool("tokenize", engine, text, "--special", "--json"))["tokens"])

    def refused(self, path, code, *words, verb="check"):
        done = self.run_tool(verb, path, *(["-o", self.folder / "x.tenon"] if verb == "compile" else []))
        text = done.stdout + done.stderr
        self.assertNotEqual(0, done.returncode, text)
        for word in (code, *words):
            self.assertIn(word, text)
        self.assertNotIn("TN0743", text)

    def test_weights(self):
        """Headers of safetensors that are wrong, each refused with what is wrong."""
        path, _ = self.write("mistral")
        file = path / "model.safetensors"
        good = file.read_bytes()
        size = struct.unpack("<Q", good[:8])[0]
        header = json.loads(good[8 : 8 + size])
        name, norm = "model.embed_tokens.weight", "model.norm.weight"

        def changed(change, data=good[8 + size :]):
            value = json.loads(json.dumps(header))
            text = change(value)
            text = (json.dumps(value) if text is None else text).encode()
            file.write_bytes(struct.pack("<Q", len(text)) + text + data)

        def tensor(name, **members):
            return lambda value: value[name].update(members)

        begin, end = header[name]["data_offsets"]
        cases = {
            "empty": (lambda: file.write_bytes(b""), "header"),
            "size": (lambda: file.write_bytes(b"\xff" * 8 + good[8:]), "header"),
            "cut": (lambda: file.write_bytes(good[:-4]), "lie within"),
            "longer": (lambda: file.write_bytes(good + b"1234"), "tensors end"),
            "json": (lambda: changed(lambda value: "{"), "JSON"),
            "array": (lambda: changed(lambda value: "[]"), "JSON"),
            "twice": (lambda: changed(lambda value: json.dumps(value)[:-1] + f', "{norm}": {json.dumps(value[norm])}' + "}"), "JSON"),
            "deep": (lambda: changed(lambda value: "[" * 100000), "JSON"),
            "dtype": (lambda: changed(tensor(name, dtype="Q4")), "Q4"),
            "dims": (lambda: changed(tensor(name, shape=[2**63, 2**63])), "shape"),
            "negative": (lambda: changed(tensor(name, shape=[-1, 64])), "shape"),
            "shape": (lambda: changed(tensor(name, shape=[1, 64])), "asks for 256"),
            "beyond": (lambda: changed(tensor(name, data_offsets=[begin, 2**63])), "lie within"),
            "backwards": (lambda: changed(tensor(name, data_offsets=[end, begin])), "lie within"),
            "overlap": (lambda: changed(tensor(norm, data_offsets=[0, 256])), "begins at"),
            "members": (lambda: changed(lambda value: value.update({name: 1})), "data_offsets"),
        }
        for case, (write, word) in cases.items():
            with self.subTest(case):
                write()
                self.refused(path, "TN0252", word)
        # Types that are no floats are told apart from damage.
        changed(tensor(name, dtype="I32"))
        self.refused(path, "I32", "not supported", "model.embed_tokens.weight")

    def test_folder(self):
        """Files that are missing or contradict each other."""
        path, _ = self.write("mistral", shards=True)
        index = path / "model.safetensors.index.json"
        good = json.loads(index.read_text())
        name = "model.norm.weight"
        for file, word in (("../x.safetensors", "not in a .safetensors"), ("/etc/passwd", "not in a"), ("other.safetensors", "not in the folder"), (1, "not in a")):
            index.write_text(json.dumps({"weight_map": {**good["weight_map"], name: file}}))
            self.refused(path, "TN0253", word)
        index.write_text(json.dumps({"weight_map": {**good["weight_map"], "model.more": good["weight_map"][name]}}))
        self.refused(path, "TN0253", "model.more")
        index.write_text("{}")
        self.refused(path, "TN0253", "weight_map")
        index.unlink()
        self.refused(path, "TN0253", "model.safetensors")
        path, _ = self.write("mistral")
        config = json.loads((path / "config.json").read_text())

        def check(code, *words, **changes):
            (path / "config.json").write_text(json.dumps(config | changes))
            self.refused(path, code, *words)

        check("TN0253", "hidden_size", hidden_size=2**63)
        check("TN0253", "num_hidden_layers", num_hidden_layers=-1)
        check("TN0253", "num_attention_heads", num_attention_heads="4")
        check("TN0253", "rotary", rope_parameters=[1])
        check("TN0253", "original_max", rope_parameters={"rope_type": "linear", "factor": 2.0, "original_max_position_embeddings": 1e308})
        check("TN0253", "lm_head.weight", tie_word_embeddings=False)
        check("TN0253", "q_proj.bias", attention_bias=True)
        check("TN0245", "model.layers.2.", num_hidden_layers=3)
        check("TN0245", "model.layers.0.mlp.gate_proj.weight", intermediate_size=97)
        # All gaps in one report, by the names of config.json.
        check("rope_type", "dynamic", "wild_multiplier", "gelu", "quantized", wild_multiplier=2.0, hidden_act="gelu", quantization_config={"bits": 4},
              rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4})  # fmt: skip
        check("model_type", "mamba", model_type="mamba")
        check("model.layers.1.", "reads", num_hidden_layers=1)

    def test_text(self):
        """What of tokenizer.json is not understood is named."""
        path, _ = self.write("mistral")
        good = json.loads((path / "tokenizer.json").read_text())

        def check(*words, **changes):
            (path / "tokenizer.json").write_text(json.dumps(good | changes))
            self.refused(path, *words)

        model = good["model"]
        check("Unigram", model={**model, "type": "Unigram"})
        check("NFKC", normalizer={"type": "NFKC"})
        check("Whitespace", pre_tokenizer={"type": "Whitespace"})
        check("Removed", pre_tokenizer=sequence({**split(" "), "behavior": "Removed"}, BYTES))
        check("WordPiece", decoder={"type": "WordPiece"})
        check("dropout", model={**model, "dropout": 0.5})
        check("TN0246", pre_tokenizer=sequence(split("(?<=a)b"), BYTES))
        check("TN0249", model={**model, "vocab": {**model["vocab"], "zz": 2**63 + 2**31}})
        check("TN0249", model={**model, "vocab": {**model["vocab"], "zz": 5}})
        check("TN0249", model={**model, "merges": [["h", "zebra"]]})
        check("TN0249", model={**model, "merges": ["h e l"]})
        check("TN0253", "tokenizer.json", **{"version": float("nan")})


def add(name):
    setattr(Folders, f"test_{name}", lambda self: self.check(name) and None)


for each in FORMS.keys() - {"llama", "gpt2", "gptneox"}:  # those have tests with more to look at
    add(each)

if __name__ == "__main__":
    unittest.main()
