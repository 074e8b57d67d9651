"""Norms whose scale and bias have any shape that broadcasts, norms over a free size that their scale fixes, and transforms of signals of free
length: each beside NumPy."""

import itertools
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tool import ToolTest

FLOAT = TensorProto.FLOAT
SHAPE = (2, 3, 4)
RANDOM = np.random.default_rng(5)


def broadcasting(shape):
    """Every shape that broadcasts to this one."""
    for rank in range(len(shape) + 1):
        yield from itertools.product(*[(1, size) for size in shape[len(shape) - rank:]])


def normal(x, axes, centre=True):
    x = x - x.mean(axes, keepdims=True) if centre else x
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + 1e-5)


def model_of(nodes, inputs, outputs, weights, opset=23):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, FLOAT, dims) for name, dims in inputs.items()],
                              [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


class NormsAndSignals(ToolTest):
    def compiled(self, model):
        onnx.save(model, self.folder / "m.onnx")
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:avx2")

    def run_it(self, **feed):
        np.savez(self.folder / "in.npz", **feed)
        self.succeed("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz")
        return np.load(self.folder / "out.npz")

    def test_scales_of_every_shape(self):
        """Of the sizes known, and of those free in the file."""
        x = RANDOM.standard_normal(SHAPE).astype(np.float32)
        nodes, weights, want = [], {}, {}
        shapes = list(broadcasting(SHAPE))
        for i, (shape, axis) in enumerate(itertools.product(shapes, (0, 1, 2))):
            scale = RANDOM.standard_normal(shape).astype(np.float32)
            bias = RANDOM.standard_normal(shapes[(7 * i + 3) % len(shapes)]).astype(np.float32)
            weights |= {f"s{i}": scale, f"b{i}": bias}
            nodes += [helper.make_node("LayerNormalization", ["x", f"s{i}", f"b{i}"], [f"layer{i}"], axis=axis - 3),
                      helper.make_node("RMSNormalization", ["x", f"s{i}"], [f"rms{i}"], axis=axis)]
            axes = tuple(range(axis, 3))
            want |= {f"layer{i}": normal(x, axes) * scale + bias, f"rms{i}": normal(x, axes, centre=False) * scale}
        for dims in (SHAPE, ("a", "b", "c")):
            self.compiled(model_of(nodes, {"x": dims}, want, weights))
            got = self.run_it(x=x)
            for name, value in want.items():
                self.assertEqual(value.shape, got[name].shape)
                np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5, err_msg=name)

    def test_a_scale_that_does_not_broadcast(self):
        for shape in ((3,), (2, 3, 3), (1, 2, 3, 4)):
            weights = {"s": np.ones(shape, np.float32)}
            onnx.save(model_of([helper.make_node("LayerNormalization", ["x", "s"], ["y"])], {"x": SHAPE}, ["y"], weights), self.folder / "m.onnx")
            self.assertIn("TN0236", self.call("compile", "m.onnx", "-o", "m.tenon").stderr)

    def test_norms_fix_free_sizes(self):
        six = {"s": RANDOM.standard_normal(6).astype(np.float32), "b": RANDOM.standard_normal(6).astype(np.float32)}
        column = {name: value[:, None] for name, value in six.items()}
        norms = [("LayerNormalization", ["x", "s", "b"], {}, ("m", 6), lambda x: normal(x, -1) * six["s"] + six["b"]),
                 ("RMSNormalization", ["x", "s"], {}, ("m", 6), lambda x: normal(x, -1, centre=False) * six["s"]),
                 ("InstanceNormalization", ["x", "s", "b"], {}, ("m", 6, 5), lambda x: normal(x, -1) * column["s"] + column["b"]),
                 ("GroupNormalization", ["x", "s", "b"], {"num_groups": 2}, ("m", 6, 5),
                  lambda x: normal(x.reshape(-1, 2, 15), -1).reshape(x.shape) * column["s"] + column["b"])]
        for operator, inputs, attributes, shape, meaning in norms:
            dims = [f"n{i}" for i in range(len(shape))]
            weights = {name: six[name] for name in inputs[1:]}
            self.compiled(model_of([helper.make_node(operator, inputs, ["y"], name="norm", **attributes)], {"x": dims}, ["y"], weights))
            self.assertIn({"needs": "n1 is 6", "node": "norm"}, self.json("inspect", "m.tenon")["constraints"])
            for batch in (1, 4):
                x = RANDOM.standard_normal([batch if size == "m" else size for size in shape]).astype(np.float32)
                np.testing.assert_allclose(self.run_it(x=x)["y"], meaning(x), rtol=1e-4, atol=1e-5, err_msg=operator)

    def test_frames_of_free_length(self):
        window, weights = np.hanning(16).astype(np.float32), {"step": np.array(6), "length": np.array(16)}
        for inputs, w in ((["x", "step", "w"], window), (["x", "step", "", "length"], np.ones(16)), (["x", "step", "w", "length"], window)):
            given = {"w": window} if "w" in inputs else {}
            self.compiled(model_of([helper.make_node("STFT", inputs, ["y"])], {"x": ["b", "n", 1]}, ["y"], {**weights, **given}, opset=17))
            for size in (16, 17, 21, 22, 400):
                x = RANDOM.standard_normal((2, size, 1)).astype(np.float32)
                frames = np.lib.stride_tricks.sliding_window_view(x[..., 0], 16, 1)[:, ::6] * w
                want = np.fft.rfft(frames)
                np.testing.assert_allclose(self.run_it(x=x)["y"], np.stack([want.real, want.imag], -1), rtol=1e-4, atol=1e-4)
            np.savez(self.folder / "in.npz", x=np.ones((1, 15, 1), np.float32))
            self.assertIn("n is at least 16", self.call("run", "m.tenon", "--inputs", "in.npz", "-o", "out.npz").stderr)

    def test_transforms_of_free_length(self):
        """Cut or filled up to a constant length, and of their own."""
        attributes = {"half": {"onesided": 1}, "all": {}, "back": {"inverse": 1}}
        nodes = [helper.make_node("DFT", ["x"] + length, [name + suffix], axis=1, **attributes[name])
                 for length, suffix in ((["eight"], "8"), ([], "")) for name in attributes]
        self.compiled(model_of(nodes, {"x": [2, "n", 1]}, [node.output[0] for node in nodes], {"eight": np.array(8)}, opset=17))
        for size in (1, 2, 7, 8, 9, 40):
            x = RANDOM.standard_normal((2, size, 1)).astype(np.float32)
            got = self.run_it(x=x)
            for node in nodes:
                name, length = node.output[0].rstrip("8"), 8 if "8" in node.output[0] else size
                want = {"half": np.fft.rfft, "all": np.fft.fft, "back": np.fft.ifft}[name](x[..., 0], length)
                np.testing.assert_allclose(got[node.output[0]], np.stack([want.real, want.imag], -1), rtol=1e-4, atol=1e-4, err_msg=f"{node.output[0]} of {size}")


if __name__ == "__main__":
    unittest.main()
