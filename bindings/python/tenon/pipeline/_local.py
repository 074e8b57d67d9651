"""What a run needs of this machine: the program `tenon`, what measurements depend on, and threads that wait for the programs of steps."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import platform
import shutil
from typing import Any, Callable, Dict, List, Optional, Protocol

from . import _task
from ._faults import failed


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


def machine() -> Dict[str, Any]:
    """What measurements depend on."""
    facts: Dict[str, Any] = {"machine": platform.machine(), "cpus": len(os.sched_getaffinity(0))}
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        facts["cpu"] = next((line.partition(":")[2].strip() for line in file if line.startswith(("model name", "CPU part"))), "")
    gpus = "/proc/driver/nvidia/gpus"
    for name in sorted(os.listdir(gpus)) if os.path.isdir(gpus) else ():
        with contextlib.suppress(OSError), open(os.path.join(gpus, name, "information")) as file:
            facts.setdefault("gpus", []).append(file.readline().partition(":")[2].strip())
    return facts
