"""A server for a test: `tenon serve` over a folder of the test's own, with the committed CNN as its model; and HTTP by hand.

Relies on the standard library and numpy only, so that every environment can use it.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
TENON = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "bin/tenon"
CNN = SOURCE / "models/fashion_cnn.onnx"
PIXELS = 28 * 28
LABEL = r'(\w+)="([^"]*)"'  # of a metric


def compile_cnn(path, *arguments):
    """The CNN as an engine: image FP32 [1..65536, 1, 28, 28] -> logits FP32 [.., 10]."""
    subprocess.run([TENON, "compile", CNN, "-o", path, "--quiet", *arguments], check=True)


class Server:
    """A running server; `folder` is what it serves. Ends with SIGTERM at the end of a `with`. prefix: words before the command that become it."""

    def __init__(self, folder, *arguments, waits=True, prefix=()):
        self.process = subprocess.Popen([*prefix, TENON, "serve", folder, "--port", "0", *map(str, arguments)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.log = []
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        if not line:
            self.process.wait()
            self.reader.join(5)
            self.process.stdout.close()
            self.process.stderr.close()
            raise RuntimeError("the server did not start: " + "".join(self.log))
        self.port = int(line.rsplit(":", 1)[1])
        if waits:
            self.wait_until(lambda: self.get("/v2/health/ready")[0] == 200)

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()

    def wait_until(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError("what was waited for did not come: " + "".join(self.log))
            time.sleep(0.01)

    def logged(self, words, count=1):
        """The log's lines that have these words, once there are as many: a line is read after what it tells of."""
        lines = lambda: [line for line in self.log if words in line]
        self.wait_until(lambda: len(lines()) >= count)
        return lines()

    def call(self, method, path, body=None, headers=None, timeout=30):
        """Status, headers and body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path, **more):
        status, _, body = self.call("GET", path, **more)
        return status, body

    def post(self, path, value=None, **more):
        body = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
        status, _, body = self.call("POST", path, body, **more)
        return status, json.loads(body)

    def infer(self, model="cnn", image=None, **more):
        return self.post(f"/v2/models/{model}/infer", request(image), **more)

    def metrics(self, name):
        """[({label: value}, value)] of the lines of a family of /metrics."""
        found = []
        for line in self.get("/metrics")[1].decode().splitlines():
            if match := re.fullmatch(re.escape(name) + r"(?:\{(.*)\})? (\S+)", line):
                found.append((dict(re.findall(LABEL, match[1] or "")), float(match[2])))
        return found

    def metric(self, name, labels='model="cnn",version="1"'):
        """The sum of the lines of /metrics that have these labels."""
        wanted = dict(re.findall(LABEL, labels or ""))
        values = [value for has, value in self.metrics(name) if wanted.items() <= has.items()]
        if not values:
            raise AssertionError(f"there is no metric {name} with {labels}")
        return sum(values)

    def worker(self, model=None):
        """The process id of the worker that has the model, or that was started first; None where there is none."""
        if model is None:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            return int(children[0]) if children else None
        name = next(labels["worker"] for labels, _ in self.metrics("tenon_model_bytes") if labels["model"] == model)
        return int(sum(value for labels, value in self.metrics("tenon_worker_process_id") if labels["worker"] == name)) or None

    def stop(self, worker):
        """Stops a worker; it computes nothing once this returns."""
        os.kill(worker, signal.SIGSTOP)
        # Each thread stops when it is next in the kernel.
        states = [pathlib.Path(f"/proc/{worker}/task/{task}/stat") for task in os.listdir(f"/proc/{worker}/task")]

        def stands(state):
            try:
                return state.read_text().rsplit(")", 1)[1].split()[0] == "T"
            except (FileNotFoundError, ProcessLookupError):
                return True  # this thread has ended

        self.wait_until(lambda: all(map(stands, states)))

    @contextlib.contextmanager
    def paused(self):
        """The worker, which does nothing meanwhile: what is sent to it waits."""
        worker = self.worker()
        self.stop(worker)
        try:
            yield worker
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGCONT)

    def state(self, model="cnn"):
        """The state of a model's only version in the index."""
        return next(row["state"] for row in self.post("/v2/repository/index")[1] if row["name"] == model)

    def raw(self, *pieces, shuts=False, to_end=False, timeout=20):
        """Sends bytes as they are and gives what comes back: one whole answer, or with `to_end` all until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            try:
                for piece in pieces:
                    connection.sendall(piece)
                if shuts:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server may have answered and closed before all was sent
            answer = b""
            while to_end or not is_whole(answer):
                try:
                    piece = connection.recv(65536)
                except ConnectionError:
                    break
                if not piece:
                    break
                answer += piece
            return answer


def is_whole(answer):
    if answer.startswith(b"HTTP/1.1 100 "):
        answer = answer.partition(b"\r\n\r\n")[2]
    head, separator, body = answer.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return bool(separator and lengths) and len(body) >= int(lengths[0])


def input_of(**changes):
    """The input of the CNN, with members changed, or removed by None."""
    members = {"name": "image", "datatype": "FP32", "shape": [1, 1, 28, 28], "data": [0] * PIXELS, **changes}
    return {key: value for key, value in members.items() if value is not None}


def request(image=None):
    return {"inputs": [input_of() if image is None else input_of(data=image)]}


class ServingTest(unittest.TestCase):
    """Each class has a folder of its own; `self.folder / "models"` holds cnn.tenon."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        (cls.folder / "models").mkdir()
        compile_cnn(cls.folder / "models/cnn.tenon")

    def refused(self, answer, status, code):
        """An answer (status, JSON or bytes) is this error."""
        value = answer[1] if isinstance(answer[1], dict) else json.loads(answer[1])
        error = value["error"]
        text = error["message"] if isinstance(error, dict) else error  # of OpenAI's interface, or of KServe's
        self.assertEqual((status, code), (answer[0], text[:6]), text)
        return text


IMAGE = np.random.default_rng(7).random((3, 1, 28, 28), dtype=np.float32)


class ImageTest(ServingTest):
    """`expected` is what `tenon run` makes of IMAGE, which is `image.npy` in the folder."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        np.save(cls.folder / "image.npy", IMAGE)
        subprocess.run([TENON, "run", cls.folder / "models/cnn.tenon", "--inputs", cls.folder / "image.npy", "-o", cls.folder / "out.npz", "--quiet"], check=True)
        cls.expected = np.load(cls.folder / "out.npz")["logits"]
