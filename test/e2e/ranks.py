"""`tenon compile --tp`: engines whose ranks run together on a CPU give what one rank gives, up to the rounding of sums in another order."""

import os
import unittest

import numpy as np
import onnx
from sharding_nets import NETS
from tool import SOURCE, ToolTest

TOLERANCE = 2e-5  # of the largest element: sums of f32 over a few dozen elements, in parts
ALL = os.environ.get("TENON_RANKS") == "all"  # a campaign: TENON_RANKS=all
# Nets that four ranks run too: one of each kind of cut.
FOUR = {"encoder of 8 heads", "fused parts of 8 heads", "experts", "vocabulary", "residual with biases", "depthwise"}
NARROW = {"fp16": 5e-3, "bf16": 4e-2}


class RanksTest(ToolTest):
    """What tests of engines with ranks do; it has no test of its own."""

    def model(self, name):
        path = self.folder / f"{name.replace(' ', '_')}.onnx"
        if not path.exists():
            onnx.save(NETS[name](), path)
        return path

    def compile(self, path, ranks, *flags):
        """For one level; free dims up to small sizes."""
        port = onnx.load(path).graph.input[0]
        dims = [str(dim.dim_value) if dim.dim_value else f"[1..{3 + i}]" for i, dim in enumerate(port.type.tensor_type.shape.dim)]
        engine = self.folder / f"{path.stem}.{ranks}.tenon"
        self.succeed("compile", path, "--shape", f"{port.name}:{'x'.join(dims)}", "--target", "cpu:native", "--tp", ranks, "-o", engine, *flags)
        return engine

    def outputs(self, engine, *flags):
        self.succeed("run", engine, "--seed", "3", "-o", "out.npz", *flags)
        with np.load(self.folder / "out.npz") as file:
            return {name: file[name].astype(np.float64) for name in file}

    def difference(self, one, other):
        """Relative to the largest element, of the output that differs most."""
        self.assertEqual(one.keys(), other.keys())
        found = [0]
        for name, expected in one.items():
            self.assertEqual(expected.shape, other[name].shape)
            self.assertTrue((np.isfinite(expected) == np.isfinite(other[name])).all(), name)
            a, b = (np.nan_to_num(values, posinf=0, neginf=0) for values in (expected, other[name]))
            found.append(np.abs(a - b).max(initial=0) / max(np.abs(a).max(initial=0), 1e-30))
        return max(found)

    def collectives(self, engine):
        rows = self.json("explain", "placement", engine)["instructions"]
        return [row for row in rows if row["kind"] == "collective"]


class Ranks(RanksTest):
    def test_ranks_equal_one(self):
        for name in NETS:
            path = self.model(name)
            one = self.outputs(self.compile(path, 1))
            for ranks in (2, 3, 4) if ALL else (2, 4) if name in FOUR else (2,):
                with self.subTest(name, ranks=ranks):
                    engine = self.compile(path, ranks)
                    self.assertTrue(self.collectives(engine))
                    difference = self.difference(one, self.outputs(engine))
                    self.assertLess(difference, TOLERANCE)
                    if ALL:
                        print(f"{name}, {ranks} ranks: {len(self.collectives(engine))} exchanges, {difference:.1e}", flush=True)
                    # Whatever the number of threads: the sum is in the order of ranks.
                    self.assertEqual(0, self.difference(self.outputs(engine, "--threads", "1"), self.outputs(engine, "--threads", "8")))

    def test_narrow_types(self):
        for name in ("encoder", "gated"):
            path = self.model(name)
            one = self.outputs(self.compile(path, 1))
            for precision, tolerance in NARROW.items():
                with self.subTest(name, precision=precision):
                    self.assertLess(self.difference(one, self.outputs(self.compile(path, 2, "--precision", precision))), tolerance)

    def test_pins(self):
        path = self.model("gated")
        one = self.outputs(self.compile(path, 1))
        engine = self.compile(path, 3, "--pin", "gate=row", "--pin", "up=column", "--pin", "d*=replicate", "--verify")
        self.assertLess(self.difference(one, self.outputs(engine)), TOLERANCE)
        for pin, word in (("gates=column", "no matrix"), ("gate=diagonal", "NODE=column")):
            done = self.refuse(2, "TN0105", "compile", path, "--target", "cpu:native", "--tp", "2", "--pin", pin)
            self.assertIn(word, done.stderr)
        self.refuse(2, "TN0105", "compile", path, "--target", "cpu:native", "--tp", "65")
        # Ranks that would all compute the whole: no size is a multiple of 31.
        done = self.refuse(2, "TN0105", "compile", path, "--target", "cpu:native", "--tp", "31")
        self.assertIn("nothing is cut", done.stderr)

    def test_wrong_parts_are_found(self):
        """The detector: of one matrix, each rank gets the other's part."""
        path = self.model("gated")
        engine = self.compile(path, 2)
        told = self.json("inspect", engine)
        self.assertEqual((2, 3, told["weights_bytes"] // 2), (told["ranks"], told["weights"], told["weights_bytes_of_rank"]))
        self.assertIn("ranks   2, of which each reads", self.succeed("inspect", engine).stdout)
        data, size = bytearray(engine.read_bytes()), told["weights_bytes"] // 6
        start = len(data) - told["weights_bytes"]
        first, second = data[start : start + size], data[start + size : start + 2 * size]
        self.assertNotEqual(first, second)
        data[start : start + 2 * size] = second + first
        expected = self.outputs(engine)
        engine.write_bytes(data)
        self.assertGreater(self.difference(expected, self.outputs(engine, "--no-verify-weights")), 0.1)
        self.refuse(5, "TN0516", "run", engine)

    def test_tools(self):
        """Engines with ranks run and are looked at as others are."""
        path = self.model("encoder")
        engine = self.compile(path, 2)
        self.succeed("check", engine)
        kinds = {region["kind"] for region in self.json("bench", engine, "--regions", "--runs", "3")["regions"]}
        self.assertLessEqual({"kernel", "collective"}, kinds)
        self.assertIn("all_reduce", self.succeed("profile", engine, "--seconds", "0.2").stdout)
        self.assertIn("collective", {region["kernel"] for region in self.json("explain", "kernels", engine, "--all")["regions"]})
        session = self.json("bench", engine, "--runs", "3", "--threads", "4")
        self.assertEqual(4, session["threads"])

    def test_programs_of_torch(self):
        for name in ("layers", "quantized", "transforms"):
            path = SOURCE / f"test/data/pt2/{name}.pt2"
            for ranks in (1, 2):
                self.succeed("compile", path, "--target", "cpu:native", "--tp", ranks, "-o", f"{name}.{ranks}.tenon")
            with self.subTest(name):
                self.assertLess(self.difference(self.outputs(f"{name}.1.tenon"), self.outputs(f"{name}.2.tenon")), TOLERANCE)


if __name__ == "__main__":
    unittest.main()
