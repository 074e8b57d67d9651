"""What every registry keeps to, over a folder and over PostgreSQL with S3; and what the shared one does when a part of it fails.

Folder needs nothing; Shared starts both servers (shared.py), and is skipped without them.
"""

import datetime
import hashlib
import hmac
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
import places  # noqa: E402
import receiver  # noqa: E402
import shared  # noqa: E402
from server import SOURCE, TENON  # noqa: E402


PAGE = SOURCE / "docs/guides/registry-at-scale.md"


class Contract:
    def test_versions(self):
        pushed = self.push("data")
        self.assertEqual((1, hashlib.sha256((self.folder / "a.txt").read_bytes()).hexdigest()), (pushed["version"], pushed["hash"]))
        self.assertEqual((1, True), tuple(self.push("data")[key] for key in ("version", "existing")))
        self.assertEqual(2, self.push("data", "b.txt")["version"])
        shutil.rmtree(self.folder / "cache", ignore_errors=True)
        self.get("show", "data:1", "-o", "out.txt")
        self.assertEqual((self.folder / "a.txt").read_bytes(), (self.folder / "out.txt").read_bytes())
        for name in ("B", "a", "a-b", "a.b", "Z"):
            self.push(name)
        self.assertEqual(["B", "Z", "a", "a-b", "a.b", "data"], [row["name"] for row in self.get("list")["objects"]], "in the order of bytes")
        self.get("promote", "data:2", "live")
        self.get("promote", "data:1", "live")
        self.refused("TN1006", "promote", "data:2", "live", "--expect", "2")
        self.assertEqual(2, self.get("rollback", "data@live")["to"])
        self.refused("TN1012", "rollback", "data@live")
        self.refused("TN1003", "show", "data:3")
        self.refused("TN1003", "show", "date")
        self.get("gate", "data@live", "--rule", "top1 >= 20%")
        self.refused("TN1007", "promote", "data:1", "live")
        self.assertEqual(["data:1"], self.get("gc", "--keep", "0")["deleted_versions"][-1:])
        self.get("gate", "data@live", "--no-rules")
        self.refused("TN1003", "promote", "data:1", "live")
        head = self.get("verify")
        self.assertEqual(([], 7), (head["problems"], head["versions"]))
        self.assertEqual([], self.get("verify", "--head", head["head"])["problems"])
        self.refused("TN1011", "verify", "--head", "0" * 64)

    def test_files_of_before(self):
        """A registry that was made before there were tokens gets their table."""
        if isinstance(self.registry, pathlib.Path):
            self.push("data")
            self.sql("DROP TABLE token")
            self.assertEqual([], self.get("token", "list")["tokens"])

    def test_at_once(self):
        """Numbers have no gaps, one of the promotions wins, and the chain of events is one."""
        for i in range(8):
            (self.folder / f"many{i}.txt").write_text(f"{i}")
        done = self.at_once(*[("push", "many", f"many{i}.txt", "--kind", "report", "--json") for i in range(8)])
        self.assertEqual(list(range(1, 9)), sorted(json.loads(output)["version"] for _, output, _ in done), done)
        self.get("promote", "many:1", "live")
        done = self.at_once(*[("promote", f"many:{i}", "live", "--expect", "1") for i in range(2, 7)])
        self.assertEqual([0] + [1] * 4, sorted(code for code, _, _ in done), done)
        self.assertEqual(4, sum("TN1006" in error for _, _, error in done))
        self.assertSound()

    def folder_of(self, name, **files):
        for path, content in files.items():
            target = self.folder / name / path.replace("__", "/").replace("_", ".")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
        return self.folder / name

    def test_several_files(self):
        """A version of a folder: its hash is that of the list of its files, and a file that two versions have is stored once."""
        source = self.folder_of("words", labels_txt="cat\n", onnx__weights_bin="w" * 5000, tokenizer_json="{}")
        pushed = self.get("push", "words", source, "--kind", "data")
        paths = ["labels.txt", "onnx/weights.bin", "tokenizer.json"]
        files = [{"path": path, "sha256": hashlib.sha256((source / path).read_bytes()).hexdigest(), "bytes": (source / path).stat().st_size} for path in paths]
        manifest = json.dumps({"files": files}, separators=(",", ":"))
        self.assertEqual((files, 5006, hashlib.sha256(manifest.encode()).hexdigest()), (pushed["files"], pushed["bytes"], pushed["hash"]))
        self.assertTrue(self.get("push", "words", source, "--kind", "data")["existing"])
        (source / "labels.txt").write_text("dog\n")
        self.assertEqual(2, self.get("push", "words", source, "--kind", "data")["version"])
        self.assertEqual(6, self.get("verify")["files"], "two lists, two labels, and what both have")
        shutil.rmtree(self.folder / "cache", ignore_errors=True)
        self.get("show", "words:1", "-o", "out-words")
        self.assertEqual({"labels.txt": b"cat\n", "onnx/weights.bin": b"w" * 5000, "tokenizer.json": b"{}"},
                         {str(path.relative_to(self.folder / "out-words")): path.read_bytes() for path in (self.folder / "out-words").rglob("*") if path.is_file()})
        self.refused("TN0105", "show", "words:1", "-o", "out-words")
        shutil.rmtree(self.folder / "out-words")
        collected = self.get("gc", "--keep", "1")
        self.assertEqual((["words:1"], 2), (collected["deleted_versions"], collected["deleted_files"]))
        self.assertFalse(self.stored(pushed["hash"]).exists())
        self.assertTrue(self.stored(files[1]["sha256"]).exists())
        self.assertEqual(files, self.get("show", "words:1")["files"], "what it was stays known")
        self.assertSound()
        path = self.stored(files[1]["sha256"])
        path.chmod(0o644)
        path.write_text("v" * 5000)
        shutil.rmtree(self.folder / "cache", ignore_errors=True)
        self.refused("TN1005", "show", "words", "-o", "out-words")
        self.assertFalse((self.folder / "out-words").exists())
        self.refused("TN1005", "verify")
        self.assertTrue(self.get("push", "words", source, "--kind", "data")["existing"], "heals")
        self.assertSound()

    def test_files_that_are_refused(self):
        plain = {"a_txt": "a\n", "b__c_txt": "c\n"}
        for number, (code, spoil) in enumerate((
                ("TN1010", lambda folder: (folder / "link").symlink_to("a.txt")), ("TN1010", lambda folder: (folder / "loop").symlink_to("b")),
                ("TN1010", lambda folder: (folder / "A.TXT").write_text("a")), ("TN1010", lambda folder: self.folder_of(folder.name, B__d_txt="d")),
                ("TN1010", lambda folder: (folder / "a\\b").write_text("a")), ("TN1010", lambda folder: (folder / "a\nb").write_text("a")),
                ("TN1010", lambda folder: (folder / "b/model.pkl").write_bytes(b"\x80\x02cposix\nsystem\nq\x00.")), ("TN1010", lambda folder: shutil.copy("/bin/true", folder / "b")),
                ("TN1010", lambda folder: os.mkfifo(folder / "pipe")), ("TN0105", lambda folder: [(folder / f"{i}.txt").write_text("x") for i in range(1000)]),
                ("TN0105", lambda folder: [path.unlink() for path in folder.rglob("*.txt")]))):
            folder = self.folder_of(f"{self.name}{number}", **plain)
            spoil(folder)
            self.refused(code, "push", "words", folder, "--kind", "data")
        self.refused("TN0105", "push", "words", "a.txt", "b.txt", "--main", "c.txt")
        self.refused("TN1010", "push", "words", "a.txt", self.folder / f"{self.name}0" / "a.txt")

    def test_registry_of_before(self):
        """One without the tables for versions of several files opens, and gets them when it needs them."""
        self.push("data")
        self.sql("DROP TABLE part")
        self.sql("DROP TABLE removal")
        self.sql("PRAGMA user_version = 1" if isinstance(self.registry, pathlib.Path) else "UPDATE registry SET format = 1")
        self.push("data", "b.txt")
        self.assertSound()
        self.assertEqual(0, self.get("gc", "--dry-run")["deleted_files"])
        self.assertEqual(1, self.get("push", "words", self.folder_of("old-words", a_txt="a"), "--kind", "data")["version"])
        self.assertSound()
        self.assertEqual(["data:1"], self.get("gc", "--keep", "1")["deleted_versions"])
        self.assertSound()

    def test_unchangeable(self):
        self.push("data")
        for statement in ("UPDATE version SET note = 'x'", "DELETE FROM version", "UPDATE event SET \"by\" = 'x'", "DELETE FROM event"):
            with self.assertRaises((subprocess.CalledProcessError, sqlite3.IntegrityError)):
                self.sql(statement)
        self.assertSound()
        self.sql("INSERT INTO alias VALUES ('data', 'live', 1)")
        self.refused("TN1011", "verify")

    def test_damaged_file(self):
        digest = self.push("data")["hash"]
        self.push("other", "b.txt")
        for damage in (lambda path: path.write_bytes(b"x" * path.stat().st_size), lambda path: path.write_bytes(b"short"), lambda path: path.unlink()):
            path = self.stored(digest)
            path.chmod(0o644)
            damage(path)
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
            (self.folder / "out.txt").unlink(missing_ok=True)
            self.refused("TN1005", "show", "data", "-o", "out.txt")
            self.assertFalse((self.folder / "out.txt").exists())
            self.refused("TN1005", "verify")
            self.assertTrue(self.push("data")["existing"])
            self.get("show", "data", "-o", "out.txt")
        self.assertSound()

    def test_files_that_nobody_has(self):
        digest = self.push("data")["hash"]
        stray = self.stored("0" * 64)
        stray.parent.mkdir(exist_ok=True)
        stray.write_text("stray")
        self.assertEqual((1, 5), tuple(self.get("gc", "--dry-run")[key] for key in ("deleted_files", "deleted_bytes")))
        self.assertEqual(1, self.get("gc")["deleted_files"])
        self.assertFalse(stray.exists())
        self.assertTrue(self.stored(digest).exists())

    def test_tokens(self):
        self.push("data")
        self.refused("TN0105", "token", "add", "reader", "--role", "read")
        self.refused("TN0105", "token", "add", "root")
        self.refused("TN1004", "token", "add", "../x", "--role", "admin")
        admin = self.get("token", "add", "root", "--role", "admin")["token"]
        for command in (("list",), ("push", "data", "b.txt", "--kind", "report"), ("token", "list"), ("verify",)):
            self.refused("TN1014", *command)
            self.refused("TN1014", *command, token="tenon_" + "0" * 64)
        tokens = {role: self.get("token", "add", f"a-{role}", "--role", role, token=admin)["token"] for role in ("read", "push", "promote")}
        self.refused("TN0105", "token", "add", "a-read", "--role", "read", token=admin)
        tokens["admin"] = admin
        allowed = {"list": ["list"], "push": ["push", "data", "b.txt", "--kind", "report"], "promote": ["promote", "data:1", "live"], "rules": ["gate", "data@live", "--rule", "top1 >= 1%"],
                   "gc": ["gc", "--dry-run"], "tokens": ["token", "add", "x", "--role", "read"]}
        needs = {"list": "read", "push": "push", "promote": "promote", "rules": "promote", "gc": "admin", "tokens": "admin"}
        order = ["read", "push", "promote", "admin"]
        for role, token in tokens.items():
            for what, command in allowed.items():
                if order.index(role) >= order.index(needs[what]):
                    self.get(*command, token=token)
                else:
                    self.assertIn(f"a-{role}", self.refused("TN1014", *command, token=token))
        by = {(event["action"], event["by"]) for event in self.get("history", token=admin)["events"]}
        self.assertLessEqual({("push", "a-push"), ("promote", "a-promote"), ("token", "root")}, by)
        self.get("token", "revoke", "a-push", token=admin)
        self.assertIn("revoked", self.refused("TN1014", "list", token=tokens["push"]))
        self.refused("TN1003", "token", "revoke", "a-push", token=admin)
        self.refused("TN0105", "token", "revoke", "root", token=admin)
        rows = {row["name"]: row for row in self.get("token", "list", token=admin)["tokens"]}
        self.assertTrue(rows["a-push"]["revoked"] and rows["root"]["used"] and not rows["root"]["revoked"])
        self.assertNotIn(admin, json.dumps(rows) + self.call("history", "--json", token=admin).stdout)
        self.assertEqual([], self.get("verify", token=admin)["problems"])
        self.sql("UPDATE token SET role = 'admin' WHERE name = 'a-read'")
        self.refused("TN1011", "verify", token=admin)

    def test_tags(self):
        """What is said of a version later: in the history alone, by version and by object."""
        for file in ("a.txt", "b.txt"):
            self.push("data", file)
        self.get("promote", "data:1", "live")
        self.assertEqual({"checked": "a=b", "who": "me"}, self.get("tag", "data@live", "checked=a=b", "who=me")["tags"])
        self.assertEqual({"checked": "no"}, self.get("tag", "data:1", "who=", "checked=no")["tags"])
        self.get("tag", "data", "x=y", "--object")
        listed = self.get("list", "data")
        self.assertEqual(({"x": "y"}, [{}, {"checked": "no"}]), (listed["tags"], [row["tags"] for row in listed["versions"]]))
        self.assertEqual({"checked": "no"}, self.get("show", "data:1")["tags"])
        self.refused("TN1003", "tag", "data:7", "a=b")
        self.refused("TN1003", "tag", "none", "a=b", "--object")
        self.refused("TN0105", "tag", "data:1", "a")
        self.refused("TN1004", "tag", "data:1", "a=\n")
        self.assertSound()

    def test_namespaces(self):
        """Who has a role for a namespace sees and does nothing beyond it."""
        admin = self.get("token", "add", "root", "--role", "admin")["token"]
        for name in ("vision/cnn", "vision/eu/cnn", "visions", "vision", "lang/bert"):
            self.push(name, token=admin)
            self.get("promote", name, "live", token=admin)
        self.get("gate", "lang/bert@live", "--rule", "size <= 1GiB", token=admin)
        give = lambda name, *rights, by=admin: self.get("token", "add", name, *rights, token=by)["token"]
        push, read, both = give("p", "--role", "push", "--namespace", "vision"), give("r", "--role", "read:vision/"), give("b", "--role", "read", "--role", "promote:lang/")
        names = lambda token, *more: [row["name"] for row in self.get("list", *more, token=token)["objects"]]
        vision = ["vision/cnn", "vision/eu/cnn"]
        self.assertEqual([vision, vision, vision, ["vision/eu/cnn"]], [names(read), names(push), names(admin, "vision/"), names(both, "vision/eu/")])
        self.assertEqual(5, len(names(both)))
        self.assertEqual({"vision/cnn", "vision/eu/cnn"}, {event["object"] for event in self.get("history", token=read)["events"]})
        self.assertNotIn("1GiB", self.call("gate", "lang/bert@live", token=read).stdout)
        for command in (("list", "lang/bert"), ("show", "lang/bert"), ("show", "lang/bert@live"), ("show", "visions:1", "-o", "out.txt"), ("history", "lang/bert")):
            self.assertNotIn("lang/bert'?", self.refused("TN1003", *command, token=push))
        self.assertEqual(2, self.push("vision/cnn", "b.txt", token=push)["version"])
        for command in (("push", "vision", "b.txt", "--kind", "report"), ("push", "lang/bert", "b.txt", "--kind", "report"), ("promote", "vision/cnn:1", "live"), ("gc",), ("verify",), ("token", "add", "x", "--role", "read:vision")):
            self.assertIn("push:vision/", self.refused("TN1014", *command, token=push))
        self.refused("TN1014", "push", "vision/cnn", "b.txt", "--kind", "report", token=read)
        self.get("promote", "lang/bert:1", "tried", token=both)
        self.refused("TN1014", "promote", "vision/cnn:2", "live", token=both)
        lead = give("lead", "--role", "admin:vision")
        mate = give("mate", "--role", "promote:vision/eu", by=lead)
        self.get("promote", "vision/eu/cnn:1", "tried", token=mate)
        for rights in (("--role", "read"), ("--role", "read:lang"), ("--role", "read:vision", "--role", "read:lang")):
            self.refused("TN1014", "token", "add", "x", *rights, token=lead)
        self.assertEqual({"p", "r", "lead", "mate"}, {row["name"] for row in self.get("token", "list", token=lead)["tokens"]})
        self.refused("TN1003", "token", "revoke", "root", token=lead)
        self.refused("TN1003", "token", "revoke", "lead", token=mate)
        self.get("token", "revoke", "mate", token=lead)
        for role in ("push:", "push:../x", "push:vision//", "nobody:vision"):
            self.assertRegex(self.call("token", "add", "x", "--role", role, token=admin).stderr, "error TN(0105|1004): ")
        self.assertEqual([], self.get("verify", token=admin)["problems"])

    def test_events_are_told(self):
        """A receiver that is away, that refuses, and a sender that is killed: every event comes, in its order."""
        for file in ("a.txt", "b.txt"):
            self.push("data", file)
        self.get("promote", "data:2", "live", "--reason", "more \N{LATIN SMALL LETTER E WITH ACUTE}")
        state = self.folder / f"{self.name}.json"
        to = lambda url, *more: ("watch", url, "--state", state, "--from", "1", *more)
        self.refused("TN0150", *to("http://127.0.0.1:1/x", "--once"))
        self.refused("TN0105", *to("ftp://127.0.0.1", "--once"))
        self.environment["TENON_WATCH_SECRET"], self.environment["TENON_WATCH_AUTHORIZATION"] = "k" * 80, "Bearer me"
        with receiver.Receiver([500, 404, 302]) as there:
            for _ in range(3):
                self.refused("TN0150", *to(there.url, "--once"))
            self.assertEqual([3, 0], [self.get(*to(there.url, "--once"))["told"] for _ in range(2)])
            self.assertEqual(self.get("history")["events"], there.events())
            for event, (head, raw) in zip(there.events(), there.heads):
                signature = hmac.new(b"k" * 80, raw, "sha256").hexdigest()
                self.assertEqual((event["action"], event["hash"], f"sha256={signature}", "Bearer me"), tuple(head[key] for key in ("X-Tenon-Event", "Idempotency-Key", "X-Tenon-Signature-256", "Authorization")))
            command = [*map(str, self.command(*to(there.url)))]
            for turn in range(6):
                running = subprocess.Popen(command, cwd=self.folder, env=self.environment, stderr=subprocess.DEVNULL)
                there.answers += [500] * (turn % 2)
                for number in range(3):
                    self.get("promote", f"data:{1 + number % 2}", f"turn{turn}")
                shared.wait_until(lambda: there.events()[-1]["id"] > 3 * turn + 3, "one of them")
                self.assertIn("TN1002", self.refused("TN1002", *to(there.url, "--once")))
                running.kill()
                running.wait()
            self.get(*to(there.url, "--once"))
            told = [event["id"] for event in there.events()]
            self.assertEqual(list(range(1, 22)), sorted(set(told)))
            self.assertEqual(sorted(told), told, "twice at most one behind the other")
        with receiver.Receiver() as there:
            state = self.folder / f"{self.name}.logs"
            self.get("watch", there.url, "--otlp", "--state", state, "--action", "promote", "--from", "2", "--once")
            [(path, body)] = there.received
            [scope] = body["resourceLogs"][0]["scopeLogs"]
            self.assertEqual(("/v1/logs", ["tenon.registry.promote"] * 19), (path, [each["eventName"] for each in scope["logRecords"]]))
            bodies = [json.loads(each["body"]["stringValue"]) for each in scope["logRecords"]]
            self.assertEqual([event for event in self.get("history")["events"] if event["action"] == "promote"], bodies)
            kept = json.loads(state.read_text())
            state.write_text(json.dumps({**kept, "hash": "0" * 64}))
            self.refused("TN1011", "watch", there.url, "--state", state, "--once")

    def test_tokens_that_expire(self):
        self.refused("TN0105", "token", "add", "root", "--role", "admin", "--expires", "30d")
        admin = self.get("token", "add", "root", "--role", "admin")["token"]
        for end in ("0d", "1970-01-01", "2027-02-31", "soon", "30"):
            self.refused("TN0105", "token", "add", "x", "--role", "read", "--expires", end, token=admin)
        later = self.get("token", "add", "later", "--role", "admin", "--expires", "30d", token=admin)
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
        soon = self.get("token", "add", "soon", "--role", "push", "--expires", end.strftime("%Y-%m-%dT%H:%M:%SZ"), token=admin)["token"]
        shared.wait_until(lambda: self.call("list", token=soon).returncode, "its end")
        self.assertIn("the token 'soon' expired at ", self.refused("TN1014", "push", "data", "a.txt", "--kind", "report", token=soon))
        self.push("data", token=later["token"])
        self.assertEqual([later["expires"], None], [row["expires"] for row in self.get("token", "list", token=admin)["tokens"]][:2])
        self.refused("TN0105", "token", "revoke", "root", token=later["token"])
        self.assertEqual([], self.get("verify", token=admin)["problems"])


class Folder(places.InFolder, Contract, unittest.TestCase):
    pass


@unittest.skipIf(shared.missing(), shared.missing())
class Shared(places.InServers, Contract, unittest.TestCase):
    def fail(self, *faults, stays=False):
        self.servers.proxy.faults, self.servers.proxy.stays = list(faults), stays

    def test_addresses(self):
        self.push("data")
        self.registry = self.servers.postgres.url(f"schema={self.name}")
        self.assertEqual("data", self.get("list")["objects"][0]["name"], "the database knows where its files are")
        other = self.servers.postgres.url(f"schema={self.name}&blobs=s3://models/elsewhere")
        for code, registry in (("TN0105", other), ("TN0105", "postgresql://tenon:secret@/registry"), ("TN0105", self.servers.postgres.url("schema=a;b")),
                               ("TN0105", "postgresql://host/registry?nonsense=1"), ("TN1001", self.servers.postgres.url("schema=nothing")),
                               ("TN1013", "postgresql://127.0.0.1:1/registry"), ("TN1013", self.servers.postgres.url("schema=x").replace("/registry", "/nowhere"))):
            self.registry = registry
            self.assertNotIn("secret", self.refused(code, "list"))
        for blobs in ("", "&blobs=models", "&blobs=s3://", "&blobs=s3://models/../x", "&blobs=s3://models/"):
            self.registry = self.servers.postgres.url("schema=fresh" + blobs)
            self.refused("TN0105", "push", "data", "a.txt", "--kind", "report")
        self.assertEqual("0", self.servers.postgres.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'fresh'"), "nothing half done")

    def test_environment(self):
        self.push("data")
        done = subprocess.run([TENON, "registry", "list", "--json"], env=dict(self.environment, TENON_REGISTRY=self.registry), capture_output=True, text=True)
        self.assertEqual("data", json.loads(done.stdout)["objects"][0]["name"])
        bare = {name: value for name, value in self.environment.items() if not name.startswith("AWS_")}
        done = subprocess.run(self.command("list"), env=bare, capture_output=True, text=True)
        self.assertIn("AWS_ACCESS_KEY_ID", done.stderr)
        broken = self.folder / "broken"
        broken.mkdir()
        (broken / "libpq.so.5").write_text("no library")
        done = subprocess.run(self.command("list"), env=dict(self.environment, LD_LIBRARY_PATH=str(broken)), capture_output=True, text=True)
        self.assertIn("error TN0721: ", done.stderr)

    def test_folder_for_files(self):
        self.registry = self.servers.postgres.url(f"schema={self.name}&blobs={self.folder}/files")
        digest = self.push("data")["hash"]
        self.get("show", "data", "-o", "out.txt")
        self.assertTrue((self.folder / "files" / digest[:2] / digest).exists())
        self.assertSound()

    def test_store_faults_of_push(self):
        self.push("data")
        for faults, code in (((403,), "TN1013"), ((404,), "TN1013"), ((500,), "TN1013"), ((503,), "TN1013"), (("cut",), "TN1013")):
            self.fail(*faults, stays=True)
            message = self.refused(code, "push", "data", "b.txt", "--kind", "report")
            self.assertIn("s3://models/", message)
            self.assertTrue(not isinstance(faults[0], int) or f"{faults[0]} Fault{faults[0]}: planted" in message, message)
            self.fail()
            self.assertEqual([("push", 1)], self.events())
        self.fail(500, "cut", 429)
        self.assertEqual(2, self.push("data", "b.txt")["version"], "what passes is tried again")
        self.fail("slow")
        self.assertEqual(1, self.push("slow", "b.txt")["version"])
        wrong = dict(self.environment, AWS_SECRET_ACCESS_KEY="wrong")
        done = subprocess.run(self.command("push", "data", "a.txt", "--kind", "report", "--meta", "a=b"), cwd=self.folder, env=wrong, capture_output=True, text=True)
        self.assertRegex(done.stderr, "error TN1013: .* 403 SignatureDoesNotMatch")
        self.assertSound()

    def test_store_faults_of_reads(self):
        self.push("data")
        for faults, code in (((403,), "TN1013"), ((404,), "TN1005"), ((500,), "TN1013"), (("cut",), "TN1013"), (("short",), "TN1013"), (("wrong",), "TN1005")):
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
            (self.folder / "out.txt").unlink(missing_ok=True)
            self.fail(*faults, stays=True)
            self.refused(code, "show", "data", "-o", "out.txt")
            self.assertFalse((self.folder / "out.txt").exists())
            self.assertEqual([], [path for path in (self.folder / "cache").rglob("*") if path.is_file()], "nothing half done")
        for faults in ((500, "short", "cut"), ("slow",)):
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
            self.fail(*faults)
            self.get("show", "data", "-o", "out.txt")
            self.assertEqual((self.folder / "a.txt").read_bytes(), (self.folder / "out.txt").read_bytes())
        self.fail()

    def test_store_faults_of_gc(self):
        """Rows go first: what could not be deleted is by the next."""
        digests = [self.push("data", file)["hash"] for file in ("a.txt", "b.txt")]
        for faults in ((403,), (500,), ("short",)):
            self.fail(*faults, stays=True)
            self.refused("TN1013", "gc", "--keep", "1")
        self.fail()
        self.assertTrue(self.stored(digests[0]).exists())
        self.assertEqual(1, self.get("gc")["deleted_files"])
        self.assertFalse(self.stored(digests[0]).exists())
        self.assertSound()

    def test_cache(self):
        """A file comes once; a damaged one in the cache is not believed."""
        digest = self.push("data")["hash"]
        shutil.rmtree(self.folder / "cache")
        requests = self.servers.proxy.requests
        requests.clear()
        self.get("show", "data", "-o", "out.txt")
        self.get("show", "data", "-o", "out.txt")
        self.assertEqual(1, len(requests))
        cached, = (self.folder / "cache").rglob(digest)
        cached.chmod(0o644)
        cached.write_text("damaged")
        self.get("show", "data", "-o", "out.txt")
        self.assertEqual((2, (self.folder / "a.txt").read_bytes()), (len(requests), (self.folder / "out.txt").read_bytes()))

    def held(self, faults, *command):
        """Starts a command whose request to the store with the last of the faults waits for `release`, and returns when that request has come."""
        self.servers.proxy.release.clear()
        self.fail(*faults)
        running = subprocess.Popen(self.command(*command), cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(running.communicate)
        self.addCleanup(self.servers.proxy.release.set)
        shared.wait_until(lambda: not self.servers.proxy.faults, command[0])
        return running

    def release(self, running):
        self.servers.proxy.release.set()
        self.assertEqual(0, running.wait(), running.stderr.read())

    def test_gc_during_a_push(self):
        """Neither waits for the other."""
        self.push("data")
        push = self.held(["held"], "push", "data", "b.txt", "--kind", "report")
        self.assertEqual(0, self.get("gc")["deleted_files"])
        self.assertEqual([("push", 1)], self.events())
        self.release(push)
        self.assertSound()

    def removal(self):
        """gc is about to remove a file; it has marked it, and the store has not heard of it yet."""
        for file in ("a.txt", "b.txt"):
            self.push("data", file)
        return self.held([None, "held"], "gc", "--keep", "1")

    def test_push_of_what_gc_removes(self):
        gc = self.removal()
        self.assertEqual(1, self.push("other", "b.txt")["version"], "other bytes do not wait")
        push = subprocess.Popen(self.command("push", "data", "a.txt", "--kind", "report"), cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL)
        with self.assertRaises(subprocess.TimeoutExpired, msg="acknowledged before it was certain"):
            push.wait(1)
        self.release(gc)
        self.assertEqual(0, push.wait())
        self.assertEqual(("push", 3), self.events()[-1])
        self.assertSound()
        # Without the mark this finds the loss.
        (self.folder / "c.txt").write_text("c")
        for file in ("c.txt", "b.txt"):
            self.push("last", file)
        gc = self.held([None, "held"], "gc", "--keep", "1")
        self.sql("DELETE FROM removal WHERE hash <> ''")
        self.push("third", "c.txt")
        self.release(gc)
        self.refused("TN1005", "verify")

    def test_gc_that_is_killed(self):
        """What it was about to remove may still go: it is not taken until a gc has ended."""
        gc = self.removal()
        gc.kill()
        gc.wait()
        self.assertIn("gc is removing", self.refused("TN1002", "push", "data", "a.txt", "--kind", "report"))
        self.assertSound()
        self.get("gc")
        self.assertEqual(3, self.push("data", "a.txt")["version"])
        self.assertSound()

    def parts(self, method="PUT"):
        return [path for command, path in self.servers.proxy.requests if command == method and "partNumber=" in path]

    def test_large_file(self):
        """It goes in parts: one that fails is sent again, what a killed push sent is not; nothing is left of one that failed."""
        self.registry += "&part-bytes=5242880"
        large = self.folder / "large.txt"
        for number, content in enumerate((b"one\n", b"two\n", b"three\n"), 1):
            large.write_bytes(content * (12_000_000 // len(content)))
            self.servers.proxy.requests.clear()
            if number == 1:
                self.fail(None, None, None, 500, "cut")
                self.push("large", large)
                self.assertEqual(5, len(self.parts()))
            elif number == 2:
                self.fail(None, None, None, *[503] * 5)
                self.refused("TN1013", "push", "large", large, "--kind", "report")
                self.assertEqual("DELETE", self.servers.proxy.requests[-1][0])
                self.servers.proxy.requests.clear()
                self.push("large", large)
                self.assertEqual(3, len(self.parts()), "nothing was left of it")
            else:
                killed = self.held([*[None] * 4, "gone"], "push", "large", large, "--kind", "report")
                killed.kill()
                killed.wait()
                self.servers.proxy.release.set()
                self.get("gc")
                self.servers.proxy.requests.clear()
                self.push("large", large)
                self.assertEqual(1, len(self.parts()), "two were there")
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
            (self.folder / "out.txt").unlink(missing_ok=True)
            self.get("show", "large", "-o", "out.txt")
            self.assertEqual(large.read_bytes(), (self.folder / "out.txt").read_bytes())
        self.assertSound()
        large.write_bytes(b"four\n" * 2_400_000)
        killed = self.held([*[None] * 3, "gone"], "push", "large", large, "--kind", "report")
        killed.kill()
        killed.wait()
        self.servers.proxy.release.set()
        self.servers.proxy.requests.clear()
        self.fail(None, "old")
        self.get("gc")
        self.assertEqual(1, sum(command == "DELETE" for command, _ in self.servers.proxy.requests), "an upload that nobody went on with")

    def test_commit_without_an_answer(self):
        """Nobody said how the commit ended: the registry looks, and says what is."""
        self.push("data")
        self.registry = self.place(self.servers.database_proxy.folder)
        self.servers.database_proxy.cut = "after"
        self.assertEqual(2, self.push("data", "b.txt")["version"])
        self.servers.database_proxy.cut = "before"
        self.assertIn("nothing was changed", self.refused("TN1013", "promote", "data:2", "live"))
        self.assertEqual([("push", 1), ("push", 2)], self.events())
        self.servers.database_proxy.cut = "after"
        self.get("promote", "data:2", "live")
        self.servers.database_proxy.cut = "after"
        self.get("gc", "--keep", "1")
        self.assertEqual([("push", 1), ("push", 2), ("promote", 2), ("delete", 1)], self.events())
        self.assertSound()

    def test_server_that_goes(self):
        self.push("data")
        self.servers.postgres.stop()
        try:
            self.refused("TN1013", "list")
            self.refused("TN1013", "push", "data", "b.txt", "--kind", "report")
        finally:
            self.servers.postgres.start()
        self.assertEqual([("push", 1)], self.events())
        self.assertSound()

    def test_busy(self):
        """Who stands still in a transaction keeps writers out, and they are told; readers go on."""
        self.push("data")
        holder = subprocess.Popen([shared.PROGRAMS[-1] / "psql", "-h", self.servers.postgres.folder, "-U", "tenon", "-d", "registry", "-q"], stdin=subprocess.PIPE, text=True)
        keys = self.sql("SELECT 1")  # a connection of its own
        self.assertEqual("1", keys)
        holder.stdin.write(f"BEGIN; LOCK TABLE {self.name}.event IN EXCLUSIVE MODE;\n")
        holder.stdin.flush()
        try:
            shared.wait_until(lambda: self.sql("SELECT count(*) FROM pg_locks WHERE mode = 'ExclusiveLock' AND locktype = 'relation'") != "0", "the lock")
            self.assertIn("TN1002", self.refused("TN1002", "promote", "data:1", "live"))
            self.assertEqual(1, len(self.get("list")["objects"]))
        finally:
            holder.communicate("ROLLBACK;\n")
        self.get("promote", "data:1", "live")

    def test_rights(self):
        """A user of the database that may only read can look and serve, and no more."""
        self.push("data")
        statements = re.search(r"^```\n(CREATE ROLE.*?)^```$", PAGE.read_text(), re.M | re.S).group(1)
        self.servers.postgres.sql(re.sub(r"\btenon\b", self.name, statements))
        admin = self.get("token", "add", "root", "--role", "admin")["token"]
        self.registry = self.place(user="reader")
        self.get("show", "data", "-o", "out.txt", token=admin)
        for command in (("promote", "data:1", "live"), ("gc",), ("token", "add", "me", "--role", "admin")):
            self.refused("TN1013", *command, token=admin)
        self.servers.postgres.sql("DROP OWNED BY reader; DROP ROLE reader")

    def test_page(self):
        """The commands about tokens, as they stand in docs/guides/registry-at-scale.md."""
        script = re.search(r"^```\n(export TENON_REGISTRY_TOKEN.*?)^```$", PAGE.read_text(), re.M | re.S).group(1)
        environment = dict(self.environment, PATH=f"{TENON.parent}{os.pathsep}{os.environ['PATH']}", TENON_REGISTRY=self.registry)
        done = subprocess.run(["bash", "-ec", script], env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("'ci' is revoked", done.stdout)


if __name__ == "__main__":
    unittest.main()
