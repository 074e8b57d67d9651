#!/usr/bin/env python3
"""Runs the models of list.py under torch.compile(model, backend="tenon") and compares them with eager in float64.

Relies on scripts/requirements-torch.txt and on an installed tenon. NAME.backend.json says what the backend did: its error
with the sizes of the example and with others, how many graphs dynamo made, where it broke them and why. Each model runs in a
process of its own with a limit on memory and time.
"""

import argparse
import json
import os
import pathlib
import resource
import signal
import time
import traceback

import tenon
import torch

from compare import TOLERANCE, error_of
from export import evaluate, outputs, settled
from list import MODELS, OTHER

LIMIT_GIB = 18
LIMIT_S = 900


class Wrong(Exception):
    """Outputs that differ from eager's."""


def held(got, want, sizes):
    """The error of outputs, which is within the tolerance."""
    error = error_of(got, want)
    if error > TOLERANCE:
        raise Wrong(f"{sizes}: {error:.2e}")
    return error


@torch.no_grad()
def run(model):
    """The facts of one model."""
    made, _, eager_error, inputs, exact = settled(model)
    with_others = any(isinstance(d, str) for one in model.inputs.values() for d in one.dims)
    other = evaluate(model, made, OTHER["dynamic"], 1, eager_error is not None) if with_others else None
    state = {name: value.clone() for name, value in made.named_buffers()}
    compiled = torch.compile(made, backend="tenon")
    start = time.monotonic()
    got = outputs(model, compiled, inputs)
    facts = {"seconds": round(time.monotonic() - start, 1)}
    report = tenon.report()
    facts["graphs"] = len(report["graphs"])
    facts["breaks"] = [[one["reason"].splitlines()[0] if one["reason"] else "", short(one["source"])]
                       for one in report["breaks"]]
    facts["error"] = held(got, exact, "sizes of the example")
    if other:
        for name, value in made.named_buffers():
            value.copy_(state[name])
        facts["other_error"] = held(outputs(model, compiled, other[0]), other[1], "other sizes")
        facts["graphs_again"] = len(tenon.report()["graphs"]) - facts["graphs"]
    return facts


def short(source):
    """A source line without the folders of this machine."""
    return source.split("site-packages/")[-1]


def run_apart(model, folder):
    """In a process of its own, which ends beyond the limits; leaves the facts, or the error in their place."""
    path = folder / f"{model.name}.backend.json"
    path.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_GIB << 30, LIMIT_GIB << 30))
        signal.alarm(LIMIT_S)
        log = os.open(folder / "backend.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            facts = run(model)
        except Wrong as error:
            facts = {"failed": "numbers", "reason": "beyond the tolerance", "message": str(error)}
        except BaseException as error:  # whatever it is, it belongs into the results
            traceback.print_exc()
            facts = {"failed": type(error).__name__, "reason": str(error).strip().splitlines()[0][:160] if str(error) else "",
                     "message": short(str(error))[:1500]}
        path.write_text(json.dumps(facts))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if not path.exists():
        over = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        reason = f"not done after {LIMIT_S} s" if over else f"the process ended with status {status}"
        path.write_text(json.dumps({"failed": "run", "reason": reason, "message": ""}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", help="names of list.py")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for model in MODELS:
        if model.name in options.models:
            run_apart(model, options.output)


if __name__ == "__main__":
    main()
