"""Runs a plan: what has a result is not run again, what is ready runs side by side, a failure stops what needs it and nothing else.

Keys are found as steps end, because a step's inputs are contents: a step that gives the same bytes as before ends the work below it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import platform
import shutil
import subprocess
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Set, Tuple

from . import _builtin, _plan, _registry, _task
from ._catalog import CALLABLE
from ._faults import StepError, failed
from ._plan import Plan, Planned
from ._store import FORMAT, Store, digest

Event = Dict[str, Any]


class Executor(Protocol):
    """Where tasks are performed. submit gives a future of the result; stop ends those that run. ahead: how many are submitted at once, of which jobs run."""

    jobs: int
    ahead: int

    def submit(self, task: Dict[str, Any], progress: Callable[[str, float], None]) -> "concurrent.futures.Future[Dict[str, Any]]": ...

    def stop(self) -> None: ...


class LocalExecutor:
    """Threads of this process, each of which waits for the programs of one step."""

    def __init__(self, jobs: int):
        self.jobs, self.ahead, self._stop = jobs, jobs, _task.Stop()
        self._pool = concurrent.futures.ThreadPoolExecutor(jobs, "tenon-pipeline")

    def submit(self, task, progress):
        return self._pool.submit(_task.perform, task, progress, self._stop)

    def stop(self) -> None:
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)


def tool_command(tool: Optional[str]) -> List[str]:
    """The program `tenon`: one that is named, the package's, or that of PATH."""
    own = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin", "tenon")
    found = tool or (own if os.path.exists(own) else shutil.which("tenon"))
    if not found:
        raise failed("there is no program 'tenon'", "install the wheel, or name it with --tenon")
    return [os.path.abspath(found)]


def _machine() -> Dict[str, Any]:
    """What measurements depend on."""
    facts: Dict[str, Any] = {"machine": platform.machine(), "cpus": len(os.sched_getaffinity(0))}
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        facts["cpu"] = next((line.partition(":")[2].strip() for line in file if line.startswith(("model name", "CPU part"))), "")
    gpus = "/proc/driver/nvidia/gpus"
    for name in sorted(os.listdir(gpus)) if os.path.isdir(gpus) else ():
        with contextlib.suppress(OSError), open(os.path.join(gpus, name, "information")) as file:
            facts.setdefault("gpus", []).append(file.readline().partition(":")[2].strip())
    return facts


class _Runner:
    def __init__(self, plan: Plan, executor: Executor, tool: Optional[str], again: Set[str], told: Callable[[Event], None]):
        self.plan, self.executor, self.told, self.again = plan, executor, told, again
        self.store = Store(plan.work)
        self.tool = tool_command(tool)
        folder = os.path.dirname(os.path.realpath(self.tool[0]))
        parts = [self.tool[0], *(os.path.join(folder, "../lib", name) for name in ("libtenon_compiler.so", "libtenon_runtime.so"))]
        self.identity = digest([self.store.facts(os.path.realpath(each))[0] for each in parts if os.path.exists(each)])
        self.machine = _machine()
        self.results: Dict[str, Dict[str, Any]] = {}
        self.rows: Dict[str, Dict[str, Any]] = {}
        self.states: Dict[str, str] = {}
        self.running: Dict[concurrent.futures.Future, Planned] = {}
        self._contents: Dict[str, Any] = {}
        self._version = ""
        self._telling = threading.Lock()

    def content(self, path: str) -> Any:
        if path not in self._contents:
            self._contents[path] = self.store.content(path)
        return self._contents[path]

    def version(self) -> str:
        if not self._version:
            said = subprocess.run([*self.tool, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
            self._version = said.stdout.strip()
        return self._version

    # One step.

    def input_ids(self, step: Planned) -> Dict[str, List[Any]]:
        """[hash, name] of what a step reads."""
        found: Dict[str, List[Any]] = {}
        for key, sources in step.inputs.items():
            found[key] = []
            for source in sources:
                if source.step:
                    output = self.results[source.step]["outputs"][source.output]
                    found[key].append([output["sha256"], output["main"]])
                else:
                    found[key].append([self.content(source.path)[0], os.path.basename(source.path)])
        found["depends"] = [self.content(path)[0] for path in step.depends]
        return found

    def key(self, step: Planned) -> str:
        kind = step.step
        sources = [kind.source] if kind.source else [_task.__file__, _builtin.__file__, _registry.__file__]
        sources += [step.program[0].replace("{{", "{").replace("}}", "}")] if step.program else []
        code = [self.store.facts(os.path.realpath(path))[0] for path in sources]
        options = {key: self._option_id(value) if key in kind.options and kind.options[key].kind == CALLABLE else value for key, value in step.options.items()}
        # A package has the names of steps; a registry's path is relative to the pipeline's folder.
        more = {"package": self.origins(step), **dict.fromkeys(("push", "gate", "promote"), os.path.abspath(self.plan.folder))}.get(kind.name)
        return digest({"format": FORMAT, "step": [kind.name, kind.symbol, code], "program": step.program[1:], "inputs": self.input_ids(step), "options": options,
                       "outputs": step.outputs, "more": more, "tool": self.identity, "machine": self.machine if measured(step)[1] else None})  # fmt: skip

    def _option_id(self, function: Dict[str, str]) -> List[str]:
        """A function by its name and the content of its file."""
        return [function["symbol"], self.store.facts(function["source"])[0]]

    def origins(self, step: Planned) -> Dict[str, List[str]]:
        return {key: [source.step for source in sources] for key, sources in step.inputs.items()}

    def path(self, source: _plan.Source) -> str:
        return self.store.output_path(self.results[source.step]["outputs"][source.output]) if source.step else os.path.abspath(source.path)

    def task(self, step: Planned, key: str) -> Dict[str, Any]:
        paths = {name: [self.path(each) for each in sources] for name, sources in step.inputs.items()}
        arguments = {**step.options, **{name: values if name in step.several else values[0] for name, values in paths.items()}}
        marks = [mark for sources in step.inputs.values() for source in sources if source.path for mark in self.content(source.path)[1]]
        marks += [mark for path in step.depends for mark in self.content(path)[1]]
        task = {
            "key": key, "name": step.name, "step": step.step.name, "work": self.store.folder, "folder": os.path.abspath(self.plan.folder), "tool": self.tool,
            "outputs": step.outputs, "timeout": step.timeout, "marks": marks, "inputs": list(dict.fromkeys(each for name in sorted(paths) for each in paths[name])), "origins": self.origins(step),
            "arguments": arguments, "again": self._runs_anyway(step), "alone": measured(step)[0],
            "threads": max(1, len(os.sched_getaffinity(0)) // self.executor.jobs), "tool_version": self.version(),
        }  # fmt: skip
        if step.step.program:
            task["program"] = self._words(step, key, paths)
        elif step.step.source:
            task.update(source=step.step.source, symbol=step.step.symbol)
        else:
            task["builtin"] = step.step.symbol
        return task

    def _words(self, step: Planned, key: str, paths: Dict[str, List[str]]) -> List[str]:
        out = {name: os.path.join(self.store.path("running", key), "out", name, main) for name, main in step.outputs.items()}
        words: List[str] = []
        for word in step.program:
            whole = _plan.PLACEHOLDER.fullmatch(word)
            if whole and whole[1] in step.several:
                words += paths[whole[1]]
                continue
            words.append(_plan.PLACEHOLDER.sub(lambda match: {"{{": "{", "}}": "}"}.get(match[0]) or out.get(match[1]) or paths[match[1]][0], word))
        return words

    def _runs_anyway(self, step: Planned) -> bool:
        return step.base in self.again or step.step.volatile

    # All of them.

    def run(self) -> Dict[str, Any]:
        start = time.time()
        self.store.sweep()
        waiting = {step.name: step for step in self.plan.steps}
        ready_alone: List[Planned] = []
        self.rows = {step.name: self._row(step) for step in self.plan.steps}
        try:
            while waiting or ready_alone or self.running:
                self._start_ready(waiting, ready_alone)
                if not self.running and ready_alone:
                    self._submit(ready_alone.pop(0))
                if self.running:
                    self._take(*concurrent.futures.wait(self.running, return_when=concurrent.futures.FIRST_COMPLETED)[0])
        except BaseException:
            self.executor.stop()
            raise
        finally:
            self.store.save_hashes()
        return self._report(time.time() - start)

    def _start_ready(self, waiting: Dict[str, Planned], ready_alone: List[Planned]) -> None:
        """Steps in their order, as long as one ends at once and readies others; none starts beside one that measures."""
        moved = True
        while moved:
            moved = False
            for step in list(waiting.values()):
                states = {self.states.get(name) for name in step.needs()}
                if states & {"failed", "skipped"}:
                    del waiting[step.name]
                    self._end(step, "skipped")
                elif states <= {"done", "cached"} and len(self.running) < self.executor.ahead and not any(measured(each)[0] for each in self.running.values()):
                    del waiting[step.name]
                    moved |= self._begin(step, ready_alone)

    def _begin(self, step: Planned, ready_alone: List[Planned]) -> bool:
        """Takes a step's result if there is one, else starts it; gives whether it has ended."""
        try:
            key = self.key(step)
        except OSError as error:
            self._fail(step, StepError(f"'{error.filename}' cannot be read: {error.strerror}"))
            return True
        self.rows[step.name]["key"] = key
        found = None if self._runs_anyway(step) else self.store.result(key)
        if found:
            self.results[step.name] = found
            self._save(step, "cached")
            return True
        if measured(step)[0]:
            ready_alone.append(step)
        else:
            self._submit(step)
        return False

    def _submit(self, step: Planned) -> None:
        with self._telling:
            self.states[step.name] = "running"
        self.rows[step.name]["started"] = time.time()
        self._tell(step, "started")
        task = self.task(step, self.rows[step.name]["key"])
        self.running[self.executor.submit(task, lambda phase, fraction: self._tell(step, "running", phase=phase, fraction=fraction))] = step

    def _take(self, *done: concurrent.futures.Future) -> None:
        for future in done:
            step = self.running.pop(future)
            try:
                self.results[step.name] = future.result()
            except StepError as error:
                self._fail(step, error)
            else:
                self._save(step, "done")

    def _save(self, step: Planned, state: str) -> None:
        """Puts outputs where they are asked for, unless they are there."""
        outputs = self.results[step.name]["outputs"]
        try:
            for name, target in step.save.items():
                _copy(self.store, outputs[name], target)
        except OSError as error:
            self._fail(step, StepError(f"'{target}' cannot be written: {error.strerror}"))
            return
        self._end(step, state)

    def _fail(self, step: Planned, error: StepError) -> None:
        self.rows[step.name].update(error=error.text, tail=error.tail)
        self._end(step, "failed")

    def _end(self, step: Planned, state: str) -> None:
        with self._telling:
            self.states[step.name] = state
        row, result = self.rows[step.name], self.results.get(step.name)
        row["state"] = state
        if result and state in ("done", "cached"):
            row.update(seconds=result["seconds"], facts=result["facts"], inputs=self.input_ids(step),
                       outputs={name: {"path": self.store.output_path(each), "bytes": each["bytes"], "sha256": each["sha256"]} for name, each in result["outputs"].items()})  # fmt: skip
        elif "started" in row:
            row["seconds"] = time.time() - row["started"]
        self._tell(step, state)

    def _tell(self, step: Planned, state: str, **more: Any) -> None:
        with self._telling:  # steps that run tell of their progress from their own threads
            ended = sum(each in ("done", "cached", "failed", "skipped") for each in self.states.values())
            self.told({"step": step.name, "kind": step.step.name, "state": state, "ended": ended, "steps": len(self.plan.steps), **more})

    def _row(self, step: Planned) -> Dict[str, Any]:
        return {"name": step.name, "base": step.base, "step": step.step.name, "where": step.where, "state": "waiting", "needs": step.needs(), "options": step.options,
                "saved": step.save}  # fmt: skip

    def _report(self, seconds: float) -> Dict[str, Any]:
        rows = list(self.rows.values())
        count = {state: sum(row["state"] == state for row in rows) for state in ("done", "cached", "failed", "skipped")}
        return {"schema": "tenon.pipeline/1", "name": self.plan.name, "file": self.plan.file, "work": self.store.folder, "tenon": self.tool[0],
                "state": "failed" if count["failed"] else "done", "executed": count["done"] + count["failed"], "cached": count["cached"], "failed": count["failed"],
                "skipped": count["skipped"], "seconds": seconds, "jobs": self.executor.jobs, "machine": self.machine, "steps": rows}  # fmt: skip


def measured(step: Planned) -> Tuple[bool, bool]:
    """(whether nothing may run beside it, whether its result is this machine's)."""
    given = {**step.options, **step.inputs}
    alone, machine = (each(given) if callable(each) else each for each in (step.step.alone, step.step.machine))
    return bool(alone), bool(machine)


def _copy(store: Store, output: Dict[str, Any], target: str) -> None:
    """A copy of an output that appears complete, unless the target has these bytes."""
    source = store.output_path(output)
    if os.path.isdir(source) or len(output["files"]) > 1:
        _copy_several(store, output, target, source)
        return
    if os.path.isfile(target) and os.path.getsize(target) == output["bytes"] and store.facts(target)[0] == output["sha256"]:
        return
    store.place(source, target)


def _copy_several(store: Store, output: Dict[str, Any], target: str, source: str) -> None:
    """A folder, or a model with files of weights beside it, which keep their names: the model comes last."""
    base = store.path("objects", output["sha256"])
    beside = os.path.dirname(target) if not os.path.isdir(source) else target
    for name in sorted(output["files"], key=lambda each: each == output["main"]):
        inner = os.path.relpath(name, output["main"]) if os.path.isdir(source) else name
        one = {"sha256": store.facts(os.path.join(base, name))[0], "main": "", "files": {name: 0}, "bytes": output["files"][name]}
        to = target if name == output["main"] else os.path.join(beside, inner)
        if os.path.isfile(to) and store.facts(to)[0] == one["sha256"]:
            continue
        store.place(os.path.join(base, name), to)


def error_of(report: Dict[str, Any]) -> Optional[Exception]:
    """The exception for a run with a failed step, or None."""
    broken = [row for row in report["steps"] if row["state"] == "failed"]
    if not broken:
        return None
    first = broken[0]
    text = f"{first['where']}: the step '{first['name']}' failed: {first['error']}"
    text += "".join(f"\n  | {line}" for line in (first.get("tail") or "").splitlines()[-_task.TAIL_LINES :])
    rest = f"; {len(broken) - 1} more failed: {', '.join(row['name'] for row in broken[1:4])}" if broken[1:] else ""
    error = failed(text + rest, "correct the step and run the same command again: what is done stays done")
    error.report = report
    return error


def run(plan: Plan, *, jobs: int = 0, executor: Any = "local", tool: Optional[str] = None, again: Sequence[str] = (), told: Callable[[Event], None] = lambda event: None) -> Dict[str, Any]:
    jobs = jobs or len(os.sched_getaffinity(0))
    if executor == "ray":
        from ._ray import RayExecutor

        executor = RayExecutor(jobs, LocalExecutor(jobs))
    elif executor == "local":
        executor = LocalExecutor(jobs)
    runner = _Runner(plan, executor, tool, set(again), told)
    try:
        return runner.run()
    finally:
        executor.stop()
        last = os.path.join(plan.work, "last.json")
        with contextlib.suppress(OSError):
            with open(last + ".tmp", "w") as file:
                json.dump({row["name"]: row.get("seconds") for row in runner.rows.values()}, file)
            os.replace(last + ".tmp", last)
