"""Proves which room may include which: the folders one level below those of the top, and the rooms of the folders in GROUPS.

Relies on rooms.txt, a line a room with the rooms that it uses, and on git for the list of files. Rooms of one folder have no cycle but those of CYCLES, which may only
shrink. Each check is tried on a planted fault.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
TABLE = SOURCE / "test/structure/rooms.txt"
# Folders whose own folders are rooms; files that lie in one directly are its room ".".
GROUPS = ["support", "engine", "runtime", "runtime/device", "compiler", "compiler/frontend", "compiler/codegen", "compiler/codegen/common", "compiler/codegen/cpu",
          "compiler/codegen/cuda", "compiler/graph", "compiler/opt", "server", "registry", "tools", "tools/tenon"]
# Rooms of a group that include each other, directly or not.
CYCLES = {
    "support": [{".", "memory"}],
    "engine": [{".", "code", "codec", "validate"}],
    "compiler/codegen/cuda": [{"pointwise", "rows"}],
    "compiler/graph": [{".", "infer"}],
}
# Rooms of tools/tenon that know the command line; the others are libraries, which the C interface calls too.
COMMAND_LINE = {".", "cli", "registry", "verbs"}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
CODE = {".h", ".hpp", ".cpp", ".c", ".inc", ".def"}


def included():
    """[(file, file that it includes)] of the tree."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files"], check=True, capture_output=True, text=True).stdout
    files = [pathlib.PurePath(line) for line in listed.splitlines() if pathlib.PurePath(line).suffix in CODE and (SOURCE / line).exists()]
    return [(str(file), used) for file in files for used in INCLUDE.findall((SOURCE / file).read_text())]


def room_of(group, path):
    """The room of `group` that a file lies in; None for files elsewhere."""
    if not path.startswith(group + "/"):
        return None
    room, inner, _ = path[len(group) + 1:].partition("/")
    return room if inner else "."


def edges_of(group, pairs):
    """{room: {room that it uses: a file that does}}"""
    edges = collections.defaultdict(dict)
    for file, used in pairs:
        user, other = room_of(group, file), room_of(group, used)
        if user and other and user != other:
            edges[user].setdefault(other, f"{file} includes {used}")
    return edges


def cycles_of(edges):
    """The sets of rooms that lead to each other."""
    def reached(start):
        seen, waiting = set(), [start]
        while waiting:
            for room in edges.get(waiting.pop(), ()):
                if room not in seen:
                    seen.add(room)
                    waiting.append(room)
        return seen
    leads = {room: reached(room) for room in edges}
    return {frozenset(other for other in leads[room] if room in leads.get(other, ())) for room in edges if room in leads[room]}


def command_line_faults(pairs):
    return [f"{file} includes {used}: only {', '.join(sorted(COMMAND_LINE))} of tools/tenon know the command line" for file, used in pairs
            if room_of("tools/tenon", file) not in {None, *COMMAND_LINE} and (used.startswith("CLI/") or room_of("tools/tenon", used) == "cli")]


def read_table(text):
    """{group: {room: [rooms that it may use]}}"""
    table, group = {}, None
    for line in text.splitlines():
        if line.startswith("["):
            group = line.strip("[]")
            table[group] = {}
        elif line and not line.startswith("#"):
            room, _, used = line.partition(":")
            table[group][room] = used.split()
    return table


def written(edges):
    """The table as rooms.txt has it."""
    lines = ["# Which room may include which: test/structure/rooms.py. `python3 test/structure/rooms.py --write` writes what is; a review of its diff is the rule."]
    for group in GROUPS:
        lines += ["", f"[{group}]"] + [f"{room}: {' '.join(sorted(edges[group][room]))}" for room in sorted(edges[group])]
    return "\n".join(lines) + "\n"


def table_faults(table, edges):
    faults = []
    for group in GROUPS:
        allowed = table.get(group, {})
        for room, others in sorted(edges[group].items()):
            faults += [f"{why}: {group}: {room} may not use {other}; move what both need below both, or, where the direction is right, add it to rooms.txt"
                       for other, why in sorted(others.items()) if other not in allowed.get(room, [])]
        faults += [f"rooms.txt: {group}: {room} does not use {other} any more: remove it there"
                   for room, others in sorted(allowed.items()) for other in others if other not in edges[group].get(room, {})]
    return faults


def cycle_faults(known, edges):
    faults = []
    for group in GROUPS:
        found, listed = cycles_of(edges[group]), {frozenset(rooms) for rooms in known.get(group, [])}
        faults += [f"{group}: {', '.join(sorted(rooms))} include each other" for rooms in found if not any(rooms <= other for other in listed)]
        faults += [f"{group}: {', '.join(sorted(rooms))} do not all include each other any more: shorten CYCLES" for rooms in listed - found]
    return faults


class Rooms(unittest.TestCase):
    def setUp(self):
        pairs = included()
        self.edges = {group: edges_of(group, pairs) for group in GROUPS}
        self.assertEqual([], command_line_faults(pairs))

    def test_tree(self):
        self.assertGreater(sum(len(edges) for edges in self.edges.values()), 60)
        self.assertEqual([], table_faults(read_table(TABLE.read_text()), self.edges))
        self.assertEqual([], cycle_faults(CYCLES, self.edges))

    def test_planted(self):
        pairs = [("compiler/opt/layout/A.cpp", "compiler/opt/simplify/B.h"), ("compiler/opt/simplify/C.cpp", "compiler/opt/D.h"), ("compiler/opt/D.cpp", "compiler/opt/layout/A.h")]
        edges = {group: edges_of(group, pairs) for group in GROUPS}
        self.assertEqual({"layout": {"simplify"}, "simplify": {"."}, ".": {"layout"}}, {room: set(used) for room, used in edges["compiler/opt"].items()})
        cycle = [{".", "layout", "simplify"}]
        self.assertEqual(1, len(cycle_faults({}, edges)))
        self.assertEqual([], cycle_faults({"compiler/opt": cycle}, edges))
        self.assertEqual(2, len(cycle_faults({"compiler/opt": [{"layout", "products"}]}, edges)))
        self.assertEqual([], table_faults(read_table(written(edges)), edges))
        self.assertEqual(2, len(command_line_faults([("tools/tenon/bench/A.cpp", "CLI/CLI.hpp"), ("tools/tenon/bench/B.h", "tools/tenon/cli/Terminal.h"),
                                                     ("tools/tenon/verbs/C.cpp", "CLI/CLI.hpp"), ("tools/tenon/bench/D.cpp", "tools/tenon/print/Format.h")])))
        table = read_table(written(edges).replace("layout: simplify", "layout: recognize"))
        self.assertEqual(2, len(table_faults(table, edges)))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        found = included()
        TABLE.write_text(written({group: edges_of(group, found) for group in GROUPS}))
    else:
        unittest.main()
