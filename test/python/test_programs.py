"""Published programs answer the same with tenon.onnxruntime in ONNX Runtime's place; each runs in a process of its own. See programs.py."""

import json
import math
import pathlib
import subprocess
import sys
import unittest

PROGRAMS = pathlib.Path(__file__).with_name("programs.py")


def answer(module, program):
    done = subprocess.run([sys.executable, PROGRAMS, module, program], capture_output=True, text=True, timeout=240)
    if done.returncode:
        raise AssertionError(f"{program} with {module}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])["answer"]


def largest(value):
    """The largest magnitude of the numbers in nested lists."""
    if isinstance(value, list):
        return max(map(largest, value), default=0)
    return abs(value) if isinstance(value, float) else 0


def differences(ours, theirs, tolerance, place=""):
    """Where nested lists of numbers and words differ."""
    if isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        return [fault for index, pair in enumerate(zip(ours, theirs)) for fault in differences(*pair, tolerance, f"{place}[{index}]")]
    if isinstance(theirs, float) and isinstance(ours, float) and math.isclose(ours, theirs, rel_tol=0, abs_tol=tolerance):
        return []
    return [] if ours == theirs else [f"{place}: {ours} instead of {theirs}"]


class Programs(unittest.TestCase):
    def same(self, program):
        theirs, ours = answer("onnxruntime", program), answer("tenon.onnxruntime", program)
        self.assertEqual([], differences(ours, theirs, 1e-3 * max(1, largest(theirs))))
        return ours

    def test_text_recognition(self):
        words = [line[1].replace(" ", "") for line in self.same("reads_text")]
        self.assertEqual(["Tenoncompilestrainedmodels", "Invoice2026-11-25Total1,284.50", "onefilecomesout:theengine"], words)

    def test_voice_activity(self):
        voice = self.same("hears_voice")
        self.assertLess(max(voice[:25]), 0.5)
        self.assertGreater(sum(probability > 0.5 for probability in voice), 70)

    def test_file_types(self):
        labels = [label for label, _ in self.same("names_files")]
        self.assertEqual(["markdown", "txt", "makefile", "cmake", "json", "toml", "shell", "python", "svg"], labels[:9])

    def test_embeddings_of_sound(self):
        windows = self.same("embeds_sound")[0]
        self.assertGreater(len(windows), 20)
        self.assertEqual({96}, {len(window) for window in windows})

    def test_planted(self):
        self.assertEqual(["[0][1]: b instead of a"], differences([[1.0, "b"]], [[1.0, "a"]], 1e-3))
        self.assertEqual(1, len(differences([0.5], [0.6], 1e-3)))
        self.assertEqual(1, len(differences([0.5], [0.5, 0.5], 1e-3)))


if __name__ == "__main__":
    unittest.main()
