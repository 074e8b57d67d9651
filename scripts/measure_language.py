#!/usr/bin/env python3
"""Tenon beside llama.cpp (xllamacpp) and OpenVINO GenAI on one GGUF file: decode, prefill, first token of a warm start, and what they answer.

Each side is a process of its own on the same two cores, and they take turns: while one computes, the others wait. Times of the peers are the ones
that they report. Relies on the packages tenon, xllamacpp and openvino_genai; a side whose package is missing is left out.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

QUESTION = "Question: How many days are there in a week?\nAnswer:"
WORDS = "one two three four five six seven eight nine ten red green blue white black small large old new good".split()


class Tenon:
    """A side's constructor loads; `answer` gives the text, the tokens read, seconds up to the first token, and seconds of each later one."""

    def __init__(self, file, threads, _):
        import tenon
        self.model = tenon.LanguageModel(file, threads=threads)
        self.ends = {self.model.tokenize(end, special=True)[0]: -1000.0 for end in ("<|im_end|>", "<|endoftext|>")}

    def answer(self, prompt, count):
        times, text = [time.perf_counter()], ""
        for piece in self.model.generate(prompt, raw=True, max_tokens=count, logit_bias=self.ends):
            times.append(time.perf_counter())
            text += piece.text
        rest = (times[-1] - times[1]) / max(1, len(times) - 2)
        return text, len(self.model.tokenize(prompt)), times[1] - times[0], rest


class Llama:
    def __init__(self, file, threads, cache):
        import xllamacpp
        params = xllamacpp.CommonParams()
        params.model.path = file
        params.n_ctx, params.n_parallel = 2048, 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.cache_type_k = params.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{cache.upper()}")
        self.server = xllamacpp.Server(params)

    def answer(self, prompt, count):
        result = self.server.handle_completions({"prompt": prompt, "n_predict": count, "temperature": 0, "ignore_eos": True, "cache_prompt": False})
        times = result["timings"]
        return result["choices"][0]["text"], times["prompt_n"], times["prompt_ms"] / 1e3, times["predicted_per_token_ms"] / 1e3


class OpenVino:
    def __init__(self, file, threads, cache, backend="SDPA"):
        import openvino_genai
        folder = pathlib.Path(file).with_suffix(".openvino")
        self.genai = openvino_genai
        self.pipeline = openvino_genai.LLMPipeline(file, "CPU", INFERENCE_NUM_THREADS=threads, PERFORMANCE_HINT="LATENCY", KV_CACHE_PRECISION=cache,
                                                   ATTENTION_BACKEND=backend, CACHE_DIR=str(folder))

    def answer(self, prompt, count):
        config = self.genai.GenerationConfig(max_new_tokens=count, ignore_eos=True, do_sample=False, apply_chat_template=False)
        result = self.pipeline.generate([prompt], config)
        metrics = result.perf_metrics
        return result.texts[0], metrics.get_num_input_tokens(), metrics.get_ttft().mean / 1e3, metrics.get_tpot().mean / 1e3


SIDES = {
    "tenon": (Tenon, ""),
    "llama.cpp, cache f16": (Llama, "f16"),
    "llama.cpp, cache f32": (Llama, "f32"),
    "openvino, cache f16": (OpenVino, "f16"),
    "openvino, cache f32": (OpenVino, "f32"),
}


def serve(name, file, threads, channel):
    """The process of a side: reads [prompt, count] as lines, writes answers as lines."""
    kind, cache = SIDES[name.split(":")[0]]
    before = time.perf_counter()
    side = kind(file, threads, cache)
    side.answer(QUESTION, 1)
    out = os.fdopen(channel, "w", buffering=1)
    print(json.dumps(time.perf_counter() - before), file=out)
    for line in sys.stdin:
        print(json.dumps(side.answer(*json.loads(line))), file=out)


class Side:
    def __init__(self, name, file, threads, cpus):
        reads, writes = os.pipe()
        command = [sys.executable, __file__, "--serve", name, "--channel", str(writes), "--threads", str(threads), file]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, pass_fds=[writes],
                                        preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        os.close(writes)
        self.name, self.lines = name, os.fdopen(reads)
        line = self.lines.readline()
        self.start = json.loads(line) if line else None
        if not line:
            print(f"{name} is left out: {self.process.stderr.read().strip().splitlines()[-1:]}", file=sys.stderr)

    def answer(self, prompt, count):
        self.process.stdin.write(json.dumps([prompt, count]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.lines.readline())


def prompt_of(words, turn):
    """About `words` tokens, of which the first differs from turn to turn, so that nobody has read any before."""
    return " ".join(WORDS[(turn + i * (i % 7 + 1)) % len(WORDS)] for i in range(words))


def summary(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="a GGUF file")
    parser.add_argument("--engine", action="append", default=[], metavar="NAME=ENGINE", help="further engines of Tenon, compiled from the file")
    parser.add_argument("--peer", action="append", choices=[name for name in SIDES if name != "tenon"], help="a peer; all by default")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpus", default="0,1", help="cores that all sides share; of a machine with two threads a core take one of each")
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--json")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--channel", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.file, options.threads, options.channel)
    cpus = {int(cpu) for cpu in options.cpus.split(",")}
    wanted = [(f"tenon:{name}", engine) for name, engine in (each.split("=", 1) for each in options.engine)]
    wanted += [(name, options.file) for name in options.peer or SIDES if name != "tenon"]
    sides = [side for side in (Side(name, file, options.threads, cpus) for name, file in wanted) if side.start is not None]
    results = {side.name: {"warm start and first token, s": side.start, "decode": [], "prefill": []} for side in sides}
    for turn in range(options.rounds + 1):
        for side in sides:
            text, _, _, step = side.answer(QUESTION, options.decode)
            _, read, first, _ = side.answer(prompt_of(options.prefill, turn), 1)
            if turn > 0:  # the first turn warms
                results[side.name]["decode"].append(1 / step)
                results[side.name]["prefill"].append(read / first)
                results[side.name].update({"text": text, "read": read})
    first = results[sides[0].name]
    report = {}
    for name, result in results.items():
        kinds = {kind: {**summary(result[kind]), "all": [round(value, 1) for value in result[kind]],
                        "first side by this": summary([ours / theirs for ours, theirs in zip(first[kind], result[kind])])} for kind in ("decode", "prefill")}
        report[name] = {**result, **kinds}
        print(name, json.dumps(report[name]), sep="\n")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
