"""The compile cache from the outside: where there is none, whom it trusts, and what makes another key."""

import os
import pathlib
import re
import subprocess
import unittest

from tool import CNN, TENON, ToolTest


class Cache(ToolTest):
    own_cache = True

    def run_with(self, *arguments, tenon=TENON, **environment):
        """Runs the tool with only these variables and PATH."""
        return subprocess.run([str(tenon), *map(str, arguments)], capture_output=True, text=True, cwd=self.folder,
                              env={"PATH": os.environ["PATH"], "TMPDIR": str(self.temporary()), **environment}, timeout=300)

    def temporary(self):
        folder = self.folder / "temporary"
        folder.mkdir(exist_ok=True)
        return folder

    def entries(self, folder):
        return {path.name for path in pathlib.Path(folder).glob("tenon/*.entry")}

    def test_models_run_where_nothing_can_be_cached(self):
        for environment in ({}, {"HOME": "/dev/null"}, {"HOME": "/proc/none"}, {"XDG_CACHE_HOME": "/proc/none"}):
            done = self.run_with("run", CNN, "--batch", 1, "--target", "cpu:x86-64-v3", **environment)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertEqual(1 if environment else 0, done.stderr.count("the compile cache is not used"), done.stderr)
            self.assertEqual([], list(self.temporary().iterdir()))
        self.assertIn("none: HOME", self.run_with("doctor").stdout)

    def test_a_folder_that_others_write_to_is_not_used(self):
        base = self.folder / "shared"
        (base / "tenon").mkdir(parents=True)
        (base / "tenon").chmod(0o777)
        done = self.run_with("compile", CNN, "-o", "shared.tenon", XDG_CACHE_HOME=str(base))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(1, done.stderr.count(f"'{base}/tenon' belongs to another user, or others can write to it"))
        self.assertEqual([], list((base / "tenon").iterdir()))

    def test_another_build_of_the_compiler_shares_no_entry(self):
        base = self.folder / "builds"
        compiled = self.run_with("compile", CNN, "-o", "one.tenon", "--target", "cpu:x86-64-v3", XDG_CACHE_HOME=str(base))
        self.assertEqual(0, compiled.returncode, compiled.stderr)
        first = self.entries(base)
        self.run_with("compile", CNN, "-o", "one.tenon", "--target", "cpu:x86-64-v3", XDG_CACHE_HOME=str(base))
        self.assertEqual(first, self.entries(base))
        notes = subprocess.run(["readelf", "-n", str(TENON)], capture_output=True, text=True, check=True).stdout
        build = bytes.fromhex(re.search(r"Build ID: ([0-9a-f]+)", notes).group(1))
        program = TENON.read_bytes()
        self.assertEqual(1, program.count(build))
        other = self.folder / "other-tenon"
        other.write_bytes(program.replace(build, bytes(byte ^ 1 for byte in build)))
        other.chmod(0o755)
        done = self.run_with("compile", CNN, "-o", "two.tenon", "--target", "cpu:x86-64-v3", tenon=other,
                             XDG_CACHE_HOME=str(base))
        self.assertEqual(0, done.returncode, done.stderr)
        # Every region, the support code and the engine are there a second time.
        self.assertEqual(2 * len(first), len(self.entries(base)))
        self.assertEqual((self.folder / "one.tenon").read_bytes(), (self.folder / "two.tenon").read_bytes())


if __name__ == "__main__":
    unittest.main()
