#!/usr/bin/env python3
"""Measures Tenon against torch on one GPU: same weights and inputs, outputs compared, rounds interleaved in one run.

Relies on `tenon bench --json`, and on gpu_peers.py with torch in the same Python. Prints a table, writes JSON.
"""

import argparse
import concurrent.futures
import datetime
import fnmatch
import json
import os
import pathlib
import selectors
import subprocess
import sys
import tempfile
import time

import numpy as np

import gpu_cases

HERE = pathlib.Path(__file__).resolve().parent


def say(text):
    print(f"measure_gpu: {text}", file=sys.stderr, flush=True)


class Peer:
    """A gpu_peers.py process; started again after it failed to answer in time."""

    def __init__(self, name, options):
        self.name, self.options, self.process = name, options, None

    def start(self):
        log = open(self.options.work / f"{self.name}.log", "a", encoding="utf-8")
        self.process = subprocess.Popen([sys.executable, str(HERE / "gpu_peers.py"), self.name, "--device", self.options.device],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def ask(self, **command):
        self.post(**command)
        return self.answer()

    def post(self, **command):
        if not self.process:
            self.start()
        try:
            self.process.stdin.write((json.dumps(command) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            self.stop()

    def answer(self):
        if not self.process:
            return {"failed": f"the process ended, see {self.name}.log"}
        selector = selectors.DefaultSelector()
        selector.register(self.process.stdout, selectors.EVENT_READ)
        if not selector.select(self.options.limit):
            self.stop()
            return {"failed": f"no answer in {self.options.limit} s"}
        line = self.process.stdout.readline()
        if not line:
            self.stop()
            return {"failed": f"the process ended, see {self.name}.log"}
        return json.loads(line)


class Tenon:
    """The engine of a case: compiled for its shape, run once for its outputs, benched once a round."""

    name = "tenon"

    def __init__(self, options):
        self.options, self.engine, self.inputs = options, options.work / "case.tenon", None

    def call(self, *arguments):
        """What a verb prints as JSON, or the reason why it failed."""
        try:
            done = subprocess.run([str(self.options.tenon), *map(str, arguments)], capture_output=True, text=True,
                                  timeout=self.options.limit, env=dict(os.environ, XDG_CACHE_HOME=str(self.options.work)))
        except subprocess.TimeoutExpired:
            return {"failed": f"{arguments[0]} took more than {self.options.limit} s"}
        if done.returncode != 0:
            return {"failed": f"{arguments[0]}: {(done.stderr or done.stdout).strip()[:600]}"}
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def prepare(self, case, graph, arrays, files, row, reference):
        states = [name for name in arrays if name.startswith("past_")]
        arrays = {name: array for name, array in arrays.items() if name not in states}
        self.inputs = pathlib.Path(files["inputs"])
        if states:
            self.inputs = self.options.work / "given.npz"
            np.savez(self.inputs, **arrays)
        shapes = [part for name, array in arrays.items() if array.ndim
                  for part in ("--shape", f"{name}:{'x'.join(map(str, array.shape))}")]
        flags = ["--precision", case.precision] if case.precision != "keep" else []
        for name in states:
            flags += ["--state", f"{name}={name.replace('past', 'present')}"]
        start = time.perf_counter()
        report = self.call("compile", graph, "-o", self.engine, "--target", self.options.target, *flags, *shapes,
                           "--no-cache", "--json", "--quiet", *self.options.compile_flag)
        answer = {"prepare_s": time.perf_counter() - start, "compile": report}
        out = self.options.work / "out.npz"
        ran = report if "failed" in report else self.call("run", self.engine, "--inputs", self.inputs, "-o", out, "--json", "--quiet")
        if "reference" not in row:
            row["reference"] = reference.answer()
        if "failed" in ran:
            return {**answer, **ran}
        if case.moved:
            return {**answer, **reference.ask(do="compare", outputs=str(out))}
        with np.load(out) as archive:
            answer["error"] = compared(archive[archive.files[0]], files["reference"])
        return answer

    def round(self, runs):
        report = self.call("bench", self.engine, "--inputs", self.inputs, "--runs", runs, "--json", "--quiet",
                           *self.options.bench_flag)
        if "failed" in report:
            return report
        gpu = report.get("gpu")
        if not gpu:
            return {"times": [report["latency_ms"]["median"]], "bench": report}
        return {"times": [gpu["time_ms"]["median"]], "bench": report}


def compared(got, reference):
    """Largest difference over the largest magnitude of the reference; bfloat16 comes as the upper bits of float32."""
    if not os.path.exists(reference):
        return float("nan")
    want = np.load(reference)
    if got.dtype.kind not in "fiub" or got.dtype == np.uint16:
        got = (got.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if got.shape != want.shape:
        return float("nan")
    return float(np.nan_to_num(np.abs(got.astype(np.float32) - want), nan=np.inf).max() / np.abs(want).max())


def written(case, number, options):
    """What everyone works on, written down: cases alternate between two places, so that the next is made meanwhile."""
    model = case.model()
    arrays = case.arrays(model)
    files = {"inputs": str(options.work / f"inputs{number % 2}.npz"), "reference": str(options.work / "reference.npy")}
    np.savez(files["inputs"], **arrays)
    graph = options.work / f"case{number % 2}.onnx"
    gpu_cases.onnx.save(model, str(graph))
    return graph, arrays, files


def measure(case, given, options, reference, peers, tenon):
    """One row: what each side took to prepare, its error and its times."""
    say(case.name)
    graph, arrays, files = given
    pathlib.Path(files["reference"]).unlink(missing_ok=True)
    row = {"case": case.name, "precision": case.precision, "moved": case.moved, "sides": {}}
    reference.post(do="prepare", case=case.name, **files)
    # The references of models are files that the peers read.
    if case.graph or not options.together:
        row["reference"] = reference.answer()
    sides = {}
    for peer in peers:
        peer.post(do="prepare", case=case.name, **files)
        if not options.together:
            row["sides"][peer.name] = peer.answer()
    if options.tenon:
        row["sides"]["tenon"] = answer = tenon.prepare(case, graph, arrays, files, row, reference)
        if "failed" not in answer:
            sides["tenon"] = tenon.round
    for peer in peers:
        if options.together:
            row["sides"][peer.name] = peer.answer()
        if "failed" not in row["sides"][peer.name]:
            sides[peer.name] = lambda runs, peer=peer: peer.ask(do="round", runs=runs)
    if "reference" not in row:
        row["reference"] = reference.answer()
    reference.ask(do="drop")
    interleave(sides, row, options)
    for peer in peers:
        if peer.process:
            peer.ask(do="drop")
    for name, side in row["sides"].items():
        say(f"  {name}: {side.get('failed') or '%.4f ms, error %.1e, prepared in %.1f s' % (side['median_ms'], side['error'], side['prepare_s'])}")
    return row


def interleave(sides, row, options):
    order, per_round = list(sides), -(-options.runs // options.rounds)
    for index in range(options.rounds):
        for name in order if index % 2 == 0 else reversed(order):
            answer = sides[name](per_round)
            side = row["sides"][name]
            side.update({key: value for key, value in answer.items() if key != "times"})
            side.setdefault("times", []).append(answer.get("times", []))
        order = [name for name in order if "failed" not in row["sides"][name]]
    for name in order:
        times = np.concatenate([np.array(times) for times in row["sides"][name]["times"]])
        row["sides"][name].update(median_ms=float(np.median(times)), min_ms=float(times.min()),
                                  rounds_ms=[float(np.median(times)) for times in row["sides"][name].pop("times")])


def resources(sides):
    """Launches and memory of Tenon, and the memory of eager torch, as the table has them."""
    gpu = sides.get("tenon", {}).get("bench", {}).get("gpu")
    ours = [f"{gpu['kernels']}+{gpu['calls']}{'' if gpu['graph'] else ' no graph'}", f"{gpu['memory_bytes'] / 2**20:.0f}"] if gpu else ["", ""]
    return [*ours, f"{sides['eager']['peak_mib']:.0f}" if "peak_mib" in sides.get("eager", {}) else ""]


def table(rows, names):
    """One line a case: medians in ms, the ratio of the best peer to Tenon, errors, and the rate of kernels."""
    heads = ["case", *names, "best peer / tenon", "tenon TB/s", "tenon error", "eager error", "compile s",
             "tenon launches", "tenon MiB", "eager MiB"]
    lines = [heads, ["---"] * len(heads)]
    for row in rows:
        sides = row["sides"]
        median = {name: side.get("median_ms") for name, side in sides.items()}
        others = [value for name, value in median.items() if value and name != "tenon"]
        ours = median.get("tenon")
        lines.append([row["case"], *(f"{median[name]:.4f}" if median.get(name) else "failed" for name in names),
                      f"{min(others) / ours:.2f}" if others and ours else "",
                      f"{row['moved'] / ours / 1e9:.2f}" if row["moved"] and ours else "",
                      *(f"{sides[name]['error']:.1e}" if "error" in sides.get(name, {}) else "" for name in ("tenon", "eager")),
                      f"{sides['tenon']['prepare_s']:.1f}" if "tenon" in sides else "", *resources(sides)])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return text + "\n" + "\n".join(means(rows, names))


def means(rows, names):
    """Of all cases that both sides ran: the geometric mean of a peer's median over Tenon's."""
    for name in names:
        pairs = [(row["sides"].get(name, {}).get("median_ms"), row["sides"].get("tenon", {}).get("median_ms")) for row in rows]
        ratios = [theirs / ours for theirs, ours in pairs if theirs and ours]
        if name != "tenon" and ratios:
            yield f"{name} / tenon, geometric mean of {len(ratios)}: {float(np.exp(np.mean(np.log(ratios)))):.3f}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=["*"], help="names or patterns as softmax_*; all by default")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--tenon", type=pathlib.Path, help="the tool; without it only the peers run")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--peers", default="eager,graph,compile", help="of eager, graph, compile, autotune, best; or none")
    parser.add_argument("--device", default="cuda", help="of the peers; cpu to try the script")
    parser.add_argument("--runs", type=int, default=210)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=240, help="seconds for one answer of a side")
    parser.add_argument("--total", type=float, default=1e9, help="seconds after which no further case is begun")
    parser.add_argument("--together", action="store_true",
                        help="prepare all sides at once: sooner done, but what they took to prepare says little")
    parser.add_argument("--compile-flag", action="append", default=[], help="passed to tenon compile")
    parser.add_argument("--bench-flag", action="append", default=[], help="passed to tenon bench")
    parser.add_argument("--work", type=pathlib.Path, help="folder for engines and logs; a temporary one by default")
    parser.add_argument("-o", "--output", type=pathlib.Path, default="measure_gpu.json")
    return parser.parse_args()


def main():
    options, start = parse(), time.monotonic()
    known = gpu_cases.all_cases()
    chosen = [case for name, case in known.items() if any(fnmatch.fnmatch(name, pattern) for pattern in options.cases)]
    if options.list or not chosen:
        print("\n".join(known))
        return 0 if options.list else 2
    holder = None if options.work else tempfile.TemporaryDirectory()
    options.work = (options.work or pathlib.Path(holder.name)).resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    names = [name for name in options.peers.split(",") if name not in ("", "none")]
    peers, tenon = [Peer(name, options) for name in names], Tenon(options)
    reference = Peer("reference", options)
    report = {"date": str(datetime.date.today()), "probe": reference.ask(do="probe"), "rows": []}
    if options.tenon:
        report["tenon"] = subprocess.run([str(options.tenon), "--version"], capture_output=True, text=True).stdout.strip()
    with concurrent.futures.ThreadPoolExecutor(1) as writer:
        given = writer.submit(written, chosen[0], 0, options)
        for number, case in enumerate(chosen):
            if time.monotonic() - start > options.total:
                say(f"{case.name}: not begun, the time is over")
                continue
            current = given.result()
            if number + 1 < len(chosen):
                given = writer.submit(written, chosen[number + 1], number + 1, options)
            report["rows"].append(measure(case, current, options, reference, peers, tenon))
            options.output.write_text(json.dumps(report, indent=1))
    say(f"{time.monotonic() - start:.0f} s")
    for peer in (reference, *peers):
        peer.stop()
    print(json.dumps(report["probe"]))
    print(table(report["rows"], ["tenon", *names] if options.tenon else names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
