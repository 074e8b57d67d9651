#!/usr/bin/env python3
"""Measures what Tenon promises on the models and writes docs/measurements/<date>-<cpu>.md: one command, one machine.

Relies on paired_bench.py for times against ONNX Runtime and on reference64.py for errors. Run it on a quiet machine.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

import paired_bench
import reference64

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "models"))

import fill  # noqa: E402
import inputs  # noqa: E402

MODELS = ["fashion_cnn", "resnet50.dynamo", "mobilenet_v2.dynamo", "vit_b16.dynamo", "minilm_l6.dynamo",
          "bert_base.dynamo", "gpt2.dynamo"]
STARTS = 5
MIB = 2**20

# What must hold, as (text, model or None for all, value of a row, limit).
LIMITS = [
    ("time / ONNX Runtime", None, lambda row: row["pair"]["ratio_of_minima"]["value"], 1.5),
    ("error / largest magnitude", None, lambda row: row["error"], 1e-4),
    ("error / ONNX Runtime's", None, lambda row: row["error"] / row["peer_error"], 2.0),
    ("arena / largest live sum", None, lambda row: row["arena"] / max(row["arena_bound"], 1), 1.05),
    ("(first result - load) / steady", "bert_base", lambda row: (row["first_ms"] - row["load_ms"]) / row["steady_ms"], 1.3),
    ("seconds from the cache", None, lambda row: row["cached_s"], 1.0),
    ("seconds to compile", "bert_base", lambda row: row["compile_s"], 12.0),
    ("seconds to compile", "resnet50", lambda row: row["compile_s"], 10.0),
    ("seconds to compile", "mobilenet_v2", lambda row: row["compile_s"], 6.0),
    ("seconds to verify", "bert_base", lambda row: row["verify_s"], 180.0),
    ("load_ms", "bert_base", lambda row: row["load_ms"], 60.0),
]


def say(text):
    print(f"measure: {text}", file=sys.stderr, flush=True)


class Model:
    """One model in a working folder: filled with weights, its inputs, and its outputs in float64."""

    def __init__(self, name, options, folder):
        self.name, self.options, self.folder = name, options, folder
        self.graph = ROOT / ("models/fashion_cnn.onnx" if name == "fashion_cnn" else f"models/graphs/{name}.onnx")
        self.filled, self.inputs = folder / f"{name}.onnx", folder / f"{name}.inputs.npz"
        fill.fill(self.graph, self.filled)
        sizes = {"batch": options.batch, "sequence": options.sequence}
        self.arrays = inputs.make_inputs(onnx.load(str(self.graph), load_external_data=False), sizes)
        np.savez(self.inputs, **self.arrays)

    def tenon(self, *arguments):
        """What a verb prints as JSON, and the seconds that the whole command took."""
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))
        start = time.perf_counter()
        done = subprocess.run([str(self.options.tenon), *map(str, arguments)], check=True, stdout=subprocess.PIPE,
                              text=True, env=environment, preexec_fn=lambda: os.sched_setaffinity(0, self.options.cpus))
        return (json.loads(done.stdout) if done.stdout.strip() else {}), time.perf_counter() - start

    def compile(self, row):
        engine = self.folder / f"{self.name}.tenon"
        command = ["compile", self.graph, "-o", engine, "--json", "--quiet"]
        report, row["compile_s"] = self.tenon(*command)
        cached, row["cached_s"] = self.tenon(*command)
        if report["from_cache"] or not cached["from_cache"]:
            raise SystemExit(f"measure: {self.name}: the cache was not cold, or not used")
        row["engine_bytes"], row["weights_bytes"] = report["engine_bytes"], report["weights_bytes"]
        fixed = [part for name, array in self.arrays.items()
                 for part in ("--shape", f"{name}:{'x'.join(map(str, array.shape))}")]
        scrap = self.folder / "scrap.tenon"
        row["arena_bound"] = self.tenon("compile", self.graph, "-o", scrap, "--json", "--quiet", "--no-cache",
                                        *fixed)[0]["arena_lower_bound_bytes"]
        row["verify_s"] = self.tenon("compile", self.graph, "-o", scrap, "--json", "--quiet", "--no-cache",
                                     "--verify")[1]
        scrap.unlink()
        return engine

    def start(self, engine, row):
        """Load and first result from several starts; the engine file is in the page cache."""
        runs = [self.tenon("bench", engine, "--inputs", self.inputs, "--threads", self.options.threads, "--json",
                           "--quiet", "--seconds", 0.5)[0] for _ in range(STARTS)]
        best = min(runs, key=lambda run: run["first_result_ms"])
        row["load_ms"], row["first_ms"] = best["load_ms"], best["first_result_ms"]
        row["steady_ms"] = min(run["latency_ms"]["min"] for run in runs)
        row["arena"], row["peak_rss_mib"] = best["arena_bytes"], best["peak_rss_mib"]

    def errors(self, engine, row):
        reference = reference64.evaluate(onnx.load(str(self.filled)), self.arrays)
        ours, theirs = self.folder / "ours.npz", self.folder / "theirs.npz"
        self.tenon("run", engine, "--inputs", self.inputs, "-o", ours, "--quiet", "--threads", self.options.threads)
        subprocess.run([sys.executable, paired_bench.PEER, self.filled, "--inputs", self.inputs, "--seconds", "0",
                        "--least", "1", "-o", theirs], check=True, stdout=subprocess.DEVNULL)
        row["error"] = paired_bench.largest_difference(dict(np.load(ours)), reference)
        row["peer_error"] = paired_bench.largest_difference(dict(np.load(theirs)), reference)

    def pair(self, engine, row):
        options = argparse.Namespace(**vars(self.options), engine=engine, model=self.filled, inputs=self.inputs,
                                     fix_dims=False)
        row["pair"] = paired_bench.report(options, self.options.cpus)


def measure(name, options):
    say(name)
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        model, row = Model(name, options, pathlib.Path(folder)), {"model": name}
        engine = model.compile(row)
        model.start(engine, row)
        model.errors(engine, row)
        model.pair(engine, row)
    return row


def slower(rows):
    """Sentences on the models that take longer than ONNX Runtime, and on rounds that say little."""
    ratios = [(row["model"], row["pair"]["ratio_of_minima"]["value"]) for row in rows]
    disturbed = [row["model"] for row in rows if row["pair"]["disturbed"]]
    return ([f"{model} takes {value:.2f} times ONNX Runtime's time" for model, value in ratios if value > 1] +
            ([f"the rounds of {', '.join(disturbed)} were disturbed: they are no evidence"] if disturbed else []))


def misses(rows):
    """Sentences on the limits that a row does not keep."""
    return [f"{row['model']}: {text} is {value(row):.3g}, at most {limit:g} is asked"
            for row in rows for text, model, value, limit in LIMITS
            if (model is None or row["model"].startswith(model)) and not value(row) <= limit]


def table(heads, lines):
    return "\n".join(["| " + " | ".join(line) + " |" for line in (heads, ["---"] * len(heads), *lines)])


def times(row):
    pair = row["pair"]
    ratio, quiet = pair["ratio_of_minima"], f"{pair['quiet_rounds']} of {pair['rounds']}"
    latencies = [f"{pair[side][key]:.3f}" for side in ("tenon", "onnxruntime") for key in ("min_ms", "median_ms")]
    return [row["model"], *latencies, f"{ratio['value']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})",
            f"{pair['ratio_of_medians']['value']:.2f}", quiet + (", disturbed" if pair["disturbed"] else "")]


def exactness(row):
    return [row["model"], f"{row['error']:.2e}", f"{row['peer_error']:.2e}", f"{row['error'] / row['peer_error']:.2f}"]


def costs(row):
    return [row["model"], f"{row['compile_s']:.2f}", f"{row['cached_s']:.2f}", f"{row['verify_s']:.1f}",
            f"{row['load_ms']:.1f}", f"{row['first_ms']:.1f}", f"{row['steady_ms']:.2f}",
            f"{row['arena'] / MIB:.2f}", f"{row['arena_bound'] / MIB:.2f}",
            f"{row['engine_bytes'] / MIB:.1f}", f"{row['weights_bytes'] / MIB:.1f}", f"{row['peak_rss_mib']:.0f}"]


def page(rows, about):
    shape = f"batch {about['batch']}, sequence {about['sequence']}"
    pair = rows[0]["pair"]
    short = "\n".join(f"- {text}" for text in slower(rows) + misses(rows)) or "Nothing: no model is slower, and every limit is kept."
    return f"""# {about['cpu']}, {about['date']}

| | |
| --- | --- |
| machine | {about['cpu']}, {about['threads']} threads, Linux {os.uname().release} |
| Tenon | {about['tenon_version']} at commit {about['commit']}, level {pair['tenon']['isa']} |
| peers | {pair['onnxruntime']['version']}, the only one: it is the best of all in the tables |
| command | `{about['command']}` |
| how | {shape}, FP32, one engine for all shapes; alternating rounds of one run |

## What falls short

{short}

## Milliseconds

{table(['model', 'tenon min', 'median', 'ONNX Runtime min', 'median', 'ratio of minima (95 %)', 'of medians', 'quiet rounds'],
       [times(row) for row in rows])}

## Largest error against float64, relative to the largest magnitude

{table(['model', 'tenon', 'ONNX Runtime', 'ratio'], [exactness(row) for row in rows])}

## Compile, start, memory

Seconds to compile all levels with a cold cache, from the cache, and with `--verify`; milliseconds to load and to the first
result with the file cached, and of the fastest run; MiB of the arena at this shape, of the largest live sum, of the file.

{table(['model', 'compile', 'cached', 'verify', 'load', 'first', 'steady', 'arena', 'live', 'engine', 'weights', 'peak RSS'],
       [costs(row) for row in rows])}
"""


def about(options):
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    version = subprocess.run([str(options.tenon), "--version"], capture_output=True, text=True, check=True)
    return {"date": datetime.date.today().isoformat(), "cpu": paired_bench.cpu_name(), "threads": options.threads,
            "batch": options.batch, "sequence": options.sequence, "tenon_version": version.stdout.strip(),
            "commit": commit.stdout.strip() or "unknown", "command": " ".join(["scripts/measure.py", *sys.argv[1:]])}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, help="names in models/graphs, or fashion_cnn")
    parser.add_argument("--tenon", type=pathlib.Path, default=ROOT / "build/dev/bin/tenon")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="quiet ones wanted")
    parser.add_argument("--seconds", type=float, default=1.0, help="of ONNX Runtime in each round")
    parser.add_argument("--work", type=pathlib.Path, help="folder for filled models and engines; up to 3 GB at a time")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the page; docs/measurements/<date>-<cpu>.md by default")
    options = parser.parse_args()
    options.cpus = sorted(os.sched_getaffinity(0))[:options.threads]
    facts = about(options)
    cpu = re.sub(r"[^a-z0-9]+", "-", facts["cpu"].lower()).strip("-")
    output = options.output or ROOT / f"docs/measurements/{facts['date']}-{cpu}.md"
    output.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.models:
        rows.append(measure(name, options))
        output.write_text(page(rows, facts))  # after each, so that a failure keeps what was measured
    say(f"{output}: {len(misses(rows))} limits missed")


if __name__ == "__main__":
    main()
