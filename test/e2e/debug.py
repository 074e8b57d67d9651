"""`tenon debug`: of a model of many nodes, a planted fault leaves few, and its place is named.

Relies on tenon_faulty, the tool with a fault of the test's choice in every compilation of `debug`.
"""

import os
import subprocess
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tool import TENON, ToolTest, last_json

PLANTED = TENON.with_name("tenon_faulty")
LAYERS = 6


def layers_model():
    """x [batch, 8, 16] through layers of a product, an addition, a softmax and a multiplication; sizes by Shape."""
    draw = np.random.default_rng(7)
    nodes, weights = [], []
    value = "x"
    for layer in range(LAYERS):
        name = f"l{layer}"
        weights += [numpy_helper.from_array(draw.standard_normal((16, 16)).astype(np.float32) / 4, f"{name}_w"),
                    numpy_helper.from_array(draw.standard_normal(16).astype(np.float32), f"{name}_b")]
        nodes += [helper.make_node("MatMul", [value, f"{name}_w"], [f"{name}_p"], name=f"/{name}/MatMul"),
                  helper.make_node("Add", [f"{name}_p", f"{name}_b"], [f"{name}_s"], name=f"/{name}/Add"),
                  helper.make_node("Shape", [f"{name}_s"], [f"{name}_n"], name=f"/{name}/Shape"),
                  helper.make_node("Reshape", [f"{name}_s", f"{name}_n"], [f"{name}_r"], name=f"/{name}/Reshape"),
                  helper.make_node("Relu", [f"{name}_r"], [f"{name}_a"], name=f"/{name}/Relu")]
        value = f"{name}_a"
        if layer == 3:
            nodes += [helper.make_node("Softmax", [value], ["soft"], axis=-1, name="/l3/Softmax"),
                      helper.make_node("Mul", ["soft", "x"], ["scaled"], name="/l3/Mul")]
            value = "scaled"
    nodes.append(helper.make_node("ReduceSum", [value], ["y"], keepdims=0, name="/sum"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class DebugTest(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(layers_model(), cls.folder / "model.onnx")

    def planted(self, fault, *arguments):
        environment = dict(self.environment, TENON_PLANTED=fault)
        return subprocess.run([str(PLANTED), *map(str, arguments)], capture_output=True, text=True, cwd=self.folder,
                              env=environment, timeout=300)

    def answer(self, fault, *arguments):
        done = self.planted(fault, *arguments, "--json")
        self.assertEqual(0, done.returncode, done.stderr + done.stdout)
        return last_json(done.stdout)


class Reduce(DebugTest):
    def reduced(self, fault, *arguments):
        report = self.answer(fault, "debug", "reduce", "model.onnx", "-o", "small.onnx", *arguments)
        small = onnx.load(self.folder / "small.onnx")
        onnx.checker.check_model(small, full_check=True)
        self.assertEqual(len(small.graph.node), report["nodes_after"])
        self.assertEqual(report["nodes_before"], len(layers_model().graph.node))
        arrays = np.load(self.folder / "small.npz")
        self.assertEqual({value.name for value in small.graph.input}, set(arrays))
        return report, small

    def test_a_wrong_result(self):
        for fault, op in (("mul-as-add", "Mul"), ("relu-dropped", "Relu")):
            with self.subTest(fault):
                report, small = self.reduced(fault)
                self.assertEqual("different results", report["failure"])
                self.assertLessEqual(report["nodes_after"], 2)
                self.assertIn(op, [node.op_type for node in small.graph.node])

    def test_the_small_model_fails_by_itself_and_only_with_the_fault(self):
        report, _ = self.reduced("mul-as-add")
        self.assertIn("tenon debug bisect small.onnx", report["reproduce"])
        arguments = ["debug", "bisect", "small.onnx", "--inputs", "small.npz"]
        self.assertTrue(self.answer("mul-as-add", *arguments)["fails"])
        self.assertEqual(1, self.planted("", *arguments).returncode)

    def test_a_crash_of_the_compiler(self):
        report, small = self.reduced("crash")
        self.assertEqual("error TN0743 while compiling", report["failure"])
        self.assertEqual(["Softmax"], [node.op_type for node in small.graph.node])
        self.assertIn("tenon compile small.onnx", report["reproduce"])
        self.assertEqual(report["failure"], self.answer("crash", "debug", "reduce", "small.onnx", "-o", "smaller.onnx")["failure"])

    def test_a_failed_verification(self):
        report, small = self.reduced("invalid")
        self.assertIn("TN0742", report["failure"])
        self.assertEqual(["Softmax"], [node.op_type for node in small.graph.node])

    def test_symbols_stay_only_where_the_failure_needs_them(self):
        report, small = self.reduced("mul-as-add", "--shape", "x:[1..4]x8x16")
        self.assertNotIn("--shape", report["reproduce"])
        self.assertTrue(all(dim.HasField("dim_value") for value in small.graph.input
                            for dim in value.type.tensor_type.shape.dim))

    def test_given_inputs(self):
        x = np.zeros((2, 8, 16), np.float32)
        np.savez(self.folder / "x.npz", x=x)
        report = self.answer("mul-as-add", "debug", "reduce", "model.onnx", "-o", "g.onnx", "--inputs", "x.npz")
        self.assertTrue(report["fails"])
        np.savez(self.folder / "wrong.npz", other=x)
        done = self.planted("", "debug", "reduce", "model.onnx", "-o", "g.onnx", "--inputs", "wrong.npz")
        self.assertEqual(2, done.returncode, done.stderr)

    def test_weights_apart_come_into_the_small_model(self):
        (self.folder / "apart").mkdir()
        onnx.save(layers_model(), self.folder / "apart/model.onnx", save_as_external_data=True, location="w.data",
                  size_threshold=0)
        self.answer("matmul-transposed-b", "debug", "reduce", "apart/model.onnx", "-o", "whole.onnx")
        small = onnx.load(self.folder / "whole.onnx", load_external_data=False)
        self.assertEqual(["MatMul"], [node.op_type for node in small.graph.node])
        self.assertTrue(all(len(weight.raw_data) == 4 * 16 * 16 for weight in small.graph.initializer))

    def test_what_a_graph_inside_of_a_node_reads_becomes_an_input(self):
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
        inner = [helper.make_graph([helper.make_node(op, ["a", "x"], [f"{op}_y"])], op, [],
                                   [helper.make_tensor_value_info(f"{op}_y", TensorProto.FLOAT, [2, 3])])
                 for op in ("Mul", "Sub")]
        nodes = [helper.make_node("Exp", ["x"], ["a"]),
                 helper.make_node("If", ["yes"], ["b"], then_branch=inner[0], else_branch=inner[1]),
                 helper.make_node("Relu", ["b"], ["y"])]
        graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(np.array(True), "yes")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                  self.folder / "if.onnx")
        self.answer("mul-as-add", "debug", "reduce", "if.onnx", "-o", "small_if.onnx")
        small = onnx.load(self.folder / "small_if.onnx")
        self.assertEqual(["If"], [node.op_type for node in small.graph.node])
        self.assertEqual({"a", "x"}, {value.name for value in small.graph.input})

    def test_the_time_is_kept(self):
        report = self.answer("mul-as-add", "debug", "reduce", "model.onnx", "-o", "late.onnx", "--seconds", 0.01)
        self.assertFalse(report["in_time"])

    def test_a_model_that_does_not_fail(self):
        done = self.call("debug", "reduce", "model.onnx", "-o", "none.onnx")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn("does not fail", done.stdout)
        self.assertFalse((self.folder / "none.onnx").exists())

    def test_usage(self):
        self.refuse(2, "TN0105", "debug", "reduce", "model.onnx")
        self.refuse(2, "TN0111", "debug", "reduce", "model.onnx", "-o", "model.onnx")
        self.refuse(2, "TN0101", "debug", "reduce", "nowhere.onnx", "-o", "small.onnx")


class Bisect(DebugTest):
    def bisected(self, fault):
        report = self.answer(fault, "debug", "bisect", "model.onnx")
        self.assertTrue(report["fails"])
        return report

    def test_a_pattern(self):
        report = self.bisected("wrong-pattern")
        self.assertEqual(("optimize", "wrong-pattern"), (report["phase"], report["pass"]))
        self.assertIn("WrongProduct", report["pattern"])
        self.assertIn("/l3/Mul", report["site"])

    def test_the_end_of_a_phase(self):
        report = self.bisected("mul-as-add")
        self.assertEqual("optimize", report["phase"])
        self.assertIn("/l3/Mul", report["site"])
        self.assertEqual("", report["pattern"])

    def test_code(self):
        report = self.bisected("code:mul-as-add")
        self.assertEqual("codegen", report["phase"])
        self.assertIn("/l3/Mul", report["site"])
        self.assertNotIn("/l4/MatMul", report["site"])

    def test_a_pass_that_fails(self):
        report = self.bisected("invalid")
        self.assertEqual("error TN0742 while compiling", report["failure"])
        self.assertEqual("optimize", report["phase"])

    def test_a_model_that_does_not_fail(self):
        self.assertEqual(1, self.call("debug", "bisect", "model.onnx").returncode)


if __name__ == "__main__":
    unittest.main()
