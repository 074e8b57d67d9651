"""What tests of language models share: the tool in a folder and with a cache of their own."""

import os
import pathlib
import subprocess
import tempfile
import unittest

TENON = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "bin/tenon"


class ToolTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.environment = {**os.environ, "XDG_CACHE_HOME": str(cls.folder / "cache")}

    def run_tool(self, *arguments):
        return subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True, env=self.environment, timeout=300)

    def tool(self, *arguments):
        done = self.run_tool(*arguments)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout
