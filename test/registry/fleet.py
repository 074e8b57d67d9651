"""Servers that follow an alias of a registry on PostgreSQL and S3 (shared.py): through failures of both, and three behind haproxy."""

import contextlib
import copy
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
import shared  # noqa: E402
from server import SOURCE, TENON, Server, compile_cnn, request  # noqa: E402


@unittest.skipIf(shared.missing(), shared.missing())
class Serving(unittest.TestCase):
    """Servers that follow an alias of a shared registry. The engines compute the same."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.servers = shared.Shared()
        cls.addClassCleanup(cls.servers.close)
        changed = mock.patch.dict(os.environ, dict(cls.servers.environment, XDG_CACHE_HOME=str(cls.folder / "cache"), TENON_REGISTRY=cls.servers.postgres.url(cls.servers.query("serving"))))
        changed.start()
        cls.addClassCleanup(changed.stop)
        for most in (64, 32):
            compile_cnn(cls.folder / f"{most}.tenon", "--shape", f"image:[1..{most}]x1x28x28")
            cls.run_tenon("push", "cnn", cls.folder / f"{most}.tenon")

    @staticmethod
    def run_tenon(*arguments):
        subprocess.run([TENON, "registry", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

    def setUp(self):
        self.servers.proxy.faults, self.servers.proxy.stays = [], False
        self.run_tenon("promote", "cnn:1", "live")

    def cached(self):
        return [path for path in (self.folder / "cache").rglob("*") if path.is_file()]

    def forget(self):
        for path in self.cached():
            path.unlink(missing_ok=True)

    def version(self, server):
        status, value = server.infer()
        self.assertEqual(200, status, value)
        return int(value["model_version"])

    def test_servers_that_fail(self):
        """What was loaded is served on without the database and the store; a file that the cache lost comes again when it is needed."""
        with Server("registry:cnn@live") as server:
            self.assertEqual(1, self.version(server))
            self.servers.postgres.stop()
            server.wait_until(lambda: any("cannot be followed" in line for line in server.log))
            self.assertEqual(1, self.version(server))
            self.servers.postgres.start()
            self.servers.proxy.faults, self.servers.proxy.stays = [403], True
            self.forget()
            self.run_tenon("promote", "cnn:2", "live")
            server.wait_until(lambda: any("Fault403" in line for line in server.log))
            self.assertEqual(1, self.version(server))
            self.servers.proxy.faults, self.servers.proxy.stays = [], False
            server.wait_until(lambda: time.sleep(0.1) or self.version(server) == 2)
            self.forget()
            self.assertEqual(2, self.version(server), "what is loaded needs no file")
            self.assertEqual((200, {}), server.post("/v2/repository/models/cnn/load"))
            self.assertTrue(self.cached())

    @unittest.skipIf(not shutil.which("haproxy", path="/usr/sbin:/usr/bin"), "no haproxy")
    def test_three_behind_haproxy(self):
        """With the settings of docs/guides/registry-at-scale.md: a promotion reaches all within two seconds, and a killed server costs no request."""
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(Server("registry:cnn@live")) for _ in range(3)]
            port = shared.free_port()
            settings = re.search(r"^```\n(defaults\n.*?)^```$", (SOURCE / "docs/guides/registry-at-scale.md").read_text(), re.M | re.S).group(1).replace("bind :8000", f"bind 127.0.0.1:{port}")
            for address, server in zip(("10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"), servers):
                settings = settings.replace(address, f"127.0.0.1:{server.port}")
            (self.folder / "haproxy.cfg").write_text(settings)
            balancer = subprocess.Popen([shutil.which("haproxy", path="/usr/sbin:/usr/bin"), "-db", "-f", self.folder / "haproxy.cfg"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(lambda: (balancer.kill(), balancer.wait()))
            front = copy.copy(servers[0])
            front.port = port
            shared.wait_until(lambda: self.answers(front), "haproxy")
            results, ending = [], threading.Event()
            load = threading.Thread(target=lambda: [results.append(self.answers(front)) for _ in iter(lambda: ending.wait(0.005), True)])
            load.start()
            stack.callback(lambda: (ending.set(), load.join()))
            start = time.monotonic()
            self.run_tenon("promote", "cnn:2", "live")
            promoted = time.monotonic()
            for server in servers:
                server.wait_until(lambda: self.version(server) == 2)
            seen = time.monotonic() - promoted
            servers[1].process.kill()
            time.sleep(2)
            ending.set()
            load.join()
            print(f"promoted in {promoted - start:.2f} s, seen by all {seen:.2f} s after that; {results.count(False)} of {len(results)} requests failed", file=sys.stderr)
            self.assertGreater(len(results), 100)
            self.assertLessEqual(results.count(False), 1)

    @staticmethod
    def answers(server):
        try:
            return server.call("POST", "/v2/models/cnn/infer", json.dumps(request()))[0] == 200
        except (OSError, http.client.HTTPException):
            return False


if __name__ == "__main__":
    unittest.main()
