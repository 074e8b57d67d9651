"""Many requests over a model's pages: `service.py PROGRAM`, the program made of service.cpp."""

import re
import subprocess
import sys
import unittest

import models
from models import Model
from tool import ToolTest

PROGRAM = sys.argv.pop()


class Service(ToolTest):
    def counted(self, *flags, schedules, tolerance):
        models.write(Model("llama", width=128, inner=256, head=32, pairs=True, tied=False), self.folder / "seeded.gguf")
        engine = self.folder / "seeded.tenon"
        self.tool("compile", self.folder / "seeded.gguf", "-o", engine, "--target", "cpu:native", "--shape", "context:[1..192]", *flags)
        done = subprocess.run([PROGRAM, engine, str(schedules), str(tolerance)], capture_output=True, text=True, timeout=300)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return [int(number) for number in re.findall(r"\d+", done.stdout)]

    def test_logits_do_not_depend_on_neighbours(self):
        answers, tokens, preemptions, reused, cancelled = self.counted("--pages", 6, schedules=100, tolerance=0)
        self.assertGreater(answers, 300)
        self.assertGreater(tokens, 3000)
        self.assertGreater(preemptions, 5)
        self.assertGreater(reused, 1000)
        self.assertGreater(cancelled, 5)

    def test_engine_without_pages(self):
        answers, tokens, preemptions, reused, cancelled = self.counted(schedules=40, tolerance=1e-4)
        self.assertGreater(answers, 100)
        self.assertGreater(tokens, 1000)
        # Each request that runs has a sequence of its own.
        self.assertEqual([0, 0], [preemptions, reused])


if __name__ == "__main__":
    unittest.main()
