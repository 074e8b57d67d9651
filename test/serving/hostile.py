"""Requests that are malformed or hostile: each is answered with its error, not with that of a client that is slow, and the server goes on.

Classes: JSON, tensors, lengths, encodings, framing, paths, slow clients.
"""

import gzip
import json
import random
import socket
import time
import unittest
import zlib

from server import PIXELS, Server, ServingTest, input_of

INFER = "/v2/models/cnn/infer"
MOST_BODY = 1 << 20


def message(*lines, body=b"", host=True):
    """A request with these lines of its header."""
    head = [lines[0]] + (["Host: localhost"] if host else []) + list(lines[1:])
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


def post(*headers, body=b"", **more):
    return message(f"POST {INFER} HTTP/1.1", *headers, body=body, **more)


def sized(body, *headers):
    return post(f"Content-Length: {len(body)}", *headers, body=body)


def infer(**changes):
    return json.dumps({"inputs": [input_of(**changes)]}).encode()


BINARY = json.dumps({"inputs": [input_of(data=None, parameters={"binary_data_size": 4 * PIXELS})]}).encode()
BINARY_SIZE = f"Inference-Header-Content-Length: {len(BINARY)}"
VALID = infer()

BODIES = {  # name: (body, status, error)
    "empty": (b"", 400, "TN0806"),
    "no object": (b"[]", 400, "TN0806"),
    "no inputs": (b"{}", 400, "TN0806"),
    "cut": (VALID[:-2], 400, "TN0806"),
    "trailing": (VALID + b"x", 400, "TN0806"),
    "depth of values": (b'{"a":' + b"[" * 100_000, 400, "TN0806"),
    "depth of objects": (b'{"a":' * 100_000, 400, "TN0806"),
    "depth of data": (b'{"inputs":[{"data":' + b"[" * 100_000, 400, "TN0806"),
    "many values": (b'{"a":[' + b"{}," * 200_000 + b"{}]}", 400, "TN0806"),
    "duplicate keys": (b'{"inputs":[],"inputs":[]}', 400, "TN0806"),
    "lone surrogate": (b'{"id":"\\ud800","inputs":[]}', 400, "TN0806"),
    "not UTF-8": (b'{"id":"\xff","inputs":[]}', 400, "TN0806"),
    "1e400": (VALID.replace(b"0]", b"1e400]"), 400, "TN0806"),
    **{f"{word} as a number": (VALID.replace(b"0]", word.encode() + b"]"), 400, "TN0806") for word in ["nan", "NaN5", "1NaN", "-NaN", "+Infinity", "Infinit", "NaN NaN"]},
    "NaN outside of data": (b'{"parameters":{"a":[NaN]},"inputs":[{"data":[NaN]}]}', 400, "TN0806"),
    "NaN in a shape": (infer().replace(b"[1, 1,", b"[NaN, 1,"), 400, "TN0806"),
    "beyond the type": (infer(data=[1e39] * PIXELS), 400, "TN0807"),
    "booleans": (infer(data=[True] * PIXELS), 400, "TN0807"),
    "text as data": (infer(data="x"), 400, "TN0806"),
    "text in data": (infer(data=["x"] * PIXELS), 400, "TN0806"),
    "number as data": (infer(data=0), 400, "TN0806"),
    "wrong type": (infer(datatype="INT64"), 400, "TN0807"),
    "unknown type": (infer(datatype="FP33"), 400, "TN0807"),
    "type of text": (infer(datatype="BYTES"), 400, "TN0807"),
    "unknown input": (infer(name="imag"), 400, "TN0807"),
    "input missing": (b'{"inputs":[]}', 400, "TN0807"),
    "input twice": (json.dumps({"inputs": [input_of(), input_of()]}).encode(), 400, "TN0807"),
    "unknown output": (json.dumps({"inputs": [input_of()], "outputs": [{"name": "logit"}]}).encode(), 400, "TN0807"),
    "output twice": (json.dumps({"inputs": [input_of()], "outputs": [{"name": "logits"}] * 2}).encode(), 400, "TN0807"),
    "wrong rank": (infer(shape=[PIXELS]), 400, "TN0807"),
    "high rank": (infer(shape=[1] * 33), 400, "TN0807"),
    "wrong count": (infer(data=[0]), 400, "TN0807"),
    "dim out of range": (infer(shape=[1, 2, 28, 14]), 400, "TN0807"),
    "no places where their number is fixed": (infer(shape=[1, 0, 28, 28], data=[]), 400, "TN0807"),
    "negative dim": (infer(shape=[-1, -1, 28, 28]), 400, "TN0807"),
    "product over 2^63": (infer(shape=[1 << 62, 4, 28, 28]), 400, "TN0807"),
    "dim over 2^64": (infer(shape=[1 << 70, 1, 28, 28]), 400, "TN0807"),
    "dim with a point": (infer(shape=[1.0, 1, 28, 28]), 400, "TN0807"),
    "binary size is not the shape's": (infer(data=None, parameters={"binary_data_size": 4}), 400, "TN0807"),
    "both forms of data": (infer(parameters={"binary_data_size": 4 * PIXELS}), 400, "TN0807"),
    "shared memory": (infer(data=None, parameters={"shared_memory_region": "a", "shared_memory_byte_size": 4}), 501, "TN0818"),
    "sequence": (json.dumps({"inputs": [input_of()], "parameters": {"sequence_id": 1}}).encode(), 501, "TN0818"),
}

MESSAGES = {  # name: (message, status, error)
    "binary data missing": (sized(BINARY, BINARY_SIZE), 400, "TN0806"),
    "binary data too long": (sized(BINARY + bytes(4 * PIXELS + 1), BINARY_SIZE), 400, "TN0806"),
    "header length over the body": (sized(BINARY, "Inference-Header-Content-Length: 1000000"), 400, "TN0806"),
    "header length over 2^64": (sized(BINARY, f"Inference-Header-Content-Length: {1 << 70}"), 400, "TN0806"),
    "negative header length": (sized(BINARY, "Inference-Header-Content-Length: -1"), 400, "TN0806"),
    "gzip bomb": (sized(gzip.compress(bytes(64 << 20)), "Content-Encoding: gzip"), 413, "TN0808"),
    "zlib bomb": (sized(zlib.compress(bytes(64 << 20)), "Content-Encoding: deflate"), 413, "TN0808"),
    "gzip cut": (sized(gzip.compress(VALID)[:-4], "Content-Encoding: gzip"), 400, "TN0806"),
    "gzip with more behind": (sized(gzip.compress(VALID) + b"x", "Content-Encoding: gzip"), 400, "TN0806"),
    "unknown encoding": (sized(VALID, "Content-Encoding: br"), 415, "TN0819"),
    "two encodings": (sized(VALID, "Content-Encoding: gzip, gzip"), 415, "TN0819"),
    "length with chunks": (post("Content-Length: 5", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 400, "TN0806"),
    "chunks with length": (post("Transfer-Encoding: chunked", "Content-Length: 5", body=b"0\r\n\r\n"), 400, "TN0806"),
    "other transfer encoding": (post("Transfer-Encoding: gzip", body=b"0\r\n\r\n"), 400, "TN0806"),
    "two transfer encodings": (post("Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 400, "TN0806"),
    "two lengths": (post("Content-Length: 5", "Content-Length: 6", body=b"abcde"), 400, "TN0806"),
    "length over the cap": (post("Content-Length: 99999999999", body=b"abc"), 413, "TN0808"),
    "length over 2^64": (post("Content-Length: 99999999999999999999", body=b"abc"), 400, "TN0806"),
    "negative length": (post("Content-Length: -1", body=b"abc"), 400, "TN0806"),
    "chunk size over 2^64": (post("Transfer-Encoding: chunked", body=b"fffffffffffffffff\r\n"), 400, "TN0806"),
    "chunk extension without end": (post("Transfer-Encoding: chunked", body=b"1;" + b"e" * 300_000), 413, "TN0808"),
    "chunks over the cap": (post("Transfer-Encoding: chunked", body=(b"10000\r\n" + bytes(0x10000) + b"\r\n") * 20), 413, "TN0808"),
    "no host": (message("GET /v2 HTTP/1.1", host=False), 400, "TN0806"),
    "two hosts": (message("GET /v2 HTTP/1.1", "Host: other"), 400, "TN0806"),
    "header over the cap": (message("GET /v2 HTTP/1.1", "X: " + "y" * 70_000), 413, "TN0808"),
    "many headers": (message("GET /v2 HTTP/1.1", *["X: y"] * 50_000), 413, "TN0808"),
    "zero byte in a header": (message("GET /v2 HTTP/1.1", "A: \0"), 400, "TN0806"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), 400, "TN0806"),
    "other version": (message("GET /v2 HTTP/3.0"), 400, "TN0806"),
    "unknown path": (message("GET /nothing HTTP/1.1"), 404, "TN0809"),
    "other method": (message("DELETE /v2 HTTP/1.1"), 404, "TN0809"),
    "unknown model": (message("GET /v2/models/other HTTP/1.1"), 404, "TN0810"),
    "unknown model in a namespace": (message("GET /v2/models/a%2fb HTTP/1.1"), 404, "TN0810"),
    "unknown version": (message("GET /v2/models/cnn/versions/2 HTTP/1.1"), 404, "TN0810"),
    "page of another site": (message("POST /v2/repository/models/cnn/unload HTTP/1.1", "Origin: http://evil.example", "Content-Length: 0"), 403, "TN0822"),
    **{f"path {name[:12]}": (message(f"GET /v2/models/{name} HTTP/1.1"), 400, "TN0806")
       for name in ["..", "%2e%2e", "a%2f..%2fb", "%00", "%0a", "%7f", "%5c", "%", "%zz", "a/../b", "m" * 60_000]},
}


class Hostile(ServingTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.folder / "models", "--max-body", MOST_BODY >> 20, "--client-timeout", "2s").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def answer(self, *pieces, **more):
        head, _, body = self.server.raw(*pieces, **more).partition(b"\r\n\r\n")
        self.assertTrue(head, "no answer")
        return int(head.split()[1]), body

    def test_bodies(self):
        for name, (body, status, error) in BODIES.items():
            with self.subTest(name):
                self.refused(self.answer(sized(body)), status, error)
        self.assertEqual(200, self.answer(sized(VALID))[0])

    def test_messages(self):
        for name, (sent, status, error) in MESSAGES.items():
            with self.subTest(name):
                self.refused(self.answer(sent), status, error)
        self.assertEqual(200, self.answer(sized(VALID))[0])

    def test_valid_forms(self):
        chunked = b"".join(b"1\r\n" + VALID[i:i + 1] + b"\r\n" for i in range(len(VALID))) + b"0\r\n\r\n"
        trailers = chunked[:-2] + b"X-Sum: 1\r\n\r\n"
        members = gzip.compress(VALID[:9]) + gzip.compress(b"") + gzip.compress(VALID[9:])
        for sent in [sized(VALID), sized(gzip.compress(VALID), "Content-Encoding: gzip"), sized(members, "Content-Encoding: GZIP"), sized(BINARY + bytes(4 * PIXELS), BINARY_SIZE),
                     post("Transfer-Encoding: chunked", body=chunked), post("Transfer-Encoding: Chunked", "Trailer: X-Sum", body=trailers),
                     sized(VALID, "Expect: 100-continue"), sized(VALID, "Expect: 100-Continue")]:
            answer = self.server.raw(sent)
            self.assertTrue(answer.startswith(b"HTTP/1.1 100 " if b"Expect" in sent else b"HTTP/1.1 200 "), answer[:200])
            self.assertIn(b"HTTP/1.1 200 ", answer)

    def test_targets(self):
        """A target in absolute form, whose host counts instead of the field's (RFC 9112, section 3.2.2), and empty lines before a request (section 2.2)."""
        live = "GET {} HTTP/1.1"
        for target in ["http://localhost/v2/health/live", "HTTPS://localhost:1/v2/health/live?x=/", "http://localhost", "/v2/models/%63nn/", "/v2?a=b"]:
            self.assertEqual(200, self.answer(message(live.format(target)))[0], target)
        browser = ["Origin: http://evil.example", "Content-Length: 0"]
        self.refused(self.answer(message("POST http://evil.example/v2/repository/models/cnn/unload HTTP/1.1", *browser, "User-Agent: Mozilla/5.0")), 403, "TN0822")
        self.refused(self.answer(message(live.format("http:/v2"))), 400, "TN0806")
        lines = b"\r\n\r\n" + sized(VALID) + b"\r\n" + sized(VALID) + b"\r\n" + message(live.format("/v2"), "Connection: close")
        self.assertEqual(3, self.server.raw(lines, to_end=True).count(b"HTTP/1.1 200 "))
        self.assertEqual(200, self.answer(b"\r", b"\n" + sized(VALID))[0])
        self.refused(self.answer(b"\r\n" * 50 + sized(VALID)), 400, "TN0806")

    def test_numbers(self):
        """Words that JSON lacks, in and out as Triton has them; a zero keeps its sign, and names may be words."""
        words = VALID.replace(b"[0, 0, 0, 0,", b"[NaN, Infinity,-Inf ,-0,").replace(b'{"inputs"', b'{"id": "NaN, [\\"NaN]", "inputs"')
        answer = self.answer(sized(words))
        self.assertEqual((200, 'NaN, ["NaN]'), (answer[0], json.loads(answer[1])["id"]), answer)
        self.assertIn(b"NaN", answer[1].partition(b'"data"')[2])
        self.assertEqual(200, self.answer(sized(infer(parameters={"data": "train"})))[0])
        empty = json.loads(self.answer(sized(infer(shape=[0, 1, 28, 28], data=[])))[1])["outputs"][0]
        self.assertEqual(([0, 10], []), (empty["shape"], empty["data"]))

    def test_half_closed(self):
        """A client that has sent all may still read; one that is gone frees its place. Nothing but a reset tells them apart."""
        cancelled = 'model="cnn",version="1",outcome="cancelled"'
        before = self.server.metric("tenon_requests_total", cancelled)
        with self.server.paused():
            half, gone = [socket.create_connection(("127.0.0.1", self.server.port), timeout=20) for _ in range(2)]
            half.sendall(sized(VALID) + message("GET /v2 HTTP/1.1", "Connection: close"))
            half.shutdown(socket.SHUT_WR)
            gone.sendall(sized(VALID))
            self.server.wait_until(lambda: self.server.metric("tenon_requests_running") + self.server.metric("tenon_queue_length") == 2)
            gone.close()
            self.server.wait_until(lambda: self.server.metric("tenon_requests_total", cancelled) == before + 1)
        answer = b""
        while piece := half.recv(65536):
            answer += piece
        half.close()
        self.assertEqual(2, answer.count(b"HTTP/1.1 200 "), answer)
        self.assertEqual(before + 1, self.server.metric("tenon_requests_total", cancelled))

    def test_pipelined(self):
        """Two requests at once get two answers, in order; what follows a framing error is not taken for a request."""
        both = message("GET /v2/health/live HTTP/1.1") + message("GET /v2 HTTP/1.1", "Connection: close")
        answer = self.server.raw(both, to_end=True)
        self.assertEqual(2, answer.count(b"HTTP/1.1 200 "), answer)
        self.assertLess(answer.index(b"live"), answer.index(b"extensions"))
        # The answer to HEAD has no body, so the next one begins behind its header.
        both = message("HEAD /v2/health/live HTTP/1.1") + message("GET /v2 HTTP/1.1", "Connection: close")
        second = self.server.raw(both, to_end=True).partition(b"\r\n\r\n")[2]
        self.assertTrue(second.startswith(b"HTTP/1.1 200 "), second)
        smuggled = post("Transfer-Encoding: gzip", body=message("GET /v2/health/live HTTP/1.1"))
        self.assertNotIn(b"live", self.server.raw(smuggled, to_end=True))

    def test_slow_clients(self):
        self.refused(self.answer(b"GET /v2 HT"), 408, "TN0820")
        self.refused(self.answer(post("Content-Length: 1000", body=b"{")), 408, "TN0820")

    def test_early_close(self):
        valid = sized(VALID)
        for length in range(0, len(valid), 97):
            self.server.raw(valid[:length], shuts=True)
        self.assertEqual(200, self.answer(valid)[0])

    def test_random_bytes(self):
        """Valid requests with bytes replaced: every one is answered or closed, and none takes the server or the worker with it."""
        seed = random.randrange(1 << 32)
        chance, worker = random.Random(seed), self.server.worker()
        for base in [sized(VALID[:200]), sized(BINARY + bytes(4 * PIXELS), BINARY_SIZE), MESSAGES["gzip cut"][0]]:
            for _ in range(60):
                sent = bytearray(base)
                for _ in range(chance.randrange(1, 6)):
                    sent[chance.randrange(min(len(sent), 600))] = chance.randrange(256)
                self.server.raw(bytes(sent), shuts=True)
        self.assertEqual(200, self.answer(sized(VALID))[0], f"seed {seed}")
        self.assertEqual(worker, self.server.worker(), f"seed {seed}")


class Memory(ServingTest):
    """--max-memory bounds what requests hold, and nothing that they only announce."""

    def test_announced(self):
        for header in ["Transfer-Encoding: chunked", "Content-Length: 1000000"]:
            with self.subTest(header), Server(self.folder / "models", "--max-body", 1, "--max-memory", 1) as server:
                with socket.create_connection(("127.0.0.1", server.port)) as slow:
                    slow.sendall(post(header))
                    time.sleep(0.3)
                    self.assertIn(b" 200 OK", server.raw(post("Transfer-Encoding: chunked", body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(VALID), VALID)))[:20])

    def hold(self, most, body, *headers):
        """Sends the request to a server that cannot answer it yet, and then a second time; the second answer."""
        with Server(self.folder / "models", "--max-body", most, "--max-memory", most) as server:
            with server.paused(), socket.create_connection(("127.0.0.1", server.port)) as first:
                first.sendall(sized(body, *headers))
                server.wait_until(lambda: server.metric("tenon_requests_running") == 1)
                answer = server.raw(sized(body, *headers), timeout=5)
            return answer

    def test_decompressed(self):
        self.assertIn(b"TN0812", self.hold(4, gzip.compress(VALID + b" " * (3 << 20)), "Content-Encoding: gzip"))

    def test_number_lists(self):
        """Nine bytes an element, of which the text has two."""
        rows = 200
        self.assertIn(b"TN0812", self.hold(3, infer(shape=[rows, 1, 28, 28], data=[0] * rows * PIXELS).replace(b" ", b"")))


if __name__ == "__main__":
    unittest.main()
