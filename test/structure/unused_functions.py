"""Holds that somebody uses each function that a header declares: its name stands elsewhere than in declarations and definitions.

Relies on names, so that one of several functions of a name may be unused unnoticed. Tests count as users.
"""

import collections
import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
CHECKED = ("compiler", "engine", "registry", "runtime", "server", "support", "tools")
USERS = (*CHECKED, "bindings", "examples", "include", "test")
# Called by who is none of the project's sources.
CALLED_FROM_OUTSIDE = {"fromJSON": "llvm::json", "to_json": "nlohmann::json", "from_json": "nlohmann::json",
                       "matchAndRewrite": "mlir's pattern drivers"}

WORD = re.compile(r"[A-Za-z_]\w*")
# A type, perhaps qualifiers of the name, the name, its parameters.
DECLARED = re.compile(r"(\w+|[\w>*]>|\])\s+[*&]*(?:\w+::)*([a-z]\w*)\s*\(")
NOT_TYPES = {"return", "else", "throw", "new", "delete", "case", "not", "and", "or", "co_return", "co_await", "operator", "define", "if"}


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def declared(text):
    """Names in the order in which functions are declared or defined; calls have no type before them."""
    return [name for before, name in DECLARED.findall(text) if before not in NOT_TYPES]


def unused(files):
    """`files`: path to text. Names of functions with the headers that declare them."""
    headers, declarations, all_names = {}, collections.Counter(), collections.Counter()
    for path, text in files.items():
        text = without_comments(text)
        names = declared(text)
        declarations.update(names)
        all_names.update(WORD.findall(text))
        if path.endswith(".h") and path.startswith(CHECKED):
            headers |= {name: path for name in names}
    return sorted(f"{path}: {name}" for name, path in headers.items()
                  if all_names[name] <= declarations[name] and name not in CALLED_FROM_OUTSIDE)


class UnusedFunctions(unittest.TestCase):
    def test_sources(self):
        files = {str(path.relative_to(SOURCE)): path.read_text(errors="replace") for folder in USERS
                 for path in (SOURCE / folder).rglob("*") if path.suffix in (".cpp", ".h", ".hpp", ".c", ".td", ".py", ".in")}
        self.assertGreater(len(files), 1000)
        self.assertEqual([], unused(files))

    def test_planted(self):
        header = "/// As `lost`.\nint used(int x);\nstd::vector<int> lost(int x);\nstruct S {\n  bool isSeen() const { return seen; }\n  bool seen;\n};\n"
        source = "int used(int x) { return x; }\nstd::vector<int> lost(int x) { return {used(x)}; }\nint y = S().isSeen();\n"
        self.assertEqual(["engine/A.h: lost"], unused({"engine/A.h": header, "engine/A.cpp": source}))
        self.assertEqual([], unused({"engine/A.h": header, "engine/A.cpp": source, "test/T.cpp": "int z = lost(1)[0];"}))
        self.assertEqual(["engine/A.h: isSeen"],
                         unused({"engine/A.h": header, "engine/A.cpp": source.replace("isSeen", "seen") + "auto z = lost;"}))


if __name__ == "__main__":
    unittest.main()
