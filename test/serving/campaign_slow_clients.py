#!/usr/bin/env python3
"""By hand: other clients beside 100 that do not read their replies and 100 that send a byte now and then.

    TENON_SOURCE_DIR=. TENON_BUILD_DIR=build/dev test/serving/campaign_slow_clients.py [ROUNDS] [SECONDS] [CONTROL_GROUP]

Rounds with and without them take turns on one server, which is put into the control group (the folder of one, whose limit counts).
Prints p50 and p99 of the others in each, their ratios by round, and the most memory of the group.
"""

import asyncio
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from connections import Connection, inference, quantile
from onnx import TensorProto, helper, numpy_helper
from server import TENON, Server

READERS, WRITERS, OTHERS, WIDTH = 100, 100, 4, 1 << 20
SMALL = inference("echo", {"x": np.ones((1, 256), np.float32)})


def save(path, node, dims, constants=()):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", dim]) for name, dim in zip("xy", dims)]
    onnx.save(helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:], list(constants)), opset_imports=[helper.make_opsetid("", 18)],
                                ir_version=9), path)
    subprocess.run([TENON, "compile", path, "-o", path.with_suffix(".tenon"), "--quiet"], check=True)
    path.unlink()


def make_models(folder):
    """A row of `expand` has 4 MiB."""
    save(folder / "echo.onnx", helper.make_node("Identity", ["x"], ["y"]), ["n", "n"])
    save(folder / "expand.onnx", helper.make_node("Expand", ["x", "shape"], ["y"]), [1, WIDTH], [numpy_helper.from_array(np.array([1, WIDTH], np.int64), "shape")])


class Slow:
    """Clients that connect again when the server has ended them; `ends` counts why."""

    def __init__(self, port):
        self.port, self.ends = port, {}
        self.tasks = [asyncio.create_task(self.read(1 + i % 4)) for i in range(READERS)] + [asyncio.create_task(self.write(i % 2)) for i in range(WRITERS)]

    def count(self, what):
        self.ends[what] = self.ends.get(what, 0) + 1

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 16)

    async def read(self, rows):
        request = inference("expand", {"x": np.ones((rows, 1), np.float32)})
        while True:
            reader, writer = await self.connect()
            try:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                self.count(head[9:12].decode())
                if head[9:12] == b"200":
                    while await reader.read(1):
                        await asyncio.sleep(1)
                else:
                    await asyncio.sleep(1)  # as Retry-After says
            except (OSError, asyncio.IncompleteReadError):
                self.count("ended")
            finally:
                writer.close()

    async def write(self, announces):
        head = b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\n" + (b"Content-Length: 60000000\r\n\r\n" if announces else b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            reader, writer = await self.connect()
            try:
                writer.write(head + (b" " * 100_000 if announces else b"186a0\r\n" + b" " * 100_000 + b"\r\n"))
                answer = asyncio.create_task(reader.read(100))
                while not answer.done():
                    writer.write(b" " if announces else b"1\r\n \r\n")
                    await asyncio.wait([answer], timeout=1)
                self.count("writer " + answer.result()[9:12].decode())
            except OSError:
                self.count("writer ended")
            finally:
                writer.close()

    async def end(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def others(port, seconds, times):
    async def client():
        connection = await Connection.open(port)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status, _, taken = await connection.ask(SMALL)
            assert status == 200, status
            times.append(taken)
            await asyncio.sleep(0.002)
        connection.close()
    await asyncio.gather(*[client() for _ in range(OTHERS)])


def measure(port, seconds):
    """The times of the others, in a process of their own."""
    code = (f"import asyncio, campaign_slow_clients as c\nt = []\nasyncio.run(c.others({port}, {seconds}, t))\n"
            "print(len(t), c.quantile(t, .5), c.quantile(t, .99), max(t))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=pathlib.Path(__file__).parent, check=True)
    return [float(word) for word in done.stdout.split()]


async def campaign(server, rounds, seconds, group):
    ratios, ends = [], {}
    for _ in range(rounds):
        alone = await asyncio.to_thread(measure, server.port, seconds)
        slow = Slow(server.port)
        await asyncio.sleep(3)
        beside = await asyncio.to_thread(measure, server.port, seconds)
        await slow.end()
        for key, value in slow.ends.items():
            ends[key] = ends.get(key, 0) + value
        ratios.append(beside[2] / alone[2])
        print(f"ms alone: p50 {alone[1] * 1e3:.2f}, p99 {alone[2] * 1e3:.2f}, most {alone[3] * 1e3:.1f}; beside: p50 {beside[1] * 1e3:.2f}, p99 {beside[2] * 1e3:.2f}, most {beside[3] * 1e3:.1f}; "
              f"p99 ratio {ratios[-1]:.2f}", flush=True)
        await asyncio.sleep(1)
    most = int((group / "memory.max_usage_in_bytes").read_text()) >> 20 if group else "?"
    print(f"p99 ratio: {quantile(ratios, .5):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); slow clients: {ends}; most memory, MiB: {most}; server alive: {server.process.poll() is None}, "
          f"worker losses: {server.metric('tenon_worker_losses_total', None):.0f}")


def main():
    rounds, seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 3, float(sys.argv[2]) if len(sys.argv) > 2 else 10
    group = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
    prefix = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"] if group else []
    with tempfile.TemporaryDirectory() as name:
        make_models(pathlib.Path(name))
        with Server(name, prefix=prefix) as server:
            asyncio.run(campaign(server, rounds, seconds, group))


if __name__ == "__main__":
    main()
