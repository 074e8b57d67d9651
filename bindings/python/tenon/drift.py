"""Whether today's data is still like the reference: PSI, KS, new, lost and missing values and values out of range, with thresholds that follow from sample sizes.

    reference = tenon.drift.Reference({"image": calibration})
    report = reference.compare({"image": todays})
    report["drift"], report["features"][0]["psi"]

    python -m tenon.drift REFERENCE.npz WINDOW.npz --json

Needs only NumPy, except `with_outputs`. Statistics are about features: the elements of a sample, or its summary figures if there are many elements (`feature_columns`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import zipfile
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ._distributions import chi2_quantile, chi2_tail, kolmogorov_quantile, kolmogorov_tail, ks, ks_factor, more_often, only_in_one_p, outside_p, psi
from ._errors import BadInputError, Error, tell, usage

__all__ = ["Reference", "feature_columns", "ks", "psi", "with_outputs"]

MOST_COLUMNS = 64
LEAST_ROWS = 30  # below, the distributions of PSI and KS are not those that thresholds follow from
LEAST_SHARE = 0.05  # of the reference, for a value to have a bin of its own
LEAST_OWN_ROWS = 20  # the same: one of fewer is likely to be among the frequent ones by chance, so that windows have less of it
LEAST_GROUP = 0.1  # of the reference, for neighbours among the rarer values to have one together
MOST_VALUES = 20  # of a feature whose bins are its values
# How the allowed false alarms are shared out among the statistics of a feature. One of few values has no KS, whose distribution is for continuous ones; one
# whose values do not come again has no new and lost ones.
SHARES = {"psi": 0.45, "ks": 0.45, "missing": 0.05, "out_of_range": 0.05}
SHARES_OF_REPEATED = {"psi": 0.35, "ks": 0.35, "new": 0.1, "lost": 0.1, "missing": 0.05, "out_of_range": 0.05}
SHARES_OF_VALUES = {"psi": 0.7, "new": 0.1, "lost": 0.1, "missing": 0.05, "out_of_range": 0.05}


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
    """The data to compare windows with. Read-only once created, so threads may share one.

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
        """Compares a window: {"drift", "rows", "features": [{"feature", "drift", "psi", "psi_threshold", ...}]}, the schema `tenon.drift/1`.

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
            is_own = self.times >= max(LEAST_OWN_ROWS, LEAST_SHARE * self.present)
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
            value, factor = ks(self.sorted, present), ks_factor(len(present), self.present)
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


def with_outputs(engine: Any, arrays: Mapping[str, Any], *, batch: int = 64) -> Dict[str, Any]:
    """The arrays with an engine's outputs for them, so that a reference covers both requests and answers.

    engine: a `tenon.Engine`, or the path of one. arrays: its inputs by name, dim 0 counts the rows; others, such as labels, stay as they are.
    batch: rows per run, if the engine takes that many.
    """
    import numpy as np

    import tenon

    engine = engine if isinstance(engine, tenon.Engine) else tenon.load(engine)
    names = [port.name for port in engine.inputs]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise BadInputError(f"TN0113: the arrays lack the input '{missing[0]}' (give one for each input)", "TN0113", "give one for each input")
    data = {port.name: np.asarray(arrays[port.name]).astype(getattr(np, port.dtype, None) or np.asarray(arrays[port.name]).dtype, copy=False) for port in engine.inputs}
    rows = len(data[names[0]])
    sizes = [port.shape[0] if isinstance(port.shape[0], tuple) else (port.shape[0], port.shape[0]) for port in engine.inputs if port.shape]
    least, batch = max(low for low, _ in sizes), min([batch, *(high for _, high in sizes)])
    found: Dict[str, List[Any]] = {}
    for start in range(0, rows, batch):
        part = {name: values[start : start + batch] for name, values in data.items()}
        count = len(part[names[0]])
        short = max(0, least - count)
        if short:  # the last rows of an engine of a fixed size: the last one stands for those that are missing
            part = {name: np.concatenate([values, np.repeat(values[-1:], short, 0)]) for name, values in part.items()}
        for name, values in engine.run(part).items():
            if values.ndim == 0 or len(values) != count + short:
                raise BadInputError(f"TN0113: the output '{name}' has no row for each of the inputs (it cannot be watched)", "TN0113", "it cannot be watched")
            found.setdefault(name, []).append(values[:count])
    return {**arrays, **{name: np.concatenate(values) for name, values in found.items()}}


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
    rows: List[Tuple[str, ...]] = [("feature", "PSI", "limit", "KS", "limit", "new", "lost", "missing", "out of range", "")]
    for each in report["features"]:
        cells = [f"{each[key]:.4f}" if key in each else "–" for key in ("psi", "psi_threshold", "ks", "ks_threshold")]
        shares = [f"{each[key]:.2%}" if key in each else "–" for key in ("new", "lost", "missing", "out_of_range")]
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
