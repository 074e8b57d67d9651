"""Many requests over a model's pages: `service.py PROGRAM`, the program made of service.cpp."""

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
        self.check_pages(SMALL, 40)
        self.check_pages(SMALL, 20, "--invariant", "--cache", "int8")

    def test_logits_of_low_bit_weights_do_not_either(self):
        self.check_pages(Model("llama", types=[Type.Q4_K, Type.Q6_K]), 60)

    def test_memory_gives_so_many_pages(self):
        path, mebibytes = self.folder / "seeded.gguf", 64
        models.write(SMALL, path)

        def compiled(pages):
            self.tool("compile", path, "-o", self.folder / "e.tenon", "--target", "cpu:native", "--shape", "context:[1..192]", "--pages", pages)
            return self.run_tool("generate", self.folder / "e.tenon", "a", "--raw", "--max-tokens", 1, "--max-memory", mebibytes, "--json")

        memory = json.loads(compiled(6).stdout)["memory"]
        page = memory["bytes_per_token"] * memory["page"]
        self.assertEqual((32, 6), (memory["page"], memory["pages"]))
        most = memory["max_pages"]
        free = memory["available_bytes"] - memory["weights_bytes"] - memory["session_bytes"]
        self.assertTrue(6 * page + free - page < most * page <= 6 * page + free, memory)
        # Those fit, and one more does not.
        self.assertEqual(0, compiled(most).returncode)
        beyond = compiled(most + 1)
        self.assertEqual(6, beyond.returncode, beyond.stderr)
        for part in ("TN0606", f"{most + 1} pages of 32 positions need", f"compile the model with --pages {most}"):
            self.assertIn(part, beyond.stderr)

    def test_engine_without_pages(self):
        answers, tokens, preemptions, reused, *_, accepted, _ = self.counted(SMALL, schedules=40, tolerance=1e-4)
        self.assertGreater(answers, 100)
        self.assertGreater(tokens, 1000)
        self.assertGreater(accepted, 200)
        # Each request that runs has a sequence of its own.
        self.assertEqual([0, 0], [preemptions, reused])


if __name__ == "__main__":
    unittest.main()
