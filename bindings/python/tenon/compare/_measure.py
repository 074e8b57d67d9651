"""Starts a process for each contender, has them run in turn, and compares what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from .. import _errors
from . import _source
from ._result import Comparison, relative_error
from ..contenders import TABLE, _torch

# Of one block of runs; shorter ones show the caches of whoever ran before. Idle threads of some contenders spin for a while.
BLOCK_SECONDS = 0.2
PAUSE_SECONDS = 0.2
LEAST_ROUNDS = 5
LEAST_RUNS = 3  # of a block


class Child:
    """A contender in its process, or why there is none."""

    def __init__(self, name: str, request: Dict[str, Any], environment: Dict[str, str]):
        self.name, self.failed, self.not_for_this = name, "", ""
        self.rounds: List[List[float]] = []
        self.peak_mib = 0.0
        self._log = open(os.path.join(request["folder"], f"{name}.log"), "w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tenon.compare._child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._log, text=True, env=environment,
        )  # fmt: skip
        self.made = self._ask({"do": "make", "name": name, **request})

    @property
    def runs(self) -> bool:
        return not self.failed and not self.not_for_this

    def block(self) -> None:
        reply = self._ask({"do": "run", "seconds": BLOCK_SECONDS, "least": LEAST_RUNS})
        if self.runs:
            self.rounds.append(reply["times"])
            self.peak_mib = reply["peak_mib"]

    def close(self) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def _ask(self, request: Dict[str, Any]) -> Dict[str, Any]:
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self._process.wait()
            self._log.seek(0)
            last = (self._log.read().strip().splitlines() or [""])[-1]
            self.failed = f"its process ended with {code}: {last}"
            return {}
        reply = json.loads(line)
        self.failed, self.not_for_this = reply.get("failed", ""), reply.get("not_for_this", "")
        return reply


def run(
    model: str,
    against: Optional[Sequence[str]] = None,
    *,
    threads: int = 0,
    device: str = "cpu",
    seconds: float = 10.0,
    shapes: Sequence[str] = (),
    log: Callable[[str], Any] = lambda text: None,
) -> Comparison:
    """Compares Tenon with others on one model.

    model: "model.py:make_model", whose function gives a torch.nn.Module and its inputs as a pair, or the module alone where the
        file has a function make_inputs too; or the path of a .onnx or .pt2 file.
    against: some of eager, inductor, max-autotune, onnxruntime, openvino, tensorrt; by default those that are installed.
        One that is missing is a row that says so.
    threads: of each contender; 0 means all usable CPUs. device: "cpu" or "cuda".
    seconds: how long to measure runs, all contenders together.
    shapes: of inputs of an ONNX file, "x:1x128"; dims that vary are 1 otherwise.
    log: called with a line about the current work.
    """
    kind = _source.kind_of(model)
    names = _chosen(against, device)
    threads = threads or len(os.sched_getaffinity(0))
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    missing = {name: TABLE[name].missing(device) for name in names}
    if kind != "onnx" and _torch.missing("cpu"):
        raise _errors.usage("TN0105", "a PyTorch model needs torch", "pip install torch")
    with tempfile.TemporaryDirectory(prefix="tenon-compare-") as folder:
        request = {"model": os.path.abspath(model), "shapes": list(shapes), "threads": threads, "device": device, "folder": folder}
        # Nobody finds what an earlier comparison compiled.
        environment.update({name: os.path.join(folder, name) for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")})
        children: List[Child] = []
        try:
            for name in [*(name for name in names if not missing[name]), "reference"]:
                log(f"{name}: readying")
                children.append(Child(name, request, environment))
                if children[-1].failed:
                    log(f"{name}: {children[-1].failed}")
            *contenders, reference = children
            _stop_on_bad_model(contenders)
            _run_in_turn([child for child in contenders if child.runs], seconds, log)
            rows = [_row(name, missing[name], contenders, reference) for name in names]
        finally:
            for child in children:
                child.close()
    basis = reference.made.get("versions", {}).get("reference") or f"none: {reference.failed}"
    return Comparison(model, device, threads, basis, rows)


def _chosen(against: Optional[Sequence[str]], device: str) -> List[str]:
    unknown = [name for name in against or () if name not in TABLE]
    if unknown:
        raise _errors.usage("TN0105", f"there is no contender '{unknown[0]}'", f"known are {', '.join(list(TABLE)[1:])}")
    chosen = [name for name in TABLE if not TABLE[name].missing(device)] if against is None else against
    return ["tenon", *(name for name in dict.fromkeys(chosen) if name != "tenon")]


def _stop_on_bad_model(contenders: Sequence[Child]) -> None:
    """What is wrong with the model's file or function is nobody's failure."""
    for child in contenders:
        if child.failed.startswith("UsageError: TN010"):
            text = child.failed.split(": ", 1)[1]
            raise _errors.UsageError(text, text[:6])


def _run_in_turn(children: Sequence[Child], seconds: float, log: Callable[[str], Any]) -> None:
    """Rounds in which each has one block, in an order that turns."""
    end, turn = time.monotonic() + seconds, 0
    while children and (turn < LEAST_ROUNDS or time.monotonic() < end):
        log(f"round {turn + 1}")
        for index in range(len(children)):
            child = children[(index + turn) % len(children)]
            if child.runs:
                time.sleep(PAUSE_SECONDS)
                child.block()
        turn += 1


def _row(name: str, missing: str, contenders: Sequence[Child], reference: Child) -> Dict[str, Any]:
    if missing:
        hint = f": pip install {TABLE[name].PACKAGE}" if missing.endswith("not installed") else ""
        return {"name": name, "state": "missing", "reason": missing + hint}
    child = next(child for child in contenders if child.name == name)
    if child.not_for_this:
        return {"name": name, "state": "not for this model", "reason": child.not_for_this}
    if child.failed:
        return {"name": name, "state": "failed", "reason": child.failed}
    first = contenders[0]
    if first.made.get("inputs") not in (None, child.made["inputs"]):
        return {"name": name, "state": "failed", "reason": "the model's function gives it other inputs: seed what it draws"}
    error, why = relative_error(reference.made.get("outputs"), child.made["outputs"])
    facts = {key: child.made[key] for key in ("compile_s", "first_s", "versions", "batch")}
    return {"name": name, "state": "ran", **facts, "rounds": child.rounds, "peak_mib": child.peak_mib, "error": error,
            "reason": why}  # fmt: skip
