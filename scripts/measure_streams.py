#!/usr/bin/env python3
"""Many streams at once over one GGUF file: `tenon serve` beside llama.cpp's server (xllamacpp) and OpenVINO GenAI's continuous batching.

Each side is a process of its own on the same cores, and they take turns: while one answers all its streams, the others wait. A rate is all tokens
that came by the time from the first request to the last answer, prompts included. Prompts differ in length and from round to round, so that nobody
has read any before. Tenon and llama.cpp are asked over HTTP; OpenVINO GenAI gets all prompts in one call in process, which spares it a server.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

WORDS = "one two three four five six seven eight nine ten red green blue white black small large old new good".split()


def prompt_of(stream, turn):
    """20 to 20 + 7 * stream words; the first differs between streams and turns."""
    return " ".join(WORDS[(stream * 7 + turn * 3 + i * (stream + 1)) % len(WORDS)] for i in range(20 + 7 * stream))


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


class Served:
    """A server that answers /v1/completions; `ends` are the fields that keep an answer from ending early."""

    def __init__(self, url, model, ends):
        self.url, self.model, self.ends = url + "/v1/completions", model, ends

    def answer(self, prompts, tokens):
        def one(prompt):
            reply = post(self.url, {"model": self.model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, **self.ends})
            return reply["choices"][0]["text"], reply["usage"]["completion_tokens"]

        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(one, prompts))


class Tenon(Served):
    def __init__(self, engine, options):
        port = free_port()
        command = [options.tenon, "serve", engine, "--port", str(port), "--threads", str(options.threads)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/v2/health/ready").close()
                break
            except OSError:
                time.sleep(0.1)
        super().__init__(url, pathlib.Path(engine).stem, {"logit_bias": {str(end): -100 for end in options.end}})

    def close(self):
        self.process.terminate()
        self.process.wait()


class Llama(Served):
    def __init__(self, file, options):
        import xllamacpp
        params = xllamacpp.CommonParams()
        params.model.path = file
        params.n_ctx, params.n_parallel = options.streams * 1024, options.streams
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F16
        self.server = xllamacpp.Server(params)
        super().__init__(self.server.listening_address, "m", {"ignore_eos": True, "cache_prompt": False})


class OpenVino:
    def __init__(self, file, options):
        import openvino_genai
        self.genai = openvino_genai
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size, scheduler.max_num_seqs, scheduler.enable_prefix_caching = 2, options.streams, False
        cache = pathlib.Path(file).with_suffix(".openvino")
        self.pipeline = openvino_genai.LLMPipeline(file, "CPU", scheduler_config=scheduler, ATTENTION_BACKEND="PA", INFERENCE_NUM_THREADS=options.threads,
                                                   KV_CACHE_PRECISION="f16", CACHE_DIR=str(cache))

    def answer(self, prompts, tokens):
        config = self.genai.GenerationConfig(max_new_tokens=tokens, ignore_eos=True, do_sample=False, apply_chat_template=False)
        texts = self.pipeline.generate(prompts, config).texts
        return [(text, tokens) for text in texts]


class Peer:
    """A peer in a process of its own, with the Python that has its packages."""

    def __init__(self, kind, options):
        reads, writes = os.pipe()
        command = [options.peers, __file__, *sys.argv[1:], "--peer", kind, "--channel", str(writes)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, pass_fds=[writes])
        os.close(writes)
        self.lines = os.fdopen(reads)
        if not self.lines.readline():
            raise RuntimeError(f"{kind} does not start")

    def answer(self, prompts, tokens):
        self.process.stdin.write(json.dumps([prompts, tokens]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.lines.readline())

    def close(self):
        self.process.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="a GGUF file")
    parser.add_argument("engines", nargs="+", help="engines that were compiled from it")
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("--peers", default=sys.executable, help="a Python with xllamacpp and openvino_genai")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=96, help="of each answer")
    parser.add_argument("--end", type=int, action="append", default=[], help="a token that ends an answer, and is kept from it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--channel", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    kinds = {"llama.cpp": Llama, "openvino": OpenVino}
    if options.peer:
        side = kinds[options.peer](options.file, options)
        out = os.fdopen(options.channel, "w", buffering=1)
        print("ready", file=out)
        for line in sys.stdin:
            print(json.dumps(side.answer(*json.loads(line))), file=out)
        return
    sides = {pathlib.Path(engine).stem: Tenon(engine, options) for engine in options.engines}
    for kind in kinds:
        try:
            sides[kind] = Peer(kind, options)
        except RuntimeError as error:
            print(error, file=sys.stderr)
    rates, texts = {name: [] for name in sides}, {}
    for turn in range(options.rounds + 1):
        prompts = [prompt_of(stream, turn) for stream in range(options.streams)]
        for name, side in sides.items():
            before = time.perf_counter()
            answers = side.answer(prompts, options.tokens)
            seconds = time.perf_counter() - before
            texts[name] = answers[0][0]
            if turn > 0:  # the first turn warms
                rates[name].append(sum(count for _, count in answers) / seconds)
    first = next(iter(sides))
    for name, values in rates.items():
        ratios = [ours / theirs for ours, theirs in zip(rates[first], values)]
        print(f"{name}: {statistics.median(values):.0f} tokens/s {[round(value) for value in values]}, {first} by this {statistics.median(ratios):.2f}, "
              f"text {texts[name][:50]!r}", flush=True)
    for side in sides.values():
        side.close()


if __name__ == "__main__":
    main()
