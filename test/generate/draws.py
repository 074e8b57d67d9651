"""`draws.py STEPS`, as paged.py. Engines with pages on a GPU draw tokens themselves: the same as the host draws from their logits. That is skipped without a GPU."""

import dataclasses
import json
import os
import pathlib
import subprocess
import unittest

import logits
import models
import numpy as np
from on_gpu import STEPS, OnGpu
from pages import LENGTHS, PAGES, Pages, PagesTest, mixed
from tool import ToolTest

# What a request may ask of a draw, apart from its seed.
OPTIONS = [[], ["--temperature", 1], ["--temperature", 0.8, "--top-p", 0.9], ["--temperature", 1.2, "--top-k", 20, "--min-p", 0.02]]
# A bias has the host draw, from logits that it fetches.
ON_HOST = ["--logit-bias", "0=0"]


def answer(test, engine, *options):
    options = (logits.PROMPT, "--raw", "--json", "--logprobs", "--max-tokens", 40, *options)
    return json.loads(test.tool("generate", engine, *options))["answers"][0]


class Draws(OnGpu):
    def check_draws(self, name):
        path, engine = self.folder / f"{name}.gguf", self.folder / f"{name}.tenon"
        weights = models.write(logits.MODELS[name], path)
        for precision in ("keep", "bf16"):
            self.tool("compile", path, "-o", engine, "--target", "cuda", "--pages", 64, "--precision", precision)
            if precision == "keep":
                expected = logits.Numbers.greedy(self, logits.MODELS[name], weights, logits.PROMPT.encode(), 12)
                self.assertEqual(expected, answer(self, engine)["tokens"][: len(expected)])
            for seed, options in enumerate(OPTIONS):
                with self.subTest(precision=precision, options=options):
                    drawn, host = (answer(self, engine, *options, "--seed", seed, *more) for more in ([], ON_HOST))
                    self.assertEqual(host["tokens"], drawn["tokens"])
                    np.testing.assert_allclose(drawn["logprobs"], host["logprobs"], atol=1e-5)


class Rows(OnGpu, PagesTest):
    program, target = STEPS, "cuda"

    def test_rows(self):
        """Rows of many sequences in one step, each with a draw of its own; steps.cpp compares them with the sampler's."""
        engine, table, _ = self.build("llama3")
        random = np.random.default_rng(3)
        tokens = {s: random.integers(0, 256, length) for s, length in enumerate(LENGTHS)}
        pages, steps = Pages(table, 0), []
        for parts in mixed(tokens, 1):
            step = pages.step(parts)
            kinds = [[0, 1, 0], [1, 1, 0], [0.8, 0.9, 0], [1.2, 0.99, 0.02]]
            draws = [[*kinds[random.integers(4)], int(random.integers(2) * 5), int(random.integers(99)), row] for row in step["rows"]]
            steps.append(step | {"draws": draws})
        (self.folder / "steps.json").write_text(json.dumps({"engine": str(engine), "pages": PAGES, "steps": steps}))
        done = subprocess.run([self.program, self.folder / "steps.json", self.folder / "logits"], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)


class WithoutGpu(ToolTest):
    def test_ports(self):
        """Engines for GPUs draw, in every precision; one that is for CPUs too answers there as one for CPUs alone."""
        path = self.folder / "model.gguf"
        models.write(logits.MODELS["llama3"], path)
        both, cpu = self.folder / "both.tenon", self.folder / "cpu.tenon"
        for precision in ("bf16", "fp16", "keep"):
            self.tool("compile", path, "-o", both, "--target", "cuda:sm_90", "--target", "cpu:native", "--pages", 64, "--precision", precision)
            names = [port["name"] for port in json.loads(self.tool("inspect", both, "--json"))["outputs"]]
            self.assertEqual(["logits", "ids", "logprobs"], names)
        self.tool("compile", path, "-o", cpu, "--target", "cpu:native", "--pages", 64)
        for options in OPTIONS:
            own, other = answer(self, cpu, *options), answer(self, both, *options)
            self.assertEqual((own["tokens"], own["logprobs"]), (other["tokens"], other["logprobs"]))

    def test_defaults(self):
        """Language models have pages and draw on GPUs without a word; other models have neither, and no flag of pages."""
        path, other = self.folder / "plain.gguf", pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "models/fashion_cnn.onnx"
        models.write(logits.MODELS["llama3"], path)
        engine = self.folder / "default.tenon"
        for target in ("cuda:sm_90", "cpu:native,cuda:sm_90", "cpu:native"):
            for precision in ("keep", "fp16", "bf16"):
                flags = ("--target", target, "--precision", precision)
                for model, expected in ((path, self.drawn(target, precision)), (other, 1)):
                    with self.subTest(model=model.name, flags=flags):
                        self.tool("compile", model, "-o", engine, *flags)
                        self.assertEqual(expected, len(json.loads(self.tool("inspect", engine, "--json"))["outputs"]))
        for flags, problem in ((["--invariant"], "--invariant is for"), (["--cache", "int8"], "--cache is for"), (["--pages", 64], "--pages is for")):
            self.assertIn(problem, self.run_tool("compile", other, "-o", engine, *flags).stderr)

    def test_machine_code(self):
        """A ptxas that is found makes the machine code of language models without a word; one that rejects the PTX leaves it to the driver, if nobody asked."""
        path, other = self.folder / "coded.gguf", pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "models/fashion_cnn.onnx"
        models.write(logits.MODELS["llama3"], path)
        ptxas = self.folder / "bin/ptxas"
        ptxas.parent.mkdir()
        ptxas.write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo "Cuda compilation tools, release 1.2, V1.2.3"; exit; fi\n'
                         'grep -q "^.target sm_80" "$2" || exit 1\n'
                         "printf '\\177ELF\\002' > \"$4\"; head -c 13 /dev/zero >> \"$4\"; printf '\\276' >> \"$4\"; head -c 100 /dev/zero >> \"$4\"\n")  # fmt: skip
        ptxas.chmod(0o755)
        path_before = self.environment["PATH"]
        self.environment["PATH"] = f"{ptxas.parent}:{path_before}"
        self.addCleanup(self.environment.update, PATH=path_before)
        engine = self.folder / "coded.tenon"
        for model, target, expected in ((path, "cuda:sm_80", 119), (path, "cuda:sm_90", 0), (other, "cuda:sm_80", 0)):
            with self.subTest(model=model.name, target=target):
                self.tool("compile", model, "-o", engine, "--target", target)
                self.assertEqual(expected, json.loads(self.tool("inspect", engine, "--json"))["variants"][0]["cubin_bytes"])
        self.assertIn("rejects the PTX", self.run_tool("compile", path, "-o", engine, "--target", "cuda:sm_90", "--cubin").stderr)

    def test_wide_heads(self):
        """Heads that no kernel over pages takes are refused, and the hint holds."""
        path, engine = self.folder / "wide.gguf", self.folder / "wide.tenon"
        models.write(dataclasses.replace(logits.MODELS["llama_floats"], width=96, heads=1, key_heads=1, head=288, layers=1), path)
        self.assertIn("heads have 288 elements", self.run_tool("compile", path, "-o", engine, "--target", "cuda:sm_90").stderr)
        for flags in (("--target", "cuda:sm_90", "--pages", 0), ("--target", "cpu:native")):
            self.tool("compile", path, "-o", engine, *flags)

    def test_invariant(self):
        """Each family has kernels of one order on GPUs, those that draw among them."""
        path, engine = self.folder / "model.gguf", self.folder / "invariant.tenon"
        for i, name in enumerate(logits.MODELS):
            with self.subTest(model=name):
                models.write(logits.MODELS[name], path)
                self.tool("compile", path, "-o", engine, "--target", "cuda:sm_90", "--invariant", "--precision", ("keep", "bf16")[i % 2])
                kernels = self.tool("explain", "kernels", engine)
                self.assertRegex(kernels, r"--invariant: [\d.]+ [mu]s for these sizes, [\d.]+ [mu]s without it \(")
                self.assertIn("token_draws", kernels)
                regions = json.loads(self.tool("explain", "kernels", engine, "--all", "--json"))["regions"]
                attention = [region for region in regions if region["kernel"].startswith("attention_paged")]
                order = ("tiles of keys from position 0 on", "parts of 64 keys from position 0 on, added in their order")[i % 2]
                for region in attention:
                    chosen = next(each for each in region["candidates"] if each["verdict"] == "chosen")
                    # It is the kernel that the region would have without the flag.
                    self.assertEqual((order, region["freely"]["us"]), (chosen["order"], chosen["us"]))
                self.assertTrue(attention)

    @staticmethod
    def drawn(target, precision):
        """Outputs: ids and logprobs beside logits, if a GPU has pages. In bf16 CPUs have none, and share the model."""
        return 3 if "cuda" in target and ("cpu" not in target or precision != "bf16") else 1


for each in ("llama3", "gemma2", "phi3"):
    setattr(Draws, f"test_{each}", lambda self, name=each: self.check_draws(name))

if __name__ == "__main__":
    unittest.main()
