"""Whether the data of today are those of the reference: PSI, KS, new, lost and missing values and values out of range, with thresholds that follow from sample sizes.

    reference = tenon.drift.Reference({"image": calibration})
    report = reference.compare({"image": todays})
    report["drift"], report["features"][0]["psi"]

    python -m tenon.drift REFERENCE.npz WINDOW.npz --json

Relies on numpy alone. All statistics are about features: the elements of a sample, or where these are many, figures of it (`feature_columns`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import zipfile
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ._errors import BadInputError, Error, tell, usage

__all__ = ["Reference", "feature_columns", "ks", "psi"]

MOST_COLUMNS = 64
LEAST_ROWS = 30  # below, the distributions of PSI and KS are not those that thresholds follow from
LEAST_SHARE = 0.05  # of the reference, for a value to have a bin of its own
LEAST_GROUP = 0.1  # of the reference, for neighbours among the rarer values to have one together
MOST_VALUES = 20  # of a feature whose bins are its values
# How the allowed false alarms are shared out among the statistics of a feature. One of few values has no KS, whose distribution is for continuous ones; one
# whose values do not come again has no new and lost ones.
SHARES = {"psi": 0.45, "ks": 0.45, "missing": 0.05, "out_of_range": 0.05}
SHARES_OF_REPEATED = {"psi": 0.35, "ks": 0.35, "new": 0.1, "lost": 0.1, "missing": 0.05, "out_of_range": 0.05}
SHARES_OF_VALUES = {"psi": 0.7, "new": 0.1, "lost": 0.1, "missing": 0.05, "out_of_range": 0.05}


def psi(reference: Any, window: Any) -> float:
    """Population stability index of two arrays of counts over the same bins, each count half a row larger, so that empty bins have a share.

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


def feature_columns(name: str, array: Any) -> Dict[str, Any]:
    """{feature: column} of an array whose first dim counts the rows: its elements `name[3]`, or from 65 of them on `name.mean`, `.std`, `.min` and `.max` of each row."""
    import numpy as np

    flat = array.reshape(len(array), -1)
    if flat.shape[1] == 1 and array.ndim <= 2:
        return {name: flat[:, 0]}
    if flat.shape[1] <= MOST_COLUMNS:
        return {f"{name}[{','.join(map(str, np.unravel_index(index, array.shape[1:])))}]": flat[:, index] for index in range(flat.shape[1])}
    if flat.dtype.kind not in "fiub":
        raise BadInputError(f"TN0113: '{name}' has {flat.shape[1]} texts a row (give at most {MOST_COLUMNS})", "TN0113", f"give at most {MOST_COLUMNS}")
    wide = flat.astype(np.float64)
    return {f"{name}.mean": wide.mean(1), f"{name}.std": wide.std(1), f"{name}.min": wide.min(1), f"{name}.max": wide.max(1)}


class Reference:
    """What windows are compared with. Read-only after it is made, so that threads may share one.

    arrays: {name: array}, whose first dim counts the rows: numbers, NaN where a value is missing; or text.
    bins: of PSI, with as many rows of the reference in each; a feature of few values has a bin for each instead.
    """

    def __init__(self, arrays: Mapping[str, Any], *, bins: int = 10):
        if not 2 <= bins <= 100:
            raise usage("TN0105", f"{bins} bins", "2 to 100, of which 10 are usual")
        self._arrays, self._bins = _checked(arrays, "the reference"), bins
        self._made: Dict[Tuple[str, str], Dict[str, _Feature]] = {}  # of an array beside windows of a type; a thread that makes one again makes the same
        for name, array in self._arrays.items():
            if len(array) < LEAST_ROWS:
                raise BadInputError(f"TN0113: the reference has {len(array)} rows (give at least {LEAST_ROWS})", "TN0113", f"give at least {LEAST_ROWS}")
            self._features(name, array.dtype)

    def _features(self, name: str, dtype: Any) -> Dict[str, "_Feature"]:
        """Of an array, by its values in the narrower of its type and that of a window: 0.1 is the same in float32 and float64."""
        array = self._arrays[name]
        narrow = _as_narrower(array, array.dtype, dtype)
        if (name, narrow.dtype.str) not in self._made:
            self._made[name, narrow.dtype.str] = {column: _Feature(values, self._bins) for column, values in feature_columns(name, narrow).items()}
        return self._made[name, narrow.dtype.str]

    def compare(self, arrays: Mapping[str, Any], *, false_alarms: float = 0.01) -> Dict[str, Any]:
        """What a window says: {"drift", "rows", "features": [{"feature", "drift", "psi", "psi_threshold", ...}]}, the schema `tenon.drift/1`.

        false_alarms: how often a window of unchanged data may be called drift, all features together: a feature's share is the
        k-th part of it (Bonferroni), so thresholds are known before the window is. A window of fewer than 30 rows has no PSI and KS.
        Values are compared, not types: float32 with float64, whole numbers with floating-point ones, bytes (as UTF-8) with text.
        """
        if not 0 < false_alarms < 1:
            raise usage("TN0105", f"a share of false alarms of {false_alarms}", "give one between 0 and 1: 0.01")
        windows = _checked(arrays, "the window")
        pairs: List[Tuple[str, _Feature, Any]] = []
        for name, array in self._arrays.items():
            if name not in windows:
                raise BadInputError(f"TN0113: the window lacks '{name}', which the reference has (give the same arrays)", "TN0113", "give the same arrays")
            window = windows[name]
            if (window.dtype.kind == "U") != (array.dtype.kind == "U"):
                raise BadInputError(f"TN0113: '{name}' is text in one and numbers in the other (give the same types)", "TN0113", "give the same types")
            columns = feature_columns(name, _as_narrower(window, array.dtype, window.dtype))
            for column, feature in self._features(name, window.dtype).items():
                if column not in columns:
                    raise BadInputError(f"TN0113: the window lacks '{column}', which the reference has (give the same arrays)", "TN0113", "give the same arrays")
                pairs.append((column, feature, columns[column]))
        share = false_alarms / len(pairs)
        found = [{"feature": name, **feature.compare(column, share)} for name, feature, column in pairs]
        return {"schema": "tenon.drift/1", "drift": any(each["drift"] for each in found), "false_alarms": false_alarms,
                "rows": max(len(array) for array in windows.values()), "reference_rows": max(len(array) for array in self._arrays.values()),
                "features": found}  # fmt: skip


def _checked(arrays: Mapping[str, Any], what: str) -> Dict[str, Any]:
    """The arrays, bytes as text."""
    import numpy as np

    found: Dict[str, Any] = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        if array.dtype.kind == "T":  # numpy's strings of any length
            array = array.astype(str)
        if array.dtype.kind not in "fiubUS" or array.ndim == 0 or array.size == 0:
            problem = "has no rows" if array.ndim and array.size == 0 else f"is of type {array.dtype} with {array.ndim} dims"
            raise BadInputError(f"TN0113: '{name}' of {what} {problem} (give numbers or text, a row for each sample)", "TN0113", "give numbers or text, a row for each sample")
        found[name] = np.char.decode(array, "utf-8", "backslashreplace") if array.dtype.kind == "S" else array
    if not found:
        raise BadInputError(f"TN0113: {what} has no arrays (give a file with an array for each input)", "TN0113", "give a file with an array for each input")
    return found


def _as_narrower(array: Any, one: Any, other: Any) -> Any:
    """An array in the type in which values of both types are compared: of two floating-point ones the narrower, beside whole numbers the floating-point one."""
    import numpy as np

    floats = [each for each in (one, other) if each.kind == "f"]
    with np.errstate(over="ignore"):  # what is too large for it is infinite, and out of range
        return array.astype(min(floats, key=lambda each: each.itemsize), copy=False) if floats else array


class _Feature:
    """One column of the reference: its bins, how often it has each value, and its sorted values where these are numbers."""

    def __init__(self, column: Any, bins: int):
        import numpy as np

        self.rows, self.is_text = len(column), column.dtype.kind == "U"
        present = self.present_of(column)
        self.present = len(present)
        self.values, self.times = np.unique(present, return_counts=True)
        self.own, self.edges = None, None
        if self.is_text or len(self.values) <= MOST_VALUES:
            is_own = self.times >= max(1.0, LEAST_SHARE * self.present)
            self.own, self.edges = self.values[is_own], self._groups(self.values[~is_own], self.times[~is_own])
            self.shares = SHARES_OF_VALUES
        else:
            # Edges between values, so that a value that is frequent lies in one bin.
            self.edges = np.unique(np.quantile(present, np.arange(1, bins) / bins, method="lower"))
            self.shares = SHARES_OF_REPEATED if 2 * len(self.values) <= self.present else SHARES
        self.sorted = None if self.is_text else np.sort(present)
        self.counts = self.count(self.values, self.times)

    def present_of(self, column: Any) -> Any:
        """What is not missing: text, or numbers as float64."""
        import numpy as np

        if self.is_text:
            return column
        column = column.astype(np.float64)
        return column[~np.isnan(column)]

    def _groups(self, values: Any, times: Any) -> Any:
        """The last value of each group of neighbours but the last one."""
        edges, rows = [], 0
        for index, count in enumerate(times):
            rows += count
            if rows >= max(1.0, LEAST_GROUP * self.present):
                edges.append(index)
                rows = 0
        return values[edges[:-1]]

    def count(self, values: Any, times: Any) -> Any:
        """Rows in each bin: of each value with one of its own, then up to each edge and above, without those."""
        import numpy as np

        found = np.bincount(np.searchsorted(self.edges, values, side="left"), times, len(self.edges) + 1).astype(np.int64)
        if self.own is None:
            return found
        is_own = np.isin(values, self.own)
        own = np.zeros(len(self.own), np.int64)
        own[np.searchsorted(self.own, values[is_own])] = times[is_own]
        found -= np.bincount(np.searchsorted(self.edges, values[is_own], side="left"), times[is_own], len(found)).astype(np.int64)
        return np.append(own, found)

    def compare(self, column: Any, share: float) -> Dict[str, Any]:
        import numpy as np

        present = self.present_of(column)
        missing = len(column) - len(present)
        found: Dict[str, Any] = {"rows": len(column), "drift": False}

        def judge(name: str, value: float, threshold: Optional[float], p_value: float) -> None:
            found.update({name: value, f"{name}_p": p_value, **({f"{name}_threshold": threshold} if threshold is not None else {})})
            found["drift"] |= p_value < share * self.shares[name]

        judge("missing", missing / len(column), None, more_often(missing, len(column), self.rows - self.present, self.rows))
        if len(present) == 0 or self.present == 0:
            return found
        if self.sorted is not None:
            outside = int(np.count_nonzero((present < self.sorted[0]) | (present > self.sorted[-1])))
            judge("out_of_range", outside / len(present), None, outside_p(outside, len(present), self.present))
        values, times = np.unique(present, return_counts=True)
        if "new" in self.shares:
            self._judge_values(values, times, judge)
        if min(len(present), self.present) < LEAST_ROWS:
            return found
        counts = self.count(values, times)
        used = (counts + self.counts) > 0
        freedom = int(used.sum()) - 1
        unit, psi_share = 1 / len(present) + 1 / self.present, share * self.shares["psi"]
        value = psi(self.counts[used], counts[used])
        judge("psi", value, unit * chi2_quantile(psi_share, freedom) if freedom else 0.0, chi2_tail(value / unit, freedom) if freedom else 1.0)
        if "ks" in self.shares:
            value, factor = ks(self.sorted, present), _ks_factor(len(present), self.present)
            judge("ks", value, kolmogorov_quantile(share * self.shares["ks"]) / factor, kolmogorov_tail(value * factor))
        return found

    def _judge_values(self, values: Any, times: Any, judge: Any) -> None:
        """The share of the window's rows whose values the reference does not have, and of the reference's whose values the window does not have."""
        import numpy as np

        at = np.minimum(np.searchsorted(self.values, values), len(self.values) - 1)
        is_known = self.values[at] == values
        both = self.times.copy()
        both[at[is_known]] += times[is_known]
        rows, new, here = int(times.sum()), int(times[~is_known].sum()), np.zeros(len(both), bool)
        here[at[is_known]] = True
        lost = int(self.times[~here].sum())
        sizes, groups = np.unique(np.append(both, np.ones(new, both.dtype)), return_counts=True)
        together = list(zip(sizes.tolist(), groups.tolist()))
        judge("new", new / rows, None, only_in_one_p(new, rows, self.present, together))
        judge("lost", lost / self.present, None, only_in_one_p(lost, self.present, rows, together))


# Tails of distributions, each the probability of what was seen or more under no change.


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


def _ks_factor(n: int, m: int) -> float:
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


# The command line.


def _load(path: str) -> Dict[str, Any]:
    import numpy as np

    if not os.path.exists(path):
        raise usage("TN0101", f"cannot open '{path}': No such file or directory", "check the path")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise BadInputError(f"TN0113: '{path}' is no npz of arrays: {error} (write it with numpy.savez)", "TN0113", "write it with numpy.savez") from error


def _share(text: str) -> float:
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def _table(report: Dict[str, Any]) -> List[Tuple[str, ...]]:
    rows: List[Tuple[str, ...]] = [("feature", "PSI", "limit", "KS", "limit", "missing", "out of range", "")]
    for each in report["features"]:
        cells = [f"{each[key]:.4f}" if key in each else "–" for key in ("psi", "psi_threshold", "ks", "ks_threshold")]
        shares = [f"{each[key]:.2%}" if key in each else "–" for key in ("missing", "out_of_range")]
        rows.append((each["feature"], *cells, *shares, "drift" if each["drift"] else ""))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser("python -m tenon.drift", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("reference", metavar="REFERENCE.npz", help="an array for each input or output; dim 0 counts the rows")
    parser.add_argument("window", metavar="WINDOW.npz", help="the same arrays of the data to judge")
    parser.add_argument("--false-alarms", type=_share, default=0.01, metavar="SHARE", help="how often unchanged data may be called drift: 1%% by default")
    parser.add_argument("--bins", type=int, default=10, help="of PSI")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    given = parser.parse_args()
    try:
        report = Reference(_load(given.reference), bins=given.bins).compare(_load(given.window), false_alarms=given.false_alarms)
    except Error as error:
        tell(error, given.json)
        return error.code
    if given.json:
        print(json.dumps(report, indent=2))
    else:
        rows = _table(report)
        widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
        for row in rows:
            print("  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip())
        print(f"{report['rows']} rows beside {report['reference_rows']} of the reference: {'drift' if report['drift'] else 'no drift shown'}")
    return 1 if report["drift"] else 0


if __name__ == "__main__":
    sys.exit(main())
