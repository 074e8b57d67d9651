"""One step, performed: its programs and functions run in a folder of their own, and what they wrote is taken over when all is there.

Runs where an executor calls it, in a thread of this machine or in a worker of Ray; a task is plain data.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ._faults import StepError
from ._store import Store, signature

TAIL_LINES = 20
_NO_PROGRESS: Callable[[str, float], None] = lambda phase, fraction: None


class Run:
    """The argument `run` of a step's function.

    folder: of this run alone; where programs start. tool: the program `tenon` with arguments that go before all others.
    """

    def __init__(self, task: Mapping[str, Any], folder: str, handle: int, progress: Callable[[str, float], None], stop: "Stop"):
        self.task, self.folder, self._handle, self._progress, self._stop = task, folder, handle, progress, stop
        self.tool: List[str] = list(task["tool"])
        self.log = os.path.join(folder, "log.txt")

    def output(self, name: str) -> str:
        """Where to write the output: a file or a folder. Files beside it belong to it."""
        return os.path.join(self.folder, "out", name, self.task["outputs"][name])

    def tenon(self, *arguments: str, answers: Sequence[int] = ()) -> Dict[str, Any]:
        """Runs a verb and returns what it prints with --json. answers: exit codes besides 0 that come with a result."""
        links = self._links()
        words = [self._local(str(each), links) for each in arguments]
        verb = 2 if words[0] == "registry" else 1
        said = os.path.join(self.folder, "said.json")
        more = {"TENON_REGISTRY": self.task["registry"]} if self.task.get("registry") else {}
        code = self.program([*self.tool, *words[:verb], "--json", "--progress=json", *words[verb:]], output=said, allowed=range(1, 256), more=more)
        with open(said) as file:
            found = _documents(file.read())
        answer = next((each for each in found if each.get("schema") != "tenon.error/1"), {})
        if code and (code not in answers or not answer):
            text = "".join(map(_error_lines, found)) or self.tail()
            for path, link in links.items():
                text = text.replace(link, path)
            raise StepError(f"'tenon {' '.join(words[:verb])}' ended with {code}", text)
        return answer

    def _links(self) -> Dict[str, str]:
        """{path of an input: the same relative to `folder`}, so that what a verb writes of its paths is the same in every work folder."""
        found = {}
        for index, path in enumerate(self.task["inputs"]):
            link = os.path.join("in", str(index))
            if not os.path.lexists(os.path.join(self.folder, link)):
                os.makedirs(os.path.join(self.folder, "in"), exist_ok=True)
                os.symlink(os.path.dirname(path), os.path.join(self.folder, link))  # the folder, which has the weights too
            found[path] = os.path.join(link, os.path.basename(path))
        return found

    def _local(self, word: str, links: Mapping[str, str]) -> str:
        head, sign, path = word.partition("=") if word.startswith("--") else ("", "", word)
        return head + sign + (links.get(path) or (os.path.relpath(path, self.folder) if path.startswith(os.path.join(self.folder, "out")) else path))

    def program(
        self, command: Sequence[str], output: Optional[str] = None, allowed: Sequence[int] = (), folder: Optional[str] = None, more: Mapping[str, str] = {}
    ) -> int:
        """Runs a program to its end and returns its exit code if that is 0 or allowed. Its output goes to the log, standard output to `output` if given. more: environment variables."""
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(open(self.log, "ab"))
            out = stack.enter_context(open(output, "wb")) if output else log
            try:
                process = subprocess.Popen([*_tied(), *command], cwd=folder or self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                                           env={**os.environ, **self.task.get("environment", {}), **more}, pass_fds=[self._handle], start_new_session=True)  # fmt: skip
            except OSError as error:
                raise StepError(f"'{command[0]}' cannot be started: {error.strerror}") from error
            with self._stop.watching(process, self.task.get("timeout")):
                code = self._wait(process)
        if self._stop.is_set():
            raise StepError("it was stopped")
        if code < 0:
            name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
            late = self._stop.late(process)
            raise StepError(f"it took longer than {self.task['timeout']:g} s" if late else f"'{os.path.basename(command[0])}' was killed by {name}", self.tail())
        if code and code not in allowed:
            raise StepError(f"'{os.path.basename(command[0])}' ended with {code}", self.tail())
        return code

    def _wait(self, process: subprocess.Popen) -> int:
        """Waits, and tells meanwhile how far the log says that it is."""
        ended, handle = select.poll(), os.pidfd_open(process.pid)
        ended.register(handle, select.POLLIN)
        try:
            while not ended.poll(200):
                self._tell_progress()
        finally:
            os.close(handle)
        return process.wait()

    def _tell_progress(self) -> None:
        if found := re.findall(rb'\{"phase":"([^"]*)","fraction":([0-9.e+-]+)', _end_of(self.log)):
            self._progress(found[-1][0].decode(), float(found[-1][1]))

    def tail(self) -> str:
        """The last lines that programs printed, without their progress."""
        lines = _end_of(self.log).decode(errors="replace").splitlines()
        return "\n".join([line for line in lines if not line.startswith('{"phase":')][-TAIL_LINES:])


class Stop:
    """Ends the programs of steps: all of them, or one that takes too long."""

    def __init__(self) -> None:
        self._lock, self._processes, self._late, self._stopped = threading.Lock(), set(), set(), threading.Event()

    def is_set(self) -> bool:
        return self._stopped.is_set()

    def wait(self, seconds: float) -> bool:
        """Whether it was stopped within some seconds."""
        return self._stopped.wait(seconds)

    def late(self, process: subprocess.Popen) -> bool:
        return process.pid in self._late

    def set(self) -> None:
        with self._lock:
            self._stopped.set()
            for process in self._processes:
                _kill(process)

    @contextlib.contextmanager
    def watching(self, process: subprocess.Popen, timeout: Optional[float]):
        def too_late() -> None:
            self._late.add(process.pid)
            _kill(process)

        timer = threading.Timer(timeout, too_late) if timeout else None
        with self._lock:
            self._processes.add(process)
            if self._stopped.is_set():
                _kill(process)
        try:
            if timer:
                timer.start()
            yield
        finally:
            if timer:
                timer.cancel()
            with self._lock:
                self._processes.discard(process)


def _kill(process: subprocess.Popen) -> None:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _tied() -> List[str]:
    """The program that ends a command with the process that started it, even if that is killed."""
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", "KILL", "--"] if program else []


def _end_of(path: str) -> bytes:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 32768))
        return file.read()
    return b""


def _documents(text: str) -> List[Dict[str, Any]]:
    """The JSON documents that a verb printed: its report, its error, or one after the other."""
    found, place, decoder = [], 0, json.JSONDecoder()
    with contextlib.suppress(ValueError):
        while text[place:].strip():
            document, place = decoder.raw_decode(text, place + len(text[place:]) - len(text[place:].lstrip()))
            found.append(document)
    return [each for each in found if isinstance(each, dict)]


def _error_lines(document: Mapping[str, Any]) -> str:
    if document.get("schema") != "tenon.error/1":
        return ""
    lines = [f"error {document['code']}: {document['message']}"]
    return "\n".join(lines + ([f"  try: {document['hint']}"] if document.get("hint") else []))


def arguments(options: Mapping[str, Any], without: tuple = ()) -> List[str]:
    """The flags of a verb for options: those that are false are left out, lists repeat theirs."""
    found = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if name in without or value is False:
            continue
        found += [flag] if value is True else [f"{flag}={each}" for each in (value if isinstance(value, list) else [value])]
    return found


def write_json(path: str, answer: Any) -> None:
    with open(path, "w") as file:
        json.dump(answer, file, indent=2)
        file.write("\n")


def perform(task: Mapping[str, Any], progress: Callable[[str, float], None] = _NO_PROGRESS, stop: Optional[Stop] = None) -> Dict[str, Any]:
    """Runs a step unless another process just has; gives its result. Raises StepError."""
    store, key, stop = Store(task["work"]), task["key"], stop or Stop()
    for left in range(task["retries"], -1, -1):
        try:
            return _perform_once(task, progress, stop, store, key)
        except StepError as error:
            if left == 0 or stop.is_set():
                tried = f"{error.text}, the last of {task['retries'] + 1} times" if task["retries"] and not stop.is_set() else error.text
                raise StepError(tried, error.tail) from error
        progress(f"failed, {left} more to try", 0.0)
        if stop.wait(task["retry_delay"]):
            raise StepError("it was stopped")
    raise AssertionError("not reached")


def _perform_once(task: Mapping[str, Any], progress: Callable[[str, float], None], stop: "Stop", store: Store, key: str) -> Dict[str, Any]:
    with store.lock(key) as handle:
        if not task["again"] and (found := store.result(key)):
            return found
        for name, output in task["objects"]:
            if not store.holds(output):
                store.discard(output)
                raise StepError(f"the file that '{name}' gave was damaged in the work folder: it is removed, and the next run makes it again")
        folder = store.path("running", key)
        shutil.rmtree(folder, ignore_errors=True)
        for name in task["outputs"]:
            os.makedirs(os.path.join(folder, "out", name))
        os.makedirs(folder, exist_ok=True)
        run = Run(task, folder, handle, progress, stop)
        start = time.time()
        try:
            facts = _call(task, run)
            outputs = _take_outputs(task, run, store)
            for path, mark in task["marks"]:
                if signature(path) != mark:
                    raise StepError(f"'{path}' was changed while the step read it")
        except OSError as error:
            raise StepError(f"{error.strerror or error}: {error.filename or ''}", run.tail()) from error
        else:
            result = {"schema": "tenon.pipeline.result/1", "key": key, "step": task["step"], "outputs": outputs, "facts": facts,
                      "seconds": time.time() - start}  # fmt: skip
            store.save_result(key, result)
            return result
        finally:
            with contextlib.suppress(OSError):
                os.replace(run.log, store.path("results", f"{key}.log"))
            shutil.rmtree(folder, ignore_errors=True)


def _call(task: Mapping[str, Any], run: Run) -> Dict[str, Any]:
    if "program" in task:
        run.program(task["program"], folder=task["folder"])
        return {}
    if "builtin" in task:
        builtin = getattr(importlib.import_module("._builtin", __package__), task["builtin"])
        return builtin(run, **task["arguments"]) or {}
    return own_process(run, {"source": task["source"], "symbol": task["symbol"], "arguments": task["arguments"]})


def own_process(run: Run, call: Mapping[str, Any]) -> Dict[str, Any]:
    """Calls a function of a user's file in a process of its own."""
    said = os.path.join(run.folder, "facts.json")
    given = {**call, "task": dict(run.task), "run_folder": run.folder, "handle": run._handle, "said": said}
    with open(os.path.join(run.folder, "call.json"), "w") as file:
        json.dump(given, file)
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    run.program([sys.executable, "-m", "tenon.pipeline._child", os.path.join(run.folder, "call.json")], folder=run.task["folder"], more={"PYTHONPATH": path})
    with open(said) as file:
        return json.load(file)


def _take_outputs(task: Mapping[str, Any], run: Run, store: Store) -> Dict[str, Any]:
    outputs = {}
    for name, main in task["outputs"].items():
        if not os.path.exists(run.output(name)):
            raise StepError(f"it ended without writing its output '{name}'", run.tail())
        try:
            outputs[name] = store.adopt(os.path.join(run.folder, "out", name), main)
        except ValueError as error:
            raise StepError(f"its output '{name}': {error}", run.tail()) from error
    return outputs
