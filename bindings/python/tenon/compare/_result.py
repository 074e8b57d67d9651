"""What a comparison found, and how it is shown."""

from __future__ import annotations

import json
import math
import os
import platform
import random
import statistics
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _plot

SAMPLES = 2000  # of the bootstrap


def relative_error(expected: Optional[Sequence[str]], actual: Sequence[str]) -> Tuple[Optional[float], str]:
    """The largest difference of an output, relative to its largest element, of outputs in files; or None and why."""
    import numpy as np

    if expected is None:
        return None, "there is no reference"
    if len(expected) != len(actual):
        return math.inf, f"{len(actual)} outputs where there are {len(expected)}"
    largest = 0.0
    for one, other in zip(expected, actual):
        reference, value = np.load(one), np.load(other)
        if reference.shape != value.shape:
            return math.inf, f"an output has shape {list(value.shape)} where it is {list(reference.shape)}"
        reference, value = reference.astype(float), value.astype(float)
        same = (reference == value) | (np.isnan(reference) & np.isnan(value))
        with np.errstate(invalid="ignore"):
            difference = np.where(same, 0, np.abs(reference - value)).max(initial=0)
        scale = np.abs(reference[np.isfinite(reference)]).max(initial=0)
        # Division by nothing, and what only one of both has as NaN, are no small errors.
        largest = max(largest, math.inf if math.isnan(difference) or (difference and not scale) else difference / (scale or 1))
    return largest, ""


def break_even(cost: float, latency: float, other_cost: float, other_latency: float) -> Optional[int]:
    """After how many runs the first contender's total time is at most the other's; None if it is not ahead in the long run.

    cost: seconds until the first result. latency: seconds of a run.
    """
    if latency >= other_latency:
        return 0 if latency == other_latency and cost <= other_cost else None
    return max(0, math.ceil((cost - other_cost) / (other_latency - latency)))


def summary(rounds: Sequence[Sequence[float]]) -> Dict[str, float]:
    """Each quantile is the median over rounds of the rounds' own, so that a round in which the machine was busy weighs as one."""
    ninetieth = statistics.median(sorted(round)[int(0.9 * (len(round) - 1))] for round in rounds)
    return {"median_ms": median_of_rounds(rounds) * 1e3, "p90_ms": ninetieth * 1e3, "min_ms": min(map(min, rounds)) * 1e3,
            "runs": sum(map(len, rounds))}  # fmt: skip


def median_of_rounds(rounds: Sequence[Sequence[float]]) -> float:
    return statistics.median(map(statistics.median, rounds))


def paired_ratio(rounds: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> Dict[str, Any]:
    """The quotient of both medians as `summary` gives them, with the 95 % interval of a bootstrap that draws rounds, the same of both."""
    pairs = [(statistics.median(one), statistics.median(other)) for one, other in zip(rounds, others)]
    generator = random.Random(0)
    ratios = sorted(_quotient(generator.choices(pairs, k=len(pairs))) for _ in range(SAMPLES))
    low, high = ratios[int(0.025 * SAMPLES)], ratios[int(0.975 * SAMPLES)]
    return {"ratio": _quotient(pairs), "low": low, "high": high, "differs": not low <= 1 <= high}


def _quotient(pairs: Sequence[Tuple[float, float]]) -> float:
    return statistics.median(one for one, _ in pairs) / statistics.median(other for _, other in pairs)


class Comparison:
    """Rows in the order of the request, Tenon first; `baseline` is the contender that break-even refers to."""

    def __init__(self, model: str, device: str, threads: int, reference: str, rows: List[Dict[str, Any]]):
        self.model, self.device, self.threads, self.reference = model, device, threads, reference
        ran = {row["name"]: row for row in rows if row["state"] == "ran"}
        others = [name for name in ran if name != "tenon"]
        self.baseline = "eager" if "eager" in ran else others[0] if others else None
        self.rows = [self._described(row, ran) for row in rows]

    def _described(self, row: Dict[str, Any], ran: Dict[str, Dict[str, Any]]) -> Dict[str, Any]:
        if row["state"] != "ran":
            return row
        times = summary(row["rounds"])
        described = {key: value for key, value in row.items() if key != "rounds"}
        described.update(times, throughput=row["batch"] / times["median_ms"] * 1e3)
        if "tenon" in ran and row["name"] != "tenon":
            described["to_tenon"] = paired_ratio(row["rounds"], ran["tenon"]["rounds"])
        if self.baseline and row["name"] != self.baseline:
            base = ran[self.baseline]
            described["break_even"] = break_even(
                row["compile_s"] + row["first_s"], times["median_ms"] / 1e3,
                base["compile_s"] + base["first_s"], summary(base["rounds"])["median_ms"] / 1e3,
            )  # fmt: skip
        return described

    def failures(self) -> List[Dict[str, Any]]:
        return [row for row in self.rows if row["state"] == "failed"]

    def machine(self) -> Dict[str, Any]:
        return {"cpu": _cpu_name(), "gpu": _gpu_name() if self.device == "cuda" else None, "threads": self.threads,
                "load": round(os.getloadavg()[0], 2), "python": platform.python_version()}  # fmt: skip

    def data(self) -> Dict[str, Any]:
        return {"schema": "tenon.compare/1", "model": self.model, "device": self.device, "machine": self.machine(),
                "reference": self.reference, "baseline": self.baseline, "contenders": self.rows}  # fmt: skip

    def json(self) -> str:
        return json.dumps(_finite(self.data()), indent=1, allow_nan=False)

    def svg(self) -> str:
        """Total time against the number of runs, one line per contender."""
        return _plot.draw(self.rows, self.model, self.baseline)

    def table(self) -> str:
        machine = self.machine()
        where = f"{machine['gpu']}, " if machine["gpu"] else ""
        lines = [f"{self.model} on {where}{machine['cpu']}, {self.threads} threads, load {machine['load']}",
                 f"errors against {self.reference}, of the largest element; break-even against {self.baseline}", "",
                 f"{'':13}{'compile':>10}{'first run':>11}{'median':>11}{'p90':>11}{'a second':>11}{'memory':>11}{'error':>9}"
                 f"{'to Tenon':>35}{'pays after':>12}"]  # fmt: skip
        for row in self.rows:
            lines.append(self._line(row) if row["state"] == "ran" else f"{row['name']:13}{row['state']}: {row['reason']}")
        versions = {key: value for row in self.rows for key, value in row.get("versions", {}).items() if key != "mode"}
        return "\n".join([*lines, "", ", ".join(f"{name} {version}" for name, version in versions.items())])

    def _line(self, row: Dict[str, Any]) -> str:
        ratio = row.get("to_tenon")
        paired = f"{_ratio_text(ratio)} ({ratio['low']:.2f}..{ratio['high']:.2f})" if ratio else ""
        pays = "" if "break_even" not in row else "never" if row["break_even"] is None else f"{row['break_even']} runs"
        error = "?" if row["error"] is None else f"{row['error']:.0e}"
        return (f"{row['name']:13}{row['compile_s']:>8.2f} s{row['first_s'] * 1e3:>8.1f} ms{row['median_ms']:>8.3f} ms"
                f"{row['p90_ms']:>8.3f} ms{row['throughput']:>11.1f}{row['peak_mib']:>7.0f} MiB{error:>9}{paired:>35}{pays:>12}"
                + (f"  {row['reason']}" if row["reason"] else ""))  # fmt: skip

    def save(self, path: str) -> None:
        """Writes the format of the name's suffix: .json, .svg, or .txt for the table."""
        form = {".json": self.json, ".svg": self.svg}.get(os.path.splitext(path)[1], self.table)
        with open(path, "w", encoding="utf-8") as file:
            file.write(form())

    def __repr__(self) -> str:
        return self.table()

    def _repr_svg_(self) -> str:
        return self.svg()


def _ratio_text(ratio: Dict[str, Any]) -> str:
    return f"{ratio['ratio']:.2f}" if ratio["differs"] else "no difference shown"


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _cpu_name() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "an unknown CPU")


def _gpu_name() -> str:
    try:
        import torch

        return torch.cuda.get_device_name()
    except (ImportError, RuntimeError):
        return "an unknown GPU"
