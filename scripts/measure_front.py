#!/usr/bin/env python3
"""What a server costs a language model: streams over HTTP beside the same service in a process of its own, in turns.

Rates are tokens of answers by the time from the first request to the last answer. On a machine with other work, look at the time that processors
gave: that of the front beside that of its worker, and the worker beside the service alone. The client reads all streams with one thread.
"""

import argparse
import json
import pathlib
import selectors
import socket
import statistics
import subprocess
import time
import urllib.request

WORDS = 50  # of a prompt, at least


def prompts_of(turn, streams):
    """Lists of tokens that nobody has read before."""
    return [[1000 + (stream * 131 + turn * 977 + i * (stream + 3)) % 20000 for i in range(WORDS + 7 * stream)] for stream in range(streams)]


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def busy(processes):
    """Seconds that the threads of processes have run."""
    tasks = [task for process in processes for task in pathlib.Path(f"/proc/{process}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


class Served:
    def __init__(self, options):
        self.port, self.options = free_port(), options
        self.process = subprocess.Popen([options.tenon, "serve", options.engine, "--name", "m", "--port", str(self.port), "--threads", str(options.threads)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/health/ready").close()
                break
            except OSError:
                time.sleep(0.1)
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.parts = {"front": [self.process.pid], "worker": [int(child) for child in children]}

    def answer(self, prompts):
        select, began = selectors.DefaultSelector(), time.perf_counter()
        for prompt in prompts:
            body = json.dumps({"model": "m", "prompt": prompt, "max_tokens": self.options.tokens, "temperature": 0, "stream": True,
                               "logit_bias": {str(end): -100 for end in self.options.end}}).encode()
            connection = socket.create_connection(("127.0.0.1", self.port))
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            select.register(connection, selectors.EVENT_READ, [0])
        while select.get_map():
            for key, _ in select.select():
                data = key.fileobj.recv(1 << 16)
                key.data[0] += data.count(b"data: {")
                if not data:
                    select.unregister(key.fileobj)
                    key.fileobj.close()
        return len(prompts) * self.options.tokens, time.perf_counter() - began

    def close(self):
        self.process.terminate()
        self.process.wait()


class InProcess:
    def __init__(self, options):
        self.process = subprocess.Popen([options.rate, options.engine, str(options.threads), str(options.tokens)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        self.parts = {"service": [self.process.pid]}

    def answer(self, prompts):
        self.process.stdin.write(";".join(",".join(map(str, prompt)) for prompt in prompts) + "\n")
        self.process.stdin.flush()
        tokens, seconds = self.process.stdout.readline().split()
        return int(tokens), float(seconds)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine")
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("--rate", default="build/dev/test/generate/generate_rate")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--end", type=int, action="append", default=[], help="a token that ends an answer, and is kept from it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sides = {"served": Served(options), "in process": InProcess(options)}
    rates, costs = {name: [] for name in sides}, {}
    for turn in range(options.rounds + 1):
        for name, side in sides.items():
            before = {part: busy(processes) for part, processes in side.parts.items()}
            tokens, seconds = side.answer(prompts_of(turn, options.streams))
            for part, processes in side.parts.items():
                costs.setdefault(part, []).append((busy(processes) - before[part]) / tokens)
            rates[name].append(tokens / seconds)
    ratios = [ours / theirs for ours, theirs in zip(rates["served"][1:], rates["in process"][1:])]
    for name, values in rates.items():
        print(f"{name}: {statistics.median(values[1:]):.1f} tokens/s {[round(value, 1) for value in values[1:]]}")
    print(f"served by in process: {statistics.median(ratios):.3f} {[round(ratio, 3) for ratio in ratios]}")
    for part, values in costs.items():
        print(f"{part}: {statistics.median(values[1:]) * 1e6:.0f} µs of processors a token")
    for side in sides.values():
        side.close()


if __name__ == "__main__":
    main()
