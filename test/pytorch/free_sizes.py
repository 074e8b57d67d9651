"""Small nets exported with free sizes, compiled once and run at sizes that the export never saw, against eager PyTorch.

Relies on .venv-torch (scripts/setup.sh torch); it is skipped without. Each net is exported with Dim.AUTO and with named Dims.
`free_sizes.py TENON NAME...` runs others of free_nets.py than those of SAMPLE; not all of them compile.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
TORCH = SOURCE / ".venv-torch/bin/python"
TENON = pathlib.Path(sys.argv.pop(1)).resolve()


class FreeSizes(unittest.TestCase):
    @unittest.skipUnless(TORCH.exists(), "without .venv-torch")
    def test_all(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            made = subprocess.run([TORCH, pathlib.Path(__file__).with_name("free_nets.py"), folder, *NAMES], capture_output=True, text=True)
            self.assertEqual(0, made.returncode, made.stderr)
            programs = sorted(folder.glob("*.pt2"))
            self.assertTrue(programs)
            for program in programs:
                with self.subTest(program=program.stem):
                    self.check(program, folder)

    def check(self, program, folder):
        engine, outputs = folder / "e.tenon", folder / "out.npz"
        done = subprocess.run([TENON, "compile", program, "-o", engine, "--quiet", "--target", "cpu:avx2", "--no-cache"], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        for case in sorted(folder.glob(f"{program.stem}.*.in.npz")):
            done = subprocess.run([TENON, "run", engine, "--inputs", case, "-o", outputs, "--quiet"], capture_output=True, text=True)
            self.assertEqual(0, done.returncode, f"{case.name}: {done.stderr}")
            wanted = np.load(str(case).replace(".in.npz", ".out.npz"))
            results = np.load(outputs)
            self.assertEqual(wanted.files, results.files)
            for name in wanted.files:
                np.testing.assert_allclose(results[name], wanted[name], rtol=1e-4, atol=1e-4, err_msg=case.name)


SAMPLE = ["mlp", "residual", "attention", "layer_norms", "depthwise", "embedding", "pools"]
NAMES = sys.argv[1:] or SAMPLE

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
