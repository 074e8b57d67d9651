"""tenon.drift: statistics and tails by their definitions, thresholds, what is found and what is refused. Runs in the environment of in_wheel.py."""

import itertools
import json
import math
import os
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
        self.assertAlmostEqual(one["features"][0]["ks_threshold"], drift.kolmogorov_quantile(0.0045 / 40) / drift.ks_factor(200, 2000), delta=1e-9)
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


    def test_only_in_one_bounds_the_exact_probability(self):
        """Of values 0 0 1 2 2 2 and 3, all choices of the three rows of the window."""
        values = [0, 0, 1, 2, 2, 2, 3]
        choices = list(itertools.combinations(range(7), 3))
        shares = []
        for chosen in choices:
            others = {values[place] for place in range(7) if place not in chosen}
            shares.append(sum(values[place] not in others for place in chosen))
        for count in range(5):
            exact = sum(each >= count for each in shares) / len(choices)
            self.assertGreaterEqual(drift.only_in_one_p(count, 3, 4, [(1, 2), (2, 1), (3, 1)]), exact - 1e-12)
        self.assertAlmostEqual(drift.only_in_one_p(2, 10, 20, [(2, 1), (28, 1)]), 10 * 9 / (30 * 29), delta=1e-6)

    def test_many_values(self):
        """Categories that all are rare: new ones, lost ones, one that takes all; and none where nothing changed."""
        rng = np.random.default_rng(8)
        cities = np.array([f"city{index}" for index in range(40)])
        many = rng.permutation(2000).astype(str)
        usual = lambda rows: np.where(rng.random(rows) < 0.5, "usual", rng.choice(cities, rows))  # noqa: E731
        for make, changes in (
            (lambda rows: rng.choice(cities, rows), [np.array(["atlantis"] * 1000), np.array(["city7"] * 1000), rng.choice(cities[::2], 1000)]),
            (lambda rows: rng.choice(many[:1000], rows), [rng.choice(many[1000:], 1000), rng.choice(many[:300], 1000)]),
            (usual, [np.where(rng.random(1000) < 0.5, "usual", "new"), np.where(rng.random(1000) < 0.99, usual(1000), "new")]),
            (lambda rows: rng.integers(0, 40, rows), [rng.integers(0, 20, 1000) * 2, np.where(rng.random(1000) < 0.02, 7.5, rng.integers(0, 40, 1000))]),
            (lambda rows: np.where(rng.random(rows) < 0.5, 0, rng.integers(0, 20, rows)), [np.where(rng.random(1000) < 0.5, 0, 7.5)]),
            (lambda rows: rng.integers(0, 10**12, rows).astype(str), [np.array(["1"] * 1000)]),
        ):
            reference = drift.Reference({"c": make(5000)})
            self.assertLessEqual(sum(reference.compare({"c": make(1000)})["drift"] for _ in range(20)), 3)
            for change in changes:
                self.assertTrue(reference.compare({"c": change})["drift"], change[:5])

    def test_values_not_types(self):
        rng = np.random.default_rng(9)
        tenths = np.array([0.1, 0.2, 0.3])
        for ours, theirs in ((np.float32, np.float64), (np.float64, np.float32), (np.float64, np.float16), (np.float16, np.float32)):
            found = drift.Reference({"x": rng.choice(tenths, 2000).astype(ours), "y": tenths[rng.integers(0, 3, (500, 100))].astype(ours)})
            report = found.compare({"x": rng.choice(tenths, 500).astype(theirs), "y": tenths[rng.integers(0, 3, (500, 100))].astype(theirs)})
            self.assertEqual((False, 0), (report["drift"], report["features"][0]["new"]))
        whole = rng.integers(0, 4, 1000)
        for theirs in (np.uint8, np.int64, np.float32, np.float16):
            self.assertEqual(0, drift.Reference({"x": whole}).compare({"x": whole[:300].astype(theirs)})["features"][0]["new"])
        self.assertTrue(drift.Reference({"x": whole.astype(np.uint8)}).compare({"x": whole[:300] + 256})["drift"])
        words = np.array(["a", "ü"])[whole % 2]
        self.assertFalse(drift.Reference({"x": np.char.encode(words, "utf-8")}).compare({"x": words})["drift"])
        self.assertFalse(drift.Reference({"x": words}).compare({"x": np.char.encode(words, "utf-8")})["drift"])

    def test_references_with_outputs(self):
        rng = np.random.default_rng(10)
        x = rng.standard_normal((100, 8))
        models = pathlib.Path(os.environ["TENON_MODELS"])
        for shape in ("[1..32]x8", "7x8"):  # the second of a fixed size, which 100 is no multiple of
            engine = tenon.compile(str(models / "linear.onnx"), dynamic_shapes={"x": shape})
            found = drift.with_outputs(engine, {"x": x, "labels": np.arange(100)})
            name = engine.outputs[0].name
            self.assertEqual({"x", "labels", name}, set(found))
            self.assertEqual(100, len(found[name]))
            np.testing.assert_allclose(found[name][90:97], engine.run({"x": x[90:97].astype(np.float32)})[name], rtol=1e-6, atol=1e-6)
        with self.assertRaisesRegex(tenon.BadInputError, "lack the input 'x'"):
            drift.with_outputs(engine, {"labels": x})


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
