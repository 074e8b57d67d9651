"""tenon.ray_serve: bodies, batches, errors and paths without Ray; and, where Ray Serve is installed, an application with real requests.

Runs in the environment of in_wheel.py, and by hand in .venv-platform.
"""

import asyncio
import concurrent.futures
import http.client
import importlib.util
import json
import os
import pathlib
import socket
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np
import tenon
from tenon import _v2, ray_serve

MODELS = pathlib.Path(os.environ["TENON_MODELS"])
WEIGHT = np.load(MODELS / "linear.npy")


def expected(rows):
    return np.maximum(np.asarray(rows, np.float32) @ WEIGHT, 0)


def body(rows, **changes):
    tensor = {"name": "x", "datatype": "FP32", "shape": list(np.shape(rows)), "data": np.asarray(rows).reshape(-1).tolist(), **changes}
    return json.dumps({"inputs": [{key: value for key, value in tensor.items() if value is not None}]}).encode()


class Engines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.paths = {}
        for name in ("linear", "tiny", "nonzero"):
            cls.paths[name] = str(pathlib.Path(holder.name) / f"{name}.tenon")
            tenon.compile(str(MODELS / f"{name}.onnx"), output=cls.paths[name], target="cpu:avx2")
        cls.rng = np.random.default_rng(3)


class Protocol(Engines):
    def setUp(self):
        self.service = ray_serve.Service(self.paths, 1, 16)
        self.linear = self.service.models["linear"]

    def ask(self, method, path, content=b""):
        async def infer(item):
            return self.service.run([item])[0]

        status, answer = asyncio.run(self.service.answer(method, path, content, infer))
        return status, json.loads(answer)

    def test_an_inference(self):
        rows = self.rng.standard_normal((2, 8)).astype(np.float32)
        for path in ("/v2/models/linear/infer", "/v2/models/linear/versions/1/infer"):
            status, answer = self.ask("POST", path, body(rows))
            self.assertEqual((200, "linear", "1"), (status, answer["model_name"], answer["model_version"]))
            [output] = answer["outputs"]
            self.assertEqual(("y", "FP32", [2, 3]), (output["name"], output["datatype"], output["shape"]))
            np.testing.assert_allclose(np.reshape(output["data"], (2, 3)), expected(rows), rtol=1e-5, atol=1e-6)
        # Nested data, whole numbers for floats, an id and the outputs by name.
        request = {"id": "7", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 8], "data": [[1, 0, 0, 0, 0, 0, 0, 0]]}], "outputs": [{"name": "y"}]}
        status, answer = self.ask("POST", "/v2/models/linear/infer", json.dumps(request).encode())
        self.assertEqual((200, "7"), (status, answer["id"]))

    def test_other_paths(self):
        self.assertEqual((200, {"live": True}), self.ask("GET", "/v2/health/live"))
        self.assertEqual((200, {"ready": True}), self.ask("GET", "/v2/health/ready"))
        self.assertEqual("tenon", self.ask("GET", "/v2")[1]["name"])
        self.assertEqual((200, {"name": "tiny", "ready": True}), self.ask("GET", "/v2/models/tiny/ready"))
        self.assertEqual({"name": "linear", "versions": ["1"], "platform": "tenon", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}],
                          "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}]}, self.ask("GET", "/v2/models/linear")[1])  # fmt: skip
        for method, path in (("GET", "/"), ("GET", "/v2/models"), ("GET", "/v2/models/none"), ("POST", "/v2/models/linear"), ("GET", "/v2/models/linear/infer"), ("POST", "/v2/models/linear/versions/2/infer")):
            status, answer = self.ask(method, path)
            self.assertEqual(404, status, path)
            self.assertIn("there is no" if path != "/" else "begin with", answer["error"])

    def test_bad_requests(self):
        rows = np.zeros((1, 8))
        for words, content in (
            ("not JSON", b"{"), ("not JSON", b"[" * 100_000), ("NaN is no number", body(rows, data=[float("nan")] * 8)), ("list 'inputs'", b"[]"), ("list 'inputs'", b'{"inputs": {}}'),
            ("an input is an object", b'{"inputs": [1]}'), ("no input 'z'", body(rows, name="z")), ("is FP32, not FP64", body(rows, datatype="FP64")), ("is FP32, not None", body(rows, datatype=None)),
            ("is missing", b'{"inputs": []}'), ("has no data", body(rows, data=None)), ("list of whole numbers", body(rows, shape=[1.0, 8])), ("list of whole numbers", body(rows, shape=[True, 8])),
            ("list of whole numbers", body(rows, shape=[-1, 8])), ("is [", body(rows, shape=[8])), ("is [", body(rows, shape=[1, 9])), ("has 8 elements, and its shape 16", body(rows, shape=[2, 8])),
            ("not numbers of FP32", body(rows, data=["a"] * 8)), ("not numbers of FP32", body(rows, data=[True] * 8)), ("the data of 'x'", body(rows, data=[[1], [1, 2]])),
            ("numbers that FP32 has not", body(rows, data=[1e300] * 8)), ("stands twice", json.dumps({"inputs": json.loads(body(rows))["inputs"] * 2}).encode()),
            ("no output 'q'", json.dumps({**json.loads(body(rows)), "outputs": [{"name": "q"}]}).encode()), ("'outputs' is a list", json.dumps({**json.loads(body(rows)), "outputs": 1}).encode()),
        ):  # fmt: skip
            with self.subTest(f"{words} {content[:80]}"):
                status, answer = self.ask("POST", "/v2/models/linear/infer", content)
                self.assertEqual(400, status, answer)
                self.assertIn(words, answer["error"])

    def test_whole_numbers_keep_their_value(self):
        for value, fits in ((2**62 + 1, True), (2**63, False), (1.5, False)):
            if fits:
                self.assertEqual(value, _v2._array("x", [value], "int64", [1])[0])
            else:
                with self.assertRaises(_v2.BadRequest):
                    _v2._array("x", [value], "int64", [1])
        with self.assertRaisesRegex(_v2.BadRequest, "INT8 has not"):
            _v2._array("x", [200], "int8", [1])
        self.assertEqual((0,), _v2._array("x", [], "int64", [0]).shape)

    def test_a_reply_that_JSON_cannot_carry(self):
        request = self.linear.read(body(np.zeros((1, 8))))
        with self.assertRaisesRegex(_v2.BadRequest, "infinite or none"):
            self.linear.reply(request, {"y": np.full((1, 3), np.inf, np.float32)})

    def test_batches(self):
        """Requests that fit run together, in their order, and each has its own rows."""
        self.assertEqual((True, False, False), tuple(self.service.models[name].can_batch for name in ("linear", "tiny", "nonzero")))
        calls, run = [], self.linear.engine.run
        self.linear.engine.run = lambda inputs: calls.append(inputs["x"].shape[0]) or run(inputs)
        rows = [self.rng.standard_normal((count, 8)).astype(np.float32) for count in (1, 3, 12, 2, 1, 20)]
        answers = self.service.run([("linear", self.linear.read(body(each))) for each in rows])
        for given, answer in zip(rows, answers):
            np.testing.assert_allclose(answer["y"], expected(given), rtol=1e-5, atol=1e-6)
        self.assertEqual([16, 3, 20], calls)

    def test_an_error_is_of_its_request(self):
        def run(inputs):
            if (inputs["x"] == 7).any():
                raise tenon.DeviceError("TN0000: planted")
            return {"y": inputs["x"][:, :3]}

        self.linear.engine.run = run
        rows = [np.full((1, 8), value, np.float32) for value in (1, 7, 2)]
        found = self.service.run([("linear", self.linear.read(body(each))) for each in rows])
        self.assertEqual([1, 2], [found[index]["y"][0, 0] for index in (0, 2)])
        self.assertIsInstance(found[1], tenon.DeviceError)
        self.assertEqual(500, _v2.status_of(found[1]))

    def test_rows_that_look_at_each_other(self):
        """A planted engine whose dim 0 is free, but which takes the mean over it."""

        class Mean:
            inputs = outputs = [tenon.Port("x", "float32", ((1, 64), 4))]

            def run(self, inputs):
                return {"x": inputs["x"] - inputs["x"].mean(axis=0)}

        self.assertFalse(_v2.Model("mean", Mean()).can_batch)

    def test_two_models_in_one_batch(self):
        tiny = self.service.models["tiny"]
        items = [("linear", self.linear.read(body(np.ones((1, 8))))), ("tiny", tiny.read(body(np.ones(4)))), ("linear", self.linear.read(body(np.ones((2, 8)))))]
        shapes = [answer["y"].shape for answer in self.service.run(items)]
        self.assertEqual([(1, 3), (4,), (2, 3)], shapes)

    def test_without_ray(self):
        with unittest.mock.patch.dict(sys.modules, {"ray": None}), self.assertRaisesRegex(tenon.UsageError, "pip install 'ray\\[serve\\]'"):
            ray_serve.app(self.paths)


class WithRay(Engines):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import ray
        from ray import serve

        # Replicas find the package where it is here.
        os.environ["PYTHONPATH"] = os.pathsep.join([str(pathlib.Path(tenon.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        cls.addClassCleanup(ray.shutdown)
        cls.addClassCleanup(serve.shutdown)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            cls.port = probe.getsockname()[1]
        serve.start(http_options={"host": "127.0.0.1", "port": cls.port})
        serve.run(ray_serve.app(cls.paths, max_batch_size=8, batch_wait_timeout_s=0.05, max_ongoing_requests=64))

    def ask(self, method, path, content=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, content)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def test_requests(self):
        self.assertEqual((200, {"ready": True}), self.ask("GET", "/v2/health/ready"))
        self.assertEqual(404, self.ask("GET", "/v2/models/none")[0])
        self.assertEqual(400, self.ask("POST", "/v2/models/linear/infer", b"{")[0])
        rows = [self.rng.standard_normal((1 + index % 3, 8)).astype(np.float32) for index in range(48)]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda each: self.ask("POST", "/v2/models/linear/infer", body(each)), rows))
        for given, (status, answer) in zip(rows, answers):
            self.assertEqual(200, status, answer)
            np.testing.assert_allclose(np.reshape(answer["outputs"][0]["data"], answer["outputs"][0]["shape"]), expected(given), rtol=1e-5, atol=1e-6)

    def test_nothing_to_serve(self):
        with self.assertRaisesRegex(tenon.UsageError, "nothing to serve"):
            ray_serve.app({})


if importlib.util.find_spec("ray") is None:
    del WithRay  # rather than skipped: ctest takes a test with skipped parts for one that did not run


if __name__ == "__main__":
    unittest.main()
