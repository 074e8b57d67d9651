#!/usr/bin/env python3
"""How long the answers of a server wait for their next token while a long prompt arrives, beside how long they wait without it.

Streams run; then a prompt of --prompt tokens is sent, and until its first token the times between the tokens of the others are looked at: their p99
by the median of the same streams before. Rounds follow each other, so that what else the machine does is seen in their spread.
"""

import argparse
import json
import selectors
import socket
import statistics
import subprocess
import time
import urllib.request

from measure_front import free_port


def send(port, prompt, options, tokens):
    body = json.dumps({"model": "m", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True, "logit_bias": {str(end): -100 for end in options.end}}).encode()
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    return connection


def p99(values):
    return sorted(values)[len(values) * 99 // 100]


def measure(port, turn, options):
    """Seconds between tokens before and while the long prompt is computed, and how long that took."""
    select = selectors.DefaultSelector()
    for stream in range(options.streams):
        prompt = [1000 + (stream * 131 + turn * 977 + i * (stream + 3)) % 20000 for i in range(20)]
        select.register(send(port, prompt, options, options.before + 100_000), selectors.EVENT_READ, "stream")
    last, between, arrived, answered = {}, {False: [], True: []}, None, None
    while answered is None:
        for key, _ in select.select():
            data, now = key.fileobj.recv(1 << 16), time.perf_counter()
            if b"data: {" not in data:
                continue
            if key.data == "long":
                answered = now
                break
            if key.fileobj in last:
                between[arrived is not None].append(now - last[key.fileobj])
            last[key.fileobj] = now
        if arrived is None and len(between[False]) >= options.before * options.streams:
            arrived = time.perf_counter()
            prompt = [2000 + (turn * 613 + i * 7) % 20000 for i in range(options.prompt)]
            select.register(send(port, prompt, options, 1), selectors.EVENT_READ, "long")
    for key in list(select.get_map().values()):
        key.fileobj.close()
    return between[False], between[True], answered - arrived


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine")
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=4096)
    parser.add_argument("--before", type=int, default=30, help="tokens of each stream before the prompt")
    parser.add_argument("--end", type=int, action="append", default=[], help="a token that ends an answer, and is kept from it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    port = free_port()
    with subprocess.Popen([options.tenon, "serve", options.engine, "--name", "m", "--port", str(port), "--threads", str(options.threads)], stdout=subprocess.DEVNULL) as server:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready").close()
                break
            except OSError:
                time.sleep(0.1)
        for turn in range(options.rounds):
            before, during, took = measure(port, turn, options)
            median = statistics.median(before)
            print(f"before: median {median * 1e3:.1f} ms, p99 {p99(before) / median:.2f} of it; while the prompt is computed ({took:.1f} s, {len(during)} tokens): "
                  f"median {statistics.median(during) / median:.2f}, p99 {p99(during) / median:.2f}", flush=True)
        server.terminate()


if __name__ == "__main__":
    main()
