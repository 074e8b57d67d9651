"""When a step runs: conditions on figures of earlier steps, how often it is tried, and what it takes of the machine."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import operator
import os
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Tuple

from . import _yaml
from ._draft import seconds, text_of, texts_of
from ._faults import StepError, bad
from ._yaml import Map, Node

CONDITION = re.compile(r"\$([A-Za-z_][\w-]*)(?:\[([^\]]*)\])?\.([A-Za-z_]\w*)\s*(>=|<=|==|!=|>|<)\s*(\S.*?)\s*")
_HOLDS: Dict[str, Callable[[Any, Any], bool]] = {">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt}
_BYTES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}
MOST_RETRIES = 100


@dataclasses.dataclass(frozen=True)
class Condition:
    """`$step.figure >= limit`. step: as it is called in the plan."""

    step: str
    figure: str
    sign: str
    limit: str

    def unmet(self, facts: Mapping[str, Any]) -> str:
        """Why it does not hold, or nothing. Raises StepError where the step has no such figure, or compares what has no order."""
        if self.figure not in facts:
            raise StepError(f"'if': the step '{self.step}' has no figure '{self.figure}'; it has {', '.join(sorted(facts)) or 'none'}")
        value, limit = facts[self.figure], self.limit
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, (int, float)):
            limit = _number(self.limit)
        if limit is None or (not isinstance(value, (int, float)) and self.sign not in ("==", "!=")):
            raise StepError(f"'if': {self.figure} of '{self.step}' is {facts[self.figure]!r}, which '{self.sign} {self.limit}' does not compare with")
        value = "none" if value is None else value
        return "" if _HOLDS[self.sign](value, limit) else f"{self.figure} of '{self.step}' is {value}, not {self.sign} {self.limit}"


def _number(text: str) -> Optional[float]:
    with contextlib.suppress(ValueError):
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    return None


def conditions(entry: Optional[Tuple[str, Node]], label: str, instances: Callable[[str, str], List[str]]) -> List[Condition]:
    """Of `if`: a comparison or a list of them, all of which have to hold. instances: the steps that a name stands for; of several it is the one with the label of this one."""
    found = []
    for each in texts_of(entry[1], "'if'") if entry else ():
        match = CONDITION.fullmatch(each.value)
        if not match:
            raise bad(each.where, f"'{each.value}' is not a condition", "write $STEP.FIGURE >= NUMBER")
        names = instances(f"${match[1]}" + (f"[{match[2]}]" if match[2] is not None else ""), each.where)
        names = [name for name in names if len(names) == 1 or name.endswith(f"[{label}]")]
        if len(names) != 1:
            raise bad(each.where, f"${match[1]} are several steps", f"name one, as ${match[1]}[...]")
        found.append(Condition(names[0], match[3], match[4], match[5]))
    return found


def retries(keys: Mapping[str, Tuple[str, Node]]) -> Tuple[int, float]:
    """(how often more, seconds before)."""
    delay = seconds(keys.get("retry_delay"), "retry-delay") or 1.0
    if "retries" not in keys:
        if "retry_delay" in keys:
            raise bad(keys["retry_delay"][0], "'retry-delay' without 'retries'", "write retries: 2")
        return 0, delay
    node = keys["retries"][1]
    text = text_of(node, "'retries'")
    if not re.fullmatch(r"\d{1,3}", text) or int(text) > MOST_RETRIES:
        raise bad(node.where, f"'retries' is a whole number up to {MOST_RETRIES}, not '{text}'", "write digits")
    return int(text), delay


def resources(entry: Optional[Tuple[str, Node]]) -> Dict[str, float]:
    """{"cpu", "gpu", "memory"}: numbers and bytes."""
    if entry is None:
        return {}
    if not isinstance(entry[1], Map):
        raise bad(entry[1].where, "'resources' is a mapping", "write resources: {gpu: 1, memory: 8GiB}")
    found: Dict[str, float] = {}
    for key, (where, node) in _yaml.entries(entry[1]).items():
        text = text_of(node, f"'{key}'")
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kKMGT]i?)?B?", text)
        if key not in ("cpu", "gpu", "memory"):
            raise bad(where, f"there is no resource '{key}'", "one of cpu, gpu, memory")
        if not match or (key != "memory" and not re.fullmatch(r"\d{1,4}", text)):
            raise bad(node.where, f"'{key}' is {'an amount' if key == 'memory' else 'a whole number'}, not '{text}'", "write resources: {gpu: 1, memory: 8GiB}")
        found[key] = int(float(match[1]) * _BYTES[(match[2] or "").lower()]) if key == "memory" else int(text)
    return {key: value for key, value in found.items() if value}


class Pool:
    """What this machine has, and what steps that run have taken of it. GPUs are given by number, which programs get as CUDA_VISIBLE_DEVICES."""

    def __init__(self) -> None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.gpus = [each for each in visible.split(",") if each] if visible is not None else [str(index) for index, _ in enumerate(glob.glob("/proc/driver/nvidia/gpus/*"))]
        self.whole = {"cpu": len(os.sched_getaffinity(0)), "gpu": len(self.gpus), "memory": _memory()}
        self.free: Dict[str, float] = dict(self.whole)
        self._taken: Dict[str, Tuple[Mapping[str, float], List[str]]] = {}

    def lacks(self, wanted: Mapping[str, float]) -> str:
        """What it never has, or nothing."""
        return next((f"it asks for {key} {value:g}, and this machine has {self.whole[key]:g}" for key, value in wanted.items() if value > self.whole[key]), "")

    def has(self, wanted: Mapping[str, float]) -> bool:
        return all(value <= self.free[key] for key, value in wanted.items())

    def take(self, name: str, wanted: Mapping[str, float]) -> Dict[str, str]:
        """The variables of the environment that a step gets with it."""
        used: Set[str] = {gpu for _, gpus in self._taken.values() for gpu in gpus}
        gpus = [each for each in self.gpus if each not in used][: int(wanted.get("gpu", 0))]
        self._taken[name] = wanted, gpus
        for key, value in wanted.items():
            self.free[key] -= value
        return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}

    def give_back(self, name: str) -> None:
        for key, value in self._taken.pop(name, ({}, []))[0].items():
            self.free[key] += value


def _memory() -> int:
    """Bytes of this machine, or of the container that this process is in."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            whole = min(whole, int(file.read()))
    return whole
