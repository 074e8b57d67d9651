"""The steps of the registry: versions, their gates, and the aliases that move to them. Each is a few commands of `tenon registry`.

What they do is done in the registry, not in the work folder. So a result of before is used only where the registry that is meant now says that it
stands: by the time of the version, and by the hash of the event, which depends on all events before it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ._faults import StepError
from ._store import digest
from ._task import Run, arguments, write_json

SIGNATURE = "signature "  # of a rule, whose file of public keys follows
EVENT_DIGITS = 16  # of an event's hash that facts show


def push(run: Run, file: str, name: str, parent: str = "", data: str = "", registry: str = "", gate: str = "", gate_data: str = "", promote: str = "", reason: str = "",
         seconds: str = "", **options: Any) -> Dict[str, Any]:  # fmt: skip
    """A version of the registry; then, where they are asked for, its gate and its promotion."""
    place = _registry_flag(run, registry)
    references = {key: _reference(run, value, place) for key, value in (("parent", parent), ("data", data)) if value}
    version = run.tenon("registry", "push", *place, *arguments({**references, **options}), "--", name, file)
    reference = f"{version['name']}:{version['version']}"
    facts = {"version": reference, "existing": bool(version.get("existing")), "created": run.tenon("registry", "show", *place, "--", reference).get("created", "")}
    if gate:
        more = arguments({key: value for key, value in (("data", gate_data), ("seconds", seconds)) if value})
        facts["gate"] = run.tenon("registry", "gate", *place, *more, "--", reference, gate)["verdict"]
        facts["gate_event"] = _event(run, place, reference, gate, "gate")
    if promote:
        run.tenon("registry", "promote", *place, *([f"--reason={reason}"] if reason else []), "--", reference, promote)
        facts.update(alias=promote, event=_event(run, place, reference, promote, "promote"))
    write_json(run.output("version"), {key: version[key] for key in sorted(version) if key != "existing"})
    return facts


def gate(run: Run, version: str, alias: str, data: str = "", rules: List[str] = [], seconds: str = "", repetitions: int = 0, machine: str = "",
         registry: str = "") -> Dict[str, Any]:  # fmt: skip
    """Measures a version by the rules of an alias, which become those that are given, with what they are measured on, beside the version that is there.
    Fails unless all are passed."""
    place = _registry_flag(run, registry)
    reference = _reference(run, version, place)
    target = f"{re.split('[:@]', reference)[0]}@{alias}"
    if (repetitions or machine) and not rules:
        raise StepError("repetitions and machine belong to rules, and the step gives none")
    pins = {key: value for key, value in (("data", data), ("seconds", seconds), ("repetitions", repetitions), ("machine", machine)) if value}
    if rules:
        run.tenon("registry", "gate", *place, *arguments({"rule": [_in_folder(run, each) for each in rules], **pins, "if_changed": True}), "--", target)
    more = arguments({key: pins[key] for key in ("data", "seconds") if key in pins})
    for _ in range(repetitions or 1):
        answer = run.tenon("registry", "gate", *place, *more, "--", reference, alias)
    reference = f"{answer['name']}:{answer['version']}"
    known = run.tenon("registry", "show", *place, "--", reference)
    write_json(run.output("report"), answer)
    write_json(run.output("version"), {"name": answer["name"], "version": answer["version"], "hash": known.get("hash", "")})
    return {"version": reference, "alias": alias, "gate": answer["verdict"], "champion": answer["champion"], "created": known.get("created", ""),
            "gate_event": _event(run, place, reference, alias, "gate")}  # fmt: skip


def _in_folder(run: Run, rule: str) -> str:
    """A rule whose file of a key is relative to the pipeline's folder."""
    return SIGNATURE + os.path.join(run.task["folder"], rule[len(SIGNATURE):]) if rule.startswith(SIGNATURE) else rule


def promote(run: Run, version: str, alias: str, reason: str = "", expect: str = "", registry: str = "") -> Dict[str, Any]:
    """Moves an alias to a version: once. What a person does with the alias later is not undone by a run in which nothing changed."""
    place = _registry_flag(run, registry)
    more = arguments({key: value for key, value in (("reason", reason), ("expect", expect)) if value})
    answer = run.tenon("registry", "promote", *place, *more, "--", _reference(run, version, place), alias)
    write_json(run.output("report"), answer)
    reference = f"{answer['name']}:{answer['to']}"
    known = run.tenon("registry", "show", *place, "--", reference)
    return {"version": reference, "alias": alias, "from": answer["from"], "created": known.get("created", ""), "event": _event(run, place, reference, alias, "promote")}


def _registry_flag(run: Run, registry: str) -> List[str]:
    """A folder is relative to the pipeline's."""
    return [f"--registry={registry if '://' in registry else os.path.join(run.task['folder'], registry)}"] if registry else []


def _reference(run: Run, value: str, place: List[str]) -> str:
    """NAME:VERSION as it was given, or of what another push wrote, if the registry has the same bytes at that number."""
    if not os.path.isfile(value):
        return value
    with open(value) as file:
        version = json.load(file)
    reference = f"{version['name']}:{version['version']}"
    known = run.tenon("registry", "show", *place, "--", reference)
    if known.get("hash") != version.get("hash") or known.get("deleted"):
        raise StepError(f"'{reference}' of the registry is not what was pushed: {'it was deleted' if known.get('deleted') else 'its bytes are others'}")
    return reference


def _event(run: Run, place: List[str], reference: str, alias: str, action: str) -> str:
    """The hash of the last event that did `action`, as much as is shown of it."""
    name, _, version = reference.partition(":")
    events = run.tenon("registry", "history", *place, "--", f"{name}@{alias}").get("events", [])
    found = [each["hash"] for each in events if each["action"] == action and each["version"] == int(version)]
    return found[-1][:EVENT_DIGITS] if found else ""


# Whether what a result says is so.

Ask = Callable[..., Dict[str, Any]]


def look(tool: List[str], task: Mapping[str, Any], result: Mapping[str, Any], last_of: Callable[[str], str]) -> Tuple[str, Dict[str, Any]]:
    """(why the step has to run again, or nothing; facts that are new) of a result, by what the registry says now. last_of: see `target`."""

    def ask(*words: str) -> Dict[str, Any]:
        """The answer of `tenon registry`; empty where it has none, of which the step itself gives the reason."""
        environment = {**os.environ, "TENON_REGISTRY": task["registry"]}
        done = subprocess.run([*tool, "registry", words[0], "--json", "--", *words[1:]], capture_output=True, stdin=subprocess.DEVNULL, env=environment)
        try:
            return json.loads(done.stdout) if done.returncode == 0 else {}
        except ValueError:
            return {}

    try:
        return LOOKS[task["step"]](ask, task, result["facts"], last_of(target(task["step"], task["registry"], result)))
    except (LookupError, TypeError, ValueError, OSError) as error:
        return f"what the registry says is not understood: {type(error).__name__}: {error}", {}


def target(step: str, registry: str, result: Mapping[str, Any]) -> str:
    """A name for the alias that a step is about: of steps about the same one, only the last that ran is done."""
    facts = result["facts"]
    alias = facts.get("alias") or ""
    return digest([step, registry, facts["version"].partition(":")[0], alias]) if alias else ""


def _looked_push(ask: Ask, task: Mapping[str, Any], facts: Mapping[str, Any], last: str) -> Tuple[str, Dict[str, Any]]:
    given = task["arguments"]
    if missing := _other_version(ask, facts, facts["version"]):
        return missing, {}
    if "gate_event" in facts and (missing := _no_gate(_events(ask, facts, given["gate"]), facts)):
        return missing, {}
    return _looked_promote(ask, task, facts, last) if facts.get("alias") else ("", {})


def _looked_gate(ask: Ask, task: Mapping[str, Any], facts: Mapping[str, Any], last: str) -> Tuple[str, Dict[str, Any]]:
    given = task["arguments"]
    if missing := _other_version(ask, facts, facts["version"] if os.path.isfile(given["version"]) else given["version"]):
        return missing, {}
    if last != task["key"]:
        return "another version was measured since", {}
    events = _events(ask, facts, facts["alias"])
    return _no_gate(events, facts), {}


def _looked_promote(ask: Ask, task: Mapping[str, Any], facts: Mapping[str, Any], last: str) -> Tuple[str, Dict[str, Any]]:
    given = task["arguments"].get("version", "")
    if missing := _other_version(ask, facts, facts["version"] if not given or os.path.isfile(given) else given):
        return missing, {}
    if last != task["key"]:
        return "the pipeline moved the alias elsewhere since", {}
    events = _events(ask, facts, facts["alias"])
    if not _has(events, facts["event"]):
        return f"the registry knows of no such promotion to '{facts['alias']}'", {}
    moved = [each for each in events if each["action"] in ("promote", "rollback")][-1]
    if moved["version"] == _number(facts):
        return "", {}
    return "", {"now": f"{facts['alias']} was moved to version {moved['version']} by {moved['by']} at {moved['time']} ({moved['action']}), which stays"}


LOOKS = {"push": _looked_push, "gate": _looked_gate, "promote": _looked_promote}


def _other_version(ask: Ask, facts: Mapping[str, Any], reference: str) -> str:
    known = ask("show", reference)
    if not known:
        return f"the registry does not have '{reference}'"
    if known["deleted"]:
        return f"'{reference}' was deleted"
    same = f"{known['name']}:{known['version']}" == facts["version"] and known["created"] == facts["created"]
    return "" if same else f"'{reference}' is another version now"


def _events(ask: Ask, facts: Mapping[str, Any], alias: str) -> List[Dict[str, Any]]:
    return ask("history", f"{facts['version'].partition(':')[0]}@{alias}").get("events", [])


def _has(events: List[Dict[str, Any]], event: str) -> bool:
    return bool(event) and any(each["hash"].startswith(event) for each in events)


def _number(facts: Mapping[str, Any]) -> int:
    return int(facts["version"].partition(":")[2])


def _no_gate(events: List[Dict[str, Any]], facts: Mapping[str, Any]) -> str:
    """Why a gate that was passed does not hold: it is not there, its rules are others, or another version took the champion's place before it was of use."""
    if not _has(events, facts["gate_event"]):
        return "the registry knows of no such gate"
    place = next(index for index, each in enumerate(events) if each["hash"].startswith(facts["gate_event"]))
    before, after = events[:place], events[place + 1 :]
    if _rules(events) != _rules(before):
        return "the rules of the alias are others"
    moves = [each for each in after if each["action"] in ("promote", "rollback")]
    if moves and not any(each["action"] == "promote" and each["version"] == _number(facts) for each in moves) and moves[-1]["version"] != (facts.get("champion") or 0):
        return f"version {moves[-1]['version']} is at the alias now"
    return ""


def _rules(events: List[Dict[str, Any]]) -> Optional[List[str]]:
    """Those of the last event about them."""
    return next((each["detail"].get("rules") for each in reversed(events) if each["action"] == "rules"), None)
