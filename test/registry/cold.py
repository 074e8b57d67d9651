"""A server over models whose files are in S3: they come when they are asked for, go on after a break, and leave the disk for others."""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest
from unittest import mock

import shared
from canary import SIZE, write_engine
from server import TENON, Server  # the path to it is set by canary.py

MODELS, WIDTH, LIMIT = 6, 300, 2 << 20  # not all of the engines fit into the limit
BODY = {"inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "FP32", "data": [1] * SIZE}]}


@unittest.skipIf(shared.missing(), shared.missing())
class Cold(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.servers = shared.Shared()
        cls.addClassCleanup(cls.servers.close)
        for factor in range(1, MODELS + 2):
            write_engine(cls.folder / f"{factor}.tenon", factor, WIDTH)

    def setUp(self):
        name = self.id().rsplit(".", 1)[1].lower()
        self.cache = self.folder / name
        changed = mock.patch.dict(os.environ, dict(self.servers.environment, XDG_CACHE_HOME=str(self.cache), TENON_REGISTRY=self.servers.postgres.url(self.servers.query(name))))
        changed.start()
        self.addCleanup(changed.stop)
        self.bucket = self.servers.store.bucket / name
        self.set_faults()
        self.hashes = {}
        for factor in range(1, MODELS + 1):
            self.hashes[factor] = self.registry("push", f"m{factor}", self.folder / f"{factor}.tenon")["hash"]
            self.registry("promote", f"m{factor}:1", "production")
        self.forget()
        self.servers.proxy.ranges.clear()

    def registry(self, *arguments):
        done = subprocess.run([TENON, "registry", *map(str, arguments), "--json"], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def set_faults(self, *faults, stays=False):
        self.servers.proxy.faults, self.servers.proxy.stays = list(faults), stays

    def forget(self):
        for path in self.cache.rglob("*"):
            if path.is_file():
                path.unlink()

    def serve(self, *arguments):
        return Server("registry:@production", "--cache-size", LIMIT, *arguments)

    def gets(self, factor=None):
        """The ranges that were asked for of a model's engine, or of all."""
        return [span for command, path, span in self.servers.proxy.ranges if command == "GET" and path.endswith(self.hashes[factor] if factor else "") and "?" not in path]

    def ask(self, server, factor, model=None, **parameters):
        status, value = server.post(f"/v2/models/m{model or factor}/infer", dict(BODY, parameters=parameters))
        if status == 200:
            self.assertEqual([factor] * SIZE, value["outputs"][0]["data"], value)
        return status, value

    def assertRight(self, server, factor, model=None):
        status, value = self.ask(server, factor, model)
        self.assertEqual(200, status, value)

    def used(self):
        return sum(path.stat().st_blocks * 512 for path in self.cache.rglob("*") if path.is_file())

    def test_on_demand(self):
        """Nothing comes before it is asked for, once for all who ask, while others are answered; the disk's bound holds."""
        with self.serve() as server:
            self.assertEqual(MODELS, len(server.post("/v2/repository/index")[1]))
            self.assertEqual([], self.gets())
            self.assertRight(server, 1)
            self.servers.proxy.release.clear()
            self.set_faults("held")
            with contextlib.ExitStack() as stack:
                results = []
                for _ in range(8):
                    client = threading.Thread(target=lambda: results.append(self.ask(server, 2)[0]))
                    client.start()
                    stack.callback(client.join)
                stack.callback(self.servers.proxy.release.set)
                server.wait_until(lambda: self.gets(2))
                for _ in range(20):
                    self.assertRight(server, 1)
                self.assertEqual([], results, "they wait for the file, others do not")
                self.assertEqual(504, self.ask(server, 2, timeout=100_000)[0], "no longer than they say")
            self.assertEqual(([200] * 8, 1), (results, len(self.gets(2))))
            self.assertEqual("x", json.loads(server.get("/v2/models/m3")[1])["inputs"][0]["name"])
            for factor in [*range(1, MODELS + 1)] * 2:
                self.assertRight(server, factor)
                self.assertLessEqual(self.used(), LIMIT)
            self.assertGreater(server.metric("tenon_cache_evictions_total", ""), 0)
            self.assertEqual(len(self.gets()), server.metric("tenon_cache_fetches_total", ""))
            self.assertLessEqual(server.metric("tenon_cache_bytes", ""), LIMIT)
            self.assertEqual(LIMIT, server.metric("tenon_cache_limit_bytes", ""))

    def test_breaks(self):
        """A transfer goes on where it broke, also in another process; what is damaged in the cache comes again."""
        with self.serve() as server:
            self.set_faults("short")
            self.assertRight(server, 1)
            first, second = self.gets(1)
            self.assertIsNone(first)
            half = (self.folder / "1.tenon").stat().st_size // 2
            self.assertEqual(f"bytes={half}-", second)
            self.set_faults("short", *[503] * 5)
            status, value = self.ask(server, 2)
            self.assertEqual(503, status)
            self.assertIn("TN1013", value["error"])
        self.set_faults()
        with self.serve() as server:
            self.assertEqual([None], self.gets(2)[:1])
            self.servers.proxy.ranges.clear()
            self.assertRight(server, 2)
            self.assertEqual([f"bytes={half}-"], self.gets(2))
        for path in self.cache.rglob(self.hashes[2]):
            path.chmod(0o644)
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        (self.cache / "tenon/registry/unfinished" / self.hashes[3]).write_bytes(b"?" * half)
        self.servers.proxy.ranges.clear()
        with self.serve() as server:
            self.assertRight(server, 2)
            self.assertRight(server, 3)
            self.assertEqual(([None], [f"bytes={half}-", None]), (self.gets(2), self.gets(3)))

    def test_failures(self):
        """A model whose file does not come is told and tried again; the others are served, and the server stays ready."""
        stored = self.bucket / self.hashes[1]
        content = stored.read_bytes()
        with self.serve() as server:
            stored.write_bytes(content[:-1] + b"?")
            status, value = self.ask(server, 1)
            self.assertEqual(503, status)
            self.assertIn("is damaged", value["error"])
            before = len(self.gets(1))
            self.assertEqual(503, self.ask(server, 1)[0])
            self.assertEqual(before, len(self.gets(1)), "not at once again")
            self.assertEqual(200, server.get("/v2/health/ready")[0])
            self.assertEqual(503, server.get("/v2/models/m1/ready")[0])
            self.assertRight(server, 2)
            stored.write_bytes(content)
            server.wait_until(lambda: self.ask(server, 1)[0] == 200)
            self.assertEqual(1, server.metric("tenon_cache_failures_total", ""))

    def test_moves(self):
        """An alias of a model in memory moves once the file is here; of one that is not in memory nothing comes."""
        with self.serve() as server:
            self.assertRight(server, 1)
            hashed = self.registry("push", "m1", self.folder / f"{MODELS + 1}.tenon")["hash"]
            self.registry("push", "m2", self.folder / f"{MODELS + 1}.tenon")
            self.forget()
            self.set_faults(403, stays=True)
            self.registry("promote", "m1:2", "production")
            self.registry("promote", "m2:2", "production")
            server.wait_until(lambda: any("Fault403" in line for line in server.log))
            self.assertRight(server, 1)
            self.assertEqual(200, server.get("/v2/health/ready")[0])
            self.set_faults()
            server.wait_until(lambda: server.post("/v2/models/m1/infer", BODY)[1].get("model_version") == "2")
            self.assertRight(server, MODELS + 1, model=1)
            self.assertEqual([], [path for _, path, _ in self.servers.proxy.ranges if path.endswith(self.hashes[2])])
            self.assertRight(server, MODELS + 1, model=2)
            self.assertTrue(any(path.endswith(hashed) for _, path, _ in self.servers.proxy.ranges))
            # One that is asked for by name comes before its first request.
            self.assertEqual((200, {}), server.post("/v2/repository/models/m3/load"))
            self.assertEqual(1, len(self.gets(3)))

    def test_two_servers(self):
        """Servers that share a cache fetch a file once, and no server removes what another has loaded."""
        with self.serve() as one, self.serve() as two:
            self.set_faults("slow")
            clients = [threading.Thread(target=self.assertRight, args=(server, 1)) for server in (one, two)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            self.assertEqual([None], self.gets(1))
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline:
                for factor in range(2, MODELS + 1):
                    self.assertRight(two, factor)
                self.assertLessEqual(self.used(), LIMIT)
            self.assertTrue(list(self.cache.rglob(self.hashes[1])), "the first server has it in memory")


if __name__ == "__main__":
    unittest.main()
