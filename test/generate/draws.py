"""Engines with pages on a GPU draw tokens themselves: the same as the host draws from their logits. Skipped without a GPU."""

import json
import unittest

import logits
import models
import numpy as np
from on_gpu import OnGpu

# What a request may ask of a draw, apart from its seed.
OPTIONS = [[], ["--temperature", 1], ["--temperature", 0.8, "--top-p", 0.9], ["--temperature", 1.2, "--top-k", 20, "--min-p", 0.02]]
# A bias has the host draw, from logits that it fetches.
ON_HOST = ["--logit-bias", "0=0"]


class Draws(OnGpu):
    def answer(self, engine, *options):
        options = (logits.PROMPT, "--raw", "--json", "--logprobs", "--max-tokens", 40, *options)
        return json.loads(self.tool("generate", engine, *options))["answers"][0]

    def check_draws(self, name):
        path, engine = self.folder / f"{name}.gguf", self.folder / f"{name}.tenon"
        weights = models.write(logits.MODELS[name], path)
        self.tool("compile", path, "-o", engine, "--target", "cuda", "--pages", 64)
        expected = logits.Numbers.greedy(self, logits.MODELS[name], weights, logits.PROMPT.encode(), 12)
        self.assertEqual(expected, self.answer(engine)["tokens"][: len(expected)])
        for options in OPTIONS:
            for seed in range(3):
                with self.subTest(options=options, seed=seed):
                    drawn, host = (self.answer(engine, *options, "--seed", seed, *more) for more in ([], ON_HOST))
                    self.assertEqual(host["tokens"], drawn["tokens"])
                    np.testing.assert_allclose(drawn["logprobs"], host["logprobs"], atol=1e-5)


for each in ("llama3", "gemma2", "phi3"):
    setattr(Draws, f"test_{each}", lambda self, name=each: self.check_draws(name))

if __name__ == "__main__":
    unittest.main()
