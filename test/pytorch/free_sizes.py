"""Small nets exported with free sizes, compiled once and run at sizes that the export never saw, against eager PyTorch.

Relies on .venv-torch (scripts/setup.sh torch); it is skipped without. `free_sizes.py TENON [KINDS [NAME...]]` runs other kinds of exports (those of
export_nets.py) and other nets than the sample; `all` stands for every net.
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


# A program whose inputs and outputs lie in lists and dicts.
NESTED = """
import sys, numpy, torch
class Nested(torch.nn.Module):
    def forward(self, image, extras):
        a, b = extras["pair"]
        return {"sum": image + a, "rest": [a * b, {"deep": b - image}], "scale": extras["scale"] * 2}
def given(n):
    return torch.full((n, 3), 2.0), {"pair": [torch.full((n, 3), 3.0), torch.full((n, 3), 5.0)], "scale": torch.full((n,), 7.0)}
n = torch.export.Dim("n", min=1, max=64)
program = torch.export.export(Nested(), given(4), dynamic_shapes=({0: n}, {"pair": [{0: n}, {0: n}], "scale": {0: n}}))
torch.export.save(program, sys.argv[1])
"""


class FreeSizes(unittest.TestCase):
    @unittest.skipUnless(TORCH.exists(), "without .venv-torch")
    def test_names_of_nested_ports(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            made = subprocess.run([TORCH, "-c", NESTED, folder / "m.pt2"], capture_output=True, text=True)
            self.assertEqual(0, made.returncode, made.stderr)
            inputs = {"image": 2, "extras_pair_0": 3, "extras_pair_1": 5, "extras_scale": 7}
            outputs = {"sum": 5, "rest.0": 15, "rest.1.deep": 3, "scale": 14}
            for count in (1, 6):
                np.savez(folder / "in.npz", **{name: np.full((count,) if name == "extras_scale" else (count, 3), value, np.float32)
                                               for name, value in inputs.items()})
                done = subprocess.run([TENON, "run", folder / "m.pt2", "--inputs", folder / "in.npz", "-o", folder / "out.npz", "--quiet"],
                                      capture_output=True, text=True)
                self.assertEqual(0, done.returncode, done.stderr)
                results = np.load(folder / "out.npz")
                self.assertEqual(list(outputs), results.files)
                for name, value in outputs.items():
                    np.testing.assert_array_equal(results[name], np.full((count,) if name == "scale" else (count, 3), value))

    @unittest.skipUnless(TORCH.exists(), "without .venv-torch")
    def test_all(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            made = subprocess.run([TORCH, pathlib.Path(__file__).with_name("export_nets.py"), folder, KINDS, *NAMES], capture_output=True, text=True)
            self.assertEqual(0, made.returncode, made.stderr)
            for failed in sorted(folder.glob("*.failed")):
                print(f"not exported: {failed.stem}: {failed.read_text()[:200]}")
            programs = sorted([*folder.glob("*.pt2"), *folder.glob("*.onnx")])
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


SAMPLE = ["mlp", "residual", "attention", "depthwise", "unet_resized", "adaptive", "decoder", "shifted_windows", "stft", "vit"]
KINDS = sys.argv[1] if len(sys.argv) > 1 else "auto,named"
NAMES = sys.argv[2:] or SAMPLE
NAMES = [] if NAMES == ["all"] else NAMES

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
