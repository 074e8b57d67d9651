"""`tenon quantize`: the demo's CNN on real pictures, a CNN with every form of layer and a small transformer. ONNX Runtime loads what it writes
and agrees with Tenon, the numbers stay near those of FP32, and weights take a quarter. A planted outlier is named first; bad input is an
error before work, and nothing is left of it.
"""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from float_nets import Net, cnn, transformer
from peer import by_peer
from tool import CNN, SOURCE, TENON, ToolTest

PICTURES = pathlib.Path("/usr/share/datasets/fashion-mnist")


def loss(actual, expected):
    """The error relative to the signal, both as mean squares."""
    return float(np.mean((actual - expected) ** 2) / np.mean(expected ** 2))


class Quantize(ToolTest):
    def save(self, model, name):
        onnx.save(model, self.folder / name)
        return self.folder / name

    def quantize(self, model, data, output, *flags):
        np.savez(self.folder / "calib.npz", **data)
        return json.loads(self.succeed("quantize", model, "--data", "calib.npz", "-o", output, "--json", *flags).stdout)

    def by_tenon(self, path, inputs):
        np.savez(self.folder / "in.npz", **inputs)
        self.succeed("run", path, "--inputs", "in.npz", "-o", "out.npz", "--target", "cpu:native")
        with np.load(self.folder / "out.npz") as arrays:
            return arrays[arrays.files[0]]

    def agree(self, path, inputs):
        """Tenon's numbers of a quantized model, which are the peer's but for values half way between two levels."""
        ours, theirs = self.by_tenon(path, inputs), by_peer(path, inputs)
        self.assertLess(loss(ours, theirs), 2e-4)
        return ours

    def test_cnn(self):
        model = self.save(cnn(), "cnn.onnx")
        random = np.random.default_rng(3)
        report = self.quantize(model, {"image": random.standard_normal((32, 3, 32, 32)).astype(np.float32)}, "cnn8.onnx")
        self.assertEqual(report["schema"], "tenon.quantize/1")
        treatment = {layer["name"]: (layer["treatment"], layer["reason"]) for layer in report["layers"]}
        self.assertEqual(treatment.pop("stem"), ("wide", "first layer"))
        self.assertEqual(treatment.pop("head")[1], "last layer")
        self.assertEqual({what for what, _ in treatment.values()}, {"int8"})
        written = onnx.load(self.folder / "cnn8.onnx")
        onnx.checker.check_model(written, full_check=True)
        kinds = [node.op_type for node in written.graph.node]
        # Norms but that of the stem, which is wide, are in the weights.
        self.assertEqual(kinds.count("BatchNormalization"), 1)
        # The convolution that ends in the sum is not rounded before it; the sum's other operand is.
        adds = next(node for node in written.graph.node if node.name == "residual")
        self.assertFalse(adds.input[0].endswith("_dequantized"))
        self.assertTrue(adds.input[1].endswith("_dequantized"))
        inputs = {"image": random.standard_normal((8, 3, 32, 32)).astype(np.float32)}
        self.assertLess(loss(self.agree(self.folder / "cnn8.onnx", inputs), by_peer(model, inputs)), 5e-3)

    def test_scales_pass_through_movement(self):
        model = self.save(cnn(), "cnn.onnx")
        self.quantize(model, {"image": np.random.default_rng(3).standard_normal((8, 3, 32, 32)).astype(np.float32)}, "cnn8.onnx")
        written = onnx.load(self.folder / "cnn8.onnx")
        scale = {node.input[0]: node.input[1] for node in written.graph.node if node.op_type == "QuantizeLinear"}
        self.assertEqual(scale["joined"], scale["groups_relu"])
        self.assertEqual(scale["joined"], scale["branch_relu"])
        self.assertEqual(scale["pool"], scale["stem_relu"])
        self.assertNotEqual(scale["block1_relu"], scale["pool"])

    def test_what_is_not_named_stays(self):
        model = cnn()
        model.metadata_props.add(key="classes", value="a,b")
        model.doc_string = "a text"
        model.graph.node[1].doc_string = "of a node"
        path = self.save(model, "cnn.onnx")
        self.quantize(path, {"image": np.ones((4, 3, 32, 32), np.float32) * np.arange(4)[:, None, None, None].astype(np.float32)}, "cnn8.onnx")
        written = onnx.load(self.folder / "cnn8.onnx")
        self.assertEqual(written.metadata_props[0], model.metadata_props[0])
        self.assertEqual((written.doc_string, written.graph.name), ("a text", "net"))
        self.assertEqual(written.graph.input, model.graph.input)
        self.assertEqual(written.graph.output, model.graph.output)
        stays = {node.name: node for node in written.graph.node}
        self.assertEqual(stays["stem_norm"], model.graph.node[1])
        self.assertEqual(stays["mean"].op_type, "GlobalAveragePool")

    def test_transformer(self):
        model = self.save(transformer(), "transformer.onnx")
        random = np.random.default_rng(4)
        report = self.quantize(model, {"ids": random.integers(0, 1000, (32, 16))}, "transformer8.onnx")
        treatment = {layer["name"]: (layer["treatment"], layer["reason"]) for layer in report["layers"]}
        for i in range(2):
            self.assertEqual(treatment.pop(f"mixed{i}"), ("wide", "softmax by values"))
            self.assertEqual(treatment.pop(f"scores{i}"), ("wide", "scores of attention"))
        self.assertEqual({what for what, _ in treatment.values()}, {"int8"})
        self.assertEqual(report["embeddings"], 1)
        written = onnx.load(self.folder / "transformer8.onnx")
        read = {name for node in written.graph.node for name in node.input}
        self.assertEqual({tensor.name for tensor in written.graph.initializer} - read, set())
        inputs = {"ids": random.integers(0, 1000, (8, 16))}
        self.assertLess(loss(self.agree(self.folder / "transformer8.onnx", inputs), by_peer(model, inputs)), 5e-3)

    def test_files_take_a_quarter(self):
        model = self.save(transformer(width=256, words=4000, layers=1), "large.onnx")
        report = self.quantize(model, {"ids": np.random.default_rng(4).integers(0, 4000, (8, 16))}, "large8.onnx")
        self.assertEqual(report["bytes_before"], model.stat().st_size)
        self.assertEqual(report["bytes_after"], (self.folder / "large8.onnx").stat().st_size)
        self.assertLess(report["bytes_after"], 0.28 * report["bytes_before"])

    @unittest.skipUnless(PICTURES.exists(), "dataset-fashion-mnist is not installed")
    def test_demo_on_real_pictures(self):
        with gzip.open(PICTURES / "t10k-images-idx3-ubyte.gz") as stream:
            pictures = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28).astype(np.float32) / 255
        with gzip.open(PICTURES / "t10k-labels-idx1-ubyte.gz") as stream:
            labels = np.frombuffer(stream.read(), np.uint8, offset=8)
        self.quantize(CNN, {"image": pictures[:300]}, "demo8.onnx")
        inputs = {"image": pictures[300:3300]}
        before, after = (np.mean(np.argmax(by_peer(path, inputs), 1) == labels[300:3300]) for path in (CNN, self.folder / "demo8.onnx"))
        self.assertGreater(after, before - 0.005)
        self.agree(self.folder / "demo8.onnx", {"image": pictures[300:364]})

    @unittest.skipUnless(PICTURES.exists(), "dataset-fashion-mnist is not installed")
    def test_page(self):
        """docs/guides/quantize.md and docs/explanation/quantize-methods.md as they stand."""
        page = (SOURCE / "docs/guides/quantize.md").read_text() + (SOURCE / "docs/explanation/quantize-methods.md").read_text()
        folder = self.folder / "page"
        folder.mkdir()
        shutil.copy(CNN, folder / "model.onnx")
        shutil.copy(CNN, folder / "model.fp16.onnx")  # of other floats: test_models_of_other_floats
        environment = dict(self.environment, PATH=f"{TENON.parent}:{os.environ['PATH']}")
        printed = ""
        for kind, code in re.findall(r"^```(sh|python)\n(.*?)^```", page, re.M | re.S):
            command = ["sh", "-e", "-c", code] if kind == "sh" else [sys.executable, "-c", code]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{code}\n{done.stderr}")
            printed += done.stdout
        shown = re.search(r"^```\n(model.*?)^```", page, re.M | re.S)[1]
        for line in shown.splitlines()[1:]:
            self.assertIn(line.rstrip(), [printed_line.rstrip() for printed_line in printed.splitlines()])
        self.assertLess((folder / "model.int8.onnx").stat().st_size, 0.3 * CNN.stat().st_size)
        self.assertTrue((folder / "model.tenon").exists())

    def test_range_methods(self):
        model = self.save(transformer(), "transformer.onnx")
        data = {"ids": np.random.default_rng(4).integers(0, 1000, (16, 16))}
        ranges = {}
        for method in ("minmax", "moving-average", "percentile", "mse", "entropy"):
            report = self.quantize(model, data, f"{method}.onnx", "--ranges", method, "--no-smoothing")
            ranges[method] = {tensor["name"]: tensor for tensor in report["tensors"]}
        for name, tensor in ranges["minmax"].items():
            self.assertLessEqual(tensor["range"][0], 0)
            self.assertAlmostEqual(tensor["range"][1], max(tensor["seen"][1], 0), places=5)
            for method in ranges:
                self.assertLessEqual(ranges[method][name]["decibels"], ranges["mse"][name]["decibels"] + 0.05, f"{name} by {method}")
            # Entropy never keeps a range that is worse than the whole one.
            self.assertGreaterEqual(ranges["entropy"][name]["decibels"], tensor["decibels"] - 1e-6)

    def test_entropy_is_refused_by_name(self):
        net = Net()
        x = net.node("MatMul", ["x", net.weight("a", 64, 64, depth=64)], "first")
        x = net.node("MatMul", [net.node("Mul", [x, "gain"], "driven"), net.weight("b", 64, 64, depth=64)], "second")
        net.constant("gain", np.array([40] + [0.01] * 63, np.float32))
        net.node("MatMul", [x, net.weight("c", 64, 64, depth=64)], "third")
        model = self.save(net.model([helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8, 64])],
                                    [helper.make_tensor_value_info("third", TensorProto.FLOAT, ["n", 8, 64])]), "driven.onnx")
        np.savez(self.folder / "calib.npz", x=np.random.default_rng(2).standard_normal((64, 8, 64)).astype(np.float32))
        text = self.succeed("quantize", model, "--data", "calib.npz", "-o", "driven8.onnx", "--ranges", "entropy").stdout
        self.assertIn("entropy is refused for 'driven'", text)

    def test_a_planted_outlier_is_named_first(self):
        model = transformer()
        weight = next(tensor for tensor in model.graph.initializer if tensor.name == "up1_w")
        values = numpy_helper.to_array(weight).copy()
        values[:, 5] *= 3000
        weight.CopyFrom(numpy_helper.from_array(values, "up1_w"))
        path = self.save(model, "outlier.onnx")
        np.savez(self.folder / "calib.npz", ids=np.random.default_rng(4).integers(0, 1000, (16, 16)))
        text = self.succeed("quantize", path, "--data", "calib.npz", "-o", "outlier8.onnx", "--ranges", "minmax", "--no-smoothing").stdout
        self.assertIn("act1", text.splitlines()[0])
        self.assertIn("down1", text.splitlines()[0])
        kept = self.succeed("quantize", path, "--data", "calib.npz", "-o", "outlier8.onnx", "--no-smoothing", "--keep", "down1").stdout
        self.assertNotIn("act1", kept.splitlines()[0])

    def test_smoothing_moves_outliers_into_the_weights(self):
        model = transformer()
        for tensor in model.graph.initializer:
            if tensor.name in ("norm0_g", "norm0b_g"):
                values = np.ones(64, np.float32)
                values[[3, 40]] = 80
                tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
        path = self.save(model, "channels.onnx")
        random = np.random.default_rng(4)
        data, inputs = {"ids": random.integers(0, 1000, (32, 16))}, {"ids": random.integers(0, 1000, (8, 16))}
        expected = by_peer(path, inputs)
        losses = {}
        for flags in ((), ("--no-smoothing",)):
            report = self.quantize(path, data, "channels8.onnx", *flags)
            losses[flags] = loss(self.agree(self.folder / "channels8.onnx", inputs), expected)
            smoothed = [tensor for tensor in report["tensors"] if tensor["smooth_alpha"] > 0]
            self.assertEqual(bool(smoothed), not flags)
            self.assertTrue(all(tensor["smooth_gain"] > 0.9 for tensor in smoothed))
        self.assertLess(losses[()], 0.5 * losses[("--no-smoothing",)])

    def test_bias_correction_takes_off_the_mean(self):
        net = Net(5)
        x = net.conv("image", "first", 3, 64, 3)
        net.conv(x, "second", 64, 64, 3, relu=False)
        model = self.save(net.model([helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 16, 16])],
                                    [helper.make_tensor_value_info("second", TensorProto.FLOAT, ["n", 64, 16, 16])]), "shift.onnx")
        random = np.random.default_rng(4)
        data, inputs = ({"image": random.uniform(0, 2, (count, 3, 16, 16)).astype(np.float32)} for count in (32, 16))
        expected = by_peer(model, inputs)[:, :, 2:-2, 2:-2]  # borders have other means
        shifts = {}
        for flags in ((), ("--no-bias-correction",)):
            # The only layer would be the last one, which stays wide.
            report = self.quantize(model, data, "shift8.onnx", "--narrow", "second", *flags)
            self.assertEqual(sum(layer["bias_corrected"] for layer in report["layers"]), 0 if flags else 64)
            actual = by_peer(self.folder / "shift8.onnx", inputs)[:, :, 2:-2, 2:-2]
            shifts[flags] = np.abs((actual - expected).mean((0, 2, 3))).mean()
        self.assertLess(shifts[()], 0.6 * shifts[("--no-bias-correction",)])

    def test_depthwise_differences_stay_wide(self):
        random = np.random.default_rng(6)
        weights = {"first": (32, 3, 3, 3), "edges": (32, 1, 3, 3), "middle": (32, 32, 1, 1), "plain": (32, 1, 3, 3), "next": (32, 32, 1, 1), "last": (8, 32, 1, 1)}
        values = {name: (random.standard_normal(dims) / np.sqrt(np.prod(dims[1:]))).astype(np.float32) for name, dims in weights.items()}
        values["first"] = np.abs(values["first"])
        values["edges"][:] = 0
        values["edges"][:, 0, 1] = [-8, 16, -8]  # What it reads is smooth: its results are small beside its terms.
        values["plain"] = np.abs(values["plain"])
        nodes, constants, x = [], [numpy_helper.from_array(value, name + "_w") for name, value in values.items()], "image"
        for name, dims in weights.items():
            nodes.append(helper.make_node("Conv", [x, name + "_w"], [name], name=name, group=32 if dims[1] == 1 else 1, pads=[dims[2] // 2] * 4))
            x = name if name == "last" else name + "_relu"
            nodes += [] if name == "last" else [helper.make_node("Relu", [name], [x])]
        graph = helper.make_graph(nodes, "edges", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 24, 24])],
                                  [helper.make_tensor_value_info("last", TensorProto.FLOAT, ["n", 8, 24, 24])], constants)
        model = self.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "edges.onnx")
        places = np.linspace(0, 3, 24, dtype=np.float32)

        def smooth(count):
            phases = random.uniform(0, 6, (2, count, 3, 1, 1)).astype(np.float32)
            return {"image": np.float32(2) + np.sin(places[:, None] + phases[0]) + np.sin(places + phases[1])}
        data, inputs, losses = smooth(32), smooth(8), {}
        expected = by_peer(model, inputs)
        for flags in ((), ("--narrow", "edges")):
            report = self.quantize(model, data, "edges8.onnx", *flags)
            layers = {layer["name"]: layer for layer in report["layers"]}
            self.assertEqual(layers["edges"]["treatment"], "int8" if flags else "wide")
            self.assertEqual("takes differences" in layers["edges"].get("reason", ""), not flags)
            self.assertEqual(layers["plain"]["treatment"], "int8")
            losses[flags] = loss(self.agree(self.folder / "edges8.onnx", inputs), expected)
        self.assertLess(losses[()], 0.5 * losses[("--narrow", "edges")])

    def test_weights_only(self):
        model = self.save(transformer(width=256, words=4000, layers=1), "large.onnx")
        inputs = {"ids": np.random.default_rng(4).integers(0, 4000, (4, 16))}
        expected = by_peer(model, inputs)
        for bits, most, share in ((8, 2e-4, 0.28), (4, 2e-2, 0.24)):
            output = self.folder / f"large{bits}.onnx"
            report = json.loads(self.succeed("quantize", model, "--weights-only", bits, "-o", output, "--json").stdout)
            self.assertEqual({layer["treatment"] for layer in report["layers"] if layer["op"] == "MatMul" and layer["reason"] == ""}, {"weights only"})
            self.assertEqual({layer["bits"] for layer in report["layers"] if layer["treatment"] == "weights only"}, {bits})
            self.assertLess(output.stat().st_size, share * model.stat().st_size)
            self.assertLess(loss(self.agree(output, inputs), expected), most)
        self.assertIn("--weights-only", self.refused("TN0105", model, "-o", "new.onnx"))

    def test_weights_only_of_odd_sizes(self):
        net = Net(3)
        transposed = net.node("Transpose", [net.weight("w", 130, 150, depth=150)], "turned", perm=[1, 0])
        net.node("MatMul", ["x", transposed], "y")
        model = self.save(net.model([helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5, 150])],
                                    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5, 130])]), "odd.onnx")
        inputs = {"x": np.random.default_rng(4).standard_normal((2, 5, 150)).astype(np.float32)}
        for bits, most in ((8, 2e-4), (4, 2e-2)):
            output = self.folder / f"odd{bits}.onnx"
            self.succeed("quantize", model, "--weights-only", bits, "-o", output)
            self.assertLess(loss(self.agree(output, inputs), by_peer(model, inputs)), most)

    def test_reduced_range_saturates_nowhere(self):
        model = self.save(cnn(), "cnn.onnx")
        random = np.random.default_rng(3)
        data = {"image": random.standard_normal((16, 3, 32, 32)).astype(np.float32)}
        self.quantize(model, data, "cnn7.onnx", "--reduce-range")
        written = onnx.load(self.folder / "cnn7.onnx")
        weights = [numpy_helper.to_array(t) for t in written.graph.initializer if t.data_type == TensorProto.INT8 and t.name.endswith("_weight_quantized")]
        self.assertTrue(weights)
        self.assertEqual(max(np.abs(w.astype(int)).max() for w in weights), 64)
        inputs = {"image": random.standard_normal((4, 3, 32, 32)).astype(np.float32)}
        session = onnxruntime.InferenceSession(str(self.folder / "cnn7.onnx"), providers=["CPUExecutionProvider"])
        self.assertLess(loss(self.agree(self.folder / "cnn7.onnx", inputs), session.run(None, inputs)[0]), 2e-4)

    def test_a_table_that_the_head_shares_is_stored_once(self):
        net = Net(2)
        table = net.constant("table", net.random.standard_normal((2000, 64)).astype(np.float32))
        x = net.dense(net.node("Gather", [table, "ids"], "embedded"), "inner", 64, 64)
        net.node("MatMul", [x, net.node("Transpose", [table], "turned", perm=[1, 0])], "logits")
        model = self.save(net.model([helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 8])],
                                    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 8, 2000])]), "tied.onnx")
        data = {"ids": np.random.default_rng(4).integers(0, 2000, (8, 8))}
        report = self.quantize(model, data, "tied8.onnx")
        self.assertLess(report["bytes_after"], 0.3 * report["bytes_before"])
        self.assertLess(loss(self.agree(self.folder / "tied8.onnx", data), by_peer(model, data)), 5e-3)

    def test_samples_of_many_lengths(self):
        net = Net(2)
        x = net.dense(net.node("Gather", [net.constant("table", net.random.standard_normal((50, 64)).astype(np.float32)), "ids"], "embedded"), "inner", 64, 64)
        net.dense(net.node("Relu", [x], "act"), "outer", 64, 64)
        model = self.save(net.model([helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", "words"])],
                                    [helper.make_tensor_value_info("outer_sum", TensorProto.FLOAT, ["n", "words", 64])]), "words.onnx")
        random = np.random.default_rng(4)
        samples = [random.integers(0, 50, length) for length in (3, 5, 9, 17, 4, 4, 30)]
        (self.folder / "lines.jsonl").write_text("".join(json.dumps({"ids": sample.tolist()}) + "\n" for sample in samples))
        report = json.loads(self.succeed("quantize", model, "--data", "lines.jsonl", "-o", "words8.onnx", "--narrow", "outer", "--json").stdout)
        self.assertEqual(report["samples"], 7)
        seen = {tensor["name"]: tensor["seen"] for tensor in report["tensors"]}
        ids = {"ids": np.concatenate(samples)[None]}
        exact = onnx.load(model)
        exact.graph.output.append(helper.make_tensor_value_info("act", TensorProto.FLOAT, None))
        act = onnxruntime.InferenceSession(exact.SerializeToString(), providers=["CPUExecutionProvider"]).run(["act"], ids)[0]
        np.testing.assert_allclose(seen["act"], [act.min(), act.max()], rtol=1e-5)

    def test_old_opsets_are_raised(self):
        net = Net()
        x = net.conv("image", "first", 16, 32, 3)
        x = net.conv(net.node("Clip", [x], "clipped", min=0.0, max=6.0), "second", 32, 32, 3, norm=True)
        x = net.node("Squeeze", [net.node("GlobalAveragePool", [x], "mean")], "squeezed", axes=[2, 3])
        x = net.node("Dropout", [x], "dropped", ratio=0.5)
        x = net.node("Gemm", [x, net.weight("head_w", 32, 10, depth=32), net.weight("head_b", 10, depth=10)], "head")
        net.node("Softmax", [x], "y", axis=1)
        model = self.save(net.model([helper.make_tensor_value_info("image", TensorProto.FLOAT, [2, 16, 8, 8])],
                                    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 10])], opset=9, ir=4), "old.onnx")
        random = np.random.default_rng(3)
        self.quantize(model, {"image": random.standard_normal((8, 16, 8, 8)).astype(np.float32)}, "old8.onnx")
        written = onnx.load(self.folder / "old8.onnx")
        onnx.checker.check_model(written, full_check=True)
        self.assertEqual(written.opset_import[0].version, 13)
        inputs = {"image": random.standard_normal((2, 16, 8, 8)).astype(np.float32)}
        self.assertLess(loss(self.agree(self.folder / "old8.onnx", inputs), by_peer(model, inputs)), 5e-3)

    def test_weights_beside_the_model(self):
        onnx.save(transformer(), self.folder / "outside.onnx", save_as_external_data=True, location="outside.bin", size_threshold=100)
        (self.folder / "elsewhere").mkdir()
        data = {"ids": np.random.default_rng(4).integers(0, 1000, (8, 16))}
        self.quantize(self.folder / "outside.onnx", data, "elsewhere/inside.onnx")
        self.quantize(self.save(transformer(), "whole.onnx"), data, "whole8.onnx")
        inputs = {"ids": data["ids"][:2]}
        np.testing.assert_array_equal(by_peer(self.folder / "elsewhere/inside.onnx", inputs), by_peer(self.folder / "whole8.onnx", inputs))

    def refused(self, code, *arguments, data=None):
        if data is not None:
            np.savez(self.folder / "bad.npz", **data)
        before = sorted(self.folder.iterdir())
        done = self.call("quantize", *arguments)
        self.assertIn(f"error {code}:", done.stderr)
        self.assertIn("try:", done.stderr)
        self.assertEqual(sorted(self.folder.iterdir()), before)
        return done.stderr

    def test_bad_input(self):
        model = self.save(cnn(), "cnn.onnx")
        image = np.random.default_rng(3).standard_normal((4, 3, 32, 32)).astype(np.float32)
        bad = image.copy()
        bad[2, 1, 3, 3] = np.nan
        common = (model, "--data", "bad.npz", "-o", "new.onnx")
        self.refused("TN0101", model, "--data", "none.npz", "-o", "new.onnx")
        for data, code, words in (({"image": image[:0]}, "TN0113", "is empty"), ({"image": bad}, "TN0114", "not a number"),
                                  ({"image": image[:, :, :16]}, "TN0113", "has samples of 3x16x32"),
                                  ({"image": image.transpose(0, 2, 3, 1)}, "TN0113", "has samples of 32x32x3"),
                                  ({"other": image, "more": image}, "TN0113", "no array for the input 'image'"),
                                  ({"image": np.full_like(image, 0.5)}, "TN0113", "the same value in all samples")):
            self.assertIn(words, self.refused(code, *common, data=data))
        for data, words in (({"image": image[:1]}, "only one sample"), ({"image": np.repeat(image[:1], 4, 0)}, "all 4 samples are the same"),
                            ({"image": np.broadcast_to(image[:, :1, :1, :1], image.shape)}, "in each sample, all values of an input are equal")):
            np.savez(self.folder / "odd.npz", **data)
            self.assertIn(words, self.call("quantize", model, "--data", "odd.npz", "-o", "odd.onnx").stderr)
            self.assertIn(words, " ".join(self.json("quantize", model, "--data", "odd.npz", "-o", "odd.onnx")["warnings"]))
        self.refused("TN0108", *common, data={"image": image.astype(np.float64)})
        self.refused("TN0105", *common, "--keep", "nothing", data={"image": image})
        self.refused("TN0105", *common, "--ranges", "guess", data={"image": image})
        self.refused("TN0111", model, "--data", "bad.npz", "-o", model, data={"image": image})
        self.refused("TN0112", model, "--data", "bad.npz", "-o", ".", data={"image": image})
        self.refused("TN0103", model, "--data", "bad.npz", "-o", "none/new.onnx", data={"image": image})
        self.succeed("quantize", *common)
        self.assertIn("already", self.refused("TN0105", "new.onnx", "--data", "bad.npz", "-o", "again.onnx"))

    def test_models_of_other_floats(self):
        """They are refused with a hint, and the lines of the page make what is taken of them."""
        lines = (SOURCE / "docs/guides/quantize.md").read_text().split("## Models of FP16, BF16 and FP64")[1].split("```python\n")[1].split("```")[0]
        random = np.random.default_rng(5)
        weights = {name: (random.standard_normal((64, 64)) * 0.1).astype(np.float32) for name in ("a", "b", "c")}
        x = random.standard_normal((8, 64)).astype(np.float32)
        for dtype in (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE):
            with self.subTest(dtype=dtype):
                nodes = [helper.make_node("Cast", ["x"], ["h"], to=dtype), helper.make_node("MatMul", ["h", "a"], ["p"], name="first"),
                         helper.make_node("Relu", ["p"], ["q"]), helper.make_node("MatMul", ["q", "b"], ["r"], name="inner"),
                         helper.make_node("Relu", ["r"], ["s"]), helper.make_node("MatMul", ["s", "c"], ["y"], name="last")]
                stored = [helper.make_tensor(name, dtype, w.shape, w.flatten().tolist()) for name, w in weights.items()]
                graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
                                          [helper.make_tensor_value_info("y", dtype, ["n", 64])], stored)
                onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "model.fp16.onnx")
                said = self.refused("TN0105", self.folder / "model.fp16.onnx", "--data", "bad.npz", "-o", "new.onnx", data={"x": x})
                self.assertIn("Models of FP16, BF16 and FP64", said)
                subprocess.run([sys.executable, "-c", lines], cwd=self.folder, check=True)
                report = self.json("quantize", self.folder / "model.fp32.onnx", "--data", "bad.npz", "-o", "new.onnx")
                self.assertEqual("int8", {layer["name"]: layer["treatment"] for layer in report["layers"]}["inner"])
                (self.folder / "new.onnx").unlink()

    def test_nothing_to_quantize(self):
        net = Net()
        net.node("Relu", ["x"], "y")
        model = self.save(net.model([helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
                                    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])]), "relu.onnx")
        self.refused("TN0105", model, "--data", "bad.npz", "-o", "new.onnx", data={"x": np.eye(4, dtype=np.float32)})

    def test_values_that_overflow_in_the_model(self):
        net = Net()
        x = net.node("MatMul", ["x", net.weight("a", 32, 32, depth=32)], "first")
        x = net.node("MatMul", [net.node("Exp", [net.node("Exp", [x], "e")], "ee"), net.weight("b", 32, 32, depth=32)], "second")
        net.node("MatMul", [x, net.weight("c", 32, 32, depth=32)], "y")
        model = self.save(net.model([helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32])],
                                    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])]), "steep.onnx")
        text = self.refused("TN0105", model, "--data", "bad.npz", "-o", "new.onnx",
                            data={"x": 20 * np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)})
        self.assertIn("'ee'", text)


if __name__ == "__main__":
    unittest.main()
