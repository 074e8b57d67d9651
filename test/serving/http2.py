"""HTTP/2 by hand: frames as bytes, and what comes back as frames. For requests that no client sends. Needs hpack, of .venv-serving.
"""

import socket
import struct
import time

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
FRAME = 1 << 14
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NO_ERROR, PROTOCOL_ERROR, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 8, 11


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def headers(stream, block, flags=0):
    """A header in as many frames as it takes."""
    parts = [block[at : at + FRAME] for at in range(0, len(block), FRAME)]
    last = len(parts) - 1
    return b"".join(frame(CONTINUATION if i else HEADERS, (END_HEADERS if i == last else 0) | (0 if i else flags), stream, part) for i, part in enumerate(parts))


def setting(number, value):
    return frame(SETTINGS, 0, 0, struct.pack(">HI", number, value))


def message(payload, compressed=0, length=None):
    """A message of gRPC with its prefix."""
    return struct.pack(">BI", compressed, len(payload) if length is None else length) + payload


def header_block(fields):
    """Fields as they are, without tables, so that every connection reads them alike."""
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields)


def _text(text):
    data = text if isinstance(text, bytes) else text.encode()
    length, prefix = len(data), 0x7F
    if length < prefix:
        return bytes([length]) + data
    rest, more = length - prefix, bytearray([prefix])
    while rest >= 128:
        more.append(rest % 128 | 128)
        rest //= 128
    more.append(rest)
    return bytes(more) + data


def call_fields(path, *more, content_type="application/grpc"):
    return [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"), ("te", "trailers"), ("content-type", content_type), *more]


class Answer:
    """What a stream gave: header and trailers as one mapping, data, and whether and how it was reset."""

    def __init__(self):
        self.fields, self.data, self.ended, self.reset = {}, b"", False, None


class Client:
    def __init__(self, port, preface=True, timeout=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.decoder = hpack.Decoder()
        self.rest = b""
        self.answers = {}
        self.goaway = None
        self.closed = False
        if preface:
            self.send(PREFACE + frame(SETTINGS, 0, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """False when the server has closed."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            self.closed = True
            return False

    def read(self):
        """Takes what comes next; false at the end."""
        try:
            piece = self.socket.recv(1 << 16)
        except ConnectionError:
            piece = b""
        if not piece:
            self.closed = True
            return False
        self.rest += piece
        while len(self.rest) >= 9 and len(self.rest) >= 9 + int.from_bytes(self.rest[:3], "big"):
            length = int.from_bytes(self.rest[:3], "big")
            kind, flags, stream = self.rest[3], self.rest[4], int.from_bytes(self.rest[5:9], "big")
            self.take(kind, flags, stream, self.rest[9 : 9 + length])
            self.rest = self.rest[9 + length :]
        return True

    def take(self, kind, flags, stream, payload):
        answer = self.answers.setdefault(stream, Answer())
        if kind == HEADERS:
            answer.fields.update(self.decoder.decode(payload))
        elif kind == DATA:
            answer.data += payload
        elif kind == RST_STREAM:
            answer.reset = int.from_bytes(payload, "big")
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
        elif kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, ACK, 0))
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            answer.ended = True

    def answer(self, stream=1, seconds=60):
        """The answer of a stream, when it has ended or the connection has."""
        end = time.monotonic() + seconds
        answer = self.answers.setdefault(stream, Answer())
        while not answer.ended and answer.reset is None and self.read():
            assert time.monotonic() < end, "the stream does not end"
        return answer

    def until_closed(self, seconds=60):
        end = time.monotonic() + seconds
        while self.read():
            assert time.monotonic() < end, "the server does not close the connection"
        return self.goaway

    def call(self, path, *pieces, stream=1, more=(), ends=True, **fields):
        """Sends a call whose data is `pieces`, each a frame of its own, or several where it is larger than one."""
        self.send(headers(stream, header_block(call_fields(path, *more, **fields))))
        pieces = [piece[at : at + FRAME] for piece in pieces for at in range(0, max(len(piece), 1), FRAME)]
        for i, piece in enumerate(pieces):
            self.send(frame(DATA, END_STREAM if ends and i + 1 == len(pieces) else 0, stream, piece))
        return self.answer(stream) if ends else None
