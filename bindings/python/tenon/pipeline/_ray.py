"""Steps as tasks of Ray: on the cluster that RAY_ADDRESS names, or one of this machine for the length of the run.

Every node has to see the work folder and the files of the pipeline at the same paths and to have the same package; a task is plain data and
does there what it would do here. Relies on Ray alone.
"""

from __future__ import annotations

import concurrent.futures
import importlib.util
import os
import sys
import threading
import warnings
from typing import Any, Callable, Dict, Optional

from .._errors import usage
from . import _task
from ._faults import StepError, failed


def _perform(task: Dict[str, Any]) -> Dict[str, Any]:
    """What a worker of Ray runs. A failure is a value, since Ray replaces exceptions by its own."""
    try:
        return _task.perform(task)
    except StepError as error:
        return {"failed": [error.text, error.tail]}


def _options(task: Dict[str, Any]) -> Dict[str, Any]:
    """What Ray has to find for a task, and how often a worker that dies is replaced."""
    wanted = task["resources"]
    found = {"num_cpus": wanted.get("cpu", 1), "max_retries": 1 + task["retries"]}
    return {**found, **({"num_gpus": wanted["gpu"]} if "gpu" in wanted else {}), **({"memory": wanted["memory"]} if "memory" in wanted else {})}


class RayExecutor:
    """On this machine alone, steps run in its own processes while Ray starts, which takes seconds; where nothing has to run, it does not start."""

    def __init__(self, jobs: int, here: Any):
        """here: an executor of this process, for the time in which Ray starts."""
        if importlib.util.find_spec("ray") is None:
            raise usage("TN0105", "--executor ray needs the package Ray", "pip install ray")
        self.has_own_resources = True
        self.jobs, self._here, self._pending, self._owned = jobs, here, set(), False
        self._remote: Any = None
        self._error: Optional[BaseException] = None
        self._starting = threading.Thread(target=self._start, name="tenon-pipeline-ray", daemon=True)
        self._answered, self._ending = threading.Event(), threading.Event()
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        self._path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._is_alone = not os.environ.get("RAY_ADDRESS") and not ("ray" in sys.modules and sys.modules["ray"].is_initialized())
        if self._is_alone:
            os.environ["PYTHONPATH"] = self._path  # the workers inherit it
        else:
            self._starting.start()
            self._wait()

    def _start(self) -> None:
        try:
            import ray

            self._owned = not ray.is_initialized()
            if self._owned:
                # Steps are the work of this machine, not what it does beside it: workers of Ray are at niceness 15 otherwise.
                here = {"num_cpus": self.jobs, "include_dashboard": False, "_system_config": {"worker_niceness": 0}}
                ray.init(log_to_driver=False, logging_level="ERROR", **(here if self._is_alone else {"runtime_env": {"env_vars": {"PYTHONPATH": self._path}}}))
            self.jobs = max(1, int(ray.cluster_resources().get("CPU", self.jobs)))
            self._ray, self._remote = ray, ray.remote(num_cpus=1, max_retries=1)(_perform)
        except Exception as error:
            self._error = error
        self._answered.set()
        self._ending.wait()  # what Ray starts is killed when the thread that started it ends

    def _wait(self) -> None:
        self._answered.wait()
        if self._error:
            raise failed(f"Ray does not start: {type(self._error).__name__}: {self._error}", "see what Ray says, or run without --executor ray") from self._error

    @property
    def ahead(self) -> int:
        """More than run at once, once Ray runs: a worker that ends one finds the next, without the way to here and back."""
        return 4 * self.jobs if self._remote else self.jobs

    def submit(self, task: Dict[str, Any], progress: Callable[[str, float], None]) -> "concurrent.futures.Future[Dict[str, Any]]":
        if not self._remote:
            if self._starting.ident is None:
                self._starting.start()
            # What measures has nothing beside it, not even Ray's start; what asks for resources, or has its own number of tries, is for Ray to place.
            if self._error is None and not task["alone"] and not task["resources"]:
                return self._here.submit(task, progress)
            self._wait()
        result: "concurrent.futures.Future[Dict[str, Any]]" = concurrent.futures.Future()
        lack = self._lacks(task["resources"])
        if lack and self._is_alone:
            result.set_exception(StepError(f"it asks for {lack}, which Ray on this machine does not have"))
            return result
        if lack:  # a node may come: clusters grow
            warnings.warn(f"a step waits for {lack}: no node of the cluster has it now", stacklevel=2)
        reference = self._remote.options(**_options(task)).remote(task)
        self._pending.add(reference)

        def take(done: "concurrent.futures.Future[Dict[str, Any]]") -> None:
            self._pending.discard(reference)
            error = done.exception()
            if error is not None:
                result.set_exception(StepError(f"its worker of Ray ended: {type(error).__name__}", str(error)))
            elif "failed" in done.result():
                result.set_exception(StepError(*done.result()["failed"]))
            else:
                result.set_result(done.result())

        reference.future().add_done_callback(take)
        return result

    def _lacks(self, wanted: Dict[str, float]) -> str:
        """What no node has, or nothing. Ray itself would wait for it without a word."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]] if wanted else []
        asked = {{"cpu": "CPU", "gpu": "GPU", "memory": "memory"}[key]: value for key, value in wanted.items()}
        has = any(all(node.get(key, 0) >= value for key, value in asked.items()) for node in nodes)
        return "" if has else ", ".join(f"{key} {value:g}" for key, value in wanted.items())

    def stop(self) -> None:
        self._here.stop()
        if self._starting.ident is not None:
            self._answered.wait()
        for reference in list(self._pending):
            self._ray.cancel(reference, force=True)
        if self._owned and self._remote:
            self._ray.shutdown()
        self._ending.set()
