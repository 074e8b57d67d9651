"""The summary that ends `make test`, on a run of ctest with tests that pass, fail and are skipped; and that the Makefile keeps what ctest says of them."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "scripts"))

import ctest_summary  # noqa: E402

TESTS = """
add_test(good true)
set_tests_properties(good PROPERTIES LABELS "a;fast")
add_test(bad false)
set_tests_properties(bad PROPERTIES LABELS "a")
add_test(plain true)
add_test(left sh -c "exit 77")
set_tests_properties(left PROPERTIES SKIP_RETURN_CODE 77 LABELS "b")
"""


class Summary(unittest.TestCase):
    def test_sums(self):
        seconds = {f"t{i}": float(i) for i in range(30)}
        labels = {test: ["odd", "all"] if i % 2 else ["all"] for i, test in enumerate(seconds)}
        lines = ctest_summary.summary({**seconds, "other": 100.0}, labels)
        self.assertIn("slowest 20 of 31 tests, seconds:", lines)
        slowest = lines[lines.index("slowest 20 of 31 tests, seconds:") + 1:][:20]
        self.assertEqual(["100.0  other", "29.0  t29"], [line.strip() for line in slowest[:2]])
        self.assertEqual("11.0  t11", slowest[-1].strip())
        self.assertEqual(["435.0  all (30)", "225.0  odd (15)", "100.0  without label (1)"], [line.strip() for line in lines[-3:]])

    def test_of_ctest(self):
        """The lines of the Makefile as they stand there: ctest's own lines, then the summary, then ctest's exit status."""
        recipe = re.search(r"^test: .*\n\t@scripts/setup.sh .*\n\t@for preset .*\n((?:\t.*\n)+)", (SOURCE / "Makefile").read_text(), re.M)[1]
        with tempfile.TemporaryDirectory() as name:
            build = pathlib.Path(name)
            (build / "CTestTestfile.cmake").write_text(TESTS)
            makefile = f"BUILD := {build}\ntest:\n{recipe}".replace(".venv/bin/python scripts", f"{sys.executable} {SOURCE}/scripts")
            (build / "Makefile").write_text(makefile)
            done = subprocess.run(["make", "test"], cwd=build, capture_output=True, text=True)
            self.assertNotEqual(0, done.returncode)
            self.assertRegex(done.stdout, r"(?s)75% tests passed, 1 tests failed out of 4.*The following tests FAILED.*slowest 3 of 3 tests.*seconds by label")
            self.assertRegex(done.stdout, r"  a \(2\)\n")
            self.assertRegex(done.stdout, r"  fast \(1\)\n")
            (build / "CTestTestfile.cmake").write_text(TESTS.replace("bad false", "bad true"))
            done = subprocess.run(["make", "test"], cwd=build, capture_output=True, text=True)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertIn("100% tests passed", done.stdout)


if __name__ == "__main__":
    unittest.main()
