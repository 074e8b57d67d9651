"""The logits of seeded models of each family, with weights of each type, beside float64; and the loop of `tenon generate` over them."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import models
import numpy as np
from models import Model, Type

TENON = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "bin/tenon"
BITS4 = [Type.Q4_0, Type.Q4_1, Type.Q4_K, Type.IQ4_NL]
BITS8 = [Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q5_K, Type.Q6_K]
MODELS = {
    "llama": Model("llama", BITS4, pairs=True, epsilon=1e-6),
    "llama_floats": Model("llama", [Type.F32, Type.F16, Type.BF16], pairs=True, turned=32, tied=False),
    "qwen2": Model("qwen2", BITS8, biases=True, base=1e6),
    "qwen3": Model("qwen3", [Type.Q8_0, Type.Q4_0], head_norms=True, head=32, tied=False),
    "smollm3": Model("smollm3", [Type.Q4_K, Type.Q6_K], pairs=True, no_rope_every=2, layers=4),
}
# SmolLM3 leaves out every fourth layer's rotary embeddings.
MODELS["smollm3"].no_rope_every = 4
TOLERANCE = 1e-4  # of the largest logit
PROMPT = "A text of some thirty bytes, twice"


class Numbers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.environment = {**os.environ, "XDG_CACHE_HOME": str(cls.folder / "cache")}

    def tool(self, *arguments):
        done = subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True, env=self.environment, timeout=300)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def build(self, name):
        path = self.folder / f"{name}.gguf"
        weights = models.write(MODELS[name], path)
        engine = self.folder / f"{name}.tenon"
        self.tool("compile", path, "-o", engine, "--target", "cpu:native")
        return engine, weights

    def logits(self, engine, tokens):
        """Of all tokens, by one run."""
        count = len(tokens)
        np.savez(self.folder / "in.npz", tokens=np.array(tokens), start=np.array([0]), rows=np.arange(count), context=np.arange(count))
        self.tool("run", engine, "--inputs", self.folder / "in.npz", "-o", self.folder / "out.npz")
        return np.load(self.folder / "out.npz")["logits"]

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
        other = Model(**{**vars(MODELS["llama"]), "pairs": False})
        tokens = [1, 2, 3, 4, 5]
        expected = models.logits(other, weights, tokens)
        self.assertGreater(np.abs(self.logits(engine, tokens) - expected).max() / np.abs(expected).max(), 10 * TOLERANCE)

    def test_llama_floats(self):
        self.check("llama_floats")

    def test_qwen2(self):
        self.check("qwen2")

    def test_qwen3(self):
        self.check("qwen3")

    def test_smollm3(self):
        self.check("smollm3")


if __name__ == "__main__":
    unittest.main()
