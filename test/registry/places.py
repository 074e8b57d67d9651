"""Where a test's registries are, and how it talks to them from the outside: a folder, or PostgreSQL and S3 (shared.py)."""

import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
import shared  # noqa: E402
from server import TENON  # noqa: E402


class Place:
    """Files a.txt and b.txt are in the folder of the class."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TENON_REGISTRY", "PG"))}
        cls.environment |= {"XDG_CACHE_HOME": str(cls.folder / "cache"), "XDG_DATA_HOME": str(cls.folder / "data")}
        for name in ("a", "b"):
            (cls.folder / f"{name}.txt").write_text(f"the file {name}\n" * 1000)

    def setUp(self):
        self.name = self.id().rsplit(".", 1)[1].lower()[-40:]
        self.registry = self.place()
        shutil.rmtree(self.folder / "cache", ignore_errors=True)

    def command(self, *arguments):
        return [TENON, "registry", *map(str, arguments), "--registry", self.registry]

    def call(self, *arguments, token="", **more):
        environment = dict(self.environment, **({"TENON_REGISTRY_TOKEN": token} if token else {}))
        return subprocess.run(self.command(*arguments), cwd=self.folder, capture_output=True, text=True, env=environment, timeout=120, **more)

    def get(self, *arguments, **more):
        done = self.call(*arguments, "--json", **more)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def push(self, name, file="a.txt", **more):
        return self.get("push", name, file, "--kind", "report", **more)

    def refused(self, code, *arguments, **more):
        done = self.call(*arguments, **more)
        self.assertIn(f"error {code}: ", done.stderr, arguments)
        self.assertNotEqual(0, done.returncode)
        return done.stderr

    def events(self, **more):
        return [(event["action"], event["version"]) for event in self.get("history", **more)["events"]]

    def assertSound(self):
        self.assertEqual([], self.get("verify")["problems"])

    def at_once(self, *commands):
        """Results of commands that run at the same time."""
        running = [subprocess.Popen(self.command(*command), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment) for command in commands]
        outputs = [each.communicate(timeout=120) for each in running]
        return [(each.returncode, *output) for each, output in zip(running, outputs)]


class InFolder(Place):
    def place(self):
        return self.folder / f"registry-{self.name}"

    def sql(self, statement):
        with contextlib.closing(sqlite3.connect(self.registry / "registry.db")) as database:
            database.execute(statement)
            database.commit()

    def stored(self, digest):
        return self.registry / "blobs" / digest[:2] / digest


class InServers(Place):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.servers = shared.Shared()
        cls.addClassCleanup(cls.servers.close)
        cls.environment |= cls.servers.environment

    def setUp(self):
        super().setUp()
        self.servers.proxy.faults, self.servers.proxy.stays = [], False

    def place(self, folder=None, user="tenon"):
        return self.servers.postgres.url(self.servers.query(self.name), folder, user)

    def sql(self, statement):
        return self.servers.postgres.sql(f"SET search_path TO {self.name}; {statement}")

    def stored(self, digest):
        return self.servers.store.bucket / self.name / digest
