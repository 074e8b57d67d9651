#!/usr/bin/env python3
"""How often tenon.drift calls clean windows drift, and how often it finds a shift: the figures of docs/measurements.

    scripts/drift_rates.py [--windows 10000]

Runs in a Python with the package tenon, numpy and SciPy; the seeds are fixed. Clean windows have 50 to 5,000 rows (their logarithm is uniform) and come from the
distribution of their reference, of which there is a new one for every 20. Exits with 1 where a rate is out of its bounds.
"""

import argparse
import math
import sys

import numpy as np
import scipy.stats

from tenon import drift

DRAWS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "heavy tails": lambda rng, n: rng.standard_t(2, n),
    "half zeros": lambda rng, n: np.maximum(rng.standard_normal(n), 0),
    "ten classes": lambda rng, n: rng.choice(10, n, p=np.arange(1, 11) / 55),
    "5 % missing": lambda rng, n: np.where(rng.random(n) < 0.05, np.nan, rng.standard_normal(n)),
}


def rates(draw, rng, windows, features):
    """Shares of windows that are called drift: whole, by PSI alone and by KS alone, each of which is judged at 1 % for one feature."""
    alarms = {"window": 0, "psi": 0, "ks": 0}
    for index in range(windows):
        if index % 20 == 0:
            reference = drift.Reference({f"x{k}": draw(rng, 5000) for k in range(features)})
        rows = int(math.exp(rng.uniform(math.log(50), math.log(5000))))
        report = reference.compare({f"x{k}": draw(rng, rows) for k in range(features)})
        alarms["window"] += report["drift"]
        for name in ("psi", "ks"):
            alarms[name] += report["features"][0].get(f"{name}_p", 1) < 0.01
    return {name: count / windows for name, count in alarms.items()}


def found(rng, windows, shift, rows):
    hits = 0
    for index in range(windows):
        if index % 20 == 0:
            reference = drift.Reference({"x": rng.standard_normal(5000)})
        hits += reference.compare({"x": rng.standard_normal(rows) + shift})["drift"]
    return hits / windows


def against_scipy(rng):
    """The largest relative differences of statistics and tails from SciPy's."""
    worst = {"psi": 0.0, "ks": 0.0, "chi2": 0.0, "kolmogorov": 0.0}
    for _ in range(200):
        a, b = rng.integers(0, 300, 10), rng.integers(0, 300, 10)
        p, q = ((counts + 0.5) / (counts.sum() + 5) for counts in (a, b))
        worst["psi"] = max(worst["psi"], abs(drift.psi(a, b) - scipy.stats.entropy(p, q) - scipy.stats.entropy(q, p)))
        x, y = np.sort(rng.standard_normal(rng.integers(30, 500))).round(2), rng.standard_normal(rng.integers(30, 500)).round(2)
        worst["ks"] = max(worst["ks"], abs(drift.ks(x, y) - scipy.stats.ks_2samp(x, y).statistic))
        freedom, z = int(rng.integers(1, 100)), rng.exponential(50)
        worst["chi2"] = max(worst["chi2"], abs(drift.chi2_tail(z, freedom) - scipy.stats.chi2.sf(z, freedom)))
        k = rng.uniform(0.1, 3)
        worst["kolmogorov"] = max(worst["kolmogorov"], abs(drift.kolmogorov_tail(k) - scipy.stats.kstwobign.sf(k)))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=10000)
    given = parser.parse_args()
    rng = np.random.default_rng(20261126)
    worst = against_scipy(rng)
    print("largest difference from SciPy: " + ", ".join(f"{name} {value:.1e}" for name, value in worst.items()))
    good = max(worst.values()) < 1e-9
    for name, draw in DRAWS.items():
        rate = rates(draw, rng, given.windows, 1)
        good &= 0.005 <= rate["window"] <= 0.015
        print(f"clean, {name}: {rate['window']:.2%} of {given.windows} windows; at 1 % each: PSI {rate['psi']:.2%}, KS {rate['ks']:.2%}", flush=True)
    rate = rates(DRAWS["normal"], rng, max(1, given.windows // 4), 20)
    good &= 0.005 <= rate["window"] <= 0.015
    print(f"clean, 20 normal features: {rate['window']:.2%} of {max(1, given.windows // 4)} windows", flush=True)
    for shift, rows in ((0.5, 500), (0.5, 100), (0.2, 500), (0.1, 5000)):
        rate = found(rng, max(1, given.windows // 10), shift, rows)
        good &= rate >= 0.95 or (shift, rows) != (0.5, 500)
        print(f"shifted by {shift} sigma, {rows} rows: found in {rate:.2%}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
