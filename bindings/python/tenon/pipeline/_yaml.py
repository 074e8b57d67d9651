"""YAML as a tree in which every node knows its line. Relies on PyYAML for the events of the parser only: nothing is constructed from tags.

Values stay text until the option that they are for says what they are, so that `no`, `1e3` or `0x10` are what the author wrote.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Tuple, Union

from .._errors import usage
from ._faults import bad

MOST_BYTES = 4 << 20
MOST_NODES = 200_000  # aliases counted as often as they are used
MOST_DEPTH = 64


@dataclasses.dataclass
class Text:
    value: str
    where: str
    plain: bool = True  # without quotes
    size: int = 1


@dataclasses.dataclass
class Seq:
    where: str
    items: List["Node"] = dataclasses.field(default_factory=list)
    size: int = 1
    anchor: str = ""


@dataclasses.dataclass
class Map:
    where: str
    items: Dict[str, "Node"] = dataclasses.field(default_factory=dict)
    places: Dict[str, str] = dataclasses.field(default_factory=dict)  # of the keys
    merged: List["Map"] = dataclasses.field(default_factory=list)  # of `<<`
    size: int = 1
    anchor: str = ""


Node = Union[Text, Seq, Map]
WORDS = {Text: "text", Seq: "a list", Map: "a mapping"}


def read(path: str) -> Map:
    """The mapping that a file holds."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise bad(f"{path}:1", f"the file cannot be read: {error.strerror}", "check the path") from error
    if len(data) > MOST_BYTES:
        raise bad(f"{path}:1", f"the file is larger than {MOST_BYTES >> 20} MiB", "a pipeline names its data, it does not hold them")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise bad(f"{path}:{line}", "the file is not UTF-8", "store it as UTF-8") from error
    return parse(text, path)


def parse(text: str, name: str) -> Map:
    try:
        import yaml
    except ImportError as error:
        raise usage("TN0105", "pipelines in files need the package PyYAML", "pip install 'tenon[pipeline]'") from error
    try:
        root = _tree(yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)), yaml, name)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(f"{error.context or ''} {error.problem or ''}".split())
        raise bad(f"{name}:{mark.line + 1 if mark else 1}", f"not YAML: {what}", "check indentation, brackets and quotes") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise bad(f"{name}:{line}", "not YAML: a character that it does not allow", "remove the control character") from error
    if not isinstance(root, Map):
        raise bad(root.where if root else f"{name}:1", "a pipeline is a mapping with the key 'steps'", "see docs/guides/pipeline.md")
    return root


def _tree(events: Any, yaml: Any, name: str) -> Union[Node, None]:
    """The first document, built without recursion: depth and number of nodes are bounded before they cost anything."""
    open_nodes: List[Tuple[Union[Seq, Map], Any]] = []  # with the key that waits for its value
    anchors: Dict[str, Union[Node, None]] = {}  # None while the node is open
    root = None
    for event in events:
        where = f"{name}:{event.start_mark.line + 1}"
        if isinstance(event, yaml.DocumentStartEvent) and root is not None:
            raise bad(where, "a second document", "a file holds one pipeline")
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            node = open_nodes.pop()[0]
            if node.anchor:
                anchors[node.anchor] = node
        elif isinstance(event, yaml.AliasEvent):
            node = anchors.get(event.anchor)
            if node is None:
                problem = "is inside of itself" if event.anchor in anchors else "has no anchor before it"
                raise bad(where, f"the alias *{event.anchor} {problem}", "an alias repeats a node that is complete")
        elif isinstance(event, yaml.ScalarEvent):
            node = Text(event.value, where, not event.style)
        elif isinstance(event, yaml.MappingStartEvent):
            node = Map(where, anchor=event.anchor or "")
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Seq(where, anchor=event.anchor or "")
        else:
            continue
        starts = isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent))
        ends = isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent))
        if not ends and not isinstance(event, yaml.AliasEvent):
            if event.tag not in (None, "!"):
                raise bad(where, f"the tag {event.tag}", "a pipeline has text, lists and mappings without tags")
            if event.anchor:
                anchors[event.anchor] = None if starts else node
        if starts:
            open_nodes.append((node, None))
            if len(open_nodes) > MOST_DEPTH:
                raise bad(where, f"more than {MOST_DEPTH} levels inside of each other", "a pipeline has three or four")
            continue
        if open_nodes:
            open_nodes[-1] = _add(*open_nodes[-1], node, where)
            if sum(each.size for each, _ in open_nodes) > MOST_NODES:
                raise bad(where, f"more than {MOST_NODES} values, with what aliases repeat", "use fewer aliases of aliases")
        else:
            root = node
    return root


def _add(parent: Union[Seq, Map], key: Any, node: Node, where: str) -> Tuple[Union[Seq, Map], Any]:
    """Puts a complete node into the one that is open; gives it with the key that then waits."""
    parent.size += node.size
    if isinstance(parent, Seq):
        parent.items.append(node)
        return parent, None
    if key is None:
        if not isinstance(node, Text):
            raise bad(where, f"a key is text, not {WORDS[type(node)]}", "check indentation and brackets")
        if node.value in parent.items or (node.value == "<<" and parent.merged):
            first = parent.places.get(node.value, parent.where)
            raise bad(where, f"the key '{node.value}' stands twice, first in line {first.rpartition(':')[2]}", "remove one of both")
        return parent, node
    if key.value == "<<" and key.plain:
        parent.merged = node.items if isinstance(node, Seq) else [node]
        for other in parent.merged:
            if not isinstance(other, Map):
                raise bad(where, "what << merges is a mapping or a list of them", "write <<: *anchor")
    else:
        parent.items[key.value], parent.places[key.value] = node, key.where
    return parent, None


def entries(node: Map) -> Dict[str, Tuple[str, Node]]:
    """{key: (place, value)} of a mapping, with what `<<` merges into it: its own keys win, then those of the first."""
    found: Dict[str, Tuple[str, Node]] = {}
    for other in reversed(node.merged):
        found.update(entries(other))
    found.update({key: (node.places[key], value) for key, value in node.items.items()})
    return found


def of(value: Any, where: str) -> Node:
    """The tree for a value of Python, for pipelines that are made by functions."""
    if isinstance(value, (Text, Seq, Map)):
        return value
    if isinstance(value, dict):
        return Map(where, {str(key): of(each, where) for key, each in value.items()}, {str(key): where for key in value})
    if isinstance(value, (list, tuple)):
        return Seq(where, [of(each, where) for each in value])
    if isinstance(value, bool) or value is None:
        return Text({True: "true", False: "false", None: "null"}[value], where)
    return Text(str(value), where, plain=isinstance(value, (int, float)))
