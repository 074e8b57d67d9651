"""tenon.drift: statistics and tails by their definitions, thresholds, what is found and what is refused. Runs in the environment of in_wheel.py."""

import itertools
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import tenon
from tenon import drift

# From SciPy 1.17: (degrees of freedom, x, scipy.stats.chi2.sf(x, df)), and (x, scipy.stats.kstwobign.sf(x)).
CHI2 = [
    (1, 0.1, 0.7518296340458492),
    (1, 9.0, 0.0026997960632601883),
    (2, 3.0, 0.22313016014842982),
    (4, 20.0, 0.0004993992273873336),
    (9, 2.0, 0.9914676066288135),
    (9, 24.0, 0.004301310843500872),
    (19, 60.0, 3.869826300664181e-06),
    (99, 70.0, 0.9879938946441263),
    (99, 180.0, 1.206514044969043e-06),
]
KOLMOGOROV = [
    (0.3, 0.9999906941986655),
    (0.6, 0.8642827790506042),
    (0.99, 0.2808738392255489),
    (1.0, 0.26999967167735456),
    (1.36, 0.049485876755377876),
    (1.63, 0.009846364888486529),
    (2.5, 7.453306344157342e-06),
]


def by_definition_psi(a, b):
    p, q = ([(count + 0.5) / (sum(counts) + 0.5 * len(counts)) for count in counts] for counts in (a, b))
    return sum((x - y) * math.log(x / y) for x, y in zip(p, q))


def by_definition_ks(x, y):
    return max(abs(sum(each <= point for each in x) / len(x) - sum(each <= point for each in y) / len(y)) for point in [*x, *y])


class Statistics(unittest.TestCase):
    def test_psi_and_ks(self):
        rng = np.random.default_rng(1)
        for _ in range(20):
            a, b = rng.integers(0, 50, 10), rng.integers(0, 50, 10)
            self.assertAlmostEqual(drift.psi(a, b), by_definition_psi(a.tolist(), b.tolist()), delta=1e-12)
            x, y = np.sort(rng.standard_normal(40).round(1)), rng.standard_normal(30).round(1)
            self.assertAlmostEqual(drift.ks(x, y), by_definition_ks(x.tolist(), y.tolist()), delta=1e-12)

    def test_tails(self):
        for freedom, x, wanted in CHI2:
            self.assertAlmostEqual(drift.chi2_tail(x, freedom), wanted, delta=1e-12 + 1e-10 * wanted)
            self.assertAlmostEqual(drift.chi2_tail(drift.chi2_quantile(0.003, freedom), freedom), 0.003, delta=1e-9)
        for x, wanted in KOLMOGOROV:
            self.assertAlmostEqual(drift.kolmogorov_tail(x), wanted, delta=1e-12)
        self.assertAlmostEqual(drift.kolmogorov_tail(drift.kolmogorov_quantile(0.003)), 0.003, delta=1e-9)

    def test_exact_tests_by_counting_all_orders(self):
        """Of 3 new and 4 old values all 35 orders, and of 7 rows all 35 choices of the 3 of the window."""
        for count in range(5):
            orders = list(itertools.combinations(range(7), 3))
            outside = [sum(place < min(set(range(7)) - set(new)) or place > max(set(range(7)) - set(new)) for place in new) for new in orders]
            self.assertAlmostEqual(drift.outside_p(count, 3, 4), sum(each >= count for each in outside) / 35, delta=1e-12)
        for count in range(4):
            chosen = [sum(place < 4 for place in new) for new in itertools.combinations(range(7), 3)]
            self.assertAlmostEqual(drift.more_often(count, 3, 4 - count, 4), sum(each >= count for each in chosen) / 35, delta=1e-12)


class Comparing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rng = np.random.default_rng(7)
        cls.reference = drift.Reference({"x": cls.rng.standard_normal(5000)})

    def test_clean_windows_and_shifted_ones(self):
        clean = sum(self.reference.compare({"x": self.rng.standard_normal(500)})["drift"] for _ in range(300))
        self.assertLess(clean, 12)  # 3 are expected; 12 or more happen once in 10,000 times
        shifted = sum(self.reference.compare({"x": self.rng.standard_normal(500) + 0.5})["drift"] for _ in range(100))
        self.assertGreaterEqual(shifted, 95)

    def test_thresholds_follow_from_sample_sizes(self):
        for rows in (50, 500, 5000):
            found = self.reference.compare({"x": self.rng.standard_normal(rows)})["features"][0]
            self.assertAlmostEqual(found["psi_threshold"], (1 / rows + 1 / 5000) * drift.chi2_quantile(0.0045, 9), delta=1e-9)
            self.assertEqual(found["psi"] > found["psi_threshold"], found["psi_p"] < 0.0045)
            self.assertEqual(found["ks"] > found["ks_threshold"], found["ks_p"] < 0.0045)

    def test_many_features_share_the_false_alarms(self):
        many = drift.Reference({"x": self.rng.standard_normal((2000, 40))})
        one = many.compare({"x": self.rng.standard_normal((200, 40))})
        self.assertEqual(40, len(one["features"]))
        self.assertAlmostEqual(one["features"][0]["ks_threshold"], drift.kolmogorov_quantile(0.0045 / 40) / drift._ks_factor(200, 2000), delta=1e-9)
        window = self.rng.standard_normal((500, 40))
        window[:, 17] += 0.5
        self.assertEqual(["x[17]"], [each["feature"] for each in many.compare({"x": window})["features"] if each["drift"]])

    def test_each_statistic_alone(self):
        rng = np.random.default_rng(3)
        gone = rng.standard_normal(400)
        gone[:20] = np.nan
        found = self.reference.compare({"x": gone})["features"][0]
        self.assertLess(found["missing_p"], 1e-6)
        self.assertGreater(min(found["psi_p"], found["ks_p"], found["out_of_range_p"]), 1e-3)
        wide = rng.standard_normal(400)
        wide[:8] = np.inf
        found = self.reference.compare({"x": wide})["features"][0]
        self.assertLess(found["out_of_range_p"], 1e-6)
        self.assertGreater(min(found["psi_p"], found["ks_p"]), 1e-3)

    def test_classes_texts_and_constants(self):
        rng = np.random.default_rng(5)
        words = np.array(["cat", "dog", "bird"])
        reference = drift.Reference({"class": rng.integers(0, 4, 2000), "word": words[rng.integers(0, 3, 2000)], "one": np.ones(2000), "flag": rng.random(2000) < 0.2})
        clean = {"class": rng.integers(0, 4, 300), "word": words[rng.integers(0, 3, 300)], "one": np.ones(300), "flag": rng.random(300) < 0.2}
        self.assertFalse(reference.compare(clean)["drift"])
        for name, column in (("class", rng.integers(0, 3, 300)), ("word", np.array(["cat"] * 280 + ["fish"] * 20)), ("one", np.full(300, 2.0)), ("flag", rng.random(300) < 0.5)):
            report = reference.compare({**clean, name: column})
            self.assertEqual([name], [each["feature"] for each in report["features"] if each["drift"]])

    def test_pictures_become_figures_of_each(self):
        rng = np.random.default_rng(6)
        reference = drift.Reference({"image": rng.random((500, 1, 28, 28), np.float32)})
        self.assertEqual(["image.mean", "image.std", "image.min", "image.max"], [each["feature"] for each in reference.compare({"image": rng.random((200, 1, 28, 28), np.float32)})["features"]])
        self.assertTrue(reference.compare({"image": rng.random((200, 1, 28, 28), np.float32) * 0.9})["drift"])

    def test_few_rows_are_not_judged_by_psi_and_ks(self):
        found = self.reference.compare({"x": np.full(29, 9.0)})["features"][0]
        self.assertNotIn("psi", found)
        self.assertTrue(found["drift"])  # all are out of range
        self.assertNotIn("psi", self.reference.compare({"x": np.full(300, np.nan)})["features"][0])

    def test_bad_data(self):
        for arrays in ({}, {"y": np.zeros(40)}, {"x": np.zeros(0)}, {"x": np.array([object()] * 40)}, {"x": np.float32(1)}, {"x": np.array(["a"] * 40)}):
            with self.subTest(arrays), self.assertRaisesRegex(tenon.BadInputError, "^TN0113: "):
                self.reference.compare(arrays)
        with self.assertRaisesRegex(tenon.BadInputError, "29 rows"):
            drift.Reference({"x": np.zeros(29)})
        for wrong in ({"false_alarms": 0}, {"false_alarms": math.nan}):
            with self.assertRaises(tenon.UsageError):
                self.reference.compare({"x": np.zeros(40)}, **wrong)
        with self.assertRaises(tenon.UsageError):
            drift.Reference({"x": np.zeros(40)}, bins=1)


class CommandLine(unittest.TestCase):
    def test_answers_and_exit_codes(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            rng = np.random.default_rng(2)
            np.savez(folder / "reference.npz", x=rng.standard_normal(1000))
            np.savez(folder / "same.npz", x=rng.standard_normal(200))
            np.savez(folder / "shifted.npz", x=rng.standard_normal(200) + 1)
            (folder / "broken.npz").write_bytes(b"PK\x03\x04 not")
            np.savez(folder / "pickle.npz", x=np.array([{}], dtype=object))

            def call(window, *more):
                return subprocess.run([sys.executable, "-m", "tenon.drift", "reference.npz", window, *more], cwd=folder, capture_output=True, text=True)

            done = call("same.npz", "--json")
            self.assertEqual((0, "tenon.drift/1", False), (done.returncode, json.loads(done.stdout)["schema"], json.loads(done.stdout)["drift"]))
            done = call("shifted.npz")
            self.assertEqual(1, done.returncode)
            self.assertIn("200 rows beside 1000 of the reference: drift", done.stdout)
            for name, code in (("broken.npz", 5), ("pickle.npz", 5), ("gone.npz", 2)):
                done = call(name, "--json")
                self.assertEqual((code, code), (done.returncode, json.loads(done.stdout)["exit"]), done.stderr)


if __name__ == "__main__":
    unittest.main()
