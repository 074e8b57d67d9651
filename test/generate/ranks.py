"""`ranks.py STEPS`: language models that are cut for two and four ranks of a CPU, `STEPS` being a program made of steps.cpp. Their logits beside
float64, with pages and without, also those of blocks of few bits; texts; what is said of such an engine."""

import json
import sys

import logits
import models
import numpy as np
from logits import MODELS, PROMPT, TOLERANCE
from pages import LENGTHS, PagesTest, alone, mixed

STEPS = sys.argv.pop()
NEAR = 1e-4  # of the largest logit: sums of f32 in parts


class Ranks(PagesTest):
    program = STEPS

    def pages(self, name, ranks, *options, tolerance=TOLERANCE):
        """Over pages: as float64, and as one rank on the same steps, with the same bits beside others as alone."""
        engine, table, weights = self.build(name, "--tp", ranks, *options)
        placement = json.loads(self.tool("explain", "placement", engine, "--json"))["instructions"]
        self.assertIn("collective", {each["kind"] for each in placement}, name)
        random = np.random.default_rng(1)
        tokens = {sequence: random.integers(0, 256, length) for sequence, length in enumerate(LENGTHS)}
        found = self.run_steps(engine, table, alone(tokens))
        for sequence, own in tokens.items():
            expected = models.logits(MODELS[name], weights, list(own))
            self.assertLess(np.abs(found[sequence] - expected).max(), tolerance * np.abs(expected).max(), (name, ranks, sequence))
        together = self.run_steps(engine, table, mixed(tokens, 1), 1)
        for sequence in tokens:
            self.assertTrue((found[sequence].view(np.uint32) == together[sequence].view(np.uint32)).all(), (name, ranks, sequence))

    def test_pages(self):
        for name in MODELS:
            for ranks in ("2", "4"):
                with self.subTest(name, ranks=ranks):
                    self.pages(name, ranks, tolerance=0.05 if "bf16" in name else TOLERANCE)


if __name__ == "__main__":
    import unittest

    unittest.main()
