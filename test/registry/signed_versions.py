"""Versions with signatures, servers that ask for them, and versions as the inputs of other verbs."""

import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx

from keys import TENON, authority, pair

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
from server import CNN, SOURCE, Server, compile_cnn  # noqa: E402

SHAPES = {"cnn": "image:[1..64]x1x28x28", "near": "image:[1..32]x1x28x28"}


class VersionTest(unittest.TestCase):
    """cnn.tenon and near.tenon are engines of the CNN; mine.pem and other.pem are keys."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.environment = dict(os.environ, XDG_DATA_HOME=str(cls.folder / "data"))
        for name, shape in SHAPES.items():
            compile_cnn(cls.folder / f"{name}.tenon", "--shape", shape)
        for name in ("mine", "other"):
            pair(cls.folder / name)

    def setUp(self):
        self.registry = f"registry-{self.id().rsplit('.', 1)[1]}"

    def tool(self, *arguments):
        return subprocess.run([TENON, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, env=self.environment, timeout=120)

    def done(self, *arguments):
        done = self.tool(*arguments, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def get(self, *arguments):
        return self.done("registry", *arguments, "--registry", self.registry)

    def refused(self, code, *arguments):
        done = self.tool(*arguments, "--registry", self.registry)
        self.assertIn(f"error {code}: ", done.stderr, arguments)
        self.assertNotEqual(0, done.returncode)
        return done.stderr

    def blob(self, reference):
        digest = self.get("show", reference)["hash"]
        return self.folder / self.registry / "blobs" / digest[:2] / digest


class Versions(VersionTest):
    def test_page(self):
        """The commands of docs/guides/signing.md, as they stand there."""
        script = re.search(r"^```sh\n(.*?)^```$", (SOURCE / "docs/guides/signing.md").read_text(), re.M | re.S).group(1)
        home = self.folder / "page"
        home.mkdir()
        shutil.copy(CNN, home / "model.onnx")
        environment = dict(self.environment, PATH=f"{TENON.parent}{os.pathsep}{os.environ['PATH']}")
        done = subprocess.run(["bash", "-ec", script], cwd=home, env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, "model.tenon matches what key [0-9a-f]{16} signed, 1 file\n")

    def test_push_and_sign(self):
        self.get("push", "cnn", "cnn.tenon", "--sign", "mine.pem")
        self.get("push", "cnn", "near.tenon")
        signer = self.get("show", "cnn:1")["signatures"]
        self.assertRegex(signer[0], "^key [0-9a-f]{16}$")
        self.assertEqual([], self.get("show", "cnn:2")["signatures"])
        self.refused("TN1015", "registry", "promote", "cnn:2", "live", "--require-signature", "mine.pub.pem")
        self.refused("TN1015", "registry", "promote", "cnn:1", "live", "--require-signature", "other.pub.pem")
        self.assertEqual(1, self.get("promote", "cnn:1", "live", "--require-signature", "mine.pub.pem")["to"])
        self.assertEqual(signer[0], self.get("sign", "cnn:2", "--key", "mine.pem")["signer"])
        self.get("sign", "cnn:2", "--key", "other.pem")
        self.assertEqual(2, len(self.get("show", "cnn:2")["signatures"]))
        # Any of the signatures counts, by any of the keys.
        self.assertEqual(2, self.get("promote", "cnn", "live", "--require-signature", "mine.pub.pem")["to"])
        self.assertEqual(["push", "sign", "push", "promote", "sign", "sign", "promote"], [event["action"] for event in self.get("history")["events"]])
        self.assertIn("signed cnn:2 by key ", self.tool("registry", "history", "--registry", self.registry).stdout)
        self.assertEqual((3, []), (self.get("verify")["signatures"], self.get("verify")["problems"]))
        self.assertTrue(self.get("push", "cnn", "cnn.tenon", "--sign", "other.pem")["existing"])
        self.assertEqual(2, len(self.get("show", "cnn:1")["signatures"]))

    def test_rule(self):
        """An alias that asks for signatures keeps the keys and not where they lie: who overwrites the file changes nothing."""
        for name in SHAPES:
            self.get("push", "cnn", f"{name}.tenon")
        shutil.copy(self.folder / "mine.pub.pem", self.folder / "rule.pem")
        self.assertRegex("".join(self.get("gate", "cnn@live", "--rule", "signature rule.pem", "--rule", "interface any")["rules"]), r"^signature = key [0-9a-f]{16} \S+$")
        shutil.copy(self.folder / "other.pub.pem", self.folder / "rule.pem")
        self.refused("TN1015", "registry", "gate", "cnn:1", "live")
        self.refused("TN1015", "registry", "promote", "cnn:1", "live")
        self.get("sign", "cnn:1", "--key", "other.pem")
        self.assertIn("requires a signature", self.refused("TN1015", "registry", "promote", "cnn:1", "live"))
        self.get("sign", "cnn:1", "--key", "mine.pem")
        self.get("promote", "cnn:1", "live")
        both = (self.folder / "mine.pub.pem").read_text() + (self.folder / "other.pub.pem").read_text()
        (self.folder / "rule.pem").write_text(both)
        self.get("gate", "cnn@live", "--rule", "signature rule.pem", "--rule", "size <= 1GiB", "--rule", "interface any")
        self.get("sign", "cnn:2", "--key", "other.pem")
        self.refused("TN1007", "registry", "promote", "cnn:2", "live")
        self.assertEqual("passed", self.get("gate", "cnn:2", "live")["verdict"])
        self.get("promote", "cnn:2", "live")  # one of the keys of a file is enough; of two rules both are asked
        self.get("gate", "cnn@next", "--rule", "signature mine.pub.pem", "--rule", "signature other.pub.pem", "--rule", "interface any")
        self.refused("TN1015", "registry", "promote", "cnn:2", "next")
        self.get("promote", "cnn:1", "next")
        self.assertEqual([], self.get("verify")["problems"])
        authority(self.folder)
        for path, code in (("mine.pem", "TN1017"), ("authority.pem", "TN1017"), ("nothing.pem", "TN0101")):
            self.refused(code, "registry", "gate", "cnn@live", "--rule", f"signature {path}")

    def test_elsewhere(self):
        """A signature that was made elsewhere is taken in, and one that is here can be verified elsewhere."""
        authority(self.folder)
        self.get("push", "cnn", "cnn.tenon")
        self.done("sign", "cnn.tenon", "--key", "team.key.pem", "--certificate-chain", "team.pem")
        self.done("sign", "near.tenon", "--key", "mine.pem")
        self.refused("TN1016", "registry", "sign", "cnn", "--signature", "near.tenon.sig")
        self.refused("TN1016", "registry", "sign", "cnn", "--signature", "cnn.tenon")
        self.refused("TN1015", "registry", "sign", "cnn", "--signature", "nothing.sig")
        self.refused("TN1017", "registry", "sign", "cnn", "--key", "mine.pub.pem")
        self.refused("TN0105", "registry", "sign", "cnn")
        self.refused("TN1015", "registry", "show", "cnn", "--signature", "out.sig")
        self.assertEqual(1, len(self.get("history")["events"]), "nothing of it was recorded")
        self.assertEqual("certificate CN=Team", self.get("sign", "cnn", "--signature", "cnn.tenon.sig")["signer"])
        self.get("promote", "cnn", "live", "--require-signature", "authority.pem")
        self.get("show", "cnn", "-o", "copy.tenon", "--signature", "copy.sig")
        self.done("verify", "copy.tenon", "--signature", "copy.sig", "--trusted", "authority.pem")

    def test_several_files(self):
        """One signature is of all files of a version: what `tenon sign` makes of the folder, and what the registry makes."""
        words = self.folder / "words"
        (words / "more").mkdir(parents=True)
        shutil.copy(self.folder / "cnn.tenon", words / "cnn.tenon")
        (words / "more/labels.txt").write_text("cat\n")
        (words / ".gitattributes").write_text("nothing of the model\n")
        self.done("sign", words, "--key", "other.pem")
        self.assertEqual(["cnn.tenon", "more/labels.txt"], [file["path"] for file in self.get("push", "words", words, "--sign", "mine.pem")["files"]])
        self.get("sign", "words", "--signature", words / "model.sig")
        self.assertEqual(2, len(self.get("show", "words")["signatures"]))
        self.get("promote", "words", "live", "--require-signature", "mine.pub.pem")
        self.get("show", "words", "-o", "copy", "--signature", "copy.sig")
        self.done("verify", "copy", "--signature", "copy.sig", "--trusted", "other.pub.pem")
        (words / "more/labels.txt").write_text("dog\n")
        self.get("push", "words", words)
        self.refused("TN1016", "registry", "sign", "words:2", "--signature", words / "model.sig")
        self.refused("TN1015", "registry", "promote", "words:2", "live", "--require-signature", "mine.pub.pem")
        self.assertEqual((2, []), (self.get("verify")["signatures"], self.get("verify")["problems"]))

    def test_bad_versions(self):
        self.refused("TN1017", "registry", "push", "cnn", "cnn.tenon", "--sign", "cnn.tenon")
        self.assertFalse((self.folder / self.registry).exists())
        self.get("push", "cnn", "cnn.tenon")
        self.get("push", "cnn", "near.tenon")
        blob = self.blob("cnn:1")
        blob.chmod(0o644)
        blob.write_bytes(b"no engine")
        self.refused("TN1005", "registry", "sign", "cnn:1", "--key", "mine.pem")
        self.get("gc", "--keep", "1")
        self.refused("TN1003", "registry", "sign", "cnn:1", "--key", "mine.pem")
        self.refused("TN1003", "registry", "sign", "cnn:3", "--key", "mine.pem")

    def test_history_that_was_written_anew(self):
        """A signature of another file is found by `verify`, also where the whole history was made to fit it."""
        self.get("push", "cnn", "cnn.tenon", "--sign", "mine.pem")
        self.done("sign", "near.tenon", "--key", "mine.pem")
        database = sqlite3.connect(self.folder / self.registry / "registry.db")
        detail = json.dumps({"bundle": (self.folder / "near.tenon.sig").read_text()}, separators=(",", ":"))
        database.execute("DROP TRIGGER event_is_immutable")
        database.execute("UPDATE event SET detail = ? WHERE action = 'sign'", (detail,))
        database.commit()
        self.refused("TN1011", "registry", "verify")
        self.refused("TN1016", "registry", "promote", "cnn", "live", "--require-signature", "mine.pub.pem")


class Serving(VersionTest):
    def reasons(self, server):
        return {row["name"]: row["reason"] for row in server.post("/v2/repository/index")[1]}

    def test_folder(self):
        models = self.folder / "models"
        (models / "triton/1").mkdir(parents=True)
        (models / "triton/2").mkdir()
        for name in ("signed", "unsigned", "swapped", "others"):
            shutil.copy(self.folder / "cnn.tenon", models / f"{name}.tenon")
        for version in ("1", "2"):
            shutil.copy(self.folder / "cnn.tenon", models / f"triton/{version}/model.tenon")
        (models / "triton/config.pbtxt").write_text('name: "triton"\nversion_policy { all {} }\n')
        for path in (models / "signed.tenon", models / "swapped.tenon", models / "triton/2/model.tenon"):
            self.done("sign", path, "--key", "mine.pem")
        self.done("sign", models / "others.tenon", "--key", "other.pem")
        shutil.copy(self.folder / "near.tenon", models / "swapped.tenon")
        with Server(models, "--require-signature", self.folder / "mine.pub.pem", waits=False) as server:
            server.wait_until(lambda: 2 == sum("is ready" in line for line in server.log) and "TN1016" in "".join(server.log))
            reasons = self.reasons(server)
            self.assertEqual("", reasons["signed"])
            self.assertIn("TN1015", reasons["unsigned"])
            self.assertIn("TN1016", reasons["swapped"])
            self.assertIn("TN1015", reasons["others"])
            self.assertEqual(200, server.infer("signed")[0])
            status, value = server.infer("triton")
            self.assertEqual((200, "2"), (status, value.get("model_version")), value)
            for name in ("unsigned", "swapped", "others"):
                self.assertNotEqual(200, server.infer(name)[0], name)
            self.assertNotEqual(200, server.post("/v2/models/triton/versions/1/infer", {})[0])
            # Signed, it is loaded when somebody asks for it.
            self.done("sign", models / "unsigned.tenon", "--key", "mine.pem")
            self.assertEqual(200, server.call("POST", "/v2/repository/models/unsigned/load")[0])
            self.assertEqual(200, server.infer("unsigned")[0])
            # What is loaded stays when the next load has no signature.
            (models / "signed.tenon.sig").unlink()
            self.assertNotEqual(200, server.call("POST", "/v2/repository/models/signed/load")[0])
            self.assertIn("TN1015", self.reasons(server)["signed"])
            self.assertEqual(200, server.infer("signed")[0])

    def test_one_file(self):
        shutil.copy(self.folder / "cnn.tenon", self.folder / "alone.tenon")
        with Server(self.folder / "alone.tenon", "--require-signature", self.folder / "mine.pub.pem", waits=False) as server:
            server.wait_until(lambda: server.log)
            self.assertIn("TN1015", self.reasons(server)["alone"])
        for bad, code in (("mine.pem", "TN1017"), ("nothing.pem", "TN0101")):
            with self.assertRaisesRegex(RuntimeError, code):
                Server(self.folder / "alone.tenon", "--require-signature", self.folder / bad)

    def test_registry(self):
        self.get("push", "cnn", "cnn.tenon", "--sign", "mine.pem")
        self.get("push", "cnn", "near.tenon")
        self.get("promote", "cnn:2", "live")
        arguments = ("registry:cnn@live", "--registry", self.folder / self.registry, "--require-signature", self.folder / "mine.pub.pem")
        with self.assertRaisesRegex(RuntimeError, "TN1015"):
            Server(*arguments)
        self.get("promote", "cnn:1", "live")
        with Server(*arguments) as server:
            self.assertEqual("1", server.infer()[1]["model_version"])
            self.get("promote", "cnn:2", "live")
            server.wait_until(lambda: "TN1015" in self.reasons(server)["cnn"])
            self.assertEqual("1", server.infer()[1]["model_version"])
            self.get("sign", "cnn:2", "--key", "mine.pem")
            server.wait_until(lambda: server.infer()[1]["model_version"] == "2")


    def test_several_files(self):
        """A version of several files is served with its config.pbtxt, and the signature of all of them."""
        words = self.folder / "served"
        (words / "1").mkdir(parents=True)
        shutil.copy(self.folder / "cnn.tenon", words / "1/model.tenon")
        (words / "labels.txt").write_text("cat\n")
        (words / "config.pbtxt").write_text('name: "words"\nmax_batch_size: 4\n')
        self.get("push", "words", words, "--sign", "mine.pem")
        shutil.copy(self.folder / "near.tenon", words / "1/model.tenon")
        (words / "config.pbtxt").write_text('name: "others"\n')
        self.get("push", "words", words, "--sign", "mine.pem")
        self.get("promote", "words:1", "live")
        with Server("registry:words@live", "--registry", self.folder / self.registry, "--require-signature", self.folder / "mine.pub.pem") as server:
            self.assertEqual("1", server.infer("words")[1]["model_version"])
            self.assertEqual(4, json.loads(server.get("/v2/models/words/config")[1])["max_batch_size"])
            self.get("promote", "words:2", "live")
            server.wait_until(lambda: "others" in self.reasons(server)["words"])
            self.assertEqual("1", server.infer("words")[1]["model_version"])
            (words / "config.pbtxt").unlink()
            self.get("push", "words", words, "--sign", "mine.pem")
            self.get("promote", "words:3", "live")
            server.wait_until(lambda: server.infer("words")[1]["model_version"] == "3")
        self.assertEqual([], [name for name in os.listdir(self.folder / self.registry / "blobs") if name.startswith("serve")], "nothing is left")


class Inputs(VersionTest):
    """registry:REF where a verb takes a file."""

    def setUp(self):
        super().setUp()
        self.get("push", "model", CNN)
        self.get("push", "cnn", "cnn.tenon")
        self.get("push", "cnn", "near.tenon")
        self.get("promote", "cnn:1", "live")

    def test_verbs(self):
        for arguments in (("run", "registry:cnn@live"), ("bench", "registry:cnn:1", "--seconds", "0.2"), ("inspect", "registry:cnn"), ("inspect", "registry:model:1"),
                          ("explain", "fusion", "registry:cnn@live"), ("profile", "registry:cnn@live", "--seconds", "0.2"), ("check", "registry:model"),
                          ("compare", "registry:cnn@live", "registry:model"), ("compile", "registry:model", "-o", "out.tenon", "--shape", "image:1x1x28x28"),
                          ("bench", "registry:cnn@live", "--ab", "registry:cnn:2", "--seconds", "0.2")):
            with self.subTest(arguments=arguments):
                self.done(*arguments, "--registry", self.registry)
        self.assertEqual(["blobs", "lock", "registry.db"], sorted(name for name in os.listdir(self.folder / self.registry) if "-" not in name))
        self.assertEqual([], [name for name in os.listdir(self.folder / self.registry) if name.startswith("use")], "nothing is left")

    def test_weights_beside(self):
        """A model with weights in another file, and a tokenizer in a folder beside it."""
        model = onnx.load(CNN)
        folder = self.folder / "beside"
        (folder / "onnx").mkdir(parents=True)
        onnx.save_model(model, folder / "onnx/model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
        (folder / "tokenizer.json").write_text("{}")
        self.refused("TN1010", "registry", "push", "beside", folder / "onnx/model.onnx")
        pushed = self.get("push", "beside", folder)
        self.assertEqual(("model", ["onnx/model.onnx", "onnx/weights.bin", "tokenizer.json"]), (pushed["kind"], [file["path"] for file in pushed["files"]]))
        self.assertEqual(2, self.get("push", "beside", folder / "onnx/model.onnx", folder / "onnx/weights.bin")["version"])
        for reference in ("beside:1", "beside:2"):
            self.done("compile", f"registry:{reference}", "-o", "beside.tenon", "--shape", "image:1x1x28x28", "--registry", self.registry)
            self.done("check", f"registry:{reference}", "--registry", self.registry)
        (folder / "onnx/weights.bin").rename(folder / "weights.bin")
        self.refused("TN1010", "registry", "push", "beside", folder)

    def test_data(self):
        images = np.random.default_rng(1).random((20, 1, 28, 28), np.float32)
        np.savez(self.folder / "test.npz", image=images, labels=np.arange(20) % 10)
        self.get("push", "test", "test.npz")
        direct = self.done("accuracy", "cnn.tenon", "--data", "test.npz", "--metric", "top1")
        for data in (("--data", "registry:test"), ("--data=registry:test:1",)):
            named = self.done("accuracy", "registry:cnn@live", *data, "--metric", "top1", f"--registry={self.registry}")
            self.assertEqual(*(row["metrics"][0]["models"][0]["value"] for row in (direct, named)))

    def test_bad_references(self):
        for reference, code in (("registry:nothing", "TN1003"), ("registry:cnn@nowhere", "TN1003"), ("registry:cnn:7", "TN1003"), ("registry:../x", "TN1004"), ("registry:", "TN1004")):
            self.refused(code, "run", reference)
        self.assertIn("TN1001", self.tool("run", "registry:cnn", "--registry", "nowhere").stderr)
        self.refused("TN0105", "compile", "registry:model")
        blob = self.blob("cnn:2")
        blob.chmod(0o644)
        blob.write_bytes(blob.read_bytes()[:-1] + b"x")
        self.refused("TN1005", "run", "registry:cnn:2")
        self.get("promote", "cnn:1", "live")
        self.get("gc", "--keep", "0")
        self.refused("TN1003", "run", "registry:cnn:2")
        self.assertEqual("TN1003", json.loads(self.tool("run", "registry:nothing", "--registry", self.registry, "--json").stdout)["code"])


if __name__ == "__main__":
    unittest.main()
