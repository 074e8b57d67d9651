"""`tenon compare`: errors layer by layer, and the first layer that is wrong under a planted fault.

Relies on tenon_faulty, the tool with a fault of the test's choice in what `compiled:` compiles.
"""

import os
import subprocess
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tool import TENON, ToolTest, last_json

FAULTY = TENON.with_name("tenon_faulty")


def model():
    """x [batch, 8] through a product, an addition, a relu, a multiplication and a softmax."""
    draw = np.random.default_rng(5)
    weights = [numpy_helper.from_array(draw.standard_normal((8, 8)).astype(np.float32), "w"),
               numpy_helper.from_array(draw.standard_normal(8).astype(np.float32), "b")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"], name="/MatMul"),
             helper.make_node("Add", ["product", "b"], ["sum"], name="/Add"),
             helper.make_node("Relu", ["sum"], ["active"], name="/Relu"),
             helper.make_node("Mul", ["active", "x"], ["scaled"], name="/Mul"),
             helper.make_node("Softmax", ["scaled"], ["y"], name="/Softmax")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], weights),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Compare(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(model(), cls.folder / "model.onnx")
        np.savez(cls.folder / "x.npz", x=np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32))
        cls.succeed("compile", "model.onnx", "-o", "plain.tenon", "--target", "cpu:avx2")
        cls.succeed("compile", "model.onnx", "-o", "tapped.tenon", "--target", "cpu:avx2", "--tap", "all")
        cls.succeed("compile", "model.onnx", "-o", "half.tenon", "--target", "cpu:avx2", "--tap", "all", "--precision",
                    "fp16")

    def test_layers_in_the_order_of_the_model(self):
        report = self.json("compare", "compiled:model.onnx", "model.onnx", "--layers")
        self.assertEqual(["product", "sum", "active", "scaled", "y"], [layer["name"] for layer in report["layers"]])
        self.assertEqual("MatMul '/MatMul'", report["layers"][0]["node"])
        self.assertIsNone(report["first_beyond"])
        self.assertEqual([], report["only_in_a"] + report["only_in_b"])

    def test_without_layers_only_outputs(self):
        report = self.json("compare", "plain.tenon", "model.onnx", "--inputs", "x.npz")
        self.assertEqual(["y"], [layer["name"] for layer in report["layers"]])

    def test_the_first_wrong_layer(self):
        for fault, name in (("mul-as-add", "scaled"), ("relu-dropped", "active")):
            done = subprocess.run([str(FAULTY), "compare", "compiled:model.onnx", "model.onnx", "--layers", "--json"],
                                  capture_output=True, text=True, cwd=self.folder,
                                  env=dict(self.environment, TENON_PLANTED=fault), timeout=300)
            self.assertEqual(1, done.returncode, done.stderr)
            self.assertEqual(name, last_json(done.stdout)["first_beyond"]["name"])

    def test_errors_are_those_of_numpy(self):
        """max abs, rel and ulp of the fp16 engine against the fp32 one, from the numbers that `run` writes."""
        arrays = []
        for engine in ("half", "tapped"):
            self.succeed("run", f"{engine}.tenon", "--inputs", "x.npz", "-o", f"{engine}.npz")
            arrays.append(np.load(self.folder / f"{engine}.npz"))
        done = self.call("compare", "half.tenon", "tapped.tenon", "--inputs", "x.npz", "--json")
        for layer in last_json(done.stdout)["layers"]:
            a, b = (array[layer["name"]].astype(np.float32) for array in arrays)
            distance = np.abs(a.astype(np.float64) - b)
            self.assertAlmostEqual(distance.max(), layer["max_abs"])
            relative = np.divide(distance, np.abs(b), out=np.zeros_like(distance), where=b != 0)
            self.assertAlmostEqual(relative.max(), layer["max_rel"], places=5)
            if np.array_equal(np.sign(a), np.sign(b)):
                ulps = np.abs(np.abs(a).view(np.int32).astype(np.int64) - np.abs(b).view(np.int32))
                self.assertEqual(ulps.max(), layer["max_ulp"])

    def test_the_tolerance_decides(self):
        self.assertEqual(1, self.call("compare", "half.tenon", "model.onnx", "--inputs", "x.npz", "--rtol", 0, "--atol",
                                      1e-9).returncode)
        text = self.succeed("compare", "half.tenon", "model.onnx", "--inputs", "x.npz", "--layers", "--rtol", 0.05,
                            "--atol", 0.05).stdout
        self.assertIn("all 5 tensors are within the tolerance", text)

    def test_what_only_one_has(self):
        report = self.json("compare", "plain.tenon", "model.onnx", "--inputs", "x.npz", "--layers")
        self.assertEqual(["product", "sum", "active", "scaled"], report["only_in_b"])

    def renamed(self, path, *names):
        """The model with outputs of these names, all of them y."""
        changed = model()
        changed.graph.output.pop()
        for name in names:
            changed.graph.node.append(helper.make_node("Identity", ["y"], [name]))
            changed.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]))
        onnx.save(changed, self.folder / path)

    def test_outputs_of_other_names(self):
        self.renamed("renamed.onnx", "z")
        report = self.json("compare", "plain.tenon", "renamed.onnx", "--inputs", "x.npz")
        self.assertEqual([("z", "y")], [(layer["name"], layer["name_in_a"]) for layer in report["layers"]])
        self.assertIn("z (y)", self.succeed("compare", "plain.tenon", "renamed.onnx", "--inputs", "x.npz").stdout)
        self.renamed("several.onnx", "z", "v")
        self.refuse(2, "TN0105", "compare", "plain.tenon", "several.onnx", "--inputs", "x.npz")
        report = self.json("compare", "plain.tenon", "several.onnx", "--inputs", "x.npz", "--map", "y=v")
        self.assertEqual(["v"], [layer["name"] for layer in report["layers"]])
        self.assertEqual(["z"], report["only_in_b"])
        for wrong in ("y=w", "w=v", "y"):
            self.refuse(2, "TN0105", "compare", "plain.tenon", "several.onnx", "--inputs", "x.npz", "--map", wrong)

    def test_one_tap(self):
        self.succeed("compile", "model.onnx", "-o", "one.tenon", "--target", "cpu:avx2", "--tap", "active")
        self.assertEqual(["y", "active"], [port["name"] for port in self.json("inspect", "one.tenon")["outputs"]])
        self.refuse(2, "TN0105", "compile", "model.onnx", "-o", "one.tenon", "--tap", "activ")

    def test_usage(self):
        self.refuse(2, "TN0101", "compare", "model.onnx", "nowhere.onnx")
        self.refuse(2, "TN0105", "compare", "model.onnx")


if __name__ == "__main__":
    unittest.main()
