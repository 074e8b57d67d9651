#!/usr/bin/env python3
"""Measures `tenon serve` beside Triton 2.51, FastAPI and bare echoes, in turns, and prints tables in Markdown.

    measure.py BUILD_DIR [noop] [minilm] [--rounds N]        needs `scripts/setup.sh triton`, and Debian's wrk, nghttp2-client, libgrpc++-dev

CPU time is that of the server's processes, from /proc; clients (h2load, wrk) run on the same CPUs, so that ratios of a round count. Runs in .venv.
"""

import json
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ["TENON_SOURCE_DIR"], os.environ["TENON_BUILD_DIR"] = str(ROOT), str(pathlib.Path(sys.argv[1]).resolve())
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import onnx
import triton
from onnx import TensorProto, helper
from server import TENON, Server

ELEMENTS = 256  # 1 KB
SEQUENCE = 32
CLIENTS = 8
MORE_RUNS = 100
ROUNDS = int(sys.argv[sys.argv.index("--rounds") + 1]) if "--rounds" in sys.argv else 7
CONFIG = 'backend: "tenon"\nmax_batch_size: 64\ndynamic_batching { }\ninstance_group [{ kind: KIND_CPU }]\n'


def descendants(pid):
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += descendants(int(child))
    return found


def cpu_seconds(pid):
    """Of a process and those that it started, by the kernel's clock of each."""
    return sum(time.clock_gettime(~each << 3 | 2) for each in descendants(pid))


def get(port, path, body=None):
    return json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", body).read())


def answered(port, model):
    return int(get(port, f"/v2/models/{model}/stats")["model_stats"][0]["inference_stats"]["success"]["count"])


# ---- requests as bytes ----

def varint(number):
    text = b""
    while number > 127:
        text += bytes([number & 127 | 128])
        number >>= 7
    return text + bytes([number])


def member(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def grpc_message(model, tensors):
    """A ModelInferRequest of inference.proto with its frame."""
    types = {"float32": b"FP32", "int64": b"INT64"}
    body = member(1, model.encode())
    for name, value in tensors.items():
        body += member(5, member(1, name.encode()) + member(2, types[value.dtype.name]) + member(3, b"".join(map(varint, value.shape))))
    for value in tensors.values():
        body += member(7, value.tobytes())
    return struct.pack(">BI", 0, len(body)) + body


def http_body(tensors):
    """The body, and the length of its JSON."""
    types = {"float32": "FP32", "int64": "INT64"}
    inputs = [{"name": name, "datatype": types[value.dtype.name], "shape": value.shape, "parameters": {"binary_data_size": value.nbytes}} for name, value in tensors.items()]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    return head + b"".join(value.tobytes() for value in tensors.values()), len(head)


# ---- loads ----

class Target:
    """A server that was started: its process, and how h2load or wrk speak to it."""

    def __init__(self, name, pid, url, body, headers, count=None):
        self.name, self.pid, self.url, self.body, self.headers, self.count = name, pid, url, body, headers, count

    def h2load(self, requests, connections, *more):
        """CPU µs a request."""
        before, start = self.count() if self.count else 0, cpu_seconds(self.pid)
        headers = [argument for name, value in self.headers.items() for argument in ("-H", f"{name}: {value}")]
        done = subprocess.run(["h2load", "-n", str(requests), "-c", str(connections), "-m", "1", "-t", "1", "-d", self.body, *headers, *more, self.url], capture_output=True, text=True, check=True)
        spent = cpu_seconds(self.pid) - start
        if f" {requests} succeeded" not in done.stdout or (self.count and self.count() - before != requests):
            raise RuntimeError(f"{self.name} did not answer all: {done.stdout}")
        return 1e6 * spent / requests

    def median_latency(self, requests, *more):
        """µs from a request to the end of its reply over one connection."""
        with tempfile.NamedTemporaryFile() as log:
            self.h2load(requests, 1, "--log-file", log.name, *more)
            return statistics.median(int(line.split("\t")[2]) for line in pathlib.Path(log.name).read_text().splitlines())

    def ask(self):
        """The body of one reply, also of an error."""
        try:
            return urllib.request.urlopen(urllib.request.Request(self.url, self.body.read_bytes(), self.headers)).read()
        except urllib.error.HTTPError as error:
            return error.read()

    def wrk(self, folder, seconds):
        """(answers a second, p50 ms, p99 ms, CPU ms of the server an answer)."""
        script = folder / "load.lua"
        headers = "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in self.headers.items())
        script.write_text(f'wrk.method = "POST"\nwrk.body = io.open("{self.body}", "rb"):read("*a")\n{headers}'
                          'done = function(s, l, r) io.write(string.format("RESULT %d %d %d %d %d\\n", s.requests, s.duration, l:percentile(50), l:percentile(99), s.errors.status + s.errors.read + s.errors.timeout)) end\n')
        start = cpu_seconds(self.pid)
        done = subprocess.run(["wrk", "-c", str(CLIENTS), "-t", "1", "-d", f"{seconds}s", "-s", script, self.url], capture_output=True, text=True, check=True)
        spent = cpu_seconds(self.pid) - start
        count, duration, p50, p99, errors = map(int, done.stdout.split("RESULT ")[1].split())
        if errors:
            raise RuntimeError(f"{self.name}: {done.stdout}{self.ask()}")
        return 1e6 * count / duration, p50 / 1e3, p99 / 1e3, 1e3 * spent / count


def in_turns(targets, measure, rounds):
    """{name: a value for each round}, in another order each time."""
    values = {target.name: [] for target in targets}
    order = list(targets)
    for target in order:
        measure(target)  # warm
    for _ in range(rounds):
        random.shuffle(order)
        for target in order:
            values[target.name].append(measure(target))
    return values


def ratios(values, name, base):
    each = sorted(a / b for a, b in zip(values[name], values[base]))
    return f"{statistics.median(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})"


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


# ---- a model that does nothing ----

def compile_engine(model, path, *arguments):
    path.parent.mkdir(parents=True)
    subprocess.run([TENON, "compile", model, "-o", path, "--quiet", "--target", "native", *arguments], check=True)


class Echo:
    def __init__(self, folder, name, *libraries):
        source = ROOT / f"test/serving/echo/{name}.cpp"
        subprocess.run(["clang++-22", "-O2", "-std=c++20", source, "-o", folder / name, *libraries], check=True)
        self.process = subprocess.Popen([folder / name], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def noop(folder):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", ELEMENTS]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "noop", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "noop.onnx")
    compile_engine(folder / "noop.onnx", folder / "repository/noop/1/model.tenon")
    (folder / "repository/noop/config.pbtxt").write_text(CONFIG)
    value = {"x": np.random.default_rng(0).random((1, ELEMENTS), np.float32)}
    (folder / "grpc").write_bytes(grpc_message("noop", value))
    body, head = http_body(value)
    (folder / "http").write_bytes(body)
    by_grpc, by_http = {"content-type": "application/grpc", "te": "trailers"}, {"Inference-Header-Content-Length": head}
    libraries = subprocess.run(["pkg-config", "--libs", "grpc++"], capture_output=True, text=True, check=True).stdout.split()
    with Server(folder / "repository") as tenon, triton.Triton(folder / "repository") as other, Echo(folder, "nghttp2", "-lnghttp2") as nghttp2, \
            Echo(folder, "grpcpp", *libraries) as grpcpp, Echo(folder, "beast") as beast:
        call, path = "inference.GRPCInferenceService/ModelInfer", "v2/models/noop/infer"
        counts = [lambda: answered(tenon.port, "noop"), lambda: answered(other.port, "noop")]
        grpc = [Target("Tenon", tenon.process.pid, f"http://127.0.0.1:{tenon.port}/{call}", folder / "grpc", by_grpc, counts[0]),
                Target("Triton 2.51 with Tenon's backend", other.process.pid, f"http://127.0.0.1:{other.grpc_port}/{call}", folder / "grpc", by_grpc, counts[1]),
                Target("echo over nghttp2", nghttp2.process.pid, f"http://127.0.0.1:{nghttp2.port}/{call}", folder / "grpc", by_grpc),
                Target("echo over grpc++", grpcpp.process.pid, f"http://127.0.0.1:{grpcpp.port}/{call}", folder / "grpc", by_grpc)]
        http = [Target("Tenon", tenon.process.pid, f"http://127.0.0.1:{tenon.port}/{path}", folder / "http", by_http, counts[0]),
                Target("Triton 2.51 with Tenon's backend", other.process.pid, f"http://127.0.0.1:{other.port}/{path}", folder / "http", by_http, counts[1]),
                Target("echo over Beast", beast.process.pid, f"http://127.0.0.1:{beast.port}/", folder / "http", by_http)]
        row("gRPC, 1 KB", "CPU µs a request, 64 connections", "of the nghttp2 echo", "of the grpc++ echo", "1 connection", "of the nghttp2 echo", "p50 µs, 1 connection")
        row(*["---"] + ["---:"] * 6)
        many, one, delay = (in_turns(grpc, measure, ROUNDS) for measure in (lambda t: t.h2load(20000, 64), lambda t: t.h2load(5000, 1), lambda t: t.median_latency(2000)))
        for name in many:
            row(name, f"{statistics.median(many[name]):.1f}", ratios(many, name, "echo over nghttp2"), ratios(many, name, "echo over grpc++"), f"{statistics.median(one[name]):.1f}",
                ratios(one, name, "echo over nghttp2"), f"{statistics.median(delay[name]):.0f}")
        print()
        row("HTTP, 1 KB", "CPU µs a request, 64 connections", "of the Beast echo", "1 connection", "of the Beast echo", "p50 µs, 1 connection")
        row(*["---"] + ["---:"] * 5)
        many, one, delay = (in_turns(http, measure, ROUNDS) for measure in (lambda t: t.h2load(20000, 64, "--h1"), lambda t: t.h2load(5000, 1, "--h1"), lambda t: t.median_latency(2000, "--h1")))
        for name in many:
            row(name, f"{statistics.median(many[name]):.1f}", ratios(many, name, "echo over Beast"), f"{statistics.median(one[name]):.1f}", ratios(one, name, "echo over Beast"), f"{statistics.median(delay[name]):.0f}")
        print()


# ---- MiniLM ----

def minilm(folder):
    version = folder / "ort/minilm/1"
    version.mkdir(parents=True)
    model = version / "model.onnx"  # its weights lie beside it
    subprocess.run([sys.executable, ROOT / "models/fill.py", ROOT / "models/graphs/minilm_l6.dynamo.onnx", model], check=True, capture_output=True)
    compile_engine(model, folder / "tenon/minilm/1/model.tenon")
    (folder / "tenon/minilm/config.pbtxt").write_text(CONFIG)
    shutil.copy(ROOT / "test/serving/triton/onnxruntime_model.py", version / "model.py")
    generator = np.random.default_rng(0)
    values = {"input_ids": generator.integers(1, 30000, (1, SEQUENCE)), "attention_mask": np.ones((1, SEQUENCE), np.int64), "token_type_ids": np.zeros((1, SEQUENCE), np.int64)}
    inputs = ", ".join(f'{{ name: "{name}", data_type: TYPE_INT64, dims: [-1] }}' for name in values)
    (version.parent / "config.pbtxt").write_text('backend: "python"\nmax_batch_size: 64\ndynamic_batching { }\ninstance_group [{ kind: KIND_CPU }]\n'
                                                  f'input [{inputs}]\noutput [{{ name: "last_hidden_state", data_type: TYPE_FP32, dims: [-1, 384] }}]\n')
    body, head = http_body(values)
    (folder / "http").write_bytes(body)
    (folder / "raw").write_bytes(b"".join(value.tobytes() for value in values.values()))
    port = triton.free_port()
    fastapi = subprocess.Popen([triton.PYTHON, ROOT / "test/serving/triton/fastapi_server.py", model, str(SEQUENCE), str(port)])
    try:
        with Server(folder / "tenon") as tenon, triton.Triton(folder / "tenon") as backend, triton.Triton(folder / "ort") as ort:
            header = {"Inference-Header-Content-Length": head}
            targets = [Target(name, server.process.pid, f"http://127.0.0.1:{server.port}/v2/models/minilm/infer", folder / "http", header)
                       for name, server in (("Tenon", tenon), ("Triton 2.51 with Tenon's backend", backend), ("Triton 2.51, Python backend, ONNX Runtime", ort))]
            targets.append(Target("FastAPI, ONNX Runtime", fastapi.pid, f"http://127.0.0.1:{port}/infer", folder / "raw", {}))
            check_answers(targets)
            engine = folder / "tenon/minilm/1/model.tenon"
            results = {target.name: [] for target in targets}
            inside = {rows: [] for rows in (1, CLIENTS)}
            for target in targets:
                target.wrk(folder, 2)
            order = list(targets)
            for _ in range(ROUNDS):
                random.shuffle(order)
                for target in order:
                    results[target.name].append(target.wrk(folder, 4))
                for rows in inside:
                    inside[rows].append(bench(engine, folder, rows, values))
    finally:
        fastapi.kill()
        fastapi.wait()
    row(f"MiniLM, {SEQUENCE} tokens, {CLIENTS} clients over HTTP", "answers/s", "p50 ms", "p99 ms", "CPU ms an answer", "Tenon's throughput to it", "its CPU time to Tenon's", "its p99 to Tenon's")
    row(*["---"] + ["---:"] * 7)
    rates, tails, costs = ({name: [value[i] for value in each] for name, each in results.items()} for i in (0, 2, 3))
    for name, each in results.items():
        row(name, *(f"{statistics.median(value[i] for value in each):.{digits}f}" for i, digits in ((0, 0), (1, 1), (2, 1), (3, 1))), ratios(rates, "Tenon", name), ratios(costs, name, "Tenon"), ratios(tails, name, "Tenon"))
    for rows, each in inside.items():
        rates[f"in process, {rows} rows"], costs[f"in process, {rows} rows"] = ([value[i] for value in each] for i in (0, 1))
        row(f"in process (`tenon bench`), {rows} rows a run", f"{statistics.median(value[0] for value in each):.0f}", "", "", f"{statistics.median(value[1] for value in each):.1f}",
            ratios(rates, "Tenon", f"in process, {rows} rows"), ratios(costs, f"in process, {rows} rows", "Tenon"), "")


def bench(engine, folder, rows, values):
    """Rows a second of `tenon bench` with all threads, and CPU ms a row: what more runs take more."""
    np.savez(folder / "bench.npz", **{name: np.repeat(value, rows, 0) for name, value in values.items()})
    command = [TENON, "bench", engine, "--inputs", folder / "bench.npz", "--json", "--runs"]
    spent = []
    for runs in (MORE_RUNS // 10, MORE_RUNS):
        before = os.times()
        done = subprocess.run([*command, str(runs)], capture_output=True, text=True, check=True)
        after = os.times()
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return json.loads(done.stdout)["throughput_per_s"], 1e3 * (spent[1] - spent[0]) / (rows * (MORE_RUNS - MORE_RUNS // 10))


def check_answers(targets):
    """All give what the first gives, as far as sums in another order may differ."""
    outputs = []
    for target in targets:
        answer, end = b"", time.monotonic() + 60
        while len(answer) < SEQUENCE * 384 * 4:  # it loads
            if time.monotonic() > end:
                raise RuntimeError(f"{target.name}: {answer}")
            try:
                answer = target.ask()
            except urllib.error.URLError:
                time.sleep(0.1)
        outputs.append(np.frombuffer(answer[-SEQUENCE * 384 * 4:], np.float32))
    for output in outputs[1:]:
        np.testing.assert_allclose(output, outputs[0], rtol=1e-3, atol=1e-3)


def main():
    if triton.needed():
        sys.exit(triton.needed())
    wanted = [part for part in (noop, minilm) if part.__name__ in sys.argv] or [noop, minilm]
    for part in wanted:
        with tempfile.TemporaryDirectory() as name:
            part(pathlib.Path(name))


if __name__ == "__main__":
    main()
