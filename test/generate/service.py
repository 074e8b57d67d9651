"""Many requests over a model's pages: `service.py PROGRAM`, the program made of service.cpp."""

import dataclasses
import json
import re
import subprocess
import sys
import unittest

import models
from models import Model, Type
from tool import ToolTest

PROGRAM = sys.argv.pop()
SMALL = Model("llama", width=128, inner=256, head=32, pairs=True, tied=False)


class Service(ToolTest):
    def counted(self, model, *flags, schedules, tolerance):
        models.write(model, self.folder / "seeded.gguf")
        engine = self.folder / "seeded.tenon"
        self.tool("compile", self.folder / "seeded.gguf", "-o", engine, "--target", "cpu:native", "--shape", "context:[1..192]", *flags)
        done = subprocess.run([PROGRAM, engine, str(schedules), str(tolerance)], capture_output=True, text=True, timeout=300)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return [int(number) for number in re.findall(r"\d+", done.stdout)]

    def check_pages(self, model, schedules, *flags):
        counts = self.counted(model, "--pages", 6, *flags, schedules=schedules, tolerance=0)
        answers, tokens, preemptions, reused, cancelled, drafted, accepted, memory = counts
        self.assertGreater(answers, 150)
        self.assertGreater(tokens, 3000)
        self.assertGreater(preemptions, 5)
        self.assertGreater(reused, 1000)
        self.assertGreater(cancelled, 5)
        self.assertGreater(drafted, accepted)
        self.assertGreater(accepted, 300)
        # It holds its pages, and no more than was said for all threads.
        said = json.loads(self.tool("inspect", self.folder / "seeded.tenon", "--json"))["language"]["memory"]
        self.assertTrue(6 * 32 * said["bytes_per_token"] < memory <= said["session_bytes"], (memory, said))

    def test_logits_do_not_depend_on_neighbours(self):
        self.check_pages(SMALL, 60, "--invariant")

    def test_logits_over_codes_do_not_either(self):
        self.check_pages(SMALL, 60, "--cache", "int8")

    def test_logits_of_low_bit_weights_do_not_either(self):
        self.check_pages(Model("llama", types=[Type.Q4_K, Type.Q6_K]), 60)

    def test_a_sequence_has_pages_for_its_positions(self):
        """One engine, sessions of several lengths: each holds what was said, and the default takes what fits."""
        path, engine = self.folder / "seeded.gguf", self.folder / "long.tenon"
        models.write(dataclasses.replace(SMALL, context=65536), path)
        self.tool("compile", path, "-o", engine, "--target", "cpu:native", "--shape", "context:[1..65536]")

        def memory(tokens, *options):
            text = ("abcdefgij " * tokens)[:tokens]
            done = self.run_tool("generate", engine, text, "--raw", "--max-tokens", 1, "--json", "--quiet", *options)
            self.assertEqual(0, done.returncode, done.stderr)
            return json.loads(done.stdout)["memory"]

        for context in (256, 2048, 8192):
            told = memory(context, "--context", context)
            self.assertEqual(context, told["positions"])
            self.assertLess(abs(told["held_bytes"] / told["session_bytes"] - 1), 0.02, told)
            self.assertGreater(told["held_bytes"], context * told["bytes_per_token"])
        limit = (told["weights_bytes"] >> 20) + 32
        told = memory(8, "--max-memory", limit)
        self.assertTrue(256 < told["positions"] < 65536, told)
        self.assertEqual(told["longest"], told["positions"])
        self.assertLessEqual(told["weights_bytes"] + told["session_bytes"], limit << 20)
        for context, status in ((told["longest"], 0), (told["longest"] + 64, 6)):
            done = self.run_tool("generate", engine, "a", "--raw", "--max-tokens", 1, "--max-memory", limit, "--context", context)
            self.assertEqual(status, done.returncode, done.stderr)
        for part in ("TN0606", f"{context} positions need", f"at most {told['longest']} positions fit: --context {told['longest']}"):
            self.assertIn(part, done.stderr)

    def test_engine_without_pages(self):
        answers, tokens, preemptions, reused, *_, accepted, _ = self.counted(SMALL, "--pages", 0, schedules=40, tolerance=1e-4)
        self.assertGreater(answers, 100)
        self.assertGreater(tokens, 1000)
        self.assertGreater(accepted, 100)
        # Each request that runs has a sequence of its own, which only a more urgent one takes.
        self.assertGreater(preemptions, 0)
        self.assertEqual(0, reused)


if __name__ == "__main__":
    unittest.main()
