"""Steps over pages: `paged.py STEPS`, a program made of steps.cpp. Logits of seeded models of each family beside float64, and those of sequences
that share steps beside those that each has alone, whose bits are equal."""

import json
import subprocess
import sys

import models
import numpy as np
from logits import MODELS, TOLERANCE
from pages import LENGTHS, PAGE, PAGES, Pages, PagesTest, alone, mixed

STEPS = sys.argv.pop()


class Paged(PagesTest):
    program = STEPS

    def check(self, name, *options, tolerance=TOLERANCE):
        engine, table, weights = self.build(name, *options)
        random = np.random.default_rng(1)
        tokens = {sequence: random.integers(0, 256, length) for sequence, length in enumerate(LENGTHS)}
        found = self.run_steps(engine, table, alone(tokens))
        for sequence, own in tokens.items():
            expected = models.logits(MODELS[name], weights, list(own))
            self.assertLess(np.abs(found[sequence] - expected).max(), tolerance * np.abs(expected).max(), sequence)
        for seed in (1, 2):
            together = self.run_steps(engine, table, mixed(tokens, seed), seed)
            for sequence in tokens:
                same = (found[sequence].view(np.uint32) == together[sequence].view(np.uint32)).all(-1)
                self.assertTrue(same.all(), (sequence, np.flatnonzero(~same)))


    def test_precisions(self):
        for precision, tolerance in (("bf16", 0.05), ("fp16", 0.01)):
            self.check("llama_floats", "--precision", precision, tolerance=tolerance)
        self.check("llama", "--precision", "bf16", tolerance=0.05)  # whose weights are blocks in the file

    def test_sessions_of_several_sizes(self):
        """One engine: where its pages are and how many there are changes no bit."""
        engine, table, _ = self.build("llama3", pages=500)
        tokens = {sequence: np.random.default_rng(1).integers(0, 256, length) for sequence, length in enumerate(LENGTHS)}
        few, many = (self.run_steps(engine, table, mixed(tokens, 1), 2, count) for count in (6, 500))
        for sequence in tokens:
            self.assertTrue((few[sequence].view(np.uint32) == many[sequence].view(np.uint32)).all(), sequence)
        (self.folder / "steps.json").write_text(json.dumps({"engine": str(engine), "pages": 501, "steps": []}))
        done = subprocess.run([STEPS, self.folder / "steps.json", self.folder / "logits"], capture_output=True, text=True)
        self.assertIn("'pages' of the session is to be 501, but the engine accepts 1 to 500", done.stderr)

    def test_refusals(self):
        """A step whose numbers contradict the engine's sizes runs nothing."""
        engine, table, _ = self.build("llama3")
        for name, value in (("slots", [PAGES * PAGE]), ("pages", [PAGES] * table), ("starts", [0, 2]), ("lengths", [0]), ("rows", [1]),
                            ("tokens", [-1]), ("positions", [table * PAGE]), ("tokens", [1, 2])):
            step = Pages(table, 0).step([(0, [1])]) | {name: value}
            (self.folder / "steps.json").write_text(json.dumps({"engine": str(engine), "steps": [step]}))
            done = subprocess.run([STEPS, self.folder / "steps.json", self.folder / "logits"], capture_output=True, text=True)
            self.assertEqual(1, done.returncode, name)
            self.assertIn("TN0105", done.stderr)
        static = self.folder / "static.tenon"
        self.tool("compile", self.folder / "llama3.gguf", "-o", static, "--target", "cpu:native")
        (self.folder / "steps.json").write_text(json.dumps({"engine": str(static), "steps": []}))
        done = subprocess.run([STEPS, self.folder / "steps.json", self.folder / "logits"], capture_output=True, text=True)
        self.assertIn("TN0615", done.stderr)

    def test_generate(self):
        """The same text as an engine without pages writes."""
        engine, *_ = self.build("llama3")
        static = self.folder / "static.tenon"
        self.tool("compile", self.folder / "llama3.gguf", "-o", static, "--target", "cpu:native")
        texts = [json.loads(self.tool("generate", path, "A text", "--raw", "--json", "--max-tokens", "40"))["answers"][0]["tokens"] for path in (engine, static)]
        self.assertEqual(*texts)
        self.assertGreater(len(texts[0]), 10)


def test_of(name):
    return lambda self: self.check(name)


for each in MODELS:
    setattr(Paged, f"test_{each}", test_of(each))

if __name__ == "__main__":
    import unittest

    unittest.main()
