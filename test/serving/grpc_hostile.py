"""Calls and frames that are malformed or hostile: each is answered with its error or ends its connection, and the server goes on.

Classes: messages, their framing, metadata, floods, compression of headers, windows, slow clients. Needs .venv-serving.
"""

import contextlib
import gzip
import pathlib
import random
import re
import resource
import struct
import time
import unittest

import http2
from http2 import Client, frame, message
from server import PIXELS, Server, ServingTest

SERVICE = "/inference.GRPCInferenceService/"
INFER = SERVICE + "ModelInfer"
MOST_BODY = 1 << 20
INVALID, EXHAUSTED, UNIMPLEMENTED, NOT_FOUND = "3", "8", "12", "5"


def field(number, payload):
    """A field of bytes; an int is a varint."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value % 128 | 128)
        value //= 128
    return bytes(out + bytes([value]))


def tensor(name=b"image", datatype=b"FP32", shape=(1, 1, 28, 28), more=b""):
    return field(5, field(1, name) + field(2, datatype) + field(3, b"".join(varint(dim) for dim in shape)) + more)


RAW = field(7, bytes(4 * PIXELS))
MODEL = field(1, b"cnn")
VALID = MODEL + tensor() + RAW

MESSAGES = {  # name: (message, status, error)
    "empty": (b"", NOT_FOUND, "TN0810"),
    "no fields": (b"\xff" * 64, INVALID, "TN0830"),
    "field 0": (b"\x00\x00", INVALID, "TN0830"),
    "a group": (b"\x0b" * 100_000, INVALID, "TN0830"),
    "length beyond the end": (VALID[:-1], INVALID, "TN0830"),
    "length of 2^63": (MODEL + b"\x3a" + varint(1 << 63), INVALID, "TN0830"),
    "varint of 11 bytes": (MODEL + b"\x18" + b"\xff" * 11, INVALID, "TN0830"),
    "name as a number": (field(1, 1) + tensor() + RAW, NOT_FOUND, "TN0810"),
    "long name": (field(1, b"x" * 5000), INVALID, "TN0830"),
    "other model": (field(1, b"other") + tensor() + RAW, NOT_FOUND, "TN0810"),
    "model with dots": (field(1, b"../cnn") + tensor() + RAW, NOT_FOUND, "TN0810"),
    "other version": (MODEL + field(2, b"7") + tensor() + RAW, NOT_FOUND, "TN0810"),
    "version not a number": (MODEL + field(2, b"x") + tensor() + RAW, NOT_FOUND, "TN0810"),
    "no inputs": (MODEL, INVALID, "TN0807"),
    "input twice": (MODEL + tensor() * 2 + RAW * 2, INVALID, "TN0807"),
    "other input": (MODEL + tensor(name=b"x\xff%\n") + RAW, INVALID, "TN0807"),
    "many inputs": (MODEL + b"".join(tensor(name=b"%d" % i, shape=(0,)) for i in range(5000)), INVALID, "TN0830"),
    "many raw contents": (MODEL + field(7, b"") * 100_000, INVALID, "TN0830"),
    "many outputs": (MODEL + field(6, field(1, b"logits")) * 5000, INVALID, "TN0830"),
    "raw short": (MODEL + tensor() + field(7, bytes(4 * PIXELS - 1)), INVALID, "TN0807"),
    "raw long": (MODEL + tensor() + field(7, bytes(4 * PIXELS + 1)), INVALID, "TN0807"),
    "raw missing": (MODEL + tensor(), INVALID, "TN0807"),
    "raw more than inputs": (VALID + field(7, b""), INVALID, "TN0830"),
    "negative dim": (MODEL + tensor(shape=((1 << 64) - 1, 1, 28, 28)) + RAW, INVALID, "TN0807"),
    "elements over 2^63": (MODEL + tensor(shape=[1 << 31] * 4) + RAW, INVALID, "TN0807"),
    "rank": (MODEL + tensor(shape=[1] * 100_000) + RAW, INVALID, "TN0807"),
    "other shape": (MODEL + tensor(shape=(1, 28, 28)) + RAW, INVALID, "TN0807"),
    "other type": (MODEL + tensor(datatype=b"INT32") + RAW, INVALID, "TN0807"),
    "text": (MODEL + tensor(datatype=b"BYTES") + RAW, INVALID, "TN0807"),
    "unknown type": (MODEL + tensor(datatype=b"\xff") + RAW, INVALID, "TN0807"),
    "contents of another type": (MODEL + tensor(more=field(5, field(2, b"\x01" * PIXELS))), INVALID, "TN0807"),
    "contents short": (MODEL + tensor(more=field(5, field(6, bytes(4 * PIXELS - 4)))), INVALID, "TN0807"),
    "contents not whole": (MODEL + tensor(more=field(5, field(6, bytes(4 * PIXELS - 2)))), INVALID, "TN0807"),
    "contents long": (MODEL + tensor(more=field(5, field(6, bytes(8 * PIXELS)))), INVALID, "TN0807"),
    "contents beyond the type": (MODEL + tensor(datatype=b"INT8", shape=(1,), more=field(5, field(2, varint(300)))), INVALID, "TN0807"),
    "contents more than any shape": (MODEL + tensor(datatype=b"INT64", shape=(1,), more=field(5, field(3, b"\x01" * 500_000))), INVALID, "TN0807"),
    "output twice": (VALID + field(6, field(1, b"logits")) * 2, INVALID, "TN0807"),
    "other output": (VALID + field(6, field(1, b"x")), INVALID, "TN0807"),
    "classification": (VALID + field(6, field(1, b"logits") + field(2, field(1, b"classification") + field(2, field(2, 3)))), UNIMPLEMENTED, "TN0818"),
    "sequence": (VALID + field(4, field(1, b"sequence_id") + field(2, field(2, 3))), UNIMPLEMENTED, "TN0818"),
    "shared memory": (MODEL + tensor(more=field(4, field(1, b"shared_memory_region") + field(2, field(3, b"r")))), UNIMPLEMENTED, "TN0818"),
}


class Hostile(ServingTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.folder / "models", "--max-body", 1, "--client-timeout", "1s").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), "".join(self.server.log))
        with Client(self.server.port) as client:
            self.succeeds(client.call(INFER, message(VALID)))

    def succeeds(self, answer):
        self.assertEqual("0", answer.fields.get("grpc-status"), answer.fields)
        self.assertTrue(answer.data)

    def fails(self, answer, status, code):
        self.assertEqual((status, code), (answer.fields.get("grpc-status"), answer.fields.get("grpc-message", "")[:6]), answer.fields)
        self.assertTrue(answer.ended)

    def call(self, *pieces, path=INFER, **more):
        with Client(self.server.port) as client:
            return client.call(path, *pieces, **more)

    def test_messages(self):
        for name, (payload, status, code) in MESSAGES.items():
            with self.subTest(name):
                self.fails(self.call(message(payload)), status, code)

    def test_damaged_messages(self):
        """Any byte of a valid message changed: an answer, whichever."""
        seed = random.randrange(1 << 32)
        dice = random.Random(seed)
        with Client(self.server.port) as client:
            for i in range(300):
                payload = bytearray(VALID)
                for _ in range(dice.randrange(1, 4)):
                    payload[dice.randrange(80)] = dice.randrange(256)
                answer = client.call(INFER, message(bytes(payload)), stream=2 * i + 1)
                self.assertIn("grpc-status", answer.fields, f"seed {seed}, message {i}")

    def test_split_at_every_byte(self):
        for path, payload in [(SERVICE + "ModelMetadata", field(1, b"cnn"))]:
            sent = frame(http2.HEADERS, http2.END_HEADERS, 1, http2.header_block(http2.call_fields(path))) + frame(http2.DATA, 0, 1, message(payload)) + frame(http2.DATA, http2.END_STREAM, 1)
            whole = http2.PREFACE + frame(http2.SETTINGS, 0, 0) + sent
            for i in range(1, len(whole)):
                with Client(self.server.port, preface=False) as client:
                    client.send(whole[:i])
                    if i % 16 == 0:
                        time.sleep(0.01)
                    client.send(whole[i:])
                    self.succeeds(client.answer())
            with Client(self.server.port, preface=False) as client:
                for byte in whole:
                    client.send(bytes([byte]))
                self.succeeds(client.answer())
        # A message over frames of one byte each.
        self.succeeds(self.call(*[bytes([byte]) for byte in message(field(1, b"cnn"))], path=SERVICE + "ModelMetadata"))

    def test_framing(self):
        for name, pieces, more, status, code in [
            ("compressed flag without encoding", [message(VALID, compressed=1)], {}, INVALID, "TN0830"),
            ("flag of neither", [message(VALID, compressed=2)], {}, INVALID, "TN0830"),
            ("length over the cap", [message(b"", length=MOST_BODY + 1)], {}, EXHAUSTED, "TN0808"),
            ("length of 4 GiB", [message(b"", length=(1 << 32) - 1)], {}, EXHAUSTED, "TN0808"),
            ("length over the data", [message(VALID, length=len(VALID) + 1)], {}, INVALID, "TN0830"),
            ("prefix cut", [message(VALID)[:3]], {}, INVALID, "TN0830"),
            ("no message", [b""], {}, INVALID, "TN0830"),
            ("two messages", [message(VALID) * 2], {}, INVALID, "TN0830"),
            ("bytes behind the message", [message(VALID) + b"x"], {}, INVALID, "TN0830"),
            ("compressed, and not", [message(VALID, compressed=1)], {"more": [("grpc-encoding", "gzip")]}, INVALID, "TN0806"),
            ("gzip cut", [message(gzip.compress(VALID)[:-5], compressed=1)], {"more": [("grpc-encoding", "gzip")]}, INVALID, "TN0806"),
            ("gzip bomb", [message(gzip.compress(bytes(64 << 20)), compressed=1)], {"more": [("grpc-encoding", "gzip")]}, EXHAUSTED, "TN0808"),
            ("unknown encoding", [message(VALID)], {"more": [("grpc-encoding", "snappy")]}, UNIMPLEMENTED, "TN0819"),
            ("unknown method", [message(b"")], {"path": SERVICE + "Nothing"}, UNIMPLEMENTED, "TN0809"),
            ("unknown service", [message(b"")], {"path": "/a.B/C"}, UNIMPLEMENTED, "TN0809"),
            ("path without slash", [message(b"")], {"path": "v2"}, None, None),
            ("path of HTTP", [message(b"")], {"path": "/v2/health/live"}, UNIMPLEMENTED, "TN0809"),
            ("time-out without a unit", [message(VALID)], {"more": [("grpc-timeout", "100")]}, INVALID, "TN0830"),
            ("time-out of 9 digits", [message(VALID)], {"more": [("grpc-timeout", "123456789S")]}, INVALID, "TN0830"),
            ("negative time-out", [message(VALID)], {"more": [("grpc-timeout", "-1S")]}, INVALID, "TN0830"),
            ("metadata over the bound", [message(VALID)], {"more": [("x-a", "b" * 8000)] * 12}, EXHAUSTED, "TN0808"),
        ]:
            with self.subTest(name):
                answer = self.call(*pieces, **more)
                if status is None:
                    self.assertTrue(answer.reset is not None or answer.fields, name)
                else:
                    self.fails(answer, status, code)
        # What is compressed is taken where the call says how.
        self.succeeds(self.call(message(gzip.compress(VALID), compressed=1), more=[("grpc-encoding", "gzip")]))
        self.succeeds(self.call(message(VALID), more=[("grpc-encoding", "gzip")]))
        for kind in ("text/plain", "application/grpc-web", ""):
            self.assertEqual("415", self.call(message(VALID), content_type=kind).fields[":status"])

    def test_not_http2(self):
        """Frames that break the protocol end the connection, and no other."""
        settings = frame(http2.SETTINGS, 0, 0)
        head = http2.header_block(http2.call_fields(INFER))
        for name, sent in {
            "no settings": frame(http2.PING, 0, 0, bytes(8)),
            "ping of 7 bytes": settings + frame(http2.PING, 0, 0, bytes(7)),
            "frame over the bound": settings + frame(http2.DATA, 0, 1, bytes(20_000)),
            "even stream": settings + frame(http2.HEADERS, http2.END_HEADERS, 2, head),
            "data of no stream": settings + frame(http2.DATA, 0, 1, b"x"),
            "continuation of nothing": settings + frame(http2.CONTINUATION, 0, 1, b"x"),
            "broken HPACK": settings + frame(http2.HEADERS, http2.END_HEADERS, 1, b"\xff" * 64),
            "push": settings + frame(http2.PUSH_PROMISE, 0, 1, bytes(4)),
            "window of 0": settings + frame(http2.WINDOW_UPDATE, 0, 0, bytes(4)),
        }.items():
            with self.subTest(name), Client(self.server.port, preface=False) as client:
                client.send(http2.PREFACE + sent)
                self.assertNotEqual(http2.NO_ERROR, client.until_closed())
        with Client(self.server.port, preface=False) as client:
            client.send(http2.PREFACE[:-1] + b"x" + settings)
            client.until_closed()

    def test_rapid_reset(self):
        with Client(self.server.port) as client:
            head = http2.header_block(http2.call_fields(INFER))
            for i in range(5000):
                if not client.send(frame(http2.HEADERS, http2.END_HEADERS, 2 * i + 1, head) + frame(http2.RST_STREAM, 0, 2 * i + 1, struct.pack(">I", http2.CANCEL))):
                    break
            self.assertNotIn(client.until_closed(), (http2.NO_ERROR, 0))

    def test_made_to_reset(self):
        """Streams that break the protocol, so that the server resets them itself."""
        with Client(self.server.port) as client:
            head = http2.header_block([*http2.call_fields(INFER), ("X-Upper-Case", "a")])
            for i in range(20_000):
                if not client.send(http2.headers(2 * i + 1, head)):
                    break
            self.assertNotEqual(http2.NO_ERROR, client.until_closed())

    def test_floods(self):
        for name, one in {"ping": frame(http2.PING, 0, 0, bytes(8)), "settings": frame(http2.SETTINGS, 0, 0), "priority": frame(http2.PRIORITY, 0, 1, bytes(4) + b"\x10")}.items():
            with self.subTest(name), Client(self.server.port) as client:
                for _ in range(200):
                    if not client.send(one * 100):
                        break
                self.assertNotEqual(http2.NO_ERROR, client.until_closed())
        with self.subTest("empty data"), Client(self.server.port) as client:
            client.call(INFER, message(VALID)[:20], ends=False)
            for _ in range(200):
                if not client.send(frame(http2.DATA, 0, 1) * 100):
                    break
            self.assertNotEqual(http2.NO_ERROR, client.until_closed())

    def test_continuation_flood(self):
        with Client(self.server.port) as client:
            client.send(frame(http2.HEADERS, 0, 1, http2.header_block(http2.call_fields(INFER))))
            block = http2.header_block([("x-a", "b" * 8000)])
            for _ in range(2000):
                if not client.send(frame(http2.CONTINUATION, 0, 1, block)):
                    break
            self.assertNotEqual(http2.NO_ERROR, client.until_closed())

    def test_header_bomb(self):
        """A field of 4 KB put into the table once, then named by one byte many times: 58 MB a call, for which the server has no room: it answers nevertheless, as it does not expand them."""
        added = b"\x40" + http2._text("x-a") + http2._text("b" * 3900)
        with Client(self.server.port) as client:
            client.send(frame(http2.HEADERS, http2.END_HEADERS, 1, http2.header_block(http2.call_fields(INFER)) + added + b"\xbe" * 800))
            self.fails(client.answer(), EXHAUSTED, "TN0808")
            with self.bounded(48 << 20):
                for i in range(50):
                    if not client.send(frame(http2.HEADERS, http2.END_HEADERS, 2 * i + 3, http2.header_block(http2.call_fields(INFER)) + b"\xbe" * 15_000)):
                        break
                self.assertEqual(http2.ENHANCE_YOUR_CALM, client.until_closed())  # an allocation that fails closes the connection without a word
                with Client(self.server.port) as other:
                    self.succeeds(other.call(INFER, message(VALID)))

    @contextlib.contextmanager
    def bounded(self, more):
        """The server may map so many bytes more than it has now; an allocation beyond fails."""
        process = self.server.process.pid
        status = pathlib.Path(f"/proc/{process}/status").read_text()
        mapped = int(re.search(r"^VmData:\s+(\d+)", status, re.M)[1]) << 10
        before = resource.prlimit(process, resource.RLIMIT_DATA)
        resource.prlimit(process, resource.RLIMIT_DATA, (mapped + more, before[1]))
        try:
            yield
        finally:
            resource.prlimit(process, resource.RLIMIT_DATA, before)

    def test_window_of_0(self):
        """A client that never takes its reply loses the stream, and its place, after the time that clients have."""
        with Client(self.server.port, preface=False) as client:
            client.send(http2.PREFACE + http2.setting(4, 0))
            answer = client.call(INFER, message(VALID))
            self.assertEqual(http2.ENHANCE_YOUR_CALM, answer.reset)
            # Others of the connection are served when there is room again.
            client.send(http2.setting(4, 65535))
            self.succeeds(client.call(INFER, message(VALID), stream=3))

    def test_slow_client(self):
        with Client(self.server.port) as client:
            client.call(INFER, message(VALID)[:100], ends=False)
            self.fails(client.answer(), "4", "TN0820")
        with Client(self.server.port) as client:
            client.call(INFER, ends=False)
            self.fails(client.answer(), "4", "TN0820")
        with Client(self.server.port, preface=False) as client:
            client.send(http2.PREFACE[:5])
            client.until_closed()

    def test_too_many_streams(self):
        """More calls at once than the server takes: those beyond are refused, and the first are not disturbed."""
        with Client(self.server.port) as client:
            head = http2.header_block(http2.call_fields(INFER))
            for i in range(400):
                client.send(frame(http2.HEADERS, http2.END_HEADERS, 2 * i + 1, head))
            self.assertIsNotNone(client.answer(799).reset)
            client.send(frame(http2.DATA, http2.END_STREAM, 1, message(VALID)))
            self.succeeds(client.answer(1))


if __name__ == "__main__":
    unittest.main()
