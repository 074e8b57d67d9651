"""docs/transformers.md runs as it stands. Runs with a Python that has torch and transformers: see in_wheel.py."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])


class Guide(unittest.TestCase):
    def test_blocks(self):
        code = "".join(re.findall(r"^```python\n(.*?)^```", (SOURCE / "docs/transformers.md").read_text(), re.M | re.S))
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
            self.assertTrue((pathlib.Path(folder) / "encoder.tenon").exists())
        lines = done.stdout.splitlines()
        self.assertEqual([lines[0], lines[-1]], ["[]", "[]"])


if __name__ == "__main__":
    unittest.main()
