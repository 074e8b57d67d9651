#!/usr/bin/env python3
"""By hand: five times as many requests as a server can answer, sent without waiting for answers (open loop, Poisson).

    TENON_SOURCE_DIR=. TENON_BUILD_DIR=build/dev test/serving/campaign_overload.py [SECONDS]

Prints the answers a second at the peak, with 4 clients that wait, beside those under overload, and p99 of what was admitted beside
the bound: the most that a request may wait in the queue and twice the time of a run.
"""

import asyncio
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from connections import Connection, inference, quantile
from onnx import TensorProto, helper, numpy_helper
from server import TENON, Server

WIDTH, LAYERS, WAIT_MS, FACTOR = 2048, 4, 200, 5
REQUEST = inference("wide", {"x": np.ones((1, WIDTH), np.float32)})


def make_model(folder):
    """A model of some milliseconds, without batches; a request waits at most WAIT_MS."""
    (folder / "wide/1").mkdir(parents=True)
    weights = [numpy_helper.from_array(np.eye(WIDTH, dtype=np.float32), f"w{i}") for i in range(LAYERS)]
    nodes = [helper.make_node("MatMul", [f"h{i}" if i else "x", f"w{i}"], [f"h{i + 1}" if i + 1 < LAYERS else "y"]) for i in range(LAYERS)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in "xy"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              folder / "wide.onnx")
    subprocess.run([TENON, "compile", folder / "wide.onnx", "-o", folder / "wide/1/model.tenon", "--quiet", "--target", "native"], check=True)
    (folder / "wide.onnx").unlink()
    (folder / "wide/config.pbtxt").write_text(
        f"max_batch_size: 1\ndynamic_batching {{ default_queue_policy {{ default_timeout_microseconds: {1000 * WAIT_MS} }} }}\n")


async def peak(port, seconds):
    """Answers a second of 4 clients that wait, and the times of a single one."""
    async def client(until, times):
        connection = await Connection.open(port)
        while time.monotonic() < until:
            status, _, taken = await connection.ask(REQUEST)
            assert status == 200, status
            times.append(taken)
        connection.close()

    alone, together = [], []
    await client(time.monotonic() + seconds / 2, alone)
    start = time.monotonic()
    await asyncio.gather(*[client(start + seconds, together) for _ in range(4)])
    return len(together) / (time.monotonic() - start), alone


async def overload(port, rate, seconds):
    """Statuses with times of requests that come by chance, `rate` a second, whatever became of those before."""
    idle, answers, under_way = [], [], set()

    async def ask():
        connection = idle.pop() if idle else await Connection.open(port)
        start = time.perf_counter()
        status, _, _ = await connection.ask(REQUEST)
        answers.append((time.monotonic(), status, time.perf_counter() - start))
        idle.append(connection)

    start = due = time.monotonic()
    while due < start + seconds:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        task = asyncio.ensure_future(ask())
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        due += random.expovariate(rate)
    sent = len(under_way) + len(answers)
    last = time.monotonic()
    await asyncio.gather(*under_way)
    return sent, [(status, taken) for when, status, taken in answers if when <= last], last - start


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    random.seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_model(folder)
        with Server(folder, "--threads", 1, "--queue", 4096, "--max-connections", 4096) as server:
            for _ in range(3):
                best, alone = asyncio.run(peak(server.port, seconds / 4))
                service = quantile(alone, 0.5)
                sent, answers, length = asyncio.run(overload(server.port, FACTOR * best, seconds))
                good = [taken for status, taken in answers if status == 200]
                others = sorted({status for status, _ in answers} - {200})
                print(f"peak {best:.0f}/s, a run {1e3 * service:.1f} ms; {sent / length:.0f}/s sent: {len(good) / length:.0f}/s answered = "
                      f"{len(good) / length / best:.3f} of the peak (line 0.95), p99 {1e3 * quantile(good, 0.99):.0f} ms "
                      f"(line {WAIT_MS + 2e3 * service:.0f}), the others {others}, whose p99 is "
                      f"{1e3 * quantile([taken for status, taken in answers if status != 200], 0.99):.0f} ms", flush=True)


if __name__ == "__main__":
    main()
