"""What `tenon generate` says of memory before it takes any, beside what the session then holds; and what it does where a context does not fit."""

import dataclasses
import json
import unittest

from logits import MODELS
import models
from tool import ToolTest

TOLERANCE = 0.02
MIB = 1 << 20


class Memory(ToolTest):
    def write(self, name, **changes):
        path = self.folder / f"{name}{changes['context']}.gguf"
        if not path.exists():
            models.write(dataclasses.replace(MODELS[name], **changes), path)
        return path

    def memory(self, path, tokens, *options):
        text = ("abcdefgij " * tokens)[:tokens]
        told = json.loads(self.tool("generate", path, text, "--raw", "--max-tokens", 1, "--json", "--quiet", *options))
        return told["memory"], len(told["prompt_tokens"])

    def test_numbers_are_what_a_session_holds(self):
        for name, contexts in {"llama": (512, 2048), "qwen3": (1024,), "gemma3": (1536,), "phi3": (512,), "gpt2": (1024,)}.items():
            for context in contexts:
                with self.subTest(family=name, context=context):
                    path = self.write(name, context=4096)
                    told, tokens = self.memory(path, context, "--context", context)
                    self.assertEqual(context, tokens)
                    self.assertEqual(context, told["positions"])
                    self.assertEqual(4096, told["longest"])
                    self.assertLess(abs(told["held_bytes"] / told["session_bytes"] - 1), TOLERANCE, told)

    def test_the_longest_context_fits_and_a_longer_one_does_not(self):
        path = self.write("llama", context=65536, layers=8)
        told, _ = self.memory(path, 8, "--max-memory", 64)
        self.assertEqual(64 * MIB, told["available_bytes"])
        longest = told["longest"]
        self.assertTrue(2048 < longest < 65536, told)
        fitting, tokens = self.memory(path, longest, "--context", longest, "--max-memory", 64)
        self.assertEqual(longest, tokens)
        # Tables of rotary embeddings grow with the positions; nothing else was left out.
        self.assertLess(fitting["weights_bytes"] + fitting["held_bytes"], 64 * MIB * (1 + TOLERANCE))
        self.assertGreater(fitting["weights_bytes"] + fitting["held_bytes"], 64 * MIB * (1 - 2 * TOLERANCE))
        beyond = self.run_tool("generate", path, "a", "--raw", "--context", longest * 2, "--max-memory", 64)
        self.assertNotEqual(0, beyond.returncode)
        for part in ("TN0606", f"{longest * 2} positions need", f"{64 * MIB} bytes are free", "at most"):
            self.assertIn(part, beyond.stderr)

    def test_the_default_takes_what_fits(self):
        path = self.write("llama", context=65536, layers=8)
        done = self.run_tool("generate", path, "a", "--raw", "--max-tokens", 1, "--max-memory", 16, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        told = json.loads(done.stdout)["memory"]
        self.assertTrue(0 < told["positions"] < 2048, told)
        self.assertLessEqual(told["weights_bytes"] + told["session_bytes"], 16 * MIB)
        self.assertIn(f"taking {told['positions']}", done.stderr)
        none = self.run_tool("generate", path, "a", "--raw", "--max-memory", 1)
        self.assertIn("TN0606", none.stderr)
        self.assertIn("smaller weights", none.stderr)


if __name__ == "__main__":
    unittest.main()
