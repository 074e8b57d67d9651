#!/usr/bin/env python3
"""Draws docs/explanation/architecture.svg: the folders of docs/explanation/folders.md in layers, arrows by the `#include` lines of their files.

    scripts/architecture.py            writes the picture
    scripts/architecture.py --check    exits with 1 if it is not what it would write

A folder stands above those that it includes. An arrow that follows from others is left out. Relies on git for the list of
files and on includes that have no cycle but within a folder of the first level.
"""

import collections
import html
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/explanation/architecture.svg"
PANELS = ["tools", "bindings", "examples", "compiler", "server", "registry", "runtime", "include", "engine", "support"]
# Python opens the libraries by ctypes: it includes no header, but follows them.
WITHOUT_INCLUDES = [("bindings", "include")]
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)

BOX, LETTERS, LINE, MARGIN, GAP, ROW_GAP, TITLE = 186, 27, 15, 12, 16, 36, 44


def descriptions():
    """{folder: what it holds} of the map, without Markdown."""
    rows = re.findall(r"^\| `([^`]+)/` \| (.*) \|$", (ROOT / "docs/explanation/folders.md").read_text(), re.M)
    return {name: text.replace("`", "") for name, text in rows}


def included():
    """Pairs (folder of the file, folder of what it includes), folders with all their parts."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], check=True, capture_output=True, text=True).stdout
    pairs = set()
    for name in listed.splitlines():
        path = ROOT / name
        if path.suffix in {".h", ".hpp", ".cpp", ".c", ".inc", ".def"} and path.exists():
            for used in INCLUDE.findall(path.read_text()):
                used = f"include/{used}" if used.startswith("tenon/") else used
                pairs.add((name.rpartition("/")[0], used.rpartition("/")[0]))
    return pairs | set(WITHOUT_INCLUDES)


def at_depth(pairs, names, depth):
    """The pairs between the folders `names`, which have `depth` parts."""
    cut = {("/".join(user.split("/")[:depth]), "/".join(used.split("/")[:depth])) for user, used in pairs}
    return {(user, used) for user, used in cut if user != used and user in names and used in names}


def reachable(names, edges):
    """{name: all that it leads to}."""
    next_of = collections.defaultdict(set)
    for user, used in edges:
        next_of[user].add(used)
    result = {}
    for name in names:
        found, open_names = set(), [name]
        while open_names:
            for used in next_of[open_names.pop()] - found:
                found.add(used)
                open_names.append(used)
        result[name] = found
    return result


def reduced(names, edges):
    """The edges without those on a cycle and without those that follow from others."""
    reach = reachable(names, edges)
    kept = {(user, used) for user, used in edges if user not in reach[used]}
    reach = reachable(names, kept)
    follows = {(a, c) for a, c in kept for b in reach[a] if b != c and c in reach[b]}
    return kept - follows


def layers_of(names, edges):
    """{name: layer}, 0 at the bottom: one below the lowest of its users; whom nobody uses stands on top."""
    reach = reachable(names, edges)
    height = {}
    for name in sorted(names, key=lambda name: len(reach[name])):
        height[name] = max((height[used] + 1 for user, used in edges if user == name), default=0)
    layer = {}
    for name in sorted(names, key=lambda name: -len([other for other in names if name in reach[other]]), reverse=True):
        users = [layer[user] for user, used in edges if used == name]
        layer[name] = min(users) - 1 if users else max(height.values())
    return layer


class Drawing:
    """Boxes in layers from top to bottom; edges over several layers pass between boxes of those on their way."""

    def __init__(self, sizes, edges):
        """sizes: {name: (width, height)}; edges: reduced pairs of names."""
        self.sizes = dict(sizes)
        layer = layers_of(list(sizes), edges)
        self.paths = {}
        for user, used in sorted(edges):
            way = [user]
            for middle in range(layer[user] - 1, layer[used], -1):
                bend = f"{user}>{used}@{middle}"
                self.sizes[bend], layer[bend] = (2, 0), middle
                way.append(bend)
            self.paths[user, used] = [*way, used]
        self.rows = [[name for name in self.sizes if layer[name] == height] for height in range(max(layer.values()), -1, -1)]
        self.order()
        self.place()

    def neighbours(self, name):
        steps = [step for way in self.paths.values() for step in zip(way, way[1:])]
        return [above for above, below in steps if below == name], [below for above, below in steps if above == name]

    def order(self):
        """Rows in the order of the mean place of what they are connected with, downwards and upwards in turn."""
        for sweep in range(8):
            downwards = sweep % 2 == 0
            rows = self.rows if downwards else self.rows[::-1]
            for fixed, row in zip(rows, rows[1:]):
                place = {name: (index + 0.5) / len(fixed) for index, name in enumerate(fixed)}
                own = {name: (index + 0.5) / len(row) for index, name in enumerate(row)}

                def mean(name):
                    near = [place[other] for other in self.neighbours(name)[0 if downwards else 1]]
                    return sum(near) / len(near) if near else own[name]

                row.sort(key=mean)

    def place(self):
        """Each row in the middle; x and y are of the upper left corner."""
        widths = [sum(self.sizes[name][0] for name in row) + GAP * (len(row) - 1) for row in self.rows]
        self.width, self.at, y = max(widths), {}, 0
        for row, width in zip(self.rows, widths):
            # Wide rows keep their gaps; what is left over in others goes between their boxes.
            spare = (self.width - width) / (len(row) + 1)
            x = spare
            for name in row:
                self.at[name] = (round(x), y)
                x += self.sizes[name][0] + GAP + spare
            y += max(self.sizes[name][1] for name in row) + ROW_GAP
        self.height = y - ROW_GAP
        self.row_end = {name: self.at[name][1] + max(self.sizes[other][1] for other in row) for row in self.rows for name in row}

    def middle(self, name):
        return self.at[name][0] + self.sizes[name][0] / 2

    def lines(self, dx, dy):
        """Each edge as SVG, moved by (dx, dy)."""
        for way in self.paths.values():
            path = ""
            for upper, lower in zip(way, way[1:]):
                x, bottom = self.middle(upper) + dx, self.row_end[upper] + dy
                path += f" V{bottom}" if path else f"M{x:g},{self.at[upper][1] + self.sizes[upper][1] + dy} V{bottom}"
                end_x, end_y = self.middle(lower) + dx, self.at[lower][1] + dy
                half = (bottom + end_y) / 2
                path += f" C{x:g},{half:g} {end_x:g},{half:g} {end_x:g},{end_y}"
            yield f'<path class="arrow" d="{path}"/>'


def label(name, text, x, y, letters):
    """A folder's name and description as SVG, from the upper left corner of its box on."""
    lines = textwrap.wrap(text, letters)
    spans = "".join(f'<tspan x="{x}" dy="{LINE}">{html.escape(line, quote=False)}</tspan>' for line in lines)
    return f'<text x="{x}" y="{y}"><tspan class="name">{name}/</tspan>{spans}</text>'


class Panel:
    """A folder of the first level with those of the second in it."""

    def __init__(self, name, about, pairs):
        self.name, self.about = name, about[name]
        inner = [folder for folder in about if folder.count("/") == 1 and folder.startswith(name + "/")]
        inner = inner if len(inner) > 2 else []
        self.labels = {folder: about[folder] for folder in inner}
        sizes = {folder: (BOX, 30 + LINE * len(textwrap.wrap(about[folder], LETTERS))) for folder in inner}
        self.inner = Drawing(sizes, reduced(inner, at_depth(pairs, inner, 2))) if inner else None
        width = max(self.inner.width + 2 * MARGIN if inner else 0, 230)
        self.letters = int((width - 2 * MARGIN) / 6.6)
        self.title = 28 + LINE * len(textwrap.wrap(self.about, self.letters))
        self.size = (width, self.title + MARGIN + (self.inner.height + MARGIN if inner else 0))

    def svg(self, x, y):
        width, height = self.size
        yield f'<rect class="panel" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
        yield label(self.name, self.about, x + MARGIN, y + 22, self.letters)
        if not self.inner:
            return
        dx, dy = x + (width - self.inner.width) // 2, y + self.title + MARGIN
        for folder, text in self.labels.items():
            (left, top), (box_width, box_height) = self.inner.at[folder], self.inner.sizes[folder]
            yield f'<rect class="box" x="{left + dx}" y="{top + dy}" width="{box_width}" height="{box_height}" rx="5"/>'
            yield label(folder.split("/")[1], text, left + dx + 8, top + dy + 18, LETTERS)
        yield from self.inner.lines(dx, dy)


STYLE = """\
text { font: 11.5px "DejaVu Sans", Verdana, sans-serif; fill: #344054 }
.name { font-weight: bold; font-size: 13px; fill: #101828 }
.panel { fill: #f2f5fa; stroke: #98a2b3 }
.box { fill: #fff; stroke: #c3cad5 }
.arrow { fill: none; stroke: #667085; stroke-width: 1.3; marker-end: url(#tip) }"""


def picture():
    about, pairs = descriptions(), included()
    panels = {name: Panel(name, about, pairs) for name in PANELS}
    drawing = Drawing({name: panel.size for name, panel in panels.items()}, reduced(PANELS, at_depth(pairs, PANELS, 1)))
    width, height = drawing.width + 2 * GAP, drawing.height + TITLE + GAP
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
             "<!-- Written by scripts/architecture.py. -->", f"<style>\n{STYLE}\n</style>",
             '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
             '<path d="M0,0 L8,4 L0,8 z" fill="#667085"/></marker></defs>',
             f'<rect width="{width}" height="{height}" fill="#fff"/>',
             f'<text x="{GAP}" y="26">An arrow: uses headers of. Those that follow from others are left out, and test/, which sees everything.</text>']  # fmt: skip
    for name, panel in panels.items():
        x, y = drawing.at[name]
        lines += panel.svg(x + GAP, y + TITLE)
    lines += drawing.lines(GAP, TITLE)
    return "\n".join([*lines, "</svg>", ""])


def main():
    if "--check" not in sys.argv:
        PICTURE.write_text(picture())
    elif not PICTURE.exists() or PICTURE.read_text() != picture():
        sys.exit("docs/explanation/architecture.svg: draw it anew with scripts/architecture.py")


if __name__ == "__main__":
    main()
