"""Runs a plan: what has a result is not run again, what is ready runs side by side, a failure stops what needs it and nothing else.

Keys are found as steps end, because a step's inputs are contents: a step that gives the same bytes as before ends the work below it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import subprocess
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from . import _builtin, _code, _controls, _plan, _registry, _task
from ._catalog import CALLABLE
from ._faults import StepError, failed
from ._local import Executor, LocalExecutor, machine, tool_command
from ._plan import Plan, Planned
from ._store import FORMAT, Store, digest

Event = Dict[str, Any]


class _Runner:
    def __init__(self, plan: Plan, executor: Executor, tool: Optional[str], again: Set[str], told: Callable[[Event], None]):
        self.plan, self.executor, self.told, self.again = plan, executor, told, again
        self.store = Store(plan.work)
        self.tool = tool_command(tool)
        folder = os.path.dirname(os.path.realpath(self.tool[0]))
        parts = [self.tool[0], *(os.path.join(folder, "../lib", name) for name in ("libtenon_compiler.so", "libtenon_runtime.so"))]
        self.identity = digest([self.store.facts(os.path.realpath(each))[0] for each in parts if os.path.exists(each)])
        self.machine = machine()
        self.steps = {step.name: step for step in plan.steps}
        self.results: Dict[str, Dict[str, Any]] = {}
        self.rows: Dict[str, Dict[str, Any]] = {}
        self.states: Dict[str, str] = {}
        self.running: Dict[concurrent.futures.Future, Planned] = {}
        self.looking: Dict[concurrent.futures.Future, Tuple[Planned, Dict[str, Any]]] = {}  # whether what a step did outside still stands
        self.lookers = concurrent.futures.ThreadPoolExecutor(max(1, min(executor.jobs, 16)), "tenon-pipeline-look")
        self.pool = None if getattr(executor, "has_own_resources", False) else _controls.Pool()
        self.undone: Set[str] = set()  # steps that run again because it does not
        self._contents: Dict[str, Any] = {}
        self._code: Dict[Tuple[str, str], Any] = {}
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
                    output = self._output(source)
                    found[key].append([output["sha256"], output["main"]])
                else:
                    found[key].append([self.content(source.path)[0], os.path.basename(source.path)])
        found["depends"] = [self.content(path)[0] for path in step.depends]
        return found

    def key(self, step: Planned) -> str:
        kind = step.step
        code = self.code_of(kind.source, "") if kind.source else [self.store.known_hash(each) for each in (_task.__file__, _builtin.__file__, _registry.__file__)]
        if step.program:
            words = [word.replace("{{", "{").replace("}}", "}") for word in step.program]
            named = _code.named_files(words, self.plan.folder)
            code = [[os.path.basename(path), self.code_of(path, words[0]) if path.endswith(".py") else self.store.known_hash(os.path.realpath(path))] for path in named]
        options = {key: self._option_id(value) if key in kind.options and kind.options[key].kind == CALLABLE else value for key, value in step.options.items()}
        # A package has the names of steps; what is done in one registry is not done in another.
        more = {"package": self.origins(step), "validate": self.built_from(step)[0], **dict.fromkeys(_registry.LOOKS, self.registry(step))}.get(kind.name)
        return digest({"format": FORMAT, "step": [kind.name, kind.symbol, code], "program": step.program[1:], "inputs": self.input_ids(step), "options": options,
                       "outputs": step.outputs, "more": more, "tool": self.identity, "machine": self.machine if measured(step)[1] else None})  # fmt: skip

    def built_from(self, step: Planned) -> Tuple[str, str]:
        """(hash, path) of the model that the engine of a step was made from by another step; empty where that is not known."""
        engine = next(iter(step.inputs.get("engine", [])), None)
        maker = self.steps.get(engine.step) if engine else None
        if maker is None or maker.step.name not in ("compile", "tune"):
            return "", ""
        return self.input_ids(maker)["model"][0][0], self.path(maker.inputs["model"][0])

    def registry(self, step: Planned) -> str:
        """Which one a step means: that of its option, which is relative to the pipeline's folder, or that of the environment, to the current one."""
        given, base = step.options.get("registry") or "", self.plan.folder
        if not given:
            given, base = os.environ.get("TENON_REGISTRY") or "", os.getcwd()
        if not given:
            given = os.path.join(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "tenon/registry")
        return given if "://" in given else os.path.abspath(os.path.join(base, given))

    def _option_id(self, function: Dict[str, str]) -> List[Any]:
        """A function by its name and its code."""
        return [function["symbol"], self.code_of(function["source"], "")]

    def code_of(self, source: str, program: str) -> Any:
        """What a file of Python and the modules that it imports are: hashes and versions. program: the Python that runs it; empty: this one."""
        if (source, program) not in self._code:
            self._code[source, program] = _code.identity(source, program, self.plan.folder, self.store.known_hash)
        return self._code[source, program]

    def origins(self, step: Planned) -> Dict[str, List[str]]:
        return {key: [source.step for source in sources] for key, sources in step.inputs.items()}

    def _output(self, source: _plan.Source) -> Dict[str, Any]:
        return self.results[source.step]["outputs"][source.output]

    def path(self, source: _plan.Source) -> str:
        return self.store.output_path(self._output(source)) if source.step else os.path.abspath(source.path)

    def task(self, step: Planned, key: str, again: bool = False) -> Dict[str, Any]:
        paths = {name: [self.path(each) for each in sources] for name, sources in step.inputs.items()}
        arguments = {**step.options, **{name: values if name in step.several else values[0] for name, values in paths.items()}}
        marks = [mark for sources in step.inputs.values() for source in sources if source.path for mark in self.content(source.path)[1]]
        marks += [mark for path in step.depends for mark in self.content(path)[1]]
        task = {
            "key": key, "name": step.name, "step": step.step.name, "work": self.store.folder, "folder": os.path.abspath(self.plan.folder), "tool": self.tool,
            "outputs": step.outputs, "timeout": step.timeout, "marks": marks, "inputs": list(dict.fromkeys(each for name in sorted(paths) for each in paths[name])), "origins": self.origins(step),
            "arguments": arguments, "again": again or self._runs_anyway(step), "alone": measured(step)[0],
            "retries": step.retries, "retry_delay": step.retry_delay, "resources": step.resources,
            "objects": [[source.step, self._output(source)] for sources in step.inputs.values() for source in sources if source.step],
            "threads": max(1, len(os.sched_getaffinity(0)) // self.executor.jobs), "tool_version": self.version(),
        }  # fmt: skip
        if step.step.name in _registry.LOOKS:
            task["registry"] = self.registry(step)
        if step.step.name == "validate" and self.built_from(step)[0] not in ("", self.input_ids(step)["model"][0][0]):
            task["built_from"] = self.built_from(step)[1]
            task["inputs"].append(task["built_from"])
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
            while waiting or ready_alone or self.running or self.looking:
                self._start_ready(waiting, ready_alone)
                if not self.running and not self.looking and ready_alone:
                    self._submit(ready_alone.pop(0))
                if self.running or self.looking:
                    for future in concurrent.futures.wait([*self.running, *self.looking], return_when=concurrent.futures.FIRST_COMPLETED)[0]:
                        if future in self.looking:
                            self._seen(future, ready_alone)
                        else:
                            self._take(future)
        except BaseException:
            self.executor.stop()
            raise
        finally:
            self.lookers.shutdown(cancel_futures=True)
            self.store.save_hashes()
        return self._report(time.time() - start)

    def _start_ready(self, waiting: Dict[str, Planned], ready_alone: List[Planned]) -> None:
        """Steps in their order, as long as one ends at once and readies others; none starts beside one that measures."""
        moved = True
        while moved:
            moved = False
            if any(measured(each)[0] for each in self.running.values()):
                return
            for step in list(waiting.values()):
                if len(self.running) + len(self.looking) >= self.executor.ahead:
                    return  # of many steps those that cannot start are not looked at
                states = {self.states.get(name) for name in step.needs()}
                if states & {"failed", "skipped"}:
                    del waiting[step.name]
                    self._end(step, "skipped")
                elif states <= {"done", "cached"} and (not self.pool or self.pool.has(step.resources) or self.pool.lacks(step.resources)):
                    del waiting[step.name]
                    moved |= self._begin(step, ready_alone)

    def _begin(self, step: Planned, ready_alone: List[Planned]) -> bool:
        """Takes a step's result if there is one, else starts it; gives whether it has ended."""
        try:
            if unmet := next(filter(None, (each.unmet(self.results[each.step]["facts"]) for each in step.conditions)), ""):
                self.rows[step.name]["unmet"] = unmet
                self._end(step, "skipped")
                return True
            key = self.key(step)
        except OSError as error:
            self._fail(step, StepError(f"'{error.filename}' cannot be read: {error.strerror}"))
            return True
        except StepError as error:
            self._fail(step, error)
            return True
        self.rows[step.name]["key"] = key
        found = None if self._runs_anyway(step) else self.store.result(key)
        if found and step.step.name in _registry.LOOKS:
            look = (self.tool, self.task(step, key), found, self.store.last)
            self.looking[self.lookers.submit(_registry.look, *look)] = step, found
            return False
        if found:
            self.results[step.name] = found
            self._save(step, "cached")
            return True
        self._start(step, ready_alone)
        return step.name in self.states and self.states[step.name] == "failed"

    def _seen(self, future: concurrent.futures.Future, ready_alone: List[Planned]) -> None:
        """What a step did outside stands, so that its result is used; or it does not, and the step runs."""
        step, found = self.looking.pop(future)
        missing, now = future.result()
        if missing:
            self.undone.add(step.name)
            self.rows[step.name]["again"] = missing
            self._start(step, ready_alone)
            return
        self.results[step.name] = {**found, "facts": {**found["facts"], **now}}
        self._did(step)
        self._save(step, "cached")

    def _did(self, step: Planned) -> None:
        if step.step.name in _registry.LOOKS and (name := _registry.target(step.step.name, self.registry(step), self.results[step.name])):
            self.store.save_last(name, self.rows[step.name]["key"])

    def _start(self, step: Planned, ready_alone: List[Planned]) -> None:
        if self.pool and (lacks := self.pool.lacks(step.resources)):
            self._fail(step, StepError(lacks))
        elif measured(step)[0]:
            ready_alone.append(step)
        else:
            self._submit(step)

    def _submit(self, step: Planned) -> None:
        with self._telling:
            self.states[step.name] = "running"
        self.rows[step.name]["started"] = time.time()
        self._tell(step, "started")
        task = self.task(step, self.rows[step.name]["key"], step.name in self.undone)
        if self.pool and step.resources:
            task["environment"] = self.pool.take(step.name, step.resources)
        self.running[self.executor.submit(task, lambda phase, fraction: self._tell(step, "running", phase=phase, fraction=fraction))] = step

    def _take(self, future: concurrent.futures.Future) -> None:
        step = self.running.pop(future)
        if self.pool:
            self.pool.give_back(step.name)
        try:
            self.results[step.name] = future.result()
        except StepError as error:
            self._fail(step, error)
        else:
            self._did(step)
            self._save(step, "done")

    def _save(self, step: Planned, state: str) -> None:
        """Puts outputs where they are asked for, unless they are there."""
        outputs = self.results[step.name]["outputs"]
        try:
            for name, target in step.save.items():
                self.store.save(outputs[name], target)
        except (OSError, ValueError) as error:
            self._fail(step, StepError(f"'{target}' cannot be written: {getattr(error, 'strerror', None) or error}"))
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
