"""`tenon quantize` of language models: what the package gguf reads of the file, its logits beside float64, and its keys and tokenizer beside the source's."""

import dataclasses
import json
import unittest

import folders
import gguf
import models
import numpy as np
from logits import MODELS
from models import Type
from tool import ToolTest

TOLERANCE = 1e-4  # of the largest logit
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
CHANGED = {"general.file_type", "general.quantization_version"}
MODEL_KEYS = ("kind", "tokens", "merges", "special", "patterns", "ends", "adds_bos")


def keys_of(path):
    reader = gguf.GGUFReader(path)
    return {name: ([int(kind) for kind in field.types], field.contents()) for name, field in reader.fields.items() if not name.startswith("GGUF.")}


def weights_of(path):
    """By name, the type and the numbers in float64."""
    return {tensor.name: (tensor.tensor_type, gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float64).reshape(tensor.shape[::-1]))
            for tensor in gguf.GGUFReader(path).tensors}  # fmt: skip


def error_of(found, expected):
    return np.sqrt(((found - expected) ** 2).sum() / (expected**2).sum())


class Quantize(ToolTest):
    def quantized(self, source, bits):
        output = self.folder / f"{source.name}.{bits}.gguf"
        return output, json.loads(self.tool("quantize", source, "--weights", f"int{bits}", "-o", output, "--json"))

    def logits(self, path, tokens):
        engine = self.folder / "quantized.tenon"
        self.tool("compile", path, "-o", engine, "--pages", 0, "--target", "cpu:native", "--quiet")
        count = len(tokens)
        np.savez(self.folder / "in.npz", tokens=np.array(tokens), start=np.array([0]), rows=np.arange(count), context=np.arange(count))
        self.tool("run", engine, "--inputs", self.folder / "in.npz", "-o", self.folder / "out.npz")
        return np.load(self.folder / "out.npz")["logits"]

    def check_logits(self, model, path):
        tokens = list(np.random.default_rng(1).integers(0, 256, 24))
        expected = models.logits(model, {name: values for name, (_, values) in weights_of(path).items()}, tokens)
        found = self.logits(path, tokens)
        self.assertLess(np.abs(found - expected).max() / np.abs(expected).max(), TOLERANCE)

    def check(self, model, bits, wide, narrow):
        """Matrices in rows of multiples of 256 are to be `wide`, others `narrow`, tables as rows of theirs allow."""
        source = self.folder / f"{model.family}{model.width}{model.types[0].name}.gguf"
        before = models.write(model, source)
        output, told = self.quantized(source, bits)
        kept, made = keys_of(source), keys_of(output)
        self.assertEqual({key: kept[key] for key in kept.keys() - CHANGED}, {key: made[key] for key in made.keys() - CHANGED})
        after = weights_of(output)
        self.assertEqual(list(weights_of(source)), list(after))
        for name, (kind, values) in after.items():
            if values.ndim == 1:
                self.assertEqual(Type.F32, kind, name)
                np.testing.assert_array_equal(before[name], values)
                continue
            rows = values.shape[-1] % 256 == 0
            table = name in ("token_embd.weight", "output.weight") and bits == 4
            self.assertEqual((Type.Q6_K if rows else Type.Q8_0) if table else wide if rows else narrow, kind, name)
            error = error_of(values, before[name])
            if kind in (Type.Q4_1, Type.Q8_0):
                # The package rounds to the range of a block; the search may not be worse.
                rounded = gguf.dequantize(gguf.quantize(before[name].astype(np.float32), kind), kind)
                self.assertLessEqual(error, error_of(rounded, before[name]) * (0.97 if kind == Type.Q4_1 else 1.001), name)
            self.assertLess(error, {Type.Q4_1: 0.08, Type.Q4_K: 0.09, Type.Q6_K: 0.025, Type.Q8_0: 0.008}[kind], name)
        for row in told["types"]:
            names = [name for name, (kind, _) in after.items() if kind.name == row["type"]]
            self.assertEqual(len(names), row["tensors"])
            squares = sum((before[name] ** 2).sum() for name in names)
            errors = sum(((after[name][1] - before[name]) ** 2).sum() for name in names)
            self.assertAlmostEqual(np.sqrt(errors / squares), row["error"], delta=1e-5)
        self.check_logits(model, output)
        return output

    def test_int4(self):
        output = self.check(dataclasses.replace(MODELS["llama"], types=[Type.F32]), 4, Type.Q4_K, Type.Q4_1)
        self.assertIn("text", self.tool("generate", output, "hello", "--max-tokens", 3, "--json"))
        self.check(dataclasses.replace(MODELS["qwen3"], types=[Type.F16], width=96, inner=160), 4, Type.Q4_K, Type.Q4_1)

    def test_int8(self):
        self.check(dataclasses.replace(MODELS["qwen2"], types=[Type.BF16]), 8, Type.Q8_0, Type.Q8_0)

    def test_what_is_small_stays(self):
        source = self.folder / "mixed.gguf"
        models.write(dataclasses.replace(MODELS["llama"], types=[Type.Q4_0, Type.Q8_0, Type.Q4_1]), source)
        before, after = weights_of(source), weights_of(self.quantized(source, 4)[0])
        for name, (kind, values) in before.items():
            expected = {Type.Q4_1: Type.Q4_K, Type.Q8_0: Type.Q6_K if name == "token_embd.weight" else Type.Q4_K}.get(kind, kind)
            expected = kind if name == "token_embd.weight" and kind != Type.Q8_0 else expected
            self.assertEqual(expected, after[name][0], name)
            if expected == kind:
                np.testing.assert_array_equal(values, after[name][1])

    def test_parts(self):
        source = self.folder / "parts.gguf"
        models.write(dataclasses.replace(MODELS["llama"], types=[Type.F32]), source, tensors_of_part=7)
        first = sorted(self.folder.glob("parts-00001-of-*.gguf"))[0]
        output, _ = self.quantized(first, 8)
        self.assertFalse([key for key in keys_of(output) if key.startswith("split.")])
        self.check_logits(MODELS["llama"], output)

    def check_folder(self, name, pairs, **changes):
        model = folders.MODELS[name]
        path, _ = folders.Folders.write(self, name, **changes)
        output, _ = self.quantized(path, 8)
        self.check_logits(dataclasses.replace(model, pairs=pairs), output)
        tokens = [1, 50, 7, 200, 3]
        whole, rounded = self.logits(path, tokens), self.logits(output, tokens)
        self.assertLess(np.abs(whole - rounded).max() / np.abs(whole).max(), 0.05)
        told, expected = (json.loads(self.tool("inspect", each, "--json"))["language"] for each in (output, path))
        self.assertEqual({key: expected["tokenizer"][key] for key in MODEL_KEYS}, {key: told["tokenizer"][key] for key in MODEL_KEYS})
        self.assertEqual(expected["template"], told["template"])
        for text in folders.TEXTS[2:8]:
            self.assertEqual(*(self.tool("tokenize", each, text, "--json") for each in (output, path)))
        return output

    def test_folders(self):
        for name, pairs in {"llama": True, "qwen2": False, "qwen3": False, "smollm3": True}.items():
            with self.subTest(name):
                self.check_folder(name, pairs)
        self.check_folder("llama3", True, rope_parameters=LLAMA3)

    def test_loss(self):
        source, text = self.folder / "loss.gguf", self.folder / "text.txt"
        models.write(dataclasses.replace(MODELS["llama"], types=[Type.F32]), source)
        text.write_text("the sun rises in the east " * 20)
        told = json.loads(self.tool("quantize", source, "--weights", "int4", "--text", text, "--json", "-o", self.folder / "loss4.gguf"))["text"]
        score = json.loads(self.tool("score", self.folder / "loss4.gguf", "--text", text, "--against", source, "--json"))
        self.assertAlmostEqual(score["perplexity"]["value"], told["perplexity"], places=3)
        self.assertAlmostEqual(score["kl_divergence"]["mean"], told["kl_divergence"]["mean"], places=6)
        self.assertGreater(told["kl_divergence"]["mean"], 0)

    def refused(self, *arguments):
        done = self.run_tool("quantize", *arguments)
        self.assertNotEqual(0, done.returncode)
        return done.stderr

    def test_refused(self):
        source = self.folder / "plain.gguf"
        models.write(MODELS["llama_floats"], source)
        self.assertIn("--weights int4", self.refused(source))
        self.assertIn("written as GGUF", self.refused(source, "--weights", "int4", "-o", self.folder / "out.onnx"))
        self.assertIn("no effect", self.refused(source, "--weights", "int4", "--dynamic"))
        self.assertIn("TN0111", self.refused(source, "--weights", "int4", "-o", source))
        scored, _ = folders.Folders.write(self, "mistral", tokenizer=folders.TOKENIZERS["llama2"])
        self.assertIn("TN0301", self.refused(scored, "--weights", "int4"))
        damaged = bytearray(source.read_bytes())
        place = damaged.rindex(bytes(weights_of_bytes(source, "blk.1.ffn_down.weight"))[:32])
        damaged[place : place + 8] = b"\xff" * 8
        (self.folder / "nan.gguf").write_bytes(damaged)
        output = self.folder / "nan4.gguf"
        self.assertIn("not finite", self.refused(self.folder / "nan.gguf", "--weights", "int4", "-o", output))
        self.assertFalse(output.exists())


def weights_of_bytes(path, name):
    return next(tensor.data.tobytes() for tensor in gguf.GGUFReader(path).tensors if tensor.name == name)


if __name__ == "__main__":
    unittest.main()
