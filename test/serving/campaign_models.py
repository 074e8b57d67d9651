#!/usr/bin/env python3
"""By hand: 1,000 models behind one server with memory for 50, asked by Zipf's law; every answer is compared byte by byte.

    TENON_SOURCE_DIR=. TENON_BUILD_DIR=build/dev test/serving/campaign_models.py [REQUESTS [FOLDER]]

The models differ in their weights, so that an answer of another model is found; FOLDER keeps them for the next time. Prints times of
answers by whether the model was loaded for them, and the memory of the worker at the start and at the end.
"""

import asyncio
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from connections import Connection, inference, quantile
from onnx import TensorProto, helper, numpy_helper
from server import TENON, Server

MODELS, ROOM, WIDTH, CLIENTS, EXPONENT = 1000, 50, 256, 8, 1.1
X = np.arange(WIDTH, dtype=np.float32).reshape(1, WIDTH) / WIDTH


def weights(index):
    """Powers of two in each row, so that every order of sums gives the same bits."""
    return np.roll(np.diag(2.0 ** (np.arange(WIDTH) % 8)), index, axis=1).astype(np.float32) * np.float32(1 + index % 7)


def make_model(folder, index):
    target, source = folder / f"m{index:03}.tenon", folder / f"m{index:03}.onnx"
    if target.exists():
        return
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [numpy_helper.from_array(weights(index), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    subprocess.run([TENON, "compile", source, "-o", target, "--quiet", "--target", "native"], check=True)
    source.unlink()


def worker_memory(server):
    """Bytes that belong to the worker alone."""
    lines = pathlib.Path(f"/proc/{server.worker()}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:")))


async def ask_all(port, order, answers):
    """Sends the requests by CLIENTS connections; times in seconds, None for a wrong answer."""
    times = [None] * len(order)
    rest = iter(range(len(order)))

    async def client():
        connection = await Connection.open(port)
        for i in rest:
            status, body, taken = await connection.ask(inference(f"m{order[i]:03}", {"x": X}))
            if status == 200 and body == answers[order[i]]:
                times[i] = taken
            else:
                print(f"request {i} to m{order[i]:03}: status {status}, {body[:200]}", flush=True)
        connection.close()

    await asyncio.gather(*[client() for _ in range(CLIENTS)])
    return times


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    scratch = tempfile.TemporaryDirectory()
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else scratch.name)
    folder.mkdir(exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(lambda index: make_model(folder, index), range(MODELS)))
    answers = [(X @ weights(index)).tobytes() for index in range(MODELS)]
    shares = 1.0 / np.arange(1, MODELS + 1) ** EXPONENT
    rng = np.random.default_rng(1)
    names = rng.permutation(MODELS)
    order = names[rng.choice(MODELS, count, p=shares / shares.sum())].tolist()
    with Server(folder, "--threads", 1) as server:
        a_model = max(server.metric("tenon_model_bytes", f'model="m{index:03}",version="1"') for index in range(20))
    with Server(folder, "--threads", 1, "--memory-budget", int(ROOM * a_model)) as server:
        # The memory is that of a full house: each time after the same models came last.
        asyncio.run(ask_all(server.port, list(range(MODELS)), answers))
        before = worker_memory(server)
        evictions = server.metric("tenon_evictions_total", None)
        times = asyncio.run(ask_all(server.port, order, answers))
        cold = int(server.metric("tenon_evictions_total", None) - evictions)
        asyncio.run(ask_all(server.port, list(range(MODELS)), answers))
        after = worker_memory(server)
    good = sorted(time for time in times if time is not None)
    warm, loaded = good[:len(good) - cold], good[len(good) - cold:]
    print(f"{count} requests, {len(good)} right; {cold} loads ({cold / count:.1%}); the {len(warm)} fastest: p50 {1e3 * quantile(warm, 0.5):.2f} ms, "
          f"p99 {1e3 * quantile(warm, 0.99):.2f} ms; the {len(loaded)} slowest, as many as loads: p50 {1e3 * quantile(loaded, 0.5):.2f} ms, "
          f"p99 {1e3 * quantile(loaded, 0.99):.2f} ms; the worker's memory {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after ({after / before - 1:+.1%})")
    return 0 if len(good) == count else 1


if __name__ == "__main__":
    sys.exit(main())
