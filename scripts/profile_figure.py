#!/usr/bin/env python3
"""Draws where the time of an engine's slowest kernels on a GPU goes, as an SVG.

    tenon profile model.tenon --json > profile.json && scripts/profile_figure.py profile.json -o profile.svg
    tenon explain kernels model.tenon --json --all > kernels.json && scripts/profile_figure.py kernels.json -o kernels.svg

Of a profile the bars are measured times, divided by the cost model's parts; of `explain kernels` they are predictions, and the figure says so.
Kernels that are alike (the layers of an encoder) are one bar.
"""

import argparse
import html
import json
import pathlib

WIDTH, LEFT, BAR, GAP, TOP = 760, 250, 22, 14, 54
COLORS = {"products": "#2f6f9f", "loads": "#4f9bc4", "memory": "#7bb8d4", "bytes": "#7bb8d4", "cache": "#a6cfe0", "depth": "#1d4f74",
          "arithmetic": "#2f6f9f", "start": "#d9822b", "fill": "#e6a35c", "waits": "#efc48f", "idle": "#b0413e", "split": "#8a5a83",
          "epilogue": "#6b8e4e", "out": "#9cb380", "softmax": "#57755b", "few-bytes": "#c9b458", "beyond-model": "#999999"}
OTHER = "#bbbbbb"


def kernels_of(record):
    """(what it is, how many, microseconds of one, parts of one) of each kind of kernel; microseconds of all; whether they were measured."""
    measured = record["schema"].startswith("tenon.profile")
    kinds, total = {}, 0
    for region in record["regions"]:
        if measured:
            parts, us = region["gpu"]["parts"] if region["gpu"] else [], region["time_us"]
            operations = [record["operators"][index]["kind"] for index in region["operators"]]
        else:
            chosen = next((row for row in region["candidates"] if row["verdict"] == "chosen"), {})
            parts, us, operations = chosen.get("time", {}).get("parts", []), region["cost"]["us"], [name.removeprefix("tn.") for name in region["operations"]]
        total += us
        key = (region["kernel"].split("{")[0], tuple(operations), round(region["cost"]["work"]) if not measured else round(region["flops"]))
        count, times, _ = kinds.get(key, (0, 0, []))
        kinds[key] = (count + 1, times + us, parts)
    rows = [(f"{'+'.join(dict.fromkeys(operations))}, {family}", count, times / count, parts) for (family, operations, _), (count, times, parts) in kinds.items()]
    return sorted(rows, key=lambda row: -row[1] * row[2]), total, measured


def scaled(us, parts):
    """Parts that together are `us`: less than predicted scales them, more is a part of its own."""
    predicted = sum(part["us"] for part in parts)
    factor = min(us / predicted, 1) if predicted else 1
    rows = [(part["part"], part["us"] * factor) for part in parts]
    rest = us - sum(time for _, time in rows)
    return rows + [("beyond-model" if parts else "not divided", rest)] if rest > 0.005 * us else rows


def figure(record, title, top):
    rows, total, measured = kernels_of(record)
    rows = rows[:top]
    longest = max(us for _, _, us, _ in rows)
    height = TOP + len(rows) * (BAR + GAP) + 46
    label = "measured, divided by the cost model" if measured else "predicted by the cost model, not measured"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="10" y="20" font-size="15">{html.escape(title)}</text>',
           f'<text x="10" y="38" fill="#555">{len(rows)} slowest kinds of kernels, microseconds of one; {label}</text>']
    seen = {}
    for index, (name, count, us, parts) in enumerate(rows):
        y, x = TOP + index * (BAR + GAP), LEFT
        text = name if len(name) <= 34 else name[:33] + "…"
        out += [f'<text x="{LEFT - 8}" y="{y + 10}" text-anchor="end">{html.escape(text)}</text>',
                f'<text x="{LEFT - 8}" y="{y + 23}" text-anchor="end" fill="#777" font-size="10">{count} of them, {count * us / total:.1%} of a run</text>']
        for part, time in scaled(us, parts):
            width = time / longest * (WIDTH - LEFT - 70)
            color = seen.setdefault(part, COLORS.get(part, OTHER))
            out.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{color}"><title>{part} {time:.2f} us</title></rect>')
            x += width
        out.append(f'<text x="{x + 6:.1f}" y="{y + 15}">{us:.2f}</text>')
    x, y = 10, height - 14
    for part, color in seen.items():
        out += [f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{color}"/>', f'<text x="{x + 16}" y="{y}">{part}</text>']
        x += 30 + 7 * len(part)
    return "\n".join([*out, "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", help="JSON of tenon profile, or of tenon explain kernels")
    parser.add_argument("-o", "--output", required=True, help="the SVG")
    parser.add_argument("--title", default="Where the time goes", help="a line above")
    parser.add_argument("--top", type=int, default=5, help="kinds of kernels")
    options = parser.parse_args()
    record = json.loads(pathlib.Path(options.record).read_text())
    pathlib.Path(options.output).write_text(figure(record, options.title, options.top))


if __name__ == "__main__":
    main()
