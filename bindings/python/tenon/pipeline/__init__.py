"""Pipelines from a trained model to a checked, compiled, measured and pushed engine, in a file or by functions.

    python -m tenon.pipeline run fashion.yaml

    from tenon import pipeline
    p = pipeline.Pipeline("fashion")
    model = p.add("ingest", model="fashion_cnn.onnx")
    engine = p.add("compile", model=model, target=["cpu:avx2"])
    report = p.run()

A step runs only if its inputs' contents, its options, its code or the tool changed since it ran; docs/guides/pipeline.md has the steps.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, Optional, Sequence

from . import _page, _plan, _run, _yaml
from ._catalog import File, Files, step
from ._faults import StepError
from ._plan import Plan
from ._task import Run

__all__ = ["File", "Files", "Pipeline", "Run", "StepError", "load", "page", "run", "step"]


def load(file: str, *, work: Optional[str] = None) -> Plan:
    """Reads and checks a pipeline file without running it. Raises BadInputError TN1101, whose text names the line.

    work: the work folder, by default what the file says or `.NAME.work` beside it.
    """
    path = os.fspath(file)
    return _plan.make(_yaml.read(path), path, os.path.dirname(os.path.abspath(path)), work)


def run(
    pipeline: Any,
    *,
    work: Optional[str] = None,
    jobs: int = 0,
    executor: Any = "local",
    tool: Optional[str] = None,
    again: Sequence[str] = (),
    progress: Optional[Callable[[Dict[str, Any]], Any]] = None,
) -> Dict[str, Any]:
    """Runs a pipeline and returns its report, the dict of `--json`. Raises CheckFailedError TN1102 with `report` if a step failed.

    pipeline: the path of a file, or the result of `load`.
    jobs: steps at once; 0 is one for each usable CPU. Steps that measure time run alone.
    executor: "local", "ray", or an object with jobs, ahead, submit(task, progress) that gives a future, and stop().
    tool: the program `tenon` to use; by default the package's.
    again: names of steps that run although they have a result.
    progress: called with {"step", "state", "ended", "steps"} from the threads of the run.
    """
    plan = pipeline if isinstance(pipeline, Plan) else load(pipeline, work=work)
    known = {each.base for each in plan.steps}
    for name in again:
        if name not in known:
            raise _plan.bad(plan.file, f"there is no step '{name}' to run again", _plan.nearest(name, known))
    report = _run.run(plan, jobs=jobs, executor=executor, tool=tool, again=again, told=progress or (lambda event: None))
    if error := _run.error_of(report):
        raise error
    return report


def page(report: Dict[str, Any]) -> str:
    """The report of a run as an HTML page with its graph, which loads nothing from the network."""
    return _page.render(report)


class Pipeline:
    """The same as a file, by calls. Paths are relative to `folder`, by default the current one."""

    def __init__(self, name: str, *, folder: str = ".", work: Optional[str] = None):
        self.name, self.folder, self.work = name, os.path.abspath(folder), work
        self._root = _yaml.Map(name, {"name": _yaml.of(name, name)}, {"name": name})
        self._steps = _yaml.Map(name)
        self._root.items["steps"], self._root.places["steps"] = self._steps, name

    def add(self, kind: str = "", *, name: str = "", **options: Any) -> str:
        """Adds a step and returns the text that stands for its first output in the options of others: "$engine".

        kind: a step's name, "module:function", or nothing with `run=[program, ...]`. name: of this step, by default its kind.
        options: those of the step, and after, each, save, timeout, depends, outputs, retries, resources, as in a file; `if` as {"if": ...} by **.
        """
        caller = sys._getframe(1)
        where = f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}"
        name = name or kind
        if name in self._steps.items:
            raise _plan.bad(where, f"there is a step '{name}' already", "give it another name")
        given = {**({"step": kind} if kind else {}), **{key: value for key, value in options.items() if value is not None}}
        self._steps.items[name], self._steps.places[name] = _yaml.of(given, where), where
        return f"${name}"

    def plan(self) -> Plan:
        """The steps, checked, as `load` gives them."""
        return _plan.make(self._root, f"{self.name}.yaml", self.folder, self.work)

    def run(self, **options: Any) -> Dict[str, Any]:
        """As the function `run`."""
        return run(self.plan(), **options)
