"""--allow int8-activations: products by weights of 4 and 8 bits whose rows are rounded to 8 bits, against the same in NumPy, on every CPU
level that this machine runs: blocks of all sizes, depths that no block divides, zero points of both kinds, 1 to 70 rows; rows of zeros,
with outliers, with NaN and infinities; and that a row is the same beside any others, and that levels without such instructions stay exact.
"""

import itertools
import unittest

import numpy as np
import weight_only
from tool import ToolTest

LEAST = np.float32(2.0**-100)


def rounded(rows, block):
    """Each block of the last dim as multiples of its largest magnitude / 127."""
    result = np.empty(rows.shape, np.float64)
    for first in range(0, rows.shape[-1], block):
        part = rows[..., first:first + block]
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            most = np.max(np.abs(part), -1, keepdims=True)
            numbers = np.rint(part * (np.float32(127) / most).astype(np.float64))
            result[..., first:first + block] = np.where(most < LEAST, 0, numbers * (most / np.float32(127)).astype(np.float64))
        result[..., first:first + block][~np.isfinite(most[..., 0])] = np.nan
    return result


class Model(weight_only.Model):
    """What the products must be on a level that rounds, beside what they are in floats."""

    def __init__(self, free=False):
        super().__init__(free)
        self.exact, self.parts = {}, []

    def n_bits(self, rows, depth, columns, bits, block, zero, has_bias=False):
        self.block = block
        super().n_bits(rows, depth, columns, bits, block, zero, has_bias)

    def want(self, x, numbers, zeros, scales, depth, bias=0):
        y = super().want(x, numbers, zeros, scales, depth, bias)
        self.parts.append((x, y, self.block, numbers, zeros, scales, depth, bias))
        return y

    def results(self, inputs, rounds):
        """Of all products, rounded as a level with VNNI does, or not."""
        wanted = {}
        for x, y, block, numbers, zeros, scales, depth, bias in self.parts:
            matrix = ((numbers - zeros[..., None]) * scales[..., None].astype(np.float64)).reshape(len(numbers), -1)[:, :depth]
            rows = rounded(inputs[x], block) if rounds else inputs[x].astype(np.float64)
            with np.errstate(invalid="ignore"):
                wanted[y] = rows @ matrix.T + bias
        return wanted


def odd_rows(random, depth):
    """[13, depth] that a quantizer may fail at."""
    rows = random.standard_normal((13, depth)).astype(np.float32)
    rows[0] = 0
    rows[1, ::2] = 0
    rows[2, 3] = 1e5  # of which the rest of its block is nearly nothing
    rows[3] *= np.float32(1e30)
    rows[4, 5] = np.nan
    rows[5, depth - 1] = np.inf
    rows[6, 0] = -np.inf
    rows[7] *= np.float32(1e-35)
    rows[8] *= np.float32(1e-42)
    rows[9] = 127 * np.sign(rows[9])
    rows[10] = np.arange(depth) % 255 / 2 - 63.5  # ties
    rows[11, :32] = 0
    rows[12, -1] = -0.0
    return rows


def error(found, wanted):
    """The largest, of each row relative to its largest element."""
    return np.max(np.abs(found - wanted) / np.maximum(np.max(np.abs(wanted), -1, keepdims=True), 1e-36))


class Int8Activations(ToolTest):
    def levels(self):
        """Levels that this machine runs, each with whether it rounds."""
        return {level["level"]: "vnni" in level["level"] or level["level"] in ("avx512-fp16", "amx")
                for level in self.json("doctor")["levels"] if level["usable"]}

    def compile(self, model, *flags):
        model.save(self.folder / "m.onnx")
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--target", "cpu:" + ",".join(self.levels()), "--allow", "int8-activations", *flags)

    def run_level(self, level, inputs):
        np.savez(self.folder / "in.npz", **inputs)
        self.succeed("run", "m.tenon", "--variant", level, "--inputs", "in.npz", "-o", "out.npz")
        return np.load(self.folder / "out.npz")

    def check(self, model, inputs):
        for level, rounds in self.levels().items():
            found, other = self.run_level(level, inputs), model.results(inputs, not rounds)
            for name, wanted in model.results(inputs, rounds).items():
                with self.subTest(level=level, output=name):
                    self.assertLess(error(found[name], wanted), 4e-6)
                    self.assertGreater(error(other[name], wanted), 1e-3)

    def test_forms(self):
        model = Model()
        for (i, bits), block, zero in itertools.product(enumerate((4, 8)), (16, 32, 64, 128), ("none", "packed")):
            rows = weight_only.ROWS[(i + block // 16) % len(weight_only.ROWS)]
            model.n_bits(rows, 200, 70, bits, block, zero, has_bias=block == 32)
        model.n_bits((7,), 400, 200, 4, 32, "float")
        model.n_bits((70,), 333, 96, 4, 32, "packed")
        model.n_bits((17,), 77, 96, 8, 32, "none")
        self.compile(model)
        self.check(model, model.inputs)

    def test_odd_rows(self):
        model = Model(free=True)
        for bits, zero in itertools.product((4, 8), ("none", "packed")):
            model.n_bits((13,), 293, 250, bits, 32, zero)
        self.compile(model)
        rows = odd_rows(model.random, 293)
        broken = ~np.isfinite(rows).all(-1)
        for level, rounds in self.levels().items():
            inputs = dict.fromkeys(model.inputs, rows)
            found, wanted = self.run_level(level, inputs), model.results(inputs, rounds)
            for name in wanted:
                with self.subTest(level=level, output=name):
                    self.assertFalse(np.isfinite(found[name][broken]).any())
                    self.assertLess(error(found[name][~broken], wanted[name][~broken]), 4e-6)
                    if rounds:
                        self.assertTrue(np.isnan(found[name][broken]).all())

    def test_a_row_is_the_same_beside_others(self):
        model = Model(free=True)
        for bits, zero in itertools.product((4, 8), ("none", "packed")):
            model.n_bits((70,), 260, 270, bits, 32, zero)
        self.compile(model)
        level = [level for level, rounds in self.levels().items() if rounds]
        if not level:
            self.skipTest("no level of this machine multiplies bytes")
        whole = self.run_level(level[-1], model.inputs)
        for name, exact in model.results(model.inputs, rounds=False).items():
            self.assertGreater(error(whole[name], exact), 1e-3)
        for first, count in ((0, 1), (69, 1), (3, 2), (10, 7), (5, 8), (5, 9), (1, 33), (0, 64)):
            part = self.run_level(level[-1], {name: rows[first:first + count] for name, rows in model.inputs.items()})
            for name in model.wanted:
                with self.subTest(rows=count, output=name):
                    np.testing.assert_array_equal(part[name], whole[name][first:first + count])

    def test_the_reference_computes_the_same(self):
        model = Model()
        model.n_bits((5,), 200, 700, 4, 32, "packed")
        model.n_bits((5,), 200, 700, 8, 32, "none")
        self.compile(model, "--verify")

    def test_without_the_family(self):
        model = Model()
        model.n_bits((3,), 200, 700, 4, 32, "packed")
        model.n_bits((9,), 77, 1700, 8, 32, "none")
        self.compile(model, "--disable-family", "gemm_low_bits")
        self.check(model, model.inputs)
        self.compile(model, "--guard")
        self.check(model, model.inputs)
        for flags in (["--allow", "int8-activations"], ["--precision", "bf16"]):  # of a level with tiles too, which load unchecked
            self.succeed("compile", "m.onnx", "-o", "g.tenon", "--target", "cpu:amx", "--guard", *flags)

    def test_levels(self):
        model = Model()
        model.n_bits((3,), 416, 700, 4, 32, "packed")
        model.save(self.folder / "m.onnx")
        self.succeed("compile", "m.onnx", "-o", "m.tenon", "--allow", "int8-activations")
        levels = [variant["level"] for variant in self.json("inspect", "m.tenon")["variants"]]
        self.assertCountEqual(levels, ["x86-64-v3", "avx-vnni", "avx512", "avx512-vnni", "avx512-vnni-bf16", "amx"])

    def test_what_explain_says(self):
        model = Model()
        model.n_bits((5,), 416, 700, 4, 32, "none")
        self.compile(model)
        for level, rounds in self.levels().items():
            approximated = self.json("explain", "precision", "m.tenon", "--variant", level)["approximated"] if rounds else []
            self.assertEqual([entry["rule"] for entry in approximated], ["int8-activations"] * rounds, level)


if __name__ == "__main__":
    unittest.main()
