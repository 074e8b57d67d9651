"""The wheel as a file: its size, tag and record, and what its binaries need. Runs in the environment of in_wheel.py."""

import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
WHEEL = pathlib.Path(os.environ["TENON_WHEEL"])
MOST_BYTES = 60_000_000
# What the platform tag promises: see the manylinux policies.
NEWEST_GLIBC = (2, 36)
NEWEST_GLIBCXX = (3, 4, 30)
SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
OWN = {"libtenon_compiler.so", "libtenon_generate.so", "libtenon_runtime.so"}


def readelf(flag, path):
    return subprocess.run(["readelf", flag, path], check=True, capture_output=True, text=True).stdout


def version(text):
    return tuple(map(int, text.split(".")))


class Wheel(unittest.TestCase):
    def setUp(self):
        self.archive = zipfile.ZipFile(WHEEL)
        self.addCleanup(self.archive.close)

    def test_size_and_tag(self):
        self.assertLess(WHEEL.stat().st_size, MOST_BYTES)
        self.assertRegex(WHEEL.name, r"^tenon-[\d.]+-py3-none-manylinux_2_36_x86_64\.whl$")
        self.assertIn("tenon/py.typed", self.archive.namelist())

    def test_license(self):
        """What the package states, pyproject.toml states too, and the text is in the wheel."""
        (metadata,) = [name for name in self.archive.namelist() if name.endswith(".dist-info/METADATA")]
        expression = re.search("^License-Expression: (.+)$", self.archive.read(metadata).decode(), re.M)[1]
        self.assertIn(f'license = "{expression}"', (SOURCE / "pyproject.toml").read_text())
        text = self.archive.read(metadata.replace("METADATA", "licenses/LICENSE"))
        self.assertEqual(text, (SOURCE / "LICENSE").read_bytes())
        self.assertIn(b"Apache License", text)
        self.assertIn(b"LLVM Exceptions", text)
        notices = [name for name in self.archive.namelist() if "/third-party/" in name]
        self.assertEqual(len(notices), (SOURCE / "docs/reference/third-party.md").read_text().count("\n| `"))

    def test_pages(self):
        """The pages that `tenon help` names are in the wheel."""
        names = self.archive.namelist()
        self.assertEqual([], [page for page in (SOURCE / "docs").rglob("*.md") if f"tenon/{page.relative_to(SOURCE)}" not in names])

    def test_record(self):
        (record,) = [name for name in self.archive.namelist() if name.endswith("/RECORD")]
        rows = list(csv.reader(io.StringIO(self.archive.read(record).decode())))
        self.assertEqual(sorted(row[0] for row in rows), sorted(self.archive.namelist()))
        for name, digest, size in rows:
            if name != record:
                data = self.archive.read(name)
                made = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), (f"sha256={made}", len(data)), name)

    def test_binaries(self):
        names = [name for name in self.archive.namelist() if name.startswith(("tenon/lib/", "tenon/bin/"))]
        self.assertEqual(len(names), 4)
        for name in names:
            with tempfile.NamedTemporaryFile() as file:
                file.write(self.archive.read(name))
                file.flush()
                needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", file.name)))
                paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.+)\]", readelf("-d", file.name))
                versions = readelf("-V", file.name)
            self.assertLessEqual(needed, SYSTEM | OWN, name)
            self.assertTrue(all(path in ("$ORIGIN", "$ORIGIN/../lib") for path in paths), (name, paths))
            for text in re.findall(r"Name: GLIBC_([\d.]+)", versions):
                self.assertLessEqual(version(text), NEWEST_GLIBC, name)
            for text in re.findall(r"Name: GLIBCXX_([\d.]+)", versions):
                self.assertLessEqual(version(text), NEWEST_GLIBCXX, name)


if __name__ == "__main__":
    unittest.main()
