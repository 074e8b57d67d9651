"""`tenon registry` from the outside: the commands of docs/guides/registry.md, gates over real measurements, what may not be pushed, and a
server that follows an alias."""

import io
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
from server import CNN, SOURCE, TENON, Server, compile_cnn  # noqa: E402

SHAPE = "image:[1..64]x1x28x28"


def noisy_cnn(path, share):
    """The CNN with noise on its weights, of so many of their deviations."""
    model, random = onnx.load(CNN), np.random.default_rng(1)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.ndim > 1:
            array = array + random.standard_normal(array.shape).astype(np.float32) * array.std() * share
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), tensor.name))
    onnx.save(model, path)


class RegistryTest(unittest.TestCase):
    """Each class has a folder with engines: cnn.tenon, near.tenon (hardly noisy), worse.tenon and nan.tenon; test.npz is labelled by the CNN."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.environment = dict(os.environ, PATH=f"{TENON.parent}{os.pathsep}{os.environ['PATH']}", XDG_DATA_HOME=str(cls.folder / "data"))
        compile_cnn(cls.folder / "cnn.tenon", "--shape", SHAPE)
        for name, share in (("near", 1e-4), ("worse", 1.0), ("nan", np.nan)):
            noisy_cnn(cls.folder / f"{name}.onnx", share)
            subprocess.run([TENON, "compile", cls.folder / f"{name}.onnx", "-o", cls.folder / f"{name}.tenon", "--quiet", "--shape", SHAPE], check=True)
        images = np.random.default_rng(3).random((400, 1, 28, 28), np.float32)
        np.savez(cls.folder / "images.npz", image=images[:64])
        logits = []
        for start in range(0, 400, 50):
            np.savez(cls.folder / "part.npz", image=images[start:start + 50])
            subprocess.run([TENON, "run", cls.folder / "cnn.tenon", "--inputs", cls.folder / "part.npz", "-o", cls.folder / "out.npz", "--quiet"], check=True)
            logits.append(np.load(cls.folder / "out.npz")["logits"])
        labels = np.concatenate(logits).argmax(axis=1)
        labels[:20] = (labels[:20] + 1) % 10  # so that nobody is perfect
        np.savez(cls.folder / "test.npz", image=images, labels=labels)
        np.savez(cls.folder / "few.npz", image=images[:24], labels=labels[:24])

    def setUp(self):
        self.registry = f"registry-{self.id().rsplit('.', 1)[1]}"

    def call(self, *arguments, **more):
        return subprocess.run([TENON, "registry", *map(str, arguments), "--registry", self.registry], cwd=self.folder, capture_output=True, text=True, env=self.environment, timeout=120, **more)

    def get(self, *arguments):
        done = self.call(*arguments, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def refused(self, code, *arguments, **more):
        done = self.call(*arguments, **more)
        self.assertIn(f"error {code}: ", done.stderr, arguments)
        self.assertNotEqual(0, done.returncode)
        return done.stderr

    def events(self):
        return [(event["action"], event["version"]) for event in self.get("history")["events"]]


class Commands(RegistryTest):
    def test_page(self):
        """The commands of docs/guides/registry.md, as they stand there."""
        page = (SOURCE / "docs/guides/registry.md").read_text()
        script = re.search(r"^```\n(tenon compile.*?)^```$", page, re.M | re.S).group(1)
        home = self.folder / "page"
        home.mkdir()
        shutil.copy(CNN, home / "fashion_cnn.onnx")
        shutil.copy(self.folder / "test.npz", home / "test.npz")
        done = subprocess.run(["bash", "-ec", script], cwd=home, env=self.environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("promoted cnn@production to version 1", done.stdout)
        self.assertIn("all as they were written", done.stdout)

    def test_facts(self):
        self.get("push", "model", CNN)
        self.get("push", "test", "test.npz")
        pushed = self.get("push", "cnn", "cnn.tenon", "--parent", "model", "--data", "test:1", "--meta", "epochs=12", "--note", "first")
        self.assertEqual(["schema", "name", "version", "kind", "hash", "bytes", "files", "existing"], list(pushed))
        self.assertEqual(("cnn", 1, "engine", False), (pushed["name"], pushed["version"], pushed["kind"], pushed["existing"]))
        shown = self.get("show", "cnn")
        facts = shown["facts"]
        self.assertEqual(("model:1", "test:1", {"epochs": "12"}), (facts["parent"], facts["data"], facts["meta"]))
        self.assertEqual({"image": [[1, 64], 1, 28, 28]}, facts["options"]["shapes"])
        self.assertTrue(facts["source"] and facts["compiler"] and facts["machine"] and facts["targets"])
        self.assertEqual("first", shown["note"])
        again = self.get("push", "cnn", "cnn.tenon", "--parent", "model", "--data", "test:1", "--meta", "epochs=12")
        self.assertEqual((1, True), (again["version"], again["existing"]))
        self.get("show", "cnn:1", "-o", "copy.tenon")
        self.assertEqual((self.folder / "cnn.tenon").read_bytes(), (self.folder / "copy.tenon").read_bytes())
        self.assertEqual({"model": "model", "test": "data", "cnn": "engine"}, {row["name"]: row["kind"] for row in self.get("list")["objects"]})

    def test_lineage(self):
        """What a version was made from and measured on, what was made from it, and who cannot be whose parent."""
        (self.folder / "record.txt").write_text("a record")
        self.get("push", "train", "images.npz")
        self.get("push", "test", "test.npz")
        self.get("push", "model", CNN, "--data", "train:1")
        self.get("push", "tuned", "record.txt", "--kind", "tuning", "--parent", "model:1")
        self.get("push", "cnn", "cnn.tenon", "--parent", "model:1", "--data", "test:1", "--tuning", "tuned:1")
        self.get("push", "notes", "record.txt", "--parent", "cnn:1")
        self.get("gate", "cnn@live", "--rule", "top1 >= 50%", "--data", "registry:test:1")
        self.get("gate", "cnn:1", "live")
        self.get("promote", "cnn:1", "live")
        edges = lambda reference: {(edge["from"], edge["to"], edge["relation"]) for edge in self.get("show", reference, "--lineage")["edges"]}
        above = {("model:1", "cnn:1", "parent"), ("test:1", "cnn:1", "data"), ("tuned:1", "cnn:1", "tuning"), ("test:1", "cnn:1", "gate of live"),
                 ("train:1", "model:1", "data"), ("model:1", "tuned:1", "parent")}
        self.assertEqual(above | {("cnn:1", "notes:1", "parent")}, edges("cnn@live"))
        self.assertEqual(above - {("test:1", "cnn:1", "data"), ("test:1", "cnn:1", "gate of live")} | {("cnn:1", "notes:1", "parent")}, edges("train"))
        found = self.get("show", "cnn", "--lineage")
        self.assertEqual(("cnn:1", "engine", ["live"]), tuple(found["nodes"][0][key] for key in ("version", "kind", "aliases")))
        self.assertFalse(found["cut"])
        text = self.call("show", "cnn", "--lineage").stdout
        self.assertIn("cnn:1 (engine, at live)\nmade from, or measured on\n", text)
        self.assertIn("    └── train:1 (data), data\n", text.replace("│", " "))
        self.assertIn("└── notes:1 (report), parent\n", text)
        for flags in (("--parent", "test:1"), ("--parent", "notes:1"), ("--data", "model:1"), ("--tuning", "test:1"), ("--parent", "tuned:1")):
            self.refused("TN0105", "push", "cnn", "near.tenon", *flags)
        self.refused("TN0105", "push", "model", CNN, "--parent", "cnn:1")
        # What a version at an alias was made from stays, and what nothing needs goes.
        self.assertEqual(["notes:1"], self.get("gc", "--keep", "0")["deleted_versions"])

    def test_aliases(self):
        for name in ("cnn", "near", "worse"):
            self.get("push", "cnn", f"{name}.tenon")
        self.refused("TN1003", "promote", "cnn:4", "live")
        moved = self.get("promote", "cnn:1", "live", "--expect", "none")
        self.assertEqual((None, 1), (moved["from"], moved["to"]))
        self.refused("TN1006", "promote", "cnn:2", "live", "--expect", "none")
        self.get("promote", "cnn:2", "live", "--expect", "1")
        self.get("promote", "cnn", "live")
        self.assertEqual(2, self.get("rollback", "cnn@live", "--reason", "slow")["to"])
        self.assertEqual(1, self.get("rollback", "cnn@live")["to"])
        self.refused("TN1012", "rollback", "cnn@live")
        self.refused("TN1004", "rollback", "cnn")
        self.assertIn("rolled back cnn@live from version 3 to version 2: slow", self.call("history", "cnn@live").stdout)
        self.assertEqual(["cnn:2"], self.get("gc", "--keep", "1", "--dry-run")["deleted_versions"])
        self.get("gc", "--keep", "0")
        self.refused("TN1003", "promote", "cnn:3", "live")
        self.assertEqual([], self.get("verify")["problems"])

    def test_promotions_at_once(self):
        for name in ("cnn", "near", "worse"):
            self.get("push", "cnn", f"{name}.tenon")
        self.get("promote", "cnn:1", "live")
        done = []
        threads = [threading.Thread(target=lambda to: done.append(self.call("promote", f"cnn:{to}", "live", "--expect", "1")), args=(to,)) for to in (2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([0, 1], sorted(each.returncode for each in done))
        self.assertIn("TN1006", "".join(each.stderr for each in done))

    @unittest.skipUnless(os.geteuid() == 0, "another user needs root")
    def test_reader_beside_a_writer(self):
        """Who may not write beside the database reads it all the same, also while somebody writes."""
        for name in ("images", "test"):
            self.get("push", "data", f"{name}.npz")
        self.folder.chmod(0o755)
        subprocess.run(["chmod", "-R", "a+rX", self.folder / self.registry], check=True)
        reader = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", TENON, "registry", "list", "--json", "--registry", self.folder / self.registry]
        writer = threading.Thread(target=lambda: [self.get("promote", f"data:{i % 2 + 1}", "live") for i in range(30)])
        writer.start()
        is_last = False
        while not is_last:
            is_last = not writer.is_alive()
            done = subprocess.run(reader, capture_output=True, text=True, cwd="/", env=dict(self.environment, HOME="/nonexistent"), timeout=60)
            self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual({"live": 2}, json.loads(done.stdout)["objects"][0]["aliases"])

    def zipped(self, entries):
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for entry, content in entries.items():
                archive.writestr(entry, content)
        return made.getvalue()

    def test_unsafe_files(self):
        import pickle
        (self.folder / "model.pkl").write_bytes(pickle.dumps({"a": 1}))
        (self.folder / "old.pkl").write_bytes(pickle.dumps({"a": 1}, 2))
        np.save(self.folder / "objects.npy", np.array([{}], object), allow_pickle=True)
        np.savez(self.folder / "objects.npz", a=np.array([{}], object))
        for name, entries in {"up.npz": {"../../a.npy": b""}, "absolute.npz": {"/a.npy": b""}, "windows.npz": {"..\\a.npy": b""}, "pickle.npz": {"a.npy": pickle.dumps(1)},
                              "weights.pt2": {"m/models/model.json": b"{}", "m/data/weights/w": pickle.dumps(os.system)},
                              "inputs.pt2": {"m/models/model.json": b"{}", "m/data/sample_inputs/model.pt": self.zipped({"archive/data.pkl": pickle.dumps(os.system, 2)})},
                              "old.pt2": {"m/models/model.json": b"{}", "m/data.pkl": pickle.dumps(os.system, 0)}, "torch.pt": {"m/data.pkl": pickle.dumps(1)}}.items():
            (self.folder / name).write_bytes(self.zipped(entries))
        for name in ("model.pkl", "old.pkl", "up.npz", "absolute.npz", "windows.npz", "weights.pt2", "inputs.pt2", "old.pt2", "torch.pt"):
            for kind in ([], ["--kind", "report"], ["--kind", "data"]):
                self.refused("TN1010", "push", "x", name, *kind)
        for name in ("objects.npy", "objects.npz", "pickle.npz"):
            self.assertEqual(5, self.call("push", "x", name).returncode)
        self.refused("TN1010", "push", "x", TENON)
        tensor = numpy_helper.from_array(np.zeros(4, np.float32), "w")
        model = helper.make_model(helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
                                                    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])], [tensor]))
        onnx.save(model, self.folder / "external.onnx", save_as_external_data=True, location="external.bin", size_threshold=0)
        self.assertIn("external.bin", self.refused("TN1010", "push", "x", "external.onnx"))
        cut = (self.folder / "cnn.tenon").read_bytes()
        (self.folder / "cut.tenon").write_bytes(cut[:-1000])
        (self.folder / "flipped.tenon").write_bytes(cut[:-1000] + bytes([cut[-1000] ^ 1]) + cut[-999:])
        for name in ("cut.tenon", "flipped.tenon"):
            self.assertEqual(5, self.call("push", "x", name).returncode)
        self.refused("TN1010", "push", "x", ".")  # a folder with all of these
        self.refused("TN0101", "push", "x", "nowhere")
        self.refused("TN0105", "push", "x", CNN, "--kind", "engine")
        self.assertFalse((self.folder / self.registry).exists(), "nothing half done")

    def test_programs_of_torch(self):
        """What torch.export.save writes has a pickle of the inputs in it, of tensors only; weights may be any bytes."""
        import collections
        import pickle
        inner = self.zipped({"archive/data.pkl": pickle.dumps(collections.OrderedDict(a=1.0), 2), "archive/data/0": bytes(16)})
        (self.folder / "program.pt2").write_bytes(self.zipped({"m/models/model.json": b"{}", "m/data/weights/weight_0": b"\x80\x02\x00\x3f" * 9, "m/data/sample_inputs/model.pt": inner}))
        self.assertEqual("model", self.get("push", "program", "program.pt2")["kind"])

    def test_an_empty_value(self):
        """`--reason=` has an empty value, and not the flag behind it."""
        self.get("push", "data", "test.npz")
        self.refused("TN1006", "promote", "data:1", "live", "--reason=", "--expect=7")
        self.get("promote", "data:1", "live", "--reason=", "--expect=none")
        self.assertEqual({"reason": ""}, self.get("history", "data@live")["events"][0]["detail"])

    def test_names(self):
        """What people type comes back as text, never as control characters or markup that a page would take for its own."""
        evil = "e\x1b[31mvil\n<script>.npz"
        shutil.copy(self.folder / "test.npz", self.folder / evil)
        self.get("push", "data", evil)
        text = self.call("show", "data").stdout + self.call("history").stdout
        self.assertNotIn("\x1b", text)
        self.assertIn("\\u001B", text)
        for name in ("<script>", "a\nb", "../a", "a//b", "/a", "a/", "a/../b", "", ".a", "a" * 129, "caf\u00e9"):
            self.refused("TN1004", "push", name, "test.npz")
        self.refused("TN1004", "push", "data", "test.npz", "--note", "two\nlines")
        self.refused("TN1004", "push", "data", "test.npz", "--note", "x" * 1001)
        self.refused("TN1004", "push", "data", "test.npz", "--meta", "a=\x1b[0m")
        self.refused("TN1004", "promote", "data:1", "<b>")
        self.assertEqual([("push", 1)], self.events())

    def test_usage(self):
        self.assertIn("push", self.call("--help").stdout)
        self.refused("TN0105", "pish")
        self.refused("TN0105", "push", "a")
        self.refused("TN0105", "push", "a", "test.npz", "--nothing")
        self.refused("TN1001", "list")
        self.assertFalse((self.folder / self.registry).exists())

    def test_full_disk(self):
        """A file that does not fit leaves nothing behind, and what was there is there."""
        self.get("push", "cnn", "cnn.tenon")
        bound = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        ignoring = ["env", "--ignore-signal=XFSZ", TENON, "registry", "push", "cnn", "near.tenon", "--registry", self.registry]
        done = subprocess.run(ignoring, cwd=self.folder, capture_output=True, text=True, preexec_fn=bound)
        self.assertIn("TN0103", done.stderr)
        self.assertEqual([], os.listdir(self.folder / self.registry / "blobs/unfinished"))
        self.assertEqual([("push", 1)], self.events())
        self.assertEqual([], self.get("verify")["problems"])

    def test_failed_flush(self):
        """A flush that fails is no acknowledgement: of the file, of the folder, and of the database."""
        self.get("push", "cnn", "cnn.tenon")
        power = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "test/registry/libregistry_power.so"
        for what in ("blob", "names", "log"):
            done = subprocess.run([TENON, "registry", "push", "cnn", "near.tenon", "--registry", self.registry], cwd=self.folder, capture_output=True, text=True,
                                  env=dict(self.environment, LD_PRELOAD=str(power), POWER_FAIL=what))
            self.assertIn("TN0103", done.stderr, what)
            self.assertEqual([("push", 1)], self.events(), what)
            self.assertEqual([], self.get("verify")["problems"], what)


class Gates(RegistryTest):
    def setUp(self):
        super().setUp()
        self.get("push", "cnn", "cnn.tenon")
        self.get("push", "test", "test.npz")

    def rules(self, *rules):
        return self.get("gate", "cnn@live", *[word for rule in rules for word in ((rule,) if rule.startswith("--") else ("--rule", rule))])["rules"]

    def measure(self, version, *arguments):
        """The verdict, and that of each rule."""
        done = self.call("gate", f"cnn:{version}", "live", "--json", *(arguments if "--seconds" in arguments else ("--seconds", "0.2", *arguments)))
        result, _ = json.JSONDecoder().raw_decode(done.stdout)
        self.assertEqual("tenon.registry.gate/1", result["schema"], done.stderr)
        self.assertEqual(0 if result["verdict"] == "passed" else 1, done.returncode)
        return result["verdict"], [row["verdict"] for row in result["rules"]], result["rules"]

    def test_worse_model(self):
        self.rules("top1 >= 90%", "top1 >= champion - 1%", "size <= champion + 5%", "memory <= 500MiB", "outputs <= 1%", "interface any")
        data = ["--data", "registry:test:1"]
        verdict, each, rows = self.measure(1, *data)
        self.assertEqual(("passed", ["passed"] * 5), (verdict, each), rows)
        self.assertAlmostEqual(0.95, rows[0]["value"])
        self.get("promote", "cnn:1", "live")
        self.get("push", "cnn", "worse.tenon")
        verdict, each, rows = self.measure(2, *data)
        self.assertEqual(("refused", ["refused", "refused", "passed", "passed", "refused"]), (verdict, each), rows)
        text = self.refused("TN1007", "promote", "cnn:2", "live")
        self.assertIn(f"top1 is {rows[0]['value'] * 100:.2f} %", text)
        self.assertIn("the limit is 90.00 %", text)
        self.get("push", "cnn", "near.tenon")
        self.assertEqual("passed", self.measure(3, *data)[0])
        self.get("promote", "cnn:3", "live")

    def test_too_little_data(self):
        """24 samples cannot tell 50 % of a model that is right in some 17 %: undecided is no pass."""
        self.rules("top1 >= 20%")
        verdict, each, rows = self.measure(1, "--data", "few.npz")
        self.assertEqual("undecided", verdict, rows)
        low, high = rows[0]["interval_95"]
        self.assertTrue(low < 0.2 < high)
        self.refused("TN1008", "promote", "cnn:1", "live")
        self.assertEqual([("gate", 1)], self.events()[-1:])

    def timed(self, version):
        """The result of rules about times, for longer while noise leaves it undecided: a busy machine makes few runs."""
        for seconds in ("0.2", "2", "15"):
            result = self.measure(version, "--seconds", seconds)
            if result[0] != "undecided":
                break
        return result

    def test_speed(self):
        self.rules("p50 <= 1s", "p99 <= 10s", "throughput >= 1", "p50 <= champion + 400%")
        self.assertEqual("passed", self.timed(1)[0])
        self.get("promote", "cnn:1", "live")
        self.get("push", "cnn", "near.tenon")
        verdict, each, rows = self.timed(2)
        self.assertEqual("passed", verdict, rows)
        self.assertTrue(0.2 < rows[3]["value"] < 5, rows)
        self.rules("p50 <= 1us", "throughput >= 1000000000", "interface any")
        self.assertEqual(("refused", ["refused"] * 2), self.timed(2)[:2])
        self.rules("p50 <= champion - 90%")
        self.assertEqual("refused", self.timed(2)[0])

    def test_no_number(self):
        self.rules("mse <= 1000000")
        self.get("push", "cnn", "nan.tenon")
        data = dict(np.load(self.folder / "test.npz"))
        np.savez(self.folder / "regression.npz", image=data["image"], labels=np.zeros((400, 10), np.float32))
        verdict, _, rows = self.measure(2, "--data", "regression.npz")
        self.assertEqual("refused", verdict, rows)
        self.assertIsNone(rows[0]["value"])
        self.assertIn("not a finite number", rows[0]["reason"])

    def test_wrong_data(self):
        self.rules("top1 >= 20%")
        before = self.events()
        self.refused("TN1009", "gate", "cnn:1", "live")
        self.refused("TN0115", "gate", "cnn:1", "live", "--data", "images.npz")
        images = np.load(self.folder / "images.npz")["image"]
        np.savez(self.folder / "empty.npz", image=images[:0], labels=np.zeros(0, np.int64))
        np.savez(self.folder / "classes.npz", image=images, labels=np.full(64, 12))
        np.savez(self.folder / "short.npz", image=images, labels=np.zeros(63, np.int64))
        for name in ("empty", "classes", "short"):
            done = self.call("gate", "cnn:1", "live", "--data", f"{name}.npz")
            self.assertNotEqual(0, done.returncode, name)
            self.assertRegex(done.stderr, "error TN01", name)
        self.refused("TN1003", "gate", "cnn:1", "live", "--data", "registry:nothing:1")
        self.assertEqual(before, self.events(), "nothing is recorded")

    def test_pinned_data(self):
        """The data are chosen with the rules, by whoever may set these, and the history keeps what was measured on what."""
        self.rules("top1 >= 90%")
        self.assertEqual("passed", self.measure(1, "--data", "registry:test:1")[0])
        pinned = self.get("gate", "cnn@live")["rules"][-1]
        self.assertRegex(pinned, "^data = registry:test:1 sha256:[0-9a-f]{64}$")
        self.get("promote", "cnn:1", "live")
        self.get("push", "cnn", "worse.tenon")
        data = dict(np.load(self.folder / "test.npz"))
        subprocess.run([TENON, "run", "worse.tenon", "--inputs", "test.npz", "-o", "out.npz", "--quiet"], cwd=self.folder, capture_output=True)
        np.savez(self.folder / "cherry.npz", image=data["image"][:64], labels=np.zeros(64, np.int64))
        self.assertIn("sets a gate with other data", self.refused("TN1009", "gate", "cnn:2", "live", "--data", "cherry.npz"))
        self.assertEqual("refused", self.measure(2)[0])  # on what is pinned
        event = self.get("history")["events"][-1]["detail"]["conditions"]
        self.assertEqual("registry:test:1", event["data"])
        self.assertTrue(event["machine"] and event["tenon"] and event["seconds"] == 0.2 and pinned.endswith(event["sha256"]))
        self.get("gate", "cnn@live", "--rule", "size <= 1GiB", "--data", "registry:test:1", "--seconds", "0.3", "--repetitions", "2", "--machine", "this")
        self.refused("TN1009", "gate", "cnn:2", "live", "--seconds", "0.2")
        self.measure(2, "--seconds", "0.3")
        self.assertIn("needs 2 passing results, but there are 1", self.refused("TN1008", "promote", "cnn:2", "live"))
        self.measure(2, "--seconds", "0.3")
        self.get("promote", "cnn:2", "live")
        self.assertEqual([], self.get("verify")["problems"])
        self.assertEqual([], self.get("gc", "--keep", "0")["deleted_versions"], "the data of a gate stay")

    def test_interface(self):
        """Who is a client of the champion is one of what follows it."""
        self.rules("size <= 1GiB")
        self.measure(1)
        self.get("promote", "cnn:1", "live")
        compile_cnn(self.folder / "fixed.tenon", "--shape", "image:1x1x28x28")
        compile_cnn(self.folder / "wide.tenon", "--shape", "image:[1..128]x1x28x28")
        for number, (name, verdict) in enumerate((("fixed", "refused"), ("wide", "passed")), 2):
            self.get("push", "cnn", f"{name}.tenon")
            result = self.measure(number)
            self.assertEqual(verdict, result[0], result)
        self.assertEqual("it takes and gives what the champion does", result[2][-1]["reason"])

    def test_parent(self):
        """What a version lost against what it was made from."""
        self.get("push", "model", CNN)
        self.rules("top1 >= parent - 1%")
        for name, parent, verdict in (("near", ("--parent", "model:1"), "passed"), ("worse", ("--parent", "model:1"), "refused"), ("nan", (), "refused")):
            pushed = self.get("push", "cnn", f"{name}.tenon", *parent)
            result = self.measure(pushed["version"], "--data", "registry:test:1")
            self.assertEqual(verdict, result[1][0], result)
        self.assertIn("the version has no parent", result[2][0]["reason"])

    def test_loads(self):
        """An engine that the machine of the servers cannot run is refused, whatever else is good of it."""
        self.refused("TN1009", "gate", "cnn@live", "--rule", "loads")
        self.refused("TN1009", "gate", "test@live", "--rule", "loads", "--machine", "this")
        rules = self.get("gate", "cnn@live", "--rule", "loads", "--rule", "p50 <= 10s", "--machine", "this")["rules"]
        self.assertEqual(["loads", "p50 <= 10s", "interface >= champion"], rules[:-1])
        self.refused("TN1007", "promote", "cnn:1", "live")
        self.assertEqual("passed", self.timed(1)[0])
        self.assertIn(self.get("history")["events"][-1]["detail"]["conditions"]["machine"], rules[-1])
        self.get("promote", "cnn:1", "live")
        compile_cnn(self.folder / "arm.tenon", "--shape", SHAPE, "--target", "cpu:armv8-a")
        self.get("push", "cnn", "arm.tenon")
        verdict, each, rows = self.measure(2)
        self.assertEqual(("refused", "refused"), (verdict, each[0]), rows)
        self.assertRegex(rows[0]["reason"], "TN[0-9]{4}")
        self.refused("TN1007", "promote", "cnn:2", "live")
        self.get("gate", "cnn@live", "--rule", "loads", "--data", "registry:test:1", "--machine", "another part")
        self.refused("TN1009", "gate", "cnn:1", "live")
        self.assertEqual([], self.get("verify")["problems"])

    def test_rules(self):
        before = self.events()
        for rule in ("topp1 >= 20%", "top1 >= nan", "top1 > 3", "p50 >= 3"):
            self.refused("TN1009", "gate", "cnn@live", "--rule", "top1 >= 20%", "--rule", rule)
        self.assertEqual(before, self.events())
        self.refused("TN1009", "gate", "cnn:1", "live")
        self.assertEqual(["top1 >= 20%", "interface >= champion"], self.rules("top1  >=  20%"))
        self.assertEqual(["top1 >= 20%"], self.rules("top1 >= 20%", "interface any"))
        before = self.events()
        self.rules("top1 >= 20%", "interface any", "--if-changed")
        self.assertEqual(before, self.events())
        self.refused("TN1007", "promote", "cnn:1", "live")
        self.assertEqual([], self.get("gate", "cnn@live", "--no-rules")["rules"])
        self.get("promote", "cnn:1", "live")


class Serving(RegistryTest):
    def serve(self, *arguments, **more):
        return Server(f"registry:{arguments[0]}", *arguments[1:], "--registry", self.folder / self.registry, **more)

    def version(self, server):
        status, value = server.infer()
        self.assertEqual(200, status, value)
        return int(value["model_version"])

    def test_follows(self):
        for name in ("cnn", "near", "worse"):
            self.get("push", "cnn", f"{name}.tenon")
        self.get("promote", "cnn:1", "live")
        with self.serve("cnn@live") as server:
            self.assertEqual(1, self.version(server))
            for step, expected in ((("promote", "cnn:3", "live"), 3), (("rollback", "cnn@live"), 1), (("promote", "cnn:2", "live"), 2)):
                self.get(*step)
                server.wait_until(lambda: self.version(server) == expected)
                self.assertEqual([str(expected)], [row["version"] for row in server.post("/v2/repository/index")[1] if row["state"] == "READY"])
            self.assertEqual(["cnn:3"], self.get("gc", "--keep", "0")["deleted_versions"])
            self.assertEqual(2, self.version(server))
            server.call("POST", "/v2/repository/models/cnn/load")
            self.assertEqual(2, self.version(server))

    def test_many_models(self):
        """One server follows an alias for every engine that has it, with one query; what is no engine or not selected is passed over."""
        for name, team in (("first", "vision"), ("second", "vision"), ("third", "speech")):
            for engine in ("cnn", "near"):
                self.get("push", name, f"{engine}.tenon", "--meta", f"team={team}")
            self.get("promote", f"{name}:1", "live")
        self.get("push", "test", "test.npz")
        self.get("promote", "test:1", "live")
        listed = lambda server: {row["name"]: row["version"] for row in server.post("/v2/repository/index")[1] if row["state"] == "READY"}
        version = lambda server, name: server.infer(name)[1].get("model_version")
        with self.serve("@live") as server:
            server.wait_until(lambda: listed(server) == {"first": "1", "second": "1", "third": "1"})
            self.get("promote", "second:2", "live")
            server.wait_until(lambda: listed(server) == {"first": "1", "second": "2", "third": "1"})
            self.assertEqual(("1", "2"), (version(server, "first"), version(server, "second")))
            self.get("push", "fourth", "cnn.tenon")
            self.get("promote", "fourth:1", "live")
            server.wait_until(lambda: "fourth" in listed(server))
            # Each is moved by itself.
            self.assertEqual(2, server.post("/v2/tenon/models/third/promote", {"version": 2})[1]["to"])
            server.wait_until(lambda: version(server, "third") == "2")
            self.assertEqual("1", version(server, "first"))
            self.assertEqual(404, server.post("/v2/tenon/models/nothing/promote", {"version": 2})[0])
            self.assertIsNone(json.loads(server.get("/v2/tenon/status")[1])["registry"])
        with self.serve("@live", "--select", "team=vision") as server:
            server.wait_until(lambda: set(listed(server)) == {"first", "second"})
        with self.serve("first@live", "registry:third@live") as server:
            server.wait_until(lambda: set(listed(server)) == {"first", "third"})

    def test_damaged_version(self):
        """What was served is served on, and the reason is in the index and once in the log; a push of the same bytes mends it."""
        for name in ("cnn", "near"):
            self.get("push", "cnn", f"{name}.tenon")
        self.get("promote", "cnn:1", "live")
        with self.serve("cnn@live") as server:
            digest = self.get("show", "cnn:2")["hash"]
            blob = self.folder / self.registry / "blobs" / digest[:2] / digest
            blob.chmod(0o644)
            blob.write_bytes(b"no engine")
            self.get("promote", "cnn:2", "live")
            server.wait_until(lambda: any("TN1005" in row["reason"] for row in server.post("/v2/repository/index")[1]))
            self.assertEqual(1, self.version(server))
            self.assertEqual(200, server.get("/v2/health/ready")[0])
            self.assertEqual(1, len(server.logged("cannot be followed")), server.log)
            self.assertTrue(self.get("push", "cnn", "near.tenon")["existing"])
            server.wait_until(lambda: self.version(server) == 2)

    def test_registry_that_goes(self):
        self.get("push", "cnn", "cnn.tenon")
        self.get("promote", "cnn:1", "live")
        with self.serve("cnn@live") as server:
            shutil.rmtree(self.folder / self.registry)
            server.wait_until(lambda: server.log)
            self.assertEqual(1, self.version(server))

    def test_nothing_to_serve(self):
        self.get("push", "cnn", "cnn.tenon")
        self.get("push", "model", CNN)
        self.get("promote", "model:1", "live")
        for what, code in (("@live", "TN0804"), ("@1", "TN1004"), ("cnn@live", "TN1003"), ("cnm@live", "TN1003"), ("cnn", "TN1004"), ("cnn:1", "TN1004"), ("model@live", "TN0804"), ("../x@live", "TN1004")):
            with self.assertRaisesRegex(RuntimeError, code):
                self.serve(what)
        with self.assertRaisesRegex(RuntimeError, "TN1001"):
            Server("registry:cnn@live", "--registry", self.folder / "nowhere")


if __name__ == "__main__":
    unittest.main()
