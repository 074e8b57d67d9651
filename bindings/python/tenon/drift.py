"""Whether the data of today are those of the reference: PSI, KS, missing values and values out of range, with thresholds that follow from sample sizes.

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
MOST_VALUES = 20  # of a feature whose bins are its values
# How the allowed false alarms are shared out among the statistics of a feature. One of few values has no KS, whose distribution is for continuous ones.
SHARES = {"psi": 0.45, "ks": 0.45, "missing": 0.05, "out_of_range": 0.05}
SHARES_OF_VALUES = {"psi": 0.9, "missing": 0.05, "out_of_range": 0.05}


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
        self._columns = _checked(arrays, "the reference")
        self._features = {name: _Feature(column, bins) for name, column in self._columns.items()}
        few = [name for name, column in self._columns.items() if len(column) < LEAST_ROWS]
        if few:
            raise BadInputError(f"TN0113: the reference has {len(self._columns[few[0]])} rows (give at least {LEAST_ROWS})", "TN0113", f"give at least {LEAST_ROWS}")

    def compare(self, arrays: Mapping[str, Any], *, false_alarms: float = 0.01) -> Dict[str, Any]:
        """What a window says: {"drift", "rows", "features": [{"feature", "drift", "psi", "psi_threshold", ...}]}, the schema `tenon.drift/1`.

        false_alarms: how often a window of unchanged data may be called drift, all features together: a feature's share is the
        k-th part of it (Bonferroni), so thresholds are known before the window is. A window of fewer than 30 rows has no PSI and KS.
        """
        if not 0 < false_alarms < 1:
            raise usage("TN0105", f"a share of false alarms of {false_alarms}", "give one between 0 and 1: 0.01")
        columns = _checked(arrays, "the window")
        for name in self._columns:
            if name not in columns:
                raise BadInputError(f"TN0113: the window lacks '{name}', which the reference has (give the same arrays)", "TN0113", "give the same arrays")
            if (columns[name].dtype.kind in "US") != (self._columns[name].dtype.kind in "US"):
                raise BadInputError(f"TN0113: '{name}' is text in one and numbers in the other (give the same types)", "TN0113", "give the same types")
        share = false_alarms / len(self._features)
        found = [{"feature": name, **feature.compare(columns[name], share)} for name, feature in self._features.items()]
        return {"schema": "tenon.drift/1", "drift": any(each["drift"] for each in found), "false_alarms": false_alarms,
                "rows": max(len(column) for column in columns.values()), "reference_rows": max(len(column) for column in self._columns.values()),
                "features": found}  # fmt: skip


def _checked(arrays: Mapping[str, Any], what: str) -> Dict[str, Any]:
    import numpy as np

    columns: Dict[str, Any] = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        if array.dtype.kind not in "fiubUS" or array.ndim == 0 or array.size == 0:
            problem = "has no rows" if array.ndim and array.size == 0 else f"is of type {array.dtype} with {array.ndim} dims"
            raise BadInputError(f"TN0113: '{name}' of {what} {problem} (give numbers or text, a row for each sample)", "TN0113", "give numbers or text, a row for each sample")
        columns.update(feature_columns(name, array))
    if not columns:
        raise BadInputError(f"TN0113: {what} has no arrays (give a file with an array for each input)", "TN0113", "give a file with an array for each input")
    return columns


class _Feature:
    """One column of the reference: its bins, and its sorted values where these are numbers."""

    def __init__(self, column: Any, bins: int):
        import numpy as np

        self.rows, self.is_text = len(column), column.dtype.kind in "US"
        present = column if self.is_text else column[~np.isnan(column.astype(np.float64))]
        self.present = len(present)
        values, counts = np.unique(present, return_counts=True)
        self.values, self.edges = None, None
        if self.is_text or len(values) <= MOST_VALUES:
            self.values = values[counts >= max(1.0, LEAST_SHARE * self.present)]
        else:
            # Edges between values, so that a value that is frequent lies in one bin.
            self.edges = np.unique(np.quantile(present.astype(np.float64), np.arange(1, bins) / bins, method="lower"))
        self.sorted = None if self.is_text else np.sort(present.astype(np.float64))
        self.counts = self.count(present)

    def count(self, present: Any) -> Any:
        """Rows in each bin: of each value with one of its own and of all others; or up to each edge and above."""
        import numpy as np

        if self.values is not None:
            own = np.array([np.count_nonzero(present == value) for value in self.values], np.int64)
            return np.append(own, len(present) - own.sum())
        return np.bincount(np.searchsorted(self.edges, present, side="left"), minlength=len(self.edges) + 1)

    def compare(self, column: Any, share: float) -> Dict[str, Any]:
        import numpy as np

        present = column if self.is_text else column[~np.isnan(column.astype(np.float64))]
        if not self.is_text:
            present = present.astype(np.float64)
        missing = len(column) - len(present)
        found: Dict[str, Any] = {"rows": len(column), "drift": False}

        shares = SHARES if self.values is None else SHARES_OF_VALUES

        def judge(name: str, value: float, threshold: Optional[float], p_value: float) -> None:
            found.update({name: value, f"{name}_p": p_value, **({f"{name}_threshold": threshold} if threshold is not None else {})})
            found["drift"] |= p_value < share * shares[name]

        judge("missing", missing / len(column), None, more_often(missing, len(column), self.rows - self.present, self.rows))
        if len(present) == 0 or self.present == 0:
            return found
        if self.sorted is not None:
            outside = int(np.count_nonzero((present < self.sorted[0]) | (present > self.sorted[-1])))
            judge("out_of_range", outside / len(present), None, outside_p(outside, len(present), self.present))
        if min(len(present), self.present) < LEAST_ROWS:
            return found
        counts = self.count(present)
        used = (counts + self.counts) > 0
        freedom = int(used.sum()) - 1
        unit = 1 / len(present) + 1 / self.present
        value = psi(self.counts[used], counts[used])
        judge("psi", value, unit * chi2_quantile(share * shares["psi"], freedom) if freedom else 0.0, chi2_tail(value / unit, freedom) if freedom else 1.0)
        if "ks" in shares:
            value, factor = ks(self.sorted, present), _ks_factor(len(present), self.present)
            judge("ks", value, kolmogorov_quantile(share * shares["ks"]) / factor, kolmogorov_tail(value * factor))
        return found


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


def more_often(count: int, rows: int, reference_count: int, reference_rows: int) -> float:
    """P(so many or more of `rows` have a property), given how many of all have it: Fisher's exact test, one side."""
    having, everything = count + reference_count, rows + reference_rows
    if count == 0:
        return 1.0

    def log_choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

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
