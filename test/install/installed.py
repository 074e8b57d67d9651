"""Installs the build into a prefix, moves that elsewhere and builds the examples against it by the blocks of docs/guides/installing.md.

Relies on the built targets tenon_runtime, tenon_generate_c, tenon_compiler and tenon_launcher, and on onnx for the model of the examples.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy
import onnx
from onnx import TensorProto, helper

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"])
PAGE = (SOURCE / "docs/guides/installing.md").read_text()
# A program that compiles models: the model's path to the number of bytes of its engine.
COMPILES = r"""
#include <stdio.h>
#include <tenon/compiler.h>
int main(int argc, char **argv) {
  tenon_blob engine = {0};
  tenon_status *status = argc > 1 ? tenon_compile_memory(argv[1], NULL, &engine, NULL) : NULL;
  if (status) fprintf(stderr, "%s\n", tenon_status_text(status));
  else printf("%zu\n", engine.bytes);
  return tenon_status_code(status);
}
"""


def compiler_of(language):
    cache = (BUILD / "CMakeCache.txt").read_text()
    return re.search(rf"^CMAKE_{language}_COMPILER:\w+=(.+)$", cache, re.M)[1]


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


def blocks_of(section):
    """The code blocks of a section of the page, as pairs of a kind and text."""
    text = PAGE[PAGE.index(f"## {section}\n") :].split("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", text, re.S)


def absolute_paths(data):
    return re.findall(rb'(?:^|[\s"=;])(/[\w.]+/[^\s"]*)', data)


def write_model(path):
    """x[4, 8] @ w = y[4, 3] with the rows of w 0 to 7; gives the first row of y for the examples' x = {1, 2, 3, 0...}."""
    w = numpy.arange(24, dtype=numpy.float32).reshape(8, 3)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [onnx.numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return w[0] + 2 * w[1] + 3 * w[2]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        cls.staging = cls.root / "staging"
        for arguments, place in (([], "moved"), (["--component", "runtime"], "runtime-only")):
            done = run("cmake", "--install", BUILD, "--prefix", cls.staging, *arguments)
            assert done.returncode == 0, done.stderr
            cls.staging.rename(cls.root / place)
        cls.prefix = cls.root / "moved"

        variables = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        cls.environment = {**variables, "PREFIX": str(cls.prefix), "XDG_CACHE_HOME": str(cls.root / "cache"),
                           "CC": compiler_of("C"), "CXX": compiler_of("CXX")}  # fmt: skip
        cls.work = cls.root / "work"
        cls.work.mkdir()
        for name in ("c_api.c", "cpp_api.cpp", "generate.c"):
            shutil.copy(SOURCE / "examples" / name, cls.work)
        cls.row = write_model(cls.work / "model.onnx")

    def expect(self, *command, **options):
        done = run(*command, cwd=self.work, env=self.environment, **options)
        self.assertEqual(0, done.returncode, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def compile_model(self):
        self.expect(self.prefix / "bin/tenon", "compile", "model.onnx", "-o", "model.tenon", "--quiet")

    def run_section(self, section):
        """Runs what the page shows; both examples must print the first row."""
        self.compile_model()
        printed = ""
        for kind, code in blocks_of(section):
            if kind == "cmake":
                (self.work / "CMakeLists.txt").write_text(code)
            else:
                printed += self.expect("bash", "-ec", 'cc() { "$CC" "$@"; }\nc++() { "$CXX" "$@"; }\n' + code)
        row = " ".join(f"{value:g}" for value in self.row)
        self.assertEqual(2, printed.splitlines().count(row), printed)

    def test_cmake(self):
        self.run_section("With CMake")

    def test_pkg_config(self):
        self.run_section("With pkg-config")

    def find(self, prefix, folder):
        """Configures a project that needs the compiler; gives what CMake said and its build folder."""
        place = self.work / folder
        place.mkdir()
        (place / "compiles.c").write_text(COMPILES)
        (place / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\nproject(compiles C)\nfind_package(Tenon REQUIRED COMPONENTS compiler)\n"
            "add_executable(compiles compiles.c)\ntarget_link_libraries(compiles Tenon::compiler)\n"
            "add_custom_target(model ALL COMMAND Tenon::tenon --version)\n"
        )
        done = run("cmake", "-S", place, "-B", place / "build", f"-DCMAKE_PREFIX_PATH={prefix}", env=self.environment)
        return done, place / "build"

    def test_compiler(self):
        done, build = self.find(self.prefix, "compiler")
        self.assertEqual(0, done.returncode, done.stderr)
        self.expect("cmake", "--build", build)
        self.assertGreater(int(self.expect(build / "compiles", "model.onnx")), 1000)

    def test_runtime_alone(self):
        files = {str(path.relative_to(self.root / "runtime-only")) for path in (self.root / "runtime-only").rglob("*")}
        self.assertLessEqual({"lib/libtenon_runtime.so", "lib/libtenon_generate.so", "include/tenon/generate.h"}, files)
        self.assertFalse([name for name in files if "compiler" in name.lower() or name.startswith("bin")])
        done, _ = self.find(self.root / "runtime-only", "absent")
        self.assertNotEqual(0, done.returncode)
        self.assertIn("install with --component compiler", " ".join(done.stderr.split()))

    def test_names_no_path(self):
        """No file knows where it was built or first installed; what build systems read has no absolute path at all."""
        foreign = [str(path).encode() for path in (SOURCE, BUILD, self.staging)]
        for path in sorted(path for path in self.prefix.rglob("*") if path.is_file()):
            data = path.read_bytes()
            self.assertEqual([], [name for name in foreign if name in data], path)
            if path.suffix in (".cmake", ".pc"):
                self.assertEqual([], absolute_paths(data), path)
        self.assertEqual([b"/opt/tenon"], absolute_paths(b"prefix=/opt/tenon\nlibdir=${prefix}/lib\n"))

    def test_headers_are_all(self):
        headers = {path.name for path in (SOURCE / "include/tenon").iterdir()}
        self.assertEqual(headers, {path.name for path in (self.prefix / "include/tenon").iterdir()})


if __name__ == "__main__":
    unittest.main()
