"""`tenon quantize --dynamic` and `--precision fp8`: forms that the checker takes and ONNX Runtime reads to the same numbers, near those of
FP32; older opsets are raised as far as a form needs; options that contradict each other are refused.
"""

import json
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from float_nets import cnn, transformer
from peer import by_peer, distance
from tool import ToolTest


def gemms(opset=13):
    """Gemm in both directions with a bias, a shared Transpose, a reduction over axes that are an attribute and an even Split."""
    random = np.random.default_rng(5)
    weights = {"a": (64, 96), "b": (96, 64), "c": (64, 64), "bias": (96,)}
    constants = [numpy_helper.from_array(random.standard_normal(dims).astype(np.float32) / 8, name) for name, dims in weights.items()]
    nodes = [helper.make_node("MatMul", ["x", "c"], ["first"], name="first"),
             helper.make_node("Relu", ["first"], ["h"]),
             helper.make_node("Gemm", ["h", "a", "bias"], ["g"], name="gemm"),
             helper.make_node("Tanh", ["g"], ["t"]),
             helper.make_node("Gemm", ["t", "a"], ["back"], name="turned", transB=1),
             helper.make_node("Transpose", ["b"], ["bt"], perm=[1, 0]),
             helper.make_node("MatMul", ["back", "bt"], ["wide"], name="behind_transpose"),
             helper.make_node("Split", ["wide"], ["left", "right"], axis=1),
             helper.make_node("Mul", ["left", "right"], ["product"]),
             helper.make_node("ReduceMax", ["product"], ["most"], axes=[1], keepdims=1),
             helper.make_node("Div", ["product", "most"], ["scaled"]),
             helper.make_node("MatMul", ["scaled", "last_weight"], ["y"], name="last")]
    constants.append(numpy_helper.from_array(random.standard_normal((48, 32)).astype(np.float32), "last_weight"))
    graph = helper.make_graph(nodes, "gemms", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)


class Precisions(ToolTest):
    def save(self, model, name):
        onnx.save(model, self.folder / name)
        return self.folder / name

    def quantize(self, model, output, *flags):
        report = json.loads(self.succeed("quantize", model, "-o", output, "--json", *flags).stdout)
        written = onnx.load(self.folder / output)
        onnx.checker.check_model(written, full_check=True)
        return report, written

    def by_tenon(self, path, inputs):
        np.savez(self.folder / "in.npz", **inputs)
        self.succeed("run", path, "--inputs", "in.npz", "-o", "out.npz", "--target", "cpu:native")
        with np.load(self.folder / "out.npz") as arrays:
            return arrays[arrays.files[0]]

    def test_dynamic(self):
        model = self.save(transformer(), "t.onnx")
        report, written = self.quantize(model, "d.onnx", "--dynamic")
        self.assertEqual((report["dynamic"], report["samples"]), ("token", 0))
        kinds = [node.op_type for node in written.graph.node]
        self.assertEqual(kinds.count("MatMulInteger"), sum(layer["treatment"] == "int8" for layer in report["layers"]))
        # Queries, keys and values read the same rows.
        self.assertLess(kinds.count("Round"), kinds.count("MatMulInteger"))
        ids = {"ids": np.random.default_rng(4).integers(0, 1000, (8, 16))}
        ours = self.by_tenon(self.folder / "d.onnx", ids)
        self.assertLess(distance(ours, by_peer(self.folder / "d.onnx", ids)), 1e-3)
        self.assertLess(distance(ours, by_peer(model, ids)), 0.03)
        # A row's numbers are its own, whatever else is in the batch.
        alone = self.by_tenon(self.folder / "d.onnx", {"ids": ids["ids"][3:4]})
        self.assertLess(distance(alone, ours[3:4]), 1e-5)

    def test_dynamic_of_a_tensor(self):
        model = self.save(transformer(), "t.onnx")
        _, written = self.quantize(model, "d.onnx", "--dynamic", "--per-tensor", "--reduce-range")
        kinds = [node.op_type for node in written.graph.node]
        self.assertLess(kinds.count("DynamicQuantizeLinear"), kinds.count("MatMulInteger"))
        ids = {"ids": np.random.default_rng(4).integers(0, 1000, (8, 16))}
        ours = self.by_tenon(self.folder / "d.onnx", ids)
        self.assertLess(distance(ours, by_peer(self.folder / "d.onnx", ids)), 2e-3)
        self.assertLess(distance(ours, by_peer(model, ids)), 0.05)

    def test_dynamic_forms_of_products(self):
        for opset in (13, 17):
            with self.subTest(opset=opset):
                model = self.save(gemms(opset), "g.onnx")
                report, written = self.quantize(model, "d.onnx", "--dynamic", *(f"--narrow={name}" for name in ("first", "last", "behind_transpose")))
                self.assertEqual({layer["treatment"] for layer in report["layers"]}, {"int8"})
                self.assertEqual([node.op_type for node in written.graph.node].count("MatMulInteger"), 5)
                x = {"x": np.random.default_rng(6).standard_normal((7, 64)).astype(np.float32)}
                x["x"][2] = 0  # a row without a scale of its own
                ours = self.by_tenon(self.folder / "d.onnx", x)
                theirs = by_peer(self.folder / "d.onnx", x)
                finite = np.isfinite(theirs)
                self.assertLess(distance(ours[finite], theirs[finite]), 1e-3)

    def test_float8(self):
        for name, model, inputs, opset in (
                ("t", transformer(), {"ids": np.random.default_rng(4).integers(0, 1000, (16, 16))}, 19),
                ("c", cnn(), {"image": np.random.default_rng(4).standard_normal((16, 3, 32, 32)).astype(np.float32)}, 19),
                ("g", gemms(), {"x": np.random.default_rng(4).standard_normal((16, 64)).astype(np.float32)}, 19)):
            with self.subTest(name):
                path = self.save(model, f"{name}.onnx")
                np.savez(self.folder / "calib.npz", **inputs)
                report, written = self.quantize(path, f"{name}8.onnx", "--precision", "fp8", "--data", "calib.npz")
                self.assertEqual(written.opset_import[0].version, opset)
                zeros = {node.input[2] for node in written.graph.node if node.op_type == "QuantizeLinear"}
                self.assertEqual({tensor.data_type for tensor in written.graph.initializer if tensor.name in zeros}, {TensorProto.FLOAT8E4M3FN})
                self.assertIn("fp8", {layer["treatment"] for layer in report["layers"]})
                self.assertGreater(min(tensor["decibels"] for tensor in report["tensors"]), 25)
                expected = by_peer(self.folder / f"{name}8.onnx", inputs)
                self.assertLess(distance(self.by_tenon(self.folder / f"{name}8.onnx", inputs), expected), 5e-3)
                self.assertLess(distance(expected, by_peer(path, inputs)), 0.1)

    def test_float8_is_rounded_as_the_standard_says(self):
        """Every weight is the code nearest to it, as numpy's own conversion of the same quotient finds it."""
        import ml_dtypes
        path = self.save(gemms(), "g.onnx")
        np.savez(self.folder / "calib.npz", x=np.random.default_rng(4).standard_normal((16, 64)).astype(np.float32))
        _, written = self.quantize(path, "g8.onnx", "--precision", "fp8", "--data", "calib.npz")
        constants = {tensor.name: tensor for tensor in written.graph.initializer}
        scales, codes = (constants[f"gemm_weight_{part}"] for part in ("scale", "quantized"))
        weight = next(numpy_helper.to_array(tensor) for tensor in gemms().graph.initializer if tensor.name == "a")
        wanted = (weight / numpy_helper.to_array(scales)).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        np.testing.assert_array_equal(np.frombuffer(codes.raw_data, np.uint8).reshape(weight.shape), wanted)

    def test_what_is_refused(self):
        self.save(gemms(), "g.onnx")
        np.savez(self.folder / "calib.npz", x=np.random.default_rng(4).standard_normal((16, 64)).astype(np.float32))
        for flags, text in ((("--dynamic", "--data", "calib.npz"), "needs no samples"), (("--dynamic", "--weights-only", "8"), "--weights-only"),
                            (("--dynamic", "--precision", "fp8"), "--precision"), (("--per-tensor", "--data", "calib.npz"), "--dynamic"),
                            (("--weights-only", "8", "--precision", "fp8"), "--precision"), (("--precision", "fp8"), "no samples")):
            with self.subTest(flags):
                self.assertIn(text, self.refuse(2, "TN0105", "quantize", "g.onnx", "-o", "out.onnx", *flags).stderr)
                self.assertFalse((self.folder / "out.onnx").exists())

    def test_opsets_that_cannot_be_raised(self):
        """A norm that is trained gives other results from opset 14 on."""
        model = cnn()
        model.opset_import[0].version = 13
        model.graph.initializer.append(numpy_helper.from_array(np.ones(8, np.float32), "ones"))
        model.graph.node.append(helper.make_node("BatchNormalization", [model.graph.node[0].output[0], *["ones"] * 4], ["trained", "means"], name="trained"))
        model.graph.output.append(helper.make_tensor_value_info("trained", TensorProto.FLOAT, None))
        self.save(model, "r.onnx")
        np.savez(self.folder / "calib.npz", image=np.zeros((2, 3, 32, 32), np.float32))
        done = self.refuse(2, "TN0105", "quantize", "r.onnx", "--precision", "fp8", "--data", "calib.npz", "-o", "out.onnx")
        self.assertIn("BatchNormalization 'trained'", done.stderr)


if __name__ == "__main__":
    unittest.main()
