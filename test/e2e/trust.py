"""Which verbs load the code of an engine, by what the dynamic loader says."""

import subprocess
import unittest

from tool import CNN, TENON, ToolTest


class Trust(ToolTest):
    own_cache = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.succeed("compile", CNN, "-o", "cnn.tenon")

    def loads_code(self, *arguments):
        done = subprocess.run([str(TENON), *arguments], capture_output=True, text=True, cwd=self.folder,
                              env=self.environment | {"LD_DEBUG": "files"}, timeout=300)
        self.assertEqual(0, done.returncode, done.stderr[-2000:])
        self.assertIn("generating link map", done.stderr)
        return "file=/proc/self/fd/" in done.stderr

    def test_only_running_loads_code(self):
        self.assertTrue(self.loads_code("run", "cnn.tenon", "--batch", "1"))
        for arguments in (["check", "cnn.tenon"], ["inspect", "cnn.tenon"], ["explain", "fusion", "cnn.tenon"]):
            self.assertFalse(self.loads_code(*arguments), arguments)


if __name__ == "__main__":
    unittest.main()
