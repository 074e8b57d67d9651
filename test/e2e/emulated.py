"""The quantized products and convolutions of quantized.py and quantized_convs.py on a CPU level of another architecture, under QEMU:
compiled for it as `tenon compile` does, each region run by the emulator.
"""

import os
import pathlib
import subprocess
import sys
import unittest

from quantized import Quantized
from quantized_convs import QuantizedConvs

PROGRAM = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "test/ops/emulated_run"
LEVELS = sys.argv[1:]


class OnLevels:
    """In place of the levels of this machine."""

    def check_levels(self, model, step_of=lambda name, wanted: 0):
        for level in LEVELS:
            done = subprocess.run([PROGRAM, "m.onnx", "in.npz", "out.npz", level], cwd=self.folder, capture_output=True, text=True)
            if done.returncode == 77:
                self.skipTest(done.stdout.strip())
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            self.check_outputs(model, level, step_of)


class Products(OnLevels, Quantized):
    pass


class Convolutions(OnLevels, QuantizedConvs):
    pass


def load_tests(*_):
    return unittest.TestSuite(group("test_every_level_of_this_machine") for group in (Products, Convolutions))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
