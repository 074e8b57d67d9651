"""What changes while a server runs: loads, versions, queues, clients that go, workers that end, and the server's own end."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import threading
import time
import unittest

from server import PIXELS, Server, ServingTest, input_of, request

ROWS = 1500  # keep the worker busy for a while


def slow_body():
    head = {"inputs": [input_of(shape=[ROWS, 1, 28, 28], data=None, parameters={"binary_data_size": 4 * ROWS * PIXELS})]}
    text = json.dumps(head).encode()
    return text + bytes(4 * ROWS * PIXELS), {"Inference-Header-Content-Length": str(len(text))}


class InBackground(threading.Thread):
    """A call in a thread of its own; `result` when it is done."""

    def __init__(self, call):
        super().__init__()
        self.function, self.result = call, None
        self.start()

    def run(self):
        self.result = self.function()

    def wait(self):
        self.join(60)
        return self.result


class Lifecycle(ServingTest):
    def slow(self, server, waits=True):
        """A request that takes a while; with `waits` it runs when this returns."""
        body, headers = slow_body()
        call = InBackground(lambda: server.post("/v2/models/cnn/infer", body, headers=headers))
        if waits:
            server.wait_until(lambda: server.metric("tenon_requests_running") == 1)
        return call

    def test_queue_and_timeouts(self):
        with Server(self.folder / "models", "--queue", 2, "--threads", 1) as server:
            with server.paused():  # what is refused waits for nothing that runs
                slow = [self.slow(server)]
                slow += [self.slow(server, waits=False) for _ in range(2)]
                server.wait_until(lambda: server.metric("tenon_queue_length") == 2)
                status, headers, body = server.call("POST", "/v2/models/cnn/infer", json.dumps(request()).encode())
                self.refused((status, body), 429, "TN0812")
                self.assertEqual("1", headers["Retry-After"])
            self.assertEqual([200] * 3, [each.wait()[0] for each in slow])

            running = self.slow(server)
            status, value = server.post("/v2/models/cnn/infer", dict(request(), parameters={"timeout": 1000}))
            self.refused((status, value), 504, "TN0813")
            self.assertEqual(200, running.wait()[0])
            text = server.get("/metrics")[1]
            self.assertIn(b'outcome="rejected"} 1', text)
            self.assertIn(b'outcome="timed_out"} 1', text)

    def test_client_that_goes(self):
        with Server(self.folder / "models", "--threads", 1) as server:
            running = self.slow(server)
            body = json.dumps(request()).encode()
            for _ in range(5):
                gone = socket.create_connection(("127.0.0.1", server.port))
                gone.sendall(b"POST /v2/models/cnn/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                server.wait_until(lambda: server.metric("tenon_queue_length") == 1)
                gone.close()
                server.wait_until(lambda: server.metric("tenon_queue_length") == 0)
            self.assertEqual(200, running.wait()[0])
            self.assertIn(b'outcome="cancelled"} 5', server.get("/metrics")[1])

    def test_worker_that_ends(self):
        """The request that runs is answered once with an error, the queued ones by the next worker."""
        with Server(self.folder / "models", "--threads", 1) as server:
            for _ in range(3):
                running = self.slow(server)
                queued = InBackground(server.infer)
                server.wait_until(lambda: server.metric("tenon_queue_length") == 1)
                os.kill(server.worker(), signal.SIGKILL)
                self.refused(running.wait(), 500, "TN0814")
                self.assertEqual(200, queued.wait()[0])
                server.wait_until(lambda: server.get("/v2/health/ready")[0] == 200)
            self.assertEqual((4, 3), (server.metric("tenon_worker_starts_total", None), server.metric("tenon_worker_losses_total", None)))

    def test_sandbox(self):
        """The worker has given up what it does not need, and runs models nevertheless."""
        with Server(self.folder / "models") as server:
            status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{server.worker()}/status").read_text().splitlines())
            self.assertEqual(("1", "2"), (status["NoNewPrivs"].strip(), status["Seccomp"].strip()))
            self.assertEqual(200, server.infer()[0])

    def test_crashes(self):
        """A model that ends its worker twice by a fault is not loaded again until somebody asks for it."""
        with Server(self.folder / "models", "--threads", 1) as server:
            for _ in range(2):
                server.wait_until(lambda: server.get("/v2/health/ready")[0] == 200)
                running = self.slow(server)
                os.kill(server.worker("cnn"), signal.SIGSEGV)
                self.refused(running.wait(), 500, "TN0814")
            server.wait_until(lambda: server.infer()[0] != 200)
            self.refused(server.infer(), 503, "TN0821")
            self.assertEqual(503, server.get("/v2/health/ready")[0])
            self.assertIn("TN0821", server.post("/v2/repository/index")[1][0]["reason"])
            server.wait_until(lambda: server.worker() is not None)
            self.assertEqual(200, server.post("/v2/repository/models/cnn/load")[0])
            self.assertEqual(200, server.infer()[0])

    def test_crash_beside_a_load(self):
        """A crash while one model is loaded and another runs counts for neither; each goes into a worker of its own, which tells which it was."""
        models = self.folder / "pair"
        models.mkdir()
        shutil.copy(self.folder / "models/cnn.tenon", models / "cnn.tenon")
        with Server(models, "--threads", 1) as server:
            shutil.copy(models / "cnn.tenon", models / "other.tenon")
            running = self.slow(server)
            with server.paused() as worker:
                load = InBackground(lambda: server.post("/v2/repository/models/other/load"))
                server.wait_until(lambda: b"other" in server.call("POST", "/v2/repository/index", b"")[2] and server.state("other") == "LOADING")
                os.kill(worker, signal.SIGSEGV)
            self.refused(running.wait(), 500, "TN0814")
            self.assertEqual(200, load.wait()[0])
            self.assertEqual({"cpu", "cpu/cnn/1", "cpu/other/1"}, {labels["worker"] for labels, _ in server.metrics("tenon_worker_process_id")})
            running = self.slow(server)  # the first crash that is its own
            os.kill(server.worker("cnn"), signal.SIGSEGV)
            self.refused(running.wait(), 500, "TN0814")
            self.assertEqual([200, 200], [server.infer()[0], server.infer("other")[0]])

    def test_worker_ends_during_an_unload(self):
        with Server(self.folder / "models", "--threads", 1) as server:
            running = self.slow(server)
            unload = InBackground(lambda: server.post("/v2/repository/models/cnn/unload", timeout=10))
            server.wait_until(lambda: server.state() == "UNLOADING")
            os.kill(server.worker(), signal.SIGKILL)
            self.refused(running.wait(), 500, "TN0814")
            self.assertEqual((200, {}), unload.wait())

    def test_loads_at_once(self):
        """Two loads of a model that is not loaded leave one version that serves; an unload goes over a load that is under way."""
        with Server(self.folder / "models") as server:
            load = lambda: server.post("/v2/repository/models/cnn/load")
            self.assertEqual(200, server.post("/v2/repository/models/cnn/unload")[0])
            with server.paused():
                loads = [InBackground(load) for _ in range(2)]
                time.sleep(0.5)
            self.assertEqual([(200, {})] * 2, [each.wait() for each in loads])
            self.assertEqual(200, server.infer()[0])
            self.assertEqual("READY", server.state())
            with server.paused():
                loads = [InBackground(load)]
                time.sleep(0.5)
                self.assertEqual(200, server.post("/v2/repository/models/cnn/unload")[0])
            loads[0].wait()
            self.refused(server.infer(), 503, "TN0811")

    def test_end(self):
        """SIGTERM: what was accepted is answered, new requests are not, and the server ends by itself."""
        with Server(self.folder / "models", "--threads", 1) as server:
            running = [self.slow(server), self.slow(server, waits=False)]
            server.wait_until(lambda: server.metric("tenon_queue_length") == 1)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual([200, 200], [each.wait()[0] for each in running])
            self.assertEqual(0, server.process.wait(10))
            with self.assertRaises(OSError):
                server.get("/v2/health/live")

    def test_loads(self):
        models = self.folder / "triton"
        (models / "cnn/1").mkdir(parents=True)
        shutil.copy(self.folder / "models/cnn.tenon", models / "cnn/1/model.tenon")
        (models / "cnn/config.pbtxt").write_text('name: "cnn"\nmax_batch_size: 8\ninput { name: "image" data_type: TYPE_FP32 dims: [1, 28, 28] }\n')
        (models / "broken/1").mkdir(parents=True)
        (models / "broken/1/model.tenon").write_bytes((models / "cnn/1/model.tenon").read_bytes()[:1000])
        (models / "strange/1").mkdir(parents=True)
        (models / "strange/config.pbtxt").write_text('name: "strange"\nmax_bath_size: 8\n')
        with Server(models, waits=False) as server:
            index = lambda: {row["name"]: row for row in server.post("/v2/repository/index")[1]}
            server.wait_until(lambda: index()["cnn"]["state"] == "READY" and index()["broken"]["state"] == "UNAVAILABLE")
            # The reason of each failed load stands in the index, in the answers, and not ready is not ready.
            self.assertIn("TN0501", index()["broken"]["reason"])
            self.assertIn("config.pbtxt:2: Tenon does not support the field 'max_bath_size'", index()["strange"]["reason"])
            self.refused(server.infer("broken"), 503, "TN0811")
            self.assertIn("TN0805", self.refused(server.infer("strange"), 503, "TN0811"))
            self.refused(server.post("/v2/repository/models/broken/load"), 400, "TN0501")
            self.refused(server.post("/v2/repository/models/absent/load"), 404, "TN0810")
            self.assertEqual(503, server.get("/v2/health/ready")[0])
            self.assertEqual(200, server.infer()[0])
            # The batch of the configuration.
            self.assertEqual(8, json.loads(server.get("/v2/models/cnn/config")[1])["max_batch_size"])
            nine = {"inputs": [input_of(shape=[9, 1, 28, 28], data=[0] * 9 * PIXELS)]}
            self.refused(server.post("/v2/models/cnn/infer", nine), 400, "TN0807")
            # Mended, they load; the server is ready.
            shutil.copy(models / "cnn/1/model.tenon", models / "broken/1/model.tenon")
            (models / "strange/config.pbtxt").write_text('name: "strange"\n')
            shutil.copy(models / "cnn/1/model.tenon", models / "strange/1/model.tenon")
            for name in ["broken", "strange"]:
                self.assertEqual((200, {}), server.post(f"/v2/repository/models/{name}/load"))
                self.assertEqual(200, server.infer(name)[0])
            self.assertEqual(200, server.get("/v2/health/ready")[0])
            # A new version replaces the old one, which is then gone: the policy asks for the latest.
            shutil.copytree(models / "cnn/1", models / "cnn/2")
            self.assertEqual(200, server.post("/v2/repository/models/cnn/load")[0])
            self.assertEqual("2", server.infer()[1]["model_version"])
            self.refused(server.post("/v2/models/cnn/versions/1/infer", request()), 404, "TN0810")
            # A load that fails leaves what serves.
            (models / "cnn/2/model.tenon").write_bytes(b"no engine")
            self.assertEqual(400, server.post("/v2/repository/models/cnn/load")[0])
            self.assertEqual(200, server.infer()[0])
            # Unloaded.
            self.assertEqual((200, {}), server.post("/v2/repository/models/broken/unload"))
            self.refused(server.infer("broken"), 503, "TN0811")
            self.assertEqual("unloaded", index()["broken"]["reason"])
            self.assertEqual(200, server.get("/v2/health/ready")[0])
            self.refused(server.post("/v2/repository/models/cnn/load", {"parameters": {"config": "{}"}}), 501, "TN0818")

    def test_engine_changed_on_disk(self):
        models = self.folder / "changing"
        models.mkdir()
        shutil.copy(self.folder / "models/cnn.tenon", models / "cnn.tenon")
        with Server(models) as server:
            before = server.infer()
            with open(models / "cnn.tenon", "r+b") as file:
                file.truncate(100)
            self.assertEqual(before, server.infer())
            (models / "cnn.tenon").unlink()
            self.assertEqual(before, server.infer())

    def restart(self, server):
        os.kill(server.worker(), signal.SIGKILL)
        server.wait_until(lambda: server.metric("tenon_worker_starts_total", None) > 1 and server.state() != "LOADING")

    def test_engine_changed_before_a_restart(self):
        """The next worker loads the file that was loaded first, not the one that took its name; one that was written into is told."""
        models = self.folder / "replaced"
        models.mkdir()
        shutil.copy(self.folder / "models/cnn.tenon", models / "cnn.tenon")
        with Server(models) as server:
            before = server.infer()
            (models / "new").write_bytes(b"no engine")
            (models / "new").replace(models / "cnn.tenon")
            self.restart(server)
            self.assertEqual(before, server.infer())
        shutil.copy(self.folder / "models/cnn.tenon", models / "cnn.tenon")
        with Server(models) as server:
            os.truncate(models / "cnn.tenon", 100)
            self.restart(server)
            self.assertIn("has changed", self.refused(server.infer(), 503, "TN0811"))
            shutil.copy(self.folder / "models/cnn.tenon", models / "cnn.tenon")
            self.assertEqual(200, server.post("/v2/repository/models/cnn/load")[0])
            self.assertEqual(200, server.infer()[0])

    def test_many_loads(self):
        """However many loads are asked for at once, the worker gets them as it can take them."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 7000:
            self.skipTest("6000 callers need more open files than are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        models = self.folder / "many"
        models.mkdir()
        shutil.copy(self.folder / "models/cnn.tenon", models / "cnn.tenon")
        with Server(models, "--max-connections", 8000) as server, contextlib.ExitStack() as callers:
            with server.paused():
                waiting = []
                for i in range(6000):
                    (models / f"m{i}.tenon").write_bytes(b"no engine")
                    waiting.append(callers.enter_context(socket.create_connection(("127.0.0.1", server.port))))
                    waiting[-1].sendall(f"POST /v2/repository/models/m{i}/load HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode())
                server.wait_until(lambda: len(server.post("/v2/repository/index")[1]) == 6001)
            self.assertEqual({b"HTTP/1.1 400"}, {each.recv(12) for each in waiting})
            self.assertEqual(1, server.metric("tenon_worker_starts_total", None))

    def test_few_descriptors(self):
        """The soft limit of open files, as low as shells set it, does not bound the connections."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        try:
            server = Server(self.folder / "models")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with server:
            idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(80)]
            self.assertEqual(200, server.infer(timeout=10)[0])
            for connection in idle:
                connection.close()

    def test_lenient(self):
        models = self.folder / "lenient"
        (models / "cnn/1").mkdir(parents=True)
        shutil.copy(self.folder / "models/cnn.tenon", models / "cnn/1/model.tenon")
        (models / "cnn/config.pbtxt").write_text("optimization { priority: PRIORITY_MAX }\n")
        with Server(models, "--lenient") as server:
            self.assertEqual(200, server.infer()[0])
            server.logged("config.pbtxt:1: Tenon does not support the field 'optimization'")

    def test_faults_of_a_folder(self):
        """What an operator did wrong is 503 for clients, is not ready in the metrics, and keeps nothing else from being served."""
        models = self.folder / "faults"
        engine = (self.folder / "models/cnn.tenon").read_bytes()

        def add(name, config=None, files=("model.tenon",)):
            (models / name / "1").mkdir(parents=True)
            for file in files:
                (models / name / "1" / file).write_bytes(engine)
            if config is not None:
                (models / name / "config.pbtxt").write_bytes(config)

        # As for Triton: the engine beside the model that it is of, and by another name.
        add("beside", b'backend: "tenon"\n', ("model.tenon", "model.onnx"))
        add("named", b'default_model_filename: "engine.bin"', ("engine.bin", "model.onnx"))
        add("empty", b"")
        faults = {"unknown": b"max_bath_size: 8", "type": b'max_batch_size: "8"', "latin": b'parameters { key: "\xe9" value { string_value: "" } }', "binary": bytes(range(256)), "other": b'name: "x"',
                  "escape": b'default_model_filename: "../../cnn.tenon"', "absent": b'default_model_filename: "engine.bin"'}
        for name, config in faults.items():
            add(name, config)
        add("onnx", None, ("model.onnx",))
        add("folder")
        (models / "folder/config.pbtxt").mkdir()
        add("loop")
        (models / "loop/config.pbtxt").symlink_to("config.pbtxt")
        (models / "looping.tenon").symlink_to("looping.tenon")
        (models / "versionless").mkdir()
        (models / "versionless/config.pbtxt").write_text("")
        add("both")
        (models / "both.tenon").write_bytes(engine)
        (models / "my model.tenon").write_bytes(engine)
        (models / "lost+found/1").mkdir(parents=True)
        with Server(models, waits=False) as server:
            ready = lambda: {labels["model"]: value for labels, value in server.metrics("tenon_model_ready")}
            server.wait_until(lambda: all(ready().get(name) == 1 for name in ["beside", "named", "empty"]))
            broken = [*faults, "onnx", "folder", "loop", "looping", "versionless", "both"]
            self.assertEqual({name: 0 for name in broken}, {name: value for name, value in ready().items() if value == 0})
            for name in broken:
                for answer in [server.infer(name), server.get(f"/v2/models/{name}"), server.get(f"/v2/models/{name}/ready")]:
                    self.refused(answer, 503, "TN0811")
                self.assertEqual((1, 0), tuple(server.metric("tenon_requests_total", f'model="{name}",outcome="{outcome}"') for outcome in ["unready", "failed"]), name)
                self.assertEqual(["UNAVAILABLE"], [row["state"] for row in server.post("/v2/repository/index")[1] if row["name"] == name])
            for name in ["my model", "lost+found"]:
                self.assertEqual(1, sum(name in line for line in server.logged(" warning TN0804", 2)), server.log)
            self.assertEqual(200, server.infer("named")[0])
            # Each line has its time and its level.
            for line in server.log:
                self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info|warning|error) \S")
            # Mended, a model serves; a new one that is wrong is there with its reason.
            (models / "unknown/config.pbtxt").unlink()
            (models / "versionless/1").mkdir()
            (models / "versionless/1/model.tenon").write_bytes(engine)
            add("late", b"nothing: 1")
            for name in ["unknown", "versionless"]:
                self.assertEqual(200, server.post(f"/v2/repository/models/{name}/load")[0])
                self.assertEqual((1, "1"), (ready()[name], server.infer(name)[1]["model_version"]))
            self.refused(server.post("/v2/repository/models/late/load"), 400, "TN0805")
            self.refused(server.infer("late"), 503, "TN0811")

    def test_many_connections(self):
        """At the limit, health is answered; others are told, counted, and do not keep the probes out."""
        with Server(self.folder / "models", "--max-connections", 4) as server, contextlib.ExitStack() as held:
            for _ in range(4):
                held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            server.wait_until(lambda: server.infer()[0] == 429)
            self.assertEqual((200, b'{"live":true}'), server.get("/v2/health/live"))
            for _ in range(30):
                held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            start = time.monotonic()
            self.assertEqual(200, server.get("/v2/health/ready")[0])
            self.assertLess(time.monotonic() - start, 1)
            self.assertEqual(1, len(server.logged("--max-connections")), server.log)
            held.close()
            server.wait_until(lambda: server.infer()[0] == 200)
            self.assertGreater(server.metric("tenon_connections_beyond_limit_total", ""), 30)
            self.assertEqual(1, server.metric("tenon_connections", ""))

    def test_failed_reload(self):
        """The model serves on and is ready; the index has the reason."""
        models = self.folder / "reloaded"
        (models / "cnn/1").mkdir(parents=True)
        shutil.copy(self.folder / "models/cnn.tenon", models / "cnn/1/model.tenon")
        (models / "new").write_bytes(b"no engine")
        with Server(models, "--lenient") as server:
            for code, spoil in [("TN0805", lambda: (models / "cnn/config.pbtxt").write_text("name: 3\n")),
                                ("TN0502", lambda: ((models / "cnn/config.pbtxt").unlink(), (models / "new").replace(models / "cnn/1/model.tenon")))]:
                spoil()
                self.assertEqual(400, server.post("/v2/repository/models/cnn/load")[0])
                self.assertEqual(200, server.get("/v2/health/ready")[0])
                rows = server.post("/v2/repository/index")[1]
                self.assertEqual(["READY"], [row["state"] for row in rows])
                self.assertIn(code, rows[0]["reason"])
                self.assertEqual(200, server.infer()[0])
            shutil.copy(self.folder / "models/cnn.tenon", models / "cnn/1/model.tenon")
            self.assertEqual(200, server.post("/v2/repository/models/cnn/load")[0])
            self.assertEqual("", server.post("/v2/repository/index")[1][0]["reason"])

    def test_counters_go_on(self):
        """What the old version answers after a swap is counted."""
        with Server(self.folder / "models", "--threads", 1) as server:
            running = self.slow(server)
            self.assertEqual(200, server.post("/v2/repository/models/cnn/load")[0])
            self.assertEqual(200, running.wait()[0])
            self.assertEqual(1, server.metric("tenon_requests_total", 'model="cnn",version="1",outcome="ok"'))

    def test_second_signal(self):
        with Server(self.folder / "models") as server, server.paused():
            with socket.create_connection(("127.0.0.1", server.port)) as waiting:
                body = json.dumps(request()).encode()
                waiting.sendall(b"POST /v2/models/cnn/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                server.wait_until(lambda: server.metric("tenon_requests_running") == 1)
                server.process.send_signal(signal.SIGTERM)
                server.wait_until(lambda: any("has accepted" in line for line in server.log))
                server.process.send_signal(signal.SIGTERM)
                server.process.wait(5)

    def test_swaps_under_load(self):
        with Server(self.folder / "models") as server:
            statuses = []
            ends = threading.Event()

            def ask():
                while not ends.is_set():
                    statuses.append(server.infer()[0])

            clients = [threading.Thread(target=ask) for _ in range(2)]
            for client in clients:
                client.start()
            for swap in range(10):
                server.wait_until(lambda: len(statuses) > 2 * swap)
                self.assertEqual(200, server.post("/v2/repository/models/cnn/load")[0])
            ends.set()
            for client in clients:
                client.join()
            self.assertEqual({200}, set(statuses))


if __name__ == "__main__":
    unittest.main()
