"""Load for campaigns: connections of HTTP/1.1 that stay open and send requests prepared before, in one thread.

Relies on the server answering with Content-Length, as it does.
"""

import asyncio
import json
import time


TYPES = {"float32": "FP32", "int64": "INT64"}


def inference(model, arrays):
    """The bytes of a request for all outputs as binary data; `arrays` by input."""
    inputs = [{"name": name, "shape": list(array.shape), "datatype": TYPES[array.dtype.name], "parameters": {"binary_data_size": array.nbytes}}
              for name, array in arrays.items()]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    body = head + b"".join(array.tobytes() for array in arrays.values())
    return (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: {len(head)}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


class Connection:
    """One request at a time."""

    @classmethod
    async def open(cls, port):
        self = cls()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        return self

    async def ask(self, request):
        """Status of the answer, the bytes behind its JSON (all of it where there is only JSON), and the seconds that it took."""
        start = time.perf_counter()
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(b":", 1) for line in head.lower().split(b"\r\n")[1:] if b":" in line)
        body = await self.reader.readexactly(int(fields[b"content-length"]))
        return int(head[9:12]), body[int(fields.get(b"inference-header-content-length", 0)):], time.perf_counter() - start

    def close(self):
        self.writer.close()


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
