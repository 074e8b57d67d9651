"""Operators of torch.library with kernels of the user's: in programs of torch.export and through torch.compile. Runs with a Python that
has torch: see in_wheel.py. Kernels for GPUs run on the stand-in of the driver.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import tenon
import torch

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"])
COMPILER = shutil.which("cc") or shutil.which("clang-22")


def example():
    """examples/kernels/vector_add.py, which defines example::vector_add."""
    spec = importlib.util.spec_from_file_location("vector_add_example", SOURCE / "examples/kernels/vector_add.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TorchLibrary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        for file in (SOURCE / "examples/kernels").iterdir():
            shutil.copy(file, cls.folder)
        cls.example = example()
        cls.inputs = (torch.arange(1000.0), torch.linspace(-3, 5, 1000))
        cls.wanted = torch.add(*cls.inputs, alpha=0.5)

    def object_file(self):
        if not COMPILER:
            self.skipTest("this machine has no C compiler")
        subprocess.run([COMPILER, "-O2", "-fPIC", "-c", "vector_add.c"], check=True, cwd=self.folder)
        return str(self.folder / "vector_add.o")

    def exported(self):
        size = torch.export.Dim("n", min=1, max=4096)
        return torch.export.export(self.example.Add().eval(), self.inputs, dynamic_shapes=({0: size}, {0: size}))

    def test_a_program_of_torch_export(self):
        engine = tenon.compile(self.exported(), kernel_libraries=[self.object_file()])
        torch.testing.assert_close(engine(*self.inputs), self.wanted)
        self.assertEqual(7, len(engine(*(tensor[:7] for tensor in self.inputs))))

    def test_torch_compile(self):
        compiled = self.example.compiled(self.object_file())
        with torch.inference_mode():
            torch.testing.assert_close(compiled(*self.inputs), self.wanted)
            large = tuple(tensor.repeat(100) for tensor in self.inputs)  # more than a free dim has by default
            torch.testing.assert_close(compiled(*large), torch.add(*large, alpha=0.5))
            torch._dynamo.reset()
            torch.testing.assert_close(self.example.compiled(self.object_file())(*large), torch.add(*large, alpha=0.5))

    def test_without_a_kernel_the_operator_is_named(self):
        with self.assertRaises(tenon.UnsupportedError) as caught:
            tenon.compile(self.exported())
        self.assertIn("example.vector_add", str(caught.exception))

    def test_a_program_on_a_gpu(self):
        torch.export.save(self.exported(), self.folder / "add.pt2")
        tool = pathlib.Path(tenon.__file__).parent / "bin/tenon"
        environment = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "test/unit/runtime/stand_in")}
        for library in ("vector_add.ptx", "vector_add_triton.ptx"):
            done = subprocess.run(
                [tool, "compile", "add.pt2", "-o", "add.tenon", "--target", "cuda:sm_80", "--kernel-library", library], cwd=self.folder, env=environment, capture_output=True, text=True
            )
            self.assertEqual(0, done.returncode, done.stderr)
            told = subprocess.run([tool, "explain", "kernels", "add.tenon", "vector_add"], cwd=self.folder, env=environment, capture_output=True, text=True)
            self.assertIn("checked beside vector_add.onnx", told.stdout)

    def test_faults_on_a_gpu_leave_this_process_its_own(self):
        torch.export.save(self.exported(), self.folder / "add.pt2")
        ptx = self.folder / "vector_add.ptx"
        right = ptx.read_text()
        ptx.write_text(right.replace("add.s64 \t%rd10, %rd9, %rd5;", "mov.u64 \t%rd10, 4096;"))
        self.assertNotEqual(right, ptx.read_text())
        (self.folder / "right.ptx").write_text(right)
        program = """
import numpy, tenon
kernel = dict(target="cuda:sm_80", kernel_libraries=["vector_add.ptx"])
try:
    tenon.compile("add.pt2", **kernel)
except tenon.Error as error:
    assert "finds an access outside its memory" in str(error), error
else:
    raise SystemExit("no fault was found")
assert "libtenon_fake_cuda" not in open("/proc/self/maps").read(), "the kernel ran in this process"
open("vector_add.ptx", "w").write(open("right.ptx").read())
engine = tenon.compile("add.pt2", **kernel)
a, b = numpy.arange(300, dtype=numpy.float32), numpy.ones(300, dtype=numpy.float32)
numpy.testing.assert_array_equal(engine(a, b), a + 0.5)
"""
        environment = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "test/unit/runtime/stand_in")}
        done = subprocess.run([sys.executable, "-c", program], cwd=self.folder, env=environment, capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)


if __name__ == "__main__":
    unittest.main()
