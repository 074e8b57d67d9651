#!/usr/bin/env python3
"""The same JSON requests to an engine in Ray Serve (tenon.ray_serve) and behind `tenon serve`, in turn: requests a second and latency, as ratios of pairs.

Relies on the package tenon and ray[serve] in the Python that runs it; prints a table for docs/measurements.
"""

import argparse
import concurrent.futures
import http.client
import json
import pathlib
import platform
import re
import socket
import statistics
import subprocess
import tempfile
import time

import numpy as np
import ray
import tenon
from ray import serve
from tenon import ray_serve

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGE = np.random.default_rng(0).random(784, np.float32).round(3).tolist()
BODY = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 28, 28], "data": IMAGE}]})


def drive(port, clients, seconds):
    """(requests a second, median latency in ms) of so many clients, each with one connection."""

    def ask(_):
        connection, found, end = http.client.HTTPConnection("127.0.0.1", port), [], time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.monotonic()
            connection.request("POST", "/v2/models/cnn/infer", BODY)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise SystemExit(f"port {port}: {body}")
            found.append(time.monotonic() - start)
        connection.close()
        return found

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        times = [each for found in pool.map(ask, range(clients)) for each in found]
    return len(times) / seconds, statistics.median(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engine = f"{folder}/cnn.tenon"
        tenon.compile(str(ROOT / "models/fashion_cnn.onnx"), output=engine, target="cpu:native")
        program = pathlib.Path(tenon.__file__).parent / "bin/tenon"
        own = subprocess.Popen([program, "serve", engine, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = int(own.stdout.readline().rsplit(":", 1)[1])
        with socket.create_server(("127.0.0.1", 0)) as probe:
            other = probe.getsockname()[1]
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        serve.start(http_options={"host": "127.0.0.1", "port": other})
        serve.run(ray_serve.app({"cnn": engine}, max_ongoing_requests=64))
        cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())[1]
        print(f"{cpu}, {ray.cluster_resources()['CPU']:.0f} CPUs; Ray {ray.__version__}, Python {platform.python_version()}, Tenon {tenon.__version__}; {given.rounds} rounds of {given.seconds:g} s each")
        print("| clients | Ray Serve, requests/s | `tenon serve` | ratio (least to most) | p50, ms | p50, ms |\n| --- | --- | --- | --- | --- | --- |")
        for clients in (1, 8):
            rounds = []
            for index in range(given.rounds + 1):
                pair = [drive(each, clients, given.seconds) for each in ((other, port) if index % 2 else (port, other))]
                if index:  # the first warms up
                    rounds.append(pair if index % 2 else pair[::-1])
            rate = [[each[side][0] for each in rounds] for side in (0, 1)]
            p50 = [statistics.median(each[side][1] for each in rounds) for side in (0, 1)]
            ratios = sorted(b / a for a, b in zip(*rate))
            print(f"| {clients} | {statistics.median(rate[0]):.0f} | {statistics.median(rate[1]):.0f} | {statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f}) | {p50[0]:.1f} | {p50[1]:.2f} |")
        serve.shutdown()
        ray.shutdown()
        own.terminate()
        own.wait()


if __name__ == "__main__":
    main()
