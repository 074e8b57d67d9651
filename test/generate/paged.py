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

    def test_invariant(self):
        """What explain says of the flag, which leaves nothing to the number of rows; and where it is refused."""
        self.check("llama_floats", "--invariant")
        engine = self.folder / "llama_floats.tenon"
        regions = json.loads(self.tool("explain", "kernels", engine, "--all", "--json"))["regions"]
        orders = {region["kernel"].split("{")[0]: [each["order"] for each in region["candidates"] if each["verdict"] == "chosen"] for region in regions}
        self.assertEqual(["blocks of keys from position 0 on"], orders["attention_paged"])
        self.assertEqual(["the depth in equal chains of at most 128"], orders["gemm_packed"])
        self.assertTrue(all(order and order[0] for order in orders.values()), orders)
        self.assertTrue(all("us" in region["freely"] for region in regions))
        self.assertRegex(self.tool("explain", "kernels", engine), r"--invariant: [\d.]+ [mu]s for these sizes, [\d.]+ [mu]s without it \(")
        for flags, problem in ((["--invariant"], "--invariant is for engines with pages"), (["--cache", "int8"], "--cache is for engines with pages")):
            done = self.run_tool("compile", self.folder / "llama_floats.gguf", "-o", engine, "--target", "cpu:native", "--pages", 0, *flags)
            self.assertIn(problem, done.stderr)

    def test_caches(self):
        """Codes of 8 bits in pages take their bytes, and a token has the same bits beside others."""
        held = {}
        for cache, tolerance in (("keep", TOLERANCE), ("int8", 0.02), ("fp8", 0.1)):
            for name in ("llama", "gemma2"):
                self.check(name, "--cache", cache, "--invariant", tolerance=tolerance)
            memory = json.loads(self.tool("inspect", self.folder / "llama.tenon", "--json"))["language"]["memory"]
            held[cache] = memory["bytes_per_token"]
        # Two layers of keys and values of two heads of 64: floats, or bytes and a scale.
        self.assertEqual({"keep": 2 * 2 * 2 * 64 * 4, "int8": 2 * 2 * 2 * 68, "fp8": 2 * 2 * 2 * 68}, held)
        self.check("llama_floats", "--cache", "int8", "--precision", "bf16", tolerance=0.05)

    def test_int8_activations(self):
        """Rounded rows have the same bits beside others too."""
        usable = [level["level"] for level in json.loads(self.tool("doctor", "--json"))["levels"] if level["usable"]]
        if not {"avx512-vnni", "avx-vnni"} & set(usable):
            self.skipTest("this machine has no VNNI")
        self.check("llama", "--allow", "int8-activations", "--invariant", tolerance=0.1)

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

    def test_plans_for_sizes(self):
        """Plans of one variant would have pages of their own: the compiler refuses them, and leaves no engine."""
        self.build("llama3")
        for pages in ((), ("--pages", 0)):
            done = self.run_tool("compile", self.folder / "llama3.gguf", "-o", self.folder / "sized.tenon", "--target", "cpu:native", "--optimize-for", "tokens:1", *pages)
            self.assertEqual(2, done.returncode)
            self.assertIn("TN0105: --optimize-for is for models without state", done.stderr)
            self.assertFalse((self.folder / "sized.tenon").exists())

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
