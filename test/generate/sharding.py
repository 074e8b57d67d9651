"""Cuts of language models for several GPUs: what is predicted, and all ranks on the reference beside one.

Messages are taken to cost next to nothing, so that models this small are cut at all.
"""

import json
import os
import pathlib
import re
import shlex
import struct
import unittest

import folders
import models
import numpy as np
from models import Model, Type
from tool import ToolTest

TOLERANCE = 1e-9  # of the largest element, in float64
FREE, NEARLY_FREE = ("--all-reduce", "0.000001us"), ("--all-reduce", "0.001us")
PAGE = pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "docs/guides/several-gpus.md"
KEYS = pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "docs/reference/explain-sharding.md"
# Llama 3's sizes: width, inner, layers, heads, key heads, width of a head, whether the head is the embedding.
SHAPES = {"llama-1b": (2048, 8192, 16, 32, 8, 64, True), "llama-8b": (4096, 14336, 32, 32, 8, 128, False), "llama-70b": (8192, 28672, 80, 64, 8, 128, False)}
VOCABULARY = 128256
FILES = {
    "q8": Model("llama", types=[Type.Q8_0], heads=8, key_heads=4, head=32, pairs=True),
    "q4": Model("llama", types=[Type.Q4_0], heads=8, key_heads=2, head=32, pairs=True),
    "one key head": Model("llama", heads=4, key_heads=1, head=16, width=64, inner=96, pairs=True),
}


def sparse(shape, path):
    """A folder with headers alone: its weights are a hole in the file."""
    width, inner, layers, heads, key_heads, head, is_tied = SHAPES[shape]
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
              "num_key_value_heads": key_heads, "head_dim": head, "vocab_size": VOCABULARY, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 8192, "hidden_act": "silu",
              "tie_word_embeddings": is_tied, "torch_dtype": "bfloat16", "bos_token_id": 0}  # fmt: skip
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text(json.dumps(folders.byte_level()))
    tensors = {"model.embed_tokens": (VOCABULARY, width), "model.norm": (width,)} | ({} if is_tied else {"lm_head": (VOCABULARY, width)})
    for layer in range(layers):
        of_layer = {"input_layernorm": (width,), "post_attention_layernorm": (width,), "self_attn.q_proj": (heads * head, width), "self_attn.k_proj": (key_heads * head, width),
                    "self_attn.v_proj": (key_heads * head, width), "self_attn.o_proj": (width, heads * head), "mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width),
                    "mlp.down_proj": (width, inner)}  # fmt: skip
        tensors |= {f"model.layers.{layer}.{name}": dims for name, dims in of_layer.items()}
    header, end = {}, 0
    for name, dims in tensors.items():
        begin, end = end, end + 2 * int(np.prod(dims))
        header[f"{name}.weight"] = {"dtype": "BF16", "shape": dims, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return path


class Sharding(ToolTest):
    write = folders.Folders.write

    def explain(self, model, *flags):
        return json.loads(self.tool("explain", "sharding", model, "--json", *flags))

    def check(self, model, tp, *flags):
        """All ranks equal one; gives what is said of each number of ranks."""
        options = self.explain(model, "--tp", tp, "--check", *flags)["options"]
        for option in options:
            self.assertLess(option["difference"], TOLERANCE, (model, flags, option["tp"], option["differs"]))
        return {option["tp"]: option for option in options}

    def cuts(self, option):
        return {row["name"].rsplit(".", 1)[-1]: row["cut"] for row in option["matrices"]}

    def test_families(self):
        for name, model in folders.MODELS.items():
            with self.subTest(name):
                path, _ = self.write(name, **folders.FORMS[name])
                self.check(path, "3,4", *FREE)
                for flags in (NEARLY_FREE, (*NEARLY_FREE, "--pages", "5")):
                    option = self.check(path, "2", *flags)[2]
                    cuts = self.cuts(option)
                    self.assertLessEqual({"column", "row"}, set(cuts.values()))
                    # Caches go by heads, and a layer has one sum for each half, or one for both.
                    one = self.explain(path, "--tp", "1", *flags)["options"][0]
                    if name != "gemma3":  # which has fewer heads to gain by
                        self.assertEqual(one["cache_bytes_of_token"], 2 * option["cache_bytes_of_token"])
                        sums = sum(each["count"] for each in option["runs"][0]["messages"])
                        self.assertEqual(model.layers * (1 if model.parallel else 2) + 1, sums)

    def test_files(self):
        for name, model in FILES.items():
            with self.subTest(name):
                path = self.folder / f"{name}.gguf"
                models.write(model, path)
                option = self.check(path, "2,4", *FREE)[2]
                self.assertLessEqual({"column", "row"}, set(self.cuts(option).values()))

    def test_known_answers(self):
        """Figures that follow from shapes by hand, on a GPU whose kernels start in no time: weights in GB, bytes of cache a token, sums of a token, and how much faster."""
        profile = self.folder / "no_starts.json"
        profile.write_text(json.dumps({"schema": "tenon.device-profile/1", "cuda": {"launch_s": 1e-12}}))
        expected = {
            ("llama-8b", "4.2us"): {1: (16.1, 131072, 0, 1), 2: (8.6, 65536, 64, 1.73), 4: (4.8, 32768, 64, 3.06)},
            ("llama-8b", "9us"): {2: (8.6, 65536, 64, 1.50), 4: (4.8, 32768, 64, 2.41)},
            ("llama-70b", "4.2us"): {1: (141.1, 327680, 0, 1), 2: (71.6, 163840, 160, 1.92), 4: (36.9, 81920, 160, 3.69)},
        }  # fmt: skip
        for (shape, time), options in expected.items():
            told = self.explain(self.shape(shape), "--tp", "1,2,4", "--all-reduce", time, "--device-profile", profile)["options"]
            for option in told:
                if option["tp"] not in options:
                    continue
                weights, cache, sums, speedup = options[option["tp"]]
                with self.subTest(shape, time=time, tp=option["tp"]):
                    self.assertEqual(weights, round(option["weight_bytes"] / 1e9, 1))
                    self.assertEqual(cache, option["cache_bytes_of_token"])
                    found = [each for each in option["runs"][0]["messages"] if each["kind"] == "all-reduce"]
                    self.assertEqual([(sums, SHAPES[shape][0] * 2)] if sums else [], [(each["count"], each["bytes"]) for each in found])
                    self.assertAlmostEqual(speedup, option["runs"][0]["speedup"], delta=0.006)

    def test_a_small_model_gains_nothing_by_the_usual_cuts(self):
        path = self.shape("llama-1b")
        pins = [f"--pin=*{part}={cut}" for cut, parts in (("column", ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "lm_head")), ("row", ("o_proj", "down_proj"))) for part in parts]
        usual, found = (self.explain(path, "--tp", "2", "--all-reduce", "9us", *flags)["options"][0] for flags in (pins, []))
        self.assertAlmostEqual(1.00, usual["runs"][0]["speedup"], delta=0.02)
        self.assertFalse(usual["worth_it"])
        self.assertGreater(found["runs"][0]["speedup"], usual["runs"][0]["speedup"])

    def row(self, shape, option):
        """A line of the page's table."""
        token, prompt = option["runs"]
        sums = [next((each for each in run["messages"] if each["kind"] == "all-reduce"), {"count": 0, "bytes": 0}) for run in (token, prompt)]
        of_token, of_prompt = (each["count"] * each["bytes"] for each in sums)
        cells = (shape, option["tp"], f"{option['weight_bytes'] / 1e9:.1f} GB", f"{option['cache_bytes_of_token'] / 1e3:.1f} KB", sums[0]["count"], f"{of_token / 1024:.0f} KiB",
                 f"{of_prompt / 2**20:.0f} MiB", f"{token['us'] / 1e3:.2f} ms", f"{token['speedup']:.2f} x", f"{prompt['speedup']:.2f} x")  # fmt: skip
        return "| " + " | ".join(map(str, cells)) + " |"

    def shape(self, name):
        path = self.folder / name
        return path if path.exists() else sparse(name, path)

    def test_page(self):
        """The table and the output on the page, and the keys on that of the data, are the tool's, and its commands run."""
        page, rows = PAGE.read_text(), []
        for shape in SHAPES:
            told = self.explain(self.shape(shape), "--tp", "1,2,4", "--pp", "2")
            rows += [self.row(shape, option) for option in self.explain(self.shape(shape), "--tp", "1,2,4")["options"]]
        self.assertIn("\n".join(rows), page)
        folder = str(self.folder) + "/"
        output = self.tool("explain", "sharding", self.shape("llama-8b"), "--tp", "1,2").replace(folder, "")
        self.assertIn(output.rstrip(), page)
        for command in re.findall("^tenon explain sharding llama-8b (.*)$", page, re.M):
            self.tool("explain", "sharding", self.shape("llama-8b"), *shlex.split(command))
        option = told["options"][1]
        for key in {*told, *told["pipeline"], *option, *option["runs"][0], *option["runs"][0]["messages"][0], *option["matrices"][0]} - {"schema"}:
            self.assertRegex(KEYS.read_text(), f"`{key}(\\[\\])?`")

    def test_stages(self):
        """About half of time and memory on each of two GPUs; few values pass; eight micro-batches wait a ninth of the time."""
        for shape, pays in (("llama-8b", False), ("llama-70b", True)):
            one, two = (self.explain(self.shape(shape), "--tp", "1", "--pp", stages)["options"][0] for stages in (1, 2))
            stages = two["stages"]
            self.assertEqual(one["cache_bytes_of_token"], sum(stage["cache_bytes_of_token"] for stage in stages))
            # The residual stream, and at most what is between the two halves of a feed-forward part.
            self.assertEqual(0, stages[0]["received_bytes"])
            self.assertIn(stages[1]["received_bytes"] // (SHAPES[shape][0] * 2), range(1, 6))
            self.assertEqual("lm_head", stages[1]["last"])
            weights = [stage["weight_bytes"] for stage in stages]
            self.assertAlmostEqual(one["weight_bytes"], sum(weights), delta=one["weight_bytes"] / 100)
            self.assertLess(max(weights), 0.55 * sum(weights))
            self.assertEqual(pays, two["stages_pay"] != "", two["stages_pay"])
        self.assertAlmostEqual(1 / 9, self.explain(self.shape("llama-1b"), "--tp", "1", "--pp", "2")["pipeline"]["bubble"])


if __name__ == "__main__":
    unittest.main()
