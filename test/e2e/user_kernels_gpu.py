"""Kernels of the user's for GPUs, without a GPU: compiled by `tenon compile`, checked and run on the stand-in of the driver, which
interprets PTX. The kernels are those of examples/kernels, as nvcc and Triton made them.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"])
EXAMPLES = SOURCE / "examples/kernels"
COMPILER = shutil.which("cc") or shutil.which("clang-22")
STAND_IN = BUILD / "test/unit/runtime/stand_in"


class UserKernels(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        for file in EXAMPLES.iterdir():
            shutil.copy(file, self.folder)

    def tenon(self, *arguments, gpu=True):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache"), "LD_LIBRARY_PATH": str(STAND_IN) if gpu else ""}
        return subprocess.run([BUILD / "bin/tenon", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True)

    def compile(self, library="vector_add.ptx", *more, gpu=True, model="add_model.onnx"):
        return self.tenon("compile", model, "-o", "add.tenon", "--target", "cuda:sm_80", "--kernel-library", library, *more, gpu=gpu)

    def reason(self, node="add"):
        told = self.tenon("explain", "kernels", "add.tenon", node)
        self.assertEqual(0, told.returncode, told.stderr)
        return told.stdout

    def edit(self, change, name="vector_add"):
        """The description of the first kernel, changed."""
        path = self.folder / f"{name}.json"
        description = json.loads(path.read_text())
        change(description["kernels"][0])
        path.write_text(json.dumps(description))

    def edit_ptx(self, old, new):
        path = self.folder / "vector_add.ptx"
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new))

    def assert_refused(self, number, *words, done=None):
        done = done or self.compile()
        self.assertNotIn(done.returncode, (0, 70), done.stdout + done.stderr)
        self.assertIn(f"error {number}: ", done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse((self.folder / "add.tenon").exists())

    def check_run(self, count):
        a, b = np.arange(count, dtype=np.float32), np.linspace(-3, 5, count, dtype=np.float32)
        np.savez(self.folder / "in.npz", a=a, b=b)
        ran = self.tenon("run", "add.tenon", "--inputs", "in.npz", "-o", "out.npz")
        self.assertEqual(0, ran.returncode, ran.stderr)
        with np.load(self.folder / "out.npz") as out:
            np.testing.assert_array_equal(out["c"], (a.astype(np.float64) + 0.5 * b).astype(np.float32))

    def test_cuda_and_triton_kernels_are_checked_and_run(self):
        for library in ("vector_add.ptx", "vector_add_triton.ptx"):
            done = self.compile(library)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertIn("checked beside vector_add.onnx at 4 sets of sizes", self.reason())
            for count in (1, 256, 1500):
                self.check_run(count)

    def test_without_a_gpu_the_engine_says_that_nothing_was_checked(self):
        done = self.compile(gpu=False)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("not checked: this machine has no NVIDIA GPU", done.stderr)
        self.assertIn("not checked: this machine has no NVIDIA GPU", self.reason())
        self.check_run(300)

    def test_the_page_runs_as_it_stands(self):
        page = (SOURCE / "docs/guides/kernels-gpu.md").read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```\n+(?:```text\n(.*?)^```)?", page, re.M | re.S)
        self.assertTrue(blocks)
        environment = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.folder / "cache"), "LD_LIBRARY_PATH": ""}
        for code, shown in blocks:
            done = subprocess.run(["bash", "-ec", code], cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(0, done.returncode, done.stdout)
            printed = [line.strip() for line in done.stdout.splitlines()]
            for line in shown.splitlines():
                self.assertTrue(line == "..." or line.strip() in printed, f"{line}\n{done.stdout}")

    def test_grids_and_blocks_of_two_dimensions(self):
        shutil.copy(SOURCE / "test/data/kernels/transpose.ptx", self.folder)
        names = ["rows", "columns"]
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", names), ("y", names[::-1]))]
        for file, node in (("reference", helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])), ("model", helper.make_node("turn", ["x"], ["y"], domain="example"))):
            graph = helper.make_graph([node], "g", ports[:1], ports[1:])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("example", 1)], ir_version=8), self.folder / f"{file}.onnx")
        kernel = {
            "operator": "example::turn", "backend": "cuda", "symbol": "transpose", "reference": "reference.onnx",
            "inputs": [{"name": "x", "type": "f32", "shape": names}], "outputs": [{"name": "y", "type": "f32", "shape": names[::-1]}],
            "arguments": ["x", "y", *names], "grid": ["ceil(columns / 32)", "ceil(rows / 32)"], "block": [32, 8],
        }  # fmt: skip
        (self.folder / "transpose.json").write_text(json.dumps({"schema": "tenon.kernels/1", "kernels": [kernel]}))
        done = self.compile("transpose.ptx", model="model.onnx")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("checked beside reference.onnx", self.reason("y"))
        x = np.arange(70 * 45, dtype=np.float32).reshape(70, 45)
        np.save(self.folder / "x.npy", x)
        ran = self.tenon("run", "add.tenon", "--inputs", "x.npy", "-o", "y.npy")
        self.assertEqual(0, ran.returncode, ran.stderr)
        np.testing.assert_array_equal(np.load(self.folder / "y.npy"), x.T)

    @unittest.skipUnless(COMPILER, "this machine has no C compiler")
    def test_a_function_in_c_is_the_reference_and_an_attribute_a_list(self):
        source = "void plain(const float *a, const float *b, float *c, int64_t n, float alpha) { for (int64_t i = 0; i < n; ++i) c[i] = a[i] + alpha * b[i]; }"
        (self.folder / "plain.c").write_text(f"#include <stdint.h>\n{source}\n")
        subprocess.run([COMPILER, "-O2", "-fPIC", "-c", "plain.c"], check=True, cwd=self.folder)
        model = onnx.load(self.folder / "add_model.onnx")
        model.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("alphas", [3.0, 0.5]))
        onnx.save(model, self.folder / "list.onnx")
        self.edit(lambda kernel: kernel.update(attributes={"alphas": {"type": "f32", "count": 2}}, arguments=["a", "b", "c", "n", "alphas[1]"], reference={"symbol": "plain", "library": "plain.o"}))
        done = self.compile(model="list.onnx")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("checked beside plain of plain.o at 4 sets of sizes", self.reason())
        self.check_run(700)
        self.edit_ptx("fma.rn.f32 \t%f4, %f2, %f1, %f3;", "fma.rn.f32 \t%f4, %f3, %f1, %f2;")
        (self.folder / "add.tenon").unlink()
        self.assert_refused("TN0409", "output 'c'", done=self.compile(model="list.onnx"))

    def test_a_grid_that_does_not_cover_is_found(self):
        self.edit(lambda kernel: kernel.update(grid=["floor(n / 256)"]))
        self.assert_refused("TN0411", "does not write element [0] of output 'c'")

    def test_a_write_behind_the_end_is_found(self):
        self.edit_ptx("@%p1 bra \t$L__BB0_2;", "")
        self.assert_refused("TN0410", "it writes 0 bytes behind the end of 'c'")

    def test_a_wild_write_is_found(self):
        self.edit_ptx("add.s64 \t%rd10, %rd9, %rd5;", "mov.u64 \t%rd10, 4096;")
        self.assert_refused("TN0410", "the GPU finds an access outside its memory")

    def test_a_write_to_an_input_is_found(self):
        self.edit_ptx("cvta.to.global.u64 \t%rd9, %rd3;", "cvta.to.global.u64 \t%rd9, %rd2;")
        self.assert_refused("TN0410", "of 'b', which it must not write")

    def test_wrong_results_are_found(self):
        self.edit_ptx("fma.rn.f32 \t%f4, %f2, %f1, %f3;", "fma.rn.f32 \t%f4, %f3, %f1, %f2;")
        self.assert_refused("TN0409", "output 'c'")

    def test_a_missing_symbol_lists_the_entries(self):
        self.edit(lambda kernel: kernel.update(symbol="vectoradd"))
        self.assert_refused("TN0307", "it has no kernel 'vectoradd'; it has vector_add")

    def test_a_description_that_differs_from_the_ptx_is_refused(self):
        self.edit(lambda kernel: kernel.update(arguments=["a", "b", "c", "n"]))
        self.assert_refused("TN0306", "takes 5 parameters, 'arguments' has 4")
        self.edit(lambda kernel: kernel.update(arguments=["a", "b", "c", "alpha", "a"]))
        self.assert_refused("TN0306", "parameter 5")
        self.edit(lambda kernel: kernel.update(block=[256]), "vector_add_triton")
        self.assert_refused("TN0306", "is compiled for blocks of 128 threads, 'block' has 256", done=self.compile("vector_add_triton.ptx"))

    def test_blocks_and_shared_memory_have_limits(self):
        self.edit(lambda kernel: kernel.update(block=[64, 32]))
        self.assert_refused("TN0306", "block")
        self.edit(lambda kernel: kernel.update(block=[256], scratch_bytes=300000))
        self.assert_refused("TN0306", "needs 300000 bytes of shared memory a block")

    def test_ptx_for_a_newer_architecture_is_refused(self):
        self.edit_ptx(".target sm_80", ".target sm_90")
        self.assert_refused("TN0307", "it is for sm_90, the engine for sm_80")


if __name__ == "__main__":
    unittest.main()
