"""The report of a run as one page of HTML: the graph of steps, and a table of all that ran. Without scripts; every name is escaped."""

from __future__ import annotations

import html
from typing import Any, Dict, List, Tuple

WIDTH, HEIGHT, GAP_X, GAP_Y = 190, 44, 50, 18
STATES = ("failed", "skipped", "done", "cached", "waiting")
STYLE = """
:root { color-scheme: light dark; --paper: #fff; --sheet: #f5f6f9; --ink: #1d2330; --faint: #566074; --line: #c9cedb; --done: #3f8a5b; --cached: #4a76c9; --failed: #d2452d; --skipped: #8a8f9c; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171d; --sheet: #1b1f27; --ink: #e7eaf0; --faint: #a3adbf; --line: #343b49; --done: #63b985; --cached: #6f9be8; --failed: #ff7a62; --skipped: #7b8394; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; }
header { padding: 10px 16px; border-bottom: 1px solid var(--line); background: var(--sheet); }
h1 { font-size: 17px; margin: 0; overflow-wrap: anywhere; } header p { margin: 2px 0 0; color: var(--faint); }
main { padding: 0 16px 40px; } h2 { font-size: 15px; margin: 24px 0 6px; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 3px 14px 3px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: anywhere; unicode-bidi: isolate; } td.number { text-align: right; white-space: nowrap; } pre { margin: 0; white-space: pre-wrap; }
svg text { fill: var(--ink); font-size: 12px; } svg .small { fill: var(--faint); font-size: 11px; }
svg rect { fill: var(--sheet); stroke-width: 2; stroke: var(--line); } svg path { fill: none; stroke: var(--faint); }
.done { color: var(--done); stroke: var(--done); } .cached { color: var(--cached); stroke: var(--cached); }
.failed { color: var(--failed); stroke: var(--failed); } .skipped, .waiting { color: var(--skipped); stroke: var(--skipped); }
""".strip()
_escape = html.escape


def render(report: Dict[str, Any]) -> str:
    head = f"{report['executed']} steps ran, {report['cached']} had their results, {report['failed']} failed, {report['skipped']} were skipped; {report['seconds']:.1f} s"
    rows = "".join(_row(row) for row in report["steps"])
    titles = "".join(f"<th>{each}</th>" for each in ("step", "kind", "state", "seconds", "needs", "options", "figures", "outputs", "place"))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{_escape(report["name"])}</title>
<style>
{STYLE}
</style>
</head>
<body>
<header><h1>{_escape(report["name"])}</h1><p>{_escape(head)}</p></header>
<main>
<h2>Graph</h2>
<div class="scroll">{_drawing(report["steps"])}</div>
<h2>Steps</h2>
<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table></div>
</main>
</body>
</html>
"""


def _row(row: Dict[str, Any]) -> str:
    facts = "; ".join(f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}" for key, value in (row.get("facts") or {}).items())
    options = "; ".join(f"{key}: {value}" for key, value in row["options"].items())
    outputs = "<br>".join(f"{_escape(name)} {each['bytes']:,} B <code>{_escape(each['sha256'][:12])}</code>" for name, each in (row.get("outputs") or {}).items())
    error = f"<pre class=\"failed\">{_escape(row['error'])}\n{_escape(row.get('tail') or '')}</pre>" if row.get("error") else ""
    error += f"<br>{_escape(row['unmet'])}" if row.get("unmet") else ""
    error += f"<br>again: {_escape(row['again'])}" if row.get("again") else ""
    seconds = f"{row['seconds']:.2f}" if "seconds" in row else "–"
    cells = [_escape(row["name"]), _escape(row["step"]), f'<span class="{row["state"]}">{row["state"]}</span>{error}', None, _escape(", ".join(row["needs"])), _escape(options), _escape(facts),
             outputs, _escape(row["where"])]  # fmt: skip
    return "<tr>" + "".join(f'<td class="number">{seconds}</td>' if each is None else f"<td>{each}</td>" for each in cells) + "</tr>\n"


def _groups(rows: List[Dict[str, Any]]) -> Dict[str, Dict[str, Any]]:
    """Steps with the states of their repetitions, and the steps that they need."""
    found: Dict[str, Dict[str, Any]] = {}
    base = {row["name"]: row["base"] for row in rows}
    for row in rows:
        group = found.setdefault(row["base"], {"kind": row["step"], "states": [], "needs": {}, "seconds": 0.0})
        group["states"].append(row["state"])
        group["seconds"] += row.get("seconds") or 0.0
        group["needs"].update({base[name]: True for name in row["needs"]})
    return found


def _drawing(rows: List[Dict[str, Any]]) -> str:
    """Columns by the longest way from a step without needs; the rows are in the order of the steps, which is topological."""
    groups = _groups(rows)
    column: Dict[str, int] = {}
    filled: Dict[int, int] = {}
    place: Dict[str, Tuple[int, int]] = {}
    for name, group in groups.items():
        column[name] = max((column[each] + 1 for each in group["needs"]), default=0)
        line = filled.get(column[name], 0)
        filled[column[name]] = line + 1
        place[name] = (10 + column[name] * (WIDTH + GAP_X), 10 + line * (HEIGHT + GAP_Y))
    lines = [_line(place[each], place[name]) for name, group in groups.items() for each in group["needs"]]
    boxes = [_box(name, group, *place[name]) for name, group in groups.items()]
    width = 20 + (max(filled) + 1) * (WIDTH + GAP_X) - GAP_X
    height = 20 + max(filled.values()) * (HEIGHT + GAP_Y) - GAP_Y
    return f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="the graph of steps">{"".join(lines + boxes)}</svg>'


def _line(start: Tuple[int, int], end: Tuple[int, int]) -> str:
    x, y, to_x, to_y = start[0] + WIDTH, start[1] + HEIGHT // 2, end[0], end[1] + HEIGHT // 2
    return f'<path d="M{x} {y} C{x + GAP_X} {y} {to_x - GAP_X} {to_y} {to_x} {to_y}"/>'


def _box(name: str, group: Dict[str, Any], x: int, y: int) -> str:
    states = group["states"]
    worst = min(states, key=STATES.index)
    title = name if len(name) < 24 else name[:22] + "…"
    counts = ", ".join(f"{states.count(state)} {state}" for state in STATES if state in states) if len(states) > 1 else worst
    return (
        f'<g><title>{_escape(name)}: {_escape(group["kind"])}</title><rect class="{worst}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{x + 10}" y="{y + 18}">{_escape(title)}</text><text class="small" x="{x + 10}" y="{y + 35}">{_escape(counts)}, {group["seconds"]:.1f} s</text></g>'
    )
