"""A query whose mask hides every key: NaN, as softmax of minus infinities is, whatever is fused and whichever outputs the model has."""

import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from tool import ToolTest

SHAPE = (1, 2, 40, 16)
HIDDEN = (0, 39)


def expected(q, k, v, mask):
    scores = q @ k.transpose(0, 1, 3, 2) / 4 + mask
    with np.errstate(invalid="ignore"):
        parts = np.exp(scores - scores.max(-1, keepdims=True))
        return parts / parts.sum(-1, keepdims=True) @ v


def plain(outputs):
    nodes = [helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "t"], ["raw"]), helper.make_node("Mul", ["raw", "quarter"], ["s"]),
             helper.make_node("Add", ["s", "m"], ["sm"]), helper.make_node("Softmax", ["sm"], ["p"]), helper.make_node("MatMul", ["p", "v"], ["y"])]
    return nodes, outputs


FORMS = {"fused": plain(["y"]), "with scores": plain(["y", "p"]), "attention": ([helper.make_node("Attention", ["q", "k", "v", "m"], ["y"])], ["y"])}


class MaskedRows(ToolTest):
    def test_every_form(self):
        for element, kind, bound in ((TensorProto.FLOAT, np.float32, 1e-5), (TensorProto.FLOAT16, np.float16, 4e-3)):
            q, k, v = np.random.default_rng(0).standard_normal((3, *SHAPE)).astype(kind)
            mask = np.where(np.random.default_rng(1).random((40, 40)) < 0.3, -np.inf, 0).astype(kind)
            mask[HIDDEN, :] = -np.inf
            np.savez(self.folder / "in.npz", q=q, k=k, v=v, m=mask)
            want = expected(*(part.astype(np.float64) for part in (q, k, v, mask)))
            self.assertEqual(set(HIDDEN), set(np.isnan(want).any((0, 1, 3)).nonzero()[0]))
            for name, (nodes, outputs) in FORMS.items():
                inputs = [helper.make_tensor_value_info(part, element, SHAPE) for part in "qkv"] + [helper.make_tensor_value_info("m", element, (40, 40))]
                graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(output, element, None) for output in outputs],
                                          [onnx.numpy_helper.from_array(np.array(0.25, kind), "quarter")] if "fused" in name or "scores" in name else [])
                onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), self.folder / "m.onnx")
                with self.subTest(form=name, kind=kind.__name__):
                    self.succeed("run", "m.onnx", "--inputs", "in.npz", "-o", "out.npz")
                    np.testing.assert_allclose(np.load(self.folder / "out.npz")["y"].astype(np.float64), want, rtol=0, atol=bound)


if __name__ == "__main__":
    unittest.main()
