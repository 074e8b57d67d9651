"""All paths of the server, from its own table: each exists, each needs its role, and methods are those of the table. Then what the
answers say: metadata, configuration, statistics, metrics, index, doors.
"""

import gzip
import json
import os
import re
import subprocess
import unittest
import zlib

from server import PIXELS, TENON, Server, ServingTest, input_of, request

TOKENS = {"infer": "i" * 16, "read": "r" * 16, "admin": "a" * 16}


def fill(path):
    return path.replace("{model}", "cnn").replace("{version}", "1").replace("{region}", "r")


def routes():
    listed = subprocess.run([TENON, "serve", "--routes", "--json"], check=True, capture_output=True, text=True)
    value = json.loads(listed.stdout)
    assert value["schema"] == "tenon.serve.routes/1", value["schema"]
    return value["routes"]


def http_routes():
    return [route for route in routes() if route["transport"] == "http"]


class Table(ServingTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        file = cls.folder / "tokens"
        file.write_text("# of the test\n" + "".join(f"{token} {role}\n" for role, token in TOKENS.items()))
        file.chmod(0o600)
        cls.server = Server(cls.folder / "models", "--token-file", file, "--address", "127.0.0.1").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def call(self, route, token=None, scheme="Bearer"):
        headers = {} if token is None else {"Authorization": f"{scheme} {token}"}
        body = json.dumps(request()).encode() if route["operation"] == "ModelInfer" else b""
        return self.server.call(route["method"], fill(route["path"]), body if route["method"] == "POST" else None, headers)

    def test_every_route(self):
        table = http_routes()
        self.assertGreater(len(table), 20)
        for route in table:
            for role, token in TOKENS.items():
                with self.subTest(f"{route['method']} {route['path']} by {role}"):
                    allowed = route["role"] in ("open", role) or role == "admin"
                    status, _, body = self.call(route, token)
                    if not allowed:
                        self.refused((status, body), 403, "TN0816")
                    elif route["operation"] in ("SharedMemory", "TraceSetting", "Logging") or route["operation"].startswith("Registry"):
                        self.assertIn(status, (200, 501), body)
                    elif route["operation"] == "ModelDrift":
                        self.refused((status, body), 404, "TN0810")  # it is not monitored
                    elif route["operation"] in ("ModelLabels", "ChatCompletions", "Completions"):
                        self.refused((status, body), 400, "TN0806")
                    elif route["operation"] == "TextModel":
                        self.refused((status, body), 404, "TN0810")  # it continues no texts
                    else:
                        self.assertEqual(200, status, body)
                    self.server.wait_until(lambda: self.server.get("/v2/health/ready")[0] == 200)
            self.server.call("POST", "/v2/repository/models/cnn/load", b"", {"Authorization": f"Bearer {TOKENS['admin']}"})

    def test_schemes_and_heads(self):
        """The scheme is of any case; HEAD is GET without the body."""
        for route in http_routes():
            if route["method"] == "GET":
                status, headers, body = self.call(route, TOKENS["admin"], "bEARER ")
                head = self.server.call("HEAD", fill(route["path"]), None, {"Authorization": f"BEARER {TOKENS['admin']}"})
                self.assertEqual((status, headers["Content-Type"], b""), (head[0], head[1]["Content-Type"], head[2]), route["path"])

    def test_without_token(self):
        for route in http_routes():
            for token, scheme in [(None, ""), ("x" * 16, "Bearer"), (TOKENS["admin"][:-1], "Bearer"), (TOKENS["admin"], "Basic"), ("", "Bearer")]:
                status, headers, body = self.call(route, token, scheme)
                if route["role"] == "open":
                    self.assertEqual(200, status)
                else:
                    self.refused((status, body), 401, "TN0815")
                    self.assertEqual("Bearer", headers["WWW-Authenticate"])
        # Which paths there are is told to nobody either.
        self.refused(self.server.get("/nothing"), 401, "TN0815")

    def test_other_methods(self):
        table = http_routes()
        methods = {}
        for route in table:
            methods.setdefault(fill(route["path"]), set()).add(route["method"])
        for path, known in methods.items():
            for method in {"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"} - known - ({"HEAD"} if "GET" in known else set()):
                status, _, _ = self.server.call(method, path, None, {"Authorization": f"Bearer {TOKENS['admin']}"})
                self.assertEqual(404, status, f"{method} {path}")


class Answers(ServingTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.folder / "models").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def test_health_is_json(self):
        self.assertEqual((200, b'{"live":true}'), self.server.get("/v2/health/live"))
        self.assertEqual((200, b'{"ready":true}'), self.server.get("/v2/health/ready"))
        self.assertEqual((200, b'{"ready":true}'), self.server.get("/v2/models/cnn/ready"))

    def test_metadata(self):
        server = json.loads(self.server.get("/v2")[1])
        self.assertIn("statistics", server["extensions"])
        self.assertNotIn("schedule_policy", server["extensions"])  # priorities are passed over
        model = json.loads(self.server.get("/v2/models/cnn/versions/1")[1])
        self.assertEqual(["1"], model["versions"])
        self.assertEqual([{"name": "image", "datatype": "FP32", "shape": [-1, 1, 28, 28]}], model["inputs"])
        config = json.loads(self.server.get("/v2/models/cnn/config")[1])
        self.assertEqual("TYPE_FP32", config["input"][0]["data_type"])

    def test_json_answer(self):
        status, answer = self.server.infer()
        self.assertEqual((200, "cnn", "1"), (status, answer["model_name"], answer["model_version"]))
        output = answer["outputs"][0]
        self.assertEqual(("logits", "FP32", [1, 10], 10), (output["name"], output["datatype"], output["shape"], len(output["data"])))

    def test_compressed_answers(self):
        body = json.dumps({"inputs": [input_of(shape=[64, 1, 28, 28], data=[0.5] * 64 * PIXELS)]}).encode()
        plain = self.server.call("POST", "/v2/models/cnn/infer", body)[2]
        for accepted, unpack in [("gzip", gzip.decompress), ("deflate", zlib.decompress), ("br, deflate;q=0, gzip", gzip.decompress)]:
            status, headers, packed = self.server.call("POST", "/v2/models/cnn/infer", body, {"Accept-Encoding": accepted})
            self.assertEqual(200, status)
            self.assertIn(headers["Content-Encoding"], accepted)
            self.assertEqual(plain, unpack(packed))
        self.assertNotIn("Content-Encoding", self.server.call("POST", "/v2/models/cnn/infer", body, {"Accept-Encoding": "identity, gzip;q=0"})[1])

    def test_statistics_and_metrics(self):
        def statistics():
            return json.loads(self.server.get("/v2/models/cnn/versions/1/stats")[1])["model_stats"][0]

        before = statistics()
        for _ in range(3):
            self.assertEqual(200, self.server.infer()[0])
        self.assertEqual(400, self.server.post("/v2/models/cnn/infer", {"inputs": []})[0])
        # NaN in every place: they come back as words.
        head = json.dumps({"inputs": [input_of(data=None, parameters={"binary_data_size": 4 * PIXELS})]}).encode()
        sizes = {"Inference-Header-Content-Length": str(len(head))}
        self.assertIn(b"[NaN,", self.server.call("POST", "/v2/models/cnn/infer", head + b"\xff" * 4 * PIXELS, sizes)[2])
        after = statistics()
        self.assertEqual(4, after["inference_count"] - before["inference_count"])
        self.assertEqual(4, after["execution_count"] - before["execution_count"])
        for name in ["success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"]:
            grown = after["inference_stats"][name]["count"] - before["inference_stats"][name]["count"]
            self.assertEqual({"fail": 1, "cache_hit": 0, "cache_miss": 0}.get(name, 4), grown, name)
        self.assertGreater(after["last_inference"], 1_600_000_000_000)
        metrics = self.server.get("/metrics")[1].decode()
        count = after["inference_stats"]["success"]["count"]
        self.assertIn(f'tenon_requests_total{{model="cnn",version="1",outcome="ok"}} {count}', metrics)
        for stage in ["queue", "copy_in", "compute", "copy_out"]:
            self.assertIn(f'tenon_stage_seconds_count{{model="cnn",version="1",stage="{stage}"}} {count}\n', metrics)
        for line in metrics.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+)$')
        buckets = [int(value) for value in re.findall(r'tenon_request_seconds_bucket\{.*\} (\d+)', metrics)]
        self.assertEqual(sorted(buckets), buckets)
        self.assertEqual(count, buckets[-1])


class Doors(ServingTest):
    def start(self, *arguments):
        port = [] if "--port" in arguments else ["--port", "0"]
        done = subprocess.run([TENON, "serve", self.folder / "models", *port, *map(str, arguments)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def refuses(self, code, *arguments):
        status, text = self.start(*arguments)
        self.assertEqual(2, status, text)
        self.assertIn(f"error {code}: ", text)

    def test_addresses(self):
        self.refuses("TN0801", "--address", "0.0.0.0")
        self.refuses("TN0801", "--address", "::")
        self.refuses("TN0802", "--address", "host.example")
        self.refuses("TN0802", "--address", "192.0.2.1", "--insecure")
        with Server(self.folder / "models", "--address", "0.0.0.0", "--insecure") as server:
            self.refuses("TN0802", "--port", server.port)
            self.assertEqual(200, server.infer()[0])

    def test_first_line_as_json(self):
        with subprocess.Popen([TENON, "serve", self.folder / "models", "--port", "0", "--json"], stdout=subprocess.PIPE, text=True) as process:
            lines = [process.stdout.readline()]
            while lines[-1] not in ("}\n", ""):
                lines.append(process.stdout.readline())
            process.terminate()
        self.assertEqual("tenon.serve/1", json.loads("".join(lines))["schema"])

    def test_token_files(self):
        file = self.folder / "bad"
        for text, mode in [("", 0o600), ("short infer\n", 0o600), (TOKENS["read"] + "\n", 0o600), (TOKENS["read"] + " owner\n", 0o600),
                           (TOKENS["read"] + " read\n", 0o644)]:
            file.write_text(text)
            file.chmod(mode)
            self.refuses("TN0803", "--token-file", file)
        self.refuses("TN0101", "--token-file", self.folder / "missing")

    def test_folders(self):
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        done = subprocess.run([TENON, "serve", empty, "--port", "0"], capture_output=True, text=True, timeout=60)
        self.assertEqual(5, done.returncode)
        self.assertIn("TN0804", done.stderr)
        os.symlink(self.folder / "models/cnn.tenon", empty / "a b.tenon")
        os.symlink("loop", empty / "loop")
        self.assertIn("TN0804", subprocess.run([TENON, "serve", empty, "--port", "0"], capture_output=True, text=True, timeout=60).stderr)


if __name__ == "__main__":
    unittest.main()
