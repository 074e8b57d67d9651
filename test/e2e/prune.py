"""`tenon prune`: for each way in which axes depend on each other, the smaller model equals the one with zeros in the places that were removed, as
ONNX Runtime computes both, and its tensors have the dims that they must have. Bad input is an error before work.
"""

import json
import unittest

import numpy as np
import onnx
import onnxruntime
import prune_nets
from onnx import numpy_helper
from prune_free_nets import FREE_NETS
from prune_nets import NETS, masked
from tool import CNN, ToolTest, last_json, tiny_model


def by_peer(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # constants that nobody reads any more are warned of
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def seeded(model, free=2):
    """Inputs whose free dims are of this size, and of the next ones after the first."""
    random, inputs = np.random.default_rng(5), {}
    for port in model.graph.input:
        dims = port.type.tensor_type.shape.dim
        inputs[port.name] = random.standard_normal([dim.dim_value or free + i for i, dim in enumerate(dims)]).astype(np.float32)
    return inputs


def dims_of(model):
    return {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}


class Prune(ToolTest):
    def prune(self, model, *flags):
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        report = self.json("prune", path, "-o", "narrow.onnx", "--recipe", "r.json", "--no-timing", *flags)
        narrow = onnx.load(self.folder / "narrow.onnx")
        onnx.checker.check_model(narrow, full_check=True)
        return report, narrow, json.loads((self.folder / "r.json").read_text())

    def equals_masked(self, model, narrow, recipe, free=2):
        inputs = seeded(model, free)
        expected, actual, whole = (by_peer(each, inputs)[0] for each in (masked(model, recipe), narrow, model))
        np.testing.assert_allclose(actual, expected, atol=2e-5 * float(np.abs(expected).max()), rtol=1e-4)
        self.assertGreater(float(np.abs(actual - whole).max()), 1e-3 * float(np.abs(whole).max()), "nothing was removed")

    def test_classes_of_graphs(self):
        for build in NETS:
            with self.subTest(build.__name__):
                model, expected = build()
                report, narrow, recipe = self.prune(model, "--ratio", "50%", "--multiple", 1)
                dims = dims_of(narrow)
                for name, wanted in expected.items():
                    self.assertEqual([own if wanted[i] is None else wanted[i] for i, own in enumerate(dims[name])], dims[name], name)
                self.equals_masked(model, narrow, recipe)
                self.assertLess(report["parameters_after"], report["parameters_before"])

    def test_free_dims(self):
        """The pruned file takes all sizes that the model takes, also where its dims multiply them."""
        for build in FREE_NETS:
            with self.subTest(build.__name__):
                model, expected = build()
                _, narrow, recipe = self.prune(model, "--ratio", "50%", "--multiple", 1)
                dims = dims_of(narrow)
                self.assertEqual(expected, {name: dims[name] for name in expected})
                for free in (1, 3, 8):
                    self.equals_masked(model, narrow, recipe, free)

    def test_importance(self):
        """The channel whose weights, norm or scores are smallest goes; a layer that is kept stays."""
        model, _ = prune_nets.chain()
        tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        scores = {name: np.ones_like(array) for name, array in tensors.items()}
        scores["a_w"][:8] = 1e-3
        np.savez(self.folder / "s.npz", **scores)
        _, _, recipe = self.prune(model, "--ratio", "50%", "--multiple", 1, "--importance", "scores", "--scores", "s.npz")
        self.assertEqual(recipe["parameters"]["a_w"]["kept"]["0"], list(range(8, 16)))
        _, _, recipe = self.prune(model, "--ratio", "50%", "--multiple", 1, "--importance", "bn-scale")
        smallest = np.argsort(tensors["a_gamma"] ** 2)[:8]
        self.assertEqual(recipe["parameters"]["a_w"]["kept"]["0"], sorted(set(range(16)) - set(smallest.tolist())))
        report, narrow, _ = self.prune(model, "--ratio", "50%", "--multiple", 1, "--keep", "a")
        self.assertEqual(dims_of(narrow)["a_w"], [16, 3, 3, 3])
        self.assertEqual(["--keep", ""], [group["reason"] for group in report["groups"]])

    def test_multiples(self):
        model, _ = prune_nets.chain()
        _, narrow, _ = self.prune(model, "--ratio", "40%", "--multiple", 8)
        self.assertEqual([dims_of(narrow)[name][0] % 8 for name in ("a_w", "b_w")], [0, 0])

    def test_default_multiple(self):
        """Of a target that is named, on whatever machine."""
        onnx.save(prune_nets.chain()[0], self.folder / "model.onnx")
        for target, multiple in (("cpu:avx2", 8), ("cpu:avx512", 16), ("cpu:avx2,cpu:avx512", 16), ("cpu:armv8-a", 8)):
            report = self.json("prune", "model.onnx", "--ratio", "60%", "-o", "narrow.onnx", "--no-timing", "--target", target, "--keep", "a")
            self.assertEqual(multiple, report["groups"][1]["step"], target)

    def test_half_weights(self):
        """Magnitudes of FP16 are those of the numbers."""
        half, small = prune_nets.chain()[0], [1, 2, 5, 6, 9, 12, 14, 15]
        for tensor in half.graph.initializer:
            array = numpy_helper.to_array(tensor).copy()
            if tensor.name in ("a_w", "a_gamma"):
                array[small] *= 0.01
            if tensor.name == "b_w":
                array[:, small] *= 0.01
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float16), tensor.name))
        for port in (*half.graph.input, *half.graph.output):
            port.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
        _, _, recipe = self.prune(half, "--ratio", "50%", "--multiple", 1)
        self.assertEqual(sorted(set(range(16)) - set(small)), recipe["parameters"]["a_w"]["kept"]["0"])

    def test_unknown_weights(self):
        """Of weights that are computed of integers no magnitudes are known."""
        g = prune_nets.Graph()
        a, b = (g.node("Cast", [g.constant(name, g.random.integers(-9, 9, dims).astype(np.int8))], name + "_float", to=onnx.TensorProto.FLOAT)
                for name, dims in (("a_w", (16, 3, 1, 1)), ("b_w", (4, 16, 1, 1))))
        x = g.node("Conv", [g.node("Relu", [g.node("Conv", ["x", a], "a")], "r"), b], "b")
        onnx.save(g.finish(x, [1, 3, 8, 8], [1, 4, 8, 8]), self.folder / "model.onnx")
        done = self.refuse(5, "TN0132", "prune", "model.onnx", "--ratio", "50%", "--multiple", 1, "--no-timing", "-o", "none.onnx")
        self.assertIn("'a'", done.stderr)

    def test_short_part(self):
        """Of a part of a split that is narrower than what goes, as much stays as a kernel computes at once."""
        report, narrow, recipe = self.prune(prune_nets.short_part(), "--ratio", "50%", "--multiple", 8)
        self.assertEqual((24, 8), (dims_of(narrow)["a_w"][0], dims_of(narrow)["c_w"][1]))
        self.assertEqual(24, report["groups"][0]["kept"])
        self.equals_masked(prune_nets.short_part(), narrow, recipe)

    def test_recipe(self):
        """It is no file that the model is, and none is left where the other cannot be written; what loses heads says so."""
        for path in ("r.onnx", "./r.onnx"):
            self.refuse(2, "TN0105", "prune", CNN, "--ratio", "30%", "--no-timing", "-o", "r.onnx", "--recipe", path)
            self.assertFalse((self.folder / "r.onnx").exists())
        _, _, recipe = self.prune(prune_nets.fused_attention()[0], "--ratio", "50%", "--multiple", 1)
        self.assertEqual({"qkv_w", "qkv_b", "out_w"}, {name for name, entry in recipe["parameters"].items() if entry.get("heads")})
        _, _, recipe = self.prune(prune_nets.flattened()[0], "--ratio", "50%", "--multiple", 1)
        self.assertFalse(any(entry.get("heads") for entry in recipe["parameters"].values()))

    def test_latency(self):
        """The report is of the model that is written, also where a later try removes nothing."""
        g = prune_nets.Graph()
        x = g.node("Relu", [g.dense("x", "a", 64, 1024)], "a_relu")
        x = g.node("Relu", [g.dense(x, "b", 1024, 1024)], "b_relu")
        onnx.save(g.finish(g.dense(x, "c", 1024, 64), [1, 64, 64], [1, 64, 64]), self.folder / "model.onnx")
        before = self.json("prune", "model.onnx", "--ratio", "50%", "-o", "half.onnx", "--seconds", 0.2)["timing"]["before_ms"]
        # A try that halves one of the widths, then those that remove nothing.
        target, reached = before * 0.75, 0
        while not reached:
            done = self.call("prune", "model.onnx", "--latency", f"{target}ms", "-o", "narrow.onnx", "--multiple", 512, "--seconds", 0.1, "--json")
            if done.returncode != 0:  # the machine is faster or slower than it was
                code = last_json(done.stdout)["code"]
                self.assertIn(code, ("TN0105", "TN0133"))
                target *= 0.7 if code == "TN0105" else 1.3
                continue
            report = json.loads(done.stdout)
            dims = dims_of(onnx.load(self.folder / "narrow.onnx"))
            self.assertEqual([dims["a_w"][1], dims["b_w"][1]], [group["kept"] for group in report["groups"]])
            self.assertLessEqual(report["timing"]["after_ms"], target)
            reached += 1

    def test_time(self):
        report = self.json("prune", CNN, "--ratio", "50%", "-o", "narrow.onnx", "--seconds", 0.2)
        self.assertGreater(report["timing"]["before_ms"], 0)
        self.assertGreater(report["timing"]["predicted_ms"], 0)
        self.assertGreater(report["timing"]["after_ms"], 0)
        self.assertGreater(report["timing"]["ratio"], 0)

    def test_then_quantize(self):
        self.succeed("prune", CNN, "--ratio", "30%", "-o", "narrow.onnx", "--no-timing")
        np.savez(self.folder / "calib.npz", image=np.random.default_rng(0).random((16, 1, 28, 28)).astype(np.float32))
        self.succeed("quantize", "narrow.onnx", "--data", "calib.npz", "-o", "narrow8.onnx")
        onnx.checker.check_model(onnx.load(self.folder / "narrow8.onnx"))
        self.refuse(2, "TN0105", "prune", "narrow8.onnx", "--ratio", "30%")

    def test_bad_input(self):
        np.savez(self.folder / "other.npz", odd=np.zeros(3, np.float32))
        np.savez(self.folder / "dims.npz", **{"stem.0.weight": np.zeros(3, np.float32)})
        (self.folder / "p.pt2").write_bytes(b"PK")
        cases = [(2, "TN0105"), (2, "TN0105", "--ratio", "30%", "--latency", "1ms"), (2, "TN0131", "--ratio", "0"), (2, "TN0131", "--ratio", "100%"),
                 (2, "TN0131", "--ratio", "99.9%"), (2, "TN0131", "--ratio", "1%"), (2, "TN0131", "--ratio=-5%"),
                 (2, "TN0105", "--latency", "1ms", "--no-timing"), (2, "TN0105", "--ratio", "30%", "--scores", "other.npz"),
                 (5, "TN0132", "--ratio", "30%", "--importance", "scores", "--scores", "other.npz"),
                 (2, "TN0105", "--ratio", "30%", "--keep", "nothing"), (2, "TN0105", "--latency", "1000s", "--seconds", "0.1")]
        for code, error, *flags in cases:
            with self.subTest(flags):
                self.refuse(code, error, "prune", CNN, *flags, "-o", "none.onnx")
                self.assertFalse((self.folder / "none.onnx").exists())
        self.refuse(3, "TN0134", "prune", "p.pt2", "--ratio", "30%")
        self.assertEqual(2, self.call("prune", CNN, "--ratio", "a third").returncode)
        onnx.save(tiny_model(), self.folder / "tiny.onnx")
        self.assertIn("'features'", self.refuse(3, "TN0130", "prune", "tiny.onnx", "--ratio", "30%").stderr)


if __name__ == "__main__":
    unittest.main()
