"""What `inspect` says of a language model, of its file and its engine alike; and that `explain` and `profile` name layers as the file does."""

import dataclasses
import json
import pathlib
import unittest

import folders
import models
from logits import MODELS
from tool import ToolTest


class Shown(ToolTest):
    def written(self, name):
        path = self.folder / f"{name}.gguf"
        if not path.exists():
            models.write(MODELS[name], path)
        return path

    def engine(self, path):
        made = self.folder / f"{pathlib.Path(path).name}.tenon"
        self.tool("compile", path, "-o", made, "--target", "cpu:native", "--quiet")
        return made

    def told(self, path):
        return json.loads(self.tool("inspect", path, "--json"))["language"]

    def test_switches(self):
        gemma = self.told(self.written("gemma3"))
        switches = gemma["switches"]
        self.assertEqual("gemma3", gemma["family"])
        self.assertEqual(("rms", True, True), tuple(switches[key] for key in ("norm", "normalizes_heads", "normalizes_results")))
        rope = {"form": "halves", "elements": 32, "base": 1e6, "window_base": 1e4, "scaling": "linear", "factor": 8.0}
        self.assertEqual(rope, {key: switches["rope"][key] for key in rope})
        self.assertEqual({"length": 16, "layers": [0, 1, 2, 3, 4]}, switches["window"])
        self.assertEqual((4, 2, 32), tuple(switches[key] for key in ("heads", "key_heads", "key_width")))
        self.assertEqual(("gelu_tanh", True, True), tuple(switches[key] for key in ("activation", "gated", "tied_output")))
        capped = self.told(self.written("gemma2"))["switches"]
        self.assertEqual((2.0, 3.0), (capped["score_cap"], capped["logit_cap"]))
        self.assertEqual(["attn_k", "attn_q", "attn_v"], sorted(self.told(self.written("qwen2"))["switches"]["biases"]))
        neox = self.told(self.written("gptneox"))["switches"]
        self.assertEqual(("layer", True, False, False), tuple(neox[key] for key in ("norm", "parallel", "gated", "tied_output")))
        self.assertEqual([3], self.told(self.written("smollm3"))["switches"]["rope"]["layers_without"])
        self.assertEqual("longrope", self.told(self.written("longrope"))["switches"]["rope"]["scaling"])
        self.assertEqual("yarn", self.told(self.written("yarn"))["switches"]["rope"]["scaling"])

    def test_text(self):
        told = self.told(self.written("llama"))
        self.assertEqual({"kind": "byte_level", "pre_tokenizer": "gpt-2", "tokens": 259, "merges": 1},
                         {key: told["tokenizer"][key] for key in ("kind", "pre_tokenizer", "tokens", "merges")})  # fmt: skip
        self.assertEqual([{"token": 256, "text": "<|start|>"}, {"token": 257, "text": "<|end|>"}], told["tokenizer"]["special"])
        self.assertEqual((-1, 257, [257], False), tuple(told["tokenizer"][key] for key in ("bos", "eos", "ends", "adds_bos")))
        self.assertEqual(["add_generation_prompt", "messages"], told["template"]["uses"]["variables"])
        self.assertEqual(["for", "if"], told["template"]["uses"]["statements"])
        shown = self.tool("inspect", self.written("llama"))
        for part in ("family  llama, 2 layers", "rope    pairs of 64 elements", "pre-tokenizer gpt-2", f"template {len(models.CHAT)} bytes", "| {% for m in messages %}"):
            self.assertIn(part, shown)

    def test_refused_template(self):
        path = self.folder / "refused.gguf"
        models.write(dataclasses.replace(MODELS["llama"], template="{{ bos_token }}\n{% import 'x' %}"), path)
        self.assertIn("line 2", self.told(path)["template"]["refused"])
        self.assertIn("line 2", self.tool("inspect", path))

    def test_engine_says_the_same(self):
        path = self.written("llama")
        of_file, of_engine = self.told(path), self.told(self.engine(path))
        memory = of_engine.pop("memory")
        self.assertEqual({"tokens", "positions", "slots", "starts", "lengths", "pages", "rows"}, of_engine["ports"].keys())
        self.assertEqual(of_file, of_engine)
        self.assertEqual(512, memory["positions"])
        self.assertEqual(of_file["cache_bytes"], memory["bytes_per_token"])
        self.assertGreater(memory["longest"], 0)

    def labels(self, engine):
        return [region["label"] for region in json.loads(self.tool("explain", "fusion", engine, "--json"))["regions"]]

    def test_layers_of_a_file(self):
        engine = self.engine(self.written("llama"))
        labels = self.labels(engine)
        for part in ("attn_q", "attn_k", "attn_v", "attn_norm", "ffn_up", "ffn_norm"):
            self.assertIn(f"blk.1.{part}", labels)
        for part in ("attn_output", "ffn_gate", "ffn_down"):  # with what is fused behind
            self.assertTrue(any(label.split("+")[0] == f"blk.1.{part}" for label in labels), labels)
        self.assertIn("output", labels)
        self.assertTrue(any(label.startswith("token_embd") for label in labels), labels)
        profile = json.loads(self.tool("profile", engine, "--json", "--seconds", "0.05", "--quiet"))
        self.assertIn("ffn_down", json.dumps(profile))

    def test_layers_of_a_folder(self):
        path, *_ = folders.Folders.write(self, "llama")
        labels = self.labels(self.engine(path))
        for part in ("self_attn.q_proj", "self_attn.v_proj", "input_layernorm", "mlp.up_proj"):
            self.assertIn(f"model.layers.1.{part}", labels)
        for part in ("self_attn.o_proj", "mlp.down_proj"):
            self.assertTrue(any(label.split("+")[0] == f"model.layers.1.{part}" for label in labels), labels)
        self.assertIn("model.layers.0.self_attn", labels)
        self.assertIn("lm_head", labels)
        self.assertFalse(any("blk." in label for label in labels), labels)


if __name__ == "__main__":
    unittest.main()
