#!/usr/bin/env python3
"""Measures `tenon serve` on this machine: how fast a full queue refuses, how fast a worker that was killed is replaced, and what batches
of requests gain, against the same server without them, in turns.

    scripts/measure_serving.py BUILD_DIR        prints a table in Markdown

Relies on the tests' server (test/serving/server.py). Clients are threads of this program, on the same CPUs as the server: ratios count.
"""

import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ["TENON_SOURCE_DIR"], os.environ["TENON_BUILD_DIR"] = str(ROOT), str(pathlib.Path(sys.argv[1]).resolve())
sys.path.insert(0, str(ROOT / "test/serving"))

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from server import TENON, Server, compile_cnn, request

WIDTH, CLIENTS, SECONDS, ROUNDS = 1024, 16, 2.0, 5


def quantiles(times):
    times = sorted(times)
    return times[len(times) // 2], times[int(len(times) * 0.99)], times[-1]


def refusals(folder):
    """Milliseconds from a request to its 429, over one connection, while the queue is full."""
    body = json.dumps(request()).encode()
    times = []
    with Server(folder, "--queue", 64) as server:
        with server.paused():
            waiting = [threading.Thread(target=server.infer) for _ in range(65)]
            for thread in waiting:
                thread.start()
            server.wait_until(lambda: server.metric("tenon_queue_length") == 64)
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            for _ in range(2000):
                start = time.perf_counter()
                connection.request("POST", "/v2/models/cnn/infer", body)
                answer = connection.getresponse()
                answer.read()
                times.append(1e3 * (time.perf_counter() - start))
                assert answer.status == 429, answer.status
        for thread in waiting:
            thread.join()
    return quantiles(times)


def restarts(folder):
    """Milliseconds from kill -9 of the worker to the answer of a request that was sent right after it."""
    times = []
    with Server(folder) as server:
        for _ in range(20):
            server.wait_until(lambda: server.worker() is not None)
            os.kill(server.worker(), signal.SIGKILL)
            start = time.perf_counter()
            while server.infer()[0] != 200:
                pass
            times.append(1e3 * (time.perf_counter() - start))
    return quantiles(times)


def throughput(server):
    """Answers a second with CLIENTS clients, and the runs that they took."""
    x = np.random.default_rng(0).standard_normal((1, WIDTH)).astype(np.float32)
    head = json.dumps({"inputs": [{"name": "x", "shape": [1, WIDTH], "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}],
                       "parameters": {"binary_data_output": True}}).encode()
    counts, end = [0] * CLIENTS, time.monotonic() + SECONDS

    def ask(i):
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        while time.monotonic() < end:
            connection.request("POST", "/v2/models/wide/infer", head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            counts[i] += 1

    before = server.metric("tenon_executions_total", 'model="wide",version="1"')
    clients = [threading.Thread(target=ask, args=(i,)) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return sum(counts) / SECONDS, sum(counts) / (server.metric("tenon_executions_total", 'model="wide",version="1"') - before)


def batches(folder):
    """Answers a second with and without batches, in turns, and rows of a run."""
    weights = {f"w{i}": np.random.default_rng(i).standard_normal((WIDTH, WIDTH)).astype(np.float32) / 32 for i in range(8)}
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"h{i - 1}", f"w{i}"], ["y" if i == 7 else f"h{i}"]) for i in range(8)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(value, name) for name, value in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "wide.onnx")
    for kind in ["batched", "single"]:
        (folder / kind / "wide/1").mkdir(parents=True)
        subprocess.run([TENON, "compile", folder / "wide.onnx", "-o", folder / kind / "wide/1/model.tenon", "--quiet", "--target", "native"], check=True)
    (folder / "single/wide/config.pbtxt").write_text("max_batch_size: 64\n")
    with Server(folder / "batched") as batched, Server(folder / "single") as single:
        pairs = [(throughput(batched), throughput(single)) for _ in range(ROUNDS)]
    ratios = sorted(a[0] / b[0] for a, b in pairs)
    middle = sorted(pairs, key=lambda pair: pair[0][0] / pair[1][0])[ROUNDS // 2]
    return middle[0][0], middle[1][0], middle[0][1], ratios


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "models").mkdir()
        compile_cnn(folder / "models/cnn.tenon", "--target", "native")
        refused, restarted = refusals(folder / "models"), restarts(folder / "models")
        with_batches, without, rows, ratios = batches(folder)
    print("| what | p50 | p99 | most |\n| --- | ---: | ---: | ---: |")
    print("| a full queue refuses (429), ms | {:.2f} | {:.2f} | {:.2f} |".format(*refused))
    print("| kill -9 of the worker to the next answer, ms | {:.0f} | {:.0f} | {:.0f} |".format(*restarted))
    print(f"\n{CLIENTS} clients, 8 products of 1 x {WIDTH} x {WIDTH}: {with_batches:.0f} answers a second with batches ({rows:.1f} rows a run), {without:.0f} without; "
          f"ratio {ratios[len(ratios) // 2]:.2f} (from {ratios[0]:.2f} to {ratios[-1]:.2f} in {len(ratios)} pairs)")


if __name__ == "__main__":
    main()
