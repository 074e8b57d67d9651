#!/usr/bin/env python3
"""By hand: what batches gain for BERT-base behind a server, with 128 tokens each and with lengths from 16 to 128.

    TENON_SOURCE_DIR=. TENON_BUILD_DIR=build/dev test/serving/campaign_bert.py --target cuda:sm_90 --precision fp16 [--graph GRAPH] [--clients N]...

Servers with and without batches take turns; clients are processes of their own with several connections each. For each number of
clients: answers a second, p50 and p99, and the largest difference of an answer from that of a request alone.
"""

import argparse
import asyncio
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from connections import Connection, inference, quantile
from onnx import TensorProto, helper, numpy_helper
from server import SOURCE, TENON, Server

PROCESSES = max(1, min(8, len(os.sched_getaffinity(0)) // 2))
BATCHING = "dynamic_batching {{ max_queue_delay_microseconds: {delay} }}\nmax_batch_size: 64\n"
PADDING = '''parameters {{ key: "pad" value {{ string_value: "input_ids: 0, attention_mask: 0, token_type_ids: 0" }} }}
parameters {{ key: "buckets" value {{ string_value: "16, 32, 48, 64, 96, 128" }} }}
'''


def first_token(graph, target):
    """The model with the first token's 768 numbers as its only output, as classifiers and searches use it: all of them are 393 KB."""
    model = onnx.load(graph, load_external_data=False)
    rows = model.graph.output[0]
    model.graph.initializer.append(numpy_helper.from_array(np.array(0), "first"))
    model.graph.node.append(helper.make_node("Gather", [rows.name, "first"], ["sentence"], axis=1))
    width = rows.type.tensor_type.shape.dim[2].dim_value
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("sentence", TensorProto.FLOAT, ["batch", width]))
    onnx.save(model, target)


def sentences(lengths, count, seed):
    """Requests of one sentence each."""
    rng = np.random.default_rng(seed)
    requests = []
    for _ in range(count):
        length = int(rng.choice(lengths))
        ids = rng.integers(1, 30000, (1, length), np.int64)
        requests.append(inference("bert", {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}))
    return requests


def clients(port, connections, lengths, seconds, seed, queue):
    """Connections that each send their requests one behind the other; their times, and the largest difference from the first answers."""
    requests = sentences(lengths, 32, seed)

    async def client(index, until, times, worst):
        connection = await Connection.open(port)
        i = index
        while time.monotonic() < until:
            status, body, taken = await connection.ask(requests[i % len(requests)])
            assert status == 200, (status, body)
            times.append(taken)
            if len(times) % 64 == 1:
                right = alone[i % len(requests)]
                worst[0] = max(worst[0], float(np.abs(np.frombuffer(body, np.float32) - right).max() / np.abs(right).max()))
            i += 1
        connection.close()

    async def run():
        times, worst = [], [0.0]
        until = time.monotonic() + seconds
        await asyncio.gather(*[client(7 * k, until, times, worst) for k in range(connections)])
        return times, worst[0]

    async def first():
        connection = await Connection.open(port)
        answers = [np.frombuffer((await connection.ask(request))[1], np.float32) for request in requests]
        connection.close()
        return answers

    alone = asyncio.run(first())
    queue.put(None)  # ready
    start_signal.wait()
    queue.put(asyncio.run(run()))


def measure(port, count, lengths, seconds):
    """Answers a second, p50, p99 in ms, the largest difference."""
    global start_signal
    start_signal = multiprocessing.Event()
    queue = multiprocessing.Queue()
    processes = min(PROCESSES, count)
    workers = [multiprocessing.Process(target=clients, args=(port, count // processes, lengths, seconds, seed, queue)) for seed in range(processes)]
    for worker in workers:
        worker.start()
    for _ in workers:
        queue.get()
    start_signal.set()
    results = [queue.get() for _ in workers]
    for worker in workers:
        worker.join()
    times = [taken for some, _ in results for taken in some]
    return len(times) / seconds, 1e3 * quantile(times, 0.5), 1e3 * quantile(times, 0.99), max(worst for _, worst in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", type=pathlib.Path, default=SOURCE / "models/graphs/bert_base.dynamo.onnx")
    parser.add_argument("--target", default="native")
    parser.add_argument("--precision")
    parser.add_argument("--optimize-for", action="append", default=[])
    parser.add_argument("--clients", type=int, action="append")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--delay", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        engine = folder / "model.tenon"
        ports = ["input_ids", "attention_mask", "token_type_ids"]
        first_token(flags.graph, folder / "model.onnx")
        subprocess.run([TENON, "compile", folder / "model.onnx", "-o", engine, "--quiet", "--target", flags.target, *(["--precision", flags.precision] if flags.precision else []),
                        *[word for sizes in flags.optimize_for for word in ("--optimize-for", sizes)],
                        *[word for port in ports for word in ("--shape", f"{port}:[1..64]x[1..128]")]], check=True)
        for kind in ["batched", "single"]:
            (folder / kind / "bert/1").mkdir(parents=True)
            os.link(engine, folder / kind / "bert/1/model.tenon")
        (folder / "batched/bert/config.pbtxt").write_text((BATCHING + PADDING).format(delay=flags.delay))
        (folder / "single/bert/config.pbtxt").write_text("max_batch_size: 64\n")
        with Server(folder / "batched") as batched, Server(folder / "single") as single:
            print("".join(batched.log), end="", flush=True)
            print("| lengths | clients | with batches: a second, p50, p99 ms | without | ratio | difference |\n| --- | ---: | --- | --- | ---: | ---: |")
            for title, lengths in [("128", [128]), ("16 to 128", range(16, 129))]:
                for count in flags.clients or [1, 8, 16, 32, 64]:
                    pairs = [(measure(batched.port, count, lengths, flags.seconds), measure(single.port, count, lengths, flags.seconds)) for _ in range(flags.rounds)]
                    ratios = sorted(a[0] / b[0] for a, b in pairs)
                    with_batches, without = pairs[len(pairs) // 2]
                    print(f"| {title} | {count} | {with_batches[0]:.0f}, {with_batches[1]:.2f}, {with_batches[2]:.2f} | {without[0]:.0f}, {without[1]:.2f}, {without[2]:.2f} | "
                          f"{ratios[len(ratios) // 2]:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) | {max(a[3] for a, _ in pairs):.1e} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
