"""Recurrent layers over sequences of any length: one engine for each layer, run at lengths from 1 to 5,000 beside ONNX Runtime."""

import itertools
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tool import ToolTest

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUT = 10


class Recurrences(ToolTest):
    def layer(self, op, direction, hidden, lengths=False, **attributes):
        """A layer with free length and batch; its weights leave the activations where they are no constants."""
        random = np.random.default_rng(hidden)
        directions = 2 if direction == "bidirectional" else 1
        gates = GATES[op]

        def weight(name, *shape):
            return numpy_helper.from_array((random.standard_normal(shape) * 0.5 / np.sqrt(hidden)).astype(np.float32), name)

        weights = [weight("W", directions, gates * hidden, INPUT), weight("R", directions, gates * hidden, hidden),
                   weight("B", directions, 2 * gates * hidden)]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", "B", INPUT])]
        if lengths:
            inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ["B"]))
        names = ["x", "W", "R", "B"] + (["lengths"] if lengths else [])
        results = ["y", "h", "c"] if op == "LSTM" else ["y", "h"]
        node = helper.make_node(op, names, results, name="layer", hidden_size=hidden, direction=direction, **attributes)
        graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
                                  weights)
        model = f"{op}_{direction}_{hidden}_{len(attributes)}_{lengths}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / model)
        self.succeed("compile", model, "-o", "m.tenon")
        return onnxruntime.InferenceSession(str(self.folder / model))

    def agree(self, session, **inputs):
        np.savez(self.folder / "in.npz", **inputs)
        self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
        for name, want in zip([output.name for output in session.get_outputs()], session.run(None, inputs)):
            got = np.load(self.folder / "out.npz")[name]
            self.assertEqual(want.shape, got.shape)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

    def sequence(self, length, batch):
        return np.random.default_rng(length).standard_normal((length, batch, INPUT)).astype(np.float32)

    def test_every_cell_and_direction(self):
        for op, direction in itertools.product(GATES, ("forward", "reverse", "bidirectional")):
            with self.subTest(op=op, direction=direction):
                session = self.layer(op, direction, 24)
                for length, batch in ((1, 1), (2, 3), (17, 1), (40, 10), (700, 4), (5000, 1)):
                    self.agree(session, x=self.sequence(length, batch))

    def test_widths_forms_and_activations(self):
        for op, hidden, attributes in (("LSTM", 1, {}), ("LSTM", 37, {}), ("GRU", 129, {}), ("GRU", 20, {"linear_before_reset": 1}),
                                       ("LSTM", 16, {"activations": ["Sigmoid", "Softsign", "Relu"]}), ("RNN", 9, {"activations": ["Softplus"]})):
            with self.subTest(op=op, hidden=hidden, **attributes):
                session = self.layer(op, "forward", hidden, **attributes)
                for length, batch in ((1, 3), (33, 2)):
                    self.agree(session, x=self.sequence(length, batch))

    def test_lengths_of_rows(self):
        for op in GATES:
            session = self.layer(op, "bidirectional", 12, lengths=True)
            self.agree(session, x=self.sequence(9, 3), lengths=np.array([9, 4, 1], np.int32))
            self.agree(session, x=self.sequence(600, 2), lengths=np.array([513, 600], np.int32))
            for wrong in (-1, 10):
                np.savez(self.folder / "in.npz", x=self.sequence(9, 2), lengths=np.array([9, wrong], np.int32))
                self.refuse(5, "TN0611", "run", "m.tenon", "--inputs", "in.npz")

    def test_gpus_have_kernels(self):
        """With clusters and without, weights in registers and not; results are compared on a GPU by hand (test/ops has all forms)."""
        for hidden in (8, 256, 640):
            self.layer("LSTM", "forward", hidden)
            for arch in ("sm_80", "sm_90"):
                self.succeed("compile", f"LSTM_forward_{hidden}_0_False.onnx", "--target", f"cuda:{arch}", "-o", "g.tenon")
                self.assertIn("recurrence", self.succeed("explain", "kernels", "g.tenon").stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
