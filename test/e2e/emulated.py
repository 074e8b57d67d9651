"""The quantized products and convolutions of quantized.py and quantized_convs.py on CPU levels of another architecture, under QEMU:
compiled for them as `tenon compile` does, each region run by the emulator.
"""

import os
import pathlib
import subprocess
import sys
import unittest

import numpy as np
from quantized import Quantized
from quantized_convs import QuantizedConvs

PROGRAM = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "test/ops/emulated_run"
LEVELS = sys.argv[1:]
# Whose units multiply bytes no faster than floats: a convolution may be one of floats, whose sums are rounded.
FLOATS = ("armv8-a", "rv64gcv")


class OnLevels:
    """In place of the levels of this machine."""

    def check_levels(self, model, step_of=lambda name, wanted: 0):
        for level in LEVELS:
            done = subprocess.run([PROGRAM, "m.onnx", "in.npz", "out.npz", level], cwd=self.folder, capture_output=True, text=True)
            if done.returncode == 77:
                self.skipTest(done.stdout.strip())
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            rounding = 5e-6 if level in FLOATS else 0
            self.check_outputs(model, level, lambda name, wanted: step_of(name, wanted) + rounding * np.abs(wanted).max())


class Products(OnLevels, Quantized):
    pass


class Convolutions(OnLevels, QuantizedConvs):
    is_whole = False


def load_tests(*_):
    return unittest.TestSuite(group("test_every_level_of_this_machine") for group in (Products, Convolutions))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
