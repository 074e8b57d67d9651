"""What a server watches: drift as tenon.drift says it, accuracy by labels that come later, rules that act, traces. Each detector on a planted
fault, and quiet without one.
"""

import concurrent.futures
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest

import numpy as np

from receiver import Receiver
from server import SOURCE, TENON, Server, compile_cnn
from traffic import SIZE, write_version

# drift.py alone, without the package's libraries: it needs none of them.
sys.modules.update({name: types.ModuleType(name) for name in ["tenon", "tenon._abi"]})
sys.modules["tenon"].__path__ = [str(SOURCE / "bindings/python/tenon")]
from tenon import drift  # noqa: E402

FACTORS = {1: 2.0, 2: 2.5}
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def rows_of(rng, count, shift=0.0):
    """Of x: a normal column, one whose values come again, one of few values, one with holes."""
    x = rng.standard_normal((count, SIZE)).astype(np.float32) + np.float32(shift)
    x[:, 1] = np.round(x[:, 1], 1)
    x[:, 2] = rng.integers(0, 5, count)
    x[rng.random(count) < 0.05, 3] = np.nan
    return x


def outputs_of(x, version):
    return {"y": x * np.float32(FACTORS[version]), "z": -x}


class Watching(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.models = cls.folder / "models"
        for version, factor in FACTORS.items():
            write_version(cls.models / f"m/{version}/model.tenon", factor)
        (cls.models / "m/config.pbtxt").write_text(
            'version_policy { all { } }\nparameters { key: "drift_reference" value { string_value: "reference.npz" } }\n')
        cls.reference = rows_of(np.random.default_rng(1), 5000)
        np.savez(cls.models / "m/reference.npz", x=cls.reference, y=outputs_of(cls.reference, 2)["y"])

    def setUp(self):
        self.rng = np.random.default_rng(2)

    def serve(self, *arguments, models=None, waits=True):
        server = Server(models or self.models, *arguments).__enter__()
        self.addCleanup(server.__exit__)
        if waits:
            server.wait_until(lambda: server.get("/v2/models/m/drift")[0] == 200)
        return server

    def send(self, server, x, version=None, name="x", model="m", **more):
        """One request, binary both ways; its id may be given."""
        head = {**more, "parameters": {"binary_data_output": True},
                "inputs": [{"name": name, "shape": x.shape, "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}]}
        text = json.dumps(head).encode()
        path = f"/v2/models/{model}/versions/{version}/infer" if version else f"/v2/models/{model}/infer"
        status, _, body = server.call("POST", path, text + x.tobytes(), {"Inference-Header-Content-Length": str(len(text))})
        self.assertEqual(200, status, body)

    def drift(self, server, windows, version="", model="m"):
        """What the server says once it has compared so many windows."""
        path = f"/v2/models/{model}{f'/versions/{version}' if version else ''}/drift"
        server.wait_until(lambda: json.loads(server.get(path)[1]).get("windows", 0) >= windows)
        return json.loads(server.get(path)[1])

    def same(self, said, report):
        self.assertEqual((report["rows"], report["drift"]), (said["rows"], said["drift"]))
        self.assertEqual([each["feature"] for each in report["features"]], [each["feature"] for each in said["features"]])
        for expected, found in zip(report["features"], said["features"]):
            self.assertEqual(expected["drift"], found["drift"], found)
            for key in ["psi", "psi_threshold", "ks", "ks_threshold", "missing", "out_of_range", "new", "lost"]:
                self.assertEqual(key in expected, key in found, (key, found))
                if key in expected:
                    self.assertAlmostEqual(expected[key], found[key], delta=1e-9, msg=(key, found))

    def refused(self, answer, status, code):
        value = answer[1] if isinstance(answer[1], dict) else json.loads(answer[1])
        self.assertEqual((status, code), (answer[0], value["error"][:6]), value)
        return value["error"]


class Drift(Watching):
    def test_numbers_are_those_of_tenon_drift(self):
        server = self.serve("--drift-window", 500)
        reference = drift.Reference({"x": self.reference, "y": outputs_of(self.reference, 2)["y"]})
        for windows, shift in enumerate([0.0, 0.3, 40.0], 1):
            x = rows_of(self.rng, 500, shift)
            for rows in np.split(x, [1, 7, 8, 200]):  # also in requests of one row and of many
                self.send(server, rows)
            said = self.drift(server, windows)
            report = reference.compare({"x": x, "y": outputs_of(x, 2)["y"]})
            self.same(said, report)
            self.assertEqual(shift > 0, said["drift"])
        self.assertEqual((3, 2, 0), (said["windows"], said["windows_with_drift"], said["collected"]))
        self.assertLessEqual(said["since"], said["until"])
        # A request in JSON counts as one in binary; a window may end within a request.
        data = [[1.5, -2.0, 3.0, 0.25]] * 600
        self.assertEqual(200, server.post("/v2/models/m/infer", {"inputs": [{"name": "x", "shape": [600, SIZE], "datatype": "FP32", "data": data}]})[0])
        x = np.array(data, np.float32)[:500]
        said = self.drift(server, 4)
        self.same(said, reference.compare({"x": x, "y": outputs_of(x, 2)["y"]}))
        self.assertEqual(100, said["collected"])
        self.assertEqual(1, server.metric("tenon_drift", 'model="m",version="2"'))
        self.assertEqual(3, server.metric("tenon_drift_windows_total", 'model="m",version="2",drift="yes"'))
        self.assertEqual(said["features"][0]["psi"], server.metric("tenon_drift_psi", 'model="m",version="2",feature="x[0]"'))
        # The other version was asked nothing.
        self.assertEqual(0, json.loads(server.get("/v2/models/m/versions/1/drift")[1])["rows"])

    def test_rows_of_many_elements_are_four_figures(self):
        models = self.folder / "pictures"
        models.mkdir()
        compile_cnn(models / "cnn.tenon")
        pictures = lambda count: (self.rng.random((count, 1, 28, 28)) ** 2).astype(np.float32)  # noqa: E731
        reference, window = pictures(400), pictures(200)
        np.savez(self.folder / "pictures.npz", image=reference, labels=np.zeros(400, np.int64))
        server = self.serve("--drift-window", 200, "--drift-reference", f"cnn={self.folder / 'pictures.npz'}", models=models, waits=False)
        server.wait_until(lambda: server.get("/v2/models/cnn/drift")[0] == 200)
        for rows in np.split(window, 10):
            self.send(server, rows, name="image", model="cnn")
        said = self.drift(server, 1, model="cnn")
        self.assertEqual(["image.mean", "image.std", "image.min", "image.max"], [each["feature"] for each in said["features"]])
        self.same(said, drift.Reference({"image": reference}).compare({"image": window}))

    def test_a_share_is_sampled(self):
        server = self.serve("--watch-share", 0.5, "--drift-window", 1000)
        for _ in range(400):
            self.send(server, rows_of(self.rng, 1))
        server.wait_until(lambda: json.loads(server.get("/v2/models/m/drift")[1])["collected"] > 100)
        time.sleep(0.3)
        self.assertTrue(140 < json.loads(server.get("/v2/models/m/drift")[1])["collected"] < 260)

    def test_references_that_cannot_be_used(self):
        """The model is served all the same."""
        cases = {"absent": None, "text": b"no archive", "names": {"w": self.reference}, "type": {"x": np.ones((50, SIZE), np.int64)}, "shape": {"x": self.reference[:, :3]},
                 "few": {"x": self.reference[:10]}, "empty": {"x": self.reference[:0]}, "nan": {"x": np.full((50, SIZE), np.nan, np.float32)}, "labels": {"labels": np.zeros(50, np.int64)}}
        for name, arrays in cases.items():
            with self.subTest(name):
                path = self.folder / f"{name}.npz"
                if isinstance(arrays, bytes):
                    path.write_bytes(arrays)
                elif arrays is not None:
                    np.savez(path, **arrays)
                with Server(self.models, "--drift-reference", f"m={path}") as server:
                    server.wait_until(lambda: server.get("/v2/models/m/drift")[0] == 400)
                    self.refused(server.get("/v2/models/m/drift"), 400, "TN0840")
                    self.assertEqual(1, server.metric("tenon_drift_unusable", 'model="m",version="2"'))
                    self.send(server, rows_of(self.rng, 3))
                server.logged("is served, but not monitored: TN0840")

    def test_not_watched(self):
        models = self.folder / "plain"
        write_version(models / "plain/1/model.tenon", 1.0)
        server = self.serve(models=models, waits=False)
        self.refused(server.get("/v2/models/plain/drift"), 404, "TN0810")
        self.refused(server.get("/v2/models/absent/drift"), 404, "TN0810")
        self.refused(server.get("/v2/models/plain/versions/9/drift"), 404, "TN0810")


class Labels(Watching):
    def label(self, server, value):
        return server.post("/v2/models/m/labels", value)

    def test_accuracy_by_labels(self):
        server = self.serve()
        x = np.eye(SIZE, dtype=np.float32)[self.rng.integers(0, SIZE, 200)]
        classes = x.argmax(1)
        for i in range(100):
            self.send(server, x[i : i + 1], id=f"single {i}")
        self.send(server, x[100:], id="many", version=2)
        wrong = [int(classes[i] + (i < 20)) for i in range(100)]
        self.assertEqual((200, {"labelled": 100, "unknown": 0, "unknown_ids": []}), self.label(server, [{"id": f"single {i}", "label": each} for i, each in enumerate(wrong)]))
        self.assertEqual(200, self.label(server, [{"id": "many", "label": classes[100:].tolist()}, {"id": "other", "label": 1}])[0])
        accuracy = json.loads(server.get("/v2/models/m/drift")[1])["accuracy"]
        self.assertEqual((200, 180, 0.9), (accuracy["labelled"], accuracy["right"], accuracy["top1"]))
        self.assertAlmostEqual(0.85062, accuracy["low"], 4)
        self.assertAlmostEqual(0.93436, accuracy["high"], 4)
        self.assertEqual(0.9, server.metric("tenon_sampled_accuracy", 'model="m",version="2",bound="value"'))
        # Counted once; unknown ones are told and counted.
        message = self.refused(self.label(server, [{"id": "many", "label": 1}, {"id": "<other>", "label": 1}]), 404, "TN0841")
        self.assertIn("'many' and 1 more", message)
        self.assertEqual(3, server.metric("tenon_labels_total", 'model="m",known="no"'))
        self.assertEqual(101, server.metric("tenon_labels_total", 'model="m",known="yes"'))

    def test_a_shadow_is_labelled_too(self):
        server = self.serve()
        self.assertEqual(200, server.post("/v2/repository/models/m/traffic", {"weights": {"2": 1}, "shadow": "1"})[0])
        self.send(server, np.eye(SIZE, dtype=np.float32), id="a")
        server.wait_until(lambda: server.metric("tenon_requests_total", 'model="m",version="1",outcome="ok"') == 1)
        self.assertEqual(200, self.label(server, [{"id": "a", "label": [0, 1, 2, 0]}])[0])
        for version in "12":
            self.assertEqual(3, json.loads(server.get(f"/v2/models/m/versions/{version}/drift")[1])["accuracy"]["right"])

    def test_refused(self):
        server = self.serve("--label-age", "1s")
        self.send(server, np.eye(SIZE, dtype=np.float32), id="a")
        for wrong in [{}, [], {"id": "a"}, [3], [{"id": "a"}], [{"id": 3, "label": 1}], [{"id": "a", "label": "cat"}], [{"id": "a", "label": [1, 2, 3]}], [{"id": "a", "label": [0, 1, 2, 0.5]}],
                      [{"id": "a", "label": 1, "more": 1}], b"[", b'[{"id":"a","id":"b","label":1}]']:
            with self.subTest(str(wrong)):
                self.refused(self.label(server, wrong), 400, "TN0806")
        self.refused(server.post("/v2/models/absent/labels", [{"id": "a", "label": 1}]), 404, "TN0810")
        time.sleep(1.1)
        self.refused(self.label(server, [{"id": "a", "label": [0, 1, 2, 3]}]), 404, "TN0841")


class Rules(Watching):
    def answers(self, server):
        return server.post("/v2/models/m/infer", {"inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "FP32", "data": [0] * SIZE}]})[1]["model_version"]

    def test_drift_rolls_back_once(self):
        with Receiver([500, 429]) as receiver:
            server = self.serve("--drift-window", 100, "--on-drift", "rollback", "--webhook", receiver.url + "/hook")
            for _ in range(5):
                self.send(server, rows_of(self.rng, 100))
            self.assertEqual(5, self.drift(server, 5)["windows"])
            self.assertEqual("2", self.answers(server))
            for windows in [6, 7]:  # it has to last
                self.send(server, rows_of(self.rng, 100, 2.0), version=2)
                self.assertTrue(self.drift(server, windows, "2")["drift"])
                self.assertEqual("2", self.answers(server))
            self.send(server, rows_of(self.rng, 100, 2.0), version=2)
            server.wait_until(lambda: self.answers(server) == "1")
            said = self.drift(server, 8, "2")
            self.assertRegex(said["action"], r"^rolled back: drift in 3 windows of 100 rows: x\[0\] \(PSI \d\.\d+, limit 0\.\d+\), .* more$")
            server.wait_until(lambda: len(receiver.received) == 2)  # although two tries were refused
            drifted, rolled = receiver.events()
            self.assertEqual(("drift", "m", "2", "rollback", said["action"]), (drifted["event"], drifted["model"], drifted["version"], rolled["event"], rolled["reason"]))
            self.assertEqual(2, server.metric("tenon_webhooks_total", 'outcome="sent"'))
            # Until a person acts nothing more is done: not even where the other version drifts as well.
            for _ in range(3):
                self.send(server, rows_of(self.rng, 100, 2.0), version=1)
            self.drift(server, 3, "1")
            server.wait_until(lambda: "nobody has intervened since" in "".join(server.log))
            self.assertEqual(1, server.metric("tenon_rollbacks_total", 'model="m"'))
            self.assertEqual(200, server.post("/v2/repository/models/m/traffic", {"weights": {"2": 1}})[0])
            for _ in range(3):
                self.send(server, rows_of(self.rng, 100, 2.0), version=2)
            server.wait_until(lambda: server.metric("tenon_rollbacks_total", 'model="m"') == 2)
            self.assertEqual("1", self.answers(server))
            # A version that answers nobody is told of, and nothing is rolled back for it.
            self.assertEqual(200, server.post("/v2/repository/models/m/traffic", {"weights": {"2": 1}})[0])
            for _ in range(3):
                self.send(server, rows_of(self.rng, 100, 2.0), version=1)
            server.wait_until(lambda: len(receiver.received) == 6)
            self.assertEqual(["drift", "rollback", "drift", "drift", "rollback", "drift"], [each["event"] for each in receiver.events()])
            self.assertEqual("2", self.answers(server))

    def test_a_webhook_that_is_down_keeps_nobody_waiting(self):
        """It takes the connection and says nothing: requests are answered and windows compared meanwhile. Then it is gone."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(60)
            server = self.serve("--drift-window", 100, "--webhook", f"http://127.0.0.1:{silent.getsockname()[1]}/hook")
            for _ in range(3):
                self.send(server, rows_of(self.rng, 100, 2.0))
            with silent.accept()[0]:
                self.send(server, rows_of(self.rng, 100, 2.0))
                self.drift(server, 4)
                self.assertEqual("2", self.answers(server))  # told, not rolled back
                self.assertEqual(0, server.metric("tenon_webhooks_total", 'outcome="failed"'))
        server.wait_until(lambda: server.metric("tenon_webhooks_total", 'outcome="failed"') == 1)
        server.wait_until(lambda: "TN0150" in "".join(server.log))

    def infer_row(self, server, version="", shape=(1, SIZE), **more):
        return server.post(f"/v2/models/m{version}/infer", {"inputs": [{"name": "x", "shape": shape, "datatype": "FP32", "data": [1] * SIZE}], **more})

    def canary(self, server):
        """1,100 requests, of which version 2 gets a fifth, and beside them a client's own mistakes, which count for no version."""
        for i in range(1100):
            self.assertEqual(200, self.infer_row(server)[0])
            if i % 5 == 0:
                self.assertEqual(400, self.infer_row(server, "/versions/2", [SIZE])[0])

    def test_a_bad_canary_loses_its_traffic(self):
        models = self.folder / "canary"
        for version in [1, 2]:
            write_version(models / f"m/{version}/model.tenon", 2.0)
        (models / "m/config.pbtxt").write_text("version_policy { all { } }\n")
        with Receiver() as receiver:
            server = self.serve("--on-canary", "rollback", "--webhook", receiver.url, models=models, waits=False)

            def begin():
                for weights in [{"1": 1}, {"1": 80, "2": 20}]:
                    self.assertEqual(200, server.post("/v2/repository/models/m/traffic", {"weights": weights})[0])
                    time.sleep(0.6)  # until the rule counts from here

            begin()
            self.canary(server)
            time.sleep(0.6)
            self.assertEqual(([], {"weights": {"1": 80, "2": 20}}), (receiver.events(), json.loads(server.get("/v2/repository/models/m/traffic")[1])))
            begin()
            # Requests with this id are version 2's, and lose their worker.
            name = next(f"r{i}" for i in range(1000) if self.infer_row(server, id=f"r{i}")[1]["model_version"] == "2")
            for _ in range(25):
                with server.paused() as worker, concurrent.futures.ThreadPoolExecutor() as client:
                    lost = client.submit(self.infer_row, server, id=name)
                    server.wait_until(lambda: server.metric("tenon_requests_running", 'model="m",version="2"') == 1)
                    os.kill(worker, signal.SIGKILL)
                    self.assertEqual(500, lost.result()[0])
                server.wait_until(lambda: server.get("/v2/health/ready")[0] == 200)
            self.canary(server)
            server.wait_until(lambda: json.loads(server.get("/v2/repository/models/m/traffic")[1]) == {"weights": {"1": 1}})
            server.wait_until(lambda: len(receiver.received) == 2)
            self.assertEqual(["canary", "rollback"], [each["event"] for each in receiver.events()])
            self.assertRegex(receiver.events()[0]["reason"], r"canary 2 compared with 1: [\d.]+ % of its \d+ requests failed, 0.00 % of \d+ of the stable version")

    def test_inputs_alone_roll_back_only_where_that_is_asked(self):
        """What is asked has changed, not what the version makes of it; a reference of the inputs in float64, as others write them."""
        path = self.folder / "inputs.npz"
        np.savez(path, x=self.reference.astype(np.float64))
        for action in ("rollback", "rollback-any"):
            with Receiver() as receiver:
                server = self.serve("--drift-window", 100, "--on-drift", action, "--drift-reference", f"m={path}", "--webhook", receiver.url + "/hook")
                self.send(server, rows_of(self.rng, 100))
                self.assertFalse(self.drift(server, 1)["drift"])
                for _ in range(3):
                    self.send(server, rows_of(self.rng, 100, 2.0))
                said = self.drift(server, 4)
                server.wait_until(lambda: len(receiver.received) == (1 if action == "rollback" else 2))
                if action == "rollback":
                    self.assertRegex(said["action"], r"^not rolled back, because no output drifts: drift in 3 windows")
                    server.logged("its reference has no outputs")
                self.assertEqual("2" if action == "rollback" else "1", self.answers(server))

    def test_a_registry_is_rolled_back(self):
        store = self.folder / "store"

        def registry(*arguments):
            done = subprocess.run([TENON, "registry", *map(str, arguments), "--registry", store, "--json"], capture_output=True, text=True)
            self.assertEqual(0, done.returncode, done.stderr)
            return json.loads(done.stdout)

        registry("push", "data", self.models / "m/reference.npz", "--kind", "data")
        for version in [1, 2]:
            registry("push", "m", self.models / f"m/{version}/model.tenon", "--data", "data:1")
            registry("promote", f"m:{version}", "live")
        server = self.serve("--registry", store, "--drift-window", 100, "--on-drift", "rollback", models="registry:m@live")
        self.assertEqual("2", self.answers(server))
        for _ in range(3):
            self.send(server, rows_of(self.rng, 100, 2.0))
        server.wait_until(lambda: self.answers(server) == "1")
        event = registry("history", "m")["events"][-1]
        self.assertEqual(("rollback", "serve", 1, "live"), (event["action"], event["by"], event["version"], event["alias"]))
        self.assertIn("drift in 3 windows of 100 rows: x[0]", event["detail"]["reason"])
        # What is served now drifts as well, and stays.
        server.wait_until(lambda: server.get("/v2/models/m/drift")[0] == 200)
        for windows in range(1, 4):
            self.send(server, rows_of(self.rng, 100, 2.0))
            self.drift(server, windows)
        server.wait_until(lambda: "nobody has intervened since" in "".join(server.log))
        self.assertEqual("1", self.answers(server))


class Traces(Watching):
    def ask(self, server, traceparent=None, status=200, data=(1, 2, 3, 4)):
        headers = {"traceparent": traceparent} if traceparent else {}
        self.assertEqual(status, server.post("/v2/models/m/infer", {"inputs": [{"name": "x", "shape": [1, len(data)], "datatype": "FP32", "data": list(data)}]}, headers=headers)[0])

    def test_spans_of_callers_that_trace(self):
        with Receiver([503]) as receiver:
            server = self.serve("--otlp", receiver.url, "--trace-share", 0)
            before = time.time_ns()
            self.ask(server, f"00-{TRACE}-{PARENT}-01")
            after = time.time_ns()
            for passed_over in [None, f"00-{TRACE}-{PARENT}-00", f"00-{TRACE}-{PARENT}-1", f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE.upper()}-{PARENT}-01", "~" * 55, f"00-{'0' * 32}-{PARENT}-01"]:
                self.ask(server, passed_over)
            self.ask(server, f"00-{'a' * 32}-{PARENT}-01", 400, [1, 2, 3])  # refused: a request all the same
            self.ask(server, f"00-{'b' * 32}-{PARENT}-01")
            server.wait_until(lambda: any(span["traceId"] == "b" * 32 for span in receiver.spans()))
            roots = {span["traceId"]: span for span in receiver.spans() if span["name"] == "infer"}
            self.assertEqual({TRACE, "a" * 32, "b" * 32}, set(roots))
            self.assertEqual(PARENT, roots[TRACE]["parentSpanId"])
            self.assertEqual({"tenon.model": "m", "tenon.version": "2", "tenon.stack_rows": "1"}, roots[TRACE]["attributes"])
            self.assertLess(before - 2_000_000, roots[TRACE]["start"])
            self.assertLess(roots[TRACE]["end"], after + 2_000_000)
            for trace in [TRACE, "b" * 32]:
                receiver.check_trace(self, roots[trace])
            self.assertEqual([2, None, None], [roots[trace]["status"].get("code") for trace in ["a" * 32, TRACE, "b" * 32]])
            server.wait_until(lambda: server.metric("tenon_traced_requests_total", 'outcome="sent"') == 3)

    def test_a_share_of_all_others(self):
        with Receiver() as receiver:
            with self.serve("--otlp", receiver.url + "/v1/traces", "--trace-share", 0.5) as server:
                for _ in range(100):
                    self.ask(server)
            # The end of the server sends what it has.
            roots = [span for span in receiver.spans() if span["name"] == "infer"]
            self.assertTrue(25 < len(roots) < 75, len(roots))
            self.assertEqual(len(roots), len({span["traceId"] for span in roots}))
            self.assertFalse(any("parentSpanId" in span for span in roots))

    def test_a_collector_that_is_down_slows_nobody(self):
        server = self.serve("--otlp", "http://127.0.0.1:1", "--trace-share", 1)
        for _ in range(50):
            self.ask(server)
        self.assertEqual(50, server.metric("tenon_requests_total", 'model="m",version="2",outcome="ok"'))
        server.wait_until(lambda: server.metric("tenon_traced_requests_total", 'outcome="failed"') > 0)


class Settings(Watching):
    def test_refused(self):
        for arguments, code in [(["--drift-reference", "m"], "TN0105"), (["--drift-reference", "=x"], "TN0105"), (["--on-drift", "webhook"], "TN0105"), (["--on-canary", "webhook"], "TN0105"),
                                (["--webhook", "localhost:80"], "TN0105"), (["--otlp", "grpc://x"], "TN0105"), (["--watch-share", "1.5"], "TN0105"), (["--drift-window", "5"], "TN0105")]:
            with self.subTest(str(arguments)):
                with self.assertRaises(RuntimeError) as caught:
                    Server(self.models, *arguments)
                self.assertIn(code, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
