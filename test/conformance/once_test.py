"""once.py on two suites made here: what is left out, what is run, and what of the lists is refused."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import once

SCRIPT = pathlib.Path(once.__file__)
PROGRAM = f"""#!{sys.executable}
import pathlib, sys
folder, expected = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[sys.argv.index("--expected") + 1])
print(sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()), expected.read_text().split())
sys.exit(7)
"""


class Once(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.program = self.folder / "conformance"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)
        for name, model, data in (("new/same", "m", "d"), ("new/data", "m", "other"), ("new/model", "at a newer opset", "d"), ("new/more", "m2", "d2"), ("new/bad", "b", "d"),
                                  ("old/node/same", "m", "d"), ("old/node/data", "m", "d3"), ("old/node/model", "at an opset", "d"), ("old/node/bad", "b", "d")):
            (self.folder / name / "test_data_set_0").mkdir(parents=True)
            (self.folder / name / "model.onnx").write_text(model)
            (self.folder / name / "test_data_set_0/input_0.pb").write_text(data)

    def run_lists(self, expected, other):
        (self.folder / "new.txt").write_text(expected)
        (self.folder / "old.txt").write_text(other)
        return subprocess.run([sys.executable, SCRIPT, self.program, self.folder / "new", self.folder / "old", "--expected", self.folder / "new.txt", "--other-expected",
                               self.folder / "old.txt", "--report", self.folder / "report.txt"], capture_output=True, text=True, env=os.environ)

    def test_what_is_run(self):
        done = self.run_lists("# at most 3\nbad is refused\ndata differs\n", "# at most 1\nnode/bad is refused\n")
        self.assertEqual(7, done.returncode, done.stderr)
        self.assertIn("2 of 5 cases", done.stdout)
        for name in ("data", "model", "more"):
            self.assertIn(f"'{name}/model.onnx', '{name}/test_data_set_0/input_0.pb'", done.stdout)
        self.assertNotIn("same/", done.stdout)
        self.assertIn("['#', 'at', 'most', '2', 'data', 'differs']", done.stdout)

    def test_lists_that_disagree(self):
        for expected, other in (("# at most 1\nbad is refused\n", "# at most 0\n"), ("# at most 0\n", "# at most 1\nnode/same is refused\n")):
            done = self.run_lists(expected, other)
            self.assertEqual(1, done.returncode)
            self.assertIn("do not say the same of", done.stderr)


if __name__ == "__main__":
    unittest.main()
