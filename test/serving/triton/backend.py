"""Tenon's backend in a real Triton: answers of `tenon run`, alone and batched, completed configurations, reasons of failed loads, unloading.

Skipped where `scripts/setup.sh triton` was not run. Runs in .venv-serving.
"""

import json
import os
import pathlib
import shutil
import sys
import threading
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np
import tritonclient.grpc
import tritonclient.http
import triton
from server import IMAGE, ImageTest

CONFIGS = {
    "plain": "",
    "batched": "max_batch_size: 64\ndynamic_batching { max_queue_delay_microseconds: 20000 }\ninstance_group [{ kind: KIND_CPU, count: 2 }]\n"
               'parameters { key: "threads" value { string_value: "1" } }\n',
    "wrong": 'input [{ name: "image", data_type: TYPE_INT8, dims: [-1, 1, 28, 28] }]\noutput [{ name: "logits", data_type: TYPE_FP32, dims: [-1, 10] }]\n',
    "missing": 'default_model_filename: "other.tenon"\n',
    "damaged": "",
}


@unittest.skipIf(triton.needed(), triton.needed())
class Backend(ImageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, config in CONFIGS.items():
            version = cls.folder / "repository" / name / "1"
            version.mkdir(parents=True)
            shutil.copy(cls.folder / "models/cnn.tenon", version / "model.tenon")
            (version.parent / "config.pbtxt").write_text('backend: "tenon"\n' + config)
        damaged = cls.folder / "repository/damaged/1/model.tenon"
        image = bytearray(damaged.read_bytes())
        image[len(image) // 2] ^= 1
        damaged.write_bytes(image)
        cls.server = triton.Triton(cls.folder / "repository", "--model-control-mode", "explicit", "--load-model", "*").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def call(self, path, body=None):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}/v2/{path}", None if body is None else body.encode()) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            return json.loads(error.read())["error"]

    def infer(self, module, address, model, image):
        with module.InferenceServerClient(address) as client:
            tensor = module.InferInput("image", list(image.shape), "FP32")
            tensor.set_data_from_numpy(image)
            return client.infer(model, [tensor]).as_numpy("logits")

    def test_answers(self):
        for model in ("plain", "batched"):
            for module, port in ((tritonclient.http, self.server.port), (tritonclient.grpc, self.server.grpc_port)):
                np.testing.assert_array_equal(self.expected, self.infer(module, f"127.0.0.1:{port}", model, IMAGE))

    def test_batches(self):
        before = self.call("models/batched/stats")["model_stats"][0]
        answers = [None] * 24

        def ask(i):
            answers[i] = self.infer(tritonclient.http, f"127.0.0.1:{self.server.port}", "batched", IMAGE[i % 3:i % 3 + 1])

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(answers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, answer in enumerate(answers):
            np.testing.assert_allclose(answer, self.expected[i % 3:i % 3 + 1], rtol=1e-4, atol=1e-4)
        after = self.call("models/batched/stats")["model_stats"][0]
        inferences, executions = (after[key] - before[key] for key in ("inference_count", "execution_count"))
        self.assertEqual(len(answers), inferences)
        self.assertLess(executions, inferences)
        self.assertEqual(0, after["inference_stats"]["fail"]["count"])

    def test_completed_configuration(self):
        self.assertEqual([-1, 1, 28, 28], self.call("models/plain/config")["input"][0]["dims"])
        self.assertEqual([1, 28, 28], self.call("models/batched/config")["input"][0]["dims"])
        self.assertEqual([10], self.call("models/batched/config")["output"][0]["dims"])

    def test_errors(self):
        answer = self.call("models/plain/infer", json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 27, 28], "data": [0] * 756}]}))
        self.assertIn("image", answer)
        reasons = {row["name"]: row.get("reason", "") for row in self.call("repository/index", "{}") if row.get("state") == "UNAVAILABLE"}
        self.assertIn("TN0805: input 'image' is TYPE_INT8, but the engine has TYPE_FP32", reasons["wrong"])
        self.assertIn("TN0101: cannot open", reasons["missing"])
        self.assertIn("TN05", reasons["damaged"])

    def test_unload(self):
        maps = pathlib.Path(f"/proc/{self.server.process.pid}/maps")
        is_mapped = lambda: "repository/plain/1/model.tenon" in maps.read_text()
        self.assertTrue(is_mapped())
        for _ in range(3):
            self.call("repository/models/plain/unload", "{}")
            for _ in range(500):
                if not is_mapped():
                    break
                threading.Event().wait(0.01)
            self.assertFalse(is_mapped())
            self.assertIsNone(self.call("repository/models/plain/load", "{}"))
            np.testing.assert_array_equal(self.expected, self.infer(tritonclient.http, f"127.0.0.1:{self.server.port}", "plain", IMAGE))


if __name__ == "__main__":
    unittest.main()
