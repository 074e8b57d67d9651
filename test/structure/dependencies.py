"""Proves the dependency rule of docs/explanation/folders.md from three sides: includes, the build graph, the binaries' link tables.

Relies on link-graph.txt written by LinkGraph.cmake; each check is itself tried on a planted violation.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"])
GRAPH = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else BUILD / "link-graph.txt"

# What the code of each top folder may use besides itself. tools, test and cmake see everything.
ALLOWED = {
    "support": set(),
    "engine": {"support"},
    "runtime": {"support", "engine", "include"},
    "edge": set(),
    "compiler": {"support", "engine", "generate", "edge"},
    "generate": {"support", "runtime", "include"},
    "registry": {"support"},
    "server": {"support", "engine", "runtime", "include", "registry", "generate"},
    "bindings": {"support", "engine", "runtime", "include"},
    "examples": {"include", "runtime", "generate"},
    "include": set(),
}
HEAVY = re.compile(r"\b(mlir|llvm|lld)/")
WITHOUT_LLVM = {"support", "edge", "engine", "generate", "registry", "runtime", "server", "bindings", "examples", "include"}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
HEAVY_LIBRARY = re.compile(r"^(MLIR|LLVM|lld|clang|libMLIR|libLLVM|liblld|tenon_mlir)")

RUNTIME_LIMIT = 516 * 1000


def stripped_size(binary):
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, binary], check=True)
        return pathlib.Path(stripped.name).stat().st_size


def source_files(root):
    for top in ALLOWED:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in {".h", ".hpp", ".cpp", ".c", ".inc", ".def"}:
                yield path


def include_faults(root):
    faults = []
    for path in source_files(root):
        place = path.relative_to(root)
        top = place.parts[0]
        for name in INCLUDE.findall(path.read_text()):
            used = "include" if name.startswith("tenon/") else name.split("/")[0]
            is_ours = used in ALLOWED or used == "tools"
            if is_ours and used != top and used not in ALLOWED[top]:
                faults.append(f"{place} includes {name}: {top} must not use {used}")
            if top in WITHOUT_LLVM and HEAVY.match(name):
                faults.append(f"{place} includes {name}: {top} must not use LLVM or MLIR")
    return faults


def read_graph(text):
    graph = {}
    for line in text.splitlines():
        name, folder, *links = line.split()
        graph[name] = (folder.removeprefix("./"), links)
    return graph


def target_of(link):
    """The target inside a generator expression such as $<LINK_ONLY:tenon_engine>, or the name itself."""
    return re.sub(r"^\$<\w+:", "", link).rstrip(">")


def graph_faults(graph):
    faults = []
    for name, (folder, links) in graph.items():
        top = folder.split("/")[0]
        if top not in ALLOWED:
            continue
        for link in map(target_of, links):
            used = graph[link][0].split("/")[0] if link in graph else None
            if used in ALLOWED and used != top and used not in ALLOWED[top]:
                faults.append(f"{name} ({folder}) links {link}: {top} must not use {used}")
            if used == "tools":
                faults.append(f"{name} ({folder}) links {link}: only tools may")
            if top in WITHOUT_LLVM and HEAVY_LIBRARY.match(link):
                faults.append(f"{name} ({folder}) links {link}: {top} must not use LLVM or MLIR")
    return faults


def cycles(graph):
    """Targets on a cycle of the build graph, in order of discovery."""
    done, path, found = set(), [], []

    def visit(name):
        if name in path:
            found.append(" -> ".join(path[path.index(name):] + [name]))
            return
        if name in done:
            return
        path.append(name)
        for link in map(target_of, graph[name][1]):
            if link in graph:
                visit(link)
        path.pop()
        done.add(name)

    for name in graph:
        visit(name)
    return found


def needed(binary):
    text = subprocess.run(["readelf", "-d", str(binary)], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", text)


class Includes(unittest.TestCase):
    def test_tree(self):
        self.assertGreater(len(list(source_files(SOURCE))), 30)
        self.assertEqual([], include_faults(SOURCE))

    def test_planted(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for place, line in {"engine/A.cpp": '#include "runtime/core/Engine.h"',
                                "runtime/core/B.cpp": '#include "compiler/graph/Tn.h"',
                                "support/C.h": '#include <llvm/ADT/StringRef.h>',
                                "compiler/plan/D.cpp": '  #  include "runtime/core/Session.h"',
                                "compiler/plan/Fine.cpp": '#include "engine/Plan.h"'}.items():
                (root / place).parent.mkdir(parents=True, exist_ok=True)
                (root / place).write_text(line + "\n")
            faults = include_faults(root)
            self.assertEqual(4, len(faults), faults)
            self.assertFalse(any("Fine" in fault for fault in faults))


class BuildGraph(unittest.TestCase):
    def setUp(self):
        self.graph = read_graph(GRAPH.read_text())

    def test_tree(self):
        self.assertIn("tenon_support", self.graph)
        self.assertIn("tenon_engine", self.graph)
        self.assertEqual([], graph_faults(self.graph))
        self.assertEqual([], cycles(self.graph))

    def test_planted(self):
        planted = dict(self.graph)
        planted["bad_engine"] = ("engine", ["tenon_runtime"])
        planted["bad_support"] = ("support", ["$<LINK_ONLY:MLIR>"])
        planted["tenon_runtime"] = ("runtime", ["tenon_engine"])
        planted["tenon_fake_compiler"] = ("compiler/plan", ["$<LINK_ONLY:tenon_runtime>"])
        self.assertEqual(3, len(graph_faults(planted)), graph_faults(planted))
        self.assertEqual(["a -> b -> a"], cycles({"a": ("support", ["b"]), "b": ("support", ["a"])}))


class LinkTables(unittest.TestCase):
    def test_runtime_has_no_llvm(self):
        libraries = [path for path in BUILD.rglob("libtenon_runtime.so*") if not path.is_symlink()]
        self.assertTrue(libraries, "libtenon_runtime.so is not built")
        for library in libraries:
            heavy = [name for name in needed(library) if HEAVY_LIBRARY.match(name)]
            self.assertEqual([], heavy, library)

    def test_runtime_is_small(self):
        for library in BUILD.rglob("libtenon_runtime.so"):
            self.assertLessEqual(stripped_size(library), RUNTIME_LIMIT)
        self.assertGreater(stripped_size(shutil.which("mlir-opt-22")), RUNTIME_LIMIT)

    def test_planted(self):
        user_of_mlir = shutil.which("mlir-opt-22")
        self.assertTrue([name for name in needed(user_of_mlir) if HEAVY_LIBRARY.match(name)])


if __name__ == "__main__":
    unittest.main()
