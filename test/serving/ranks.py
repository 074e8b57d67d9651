"""A language model with ranks behind `tenon serve`, on a CPU: its texts are those of one rank, and its memory is that of all ranks."""

import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from server import SOURCE, TENON, Server

sys.path.insert(0, str(SOURCE / "test/generate"))
import models

PROMPTS = ("The", "0123456789" * 9, "?", "Once upon a time")


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        folder = pathlib.Path(holder.name)
        served = folder / "models"
        served.mkdir()
        models.write(models.Model("llama", width=128, inner=256, head=32, tied=False, context=512), folder / "text.gguf")
        for ranks in "12":
            command = [TENON, "compile", folder / "text.gguf", "-o", served / f"text{ranks}.tenon", "--tp", ranks, "--invariant", "--target", "native", "--quiet"]
            subprocess.run(command, check=True)
        cls.files = {path.stem: path.stat().st_size for path in served.iterdir()}
        cls.server = cls.enterClassContext(Server(served, "--threads", "2"))

    def complete(self, model, prompt, **options):
        status, answer = self.server.post("/v1/completions", {"model": model, "prompt": prompt, "temperature": 0, "max_tokens": 16, **options})
        self.assertEqual(200, status, answer)
        return answer["choices"][0]["text"]

    def test_texts(self):
        """Alone, at once and as a stream: the texts of one rank."""
        alone = [self.complete("text1", prompt) for prompt in PROMPTS]
        self.assertEqual(alone, [self.complete("text2", prompt) for prompt in PROMPTS])
        with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as users:
            self.assertEqual(alone, list(users.map(lambda prompt: self.complete("text2", prompt), PROMPTS)))
        status, _, body = self.server.call("POST", "/v1/completions", b'{"model":"text2","prompt":"The","temperature":0,"max_tokens":16,"stream":true}')
        self.assertEqual(200, status)
        events = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]
        self.assertGreater(len(events), 3)
        self.assertEqual(alone[0], "".join(event["choices"][0]["text"] for event in events))

    def test_memory(self):
        """Of the file with the weights of all ranks, and of what each rank holds."""
        bytes_of = {labels["model"]: value for labels, value in self.server.metrics("tenon_model_bytes")}
        for name, size in self.files.items():
            self.assertGreater(bytes_of[name], size, name)
        self.assertGreater(bytes_of["text2"] - self.files["text2"], 0.9 * (bytes_of["text1"] - self.files["text1"]))


if __name__ == "__main__":
    unittest.main()
