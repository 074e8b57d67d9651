"""`tenon quantize` on layers inside of If, Loop and Scan and on recurrent layers: what it writes is the same in Tenon, in ONNX Runtime with its default optimizations and
with none, and in OpenVINO; weights that graphs share are stored once; and operators that opsets spell otherwise mean the same after they were raised.
"""

import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from opset_table import FEEDS, model_of
from tool import ToolTest

try:
    import openvino
except ImportError:
    openvino = None

N = helper.make_node
FORMS = {"w8": ["--weights-only", "8"], "w4": ["--weights-only", "4"], "w4_qdq": ["--weights-only", "4", "--int4-form", "qdq"], "dynamic": ["--dynamic"], "int8": ["--data", "calib.npz"]}


def info(name, dims=None, kind=T.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def graph(name, nodes, outputs, inputs=(), constants=()):
    return helper.make_graph(nodes, name, list(inputs), [info(output, kind=T.BOOL if output == "on" else T.FLOAT) for output in outputs], list(constants))


class Nets:
    """Each returns nodes, constants, inputs, outputs, and what is run."""

    def __init__(self):
        self.random = np.random.default_rng(8)

    def w(self, *dims):
        return (self.random.standard_normal(dims) / np.sqrt(dims[-1])).astype(np.float32)

    def merged(self):
        """A decoder as optimum merges it: both branches read weights from around them, and the table of words is the head's too."""
        def side(p, past):
            keys = N("Concat", ["past", p + "k0"], [p + "k"], axis=1) if past else N("Identity", [p + "k0"], [p + "k"])
            return graph(p, [N("Gather", ["words", "ids"], [p + "e"], name=p + "rows"), N("MatMul", [p + "e", "q"], [p + "q"], name=p + "query"), N("MatMul", [p + "e", "k"], [p + "k0"], name=p + "key"), keys,
                             N("Transpose", [p + "k"], [p + "kt"], perm=[0, 2, 1]), N("MatMul", [p + "q", p + "kt"], [p + "s"], name=p + "scores"), N("Softmax", [p + "s"], [p + "p"], axis=-1),
                             N("MatMul", [p + "p", p + "k"], [p + "a"], name=p + "values"), N("MatMul", [p + "a", "up"], [p + "u"], name=p + "up"), N("Relu", [p + "u"], [p + "r"]),
                             N("MatMul", [p + "r", "down"], [p + "d"], name=p + "down"), N("Add", [p + "d", p + "e"], [p + "z"]), N("Transpose", ["words"], [p + "wt"], perm=[1, 0]),
                             N("MatMul", [p + "z", p + "wt"], [p + "l"], name=p + "head")], [p + "l", p + "k"])

        weights = {"words": self.w(400, 64) * 8, "q": self.w(64, 64), "k": self.w(64, 64), "up": self.w(64, 256), "down": self.w(256, 64)}
        inputs = [info("ids", ["b", "s"], T.INT64), info("past", ["b", "p", 64]), info("use", [1], T.BOOL)]
        feed = {"ids": self.random.integers(0, 400, (1, 3)), "past": self.random.standard_normal((1, 4, 64)).astype(np.float32)}
        return [N("If", ["use"], ["logits", "keys"], name="merged", then_branch=side("t_", True), else_branch=side("e_", False))], weights, inputs, ["logits", "keys"], [feed | {"use": np.array([use])} for use in (True, False)]

    def voice(self):
        """One net for each rate, with a recurrent layer whose weights are cut from a constant, as in silero's detector of voices."""
        def side(p, step):
            constants = {"w1": self.w(64, 1, step), "w2": self.w(64, 64, 3), "b2": self.w(64), "W": self.w(600, 64), "R": self.w(512, 128), "wl": self.w(128, 256), "wm": self.w(256, 1)}
            nodes = [N("Conv", ["x", p + "w1"], [p + "a"], name=p + "conv1", strides=[step]), N("Relu", [p + "a"], [p + "r"]), N("Conv", [p + "r", p + "w2", p + "b2"], [p + "c"], name=p + "conv2", pads=[1, 1]),
                     N("Transpose", [p + "c"], [p + "t"], perm=[2, 0, 1]), N("Slice", [p + "W", "zero", "rows", "zero"], [p + "Ws"]), N("Unsqueeze", [p + "Ws", "zero"], [p + "Wu"]), N("Unsqueeze", [p + "R", "zero"], [p + "Ru"]),
                     N("LSTM", [p + "t", p + "Wu", p + "Ru"], ["", p + "h"], name=p + "lstm", hidden_size=128), N("Squeeze", [p + "h", "zero"], [p + "s"]), N("MatMul", [p + "s", p + "wl"], [p + "m"], name=p + "dense"),
                     N("Relu", [p + "m"], [p + "mr"]), N("MatMul", [p + "mr", p + "wm"], [p + "y"], name=p + "out")]
            return graph(p, nodes, [p + "y"], constants=[numpy_helper.from_array(value, p + key) for key, value in constants.items()])

        constants = {"high": np.int64(16000), "zero": np.int64([0]), "rows": np.int64([512])}
        feeds = [{"x": self.random.standard_normal((1, 1, 512)).astype(np.float32), "rate": np.array(rate)} for rate in (16000, 8000)]
        return [N("Equal", ["rate", "high"], ["is_high"]), N("If", ["is_high"], ["y"], name="by_rate", then_branch=side("t_", 32), else_branch=side("e_", 16))], constants, [info("x", [1, 1, 512]), info("rate", [], T.INT64)], ["y"], feeds

    def cells(self):
        """Bodies that run again and again, and recurrent layers of all kinds; the main graph reads a weight of each body too."""
        loop = graph("loop_body", [N("MatMul", ["s", "shared"], ["m"], name="in_loop"), N("Tanh", ["m"], ["s1"]), N("Identity", ["go"], ["on"])], ["on", "s1"], [info("i", [], T.INT64), info("go", [], T.BOOL), info("s")])
        scan = graph("scan_body", [N("MatMul", ["h", "recur"], ["hm"], name="in_scan"), N("MatMul", ["e", "shared"], ["em"], name="of_scan"), N("Add", ["hm", "em"], ["hs"]), N("Tanh", ["hs"], ["h1"]), N("Identity", ["h1"], ["y1"])],
                     ["h1", "y1"], [info("h", [1, 128]), info("e", [1, 128])])
        nodes = [N("MatMul", ["x", "shared"], ["a"], name="first"), N("Loop", ["times", "true", "a"], ["l"], name="loop", body=loop), N("Scan", ["start", "l"], ["end_state", "ys"], name="scan", body=scan, num_scan_inputs=1),
                 N("MatMul", ["ys", "shared"], ["mid"], name="mid"), N("LSTM", ["mid", "W1", "R1"], ["o1"], name="lstm", hidden_size=64, direction="bidirectional"), N("Transpose", ["o1"], ["o1t"], perm=[0, 2, 1, 3]),
                 N("Reshape", ["o1t", "dims"], ["o1r"]), N("GRU", ["o1r", "W2", "R2"], ["o2"], name="gru", hidden_size=128, linear_before_reset=1), N("Squeeze", ["o2", "one"], ["o2s"]),
                 N("RNN", ["o2s", "W3", "R3"], ["o3"], name="rnn", hidden_size=128), N("Squeeze", ["o3", "one"], ["o3s"]), N("MatMul", ["o3s", "end"], ["y"], name="end")]
        weights = {"shared": self.w(128, 128), "recur": self.w(128, 128), "W1": self.w(2, 256, 128), "R1": self.w(2, 256, 64), "W2": self.w(1, 384, 128), "R2": self.w(1, 384, 128), "W3": self.w(1, 128, 128), "R3": self.w(1, 128, 128), "end": self.w(128, 32),
                   "times": np.int64(3), "true": np.array(True), "start": np.zeros((1, 128), np.float32), "dims": np.int64([7, 1, 128]), "one": np.int64([1])}
        return nodes, weights, [info("x", [7, 1, 128])], ["y"], [{"x": self.random.standard_normal((7, 1, 128)).astype(np.float32)}]


class QuantizeBranches(ToolTest):
    def run_all(self, path, feed):
        """What each runtime makes of a file."""
        results = {}
        for name, level in (("onnxruntime", onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL), ("plain", onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)):
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = level
            results[name] = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feed)
        if openvino:
            compiled = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"})
            made = compiled(feed)
            results["openvino"] = [made[output] for output in compiled.outputs]
        np.savez(self.folder / "in.npz", **feed)
        self.succeed("run", path, "--inputs", "in.npz", "-o", "out.npz")
        with np.load(self.folder / "out.npz") as made:
            results["tenon"] = [made[output.name] for output in onnx.load(path).graph.output]
        return results

    def check(self, name, forms, least):
        nodes, constants, inputs, outputs, feeds = getattr(Nets(), name)()
        model = helper.make_model(helper.make_graph(nodes, "g", inputs, [info(output) for output in outputs], [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()]),
                                  opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path, small = self.folder / f"{name}.onnx", self.folder / f"{name}.small.onnx"
        onnx.save(model, path)
        np.savez(self.folder / "calib.npz", **{key: np.stack([value] * 2) if value.ndim == 0 else np.concatenate([value] * 2) for key, value in feeds[0].items()} if name != "cells" else feeds[0])
        plain = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        reports = {}
        for form in forms:
            with self.subTest(net=name, form=form):
                reports[form] = {layer["name"]: layer for layer in self.json("quantize", path, *FORMS[form], "-o", small)["layers"]}
                self.assertLess(small.stat().st_size, 0.45 * path.stat().st_size)
                for feed in feeds:
                    wanted = plain.run(None, feed)
                    loss = {runtime: min(10 * np.log10(np.square(a).sum() / np.square(a - b).sum()) for a, b in zip(wanted, made)) for runtime, made in self.run_all(small, feed).items()}
                    self.assertGreater(loss["tenon"], least if form.startswith("w4") else 25, loss)
                    for runtime, own in loss.items():
                        self.assertAlmostEqual(min(own, 60), min(loss["tenon"], 60), delta=1, msg=f"{runtime}: {loss}")
        return reports

    def test_branches_that_share_weights(self):
        reports = self.check("merged", ["w8", "w4", "w4_qdq", "dynamic", "int8"], 12)
        self.assertEqual({reports["dynamic"][key]["treatment"] for key in ("t_up", "e_up", "t_down")}, {"int8"})
        self.assertEqual(reports["int8"]["t_up"]["reason"], "inside of If 'merged': its activations have no ranges")

    def test_a_net_for_each_rate(self):
        reports = self.check("voice", ["w8", "dynamic"], 12)
        self.assertEqual((reports["w8"]["e_lstm"]["treatment"], reports["w8"]["e_lstm"]["reason"]), ("weights only", "a recurrent layer"))

    def test_bodies_and_recurrent_layers(self):
        reports = self.check("cells", ["w8", "w4_qdq", "dynamic", "int8"], 12)
        self.assertEqual({reports["int8"][key]["treatment"] for key in ("in_loop", "in_scan", "lstm", "gru", "rnn")}, {"weights only"})
        kept = {layer["name"]: layer for layer in self.json("quantize", "cells.onnx", "--weights-only", "8", "--keep", "lstm", "--keep", "in_loop", "-o", "kept.onnx")["layers"]}
        self.assertEqual({kept[key]["reason"] for key in ("lstm", "in_loop")}, {"--keep"})

    def test_opsets(self):
        """A table of operators in older opsets, raised to what 8 bits, and what blocks of 4 bits in ONNX's own form need."""
        for opset in (7, 9, 10, 11, 16, 18):
            model, names = model_of(opset)
            onnx.save(model, self.folder / "old.onnx")
            wanted = dict(zip(names, onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(names, FEEDS)))
            for flags in (["--weights-only", "8"], ["--weights-only", "4", "--int4-form", "qdq"]):
                self.succeed("quantize", "old.onnx", *flags, "-o", "new.onnx")
                made = onnxruntime.InferenceSession(str(self.folder / "new.onnx"), providers=["CPUExecutionProvider"]).run(names, FEEDS)
                for name, value in zip(names, made):
                    np.testing.assert_allclose(value, wanted[name], rtol=1e-5, atol=1e-6, err_msg=f"{name} of opset {opset} with {flags}")


if __name__ == "__main__":
    unittest.main()
