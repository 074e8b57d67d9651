"""A step as it stands in the file: its kind, the names of its options and what it refers to; and how a node becomes a value of an option's type."""

from __future__ import annotations

import difflib
import json
import re
from typing import Any, Dict, Iterable, List, Optional, Tuple

from . import _catalog, _yaml
from ._catalog import ANY, FILE, FILES, FLAG, INTEGER, NUMBER, TEXTS, Option, Step
from ._faults import bad
from ._yaml import WORDS, Map, Node, Seq, Text

NAME = re.compile(r"[A-Za-z_][\w-]*")
REFERENCE = re.compile(r"\$([A-Za-z_][\w-]*)(?:\[([^\]]*)\])?(?:\.([A-Za-z_]\w*))?")
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w+)\}")
# Besides the options of its kind, every step takes these.
COMMON = ("step", "run", "after", "each", "save", "timeout", "depends", "inputs", "outputs", "if", "retries", "retry_delay", "resources")
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def nearest(word: str, known: Iterable[str]) -> str:
    known = sorted(known)
    close = difflib.get_close_matches(word, known, 1)
    return f"did you mean '{close[0]}'?" if close else f"one of {', '.join(known)}"


def text_of(node: Node, what: str) -> str:
    if not isinstance(node, Text):
        raise bad(node.where, f"{what} is text, not {WORDS[type(node)]}", "check indentation and brackets")
    return node.value


def texts_of(node: Node, what: str) -> List[Text]:
    if isinstance(node, Map):
        raise bad(node.where, f"{what} is text or a list, not a mapping", "check indentation and brackets")
    nodes = node.items if isinstance(node, Seq) else [node]
    for each in nodes:
        text_of(each, f"an item of {what}")
    return nodes


class Draft:
    """A step as it stands in the file."""

    def __init__(self, name: str, where: str, node: Node, known: Dict[str, Step], folder: str):
        self.name, self.where = name, where
        if not NAME.fullmatch(name):
            raise bad(where, f"'{name}' is not a name of a step", "use letters, digits, _ and -, a letter first")
        if not isinstance(node, Map):
            raise bad(node.where, f"the step '{name}' is a mapping of options, not {WORDS[type(node)]}", "write its options below it, or {} for none")
        self.keys = {key.replace("-", "_"): entry for key, entry in _yaml.entries(node).items()}
        outputs = self._outputs()
        if "run" in self.keys and "step" in self.keys:
            raise bad(self.keys["run"][0], "a step has 'step' or 'run', not both", "remove one of both")
        kind = text_of(self.keys["step"][1], "'step'") if "step" in self.keys else name
        place = self.keys["step"][0] if "step" in self.keys else where
        if "run" in self.keys:
            self.step = Step("run", {}, outputs, program=True)
        elif ":" in kind:
            self.step = _catalog.of_callable(kind, outputs, folder, place)
        elif kind in known:
            self.step = known[kind]
            if outputs:
                raise bad(self.keys["outputs"][0], f"the outputs of the step '{kind}' are its own: {', '.join(self.step.outputs) or 'none'}", "remove 'outputs'")
        else:
            raise bad(place, f"there is no step '{kind}'", nearest(kind, known) + "; or a function as module:function, or 'run' for a program")
        self._check_options(kind)

    def _outputs(self) -> Dict[str, str]:
        if "outputs" not in self.keys:
            return {}
        where, node = self.keys["outputs"]
        if not isinstance(node, Map):
            raise bad(node.where, "'outputs' is a mapping of names to file names", "write outputs: {model: model.onnx}")
        found = {key: text_of(value, "the file name of an output") for key, (_, value) in _yaml.entries(node).items()}
        for key, value in found.items():
            if not re.fullmatch(r"[A-Za-z_]\w*", key):
                raise bad(where, f"'{key}' is not a name of an output", "use letters, digits and _")
            if value in ("", ".", "..") or "/" in value or "\0" in value:
                raise bad(where, f"'{value}' is not the name of a file", "name it without folders; 'save' puts it anywhere")
        return found

    def _check_options(self, kind: str) -> None:
        each = self.keys.get("each")
        repeated = {key.replace("-", "_") for key in _yaml.entries(each[1])} if each and isinstance(each[1], Map) else set()
        for key, (where, _) in self.keys.items():
            if key not in COMMON and key not in self.step.options:
                usable = [*self.step.options, *COMMON]
                raise bad(where, f"the step '{kind}' has no option '{key}'", nearest(key, usable))
        if not self.step.program and "inputs" in self.keys:
            raise bad(self.keys["inputs"][0], "'inputs' belongs to 'run'", "give files to the options of the step")
        for key, option in self.step.options.items():
            if option.required and key not in self.keys and key not in repeated:
                kind_of = f" ({kind})" if kind != self.name else ""
                raise bad(self.where, f"the step '{self.name}'{kind_of} lacks '{key}'", f"give {key}: {'$STEP or a path' if option.kind in (FILE, FILES) else 'a value'}")

    def references(self) -> List[Tuple[str, str]]:
        """(step, place) of all that it refers to."""
        found: List[Tuple[str, str]] = []

        def visit(node: Node) -> None:
            if isinstance(node, Text):
                if match := REFERENCE.fullmatch(node.value):
                    found.append((match[1], node.where))
            else:
                for each in node.items if isinstance(node, Seq) else [entry[1] for entry in _yaml.entries(node).values()]:
                    visit(each)

        for key, (_, node) in self.keys.items():
            if key == "after":
                found += [(each.value.lstrip("$").partition("[")[0], each.where) for each in texts_of(node, "'after'")]
            elif key == "if":
                found += [(match[1], each.where) for each in texts_of(node, "'if'") if (match := re.match(r"\$([A-Za-z_][\w-]*)", each.value))]
            elif key not in ("step", "run", "save", "timeout", "outputs", "depends", "retries", "retry_delay", "resources"):
                visit(node)
        return found


def seconds(entry: Optional[Tuple[str, Node]], name: str = "timeout") -> Optional[float]:
    if entry is None:
        return None
    text = text_of(entry[1], f"'{name}'")
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match or float(match[1]) == 0:
        raise bad(entry[1].where, f"'{name}' is a time, not '{text}'", "write 30s, 10m or 2h")
    return float(match[1]) * UNITS[match[2] or "s"]


def value_of(node: Node, option: Option, what: str) -> Any:
    """What a node says for an option of a type."""
    if option.kind == ANY:
        return _plain(node)
    if option.kind == TEXTS:
        return [each.value for each in texts_of(node, what)]
    text = text_of(node, what)
    if option.choices and text not in option.choices:
        raise bad(node.where, f"{what} is not '{text}'", nearest(text, option.choices))
    if option.kind == FLAG:
        if text not in ("true", "false"):
            raise bad(node.where, f"{what} is true or false, not '{text}'", "write true or false")
        return text == "true"
    if option.kind == INTEGER:
        if not re.fullmatch(r"[+-]?\d{1,18}", text):
            raise bad(node.where, f"{what} is a whole number, not '{text}'", "write digits")
        return int(text)
    if option.kind == NUMBER:
        if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text) or abs(float(text)) == float("inf"):
            raise bad(node.where, f"{what} is a number, not '{text}'", "write digits")
        return float(text)
    return text


def _plain(node: Node) -> Any:
    """A value without a declared type: words without quotes that JSON reads as a number, true, false or null are that, all else is text."""
    if isinstance(node, Seq):
        return [_plain(each) for each in node.items]
    if isinstance(node, Map):
        return {key: _plain(value) for key, (_, value) in _yaml.entries(node).items()}
    if node.plain:
        try:
            value = json.loads(node.value, parse_constant=lambda name: name)
            return value if isinstance(value, (int, float, bool, type(None))) else node.value
        except ValueError:
            pass
    return node.value
