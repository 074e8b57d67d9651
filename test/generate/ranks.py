"""`ranks.py STEPS EXAMPLE`: language models that are cut for two and four ranks of a CPU; the programs are made of steps.cpp and examples/generate.c. Their logits beside
float64, with pages and without, also those of blocks of few bits; texts; what is said of such an engine."""

import dataclasses
import json
import os
import subprocess
import sys
import unittest

import folders
import logits
import models
import numpy as np
from logits import MODELS, PROMPT, TOLERANCE
from pages import LENGTHS, PagesTest, alone, mixed

EXAMPLE, STEPS = sys.argv.pop(), sys.argv.pop()
ALL = os.environ.get("TENON_RANKS") == "all"  # a campaign: TENON_RANKS=all


# Of families whose weights are fused, or stored in blocks, and of others.
THREE = {f"{name}_12": dataclasses.replace(MODELS[name], heads=12, key_heads=12 if MODELS[name].fused and name != "phi3" else 6, head=32, inner=768, turned=min(MODELS[name].turned, 32))
         for name in ("llama", "qwen2", "smollm3", "linear", "gemma2", "phi3", "gpt2", "gptneox", "gptneox_serial")}  # fmt: skip
MODELS |= THREE if ALL else {}


class Ranks(PagesTest):
    program = STEPS

    def pages(self, name, ranks, *options, tolerance=TOLERANCE):
        """Over pages: as float64, and as one rank on the same steps, with the same bits beside others as alone."""
        engine, table, weights = self.build(name, "--tp", ranks, *options)
        placement = json.loads(self.tool("explain", "placement", engine, "--json"))["instructions"]
        self.assertIn("collective", {each["kind"] for each in placement}, name)
        random = np.random.default_rng(1)
        tokens = {sequence: random.integers(0, 256, length) for sequence, length in enumerate(LENGTHS)}
        found, worst = self.run_steps(engine, table, alone(tokens)), 0
        for sequence, own in tokens.items():
            expected = models.logits(MODELS[name], weights, list(own))
            worst = max(worst, np.abs(found[sequence] - expected).max() / np.abs(expected).max())
        self.assertLess(worst, tolerance, (name, ranks))
        if ALL:
            print(f"{name} {' '.join(options)}, {ranks} ranks: {worst:.1e}", flush=True)
        together = self.run_steps(engine, table, mixed(tokens, 1), 1)
        for sequence in tokens:
            self.assertTrue((found[sequence].view(np.uint32) == together[sequence].view(np.uint32)).all(), (name, ranks, sequence))

    def test_pages(self):
        for number, name in enumerate(MODELS):
            for ranks in ("2", "4") if ALL else ("24"[number % 2],):
                with self.subTest(name, ranks=ranks):
                    self.pages(name, ranks, tolerance=0.05 if "bf16" in name else TOLERANCE)

    @unittest.skipUnless(ALL, "a campaign")
    def test_three_ranks(self):
        """Families with 12 heads, which three ranks share too."""
        for name in THREE:
            for ranks in ("2", "3", "4"):
                with self.subTest(name, ranks=ranks):
                    self.pages(name, ranks)

    def test_codes(self):
        for options, tolerance in ((("--cache", "int8"), 0.02), (("--precision", "bf16"), 0.05)):
            with self.subTest(options):
                self.pages("llama", "2", *options, tolerance=tolerance)

    def bits(self, name, ranks, tokens, *options):
        engine, table, _ = self.build(name, "--invariant", "--tp", ranks, *options)
        placement = json.loads(self.tool("explain", "placement", engine, "--json"))["instructions"]
        self.assertEqual(ranks > 1, "collective" in {each["kind"] for each in placement}, (name, ranks))
        alone_ = self.run_steps(engine, table, alone(tokens))
        together = self.run_steps(engine, table, mixed(tokens, 1), 1)
        return [found[sequence].view(np.uint32) for found in (alone_, together) for sequence in tokens]

    def test_equal_bits(self):
        """With --invariant, logits are those of one rank to the bit, alone and beside others."""
        random = np.random.default_rng(1)
        tokens = {sequence: random.integers(0, 256, length) for sequence, length in enumerate(LENGTHS)}
        for name in MODELS if ALL else ("llama",):
            for options in ((), ("--precision", "bf16")) if ALL else ((),):
                one = self.bits(name, 1, tokens, *options)
                for ranks in (2, 4):
                    with self.subTest(name, ranks=ranks, options=options):
                        other = self.bits(name, ranks, tokens, *options)
                        differ = sum((a != b).sum() for a, b in zip(one, other))
                        self.assertEqual(0, differ, f"of {sum(a.size for a in one)} logits")
                        if ALL:
                            print(f"{name} {' '.join(options)}, {ranks} ranks: equal bits", flush=True)

    def test_without_pages(self):
        """One sequence, and texts: what one rank says."""
        for name in MODELS if ALL else ("llama", "phi3", "gptneox"):
            with self.subTest(name):
                one = logits.Numbers.build(self, name)[0].rename(self.folder / "one.tenon")
                engine, weights = logits.Numbers.build(self, name, "--tp", "2")
                tokens = list(np.random.default_rng(1).integers(0, 256, 70))
                expected = models.logits(MODELS[name], weights, tokens)
                error = np.abs(logits.Numbers.logits(self, engine, tokens) - expected).max() / np.abs(expected).max()
                self.assertLess(error, 0.05 if "bf16" in name else TOLERANCE)
                told = [json.loads(self.tool("generate", each, PROMPT, "--raw", "--json", "--max-tokens", "12")) for each in (one, engine)]
                self.assertEqual(told[0]["answers"][0]["tokens"][:4], told[1]["answers"][0]["tokens"][:4])

    def test_folders_and_programs(self):
        """A folder of Hugging Face and a GGUF file on two ranks: what one rank says, by the tool's verbs and by a program in C."""
        folder, _ = folders.Folders.write(self, "llama")
        models.write(MODELS["linear"], self.folder / "model.gguf")
        (self.folder / "text.txt").write_text("A text of some length, which is foreseen badly. " * 3)
        for source in (folder, self.folder / "model.gguf"):
            with self.subTest(source.name):
                answers, scores = [], []
                for ranks in (1, 2):
                    engine = self.folder / f"{source.name}.{ranks}.tenon"
                    self.tool("compile", source, "-o", engine, "--target", self.target, "--tp", ranks)
                    self.assertEqual(ranks, json.loads(self.tool("inspect", engine, "--json")).get("ranks", 1))
                    answers.append(json.loads(self.tool("generate", engine, "Hello", "--json", "--max-tokens", "12"))["answers"][0])
                    scores.append(json.loads(self.tool("score", engine, "--text", self.folder / "text.txt", "--json"))["perplexity"]["value"])
                self.assertEqual(answers[0]["tokens"][:6], answers[1]["tokens"][:6])
                self.assertAlmostEqual(1, scores[1] / scores[0], delta=1e-4)
                done = subprocess.run([EXAMPLE, engine, "Hello"], capture_output=True, text=True, timeout=60)
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                self.assertEqual(json.loads(self.tool("generate", engine, "Hello", "--json"))["answers"][0]["text"], done.stdout)

    def test_stages(self):
        """Stages give the bits of the ranks that one of them has, and read a part of the weights."""
        random = np.random.default_rng(1)
        tokens = {sequence: random.integers(0, 256, length) for sequence, length in enumerate(LENGTHS)}
        for name, ranks in ((name, ranks) for name in (MODELS if ALL else ("llama", "gemma3")) for ranks in (("1", "2") if ALL or name == "llama" else ("1",))):
            with self.subTest(name, ranks=ranks):
                found = []
                for stages in ("1", "2"):
                    engine, table, _ = self.build(name, "--tp", ranks, "--pp", stages)
                    found.append(self.run_steps(engine, table, mixed(tokens, 1), 1))
                for sequence in tokens:
                    self.assertTrue((found[0][sequence].view(np.uint32) == found[1][sequence].view(np.uint32)).all(), (name, ranks, sequence))
                told = json.loads(self.tool("inspect", engine, "--json"))
                self.assertEqual((2 * int(ranks), 2), (told["ranks"], told["stages"]))
                self.assertLess(max(told["weights_bytes_of_stages"]), 0.75 * sum(told["weights_bytes_of_stages"]))
                answer = json.loads(self.tool("generate", engine, PROMPT, "--raw", "--json", "--max-tokens", "4"))["answers"][0]
                self.assertEqual(4, len(answer["tokens"]))

    def test_sums_on_gpus(self):
        """The sum in front of each norm but the last, whose rows are asked for, takes residual and norm; unless that is ruled out."""
        path = self.folder / "llama.gguf"
        models.write(MODELS["llama_floats"], path)
        pins = [f"--pin=blk.*.{name}={cut}" for cut, names in (("column", ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up")), ("row", ("attn_output", "ffn_down"))) for name in names]
        for flags, fused in (((), 3), (("--disable-family", "all_reduce_norm"), 0)):
            self.tool("compile", path, "--target", "cuda:h200", "--precision", "bf16", "--tp", "2", *pins, "-o", self.folder / "gpu.tenon", *flags)
            regions = json.loads(self.tool("explain", "kernels", self.folder / "gpu.tenon", "--json"))["regions"]
            self.assertEqual(fused, sum(str(region["kernel"]).startswith("all_reduce_norm") for region in regions))

    def test_weights_stay_small(self):
        """Blocks of few bits are cut as they are stored: all ranks together have little more than one."""
        engines = [self.build("llama", "--tp", ranks)[0] and json.loads(self.tool("inspect", self.folder / "llama.tenon", "--json")) for ranks in (1, 2, 4)]
        one, *cut = (each["weights_bytes"] for each in engines)
        for ranks, (told, all_bytes) in zip((2, 4), zip(engines[1:], cut)):
            self.assertLess(all_bytes, 1.1 * one)
            self.assertLess(told["weights_bytes_of_rank"], 0.75 * one, ranks)


if __name__ == "__main__":
    unittest.main()
