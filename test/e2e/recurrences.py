"""Recurrent layers over sequences of any length: one engine for each layer, run at lengths from 1 to 5,000 beside ONNX Runtime."""

import itertools
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tool import PEER_INT8, ToolTest

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUT = 10


class Recurrences(ToolTest):
    def layer(self, op, direction, hidden, lengths=False, steps="T", **attributes):
        """A layer with free batch and, without `steps`, length; its weights leave the activations where they are no constants."""
        random = np.random.default_rng(hidden)
        directions = 2 if direction == "bidirectional" else 1
        gates = GATES[op]

        def weight(name, *shape):
            return numpy_helper.from_array((random.standard_normal(shape) * 0.5 / np.sqrt(hidden)).astype(np.float32), name)

        weights = [weight("W", directions, gates * hidden, INPUT), weight("R", directions, gates * hidden, hidden),
                   weight("B", directions, 2 * gates * hidden)]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, "B", INPUT])]
        if lengths:
            inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ["B"]))
        names = ["x", "W", "R", "B"] + (["lengths"] if lengths else [])
        results = ["y", "h", "c"] if op == "LSTM" else ["y", "h"]
        node = helper.make_node(op, names, results, name="layer", hidden_size=hidden, direction=direction, **attributes)
        graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
                                  weights)
        return self.compiled(graph, f"{op}_{direction}_{hidden}_{len(attributes)}_{lengths}.onnx")

    def compiled(self, graph, model):
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
                                    ir_version=8), self.folder / model)
        self.succeed("compile", model, "-o", "m.tenon")
        return onnxruntime.InferenceSession(str(self.folder / model))

    def agree(self, session, tolerance=1e-5, **inputs):
        np.savez(self.folder / "in.npz", **inputs)
        self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
        for name, want in zip([output.name for output in session.get_outputs()], session.run(None, inputs)):
            got = np.load(self.folder / "out.npz")[name]
            self.assertEqual(want.shape, got.shape)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)

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

    def test_clips_coupled_gates_and_parameters_of_activations(self):
        """As a loop, and step by step."""
        gates = {"activations": ["HardSigmoid", "ScaledTanh", "Affine"] * 2, "activation_alpha": [0.3, 0.9, 0.5, 0.2, 1.1, 0.7],
                 "activation_beta": [0.4, 0.6, 0.1, 0.5, 0.8, -0.1]}
        cases = (("LSTM", {"clip": 0.4, "input_forget": 1}), ("LSTM", {"activations": ["Sigmoid", "Elu", "LeakyRelu"] * 2, "clip": 1.0}),
                 ("LSTM", gates), ("GRU", {"clip": 0.3}), ("GRU", {"clip": 0.3, "linear_before_reset": 1}),
                 ("GRU", {"activations": ["HardSigmoid", "LeakyRelu"] * 2, "activation_alpha": [0.3, 0.05, 0.25, 0.1], "activation_beta": [0.4, 0.6]}),
                 ("RNN", {"clip": 0.5}), ("RNN", {"activations": ["ThresholdedRelu", "Elu"], "activation_alpha": [0.2, 0.7]}))
        for (op, attributes), steps in itertools.product(cases, ("T", 6)):
            with self.subTest(op=op, steps=steps, **attributes):
                session = self.layer(op, "bidirectional", 12, steps=steps, **attributes)
                self.agree(session, x=self.sequence(6, 3))
                if steps == "T":
                    self.succeed("compile", f"{op}_bidirectional_12_{len(attributes)}_False.onnx", "--target", "cuda:sm_90", "-o", "g.tenon")
        with self.assertRaisesRegex(AssertionError, "activation Affine has no parameter in 'activation_alpha'"):
            self.layer("RNN", "forward", 4, activations=["Affine"])

    def test_quantized_weights(self):
        """Beside the same layer with the weights' numbers as floats; ONNX Runtime also rounds what they are multiplied by."""
        random = np.random.default_rng(5)
        hidden = 24
        for kind, columns, directions in itertools.product((np.int8, np.uint8), (False, True), (1, 2)):
            x = self.sequence(7, 3)
            names = ["W", "W_scale", "W_zero", "R", "R_scale", "R_zero", "B", "W_float", "R_float"]
            values = {"B": (random.standard_normal((directions, 8 * hidden)) * 0.2).astype(np.float32)}
            for name, rows in (("W", INPUT), ("R", hidden)):
                scales = (directions, 4 * hidden) if columns else (directions,)
                spread = (lambda v: v[:, None, :]) if columns else (lambda v: v[:, None, None])
                values[name] = random.integers(*(PEER_INT8 if kind == np.int8 else (0, 256)), (directions, rows, 4 * hidden)).astype(kind)
                values[name + "_scale"] = ((1 + random.random(scales)) / 500).astype(np.float32)
                zero = random.integers(120, 136, scales) if kind == np.uint8 else random.integers(-3, 4, scales)
                values[name + "_zero"] = (zero * (not columns) + (0 if kind == np.int8 else 128) * columns).astype(kind)
                floats = (values[name].astype(np.float32) - spread(values[name + "_zero"].astype(np.float32))) * spread(values[name + "_scale"])
                values[name + "_float"] = floats.transpose(0, 2, 1).copy()
            direction = {"direction": "bidirectional"} if directions == 2 else {}
            quantized = helper.make_node("DynamicQuantizeLSTM", ["x", "W", "R", "B", "", "", "", "", "W_scale", "W_zero", "R_scale", "R_zero"],
                                         ["y", "h", "c"], name="layer", domain="com.microsoft", hidden_size=hidden, **direction)
            plain = helper.make_node("LSTM", ["x", "W_float", "R_float", "B"], ["y", "h", "c"], name="layer", hidden_size=hidden, **direction)

            def graph(node):
                inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", "B", INPUT])]
                outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "h", "c")]
                return helper.make_graph([node], "g", inputs, outputs,
                                         [numpy_helper.from_array(values[name], name) for name in names if name in node.input])

            with self.subTest(kind=kind.__name__, columns=columns, directions=directions):
                floats = self.compiled(graph(plain), "plain.onnx")
                session = self.compiled(graph(quantized), "quantized.onnx")
                self.agree(session, tolerance=3e-2, x=x)
                self.agree(floats, x=x)

    def test_lengths_of_rows(self):
        for op in GATES:
            session = self.layer(op, "bidirectional", 12, lengths=True)
            self.agree(session, x=self.sequence(9, 3), lengths=np.array([9, 4, 1], np.int32))
            self.agree(session, x=self.sequence(600, 2), lengths=np.array([513, 600], np.int32))
            for wrong in (-1, 10):
                np.savez(self.folder / "in.npz", x=self.sequence(9, 2), lengths=np.array([9, wrong], np.int32))
                self.refuse(5, "TN0611", "run", "m.tenon", "--inputs", "in.npz")

    def test_wide_layers_share_steps(self):
        """All threads work on each step: equal bytes from any number of them."""
        for op, hidden, direction in (("LSTM", 256, "forward"), ("GRU", 320, "bidirectional")):
            with self.subTest(op=op):
                session = self.layer(op, direction, hidden)
                self.assertIn("recurrence_shared", self.succeed("explain", "kernels", "m.tenon").stdout)
                for length, batch in ((1, 1), (9, 3), (4, 17)):
                    self.agree(session, x=self.sequence(length, batch))
                wanted = None
                np.savez(self.folder / "in.npz", x=self.sequence(20, 2))
                for threads in (1, 2, 7):
                    self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz", "--threads", str(threads))
                    got = {name: value.tobytes() for name, value in np.load(self.folder / "out.npz").items()}
                    wanted = wanted or got
                    self.assertEqual(wanted, got)

    def test_gpus_have_kernels(self):
        """With clusters and without, weights in registers and not; results are compared on a GPU by hand (test/ops has all forms)."""
        for hidden in (8, 256, 640):
            self.layer("LSTM", "forward", hidden)
            for arch in ("sm_80", "sm_90", "h200"):
                self.succeed("compile", f"LSTM_forward_{hidden}_0_False.onnx", "--target", f"cuda:{arch}", "-o", "g.tenon")
                kernels = self.succeed("explain", "kernels", "g.tenon").stdout
                self.assertIn("recurrence_persistent" if (hidden, arch) == (640, "h200") else "recurrence", kernels)


if __name__ == "__main__":
    sys.exit(unittest.main())
