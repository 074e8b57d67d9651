"""KServe's client of gRPC, and TLS: by KServe, tritonclient, curl and openssl.

Apart from grpc_clients.py, since tritonclient's messages and KServe's have the same names and cannot be in one process; what tritonclient
does here, it does in one of its own. Runs in .venv-serving.
"""

import asyncio
import http.client
import json
import ssl
import subprocess
import sys
import unittest

import numpy as np
from kserve import InferenceGRPCClient, InferInput, InferRequest

from server import IMAGE, TENON, ImageTest, Server, request

TRITON = """
import sys
import numpy as np
import tritonclient.grpc as triton
client = triton.InferenceServerClient(sys.argv[1], ssl=True, root_certificates=sys.argv[2])
image = triton.InferInput("image", [3, 1, 28, 28], "FP32")
image.set_data_from_numpy(np.load(sys.argv[3]))
np.save(sys.argv[4], client.infer("cnn", [image]).as_numpy("logits"))
"""


def make_certificate(folder, name="server"):
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "30", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    return certificate, key


class Clients(ImageTest):
    def ask_by_kserve(self, **options):
        async def ask():
            async with InferenceGRPCClient(retries=0, **options) as client:
                self.assertTrue(await client.is_server_live())
                self.assertTrue(await client.is_server_ready())
                self.assertTrue(await client.is_model_ready("cnn"))
                self.assertFalse(await client.is_model_ready("other"))
                for binary in (True, False):
                    image = InferInput("image", list(IMAGE.shape), "FP32")
                    image.set_data_from_numpy(IMAGE, binary_data=binary)
                    answer = await client.infer(InferRequest("cnn", [image], request_id="7"))
                    np.testing.assert_array_equal(self.expected, answer.outputs[0].as_numpy())
                    self.assertEqual("7", answer.id)

        asyncio.run(ask())

    def test_kserve(self):
        with Server(self.folder / "models") as server:
            self.ask_by_kserve(url=f"127.0.0.1:{server.port}")

    def test_tls(self):
        certificate, key = make_certificate(self.folder)
        with Server(self.folder / "models", "--tls-cert", certificate, "--tls-key", key, "--client-timeout", "2s", waits=False) as server:
            base = f"https://localhost:{server.port}/v2"

            def curl(*arguments):
                done = subprocess.run(["curl", "-sS", "--fail-with-body", "--cacert", certificate, *arguments], capture_output=True, text=True)
                return done.returncode, done.stdout + done.stderr

            server.wait_until(lambda: curl(f"{base}/health/ready")[0] == 0)
            # curl takes HTTP/2 by ALPN where it may choose.
            for option, version in [("--http1.1", "1.1"), ("--http2", "2")]:
                self.assertEqual((0, version), curl(option, "-o", "/dev/null", "-w", "%{http_version}", f"{base}/models/cnn"))
            code, answer = curl(f"{base}/models/other")
            self.assertIn("TN0810", answer)
            self.assertNotEqual(0, code)
            self.ask_by_kserve(url=f"localhost:{server.port}", use_ssl=True, root_certificates=str(certificate))
            out = self.folder / "logits.npy"
            subprocess.run([sys.executable, "-c", TRITON, f"localhost:{server.port}", certificate, self.folder / "image.npy", out], check=True)
            np.testing.assert_array_equal(self.expected, np.load(out))
            # Many requests on one connection, of which the server reads the next while one waits.
            connection = http.client.HTTPSConnection("localhost", server.port, context=ssl.create_default_context(cafile=certificate), timeout=20)
            for _ in range(50):
                connection.request("POST", "/v2/models/cnn/infer", json.dumps(request()))
                answer = connection.getresponse()
                self.assertEqual(200, answer.status)
                self.assertEqual([1, 10], json.loads(answer.read())["outputs"][0]["shape"])
            connection.close()
            # Without TLS, or of an old version, nobody is served; who never ends the handshake is not waited for.
            self.assertEqual(b"", server.raw(b"", to_end=True))
            self.assertNotIn(b"HTTP/1.1", server.raw(b"GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n", to_end=True))
            old = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"], input=b"", capture_output=True)
            self.assertNotEqual(0, old.returncode)
            # A client that goes away frees its place, by TLS too.
            with server.paused():
                body = self.folder / "body.json"
                body.write_text('{"inputs":[{"name":"image","datatype":"FP32","shape":[1,1,28,28],"data":[' + ",".join(["0"] * 784) + "]}]}")
                start = lambda: subprocess.Popen(["curl", "-s", "--http1.1", "--cacert", certificate, "--data-binary", f"@{body}", f"{base}/models/cnn/infer"])  # noqa: E731
                gauge = lambda name: next(line for line in curl(f"https://localhost:{server.port}/metrics")[1].splitlines() if line.startswith(name + "{")).split()[-1]  # noqa: E731
                clients = [start()]
                server.wait_until(lambda: gauge("tenon_requests_running") == "1")  # or all might run in one batch
                clients += [start(), start()]
                server.wait_until(lambda: gauge("tenon_queue_length") == "2")
                for client in clients:
                    client.kill()
                    client.wait()
                server.wait_until(lambda: gauge("tenon_queue_length") == "0")

    def test_bad_certificates(self):
        certificate, key = make_certificate(self.folder, "one")
        _, other = make_certificate(self.folder, "two")
        text = self.folder / "text"
        text.write_text("no certificate")
        locked = self.folder / "locked.key"
        subprocess.run(["openssl", "rsa", "-aes256", "-passout", "pass:1234", "-in", key, "-out", locked], check=True, capture_output=True)
        for options in [["--tls-cert", certificate], ["--tls-key", key], ["--tls-cert", text, "--tls-key", key], ["--tls-cert", certificate, "--tls-key", text], ["--tls-cert", certificate, "--tls-key", other],
                        ["--tls-cert", self.folder / "none", "--tls-key", key], ["--tls-cert", certificate, "--tls-key", locked], ["--tls-cert", key, "--tls-key", certificate]]:
            done = subprocess.run([TENON, "serve", self.folder / "models", "--port", "0", *options], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn("TN0831", done.stderr)


if __name__ == "__main__":
    unittest.main()
