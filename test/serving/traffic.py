"""Versions beside each other: splits by weight, a shadow whose outputs are compared, and the way back without a load."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from server import TENON, Server

SIZE = 4


def write_version(path, factor):
    """y = factor * x, z = -x."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", SIZE]) for name in "xyz"]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "factor"], ["y"]), helper.make_node("Neg", ["x"], ["z"])], "g", ports[:1], ports[1:],
                              [numpy_helper.from_array(np.array(factor, np.float32), "factor")])
    path.parent.mkdir(parents=True)
    model = path.parents[2] / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    subprocess.run([TENON, "compile", model, "-o", path, "--quiet", "--target", "native"], check=True)
    model.unlink()


class Versions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        for version, factor in [(1, 2.0), (2, 2.5), (3, 2.0)]:
            write_version(cls.folder / f"m/{version}/model.tenon", factor)
        (cls.folder / "m/config.pbtxt").write_text("version_policy { all { } }\n")

    def setUp(self):
        self.server = Server(self.folder).__enter__()
        self.addCleanup(self.server.__exit__)

    def ask(self, **more):
        status, value = self.server.post("/v2/models/m/infer", {"inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "FP32", "data": [1, 2, 3, 4]}], **more})
        self.assertEqual(200, status, value)
        factor = {"1": 2.0, "2": 2.5, "3": 2.0}[value["model_version"]]
        self.assertEqual([factor * each for each in [1, 2, 3, 4]], value["outputs"][0]["data"])
        return value["model_version"]

    def counts(self, requests):
        versions = [self.ask() for _ in range(requests)]
        return {version: versions.count(version) for version in sorted(set(versions))}

    def traffic(self, value):
        return self.server.post("/v2/repository/models/m/traffic", value)

    def rollback(self):
        return self.server.post("/v2/repository/models/m/rollback")

    def refused(self, answer, status, code):
        self.assertEqual((status, code), (answer[0], answer[1]["error"][:6]), answer)

    def test_weights(self):
        self.assertEqual({"3": 5}, self.counts(5))
        self.assertEqual((200, {"weights": {"1": 90, "2": 10}}), self.traffic({"weights": {"1": 90, "2": 10}}))
        drawn = self.counts(400)
        self.assertEqual(400, drawn["1"] + drawn["2"])
        self.assertTrue(10 < drawn["2"] < 80, drawn)  # 40, within five standard deviations and more
        self.assertEqual(200, self.traffic({"weights": {"1": 0, "2": 7}})[0])
        self.assertEqual({"2": 8}, self.counts(8))
        # Whoever names a version gets it, and a reload changes no split.
        self.assertEqual("3", self.server.post("/v2/models/m/versions/3/infer", {"inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "FP32", "data": [0] * SIZE}]})[1]["model_version"])
        self.assertEqual(200, self.server.post("/v2/repository/models/m/load")[0])
        self.assertEqual({"2": 4}, self.counts(4))
        self.assertEqual(200, self.traffic({})[0])
        self.assertEqual({"3": 4}, self.counts(4))

    def test_no_pattern(self):
        """Requests of two kinds in turn: each version gets both. The same id always gets the same version, and ids are spread as weights say."""
        self.assertEqual(200, self.traffic({"weights": {"1": 1, "2": 1}})[0])
        versions = [self.ask() for _ in range(100)]
        self.assertEqual([{"1", "2"}] * 2, [set(versions[kind::2]) for kind in range(2)])
        by_id = {f"request-{i}": self.ask(id=f"request-{i}") for i in range(200)}
        self.assertTrue(60 < sum(version == "1" for version in by_id.values()) < 140, by_id)
        for name in list(by_id)[:20]:
            self.assertEqual(by_id[name], self.ask(id=name))

    def test_between_workers(self):
        """A split is set, and gone back from, while the versions wait for a worker that is started again: a bad version may be why it ended."""
        for act in [lambda: self.traffic({"weights": {"1": 1}}), self.rollback]:
            for _ in range(2):  # the second start comes 200 ms after the first
                self.server.wait_until(lambda: self.server.worker() is not None)
                os.kill(self.server.worker(), signal.SIGKILL)
                self.server.wait_until(lambda: self.server.get("/v2/health/ready")[0] == 503)
            self.assertEqual(200, act()[0])
            self.server.wait_until(lambda: self.server.get("/v2/health/ready")[0] == 200)
        self.assertEqual({"3": 2}, self.counts(2))

    def test_errors_of_clients(self):
        """What a client does wrong counts for no version as a failure."""
        bad = {"inputs": [{"name": "x", "shape": [SIZE], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
        for _ in range(3):
            self.refused(self.server.post("/v2/models/m/versions/2/infer", bad), 400, "TN0807")
        counted = lambda outcome: self.server.metric("tenon_requests_total", f'model="m",version="2",outcome="{outcome}"')
        self.assertEqual((3, 0), (counted("invalid"), counted("failed")))

    def test_rollback(self):
        """Each step back is at once, and no request is lost on the way."""
        answers, ends = [], threading.Event()

        def ask():
            while not ends.is_set():
                answers.append(self.ask())

        clients = [threading.Thread(target=ask) for _ in range(2)]
        for client in clients:
            client.start()
        try:
            self.traffic({"weights": {"1": 1}})
            self.traffic({"weights": {"2": 1}})
            self.assertEqual((200, {"weights": {"1": 1}}), self.rollback())
            self.assertEqual({"1": 3}, self.counts(3))
            self.assertEqual(200, self.rollback()[0])
            self.assertEqual({"3": 3}, self.counts(3))
            # No split before: the version before the newest, and so on.
            self.assertEqual((200, {"weights": {"2": 1}}), self.rollback())
            self.assertEqual({"2": 3}, self.counts(3))
            self.assertEqual(200, self.rollback()[0])
            self.assertEqual({"1": 3}, self.counts(3))
            self.refused(self.rollback(), 400, "TN1012")
            self.assertEqual({"1": 3}, self.counts(3))
        finally:
            ends.set()
            for client in clients:
                client.join()
        self.assertEqual({"1", "2", "3"}, set(answers))

    def test_shadow(self):
        """The shadow computes along, answers nobody, and its outputs are compared one by one."""
        for shadow, different, largest in [("1", 0, 0), ("2", 6, 2.0)]:
            self.assertEqual(200, self.traffic({"weights": {"3": 1}, "shadow": shadow})[0])
            self.assertEqual({"3": 6}, self.counts(6))
            self.server.wait_until(lambda: self.read()["shadow_stats"]["compared"] == 6)
            self.assertEqual({"compared": 6, "different": different, "failed": 0, "dropped": 0,
                              "outputs": {"y": {"different": different, "largest_difference": largest}, "z": {"different": 0, "largest_difference": 0.0}}}, self.read()["shadow_stats"])
        self.assertEqual(6, self.server.metric("tenon_requests_total", 'model="m",version="2",outcome="ok"'))

    def read(self):
        return json.loads(self.server.get("/v2/repository/models/m/traffic")[1])

    def test_refused(self):
        for wrong in [{"weights": {"4": 1}}, {"weights": {"1": -1}}, {"weights": {"1": 0}}, {"weights": {"1": 0.5}}, {"weights": {"01": 1}}, {"weights": 3}, {"shadow": 1}, {"shadow": "9"}, {"canary": 1}]:
            with self.subTest(str(wrong)):
                self.refused(self.traffic(wrong), 400, "TN0852")
        self.assertEqual({"3": 2}, self.counts(2))
        self.refused(self.server.post("/v2/repository/models/absent/rollback"), 404, "TN0810")


if __name__ == "__main__":
    unittest.main()
