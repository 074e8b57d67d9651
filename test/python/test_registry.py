"""tenon.registry over a folder and over a server's HTTP, and the examples of docs/guides/registry-interfaces.md. Runs in the environment of in_wheel.py."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import tenon
from tenon import registry

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
TOOL = pathlib.Path(tenon.__file__).parent / "bin/tenon"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Calls:
    """The same of each kind of place. `self.where` is it."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        environment = {"XDG_CACHE_HOME": str(cls.folder / "cache"), "XDG_DATA_HOME": str(cls.folder / "data"), "TENON_REGISTRY": "", "TENON_REGISTRY_TOKEN": ""}
        changed = mock.patch.dict(os.environ, environment)
        changed.start()
        cls.addClassCleanup(changed.stop)
        for name in "TENON_REGISTRY", "TENON_REGISTRY_TOKEN":
            os.environ.pop(name, None)
        cls.home = str(cls.folder / "registry")
        for name in ("a", "b"):
            (cls.folder / f"{name}.txt").write_text(f"the file {name}\n" * 1000)
        registry.Registry(cls.home).push("seed", cls.folder / "a.txt", kind="report")
        cls.where = cls.place()

    def refused(self, id, kind, call):
        with self.assertRaises(kind) as caught:
            call()
        self.assertEqual(id, caught.exception.id, str(caught.exception))

    def test_everything(self):
        models = registry.Registry(self.where)
        a, b = self.folder / "a.txt", self.folder / "b.txt"
        first = models.push("cnn", a, kind="report", meta={"team": "vision", "stage": "a=b, c&d"}, note="one")
        self.assertEqual(("cnn:1", "report", "one", {"team": "vision", "stage": "a=b, c&d"}), (first.reference, first.kind, first.note, first.facts["meta"]))
        second = models.push("cnn", b, kind="report", meta={"team": "vision"}, parent=first)
        self.assertEqual("cnn:1", second.facts["parent"])
        self.assertEqual(second, models.push("cnn", b, kind="report", meta={"team": "vision"}, parent="cnn:1"))
        self.assertEqual(["cnn", "seed"], [each.name for each in models.list()])
        self.assertEqual([2, 1], [each.version for each in models.versions("cnn")])
        self.assertEqual(registry.Move("cnn", "live", None, 1), models.promote(first, "live", expect=0, reason="first"))
        self.refused("TN1006", tenon.CheckFailedError, lambda: models.promote("cnn:2", "live", expect=2))
        self.assertEqual(1, models.promote("cnn", "live", expect=1).origin)
        self.assertEqual({"live": 2}, models.aliases("cnn"))
        self.assertEqual(1, models.rollback("cnn", "live", reason="worse").to)
        self.assertEqual(["rollback", "promote", "promote"], [each.action for each in models.history("cnn", "live")])
        self.assertEqual(second.version, models.show("cnn").version)
        self.assertEqual(["live"], models.show("cnn@live").aliases)
        subprocess.run([TOOL, "registry", "gate", "cnn@live", "--rule", "size <= 1MiB", "--registry", self.home], check=True, capture_output=True)
        subprocess.run([TOOL, "registry", "gate", "cnn:2", "live", "--registry", self.home], check=True, capture_output=True)
        self.assertEqual(["size <= 1MiB"], models.rules("cnn", "live"))
        result = models.gate_results("cnn")[0]
        self.assertEqual((2, "passed", 1), (result.version, result.verdict, result.champion))
        found = list(models.search("size <= 1MiB", "team=vision", name="c*"))
        self.assertEqual([("cnn:2", {"size": float(second.bytes)})], [(each.reference, each.metrics) for each in found])
        self.assertEqual(["cnn:1"], [each.reference for each in models.search("stage=a=b, c&d")])
        self.assertEqual(2, len(list(models.search(limit=2))))
        path = models.get("cnn@live")
        self.assertEqual(a.read_bytes(), pathlib.Path(path).read_bytes())
        pathlib.Path(path).write_text("damaged")
        self.assertEqual(a.read_bytes(), pathlib.Path(models.get(first)).read_bytes())
        self.assertEqual(b.read_bytes(), pathlib.Path(models.get("cnn:2", self.folder / "out" / "b.txt")).read_bytes())
        for id, call in (("TN1003", lambda: models.show("nobody")), ("TN1003", lambda: models.get("cnn:77")), ("TN1004", lambda: models.show("a b")), (self.no_path, lambda: models.push("../x", a)),
                         ("TN0105", lambda: list(models.search("vision"))), ("TN1012", lambda: models.rollback("cnn", "live"))):
            self.refused(id, tenon.Error, call)

    def test_load(self):
        engine = self.folder / "m.tenon"
        tenon.compile(SOURCE / "models/fashion_cnn.onnx").save(engine)
        registry.Registry(self.where).push("fashion", engine)
        registry.Registry(self.where).promote("fashion", "live")
        with mock.patch.dict(os.environ, {"TENON_REGISTRY": self.where}):
            loaded = tenon.load("registry:fashion@live")
            described = tenon.inspect("registry:fashion@live")
        image = np.random.default_rng(1).random((1, 1, 28, 28), dtype=np.float32)
        self.assertTrue(np.array_equal(tenon.load(engine)(image), loaded(image)))
        self.assertTrue(described)


class InFolder(Calls, unittest.TestCase):
    no_path = "TN1004"

    @classmethod
    def place(cls):
        return cls.home


class OverHttp(Calls, unittest.TestCase):
    no_path = "TN0806"  # refused before anybody takes it for a name

    @classmethod
    def place(cls):
        server = subprocess.Popen([TOOL, "serve", "--registry", cls.home, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.addClassCleanup(lambda: (server.terminate(), server.wait(30), server.stdout.close()))
        return f"http://127.0.0.1:{int(server.stdout.readline().rsplit(':', 1)[1])}"

    def test_a_server_that_is_gone(self):
        self.refused("TN1013", tenon.Error, registry.Registry(f"http://127.0.0.1:{free_port()}").list)

    def test_tokens(self):
        home = str(self.folder / "with-tokens")
        registry.Registry(home).push("cnn", self.folder / "a.txt", kind="report")
        add = lambda name, role, **more: subprocess.run([TOOL, "registry", "token", "add", name, "--role", role, "--registry", home], check=True, capture_output=True, text=True, **more).stdout.split("\n")[0]
        root = add("root", "admin")
        reader = add("reader", "read", env=dict(os.environ, TENON_REGISTRY_TOKEN=root))
        home_server = subprocess.Popen([TOOL, "serve", "--registry", home, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ, TENON_REGISTRY_TOKEN=root))
        self.addCleanup(lambda: (home_server.terminate(), home_server.wait(30), home_server.stdout.close()))
        url = f"http://127.0.0.1:{int(home_server.stdout.readline().rsplit(':', 1)[1])}"
        for where in (home, url):
            self.refused("TN1014", tenon.Error, registry.Registry(where).list)
            self.assertEqual(1, len(registry.Registry(where, reader).list()))
            self.refused("TN1014", tenon.Error, lambda: registry.Registry(where, reader).push("cnn", self.folder / "b.txt", kind="report"))
            self.refused("TN1014", tenon.Error, lambda: registry.Registry(where, reader).promote("cnn", "live"))
            registry.Registry(where, root).promote("cnn", "live")


class Page(unittest.TestCase):
    @unittest.skipIf(not shutil.which("curl"), "no curl")
    def test_examples(self):
        page = (SOURCE / "docs/guides/registry-interfaces.md").read_text()
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "bin").mkdir()
            (pathlib.Path(folder) / "bin/tenon").symlink_to(TOOL)
            environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", XDG_CACHE_HOME=f"{folder}/cache", TENON_REGISTRY="models.registry")
            printed = ""
            for kind, text in re.findall(r"^```(bash|python)\n(.*?)^```$", page, re.M | re.S):
                command = ["bash", "-ec", text.replace("8000", str(free_port()))] if kind == "bash" else [sys.executable, "-c", text]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=120)
                self.assertEqual(0, done.returncode, done.stdout + done.stderr)
                printed += done.stdout
            self.assertEqual("weights of a cnn\n", (pathlib.Path(folder) / "got.txt").read_text())
            for words in ("cnn@production is version 1", '"name": "cnn"', "cnn:3", "TN1006"):
                self.assertIn(words, printed)


if __name__ == "__main__":
    unittest.main()
