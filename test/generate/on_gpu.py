"""Each family on a GPU, from GGUF files and from folders, in FP32 and in bf16, beside float64; over pages by the program made of steps.cpp, if that
is given. Skipped without one."""

import json
import os
import sys
import unittest

import folders
import logits
import models
import numpy as np
from pages import LENGTHS, PagesTest, alone, mixed
from tool import ToolTest

# Around the ends of parts of keys, and many tokens in one step.
LONG_LENGTHS = (500, 129, 64)
STEPS = sys.argv.pop() if os.access(sys.argv[-1], os.X_OK) and len(sys.argv) > 1 else None
# How far bf16 may be from float64, beside a reference that rounds to bf16: their roundings differ, and sharp softmaxes widen that.
OF_ROUNDING = 3


def root_mean_square(x):
    return np.sqrt(np.mean(x * x))


class OnGpu(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not json.loads(cls().tool("doctor", "--json"))["gpu"]["devices"]:
            raise unittest.SkipTest("this machine has no GPU")

    def check(self, path, model, weights, tokens, counts):
        """The engine in FP32, whose logits and those of one in bf16 were near float64's."""
        expected, rounded = models.logits(model, weights, tokens), models.logits(model, weights, tokens, models.bfloat16)
        rounding = root_mean_square(rounded - expected)
        for precision in ("bf16", "keep"):
            engine = self.folder / f"{path.stem}.{precision}.tenon"
            self.tool("compile", path, "-o", engine, "--target", "cuda", "--pages", 0, "--precision", precision)
            # One row, as many as the kernels of few rows take, and more: each has kernels of its own.
            for count in counts:
                with self.subTest(precision=precision, tokens=count):
                    error = logits.Numbers.logits(self, engine, tokens[:count]) - expected[:count]
                    if precision == "bf16":
                        self.assertLess(root_mean_square(error), OF_ROUNDING * rounding)
                    else:
                        self.assertLess(np.abs(error).max(), logits.TOLERANCE * np.abs(expected).max())
        return engine


class Files(OnGpu):
    def check_file(self, name):
        model = logits.MODELS[name]
        path = self.folder / f"{name}.gguf"
        weights = models.write(model, path)
        tokens = list(np.random.default_rng(1).integers(0, 256, 70))
        engine = self.check(path, model, weights, tokens, (1, 5, 16, 33, 70))
        # Token by token over the cache, behind a prompt of more than one step.
        expected = logits.Numbers.greedy(self, model, weights, logits.PROMPT.encode(), 12)
        answer = json.loads(self.tool("generate", engine, logits.PROMPT, "--raw", "--json", "--max-tokens", "12"))
        self.assertEqual(expected, answer["answers"][0]["tokens"][: len(expected)])


class Folders(OnGpu):
    write = folders.Folders.write

    def check_folder(self, name):
        path, weights = self.write(name, **folders.FORMS[name])
        tokens = list(np.random.default_rng(1).integers(0, 256, 40))
        self.check(path, folders.MODELS[name], weights, tokens, (1, 40))


class OnPages(OnGpu, PagesTest):
    program, target = STEPS, "cuda"

    def check_pages(self, name):
        """Sequences alone, then in steps that they share: each kernel of attention, and chunks of prompts beside single tokens."""
        if not STEPS:
            self.skipTest("no program that runs steps is given")
        model, random = logits.MODELS[name], np.random.default_rng(1)
        tokens = {sequence: random.integers(0, 256, length) for sequence, length in enumerate(LENGTHS)}
        for precision in ("bf16", "keep"):
            engine, table, weights = self.build(name, "--precision", precision)
            expected = {sequence: models.logits(model, weights, list(own)) for sequence, own in tokens.items()}
            rounded = {sequence: models.logits(model, weights, list(own), models.bfloat16) for sequence, own in tokens.items()}
            for seed, steps in ((0, alone(tokens)), (1, mixed(tokens, 1)), (2, mixed(tokens, 2))):
                found = self.run_steps(engine, table, steps, seed)
                for sequence in tokens:
                    with self.subTest(precision=precision, seed=seed, sequence=sequence):
                        error = found[sequence] - expected[sequence]
                        if precision == "bf16":
                            rounding = root_mean_square(rounded[sequence] - expected[sequence])
                            self.assertLess(root_mean_square(error), OF_ROUNDING * rounding)
                        else:
                            self.assertLess(np.abs(error).max(), logits.TOLERANCE * np.abs(expected[sequence]).max())

    def check_invariant(self, name, lengths=LENGTHS, precisions=("bf16", "keep")):
        """With --invariant a token has the bits that it has alone, by kernels of few rows and of many."""
        if not STEPS:
            self.skipTest("no program that runs steps is given")
        random = np.random.default_rng(1)
        tokens = {sequence: random.integers(0, 256, length) for sequence, length in enumerate(lengths)}
        for precision in precisions:
            engine, table, _ = self.build(name, "--precision", precision, "--invariant")
            found = self.run_steps(engine, table, alone(tokens))
            for seed in (1, 2):
                together = self.run_steps(engine, table, mixed(tokens, seed), seed)
                for sequence in tokens:
                    with self.subTest(precision=precision, seed=seed, sequence=sequence):
                        same = (found[sequence].view(np.uint32) == together[sequence].view(np.uint32)).all(-1)
                        self.assertTrue(same.all(), np.flatnonzero(~same))

    def test_invariant_long(self):
        """Of several parts of keys. Heads of 64 have wgmma for many tokens in one step."""
        for name in ("llama", "gemma2"):
            self.check_invariant(name, LONG_LENGTHS, ("bf16", "fp16"))


for each in logits.MODELS:
    setattr(Files, f"test_{each}", lambda self, name=each: self.check_file(name))
    setattr(OnPages, f"test_{each}", lambda self, name=each: self.check_pages(name))
    setattr(OnPages, f"test_{each}_invariant", lambda self, name=each: self.check_invariant(name))
for each in folders.FORMS:
    setattr(Folders, f"test_{each}", lambda self, name=each: self.check_folder(name))

if __name__ == "__main__":
    unittest.main()
