"""`tenon compile --tp`: engines whose ranks run together on a CPU give what one rank gives, up to the rounding of sums in another order."""

import unittest

import numpy as np
import onnx
from sharding_nets import NETS
from tool import SOURCE, ToolTest

TOLERANCE = 2e-5  # of the largest element: sums of f32 over a few dozen elements, in parts
RANKS = {name: (2, 4) for name in NETS}


class Ranks(ToolTest):
    def shape(self, path):
        port = onnx.load(path, load_external_data=False).graph.input[0]
        dims = [str(dim.dim_value) if dim.dim_value else f"[1..{3 + i}]" for i, dim in enumerate(port.type.tensor_type.shape.dim)]
        return f"{port.name}:{'x'.join(dims)}"

    def model(self, name):
        path = self.folder / f"{name.replace(' ', '_')}.onnx"
        if not path.exists():
            onnx.save(NETS[name](), path)
        return path

    def compile(self, path, ranks, *flags):
        engine = self.folder / f"{path.stem}.{ranks}.tenon"
        self.succeed("compile", path, "--shape", self.shape(path), "--target", "cpu", "--tp", ranks, "-o", engine, *flags)
        return engine

    def outputs(self, engine, *flags):
        self.succeed("run", engine, "--seed", "3", "-o", "out.npz", *flags)
        with np.load(self.folder / "out.npz") as file:
            return dict(file)

    def differences(self, path, ranks, *flags):
        """Of each output, relative to its largest element."""
        one, more = self.outputs(self.compile(path, 1)), self.outputs(self.compile(path, ranks, *flags))
        self.assertEqual(one.keys(), more.keys())
        found = {}
        for name, expected in one.items():
            self.assertEqual(expected.shape, more[name].shape)
            wide = [np.nan_to_num(values.astype(np.float64), posinf=0, neginf=0) for values in (expected, more[name])]
            found[name] = np.abs(wide[0] - wide[1]).max(initial=0) / max(np.abs(wide[0]).max(initial=0), 1e-30)
        return found

    def instructions(self, engine):
        return self.json("explain", "placement", engine)["instructions"]

    def test_ranks_equal_one(self):
        for name, all_ranks in RANKS.items():
            for ranks in all_ranks:
                with self.subTest(name, ranks=ranks):
                    path = self.model(name)
                    for output, difference in self.differences(path, ranks).items():
                        self.assertLess(difference, TOLERANCE, output)


if __name__ == "__main__":
    unittest.main()
