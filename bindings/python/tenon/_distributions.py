"""Statistics of `tenon.drift` and their distributions: each tail is the probability of what was seen or more under no change.

server/monitoring/drift/Distributions.cpp computes the same; the two give equal numbers.
"""

from __future__ import annotations

import math
from typing import Any, List, Tuple


def psi(reference: Any, window: Any) -> float:
    """Population stability index of two arrays of counts over the same bins. Each count is half a row larger, so that empty bins have a share.

    It is the sum of (p - q) ln(p / q) over the bins, the two Kullback-Leibler divergences of the shares p and q together. Under no change it has the
    distribution of (1/n + 1/m) chi2(bins - 1) for n and m rows.
    """
    import numpy as np

    p, q = ((np.asarray(counts, np.float64) + 0.5) / (np.sum(counts) + 0.5 * len(counts)) for counts in (reference, window))
    return float(np.sum((p - q) * np.log(p / q)))


def ks(reference: Any, window: Any) -> float:
    """Two-sample Kolmogorov-Smirnov statistic: the largest distance of the two empirical distribution functions. reference and window are 1-D, reference sorted."""
    import numpy as np

    window = np.sort(window)
    points = np.concatenate([reference, window])
    below = (np.searchsorted(each, points, side="right") / len(each) for each in (reference, window))
    return float(np.max(np.abs(next(below) - next(below))))


def chi2_tail(x: float, freedom: int) -> float:
    """P(chi2(freedom) > x): the upper incomplete gamma function, by its series below the mean and its continued fraction above."""
    a, x = freedom / 2, x / 2
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        index = a
        while abs(term) > 1e-17 * total:
            index += 1
            term *= x / index
            total += term
        return max(0.0, 1 - scale * total)
    # Lentz's evaluation of the continued fraction.
    b = x + 1 - a
    c, d = 1e300, 1 / b
    value = d
    for index in range(1, 10000):
        step = -index * (index - a)
        b += 2
        d = 1 / (step * d + b)
        c = b + step / c
        value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return scale * value


def chi2_quantile(tail: float, freedom: int) -> float:
    """The x with P(chi2(freedom) > x) = tail, by bisection."""
    return _inverse(lambda x: chi2_tail(x, freedom), tail, freedom + 20.0)


def kolmogorov_tail(x: float) -> float:
    """P(K > x) of Kolmogorov's distribution."""
    if x < 0.04:
        return 1.0
    if x < 1:  # the series for small x, by the theta function's other form
        total = sum(math.exp(-((2 * k - 1) ** 2) * math.pi**2 / (8 * x * x)) for k in range(1, 20))
        return 1 - math.sqrt(2 * math.pi) / x * total
    return 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 20))


def kolmogorov_quantile(tail: float) -> float:
    return _inverse(kolmogorov_tail, tail, 2.0)


def ks_factor(n: int, m: int) -> float:
    """By which the statistic has Kolmogorov's distribution for finite samples: M. A. Stephens, J. R. Stat. Soc. B 32 (1970), p. 115."""
    root = math.sqrt(n * m / (n + m))
    return root + 0.12 + 0.11 / root


def _inverse(tail_of: Any, tail: float, high: float) -> float:
    while tail_of(high) > tail:
        high *= 2
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if tail_of(middle) > tail else (low, middle)
    return high


def log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def more_often(count: int, rows: int, reference_count: int, reference_rows: int) -> float:
    """P(so many or more of `rows` have a property), given how many of all have it: Fisher's exact test, one side."""
    having, everything = count + reference_count, rows + reference_rows
    if count == 0:
        return 1.0

    whole = log_choose(everything, rows)
    terms = [log_choose(having, k) + log_choose(everything - having, rows - k) - whole for k in range(count, min(having, rows) + 1) if rows - k <= everything - having]
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def outside_p(count: int, rows: int, reference_rows: int) -> float:
    """P(so many or more of `rows` new values lie outside of all of the reference's), for samples of one continuous distribution.

    All orders of the n + m values are as likely: k new ones are outside if i of them are the lowest and k - i the highest of all, with two of the
    reference next to them.
    """
    n, m = rows, reference_rows
    if count == 0:
        return 1.0
    if m < 2:
        return 1.0
    inside, probability = 0.0, m * (m - 1) / ((n + m) * (n + m - 1))
    for k in range(count):
        inside += (k + 1) * probability
        probability *= (n - k) / (n + m - 2 - k)
    return min(1.0, max(0.0, 1 - inside))


def only_in_one_p(count: int, rows: int, other_rows: int, groups: List[Tuple[int, int]]) -> float:
    """At least P(so many or more of `rows` have values that none of `other_rows` has), for samples of one distribution.

    groups: [(size, how many)], of the values of both samples together: so many values have so many rows. All choices of the rows of one sample from both are
    as likely; that all rows of a value are in it are events that are negatively associated, so that Chernoff's bound for independent ones holds.
    K. Joag-Dev and F. Proschan, Ann. Stat. 11 (1983), p. 286.
    """
    if count == 0:
        return 1.0
    chances: List[Tuple[int, int, float]] = []  # of the sizes for which it is not negligible: the logarithm of the probability that all rows are in the sample
    for size, many in groups:
        if size <= rows:
            chances.append((size, many, log_choose(rows, size) - log_choose(rows + other_rows, size)))

    def exponent(t: float) -> float:
        total = -t * count
        for size, many, chance in chances:
            high = chance + t * size  # log(1 + p (e^(t size) - 1)), without an overflow
            total += many * (high + math.log(math.exp(-high) * -math.expm1(chance) + 1.0) if high > 0 else math.log1p(math.exp(high) - math.exp(chance)))
        return total

    low, high = 0.0, 1.0
    while high < 1024 and exponent(2 * high) < exponent(high):
        high *= 2
    high *= 2
    for _ in range(100):  # it is convex: golden sections would take fewer steps, thirds are plain
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if exponent(left) <= exponent(right) else (left, high)
    return math.exp(min(0.0, exponent((low + high) / 2)))
