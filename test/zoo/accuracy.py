"""Classifies Fashion-MNIST's 10,000 test pictures with the small CNN at every CPU level and holds the number of right
answers against ONNX Runtime's. Relies on Debian's dataset-fashion-mnist.
"""

import sys
import unittest

import numpy as np

import expectations

sys.path[:0] = [str(expectations.SOURCE / "scripts"), str(expectations.SOURCE / "test/e2e")]

import demo  # noqa: E402
from tool import CNN, ToolTest  # noqa: E402


class Accuracy(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pictures, cls.labels = demo.load_pictures()
        cls.peer = demo.classify_by_peer(cls.pictures).argmax(axis=1)

    def test_every_level(self):
        engine = self.folder / "cnn.tenon"
        self.succeed("compile", CNN, "-o", engine, "--no-cache", "--quiet", "--shape", f"image:[1..{demo.PART}]x1x28x28")
        wanted = int((self.peer == self.labels).sum())
        self.assertEqual(10000, len(self.labels))
        self.assertGreater(wanted, 9000)
        for level in self.levels_of(engine):
            with self.subTest(level=level):
                self.assertEqual(wanted, self.right_answers(engine, level))

    def right_answers(self, engine, level):
        right = 0
        for start in range(0, len(self.labels), demo.PART):
            np.savez(self.folder / "in.npz", image=demo.as_input(self.pictures[start:start + demo.PART]))
            self.succeed("run", engine, "--inputs", "in.npz", "-o", "out.npz", "--isa", level, "--quiet")
            with np.load(self.folder / "out.npz") as archive:
                right += int((archive["logits"].argmax(axis=1) == self.labels[start:start + demo.PART]).sum())
        return right


if __name__ == "__main__":
    unittest.main()
