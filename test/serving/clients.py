"""The clients that people have, unmodified, against `tenon serve`: tritonclient over HTTP, KServe's REST client, and curl.

Every answer is compared with that of `tenon run` on the same input. Runs in .venv-serving.
"""

import asyncio
import json
import subprocess
import unittest

import gevent
import numpy as np
import tritonclient.http
import tritonclient.http.aio
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from tritonclient.utils import InferenceServerException

from server import IMAGE, ImageTest, Server


class Clients(ImageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.folder / "models").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def check(self, logits):
        np.testing.assert_array_equal(self.expected, np.asarray(logits, np.float32).reshape(3, 10))

    def triton_input(self, binary, kind=tritonclient.http.InferInput):
        image = kind("image", list(IMAGE.shape), "FP32")
        image.set_data_from_numpy(IMAGE, binary_data=binary)
        return image

    def test_triton_inference(self):
        with tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.server.port}", concurrency=4) as client:
            for binary_in in (True, False):
                for binary_out in (None, True, False):
                    for encoding in (None, "gzip", "deflate"):
                        outputs = None if binary_out is None else [tritonclient.http.InferRequestedOutput("logits", binary_data=binary_out)]
                        result = client.infer("cnn", [self.triton_input(binary_in)], outputs=outputs, request_id="a\u00e9\"1", priority=1, timeout=10_000_000,
                                              model_version="1", request_compression_algorithm=encoding, response_compression_algorithm=encoding)
                        self.check(result.as_numpy("logits"))
                        self.assertEqual("a\u00e9\"1", result.get_response()["id"])
            calls = [client.async_infer("cnn", [self.triton_input(True)]) for _ in range(8)]
            for call in calls:
                self.check(call.get_result().as_numpy("logits"))

    def test_triton_many(self):
        """Clients at once: every answer has the bits of its own run, and there are fewer runs than requests."""
        before = json.loads(self.server.get("/v2/models/cnn/stats")[1])["model_stats"][0]
        with tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.server.port}", concurrency=16) as client:
            calls = []
            with self.server.paused():
                for i in range(200):
                    image = tritonclient.http.InferInput("image", [1, 1, 28, 28], "FP32")
                    image.set_data_from_numpy(IMAGE[i % 3:i % 3 + 1])
                    calls.append(client.async_infer("cnn", [image]))
                gevent.sleep(0.5)  # the first ones are sent meanwhile
            for i, call in enumerate(calls):
                np.testing.assert_array_equal(self.expected[i % 3:i % 3 + 1], call.get_result().as_numpy("logits"))
            after = client.get_inference_statistics("cnn")["model_stats"][0]
        inferences, executions = (after[key] - before[key] for key in ["inference_count", "execution_count"])
        self.assertEqual(200, inferences)
        self.assertLess(executions, inferences)
        self.assertEqual(after["execution_count"], sum(each["compute_infer"]["count"] for each in after["batch_stats"]))

    def test_triton_management(self):
        with tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.server.port}") as client:
            self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("cnn") and client.is_model_ready("cnn", "1"))
            self.assertFalse(client.is_model_ready("other"))
            self.assertEqual("tenon", client.get_server_metadata()["name"])
            self.assertEqual("image", client.get_model_metadata("cnn")["inputs"][0]["name"])
            self.assertEqual("cnn", client.get_model_config("cnn", "1")["name"])
            self.assertEqual("cnn", client.get_inference_statistics()["model_stats"][0]["name"])
            self.assertEqual("cnn", client.get_inference_statistics("cnn", "1")["model_stats"][0]["name"])
            client.unload_model("cnn")
            self.assertFalse(client.is_model_ready("cnn"))
            self.assertEqual("UNAVAILABLE", client.get_model_repository_index()[0]["state"])
            with self.assertRaisesRegex(InferenceServerException, "TN0811"):
                client.infer("cnn", [self.triton_input(True)])
            client.load_model("cnn")
            self.assertEqual("READY", client.get_model_repository_index()[0]["state"])
            self.assertEqual(["OFF"], client.get_trace_settings()["trace_level"])
            self.assertIn("log_info", client.get_log_settings())
            for call in [client.get_system_shared_memory_status, client.get_cuda_shared_memory_status]:
                with self.assertRaisesRegex(InferenceServerException, "TN0818"):
                    call()
            with self.assertRaisesRegex(InferenceServerException, "TN0807"):
                client.infer("cnn", [])

    def test_triton_aio(self):
        async def ask():
            async with tritonclient.http.aio.InferenceServerClient(f"127.0.0.1:{self.server.port}") as client:
                self.assertTrue(await client.is_server_ready())
                results = await asyncio.gather(*[client.infer("cnn", [self.triton_input(True)], response_compression_algorithm="gzip") for _ in range(8)])
                return [result.as_numpy("logits") for result in results]

        for logits in asyncio.run(ask()):
            self.check(logits)

    def test_kserve(self):
        async def ask():
            client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
            base = f"http://127.0.0.1:{self.server.port}"
            self.assertTrue(await client.is_server_live(base))
            self.assertTrue(await client.is_server_ready(base))
            self.assertTrue(await client.is_model_ready(base, "cnn"))
            for binary in (False, True):
                image = InferInput("image", list(IMAGE.shape), "FP32")
                image.set_data_from_numpy(IMAGE, binary_data=binary)
                answer = await client.infer(base, InferRequest("cnn", [image], request_id="7"), model_name="cnn")
                self.check(answer.outputs[0].as_numpy())
                self.assertEqual("7", answer.id)

        asyncio.run(ask())

    def test_curl(self):
        def curl(*arguments, data=None):
            done = subprocess.run(["curl", "-sS", "--fail-with-body", *arguments], input=data, capture_output=True)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            return done.stdout

        base = f"http://127.0.0.1:{self.server.port}/v2"
        self.assertEqual({"live": True}, json.loads(curl(f"{base}/health/live")))
        body = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": IMAGE.shape, "data": IMAGE.tolist()}]}).encode()
        for more in ([], ["--compressed"], ["-H", "Transfer-Encoding: chunked"], ["-0"], ["-H", "Expect: 100-continue"]):
            answer = json.loads(curl(*more, "--data-binary", "@-", f"{base}/models/cnn/infer", data=body))
            self.check(answer["outputs"][0]["data"])


if __name__ == "__main__":
    unittest.main()
