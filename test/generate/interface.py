"""The C interface beside the tool: `interface.py INTERFACE EXAMPLE`, programs made of interface.c and examples/generate.c."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import models
import numpy as np
from models import Model
from tool import ToolTest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
sys.path.append(str(SOURCE / "test/e2e"))

import language_files  # noqa: E402

EXAMPLE, INTERFACE = sys.argv.pop(), sys.argv.pop()


class Interface(ToolTest):
    def setUp(self):
        models.write(Model("llama", width=128, inner=256, head=32, pairs=True, tied=False), self.folder / "seeded.gguf")
        self.engine = self.compile("seeded")

    def compile(self, name):
        engine = self.folder / f"{name}.tenon"
        self.tool("compile", self.folder / f"{name}.gguf", "-o", engine, "--target", "cpu:native")
        return engine

    def answer(self, *flags):
        return json.loads(self.tool("generate", self.engine, "Hello", "--json", "--max-tokens", "24", *flags))["answers"][0]

    def test_interface(self):
        broken = {"output_norm.weight": np.full(language_files.WIDTH, np.nan, np.float32)}
        (self.folder / "broken.gguf").write_bytes(language_files.llama(tensors=broken))
        done = subprocess.run([INTERFACE, self.engine, self.compile("broken")], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        greedy, sampled, listed = ([int(token) for token in line.split()] for line in done.stdout.splitlines())
        schema = self.folder / "list.json"
        schema.write_text(json.dumps({"type": "array", "items": {"type": "integer"}, "maxItems": 3, "minItems": 3}))
        answer = json.loads(self.tool("generate", self.engine, "Hello", "--json", "--schema", schema))["answers"][0]
        self.assertEqual(answer["tokens"], listed)
        self.assertEqual(3, len(json.loads(answer["text"])))
        self.assertEqual(self.answer()["tokens"], greedy)
        self.assertEqual(self.answer(*models.SAMPLED)["tokens"], sampled)
        self.assertNotEqual(greedy, sampled)
        self.assertGreater(len(sampled), 10)

    def test_example(self):
        header = (SOURCE / "include/tenon/generate.h").read_text()
        comment, code = (SOURCE / "examples/generate.c").read_text().split("\n", 1)
        self.assertIn(f"```c\n// generate.c\n{code}```", (SOURCE / "docs/guides/language-models-code.md").read_text())
        self.assertIn("".join(f" *     {line}\n" if line else " *\n" for line in code.splitlines()), header)
        done = subprocess.run([EXAMPLE, self.engine, "Hello"], capture_output=True, timeout=60)
        self.assertEqual((0, b""), (done.returncode, done.stderr))
        whole = json.loads(self.tool("generate", self.engine, "Hello", "--json"))["answers"][0]["text"]
        self.assertEqual(whole, done.stdout.decode())
        failed = subprocess.run([EXAMPLE, "/no/such/file"], capture_output=True, text=True)
        self.assertEqual(2, failed.returncode)
        self.assertIn("TN0101", failed.stderr)


if __name__ == "__main__":
    unittest.main()
