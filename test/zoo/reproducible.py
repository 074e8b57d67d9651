"""The same model gives the same bytes, whatever surrounds the compiler: threads, time zone, folder, locale, a CUDA toolkit.

Relies on --no-cache going round every stored result. A differing option is the planted fault: it must change the bytes.
"""

import hashlib
import os
import pathlib
import subprocess
import tempfile
import unittest

import expectations

TENON = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "bin/tenon"
TOOLKIT = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDADIR")


def without_toolkit():
    """This environment with nothing in it from which a CUDA toolkit could be found."""
    environment = {key: value for key, value in os.environ.items() if key not in TOOLKIT}
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if not (pathlib.Path(folder) / "nvcc").exists()]
    return dict(environment, PATH=os.pathsep.join(folders))


def with_toolkit(folder):
    """An environment that points at a toolkit, with the files by which compilers recognize one."""
    for name, text in (("bin/nvcc", "#!/bin/sh\n"), ("bin/ptxas", "#!/bin/sh\n"), ("nvvm/libdevice/libdevice.10.bc", "BC"),
                       ("version.json", "{}")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    environment = without_toolkit()
    return dict(environment, PATH=f"{folder / 'bin'}{os.pathsep}{environment['PATH']}", CUDA_HOME=str(folder),
                CUDA_PATH=str(folder))


class Reproducible(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(dir=os.environ["TENON_BUILD_DIR"], prefix="reproducible-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def digest(self, graph, *options, environment=None, cwd=None):
        engine = self.folder / "x.tenon"
        subprocess.run([str(TENON), "compile", str(graph), "-o", str(engine), "--no-cache", "--quiet", *options],
                       check=True, env=environment or without_toolkit(), cwd=cwd or self.folder, timeout=120)
        with open(engine, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def check(self, graph, other_shape):
        elsewhere = self.folder / "another folder"
        elsewhere.mkdir()
        plain = without_toolkit()
        wanted = self.digest(graph, "--threads", "1")
        self.assertEqual(wanted, self.digest(graph, "--threads", "2"))
        moved = dict(plain, TZ="Pacific/Kiritimati", LC_ALL="C", HOME=str(elsewhere), TENON_UNKNOWN="1")
        self.assertEqual(wanted, self.digest(graph, environment=moved, cwd=elsewhere))
        self.assertEqual(wanted, self.digest(graph, environment=with_toolkit(self.folder / "cuda")))
        self.assertEqual(wanted, self.digest(graph, environment=dict(os.environ)))
        self.assertNotEqual(wanted, self.digest(graph, "--shape", other_shape))

    def test_cnn(self):
        self.check(expectations.GRAPHS["fashion_cnn"], "image:3x1x28x28")

    def test_minilm(self):
        self.check(expectations.GRAPHS["minilm_l6.dynamo"], "input_ids:[1..3]x[1..64]")


if __name__ == "__main__":
    unittest.main()
