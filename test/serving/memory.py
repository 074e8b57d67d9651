"""What requests hold: slow clients take no more than `--max-memory` and give it back, and no request keeps the event loop from others.

Classes: readers that take nothing over HTTP/1.1 and HTTP/2, writers that stand and that drip, replies and bodies that move; JSON both
ways, compression both ways, JSON that is refused late.
"""

import contextlib
import gzip
import http.client
import json
import pathlib
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from server import TENON, Server

WIDTH = 1 << 20  # of a row of `expand`: 4 MiB
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def save(folder, name, node, dims, constants=()):
    ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, ["batch", dim]) for port, dim in zip("xy", dims)]
    path = folder / f"{name}.onnx"
    onnx.save(helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:], list(constants)), opset_imports=[helper.make_opsetid("", 18)],
                                ir_version=9), path)
    subprocess.run([TENON, "compile", path, "-o", path.with_suffix(".tenon"), "--quiet"], check=True)
    path.unlink()


def body_of(rows, columns=1, **more):
    tensor = {"name": "x", "datatype": "FP32", "shape": [rows, columns], "data": [0.123456789] * (rows * columns)}
    return json.dumps({"inputs": [tensor], **more}).encode()


def post(model, body, *headers):
    return "\r\n".join([f"POST /v2/models/{model}/infer HTTP/1.1", "Host: localhost", *headers, f"Content-Length: {len(body)}"]).encode() + b"\r\n\r\n" + body


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def http2_infer(stream, model, body):
    fields = [(":method", "POST"), (":scheme", "http"), (":path", f"/v2/models/{model}/infer"), (":authority", "localhost")]
    block = b"".join(b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in fields)
    return frame(1, 4, stream, block) + frame(0, 1, stream, body)


class MemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        save(cls.folder, "echo", helper.make_node("Identity", ["x"], ["y"]), ["n", "n"])
        save(cls.folder, "expand", helper.make_node("Expand", ["x", "shape"], ["y"]), [1, WIDTH], [numpy_helper.from_array(np.array([1, WIDTH], np.int64), "shape")])

    def serve(self, *arguments):
        server = Server(self.folder, *arguments)
        self.addCleanup(server.__exit__)
        return server


class SlowClients(MemoryTest):
    MOST = 64 << 20
    BINARY = body_of(2, parameters={"binary_data_output": True})  # a reply of 8 MiB

    def setUp(self):
        self.server = self.serve("--max-memory", self.MOST >> 20, "--client-timeout", "1s")
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def connect(self):
        connection = self.stack.enter_context(socket.create_connection(("127.0.0.1", self.server.port), timeout=20))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        return connection

    def held(self):
        return self.server.metric("tenon_request_memory_bytes", None)

    def small_ones_are_answered(self):
        for _ in range(5):
            self.assertEqual(200, self.server.post("/v2/models/echo/infer", body_of(1, 64))[0])
        self.assertEqual(200, self.server.get("/v2/health/live")[0])

    def gives_back(self):
        self.server.wait_until(lambda: self.held() < 1 << 20)
        self.assertEqual(0, self.server.metric("tenon_worker_losses_total", None))

    def test_readers(self):
        """Some of many are answered, the others refused; all are ended by what the socket accepts."""
        connections = [self.connect() for _ in range(16)]
        for connection in connections:
            connection.sendall(post("expand", self.BINARY))
        heads = [connection.recv(512) for connection in connections]
        statuses = [head[9:12] for head in heads]
        self.assertEqual({b"200", b"429"}, set(statuses), statuses)
        self.assertIn(b"Retry-After: 1", next(head for head in heads if head[9:12] == b"429"))
        self.assertLess(16 << 20, self.held())
        self.assertLessEqual(self.held(), self.MOST)
        self.small_ones_are_answered()
        self.gives_back()

    def test_streams(self):
        connection = self.connect()
        connection.sendall(PREFACE + frame(4, 0, 0, struct.pack(">HI", 4, 0)))  # no window for replies
        for i in range(16):
            connection.sendall(http2_infer(1 + 2 * i, "expand", self.BINARY))
        self.server.wait_until(lambda: self.held() > 16 << 20)
        self.assertLessEqual(self.held(), self.MOST)
        self.small_ones_are_answered()
        self.gives_back()

    def test_writers(self):
        """One that stands and one that drips are ended; what they had sent is given back."""
        stands, drips = self.connect(), self.connect()
        stands.sendall(post("echo", b"").replace(b"Content-Length: 0", b"Content-Length: 20000000") + b" " * (4 << 20))
        drips.sendall(post("echo", b"").replace(b"Content-Length: 0", b"Content-Length: 20000000") + b" " * 4096)
        for _ in range(15):  # 1.5 s
            with contextlib.suppress(OSError):
                drips.sendall(b" ")
            time.sleep(0.1)
        for connection in (stands, drips):
            answer = b""
            with contextlib.suppress(OSError):
                answer = connection.recv(512)
            self.assertIn(answer[9:12], (b"408", b""))
        self.gives_back()

    def test_a_reply_that_moves_is_whole(self):
        """It takes longer than the time-out, and is faster than the least rate."""
        connection, taken, slept = self.connect(), b"", 0
        connection.sendall(post("expand", self.BINARY))
        while b"\r\n\r\n" not in taken:
            taken += connection.recv(4096)
        length = int(taken.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        size = len(taken.partition(b"\r\n\r\n")[2])
        while size < length:
            piece = connection.recv(1 << 18)
            self.assertTrue(piece, f"ended after {size} bytes of {length}")
            size += len(piece)
            if slept < 25:
                slept += 1
                time.sleep(0.1)

    def test_small_bodies_that_become_large(self):
        """A bomb, and numbers of which each takes nine bytes, find no room and are refused; nothing stays."""
        for body, headers in [(gzip.compress(b" " * (60 << 20), 1), ["Content-Encoding: gzip"]), (body_of(1, 2).replace(b"[0.123456789, ", b"[" + b"0," * (9 << 20)), [])]:
            answer = self.server.raw(post("echo", body, *headers))
            self.assertIn(b"TN0812", answer)
        self.gives_back()


class Blocking(MemoryTest):
    """While one request is worked at, others are answered: the longest wait of a probe is a small part of the request's time. (With all
    on one thread it is most of it.)"""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.folder, "--max-memory", 1024)
        cls.addClassCleanup(cls.server.__exit__)

    CASES = {
        "JSON reply": post("expand", body_of(3)),
        "gzip reply": post("expand", body_of(2), "Accept-Encoding: gzip"),
        "JSON request": post("echo", body_of(1, 1_500_000, parameters={"binary_data_output": True})),
        "gzip request": post("echo", gzip.compress(b"[" + b"0," * (25 << 20), 1), "Content-Encoding: gzip"),
        "blanks": post("echo", b" " * (60 << 20)),
        "a long text": post("echo", b'{"id":"' + b"\\n" * (25 << 20) + b'"}'),
    }

    def probe(self, ends, waits):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        while not ends.is_set():
            start = time.monotonic()
            connection.request("GET", "/v2/health/live")
            self.assertEqual(200, connection.getresponse().status)
            connection.close()
            waits.append(time.monotonic() - start)
            time.sleep(0.001)

    def test_others_are_answered(self):
        for name, request in self.CASES.items():
            with self.subTest(name):
                waits, ends = [], threading.Event()
                with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as connection:
                    connection.sendall(request[:-1])
                    thread = threading.Thread(target=self.probe, args=(ends, waits))
                    thread.start()
                    start = time.monotonic()
                    connection.sendall(request[-1:])
                    connection.recv(1)
                    took = time.monotonic() - start
                    ends.set()
                    thread.join()
                self.assertLess(max(waits), took / 2, f"{len(waits)} probes in {took:.3f} s")


if __name__ == "__main__":
    unittest.main()
