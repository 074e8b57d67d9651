"""Nothing is lost: what may not become an output is refused before any work, and what cannot be printed is an error.

Relies on scratch nodes in the test's own folder: no device of the machine is ever named as an output.
"""

import itertools
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from tool import CNN, TENON, ToolTest, tiny_model

# What writes a file, and what it reads on the way.
WRITERS = {
    "compile": (["compile", "model.onnx", "--no-cache", "-o"], ["model.onnx"]),
    "compile through the cache": (["compile", "model.onnx", "-o"], ["model.onnx"]),
    "compile to a phase": (["compile", "model.onnx", "--stop-after", "import", "-o"], ["model.onnx"]),
    "compile with weights apart": (["compile", "apart.onnx", "-o"], ["apart.onnx", "apart.data"]),
    "compile a dump": (["compile", "dump/0-import.mlir", "-o"], ["dump/0-import.mlir", "dump/weights/w"]),
    "run an engine": (["run", "model.tenon", "--inputs", "x.npz", "-o"], ["model.tenon", "x.npz"]),
    "run a model": (["run", "model.onnx", "--inputs", "image=x.npy", "-o"], ["model.onnx", "x.npy"]),
    "run with weights apart": (["run", "apart.onnx", "-o"], ["apart.onnx", "apart.data"]),
    "run on a picture": (["run", "model.tenon", "--inputs", "picture.png", "--mean", "0", "--std", "1", "--layout",
                          "nchw", "-o"], ["model.tenon", "picture.png"]),
}
# What prints a result.
PRINTERS = [["doctor"], ["inspect", "model.onnx"], ["inspect", "model.tenon"], ["check", "model.onnx"],
            ["check", "model.tenon"], ["run", "model.tenon"], ["bench", "model.tenon", "--runs", 1],
            ["explain", "fusion", "model.tenon"], ["help", "TN0301"], ["help", "compile"]]


class Folder(ToolTest):
    own_cache = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(tiny_model(), cls.folder / "model.onnx")
        onnx.save(tiny_model(), cls.folder / "apart.onnx", save_as_external_data=True, location="apart.data",
                  size_threshold=0)
        cls.succeed("compile", "model.onnx", "-o", "model.tenon", "--target", "cpu:avx2", "--dump-phases", "dump")
        image = np.ones((1, 3, 8, 8), np.float32)
        np.savez(cls.folder / "x.npz", image=image)
        np.save(cls.folder / "x.npy", image)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(cls.folder / "picture.png")

    def contents(self):
        return {path: path.read_bytes() for path in self.folder.rglob("*")
                if path.is_file() and "cache" not in path.parts}


class Inputs(Folder):
    def spellings(self, name):
        """The file itself by other names, made in a folder that goes away with the test."""
        names = self.folder / "names"
        shutil.rmtree(names, ignore_errors=True)
        names.mkdir()
        (names / "link").symlink_to(self.folder / name)
        (names / "chain").symlink_to("link")
        os.link(self.folder / name, names / "hard")
        return [name, f"./{name}", self.folder / name, f"names/../{name}", "names/link", "names/chain", "names/hard"]

    def test_an_input_is_no_output(self):
        for (what, (command, inputs)) in WRITERS.items():
            for name in inputs:
                spellings = self.spellings(name)
                before = self.contents()
                # All spellings once, then two for each of the others: what decides is the same.
                for output in spellings if what.startswith("run a") else (spellings[0], spellings[-1]):
                    done = self.call(*command, output)
                    self.assertEqual(2, done.returncode, (what, output, done.stderr))
                    self.assertIn("error TN0111: ", done.stderr)
                    self.assertIn(name.split("/")[-1], done.stderr)
                self.assertEqual(before, self.contents(), what)

    def test_dumps(self):
        before = self.contents()
        self.refuse(2, "TN0112", "compile", "model.onnx", "-o", "dumps", "--dump-phases", "./dumps")
        self.refuse(2, "TN0112", "compile", "model.onnx", "-o", "o.tenon", "--dump-phases", "model.onnx")
        (self.folder / "weights").mkdir()
        self.addCleanup(shutil.rmtree, self.folder / "weights")
        onnx.save(tiny_model(), self.folder / "inside.onnx", save_as_external_data=True, location="weights/w",
                  size_threshold=0)
        self.addCleanup((self.folder / "inside.onnx").unlink)
        inside = (self.folder / "weights/w").read_bytes()
        self.refuse(2, "TN0111", "compile", "inside.onnx", "-o", "o.tenon", "--dump-phases", ".")
        self.assertEqual(inside, (self.folder / "weights/w").read_bytes())
        self.assertEqual(before, {path: bytes for path, bytes in self.contents().items() if path in before})
        self.assertFalse((self.folder / "o.tenon").exists())


class Nodes(Folder):
    def make(self, kind):
        path = self.folder / f"a {kind}"
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "socket":
            server = socket.socket(socket.AF_UNIX)
            self.addCleanup(server.close)
            here = os.getcwd()
            os.chdir(self.folder)  # names of sockets are short
            server.bind(path.name)
            os.chdir(here)
        elif kind == "folder":
            path.mkdir()
        else:
            try:
                os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
            except PermissionError:
                return None
        self.addCleanup(shutil.rmtree if kind == "folder" else os.unlink, path)
        return path

    def test_only_files_are_outputs(self):
        for kind in ("fifo", "socket", "folder", "device"):
            path = self.make(kind)
            if not path:
                continue
            link = self.folder / "link to it"
            link.symlink_to(path)
            mode = path.stat().st_mode
            for (what, (command, _)), output in itertools.product(WRITERS.items(), (path, link)):
                if output == link and what != "run an engine":
                    continue
                done = self.call(*command, output, timeout=20)
                self.assertEqual(2, done.returncode, (what, kind, done.stderr))
                self.assertIn("error TN0112: ", done.stderr)
                self.assertEqual(mode, path.stat().st_mode)
            link.unlink()

    def test_what_cannot_be_made(self):
        for output, exit_code, error in (("no/such/folder/o", 6, "TN0103"), ("x.npz/o", 6, "TN0103"),
                                         ("new/", 2, "TN0112"), ("n" * 300, 6, "TN0103")):
            for writer in ("compile", "run an engine"):
                self.refuse(exit_code, error, *WRITERS[writer][0], output)
        for writer in WRITERS.values():
            self.refuse(2, "TN0105", *writer[0], "")

    def test_the_target_of_a_link_is_replaced(self):
        target, link, dangling = (self.folder / name for name in ("target.npz", "link.npz", "dangling.npz"))
        target.write_text("old")
        target.chmod(0o640)
        link.symlink_to("target.npz")
        dangling.symlink_to("made.npz")
        self.succeed("run", "model.tenon", "-o", link)
        self.succeed("run", "model.tenon", "-o", dangling)
        self.assertTrue(link.is_symlink() and dangling.is_symlink())
        self.assertIn("features", np.load(target))
        self.assertEqual(0o640, stat.S_IMODE(target.stat().st_mode))
        self.assertIn("features", np.load(self.folder / "made.npz"))
        self.assertFalse([path for path in self.folder.iterdir() if ".tmp" in path.name])

    def test_an_interrupt_leaves_nothing(self):
        place = self.folder / "place"
        place.mkdir()
        interrupted = 0
        for delay in (0.05, 0.2, 0.4):
            with subprocess.Popen([str(TENON), "compile", str(CNN), "-o", str(place / "o.tenon"), "--no-cache",
                                   "--verify"], env=self.environment, stderr=subprocess.DEVNULL) as process:
                time.sleep(delay)
                process.send_signal(signal.SIGINT)
                if process.wait() == 0:
                    (place / "o.tenon").unlink()
                    continue
            interrupted += 1
            self.assertEqual([], list(place.iterdir()))
        if not interrupted:
            self.skipTest("it ended before each signal")


class Streams(Folder):
    def print_to(self, arguments, stdout, **more):
        return subprocess.run([str(TENON), *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE, text=True,
                              cwd=self.folder, env=self.environment, timeout=60, **more)

    def printers(self):
        yield from PRINTERS
        yield from (arguments + ["--json"] for arguments in PRINTERS)
        yield ["compile", "model.onnx", "-o", "o.tenon", "--json"]
        yield ["--help"]
        yield ["run", "--help"]
        yield ["--version"]

    def test_a_full_disk(self):
        for arguments in self.printers():
            with open("/dev/full", "w") as full:
                done = self.print_to(arguments, full)
            self.assertEqual(6, done.returncode, (arguments, done.stderr))
            self.assertIn("error TN0103: cannot write to 'standard output': No space left", done.stderr)

    def test_a_closed_stream(self):
        closed = {"preexec_fn": lambda: os.close(1)}
        self.assertEqual(6, self.print_to(["inspect", "model.tenon"], None, **closed).returncode)
        # The output's file must not become the stream.
        done = self.print_to(["run", "model.tenon", "-o", "o.npz", "--json"], None, **closed)
        self.assertEqual(6, done.returncode)
        self.assertEqual(["features"], list(np.load(self.folder / "o.npz")))
        self.assertEqual(0, self.print_to(["compile", "model.onnx", "-o", "o.tenon"], None, **closed).returncode)
        both = {"preexec_fn": lambda: (os.close(0), os.close(2))}
        self.assertEqual(0, self.print_to(["inspect", "model.tenon"], subprocess.DEVNULL, **both).returncode)

    def test_a_reader_that_went_away(self):
        for arguments in (["inspect", "model.tenon"], ["help", "compile", "--json"]):
            reader, writer = os.pipe()
            os.close(reader)
            done = self.print_to(arguments, writer)
            os.close(writer)
            self.assertEqual((6, ""), (done.returncode, done.stderr))

    def test_results_are_not_lost_in_their_own_output(self):
        with open(self.folder / "both", "w") as both:
            done = self.print_to(["run", "model.tenon", "-o", "both", "--json"], both)
        self.assertEqual(2, done.returncode)
        self.assertIn("error TN0111: ", done.stderr)

    def test_an_error_keeps_its_code(self):
        with open("/dev/full", "w") as full:
            self.assertEqual(5, self.print_to(["inspect", "x.npz", "--json"], full).returncode)


if __name__ == "__main__":
    unittest.main()
