"""`tenon quantize --weights-only 4`: MatMul and Gemm in both forms that models have for blocks of 4 bits, which ONNX Runtime reads to the same numbers;
rounding by samples loses less than rounding to nearest, on samples of its own.
"""

import json
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from float_nets import transformer
from peer import by_peer, distance
from tool import ToolTest


def products(depth=176):
    """MatMul, Gemm in both directions with and without a bias, weights behind a Transpose; the depth fills no whole block."""
    random = np.random.default_rng(5)
    weights = {"a": (depth, 96), "b": (depth, 96), "c": (depth, depth), "d": (96, depth), "bias": (96,)}
    constants = [numpy_helper.from_array(random.standard_normal(dims).astype(np.float32) / 8, name) for name, dims in weights.items()]
    nodes = [helper.make_node("MatMul", ["x", "c"], ["first"], name="first"),
             helper.make_node("Tanh", ["first"], ["h"]),
             helper.make_node("Gemm", ["h", "a", "bias"], ["g"], name="gemm"),
             helper.make_node("Tanh", ["g"], ["t"]),
             helper.make_node("Gemm", ["t", "b"], ["back"], name="turned", transB=1),
             helper.make_node("Transpose", ["d"], ["dt"], perm=[1, 0]),
             helper.make_node("MatMul", ["back", "dt"], ["y"], name="behind_transpose")]
    graph = helper.make_graph(nodes, "products", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", depth])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 96])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Blocks(ToolTest):
    def save(self, model, name):
        onnx.save(model, self.folder / name)
        return self.folder / name

    def quantize(self, model, output, *flags):
        report = json.loads(self.succeed("quantize", model, "-o", output, "--weights-only", "4", "--json", *flags).stdout)
        return report, onnx.load(self.folder / output)

    def by_tenon(self, path, inputs):
        np.savez(self.folder / "in.npz", **inputs)
        self.succeed("run", path, "--inputs", "in.npz", "-o", "out.npz", "--target", "cpu:native")
        with np.load(self.folder / "out.npz") as arrays:
            return arrays[arrays.files[0]]

    def test_forms(self):
        model = self.save(products(), "p.onnx")
        x = {"x": np.random.default_rng(6).standard_normal((5, 176)).astype(np.float32)}
        numbers = {}
        for form, op in (("nbits", "MatMulNBits"), ("qdq", "DequantizeLinear")):
            with self.subTest(form):
                report, written = self.quantize(model, f"{form}.onnx", "--int4-form", form)
                self.assertEqual({(layer["treatment"], layer["bits"]) for layer in report["layers"]}, {("weights only", 4)})
                self.assertEqual([node.op_type for node in written.graph.node].count(op), 4)
                self.assertFalse({tensor.name for tensor in written.graph.initializer} & {"a", "b", "c", "d"})
                numbers[form] = by_peer(self.folder / f"{form}.onnx", x)
                self.assertLess(distance(self.by_tenon(self.folder / f"{form}.onnx", x), numbers[form]), 1e-4)
                self.assertLess(distance(numbers[form], by_peer(model, x)), 0.25)
        # The same integers in two layouts.
        self.assertLess(distance(numbers["qdq"], numbers["nbits"]), 1e-4)
        self.assertEqual(onnx.load(self.folder / "qdq.onnx").opset_import[0].version, 21)
        onnx.checker.check_model(self.folder / "qdq.onnx", full_check=True)

    def correlated(self, rows, seed, depth=176):
        """Rows of a few directions, as activations are."""
        random = np.random.default_rng(7)
        directions = random.standard_normal((12, depth)) * np.geomspace(4, 0.3, 12)[:, None]
        own = np.random.default_rng(seed)
        return (own.standard_normal((rows, 12)) @ directions + 0.05 * own.standard_normal((rows, depth))).astype(np.float32)

    def test_rounding_by_samples(self):
        for name, model, calibration, test in (
                ("p", products(), {"x": self.correlated(256, 1)}, {"x": self.correlated(64, 2)}),
                ("t", transformer(), {"ids": np.random.default_rng(1).integers(0, 1000, (64, 16))}, {"ids": np.random.default_rng(2).integers(0, 1000, (16, 16))})):
            with self.subTest(name):
                path = self.save(model, f"{name}.onnx")
                np.savez(self.folder / "calib.npz", **calibration)
                self.quantize(path, "nearest.onnx")
                report, _ = self.quantize(path, "sampled.onnx", "--data", "calib.npz")
                self.assertGreater(max(layer["rounding_gain"] for layer in report["layers"]), 1)
                wide = by_peer(path, test)
                lost = {kind: distance(by_peer(self.folder / f"{kind}.onnx", test), wide) for kind in ("nearest", "sampled")}
                self.assertLess(lost["sampled"], 0.9 * lost["nearest"])

    def test_few_samples_do_no_harm(self):
        """Fewer rows than the depth: their matrix has no inverse by itself."""
        path = self.save(products(), "p.onnx")
        np.savez(self.folder / "calib.npz", x=self.correlated(4, 1))
        self.quantize(path, "sampled.onnx", "--data", "calib.npz")
        x = {"x": self.correlated(64, 2)}
        self.assertLess(distance(by_peer(self.folder / "sampled.onnx", x), by_peer(path, x)), 0.25)

    def test_what_is_refused(self):
        self.save(products(), "p.onnx")
        np.savez(self.folder / "calib.npz", x=self.correlated(8, 1))
        for flags, text in ((("--weights-only", "8", "--data", "calib.npz"), "needs no samples"), (("--data", "calib.npz", "--int4-form", "qdq"), "--weights-only 4")):
            self.assertIn(text, self.refuse(2, "TN0105", "quantize", "p.onnx", "-o", "out.onnx", *flags).stderr)


if __name__ == "__main__":
    unittest.main()
