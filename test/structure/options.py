"""A field of CompileOptions that the compile cache's key does not know does not compile: tried on a planted one."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
COMPILER = sys.argv.pop(1)
HEADER = "compiler/api/CompileOptions.h"
USER = """
#include "compiler/api/VisitFields.h"
struct Visitor { template <typename T> void operator()(std::string_view, const T &) {} };
void visit(const tenon::pipeline::CompileOptions &options) { tenon::pipeline::visitFields(options, Visitor()); }
"""


def problem(planted):
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder) / HEADER
        header.parent.mkdir(parents=True)
        text, begin = (SOURCE / HEADER).read_text(), "struct CompileOptions {\n"
        assert text.count(begin) == 1
        header.write_text(text.replace(begin, begin + planted))
        command = [COMPILER, "-std=c++20", "-fsyntax-only", "-xc++", "-I", folder, "-I", SOURCE, "-I", SOURCE / "include", "-"]
        return subprocess.run(command, input=USER, capture_output=True, text=True).stderr


class Options(unittest.TestCase):
    def test_every_field_is_visited(self):
        self.assertEqual("", problem(""))

    def test_planted(self):
        self.assertIn("VisitFields.h", problem("  int planted = 0;\n"))


if __name__ == "__main__":
    unittest.main()
