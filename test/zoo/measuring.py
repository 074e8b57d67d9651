"""Checks what scripts/measure.py makes of its numbers: limits that are missed are named, the page has every model.

Relies on rows made up here; measuring itself is tried on no machine that runs other tests beside it.
"""

import copy
import sys
import unittest

import expectations

sys.path.insert(0, str(expectations.SOURCE / "scripts"))

import measure  # noqa: E402

PAIR = {"ratio_of_minima": {"value": 0.9, "low": 0.8, "high": 1.0}, "ratio_of_medians": {"value": 0.95}, "rounds": 9,
        "quiet_rounds": 7, "disturbed": False, "tenon": {"min_ms": 9, "median_ms": 10, "isa": "avx512"},
        "onnxruntime": {"min_ms": 10, "median_ms": 11, "version": "onnxruntime 1"}}
GOOD = {"model": "bert_base.dynamo", "pair": PAIR, "error": 1e-6, "peer_error": 6e-7, "compile_s": 5.0, "cached_s": 0.4,
        "verify_s": 20.0, "load_ms": 30.0, "first_ms": 42.0, "steady_ms": 10.0, "arena": 104, "arena_bound": 100,
        "engine_bytes": 1 << 20, "weights_bytes": 1 << 20, "peak_rss_mib": 500.0}
FACTS = {"date": "2026-01-02", "cpu": "A CPU", "threads": 2, "batch": 1, "sequence": 128, "tenon_version": "0",
         "commit": "abc", "command": "scripts/measure.py"}


class Measuring(unittest.TestCase):
    def test_limits(self):
        self.assertEqual([], measure.misses([GOOD]))
        for key, value, text in (("error", 1.3e-6, "ONNX Runtime's"), ("error", 2e-4, "largest magnitude"),
                                 ("arena", 106, "arena"), ("first_ms", 44.0, "first result"), ("load_ms", 61.0, "load_ms"),
                                 ("cached_s", 1.1, "cache"), ("compile_s", 12.5, "to compile"), ("verify_s", 181, "verify"),
                                 ("error", float("nan"), "largest magnitude")):
            missed = measure.misses([dict(GOOD, **{key: value})])
            self.assertTrue(any(text in one for one in missed), (key, missed))
        slow = copy.deepcopy(GOOD)
        slow["pair"]["ratio_of_minima"]["value"] = 1.51
        self.assertEqual(1, len(measure.misses([GOOD, slow])))
        self.assertEqual([], measure.misses([dict(GOOD, model="gpt2.dynamo", compile_s=100.0)]))

    def test_page(self):
        page = measure.page([GOOD, dict(GOOD, model="other", arena=200)], FACTS)
        self.assertEqual(3, page.count("| bert_base.dynamo |"))
        self.assertEqual(3, page.count("| other |"))
        self.assertIn("- other: arena", page)
        self.assertIn("0.90 (0.80 to 1.00)", page)
        self.assertIn("every limit is kept", measure.page([GOOD], FACTS))

    def test_slower(self):
        self.assertEqual([], measure.slower([GOOD]))
        slow = copy.deepcopy(GOOD)
        slow["pair"].update(ratio_of_minima={"value": 1.02, "low": 1.0, "high": 1.1}, disturbed=True)
        said = measure.slower([GOOD, slow])
        self.assertEqual(["bert_base.dynamo takes 1.02 times ONNX Runtime's time",
                          "the rounds of bert_base.dynamo were disturbed: they are no evidence"], said)
        self.assertIn(f"- {said[0]}", measure.page([GOOD, slow], FACTS))


if __name__ == "__main__":
    unittest.main()
