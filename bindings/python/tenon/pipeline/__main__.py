"""The command line of pipelines: `python -m tenon.pipeline run FILE.yaml`. Exit codes are those of `tenon`: 1 a step failed, 2 usage, 5 a bad file."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any, Dict, Optional

from .. import _errors
from .._errors import printable
from . import _builtin, _plan, _run, load, page
from ._store import write_whole


class Progress:
    """Lines on stderr: one for each step that ends, on a terminal also one that changes; or events as lines of JSON."""

    def __init__(self, kind: str, plan: _plan.Plan):
        self.kind, self.start, self.last, self.running = kind, time.time(), 0.0, {}
        try:
            with open(os.path.join(plan.work, "last.json")) as file:
                self.expected: Dict[str, Optional[float]] = json.load(file)
        except (OSError, ValueError):
            self.expected = {}

    def __call__(self, event: Dict[str, Any]) -> None:
        if self.kind == "none":
            return
        if self.kind == "json":
            print(json.dumps({**event, "elapsed_s": round(time.time() - self.start, 3)}), file=sys.stderr, flush=True)
            return
        name, state = event["step"], event["state"]
        if state in ("started", "running"):
            begun = self.running.get(name, (time.time(),))[0]
            self.running[name] = (begun, f"{event['phase']} {event['fraction']:.0%}" if "phase" in event else "")
            self._show(event)
            return
        begun = self.running.pop(name, None)
        took = f" in {time.time() - begun[0]:.1f} s" if begun and state == "done" else ""
        self._clear()
        print(f"[{event['ended']}/{event['steps']}] {printable(name)}: {state}{took}", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)

    def _show(self, event: Dict[str, Any]) -> None:
        if not sys.stderr.isatty() or time.time() - self.last < 0.1:
            return
        self.last = time.time()
        left = max((self.expected.get(name) or 0) - (self.last - begun) for name, (begun, _) in self.running.items())
        parts = [f"{printable(name)} {text}".strip() for name, (_, text) in list(self.running.items())[:3]]
        end = f", about {left:.0f} s" if left > 1 else ""
        print(f"\r\x1b[K[{event['ended']}/{event['steps']}] {'; '.join(parts)}{end}"[:160], end="", file=sys.stderr, flush=True)


def jobs(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1024:
        raise ValueError
    return value


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tenon.pipeline", description="Runs pipelines of optimization steps: docs/guides/pipeline.md.", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run what has no result yet", epilog="example: python -m tenon.pipeline run fashion.yaml --report fashion.html", allow_abbrev=False)
    check = verbs.add_parser("check", help="check the file and list its steps; nothing runs", allow_abbrev=False)
    for each in (run, check):
        each.add_argument("file", metavar="FILE.yaml")
        each.add_argument("--work", metavar="DIR", help="the work folder; by default what the file says, or .NAME.work beside it")
        each.add_argument("--json", action="store_true", help="print the report as JSON")
    run.add_argument("--jobs", type=jobs, default=0, metavar="N", help="steps at once; by default one for each usable CPU")
    run.add_argument("--executor", choices=("local", "ray"), default="local", help="where steps run: processes of this machine, or a cluster of Ray that sees the work folder")
    run.add_argument("--again", action="append", default=[], metavar="STEP", help="run this step although it has a result (repeat for more)")
    run.add_argument("--report", metavar="FILE.html", help="also write a page with the graph")
    run.add_argument("--tenon", metavar="PROGRAM", help="the program tenon to use; by default the package's")
    run.add_argument("--progress", choices=("line", "json", "none"), default="line", help="progress on stderr")
    steps = verbs.add_parser("steps", help="list the steps that come with Tenon, with their options and outputs", allow_abbrev=False)
    steps.add_argument("name", nargs="?", metavar="STEP")
    return parser


def show_steps(name: Optional[str]) -> None:
    steps = _builtin.BUILTIN
    if name and name not in steps:
        raise _errors.usage("TN0102", f"there is no step '{name}'", _plan.nearest(name, steps))
    for title, kind in steps.items() if not name else [(name, steps[name])]:
        print(f"{title}: gives {', '.join(kind.outputs)}")
        for option, facts in kind.options.items():
            print(f"    {option}: {' or '.join(facts.choices) or facts.kind}{' (required)' if facts.required else ''}")


def run(given: argparse.Namespace) -> int:
    plan = load(given.file, work=given.work)
    unknown = set(given.again) - {each.base for each in plan.steps}
    if unknown:
        raise _errors.usage("TN0105", f"--again: there is no step '{min(unknown)}'", _plan.nearest(min(unknown), {each.base for each in plan.steps}))
    if given.report and not os.path.isdir(os.path.dirname(given.report) or "."):
        raise _errors.usage("TN0103", f"cannot create '{given.report}': No such file or directory", "check the path and its folder")
    report = _run.run(plan, jobs=given.jobs, executor=given.executor, tool=given.tenon, again=given.again, told=Progress(given.progress, plan))
    if given.report:
        write_whole(given.report, page(report).encode())
    error = _run.error_of(report)
    if given.json:
        print(json.dumps(report, indent=2))
    else:
        for row in report["steps"]:
            for path in row["saved"].values() if row["state"] in ("done", "cached") else ():
                print(f"{row['name']}: {path}")
            if row.get("unmet"):
                print(f"{printable(row['name'])}: it did not run, since {printable(row['unmet'])}")
            if row.get("again"):
                print(f"{printable(row['name'])}: it ran again, since {printable(row['again'])}")
            if now := row.get("facts", {}).get("now"):
                print(f"{printable(row['name'])}: {printable(now)}")
        print(f"{report['name']}: {report['executed']} steps ran, {report['cached']} had their results, {report['failed']} failed, {report['skipped']} were skipped; {report['seconds']:.1f} s")
    if error:
        _errors.tell(error, False)
    return 1 if error else 0


def check(given: argparse.Namespace) -> int:
    plan = load(given.file, work=given.work)
    rows = [{"name": each.name, "step": each.step.name, "where": each.where, "needs": each.needs()} for each in plan.steps]
    if given.json:
        print(json.dumps({"schema": "tenon.pipeline.plan/1", "name": plan.name, "steps": rows}, indent=2))
    else:
        for row in rows:
            print(f"{row['name']}: {row['step']}" + (f", after {', '.join(row['needs'])}" if row["needs"] else ""))
    return 0


def main() -> int:
    given = arguments().parse_args()
    try:
        if given.verb == "steps":
            show_steps(given.name)
            return 0
        return run(given) if given.verb == "run" else check(given)
    except BrokenPipeError:  # as `tenon` ends when nobody reads any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 6
    except OSError as error:  # of the work folder or the report; what steps meet is theirs
        text = f"cannot write '{error.filename}': {error.strerror}" if error.filename else str(error)
        _errors.tell(_errors.usage("TN0103", text, "check the path, its permissions and the disk"), getattr(given, "json", False))
        return 2
    except _errors.Error as error:
        _errors.tell(error, getattr(given, "json", False))
        return error.code
    except KeyboardInterrupt:
        print("interrupted: run the same command again, what is done stays done", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
