"""Several worker processes: what happens in one is not noticed in another."""

import os
import shutil
import signal
import time
import unittest

from load import Load
from server import Server, ServingTest, request

OWN = 'parameters { key: "worker" value { string_value: "own" } }\n'


class Workers(ServingTest):
    def models(self, **configs):
        """A folder of models with these configurations."""
        folder = self.folder / self.id().rsplit(".", 1)[1]
        for name, config in configs.items():
            (folder / name / "1").mkdir(parents=True)
            shutil.copy(self.folder / "models/cnn.tenon", folder / name / "1/model.tenon")
            (folder / name / "config.pbtxt").write_text(config)
        return folder

    def workers(self, server):
        """{name: process id}"""
        return {labels["worker"]: int(value) for labels, value in server.metrics("tenon_worker_process_id")}

    def test_own_by_config(self):
        """Processes come and go with the models that have them; a swap of such a model never shares one."""
        with Server(self.models(a="", b="", c=OWN)) as server:
            first = self.workers(server)
            self.assertEqual({"cpu", "cpu/c/1"}, set(first))
            self.assertEqual(server.worker("a"), server.worker("b"))
            self.assertEqual(first["cpu/c/1"], server.worker("c"))
            self.assertEqual(server.infer("a")[1]["outputs"], server.infer("c")[1]["outputs"])
            self.assertEqual(200, server.post("/v2/repository/models/c/load")[0])
            server.wait_until(lambda: len(self.workers(server)) == 2)
            self.assertNotEqual(first["cpu/c/1"], server.worker("c"))
            self.assertFalse(os.path.exists(f"/proc/{first['cpu/c/1']}"))
            self.assertEqual(200, server.infer("c")[0])
            self.assertEqual(200, server.post("/v2/repository/models/c/unload")[0])
            server.wait_until(lambda: set(self.workers(server)) == {"cpu"})
            self.assertEqual(200, server.get("/v2/health/ready")[0])
            self.assertEqual(0, server.metric("tenon_worker_losses_total", None))

    def test_kill_beside_load(self):
        """kill -9 of one worker under load on both: the other answers every request, and goes on while the one is missing."""
        with Server(self.models(a="", b=OWN), "--threads", 1) as server:
            with Load(server, "a") as steady, Load(server, "b") as struck:
                for _ in range(5):
                    server.wait_until(lambda: server.metric("tenon_requests_running", 'model="b",version="1"') > 0)
                    worker = server.worker("b")
                    server.stop(worker)
                    start = time.monotonic()  # from here on b has nobody who computes until there is another worker
                    server.wait_until(lambda: sum(answer[0] > start for answer in steady.since(start)) > 2)
                    os.kill(worker, signal.SIGKILL)
                    server.wait_until(lambda: any(answer[0] > start and answer[2] == 200 for answer in struck.since(start)))
            self.assertEqual({200}, {answer[2] for answer in steady.answers}, steady.wrong()[:3] + steady.lost()[:3])
            self.assertEqual([], struck.wrong()[:3])
            self.assertLessEqual(len(struck.lost()), 5 * 2)  # of two clients
            self.assertEqual((5, 1), (server.metric("tenon_worker_losses_total", 'worker="cpu/b/1"'), server.metric("tenon_worker_starts_total", 'worker="cpu"')))

    def test_readiness_without_a_worker(self):
        with Server(self.models(a="", b=OWN)) as server:
            # A second end at once: the next start waits a little.
            for starts in [1, 2]:
                server.wait_until(lambda: server.metric("tenon_worker_starts_total", 'worker="cpu/b/1"') == starts)
                os.kill(server.worker("b"), signal.SIGKILL)
            server.wait_until(lambda: server.get("/v2/health/ready")[0] == 503)
            self.refused(server.get("/v2/models/b/ready"), 503, "TN0811")
            self.assertEqual(200, server.get("/v2/models/a/ready")[0])
            self.assertEqual(200, server.infer("b")[0])  # it waits
            self.assertEqual([200, 200], [server.get(f"/v2/{path}/ready")[0] for path in ["health", "models/b"]])

    def test_crashes(self):
        """A model that crashes: those beside it are struck once at most; then it has a worker of its own, and then it is not loaded again."""
        with Server(self.models(good="", bad=""), "--threads", 1) as server:
            with Load(server, "good") as good, Load(server, "bad", threads=1) as bad:
                server.wait_until(lambda: len(good.answers) > 5 and len(bad.answers) > 5)
                self.assertEqual(server.worker("good"), server.worker("bad"))
                # Both run: nobody can tell which it was.
                server.wait_until(lambda: self.crash(server, both=True))
                names = lambda: {labels["worker"] for labels, _ in server.metrics("tenon_model_bytes")}
                server.wait_until(lambda: names() == {"cpu/good/1", "cpu/bad/1"})
                start = time.monotonic()
                while b"TN0821" not in bad.answers[-1][3]:  # a crash does not count where the answer had left the worker
                    self.assertLess(time.monotonic(), start + 60, server.log)
                    time.sleep(0.2)
                    self.crash(server)
                    server.wait_until(lambda: server.worker("bad") is not None or server.infer("bad")[0] == 503)
                self.assertIn(b"crashed its worker process 2 times", bad.answers[-1][3])
                server.wait_until(lambda: sum(answer[0] > start for answer in good.since(start)) > 10)
                after = [answer for answer in good.answers if answer[0] > start]
            self.assertEqual({200}, {answer[2] for answer in after})
            self.refused(server.post("/v2/models/bad/infer", request()), 503, "TN0821")
            self.assertEqual(503, server.get("/v2/health/ready")[0])
            self.assertEqual(200, server.get("/v2/models/good/ready")[0])
            server.wait_until(lambda: not any("bad" in name for name in self.workers(server)))
            self.assertEqual(200, server.post("/v2/repository/models/bad/load")[0])
            self.assertEqual("cpu", next(labels["worker"] for labels, _ in server.metrics("tenon_model_bytes") if labels["model"] == "bad"))

    def crash(self, server, both=False):
        """A fault in the worker of `bad` while it runs it (`both`: and `good` too, in the same worker); whether there was one."""
        worker = server.worker("bad")
        if worker is None:
            return False
        try:
            server.stop(worker)
        except ProcessLookupError:  # the server has yet to notice that this one ended
            return False
        running = lambda model: server.metric("tenon_requests_running", f'model="{model}",version="1"') > 0
        try:
            time.sleep(0.2)  # clients that wait for the stopped worker keep their requests in it
            isRunning = running("bad") and (not both or running("good"))
            if isRunning:
                os.kill(worker, signal.SIGSEGV)
        finally:
            os.kill(worker, signal.SIGCONT)
        return isRunning


if __name__ == "__main__":
    unittest.main()
