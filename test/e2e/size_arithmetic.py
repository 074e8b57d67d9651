"""Arithmetic on sizes as ONNX models write it, as numbers beside data and as sizes again: one engine beside ONNX Runtime at many sizes."""

import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tool import ToolTest

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
SIZES = [(1, 1), (2, 1), (2, 3), (2, 4), (1, 5), (2, 6), (3, 12), (5, 17), (7, 3)]

# What is computed of x [b, n]: steps "operator inputs" whose result the next one reads as "-"; the first input of the last is what the output is made of.
VALUES = ["Pow f -.5f", "Div 1f f", "Sqrt f; Reciprocal -", "Pow f 2f", "Log f", "Pow n 2; Cast -", "Max n 4; Cast -", "Min n b; Cast -", "Mod b 3; Cast -",
          "Sub n 4; Mod - 3; Cast -", "Sub n 4; Div - 3; Cast -", "Sub n b; Abs -; Cast -", "Neg n; Cast -", "Div n b; Cast -"]
# Sizes: the length of a Range.
LENGTHS = ["Max n 4", "Min n 4", "Max n b", "Pow n 2", "Sub n 3", "Sub n b; Abs -", "Neg n; Div - 4; Neg -", "Neg n; Mod - 4", "Sub b n; Mod - 4", "Div n b", "Mod n b",
           "Sub 16 n; Max - 0", "Sub n 4; Div - 3; Max - 0", "Mul n b; Max - 7"]
# Bounds of slices of x, and what pads it behind.
BOUNDS = ["Sub n 3; Max - 0", "Min n 4", "Mod n 4", "Min n 4; Neg -"]
PADS = ["Sub 16 n; Max - 0", "Neg n; Mod - 4", "Max n b"]


class Steps:
    def __init__(self):
        self.nodes = [helper.make_node("Shape", ["x"], ["b"], end=1), helper.make_node("Shape", ["x"], ["n"], start=1),
                      helper.make_node("Cast", ["n"], ["f"], to=FLOAT)]
        self.weights, self.outputs = {}, []

    def input(self, word, before):
        if word[-1] == "f" and word != "f":
            self.weights[word] = np.array([float(word[:-1])], np.float32)
        elif word.lstrip("-").isdecimal():
            self.weights[word] = np.array([int(word)])
        return before if word == "-" else word

    def of(self, text):
        result = ""
        for step in text.split(";"):
            operator, *words = step.split()
            inputs = [self.input(word, result) for word in words]
            result = f"v{len(self.nodes)}"
            self.nodes.append(helper.make_node(operator, inputs, [result], **({"to": FLOAT} if operator == "Cast" else {})))
        return result

    def give(self, operator, inputs, text, **attributes):
        name = f"{operator}: {text}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        self.outputs.append(name)

    def model(self):
        constants = {"0": [0], "1": [1], "end": [2**62], "none": 0, "one": 1, "before": [0, 0, 0]}
        self.weights.update({name: np.array(value) for name, value in constants.items()})
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", FLOAT, ["b", "n"])], [helper.make_empty_tensor_value_info(name) for name in self.outputs],
                                  [numpy_helper.from_array(value, name) for name, value in self.weights.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


class SizeArithmetic(ToolTest):
    def check(self, steps, sizes=SIZES):
        model = steps.model()
        onnx.save(model, self.folder / "m.onnx")
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:avx2")
        self.assertEqual([], self.json("inspect", "m.tenon").get("constraints", []))
        for shape in sizes:
            x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
            np.savez(self.folder / "in.npz", x=x)
            self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
            got = np.load(self.folder / "out.npz")
            for name, want in zip(steps.outputs, session.run(steps.outputs, {"x": x})):
                self.assertEqual(want.shape, got[name].shape, f"{name} at {shape}")
                np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-5, err_msg=f"{name} at {shape}")

    def test_values(self):
        steps = Steps()
        for text in VALUES:
            steps.give("Mul", ["x", steps.of(text)], text)
        self.check(steps)

    def test_lengths(self):
        steps = Steps()
        for text in LENGTHS:
            length = f"scalar {text}"
            steps.nodes.append(helper.make_node("Squeeze", [steps.of(text)], [length]))
            steps.give("Range", ["none", length, "one"], text)
        self.check(steps)

    def test_parts(self):
        steps = Steps()
        for text in BOUNDS:
            value = steps.of(text)
            steps.give("Slice", ["x", value, "end", "1"], f"from {text}")
            steps.give("Slice", ["x", "0", value, "1"], f"to {text}")
        self.check(steps)

    def test_pads(self):
        steps = Steps()
        for text in PADS:
            value = f"pads {text}"
            steps.nodes.append(helper.make_node("Concat", ["before", steps.of(text)], [value], axis=0))
            steps.give("Pad", ["x", value], text)
        self.check(steps)

    def test_shapes(self):
        steps = Steps()
        for text in ("Max n 4", "Max n b"):
            value = f"shape {text}"
            steps.nodes.append(helper.make_node("Concat", [steps.of(text), "b"], [value], axis=0))
            steps.give("ConstantOfShape", [value], text)
            steps.give("Tile", ["x", value], text)
        self.check(steps)


if __name__ == "__main__":
    unittest.main()
