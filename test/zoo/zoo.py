"""One model of the zoo, named on the command line: its weightless graph becomes an engine, whose outputs at every CPU level
of the machine are held against float64 and ONNX Runtime's error. Relies on test/zoo/expected and on no other program.
"""

import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np

import expectations

sys.path.insert(0, str(expectations.SOURCE / "test/e2e"))

from tool import ToolTest  # noqa: E402

NAME = sys.argv.pop(1)
GRAPH = expectations.GRAPHS[NAME]


class Zoo(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        holder = tempfile.TemporaryDirectory(dir=os.environ["TENON_BUILD_DIR"], prefix="zoo-")
        cls.addClassCleanup(holder.cleanup)
        cls.build = pathlib.Path(holder.name)
        cls.cases = expectations.read(NAME)
        cls.arrays = [expectations.inputs_for(expectations.load_graph(GRAPH), case) for case in cls.cases]
        cls.engine = cls.compiled("any.tenon", *expectations.OPTIONS.get(NAME, []))
        cls.levels = cls.levels_of(cls.engine)

    @classmethod
    def compiled(cls, name, *options):
        engine = cls.build / name
        cls.succeed("compile", GRAPH, "-o", engine, "--quiet", *options)
        return engine

    def filters(self, engine):
        """Whether an engine's convolutions filter by Winograd, as it says itself."""
        return '"winograd"' in self.call("explain", "precision", engine, "--json").stdout

    def outputs(self, engine, arrays, level):
        np.savez(self.build / "inputs.npz", **arrays)
        self.succeed("run", engine, "--inputs", self.build / "inputs.npz", "-o", self.build / "outputs.npz",
                     "--isa", level, "--quiet")
        with np.load(self.build / "outputs.npz") as archive:
            return dict(archive)

    def hold(self, engine, case, arrays):
        filters = self.filters(engine)
        for level in self.levels:
            outputs = self.outputs(engine, arrays, level)
            self.assertEqual(sorted(case["outputs"]), sorted(outputs))
            for name, expected in case["outputs"].items():
                with self.subTest(level=level, sizes=case["sizes"], output=name):
                    self.assertEqual([], expectations.faults(outputs[name], expected, filters))

    def test_sizes_through_one_engine(self):
        for case, arrays in zip(self.cases, self.arrays):
            self.hold(self.engine, case, arrays)

    def test_fixed_size(self):
        case, arrays = self.cases[-1], self.arrays[-1]
        shapes = [f"{name}:{'x'.join(map(str, array.shape))}" for name, array in arrays.items()]
        # All levels are compiled for above, by the engine of free sizes.
        levels = "cpu:" + ",".join(self.levels)
        engine = self.compiled("fixed.tenon", "--target", levels, *expectations.UNFILTERED, *(part for shape in shapes for part in ("--shape", shape)))
        self.assertFalse(self.filters(engine))
        self.hold(engine, case, arrays)

    def test_no_access_leaves_its_buffer(self):
        engine = self.compiled("guarded.tenon", "--guard", "--target", "cpu:avx2", *expectations.OPTIONS.get(NAME, []))
        outputs, filters = self.outputs(engine, self.arrays[0], self.levels[0]), self.filters(engine)
        for name, expected in self.cases[0]["outputs"].items():
            self.assertEqual([], expectations.faults(outputs[name], expected, filters), name)

    def test_planted_errors_are_found(self):
        case, filters = self.cases[0], self.filters(self.engine)
        for name, output in self.outputs(self.engine, self.arrays[0], self.levels[-1]).items():
            expected = case["outputs"][name]
            self.assertEqual([], expectations.faults(output, expected, filters))
            # Of identifiers ONNX Runtime has no error.
            of_peer = 2.1 * expectations.OF_LARGEST_FILTERED * expected["largest"] if filters else 3.1 * expected["peer_error"]
            for error in (1.1e-4 * expected["largest"], of_peer or 1, np.nan):
                wrong = output.astype(np.float64)
                wrong.reshape(-1)[0] += error
                self.assertNotEqual([], expectations.faults(wrong, expected, filters), error)
            self.assertNotEqual([], expectations.faults(output[..., :-1], expected, filters))


if __name__ == "__main__":
    unittest.main()
