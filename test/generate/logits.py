"""The logits of seeded models of each family, with weights of each type, beside float64; and the loop of `tenon generate` over them."""

import dataclasses
import json
import unittest

import models
import numpy as np
from models import Model, Type
from tool import ToolTest

BITS4 = [Type.Q4_0, Type.Q4_1, Type.Q4_K, Type.IQ4_NL]
BITS8 = [Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q5_K, Type.Q6_K]
SLOWER = tuple(1 + i / 4 for i in range(16))
FASTER = tuple(1 + i for i in range(16))
LONG = {
    "extra": [("add_rope_scaling_orig_ctx_len", 2048)],
    "extra_tensors": {"rope_factors_short.weight": SLOWER, "rope_factors_long.weight": FASTER},
}
GEMMA = {"norms_after": True, "activation": "gelu_tanh", "embedding_scale": 16.0, "epsilon": 1e-6, "width": 256}
GEMMA2_KEYS = [("add_sliding_window", 16), ("add_attn_logit_softcapping", 2.0), ("add_final_logit_softcapping", 3.0)]
WIDE_WINDOW = [("add_sliding_window", 4096)]
NEOX = {"layer_norm": True, "activation": "gelu", "gated": False, "fused": True, "tied": False, "turned": 8, "key_heads": 4}


def small(family, types=(Type.F32,), **switches):
    return Model(family, list(types), **{"width": 128, "inner": 256, "head": 32, **switches})


def scaling(kind, factor, original=None):
    keys = [("add_rope_scaling_type", models.gguf.RopeScalingType[kind]), ("add_rope_scaling_factor", factor)]
    return keys + ([("add_rope_scaling_orig_ctx_len", original)] if original else [])


MODELS = {
    "llama": Model("llama", BITS4, pairs=True, epsilon=1e-6),
    "llama_floats": Model("llama", [Type.F32, Type.F16, Type.BF16], pairs=True, turned=32, tied=False),
    "qwen2": Model("qwen2", BITS8, biases=True, base=1e6),
    "qwen3": Model("qwen3", [Type.Q8_0, Type.Q4_0], head_norms=True, head=32, tied=False),
    "smollm3": Model("smollm3", [Type.Q4_K, Type.Q6_K], pairs=True, no_rope_every=4, layers=4),
    "linear": small("llama", pairs=True, factor=4.0, extra=scaling("LINEAR", 4.0)),
    # A factor for each pair, as Llama 3.1 has them.
    "llama3": small("llama", pairs=True, factors=SLOWER, extra_tensors={"rope_freqs.weight": SLOWER}),
    "yarn": small("qwen3", head_norms=True, factor=4.0, yarn=128, magnitude=0.1 * np.log(4) + 1, extra=scaling("YARN", 4.0, 128)),
    # Windows below the length of the text, scores and logits large enough to be capped.
    "gemma2": small("gemma2", BITS8, **GEMMA, score_cap=2.0, logit_cap=3.0, window=16, windowed=(True, False), extra=GEMMA2_KEYS),
    "gemma2_bf16": small("gemma2", [Type.BF16], **{**GEMMA, "width": 96, "embedding_scale": 9.8125}, score_cap=50.0, logit_cap=30.0, extra=WIDE_WINDOW),
    "gemma3": small("gemma3", BITS4, **GEMMA, head_norms=True, layers=6, base=1e6, window_base=10000.0, window=16,
                    windowed=(True,) * 5 + (False,), factor=8.0, extra=[("add_sliding_window", 16), *scaling("LINEAR", 8.0)]),
    "gemma3_pattern": small("gemma3", **GEMMA, head_norms=True, base=1e6, window_base=500.0, window=16, windowed=(False, True),
                            extra=[("add_sliding_window", 16), ("add_sliding_window_pattern", [False, True]), ("add_rope_freq_base_swa", 500.0)]),
    "phi3": small("phi3", [Type.Q4_0, Type.Q6_K], width=256, fused=True, tied=False, turned=16, window=20, windowed=(True, True),
                  extra=[("add_sliding_window", 20), ("add_rope_scaling_orig_ctx_len", 512)]),
    # Up to the original positions the short factors; beyond, the long ones (LongRoPE).
    "longrope": small("phi3", fused=True, context=4096, factors=SLOWER, magnitude=np.sqrt(1 + np.log(2) / np.log(2048)), **LONG),
    "gpt2": small("gpt2", BITS8, layer_norm=True, activation="gelu_tanh", gated=False, fused=True, position_embedding=True, key_heads=4),
    "gptneox": small("gptneox", BITS4, **NEOX, parallel=True, extra=[("add_parallel_residual", True)]),
    "gptneox_serial": small("gptneox", **NEOX, extra=[("add_parallel_residual", False)]),
}
# What the tests of switches take in place of each.
OFF = {"no_rope_every": 0, "score_cap": 0, "logit_cap": 0, "windowed": (), "window_base": 0, "factor": 1, "yarn": 0, "factors": (), "magnitude": 1,
       "parallel": False, "activation": "gelu_tanh", "embedding_scale": 1, "base": 1e4, "norms_after": False, "head_norms": False}
TOLERANCE = 1e-4  # of the largest logit
PROMPT = "A text of some thirty bytes, twice"


class Numbers(ToolTest):
    def build(self, name, *options):
        path = self.folder / f"{name}.gguf"
        weights = models.write(MODELS[name], path)
        engine = self.folder / f"{name}.tenon"
        target = () if "--target" in options else ("--target", "cpu:native")
        self.tool("compile", path, "-o", engine, "--pages", 0, *target, *options)
        return engine, weights

    def logits(self, engine, tokens, *options):
        """Of all tokens, which each run reads; it gives logits of 64."""
        count, parts = len(tokens), []
        for first in range(0, count, 64):
            rows = np.arange(first, min(first + 64, count))
            np.savez(self.folder / "in.npz", tokens=np.array(tokens), start=np.array([0]), rows=rows, context=np.arange(count))
            self.tool("run", engine, "--inputs", self.folder / "in.npz", "-o", self.folder / "out.npz", *options)
            parts.append(np.load(self.folder / "out.npz")["logits"])
        return np.concatenate(parts)

    def greedy(self, model, weights, tokens, count):
        """What the reference goes on with; ends where a choice is too close to be told."""
        tokens, start = list(tokens), len(tokens)
        for _ in range(count):
            last = models.logits(model, weights, tokens)[-1]
            order = np.argsort(-last)
            if last[order[0]] - last[order[1]] < 10 * TOLERANCE * np.abs(last).max():
                break
            tokens.append(int(order[0]))
            if tokens[-1] == 257:
                break
        return tokens[start:]

    def check(self, name):
        model = MODELS[name]
        engine, weights = self.build(name)
        tokens = list(np.random.default_rng(1).integers(0, 256, 70))
        expected = models.logits(model, weights, tokens)
        error = np.abs(self.logits(engine, tokens) - expected).max() / np.abs(expected).max()
        self.assertLess(error, TOLERANCE)
        # Token by token over the cache, behind a prompt of more than one step.
        expected = self.greedy(model, weights, PROMPT.encode(), 12)
        answer = json.loads(self.tool("generate", engine, PROMPT, "--raw", "--json", "--max-tokens", "12"))
        self.assertEqual(list(PROMPT.encode()), answer["prompt_tokens"])
        self.assertEqual(expected, answer["answers"][0]["tokens"][: len(expected)])
        self.assertGreater(len(expected), 3)
        return engine, weights

    def test_llama(self):
        engine, weights = self.check("llama")
        # The detector: the same weights, otherwise turned, are another model.
        other = dataclasses.replace(MODELS["llama"], pairs=False)
        tokens = [1, 2, 3, 4, 5]
        expected = models.logits(other, weights, tokens)
        self.assertGreater(np.abs(self.logits(engine, tokens) - expected).max() / np.abs(expected).max(), 10 * TOLERANCE)

    def test_switches(self):
        """Each switch of a model shows in its logits: an engine without it would be found."""
        tokens = list(np.random.default_rng(1).integers(0, 256, 70))
        for name, model in MODELS.items():
            weights = models.write(model, self.folder / "switches.gguf")
            expected = models.logits(model, weights, tokens)
            for switch, off in OFF.items():
                if getattr(model, switch) == off or (switch == "activation" and model.gated and model.activation == "silu"):
                    continue
                other = models.logits(dataclasses.replace(model, **{switch: off}), weights, tokens)
                self.assertGreater(np.abs(other - expected).max() / np.abs(expected).max(), TOLERANCE, (name, switch))

    def test_int8_activations(self):
        """What `explain precision` measures on the chat template is what the two variants give there."""
        usable = [level["level"] for level in json.loads(self.tool("doctor", "--json"))["levels"] if level["usable"]]
        rounding = next((level for level in ("avx512-vnni", "avx-vnni") if level in usable), None)
        if not rounding:
            self.skipTest("this machine has no VNNI")
        for name in ("llama", "qwen2"):
            engine, weights = self.build(name, "--target", f"cpu:avx2,{rounding}", "--allow", "int8-activations")
            tokens = list(models.CHAT.encode())
            exact, found = (self.logits(engine, tokens, "--variant", level)[:-1].astype(np.float64) for level in ("avx2", rounding))
            expected = models.logits(MODELS[name], weights, tokens)[:-1]
            self.assertLess(np.abs(exact - expected).max(), TOLERANCE * np.abs(expected).max())
            difference = np.abs(found - exact).max() / np.abs(exact).max()
            self.assertTrue(TOLERANCE < difference < 0.1, difference)
            logs = [logits - np.log(np.exp(logits).sum(-1, keepdims=True)) for logits in (exact, found)]
            cost = json.loads(self.tool("explain", "precision", engine, "--json"))["int8_activations"]
            self.assertEqual((cost["variant"], cost["beside"], cost["tokens"]), (rounding, "x86-64-v3", len(tokens) - 1))
            np.testing.assert_allclose(cost["largest_difference"], difference, rtol=0.01)
            np.testing.assert_allclose(cost["kl_divergence"]["mean"], (np.exp(logs[0]) * (logs[0] - logs[1])).sum(-1).mean(), rtol=0.01)
            np.testing.assert_allclose(cost["same_top_token"]["mean"], (exact.argmax(-1) == found.argmax(-1)).mean(), atol=0.02)
        options = ("--target", f"cpu:avx2,{rounding}", "--allow", "int8-activations")
        # Both variants read the same weights.
        self.tool("compile", self.folder / "qwen2.gguf", "-o", self.folder / "exact.tenon", *options[:2])
        sizes = [json.loads(self.tool("inspect", self.folder / f"{each}.tenon", "--json"))["weights_bytes"] for each in ("qwen2", "exact")]
        self.assertEqual(*sizes)
        # Of a file without a template, entries of its vocabulary.
        models.write(dataclasses.replace(MODELS["llama"], template=""), self.folder / "base.gguf")
        self.tool("compile", self.folder / "base.gguf", "-o", self.folder / "base.tenon", *options)
        cost = json.loads(self.tool("explain", "precision", self.folder / "base.tenon", "--json"))["int8_activations"]
        self.assertGreater(cost["tokens"], 10)
        self.assertGreater(cost["largest_difference"], TOLERANCE)
        alone = self.folder / "alone.tenon"
        self.tool("compile", self.folder / "llama.gguf", "-o", alone, "--target", f"cpu:{rounding}", "--allow", "int8-activations")
        self.assertIn("what it costs in logits is not known", self.tool("explain", "precision", alone))

    def test_longrope_beyond(self):
        """An engine of more positions than the original ones."""
        engine, weights = self.build("longrope", "--shape", "context:[1..4096]")
        model = dataclasses.replace(MODELS["longrope"], factors=FASTER)
        tokens = list(range(40))
        expected = models.logits(model, weights, tokens)
        self.assertLess(np.abs(self.logits(engine, tokens) - expected).max() / np.abs(expected).max(), TOLERANCE)

    def test_parts(self):
        """A model that is split over files, from the first of them."""
        model = MODELS["llama3"]
        weights = models.write(model, self.folder / "parts.gguf", tensors_of_part=9)
        first, second, *_ = parts = sorted(self.folder.glob("parts-*.gguf"))
        self.assertEqual(3, len(parts))
        self.tool("compile", first, "-o", self.folder / "parts.tenon", "--pages", 0)
        tokens = [1, 2, 3, 4, 5]
        expected = models.logits(model, weights, tokens)
        self.assertLess(np.abs(self.logits(self.folder / "parts.tenon", tokens) - expected).max() / np.abs(expected).max(), TOLERANCE)
        self.assertIn("it is part 2 of 3", self.refusal(second))
        third = parts[2].read_bytes()
        parts[2].write_bytes(second.read_bytes())
        self.assertIn(f"'{parts[2]}' is not part 3 of 3", self.refusal(first))
        parts[2].write_bytes(third)
        second.rename(self.folder / "elsewhere.gguf")
        refusal = self.refusal(first)
        self.assertIn("part 2 of 3", refusal)
        self.assertIn(str(second), refusal)

    def refusal(self, path):
        done = self.run_tool("check", path)
        self.assertNotEqual(0, done.returncode)
        return done.stdout + done.stderr

    def test_unknown(self):
        """What may change numbers and is not known is named, all of it in one report."""
        keys = [("add_expert_count", 4), ("add_sliding_window", 16), ("add_rope_scaling_attn_factors", 2.0), *scaling("YARN", 4.0, 128)]
        models.write(small("llama", pairs=True, extra=keys, extra_tensors={"blk.0.other.weight": [1.0]}), self.folder / "unknown.gguf")
        refusal = self.refusal(self.folder / "unknown.gguf")
        for name in ("llama.expert_count", "llama.attention.sliding_window", "llama.rope.scaling.attn_factor", "blk.0.other.weight"):
            self.assertIn(name, refusal)
        self.assertNotIn("original_context_length", refusal)


def add(name):
    setattr(Numbers, f"test_{name}", lambda self: self.check(name) and None)


for each in MODELS.keys() - {"llama"}:
    add(each)

if __name__ == "__main__":
    unittest.main()
