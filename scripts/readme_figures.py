#!/usr/bin/env python3
"""Writes README's table of speeds and its plot, docs/images/speed.svg, from the newest pages of docs/measurements.

    scripts/readme_figures.py            writes them
    scripts/readme_figures.py --check    exits with 1 if they are not what it would write

A page says in its table how many times as fast as its peers Tenon is, a row a case; the newest page of a kind is the last by its name.
"""

import html
import math
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES, README, PLOT = ROOT / "docs/measurements", ROOT / "README.md", ROOT / "docs/images/speed.svg"
BEGIN, END = "<!-- Written by scripts/readme_figures.py. -->\n", "<!-- End of what scripts/readme_figures.py writes. -->\n"

# (what, kind of page, its row of the machine, columns of the case, column of the ratio, against)
KINDS = [
    ("models of torchvision, timm and transformers, FP32, batch 1", "nets-cpu", "machine", ["net"], "better peer / Tenon", "the better of ONNX Runtime 1.32.0 and OpenVINO 2026.4.1"),
    ("models that Python packages ship in their wheels", "real-models", "machine", ["package", "model"], "times", "ONNX Runtime 1.31.1"),
    ("published Python programs, time of a whole call", "programs", "machine", ["program"], "times as fast", "ONNX Runtime 1.31.1"),
    ("models and operators, fp16, batch 1", "nets", "GPU", ["case"], "better peer / Tenon", "PyTorch 2.11.0, the better of a CUDA graph and Inductor"),
    ("BERT, ResNet-50, ViT, Llama-shaped decoding, fp16 and bf16", "h200", "machine", ["case"], "best of all / tenon's", "PyTorch 2.11.0, the best of eager, a CUDA graph and max-autotune"),
]


def newest(kind):
    return sorted(page for page in PAGES.glob("2*.md") if page.stem[11:] == kind)[-1]


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def cases(text, names, column):
    """(case, ratio) of each row of the first table that has these columns; a row without a time has no ratio."""
    lines = iter(text.splitlines())
    head = next(found for line in lines if line.startswith("|") and {*names, column} <= set(found := cells(line)))
    next(lines)
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        row = dict(zip(head, cells(line)))
        if ratio := re.match(r"[\d.]+", row[column]):
            found.append((" ".join(row[name] for name in names), float(ratio[0])))
    return found


def rows():
    for what, kind, machine, names, column, against in KINDS:
        page = newest(kind)
        text = page.read_text()
        for said in re.findall(r"(?:ONNX Runtime|OpenVINO|torch) [\d.]+", against):
            if said not in text:
                sys.exit(f"{page.name} does not say {said}")
        place = re.search(rf"^\| {machine} \| (?:one )?([^,;|(]*)", text, re.M)[1].split(" with ")[0].strip()
        yield what, page, place, against, sorted(cases(text, names, column), key=lambda case: case[1])


def table(all_rows):
    lines = ["| what | machine | compared with | times as fast | worst case | slower in |", "|---|---|---|---|---|---|"]
    for what, page, place, against, found in all_rows:
        ratios = [ratio for _, ratio in found]
        slower = sum(ratio < 1 for ratio in ratios)
        lines.append(f"| [{what}](docs/measurements/{page.name}) | {place} | {against} | {statistics.geometric_mean(ratios):.2f} | {ratios[0]:.2f}: {found[0][0]} | {slower} of {len(ratios)} |")
    return "\n".join(lines) + "\n\n![How many times as fast each case is](docs/images/speed.svg)\n"


WIDTH, LEFT, RIGHT, TOP = 860, 20, 20, 44
LOW, HIGH = 0.25, 16.0
STEP, TALLEST = 5, 22  # pixels between two dots, dots of a pile at most

STYLE = """<style>
.paper { fill: #ffffff } text { fill: #1c2430 } .grid { stroke: #dddddd } .one { stroke: #555555 } .faster { fill: #1a8a4a } .slower { fill: #c4500b }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 } text { fill: #e6ebf2 } .grid { stroke: #30363d } .one { stroke: #a3b0c6 } .faster { fill: #5fc183 } .slower { fill: #f0883e }
}
</style>"""


def across(ratio):
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log(min(max(ratio, LOW), HIGH) / LOW) / math.log(HIGH / LOW)


def dots(found, bottom):
    """A dot for each case, those that would lie on each other in a pile; and the height of the tallest pile."""
    piles, parts = {}, []
    for name, ratio in found:
        slot = round(across(ratio) / STEP)
        piles[slot] = min(piles.get(slot, 0) + 1, TALLEST)
        kind = "faster" if ratio >= 1 else "slower"
        parts.append((STEP * slot, piles[slot], f'r="2.4" class="{kind}"><title>{html.escape(name)}: {ratio:.2f}</title></circle>'))
    height = STEP * max(piles.values())
    return height, [f'<circle cx="{x}" cy="{bottom + height - STEP * level}" {rest}' for x, level, rest in parts]


def plot(all_rows):
    strips, bottom = [], TOP
    for what, _, place, _, found in all_rows:
        strips.append(f'<text x="{LEFT}" y="{bottom}">{html.escape(what)} ({html.escape(place)})</text>')
        height, circles = dots(found, bottom + 14)
        strips += circles
        bottom += height + 36
    grid = []
    for ratio in (0.25, 0.5, 1, 2, 4, 8, 16):
        kind = "one" if ratio == 1 else "grid"
        grid.append(f'<path class="{kind}" d="M{across(ratio):.1f} {TOP - 14}V{bottom - 12}"/>'
                    f'<text x="{across(ratio):.1f}" y="{bottom + 4}" text-anchor="middle">{ratio:g}</text>')
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 12}" font-family="sans-serif" font-size="12">',
            STYLE, f'<rect class="paper" width="{WIDTH}" height="{bottom + 12}"/>',
            f'<text x="{LEFT}" y="18" font-size="14">Times as fast as the peer: each dot is a case</text>']
    return "\n".join([*head, *grid, *strips, "</svg>"]) + "\n"


def main():
    all_rows = list(rows())
    before, rest = README.read_text().split(BEGIN)
    after = rest.split(END)[1]
    written = {README: before + BEGIN + table(all_rows) + END + after, PLOT: plot(all_rows)}
    stale = [path.name for path, text in written.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        if stale:
            sys.exit(f"{' and '.join(stale)}: not what scripts/readme_figures.py writes from the newest pages of measurements: run it")
        return
    for path, text in written.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
