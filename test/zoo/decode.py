"""One step of a small decoder with a static cache, against ONNX Runtime: rotary embedding, grouped heads, the token's row
written into the cache. Rows of the batch are at different positions.
"""

import os
import pathlib
import sys
import unittest

import numpy as np
import onnx
import onnxruntime

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "test/e2e"), str(SOURCE / "models")]

import fill  # noqa: E402
import inputs  # noqa: E402
import llama_decode  # noqa: E402
from tool import ToolTest  # noqa: E402

SHAPE = llama_decode.Shape(vocabulary=1000, width=128, inner=256, layers=2, heads=4, key_heads=2, head=32, cache=64)
OF_LARGEST = 1e-5


class Decode(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.graph, filled = cls.folder / "graph.onnx", cls.folder / "filled.onnx"
        model = llama_decode.build(SHAPE)
        onnx.save(model, str(cls.graph))
        fill.fill(cls.graph, filled)
        cls.session = onnxruntime.InferenceSession(str(filled), providers=["CPUExecutionProvider"])
        cls.arrays = inputs.make_inputs(model, {"batch": 3})
        cls.arrays["position_ids"][:, 0] = [0, 17, SHAPE.cache - 1]

    def expected(self):
        return dict(zip([output.name for output in self.session.get_outputs()], self.session.run(None, self.arrays)))

    def hold(self, outputs, expected):
        for name, want in expected.items():
            error = np.abs(outputs[name] - want).max()
            self.assertLessEqual(error, OF_LARGEST * np.abs(want).max(), name)

    def test_step(self):
        np.savez(self.folder / "in.npz", **self.arrays)
        self.succeed("run", self.graph, "--inputs", "in.npz", "-o", "out.npz", "--quiet")
        with np.load(self.folder / "out.npz") as archive:
            outputs = dict(archive)
        expected = self.expected()
        self.assertEqual(sorted(expected), sorted(outputs))
        self.hold(outputs, expected)
        # Another position of one row is a difference that is seen.
        outputs["logits"][1] = outputs["logits"][0]
        with self.assertRaises(AssertionError):
            self.hold(outputs, expected)


if __name__ == "__main__":
    unittest.main()
