"""Checks models/pytorch: the list, how outputs are judged, the page, and five models from torch.export to the numbers.

Relies on .venv-torch (scripts/setup.sh torch) for the last; it is skipped without. All models take an hour: check.py runs them.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
MODELS = SOURCE / "models/pytorch"
TORCH = SOURCE / ".venv-torch/bin/python"
TENON = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(MODELS))

import compare  # noqa: E402
import list as models  # noqa: E402
import page  # noqa: E402

# A batch of any size, two symbols, three inputs, a cache in buffers, boxes whose number data decides.
SAMPLE = ["mobilenet_v3_small", "hf_bert", "hf_t5", "hf_llama_step", "ssdlite320_mobilenet_v3_large"]


class List(unittest.TestCase):
    def test_names(self):
        names = [model.name for model in models.MODELS]
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue(set(SAMPLE) <= set(names))
        hub = [model for model in models.MODELS if model.family.startswith("transformers")]
        self.assertGreaterEqual(len(hub), 60)
        self.assertGreaterEqual(len(names) - len(hub), 100)

    def test_symbols(self):
        for model in models.MODELS:
            for one in model.inputs.values():
                for dim in one.dims:
                    self.assertTrue(isinstance(dim, int) or dim in models.EXAMPLE, (model.name, dim))
        for sizes in (models.EXAMPLE, *models.OTHER.values()):
            for name, size in sizes.items():
                least, most = models.RANGES[name]
                self.assertTrue(least <= size <= most, name)


class Judgement(unittest.TestCase):
    def test_error(self):
        truth = [np.array([1.0, -4.0, np.inf]), np.array([3, 4])]
        good = [np.array([1.0, -4.0, np.inf], np.float32), np.array([3, 4])]
        self.assertEqual(0, compare.error_of(good, truth))
        self.assertAlmostEqual(0.25, compare.error_of([np.array([2.0, -4.0, np.inf]), good[1]], truth))
        for bad in ([good[0]], [good[0][:2], good[1]], [good[0], np.array([3, 5])], [np.array([1.0, -4.0, 5.0]), good[1]],
                    [np.array([np.nan, -4.0, np.inf]), good[1]]):
            self.assertEqual(np.inf, compare.error_of(bad, truth), bad)

    def test_page(self):
        broken = {"error": 2e-6, "graphs": 2, "breaks": [["Dynamic shape operator", "m.py:3"], ["a list", "m.py:4"]], "graphs_again": 1}
        rows = [{"name": "a", "family": "f", "dims": "named", "error": 1e-6, "run_ms": 1.0, "backend": broken},
                {"name": "b", "family": "f", "failed": "check", "reason": "op: why", "message": ""},
                {"name": "c", "family": "g", "failed": "export", "reason": "no", "message": ""},
                {"name": "d", "family": "g", "backend": {"failed": "run", "reason": "died", "message": ""}}]
        text = page.page(rows, 4)
        self.assertIn("Of the list's 4 models, 3 were run: 2 could be exported and 1 pass.", text)
        self.assertIn("| check | op: why | 1: b |", text)
        self.assertIn("| f | 2 | 2 | 1 | 1 | 1 | 2 |", text)
        self.assertIn("| g | 1 | 0 | 0 | 1 | 0 | 0 |", text)
        self.assertRegex(text, r"\| Dynamic shape operator: data decides .* \| m.py:3 \| 1: a \|")
        self.assertIn("| a list: unexplained | m.py:4 | 1: a |", text)
        self.assertIn("| run | died | 1: d |", text)
        self.assertNotIn("falls short", page.page(rows[:1], 1))
        self.assertIn("2.0e-06, 2 graphs + 1, 2 breaks |", page.tables(rows, "first.md")["media"])

    def test_pages_are_those_of_the_results(self):
        """Those in docs are what page.py writes of results.json, and none is long."""
        results = json.loads((MODELS / "results.json").read_text())
        with tempfile.TemporaryDirectory() as scratch:
            page.write(pathlib.Path(scratch) / "pytorch-models.md", results, len(models.MODELS))
            written = {path.name: path.read_text() for path in pathlib.Path(scratch).iterdir()}
        self.assertEqual(1 + len(page.PAGES), len(written))
        for name, text in written.items():
            self.assertEqual(text, next((SOURCE / "docs").rglob(name)).read_text(), name)
            self.assertLess(len(text), 12000, name)


@unittest.skipUnless(TORCH.exists(), ".venv-torch is not there: scripts/setup.sh torch makes it")
class Sample(unittest.TestCase):
    def test_models(self):
        with tempfile.TemporaryDirectory() as scratch:
            results = pathlib.Path(scratch) / "results.json"
            subprocess.run([TORCH, MODELS / "check.py", "--tenon", TENON, "--folder", scratch, "--results", results,
                            "--page", pathlib.Path(scratch) / "page.md", "--only", *SAMPLE], check=True)
            for one in json.loads(results.read_text()):
                self.assertNotIn("failed", one, one)
                self.assertLess(one["error"], compare.TOLERANCE)
                self.assertEqual(one["name"] in SAMPLE[:3], "other_error" in one, one)


if __name__ == "__main__":
    unittest.main()
