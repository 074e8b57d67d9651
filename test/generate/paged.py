"""Steps over pages: `paged.py STEPS`, a program made of steps.cpp. Logits of seeded models of each family beside float64, and those of sequences
that share steps beside those that each has alone, whose bits are equal."""

import json
import subprocess
import sys

import models
import numpy as np
from logits import MODELS, TOLERANCE
from tool import ToolTest

STEPS = sys.argv.pop()
PAGE, PAGES = 32, 24
LENGTHS = (70, 45, 9)
# As many decode steps as the longest sequence has behind its prompt.
DECODED = 4


class Pages:
    """The page tables of sequences, with pages drawn in any order."""

    def __init__(self, table, seed, count=PAGES):
        self.table = table
        self.free = list(np.random.default_rng(seed).permutation(count))
        self.own, self.lengths = {}, {}

    def step(self, parts):
        """Of some (sequence, its tokens): their vectors, with the logits of all."""
        step = {name: [] for name in ("tokens", "positions", "slots", "lengths", "pages")} | {"starts": [0]}
        for sequence, tokens in parts:
            pages, start = self.own.setdefault(sequence, []), self.lengths.get(sequence, 0)
            end = self.lengths[sequence] = start + len(tokens)
            while len(pages) * PAGE < end:
                pages.append(int(self.free.pop()))
            step["tokens"] += [int(token) for token in tokens]
            step["positions"] += range(start, end)
            step["slots"] += [pages[p // PAGE] * PAGE + p % PAGE for p in range(start, end)]
            step["starts"].append(len(step["tokens"]))
            step["lengths"].append(end)
            step["pages"] += (pages + [0] * self.table)[: self.table]
        return step | {"rows": list(range(len(step["tokens"])))}


def alone(tokens):
    return [[(sequence, own)] for sequence, own in tokens.items()]


def mixed(tokens, seed):
    """Chunks of all sequences in one step each, in any order, then token by token; one sequence begins later."""
    random, done, steps = np.random.default_rng(seed), dict.fromkeys(tokens, 0), []
    while any(done[s] < len(own) for s, own in tokens.items()):
        parts = []
        for sequence in random.permutation(list(tokens)):
            left = len(tokens[sequence]) - done[sequence]
            if left == 0 or (sequence == 1 and not steps):
                continue
            count = 1 if left <= DECODED else min(left - DECODED, int(random.integers(1, 30)))
            parts.append((int(sequence), tokens[sequence][done[sequence] : done[sequence] + count]))
            done[sequence] += count
        steps.append(parts)
    return steps


class Paged(ToolTest):
    def build(self, name, *options, pages=PAGES):
        path, engine = self.folder / f"{name}.gguf", self.folder / f"{name}.tenon"
        weights = models.write(MODELS[name], path)
        self.tool("compile", path, "-o", engine, "--pages", pages, "--shape", "rows:[1..512]", "--target", "cpu:native", *options)
        inputs = json.loads(self.tool("inspect", engine, "--json"))["inputs"]
        table = next(port["type"] for port in inputs if port["name"] == "pages").strip("]").split()[-1]
        return engine, int(table), weights

    def run_steps(self, engine, table, steps, seed=0, count=PAGES):
        """The logits of each sequence's tokens in their order, in a session of so many pages."""
        pages = Pages(table, seed, count)
        test = {"engine": str(engine), "threads": 2, "pages": count, "steps": [pages.step(parts) for parts in steps]}
        (self.folder / "steps.json").write_text(json.dumps(test))
        done = subprocess.run([STEPS, self.folder / "steps.json", self.folder / "logits"], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        rows, found = np.fromfile(self.folder / "logits", np.float32).reshape(-1, models.VOCABULARY), {}
        for parts in steps:
            for sequence, tokens in parts:
                found.setdefault(sequence, []).append(rows[: len(tokens)])
                rows = rows[len(tokens) :]
        return {sequence: np.concatenate(parts) for sequence, parts in found.items()}

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

    def test_default(self):
        """Engines for CPUs have pages where nobody says otherwise; each pass keeps their numbers, and a seeded step runs."""
        path, engine = self.folder / "llama3.gguf", self.folder / "default.tenon"
        models.write(MODELS["llama3"], path)
        self.tool("compile", path, "-o", engine, "--target", "cpu:native", "--verify")
        language = json.loads(self.tool("inspect", engine, "--json"))["language"]
        self.assertEqual((PAGE, "slots"), (language["page"], language["ports"]["slots"]))
        ran = json.loads(self.tool("run", engine, "--shape", "tokens:9", "--shape", "lengths:3", "--session", "pages=7", "--json"))
        self.assertEqual([9], ran["inputs"][1]["dims"])
        self.tool("compile", path, "-o", engine, "--target", "cpu:native", "--precision", "bf16")
        self.assertNotIn("page", json.loads(self.tool("inspect", engine, "--json"))["language"])

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
        self.tool("compile", self.folder / "llama3.gguf", "-o", static, "--target", "cpu:native", "--pages", 0)
        (self.folder / "steps.json").write_text(json.dumps({"engine": str(static), "steps": []}))
        done = subprocess.run([STEPS, self.folder / "steps.json", self.folder / "logits"], capture_output=True, text=True)
        self.assertIn("TN0615", done.stderr)
        done = self.run_tool("compile", self.folder / "llama3.gguf", "-o", static, "--target", "cuda:sm_90", "--pages", PAGES)
        self.assertIn("GPUs have no kernels of pages", done.stderr)

    def test_generate(self):
        """The same text as an engine without pages writes."""
        engine, *_ = self.build("llama3")
        static = self.folder / "static.tenon"
        self.tool("compile", self.folder / "llama3.gguf", "-o", static, "--target", "cpu:native", "--pages", 0)
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
