"""Steps as tasks of Ray: on the cluster that RAY_ADDRESS names, or one of this machine for the length of the run.

Every node has to see the work folder and the files of the pipeline at the same paths and to have the same package; a task is plain data and
does there what it would do here. Relies on Ray alone.
"""

from __future__ import annotations

import concurrent.futures
import os
from typing import Any, Callable, Dict

from .._errors import usage
from . import _task
from ._faults import StepError


def _perform(task: Dict[str, Any]) -> Dict[str, Any]:
    """What a worker of Ray runs. A failure is a value, since Ray replaces exceptions by its own."""
    try:
        return _task.perform(task)
    except StepError as error:
        return {"failed": [error.text, error.tail]}


class RayExecutor:
    def __init__(self, jobs: int):
        try:
            import ray
        except ImportError as error:
            raise usage("TN0105", "--executor ray needs the package Ray", "pip install ray") from error
        self._ray, self._owned, self._pending = ray, not ray.is_initialized(), set()
        if self._owned:
            package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
            path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
            if os.environ.get("RAY_ADDRESS"):
                more = {"runtime_env": {"env_vars": {"PYTHONPATH": path}}}
            else:
                # Steps are the work of this machine, not what it does beside it: workers of Ray are at niceness 15 otherwise. They inherit the path.
                more = {"num_cpus": jobs, "include_dashboard": False, "_system_config": {"worker_niceness": 0}}
                os.environ["PYTHONPATH"] = path
            ray.init(log_to_driver=False, logging_level="ERROR", **more)
        self.jobs = max(1, int(ray.cluster_resources().get("CPU", jobs)))
        self.ahead = 4 * self.jobs  # a worker that ends one finds the next, without the way to here and back
        self._remote = ray.remote(num_cpus=1, max_retries=1)(_perform)

    def submit(self, task: Dict[str, Any], progress: Callable[[str, float], None]) -> "concurrent.futures.Future[Dict[str, Any]]":
        reference = self._remote.remote(task)
        result: "concurrent.futures.Future[Dict[str, Any]]" = concurrent.futures.Future()
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

    def stop(self) -> None:
        for reference in list(self._pending):
            self._ray.cancel(reference, force=True)
        if self._owned:
            self._ray.shutdown()
