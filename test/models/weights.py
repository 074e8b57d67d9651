"""Checks the weight generator against the table of models/README.md, and the committed graphs against their rules.

Relies on onnx, numpy and ONNX Runtime from scripts/requirements.txt.
"""

import os
import pathlib
import re
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "models"))

import fill  # noqa: E402
import inputs  # noqa: E402
import llama_decode  # noqa: E402

GRAPHS = sorted((SOURCE / "models/graphs").glob("*.onnx"))
LARGE = sorted((SOURCE / "models/large").glob("*.onnx"))
# The older exporter writes Swin's masks as thousands of small nodes.
MAX_GRAPH_BYTES = 1280 << 10
MAX_INLINE_FLOATS = 64


def table_of_readme():
    """Rows of seed and float32 bits by index."""
    text = (SOURCE / "models/README.md").read_text()
    header = re.search(r"^\| seed \| index (.*) \|$", text, re.M).group(1)
    indices = [int(cell) for cell in header.split("|")]
    rows = re.findall(r"^\| (\d+) ((?:\| [0-9a-f]{8} )+)\|$", text, re.M)
    return {int(seed): dict(zip(indices, re.findall(r"[0-9a-f]{8}", cells))) for seed, cells in rows}


def faults_of(model):
    """What is wrong with a model as a weightless graph."""
    faults = []
    for tensor in model.graph.initializer:
        keys = fill.recipe(tensor)
        count = int(np.prod(tensor.dims, dtype=np.int64))
        if keys is None:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                faults.append(f"{tensor.name} refers to a file")
            elif tensor.data_type in fill.WIDTHS and count > MAX_INLINE_FLOATS:
                faults.append(f"{tensor.name} carries {count} weights")
        elif set(keys) != {"location", "scale", "center"} or float(keys["scale"]) < 0:
            faults.append(f"{tensor.name} has a bad recipe {keys}")
    return faults


class Generator(unittest.TestCase):
    def test_documented_values(self):
        table = table_of_readme()
        self.assertEqual({0, 1}, set(table))
        for seed, row in table.items():
            state = fill.stream_state("encoder.weight", seed)
            for index, bits in row.items():
                x = fill.encode(fill.values(state, index, index + 1, 0.05, 1.0), onnx.TensorProto.FLOAT)
                self.assertEqual(bits, f"{x.view('<u4')[0]:08x}", f"seed {seed} index {index}")

    def test_any_start_gives_the_same(self):
        state = fill.stream_state("w", 7)
        whole = fill.values(state, 0, 1000, 0.5, -1.0)
        np.testing.assert_array_equal(whole[313:], fill.values(state, 313, 1000, 0.5, -1.0))

    def test_moments(self):
        x = fill.values(fill.stream_state("w", 0), 0, 1 << 18, 3**0.5, 2.0)
        self.assertAlmostEqual(2.0, x.mean(), delta=0.01)
        self.assertAlmostEqual(1.0, x.std(), delta=0.01)
        self.assertLess(abs(np.corrcoef(x[:-1], x[1:])[0, 1]), 0.01)

    def test_narrow_types(self):
        x = np.array([1.0, -2.5, 1 + 2**-9, 1 + 3 * 2**-9])
        half = fill.encode(x, onnx.TensorProto.FLOAT16).view(np.float16)
        np.testing.assert_array_equal(x, half.astype(np.float64))
        brain = fill.encode(x, onnx.TensorProto.BFLOAT16).astype(np.uint32) << 16
        np.testing.assert_array_equal([1, -2.5, 1, 1 + 2**-7], brain.view(np.float32))


class Graphs(unittest.TestCase):
    def test_all_there(self):
        names = {path.name.split(".")[0] for path in GRAPHS}
        self.assertEqual({"resnet50", "mobilenet_v2", "vit_b16", "bert_base", "minilm_l6", "gpt2", "swin_t", "unet", "ssdlite",
                          "faster_rcnn", "t5_encoder", "t5_decoder", "whisper_encoder", "whisper_decoder", "greedy_loop",
                          "lstm"}, names)

    def test_rules(self):
        self.assertEqual(2, len(LARGE))
        for path in [*GRAPHS, *LARGE]:
            with self.subTest(path.name):
                self.assertLess(path.stat().st_size, MAX_GRAPH_BYTES)
                self.assertEqual([], faults_of(onnx.load(str(path), load_external_data=False)))

    def test_llama_is_what_its_script_writes(self):
        committed = onnx.load(str(SOURCE / "models/large/llama_1b_decode.onnx"), load_external_data=False)
        self.assertEqual(committed, llama_decode.build(llama_decode.Shape()))

    def test_planted_faults(self):
        model = onnx.load(str(GRAPHS[0]), load_external_data=False)
        seeded = [tensor for tensor in model.graph.initializer if fill.recipe(tensor)]
        seeded[0].external_data[0].value = "weights.bin"
        del seeded[1].external_data[2:]
        weights = onnx.numpy_helper.from_array(np.ones(MAX_INLINE_FLOATS + 1, np.float32), "planted")
        model.graph.initializer.append(weights)
        self.assertEqual(3, len(faults_of(model)))

    def test_filled_model_runs_and_varies(self):
        graph = SOURCE / "models/graphs/mobilenet_v2.dynamo.onnx"
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / "model.onnx"
            fill.fill(graph, target)
            onnx.checker.check_model(str(target), full_check=True)
            session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
            model = onnx.load(str(graph), load_external_data=False)
            outputs = [session.run(None, inputs.make_inputs(model, {"batch": 1}, seed))[0] for seed in (0, 1)]
        self.assertTrue(np.isfinite(outputs[0]).all())
        difference = np.linalg.norm(outputs[0] - outputs[1]) / np.linalg.norm(outputs[0])
        self.assertGreater(difference, 0.05)


class Inputs(unittest.TestCase):
    def test_tokens_in_range(self):
        model = onnx.load(str(SOURCE / "models/graphs/bert_base.dynamo.onnx"), load_external_data=False)
        made = inputs.make_inputs(model, {"batch": 3, "sequence": 40}, 5)
        self.assertEqual({"input_ids", "attention_mask", "token_type_ids"}, set(made))
        self.assertTrue(((made["input_ids"] >= 0) & (made["input_ids"] < 30522)).all())
        self.assertEqual({0, 1}, set(np.unique(made["token_type_ids"])))
        mask = made["attention_mask"]
        self.assertTrue((np.diff(mask, axis=1) <= 0).all() and mask[:, 0].all() and not mask.all())


if __name__ == "__main__":
    unittest.main()
