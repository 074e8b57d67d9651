"""Each family on a GPU, from GGUF files and from folders, in FP32 and in bf16, beside float64. Skipped without one."""

import json
import unittest

import folders
import logits
import models
import numpy as np
from tool import ToolTest

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
            self.tool("compile", path, "-o", engine, "--target", "cuda", "--precision", precision)
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


for each in logits.MODELS:
    setattr(Files, f"test_{each}", lambda self, name=each: self.check_file(name))
for each in folders.FORMS:
    setattr(Folders, f"test_{each}", lambda self, name=each: self.check_folder(name))

if __name__ == "__main__":
    unittest.main()
