"""The memory of a compile: beside the file, what it takes is the same for a large model as for a small one."""

import os
import subprocess
import unittest

import models
import numpy as np
from models import Model, Type
from tool import TENON, ToolTest


def write(model, path):
    """A file of a model with blocks of random numbers; its weights are too many to be computed with here."""
    random = np.random.default_rng(0)
    writer = models.begin(model, path)

    def matrix(name, outputs, inputs):
        writer.add_tensor(name, models.random_blocks(random, Type.Q4_K, (outputs, inputs)), raw_dtype=Type.Q4_K)

    def norm(name):
        writer.add_tensor(name, np.ones(model.width, np.float32))

    matrix("token_embd.weight", models.VOCABULARY, model.width)
    for layer in range(model.layers):
        at = f"blk.{layer}."
        norm(at + "attn_norm.weight")
        for part, heads in (("q", model.heads), ("k", model.key_heads), ("v", model.key_heads)):
            matrix(f"{at}attn_{part}.weight", heads * model.head, model.width)
        matrix(at + "attn_output.weight", model.width, model.heads * model.head)
        norm(at + "ffn_norm.weight")
        for part in ("gate", "up"):
            matrix(f"{at}ffn_{part}.weight", model.inner, model.width)
        matrix(at + "ffn_down.weight", model.width, model.inner)
    norm("output_norm.weight")
    models.end(writer)


class Memory(ToolTest):
    def peak(self, layers):
        """The bytes of a model's file, and those that its compile had resident at most."""
        path = self.folder / f"{layers}.gguf"
        write(Model("llama", width=1024, inner=4096, heads=16, head=64, layers=layers, pairs=True), path)
        command = [TENON, "compile", path, "-o", self.folder / "out.tenon", "--target", "cpu:native", "--no-cache"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(0, process.returncode)
        return path.stat().st_size, usage.ru_maxrss * 1024

    def test_a_compile_keeps_no_copy_of_the_weights(self):
        (small, before), (large, after) = self.peak(1), self.peak(7)
        self.assertGreater(large - small, 50e6)
        # The file is mapped and counts; one copy of what was added would be twice as much.
        self.assertLess(after - before, large)


if __name__ == "__main__":
    unittest.main()
