"""Language models from Python beside the tool, on seeded models. Runs with a Python that has gguf: see in_wheel.py."""

import contextlib
import gc
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import threading
import unittest

import tenon

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
sys.path += [str(SOURCE / "test/generate"), str(SOURCE / "test/e2e")]

import folders  # noqa: E402
import language_files  # noqa: E402
import models  # noqa: E402
import numpy as np  # noqa: E402
from tool import ToolTest  # noqa: E402

TEXT = "A text of some length, which has more than one window. " * 4


class Generate(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        os.environ["XDG_CACHE_HOME"] = cls.environment["XDG_CACHE_HOME"]
        cls.file = cls.folder / "seeded.gguf"
        models.write(models.Model("llama", width=128, inner=256, head=32, pairs=True, tied=False), cls.file)
        cls.model = tenon.LanguageModel(cls.file)

    def answers(self, *flags, prompt="Hello"):
        return json.loads(self.tool("generate", self.file, prompt, "--json", "--logprobs", "--max-tokens", "24", *flags))

    def same(self, flags, prompt="Hello", **options):
        """The tool and Python answer alike; gives the answers."""
        expected = self.answers(*flags)
        found = self.model.generate(prompt, max_tokens=24, **options)
        self.assertEqual(expected["prompt_tokens"], found.prompt_tokens)
        given = found.answers()
        self.assertEqual([(one["tokens"], one["text"], one["finish"]) for one in expected["answers"]], [(one.tokens, one.text, one.finish) for one in given])
        self.assertEqual([one["logprobs"] for one in expected["answers"]], [one.logprobs for one in given])
        return given

    def test_tool(self):
        greedy = self.same([])[0]
        self.assertEqual(24, len(greedy.tokens))
        sampled = self.same([*models.SAMPLED, "--answers", "3"], answers=3, **models.SAMPLED_IN_PYTHON)
        self.assertEqual(4, len({tuple(one.tokens) for one in [greedy, *sampled]}))
        for name, value in models.SAMPLED_IN_PYTHON.items():
            if name not in ("temperature", "stop", "seed"):
                flag = "--" + name.replace("_", "-")
                values = [f"{token}={bias}" for token, bias in value.items()] if name == "logit_bias" else [value]
                with self.subTest(name):
                    self.same(["--temperature", "1", *(word for each in values for word in (flag, each))], temperature=1, **{name: value})
        self.same(["--raw"], raw=True)
        self.same(["--system", "Be brief."], system="Be brief.")
        conversation = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
        self.same(["--system", "Be brief."], prompt=conversation)
        (self.folder / "other.jinja").write_text("{{ messages[0].content }}!")
        self.same(["--template", self.folder / "other.jinja"], template="{{ messages[0].content }}!")

    def test_ranks(self):
        """An engine with two ranks: as the tool, and as one rank but for rounding."""
        engine = self.folder / "ranks.tenon"
        self.tool("compile", self.file, "-o", engine, "--tp", "2", "--target", "cpu:native", "--quiet")
        model = tenon.LanguageModel(engine)
        given = model.generate("Hello", max_tokens=24).answers()[0]
        expected = json.loads(self.tool("generate", engine, "Hello", "--json", "--logprobs", "--max-tokens", "24"))["answers"][0]
        self.assertEqual((expected["tokens"], expected["logprobs"]), (given.tokens, given.logprobs))
        np.testing.assert_allclose(self.model.generate("Hello", max_tokens=6).answers()[0].logprobs, given.logprobs[:6], atol=1e-3)

    def test_pieces(self):
        pieces = list(tenon.generate(self.model, "Hello", max_tokens=24, top_logprobs=2))
        whole = self.model.generate("Hello", max_tokens=24).answers()[0]
        self.assertEqual(whole.text, "".join(piece.text for piece in pieces))
        self.assertEqual((whole.tokens, whole.logprobs), ([piece.token for piece in pieces], [piece.logprob for piece in pieces]))
        for piece in pieces:
            self.assertEqual((piece.token, piece.logprob), piece.top[0])
            self.assertGreaterEqual(piece.top[0][1], piece.top[1][1])
        # A stop string ends the text before it, however tokens cut it.
        stop = re.search(r"[!-~]{2,3}", whole.text[1:])[0]
        stopped = self.model.generate("Hello", max_tokens=24, stop=["never there", stop]).answers()[0]
        self.assertEqual((whole.text[: whole.text.index(stop)], "stop"), (stopped.text, stopped.finish))
        several = self.model.generate("Hello", max_tokens=2, answers=3, temperature=1, seed=5)
        self.assertEqual([0, 0, 1, 1, 2, 2], [piece.answer for piece in several])

    def test_format(self):
        """An answer is a value of its schema, as `tenon generate --schema` gives it."""
        schema = {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2}
        (self.folder / "list.json").write_text(json.dumps(schema))
        (answer,) = self.model.generate("Hello", max_tokens=300, response_format={"type": "json_schema", "json_schema": {"schema": schema}}).answers()
        self.assertEqual(json.loads(self.tool("generate", self.file, "Hello", "--json", "--max-tokens", "300", "--schema", self.folder / "list.json"))["answers"][0]["tokens"], answer.tokens)
        self.assertEqual((2, "stop"), (len(json.loads(answer.text)), answer.finish))
        self.assertIsInstance(json.loads(self.model.generate("Hello", temperature=1, seed=2, response_format={"type": "json_object"}).answers()[0].text), dict)
        for given in ({"type": "xml"}, {"type": "json_schema"}, {}):
            with self.assertRaisesRegex(tenon.UsageError, "TN0105.*response_format"):
                self.model.generate("Hello", response_format=given)
        with self.assertRaisesRegex(tenon.Error, "'#/uniqueItems'"):
            self.model.generate("Hello", response_format={"type": "json_schema", "json_schema": {"schema": {"uniqueItems": True}}})

    def test_sources(self):
        """A file, an engine, a folder; a second start takes the engine of the first."""
        expected = self.model.generate("Hello", max_tokens=8).answers()[0].tokens
        engine = self.folder / "seeded.tenon"
        self.tool("compile", self.file, "-o", engine)
        for source in (self.file, str(engine), tenon.load(engine)):
            (found,) = tenon.generate(source, "Hello", max_tokens=8).answers()
            self.assertEqual(expected, found.tokens)
        path, _ = folders.Folders.write(self, "llama")
        (found,) = tenon.generate(path, "Hello", max_tokens=8, cache=False).answers()
        self.assertEqual(json.loads(self.tool("generate", path, "Hello", "--json", "--max-tokens", "8"))["answers"][0]["tokens"], found.tokens)
        entries = lambda: {file.name for file in (self.folder / "cache/tenon").iterdir()}
        before = entries()
        self.assertEqual(self.model.facts, tenon.LanguageModel(self.file).facts)
        self.assertEqual(before, entries())
        facts = {name: value for name, value in self.model.facts.items() if name != "chat_template"}
        self.assertEqual({"family": "llama", "vocabulary": 259, "layers": 2, "positions": 512, "trained_positions": 512}, facts)
        self.assertEqual(models.CHAT, self.model.facts["chat_template"])
        self.assertEqual(100, tenon.LanguageModel(self.file, context=100).facts["positions"])
        self.assertGreater(self.model.memory(), 100000)

    def test_text(self):
        for text in ("", "Hello <|end|>", "naïve 日本 👩‍👩‍👧", "a\0b"):
            expected = json.loads(self.tool("tokenize", self.file, text, "--json"))["tokens"] if "\0" not in text else [*text.encode()]
            self.assertEqual(expected, self.model.tokenize(text))
            self.assertEqual(text, self.model.detokenize(self.model.tokenize(text)))
        self.assertEqual([257], self.model.tokenize("<|end|>", special=True))
        self.assertEqual("\ufffd", self.model.detokenize([257, 0xE4]))

    def test_score(self):
        (self.folder / "text.txt").write_text(TEXT)
        other = self.folder / "other.gguf"
        models.write(models.Model("llama", width=128, inner=256, head=32, pairs=True, tied=False, seed=1), other)
        printed = json.loads(self.tool("score", self.file, "--text", self.folder / "text.txt", "--against", other, "--window", "32", "--json"))
        shares = []
        found = self.model.score(TEXT, against=other, window=32, progress=shares.append)
        self.assertEqual({name: printed[name] for name in found}, found)
        self.assertEqual(shares, sorted(shares))
        self.assertEqual({"tokens", "perplexity", "surprise"}, set(self.model.score(TEXT, max_tokens=20)))
        with self.assertRaises(tenon.CancelledError):
            self.model.score(TEXT, window=32, progress=lambda share: True)
        with self.assertRaisesRegex(KeyError, "mine"):
            self.model.score(TEXT, window=32, progress=lambda share: {}["mine"])

    def test_left_early(self):
        """Whoever leaves an answer early leaves one sequence, which computes only what is new."""
        model = tenon.LanguageModel(self.file)
        expected = model.generate("Hello", max_tokens=24).answers()
        for piece in model.generate("Another prompt", max_tokens=24):
            break
        del piece
        generation = model.generate("A third", max_tokens=24)
        next(generation)
        generation.close()
        self.assertEqual([], list(generation))
        dropped = model.generate("A fourth", max_tokens=24)
        next(dropped)
        del dropped
        gc.collect()
        self.assertEqual(1, len(model._free))
        self.assertEqual(expected, model.generate("Hello", max_tokens=24).answers())
        # Two at once have a sequence each, and leave both.
        one, two = model.generate("Hello", max_tokens=24), model.generate("Other", max_tokens=24)
        pairs = list(zip(one, two))
        self.assertEqual(expected[0].tokens, [first.token for first, _ in pairs])
        list(two)
        self.assertEqual(2, len(model._free))

    def test_interrupted(self):
        model = tenon.LanguageModel(self.file)
        expected = model.generate("Hello", max_tokens=24).answers()
        with self.interrupts():
            while True:
                model.generate("Hello", max_tokens=400, temperature=1).answers()
        self.assertEqual(expected, model.generate("Hello", max_tokens=24).answers())
        self.assertEqual(1, len(model._free))
        with self.interrupts():
            while True:
                model.score(TEXT, window=32)

    @contextlib.contextmanager
    def interrupts(self):
        """Ctrl-C comes while the block runs."""
        with self.assertRaises(KeyboardInterrupt):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            yield

    def test_threads(self):
        expected = [self.model.generate(f"Hello {i}", max_tokens=24, temperature=1, seed=i).answers() for i in range(6)]
        found = [None] * 6

        def work(i):
            found[i] = self.model.generate(f"Hello {i}", max_tokens=24, temperature=1, seed=i).answers()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(expected, found)

    def test_refused(self):
        wrong = [{"top_k": -1}, {"top_k": 260}, {"top_p": 0}, {"top_p": float("nan")}, {"min_p": 2}, {"temperature": "hot"}, {"temperature": -1}, {"seed": -1},
                 {"seed": 2**64}, {"answers": 0}, {"answers": 1001}, {"logit_bias": {259: 1.0}}, {"logit_bias": {2**32: 1.0}}, {"stop": "a\0"},
                 {"max_tokens": 0}, {"max_tokens": 2**70}, {"top_logprobs": 260}, {"repetition_penalty": 0}, {"raw": True, "prompt": [{"role": "user", "content": "x"}]},
                 {"prompt": 5}, {"prompt": [1]}, {"prompt": [{"role": "user"}]}, {"prompt": "", "raw": True}]  # fmt: skip
        for options in wrong:
            with self.subTest(options), self.assertRaises(tenon.UsageError) as raised:
                self.model.generate(**{"prompt": "Hello", **options})
            self.assertEqual("TN0105", raised.exception.id)
        for code, refused in {
            "TN0248": lambda: self.model.generate("\ud800"), "TN0616": lambda: self.model.generate("a" * 600, raw=True),
            "TN0250": lambda: self.model.generate("Hello", template="{% if %}"), "TN0618": lambda: self.model.generate("Hello", template=""),
            "TN0101": lambda: tenon.LanguageModel("/no/such/file"), "TN0211": lambda: tenon.LanguageModel(self.folder),
            "TN0615": lambda: tenon.LanguageModel(self.other_engine()), "TN0617": lambda: tenon.generate(self.broken(), "Hello").answers(),
            "TN0105": lambda: self.model.detokenize([259]),
        }.items():  # fmt: skip
            with self.subTest(code), self.assertRaises(tenon.Error) as raised:
                refused()
            self.assertEqual(code, raised.exception.id)

    def broken(self):
        path = self.folder / "broken.gguf"
        path.write_bytes(language_files.llama(tensors={"output_norm.weight": np.full(language_files.WIDTH, np.nan, np.float32)}))
        return path

    def other_engine(self):
        path = self.folder / "cnn.tenon"
        self.tool("compile", SOURCE / "models/fashion_cnn.onnx", "-o", path)
        return path


if __name__ == "__main__":
    unittest.main()
