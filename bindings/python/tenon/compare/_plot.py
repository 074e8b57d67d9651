"""The whole time of each contender against the number of runs, as SVG: where lines cross, compiling has paid."""

from __future__ import annotations

import math
from html import escape
from typing import Any, Dict, List, Optional, Sequence

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 40, 50
COLOURS = ["#0b62c4", "#c4500b", "#1a8a4a", "#8a1a7c", "#6b6b6b", "#b00020", "#7a6a00"]
POINTS = 120  # of a line


class Axis:
    """Powers of ten between two values, on pixels."""

    def __init__(self, low: float, high: float, start: float, end: float):
        self.low, self.high = math.floor(math.log10(low)), max(math.ceil(math.log10(high)), math.floor(math.log10(low)) + 1)
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> List[int]:
        return list(range(self.low, self.high + 1))


def draw(rows: Sequence[Dict[str, Any]], title: str, baseline: Optional[str]) -> str:
    ran = [row for row in rows if row["state"] == "ran"]
    costs = [(row["compile_s"] + row["first_s"], row["median_ms"] / 1e3) for row in ran]
    most = _most_runs(ran, costs)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}: seconds until so many results</text>']  # fmt: skip
    if ran:
        x = Axis(1, most, LEFT, WIDTH - RIGHT)
        whole = [cost + latency * runs for cost, latency in costs for runs in (0, 10**x.high)]
        y = Axis(max(min(whole), 1e-6), max(whole), HEIGHT - BOTTOM, TOP)
        parts += _grid(x, y)
        # The legend stands beside the lines' right ends and in their order.
        ends = [cost + latency * 10**x.high for cost, latency in costs]
        places = sorted(range(len(ran)), key=lambda index: -ends[index])
        for index, (row, (cost, latency)) in enumerate(zip(ran, costs)):
            parts += _line(row, cost, latency, x, y, COLOURS[index % len(COLOURS)], places.index(index), baseline)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _most_runs(ran: Sequence[Dict[str, Any]], costs: Sequence[Any]) -> float:
    """So many that every crossing shows, and runs outweigh what came before."""
    crossings = [row["break_even"] for row in ran if row.get("break_even")]
    balance = [cost / latency for cost, latency in costs if latency > 0]
    return min(max([100.0, *(2.0 * crossing for crossing in crossings), *(2.0 * runs for runs in balance)]), 1e9)


def _grid(x: Axis, y: Axis) -> List[str]:
    parts = []
    for power in x.ticks():
        at = x.at(10.0**power)
        parts.append(f'<path d="M{at:.1f} {y.start}V{y.end}" stroke="#ddd"/><text x="{at:.1f}" y="{y.start + 18}" text-anchor="middle">{_number(power)}</text>')
    for power in y.ticks():
        at = y.at(10.0**power)
        parts.append(f'<path d="M{x.start} {at:.1f}H{x.end}" stroke="#ddd"/><text x="{x.start - 6}" y="{at + 4:.1f}" text-anchor="end">{_number(power)} s</text>')
    middle = (x.start + x.end) / 2
    return [*parts, f'<text x="{middle}" y="{y.start + 38}" text-anchor="middle">runs</text>']


def _number(power: int) -> str:
    return f"{10**power:,}" if 0 <= power <= 6 else f"{10.0**power:g}"


def _line(row, cost: float, latency: float, x: Axis, y: Axis, colour: str, place: int, baseline: Optional[str]) -> List[str]:
    points = []
    for step in range(POINTS + 1):
        runs = 10 ** (x.low + (x.high - x.low) * step / POINTS)
        points.append(f"{x.at(runs):.1f},{y.at(cost + latency * runs):.1f}")
    last = float(points[-1].split(",")[1])
    parts = [f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>',
             f'<text x="{WIDTH - RIGHT + 8}" y="{TOP + 16 * place + 10}" fill="{colour}">{escape(row["name"])} {row["median_ms"]:.3g} ms</text>',
             f'<circle cx="{x.end}" cy="{last}" r="3" fill="{colour}"/>']  # fmt: skip
    if row.get("break_even") and row["break_even"] <= 10**x.high:
        at, height = x.at(row["break_even"]), y.at(cost + latency * row["break_even"])
        parts.append(f'<circle cx="{at:.1f}" cy="{height:.1f}" r="5" fill="white" stroke="{colour}" stroke-width="2">'
                     f'<title>{escape(row["name"])} pays after {row["break_even"]} runs against {escape(baseline or "")}</title></circle>')  # fmt: skip
    return parts
