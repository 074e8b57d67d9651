"""Many requests over a model's pages: `service.py PROGRAM`, the program made of service.cpp."""

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

    def check_pages(self, model, schedules):
        answers, tokens, preemptions, reused, cancelled, drafted, accepted = self.counted(model, "--pages", 6, schedules=schedules, tolerance=0)
        self.assertGreater(answers, 150)
        self.assertGreater(tokens, 3000)
        self.assertGreater(preemptions, 5)
        self.assertGreater(reused, 1000)
        self.assertGreater(cancelled, 5)
        self.assertGreater(drafted, accepted)
        self.assertGreater(accepted, 300)

    def test_logits_do_not_depend_on_neighbours(self):
        self.check_pages(SMALL, 60)

    def test_logits_of_low_bit_weights_do_not_either(self):
        self.check_pages(Model("llama", types=[Type.Q4_K, Type.Q6_K]), 60)

    def test_engine_without_pages(self):
        answers, tokens, preemptions, reused, *_, accepted = self.counted(SMALL, schedules=40, tolerance=1e-4)
        self.assertGreater(answers, 100)
        self.assertGreater(tokens, 1000)
        self.assertGreater(accepted, 200)
        # Each request that runs has a sequence of its own.
        self.assertEqual([0, 0], [preemptions, reused])


if __name__ == "__main__":
    unittest.main()
