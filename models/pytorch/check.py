#!/usr/bin/env python3
"""Holds Tenon to list.py: each model is exported, checked, compiled, run and compared with eager in float64; writes the page.

With --door backend the models run under torch.compile(model, backend="tenon") instead, which needs an installed tenon.

Relies on scripts/requirements-torch.txt (run it with .venv-torch/bin/python) and on a built tenon. One model at a time, each
step in a process of its own with a limit on memory and time. What was exported is kept in --folder and not made again;
results are merged into results.json, so that --only and --failed update a part of it. docs/reference/pytorch-models.md and its tables are written from them.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

import numpy as np

import list as models
from compare import TOLERANCE, error_of
from page import was_run, write

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT_GIB = 18
LIMIT_S = 900
RUNS = 5
SLOW_S = 5  # a run that takes longer is timed once
CHUNK = 8


def limited():
    """In the child: data beyond the limit fails there instead of killing neighbours; it gives way to them."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_GIB << 30, LIMIT_GIB << 30))
    os.nice(10)


def call(command, seconds=LIMIT_S):
    """Exit code, stdout and stderr; a code of None means that the time was over."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=seconds,
                              preexec_fn=limited, cwd=HERE)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return None, "", f"not done after {seconds} s"


class Failed(Exception):
    """At a step, with the reason that similar failures share and the whole message."""

    def __init__(self, step, reason, message=""):
        super().__init__(reason)
        self.result = {"failed": step, "reason": reason, "message": message[:1500]}


def tenon(options, step, verb, *rest):
    """The JSON that a verb prints; of a check that found gaps they are the first of two."""
    code, out, err = call([options.tenon, verb, *rest, "--json", "--quiet"])
    said, position = [], 0
    while out[position:].strip():
        try:
            one, length = json.JSONDecoder().raw_decode(out[position:].lstrip())
        except ValueError:
            break
        position += len(out[position:]) - len(out[position:].lstrip()) + length
        said.append(one)
    if code == 0 or said and said[0].get("gaps"):
        return said[0] if said else {}
    if said and "code" in said[-1]:
        raise Failed(step, f"{said[-1]['code']} {said[-1]['title']}", said[-1]["message"])
    reason = "out of time" if code is None else f"ended with {code}"
    raise Failed(step, reason, (err or out).strip()[-1500:])


def gap_text(gap):
    """What all gaps of this kind have in common."""
    return f"{gap['op']}: {gap['why']}"


def torch_reason(error):
    """The first line of torch's message; where Python asks for a value that only data says, the line that asks."""
    if error.startswith("GuardOnDataDependentSymNode"):
        asks = re.search(r"Caused by: \((.*?)\)", error)
        return "Python asks for a value that only data says" + (f": {asks[1]}" if asks else "")
    return error.splitlines()[0][:160]


def exported(options, model):
    """The facts of the exported program."""
    facts = json.loads((options.folder / f"{model.name}.json").read_text())
    if "error" in facts:
        raise Failed("export", torch_reason(facts["error"]), f"{facts.get('at', '')} {facts['error']}")
    return facts


def compare(options, engine, arrays, suffix):
    """Largest relative error of one run with the inputs of this suffix."""
    inputs, out = options.folder / f"inputs{suffix}.npz", options.folder / "out.npz"
    np.savez(inputs, **{name.split(".", 1)[1]: value for name, value in arrays.items() if name.startswith(f"in{suffix}.")})
    tenon(options, "run", "run", engine, "--inputs", inputs, "-o", out)
    with np.load(out) as got:
        got = [got[name] for name in got.files]
    want = [arrays[f"out{suffix}.{n}"] for n in range(sum(name.startswith(f"out{suffix}.") for name in arrays))]
    error = error_of(got, want)
    if error <= TOLERANCE:
        return error
    shapes = lambda values: " ".join("x".join(map(str, v.shape)) or "scalar" for v in values)  # noqa: E731
    if [v.shape for v in got] != [v.shape for v in want]:
        raise Failed("numbers", "other shapes", f"inputs {suffix or 1}: {shapes(got)} instead of {shapes(want)}")
    raise Failed("numbers", "beyond the tolerance", f"inputs {suffix or 1}: {error:.2e}")


def run(options, model):
    """One line of the results."""
    result = {"name": model.name, "family": model.family}
    engine = options.folder / f"{model.name}.tenon"
    try:
        facts = exported(options, model)
        result.update({key: facts[key] for key in ("dims", "parameters", "mutated", "eager_error")})
        result["operators"] = len(facts["operators"])
        program = options.folder / f"{model.name}.pt2"
        gaps = tenon(options, "check", "check", program).get("gaps", [])
        if gaps:
            result["gaps"] = len(gaps)
            kinds = sorted({gap_text(gap) for gap in gaps})
            raise Failed("check", "; ".join(kinds[:3]) + ("; …" if len(kinds) > 3 else ""),
                         "; ".join(f"{gap['node']} at {gap.get('source', '?')}" for gap in gaps))
        start = time.monotonic()
        tenon(options, "compile", "compile", program, "-o", engine, "--no-cache")
        result["compile_s"] = round(time.monotonic() - start, 2)
        with np.load(options.folder / f"{model.name}.npz") as arrays:
            arrays = dict(arrays)
        start = time.monotonic()
        result["error"] = compare(options, engine, arrays, "")
        runs = RUNS if time.monotonic() - start < SLOW_S else 1
        if any(name.startswith("in2.") for name in arrays):
            result["other_error"] = compare(options, engine, arrays, "2")
        latency = tenon(options, "bench", "bench", engine, "--inputs", options.folder / "inputs.npz", "--runs", runs)
        result["run_ms"] = round(latency["latency_ms"]["median"], 3)
    except Failed as failure:
        result.update(failure.result)
    finally:
        engine.unlink(missing_ok=True)
        if not options.keep:
            (options.folder / f"{model.name}.pt2").unlink(missing_ok=True)
            (options.folder / f"{model.name}.npz").unlink(missing_ok=True)
    return result


def under_backend(options, model, stderr):
    """What backend.py says of a model: torch.compile(model, backend="tenon"). `stderr` is that of the script."""
    path = options.folder / f"{model.name}.backend.json"
    if not path.exists():
        return {"failed": "run", "reason": "backend.py itself failed", "message": stderr[-1500:]}
    return json.loads(path.read_text())


def save(path, results, order):
    """One model a line, in the order of the list."""
    known = [results[name] for name in order if name in results]
    path.write_text("[\n" + ",\n".join(json.dumps(one) for one in known) + "\n]\n")
    return known


def wanted(options, model, results):
    known = results.get(model.name, {})
    known = known.get("backend", {"failed": ""}) if options.door == "backend" else known if was_run(known) else {"failed": ""}
    if options.only and not any(fnmatch.fnmatch(text, one) for one in options.only for text in (model.name, model.family)):
        return False
    return not options.failed or "failed" in known


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenon", type=pathlib.Path, default=ROOT / "build/dev/bin/tenon")
    parser.add_argument("--door", choices=("export", "backend"), default="export")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/pytorch-models")
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "results.json")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/reference/pytorch-models.md")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="models whose name or family matches one")
    parser.add_argument("--failed", action="store_true", help="those that failed, and those without a result")
    parser.add_argument("--keep", action="store_true", help="keep the exported programs (40 GB) for another run")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    order = [model.name for model in models.MODELS]
    results = {one["name"]: one for one in json.loads(options.results.read_text())} if options.results.exists() else {}
    chosen = [model for model in models.MODELS if wanted(options, model, results)]
    for begin in range(0, len(chosen), CHUNK):
        chunk = chosen[begin:begin + CHUNK]
        # Several in one go, because to import torch takes longer than to export most of them.
        script = HERE / ("export.py" if options.door == "export" else "backend.py")
        _, _, stderr = call([sys.executable, script, "-o", options.folder, *(model.name for model in chunk)], seconds=None)
        for model in chunk:
            before = results.get(model.name, {})
            if options.door == "backend":
                one = under_backend(options, model, stderr)
                results[model.name] = {"name": model.name, "family": model.family, **before, "backend": one}
            else:
                one = run(options, model)
                results[model.name] = {**one, "backend": before["backend"]} if "backend" in before else one
            said = f"{one['failed']}: {one['reason']}: {one['message'][:200]}" if "failed" in one else f"{one['error']:.1e}"
            print(f"{model.name}: {said}", flush=True)
            write(options.page, save(options.results, results, order), len(order))


if __name__ == "__main__":
    main()
