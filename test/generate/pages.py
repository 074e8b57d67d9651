"""Steps over pages for tests: how sequences share them, and what an engine gives of each, by the program made of steps.cpp."""

import json
import subprocess

import models
import numpy as np
from logits import MODELS
from tool import ToolTest

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


class PagesTest(ToolTest):
    program = None  # made of steps.cpp
    target = "cpu:native"

    def build(self, name, *options, pages=PAGES):
        path, engine = self.folder / f"{name}.gguf", self.folder / f"{name}.tenon"
        weights = models.write(MODELS[name], path)
        self.tool("compile", path, "-o", engine, "--pages", pages, "--shape", "rows:[1..512]", "--target", self.target, *options)
        inputs = json.loads(self.tool("inspect", engine, "--json"))["inputs"]
        table = next(port["type"] for port in inputs if port["name"] == "pages").strip("]").split()[-1]
        return engine, int(table), weights

    def run_steps(self, engine, table, steps, seed=0, count=PAGES):
        """The logits of each sequence's tokens in their order, in a session of so many pages."""
        pages = Pages(table, seed, count)
        test = {"engine": str(engine), "threads": 2, "pages": count, "steps": [pages.step(parts) for parts in steps]}
        (self.folder / "steps.json").write_text(json.dumps(test))
        done = subprocess.run([self.program, self.folder / "steps.json", self.folder / "logits"], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        rows, found = np.fromfile(self.folder / "logits", np.float32).reshape(-1, models.VOCABULARY), {}
        for parts in steps:
            for sequence, tokens in parts:
                found.setdefault(sequence, []).append(rows[: len(tokens)])
                rows = rows[len(tokens) :]
        return {sequence: np.concatenate(parts) for sequence, parts in found.items()}
