"""Numbers that programs compute from sizes ("x * n ** -0.5"), as values and as sizes again, and sizes from 0: one engine of a program of torch.export
beside eager PyTorch, at sizes that the export never saw.

Relies on .venv-torch (scripts/setup.sh torch), which runs this file to make the program and what it gives; it is skipped without.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

# The export guards the size of its zeros: n // b + n % b is 2 or more.
SIZES = [(1, 2), (2, 3), (3, 4), (5, 7), (7, 3), (2, 17), (2, 64)]

# What a program computes of x, whose sizes are b and n.
NUMBERS = """x * n ** -0.5 | x * (1 / n) | x / n | x + n ** 2 | x * (n / b) | x * (0.5 * n + 1.5 - 1 / b) | x / torch.sym_sqrt(n) | x.half() * n ** -0.5
torch.full((2,), n ** 0.5) | x.clamp(max=1 / n) | x.masked_fill(x > 0, 1.0 / n) | torch.where(x > 0, n * 0.5, 0.0) | x + 2 ** (1 / n) | 1 / n - x
x * -n | x * (n % 3) | x * ((n - 4) // 3) | x * ((n - 4) % 3) | x * ((b - n) % 5) | x * torch.sym_max(n, 4) | x * torch.sym_min(n, b)
x * torch.sym_max(n / 2, 1.5) | torch.zeros(torch.sym_int((n + 4) / 2)) | torch.zeros(math.trunc((n + 1) * 1.5)) | torch.zeros(n ** 2) | torch.zeros(n % b + n // b)
torch.nn.functional.pad(x, (0, -n % 4))"""
NUMBERS = [each.strip() for line in NUMBERS.split("\n") for each in line.split("|")]


# Sizes of a batch and of the past of a decoder's step, of which either may be nothing.
PASTS = [(1, 0), (2, 3), (0, 4), (0, 0), (3, 1), (1, 64)]


def make_past(folder):
    import torch

    class Step(torch.nn.Module):
        def forward(self, x, past):
            keys = torch.cat([past, x], 1)
            return torch.softmax(x @ keys.transpose(1, 2), -1) @ keys, keys

    batch, length = torch.export.Dim("batch", min=0, max=8), torch.export.Dim("length", min=0, max=64)
    inputs = [(torch.randn(b, 1, 4), torch.randn(b, n, 4)) for b, n in [(4, 5)] + PASTS]
    torch.export.save(torch.export.export(Step(), inputs[0], dynamic_shapes=({0: batch}, {0: batch, 1: length})), folder / "past.pt2")
    for (b, n), (x, past) in zip(PASTS, inputs[1:]):
        np.savez(folder / f"past_{b}_{n}.npz", x=x.numpy(), past=past.numpy())
        np.savez(folder / f"kept_{b}_{n}.npz", *[y.numpy() for y in Step()(x, past)])


def make(folder):
    import torch

    make_past(folder)

    code = [compile(text, text, "eval") for text in NUMBERS]

    class Numbers(torch.nn.Module):
        def forward(self, x):
            names = {"x": x, "b": x.shape[0], "n": x.shape[1], "torch": torch, "math": __import__("math")}
            return tuple(eval(each, names) for each in code)

    net = Numbers()
    dims = {axis: torch.export.Dim(name, min=1, max=64) for axis, name in enumerate("bn")}
    torch.export.save(torch.export.export(net, (torch.randn(3, 6),), dynamic_shapes=(dims,)), folder / "m.pt2")
    for b, n in SIZES:
        x = torch.randn(b, n)
        np.savez(folder / f"in_{b}_{n}.npz", x=x.numpy())
        np.savez(folder / f"want_{b}_{n}.npz", *[y.numpy() for y in net(x)])


class SizeNumbers(unittest.TestCase):
    def test_all(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)

            def call(*arguments):
                done = subprocess.run(arguments, capture_output=True, text=True, cwd=folder)
                self.assertEqual(0, done.returncode, done.stderr)

            call(TORCH, pathlib.Path(__file__).resolve(), "--make", folder)
            call(TENON, "compile", "m.pt2", "-o", "m.tenon")
            call(TENON, "compile", "past.pt2", "-o", "past.tenon")
            for b, n in PASTS:
                call(TENON, "run", "past.tenon", "--inputs", f"past_{b}_{n}.npz", "-o", "out.npz")
                for theirs, ours in zip(*(np.load(folder / name).values() for name in (f"kept_{b}_{n}.npz", "out.npz"))):
                    self.assertEqual(theirs.shape, ours.shape)
                    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=f"batch {b}, past {n}")
            for b, n in SIZES:
                call(TENON, "run", "m.tenon", "--inputs", f"in_{b}_{n}.npz", "-o", "out.npz")
                want, got = (list(np.load(folder / name).values()) for name in (f"want_{b}_{n}.npz", "out.npz"))
                self.assertEqual(len(NUMBERS), len(got))
                for text, theirs, ours in zip(NUMBERS, want, got):
                    self.assertEqual((theirs.shape, theirs.dtype), (ours.shape, ours.dtype), text)
                    np.testing.assert_allclose(ours, theirs, rtol=1e-3 if theirs.dtype == np.float16 else 1e-5, atol=1e-6, err_msg=f"{text} of {b} x {n}")


if __name__ == "__main__":
    if sys.argv[1] == "--make":
        sys.exit(make(pathlib.Path(sys.argv[2])))
    TORCH = pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / ".venv-torch/bin/python"
    TENON = pathlib.Path(sys.argv.pop(1)).resolve()
    if not TORCH.exists():
        SizeNumbers = unittest.skip("without .venv-torch")(SizeNumbers)
    unittest.main()
