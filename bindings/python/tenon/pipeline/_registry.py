"""The steps of the registry: versions, their gates, and the aliases that move to them. Each is a few commands of `tenon registry`."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List

from ._task import Run, arguments, write_json


def push(run: Run, file: str, name: str, parent: str = "", data: str = "", registry: str = "", gate: str = "", gate_data: str = "", promote: str = "", reason: str = "",
         seconds: str = "", **options: Any) -> Dict[str, Any]:  # fmt: skip
    """A version of the registry; then, where they are asked for, its gate and its promotion."""
    place = _registry_flag(run, registry)
    references = {key: _reference(value) for key, value in (("parent", parent), ("data", data)) if value}
    version = run.tenon("registry", "push", *place, *arguments({**references, **options}), "--", name, file)
    reference = f"{version['name']}:{version['version']}"
    facts = {"version": reference, "existing": bool(version.get("existing"))}
    if gate:
        more = arguments({key: value for key, value in (("data", gate_data), ("seconds", seconds)) if value})
        facts["gate"] = run.tenon("registry", "gate", *place, *more, "--", reference, gate)["verdict"]
    if promote:
        run.tenon("registry", "promote", *place, *([f"--reason={reason}"] if reason else []), "--", reference, promote)
        facts["alias"] = promote
    write_json(run.output("version"), {key: version[key] for key in sorted(version) if key != "existing"})
    return facts


def gate(run: Run, version: str, alias: str, data: str = "", rules: List[str] = [], seconds: str = "", registry: str = "") -> Dict[str, Any]:
    """Measures a version by the rules of an alias, which become those that are given, beside the version that is there. Fails unless all are passed."""
    place, reference = _registry_flag(run, registry), _reference(version)
    target = f"{re.split('[:@]', reference)[0]}@{alias}"
    if rules and run.tenon("registry", "gate", *place, "--", target)["rules"] != rules:
        run.tenon("registry", "gate", *place, *arguments({"rule": rules}), "--", target)
    more = arguments({key: value for key, value in (("data", data), ("seconds", seconds)) if value})
    answer = run.tenon("registry", "gate", *place, *more, "--", reference, alias)
    write_json(run.output("report"), answer)
    write_json(run.output("version"), {"name": answer["name"], "version": answer["version"]})
    return {"version": f"{answer['name']}:{answer['version']}", "alias": alias, "gate": answer["verdict"], "champion": answer["champion"]}


def promote(run: Run, version: str, alias: str, reason: str = "", expect: str = "", registry: str = "") -> Dict[str, Any]:
    """Moves an alias to a version: once. What a person does with the alias later is not undone by a run in which nothing changed."""
    more = arguments({key: value for key, value in (("reason", reason), ("expect", expect)) if value})
    answer = run.tenon("registry", "promote", *_registry_flag(run, registry), *more, "--", _reference(version), alias)
    write_json(run.output("report"), answer)
    return {"version": f"{answer['name']}:{answer['to']}", "alias": alias, "from": answer["from"]}


def _registry_flag(run: Run, registry: str) -> List[str]:
    """A folder is relative to the pipeline's."""
    return [f"--registry={registry if '://' in registry else os.path.join(run.task['folder'], registry)}"] if registry else []


def _reference(value: str) -> str:
    """NAME:VERSION as it was given, or of what another push wrote."""
    if not os.path.isfile(value):
        return value
    with open(value) as file:
        version = json.load(file)
    return f"{version['name']}:{version['version']}"
