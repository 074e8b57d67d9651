"""A server that follows two aliases of one object: the canary has the share that people give it, and goes back by itself where it is worse."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
from server import TENON, Server  # noqa: E402

SIZE = 16


def write_engine(path, factor, width=0):
    """y = factor x; with `width` after two products of that width, which take their time."""
    identity = np.eye(SIZE, dtype=np.float32)
    nodes, weights, value = [], {"last": identity * factor}, "x"
    if width:
        weights |= {"up": np.eye(SIZE, width, dtype=np.float32), "down": np.eye(width, SIZE, dtype=np.float32)} | {f"w{i}": np.eye(width, dtype=np.float32) for i in range(8)}
        for name in ("up", *[f"w{i}" for i in range(8)], "down"):
            nodes.append(helper.make_node("MatMul", [value, name], [f"v_{name}"]))
            nodes.append(helper.make_node("Relu", [f"v_{name}"], [f"r_{name}"]))
            value = f"r_{name}"
    nodes.append(helper.make_node("MatMul", [value, "last"], ["y"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", SIZE])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", SIZE])],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    model = path.with_suffix(".onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    subprocess.run([TENON, "compile", model, "-o", path, "--quiet", "--shape", f"x:[1..8]x{SIZE}"], check=True)


class Canary(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        for name, factor, width in (("one", 1, 0), ("two", 2, 0), ("slow", 3, 2048)):
            write_engine(self.folder / f"{name}.tenon", factor, width)
            self.registry("push", "m", self.folder / f"{name}.tenon")
        self.registry("promote", "m:1", "production")

    def registry(self, *arguments):
        done = subprocess.run([TENON, "registry", *map(str, arguments), "--registry", self.folder / "registry", "--json"], capture_output=True, text=True, env=os.environ)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def versions(self, server, count):
        """How many of so many requests each version answered, each by its own number."""
        found = {}
        for _ in range(count):
            status, value = server.post("/v2/models/m/infer", {"inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "FP32", "data": [1] * SIZE}]})
            self.assertEqual((200, [int(value["model_version"])] * SIZE), (status, value["outputs"][0]["data"]), value)
            found[value["model_version"]] = found.get(value["model_version"], 0) + 1
        return found

    def split(self, server, weights):
        self.assertEqual((200, {"weights": weights}), server.post("/v2/repository/models/m/traffic", {"weights": weights}))

    def weights(self, server):
        return json.loads(server.get("/v2/repository/models/m/traffic")[1])["weights"]

    def test_two_servers(self):
        """Servers that share nothing but the registry: one client asks both in turn; a bad canary leaves both, by one event."""
        arguments = ("registry:m@production", "registry:m@canary", "--registry", self.folder / "registry", "--on-canary", "rollback")
        with Server(*arguments) as one, Server(*arguments) as two:
            both = (one, two)
            for version in (2, 1, 2):
                self.registry("promote", f"m:{version}", "production")
                for server in both:
                    server.wait_until(lambda: [self.versions(each, 1) for each in both][both.index(server)] == {str(version): 1})
            self.registry("promote", "m:1", "canary")
            self.registry("promote", "m:3", "canary")
            for server in both:
                server.wait_until(lambda: "3" in {row["version"] for row in server.post("/v2/repository/index")[1] if row["state"] == "READY"})
            self.split(one, {"2": 50, "3": 50})
            self.split(two, {"2": 90, "3": 10})
            one.wait_until(lambda: [self.versions(each, 50) for each in both] and self.registry("history", "m@canary")["events"][-1]["action"] == "rollback", 60)
            for server in both:
                server.wait_until(lambda: [self.versions(each, 1) for each in both] and {"1", "2"} == {row["version"] for row in server.post("/v2/repository/index")[1]})
                self.assertEqual({"2": 20}, self.versions(server, 20))
            self.assertEqual(1, sum(event["action"] == "rollback" for event in self.registry("history", "m")["events"]))

    def test_namespaces(self):
        """Of one namespace all engines are served, by their whole names: on every route, in metrics, in the history of the page."""
        for name in ("team/m", "team/eu/m", "team/eu/stats", "other/m"):
            self.registry("push", name, self.folder / "one.tenon")
            self.registry("promote", name, "production")
        self.registry("push", "team/m", self.folder / "two.tenon")
        with Server("registry:team/@production", "--registry", self.folder / "registry") as server:
            self.assertEqual(["team/eu/m", "team/eu/stats", "team/m"], sorted(each["name"] for each in server.post("/v2/repository/index")[1]))
            body = {"inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "FP32", "data": [1] * SIZE}]}
            for path, name in (("team/m/infer", "team/m"), ("team%2Fm/infer", "team/m"), ("team/eu/m/versions/1/infer", "team/eu/m"), ("team/eu%2fstats/infer", "team/eu/stats")):
                status, value = server.post(f"/v2/models/{path}", body)
                self.assertEqual((200, name, [1] * SIZE), (status, value["model_name"], value["outputs"][0]["data"]), value)
            self.assertEqual((404, 200, 404), tuple(server.get(f"/v2/models/{path}")[0] for path in ("team/eu/x", "team/eu%2Fstats", "other/m")))
            self.assertEqual(200, server.get("/v2/models/team/m/ready")[0])
            self.assertIn('model="team/eu/m"', server.get("/metrics")[1].decode())
            self.assertEqual(200, server.post("/v2/repository/models/team/m/unload")[0])
            self.assertEqual(200, server.post("/v2/repository/models/team/m/load")[0])
            self.assertEqual((200, 2), (lambda status, value: (status, value["to"]))(*server.post("/v2/tenon/models/team%2Fm/promote", {"version": 2})))
            self.assertEqual("team/m", json.loads(server.get("/v2/tenon/models/team/m/history")[1])["name"])
            server.wait_until(lambda: server.post("/v2/models/team/m/infer", body)[1]["outputs"][0]["data"][0] == 2)

    def test_canary(self):
        with Server("registry:m@production", "registry:m@canary", "--registry", self.folder / "registry", "--on-canary", "rollback") as server:
            self.assertEqual({"1": 20}, self.versions(server, 20), "a canary need not be there")
            self.registry("promote", "m:2", "canary")
            server.wait_until(lambda: len(server.post("/v2/repository/index")[1]) == 2)
            self.assertEqual({"1": 50}, self.versions(server, 50), "it gets what people give it")
            self.split(server, {"1": 70, "2": 30})
            found = self.versions(server, 300)
            self.assertTrue(50 < found["2"] < 130, found)
            self.registry("promote", "m:2", "production")
            server.wait_until(lambda: self.versions(server, 1) == {"2": 1})
            # One that is slower loses its share, and its alias goes back.
            self.registry("promote", "m:3", "canary")
            server.wait_until(lambda: "3" in {row["version"] for row in server.post("/v2/repository/index")[1] if row["state"] == "READY"})
            self.split(server, {"2": 50, "3": 50})
            server.wait_until(lambda: self.versions(server, 100) and self.weights(server) == {"2": 1}, 120)
            server.wait_until(lambda: self.registry("history", "m@canary")["events"][-1]["action"] == "rollback")
            event = self.registry("history", "m@canary")["events"][-1]
            self.assertEqual((2, 3), (event["version"], event["from"]))
            self.assertRegex(event["detail"]["reason"], "canary 3 compared with 2: ")
            server.wait_until(lambda: [row["version"] for row in server.post("/v2/repository/index")[1]] == ["2"])
            self.assertEqual({"2": 20}, self.versions(server, 20))
        self.assertEqual([], self.registry("verify")["problems"])


if __name__ == "__main__":
    unittest.main()
