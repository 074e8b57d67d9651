"""From the tree of a pipeline to its steps in order: names, options, types, references, repetitions and cycles are checked before anything runs.

A step with `each` becomes several, one for each choice of values, called step[value].
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import itertools
import os
import re
import shutil
from typing import Any, Dict, List, Optional, Tuple

from . import _builtin, _catalog, _controls, _yaml
from ._catalog import ANY, CALLABLE, FILE, FILES, Step
from ._draft import COMMON, PLACEHOLDER, REFERENCE, Draft, nearest, seconds, text_of, texts_of, value_of
from ._faults import bad
from ._yaml import Map, Node, Seq, Text

MOST_STEPS = 20_000


@dataclasses.dataclass(frozen=True)
class Source:
    """Where an input comes from: an output of a step, or a path."""

    step: str = ""
    output: str = ""
    path: str = ""


@dataclasses.dataclass
class Planned:
    """One step as it will run. name: "engine[cpu:avx2]", of which base is "engine" and label "cpu:avx2"."""

    name: str
    base: str
    label: str
    where: str
    step: Step
    options: Dict[str, Any]
    inputs: Dict[str, List[Source]]
    outputs: Dict[str, str]
    several: frozenset  # of the inputs, those that are lists
    after: List[str]
    depends: List[str]
    save: Dict[str, str]
    timeout: Optional[float]
    program: List[str]
    conditions: List[_controls.Condition]
    retries: int
    retry_delay: float
    resources: Dict[str, float]

    @functools.cached_property
    def needed(self) -> List[str]:
        given = [each.step for sources in self.inputs.values() for each in sources if each.step]
        return list(dict.fromkeys([*given, *self.after, *(each.step for each in self.conditions)]))

    def needs(self) -> List[str]:
        return self.needed


@dataclasses.dataclass
class Plan:
    """The steps of a pipeline in an order in which each stands behind what it needs. folder: what paths are relative to."""

    name: str
    file: str
    folder: str
    work: str
    steps: List[Planned]


def make(root: Map, file: str, folder: str, work: Optional[str] = None) -> Plan:
    top = _yaml.entries(root)
    for key, (where, _) in top.items():
        if key not in ("name", "steps", "import", "work"):
            raise bad(where, f"a pipeline has no '{key}'", nearest(key, ("name", "steps", "import", "work")))
    if "steps" not in top or not isinstance(top["steps"][1], Map) or not _yaml.entries(top["steps"][1]):
        raise bad(top["steps"][1].where if "steps" in top else root.where, "a pipeline has steps: a mapping of names to steps", "see docs/guides/pipeline.md")
    known = {**_builtin.BUILTIN, **_catalog.OWN}
    for each in texts_of(top["import"][1], "'import'") if "import" in top else ():
        known.update(_catalog.imported(os.path.normpath(os.path.join(folder, each.value)), each.where))
    name = text_of(top["name"][1], "'name'") if "name" in top else os.path.splitext(os.path.basename(file))[0]
    place = text_of(top["work"][1], "'work'") if "work" in top else f".{os.path.splitext(os.path.basename(file))[0]}.work"
    drafts = [Draft(key, where, node, known, folder) for key, (where, node) in _yaml.entries(top["steps"][1]).items()]
    planner = _Planner({draft.name: draft for draft in drafts}, folder)
    plan = Plan(name, file, folder, os.path.join(folder, work or place), planner.plan())
    _check_files(plan)
    return plan


class _Planner:
    def __init__(self, drafts: Dict[str, Draft], folder: str):
        self.drafts, self.folder = drafts, folder
        self.labels: Dict[str, List[str]] = {}  # of each step those of its repetitions; [""] for one without
        self.outputs: Dict[str, Dict[str, str]] = {}

    def plan(self) -> List[Planned]:
        steps: List[Planned] = []
        for draft in self._ordered():
            choices = self._choices(draft)
            self.labels[draft.name] = [label for label, _ in choices]
            for label, values in choices:
                steps.append(self._planned(draft, label, values))
            self.outputs[draft.name] = steps[-1].outputs
            if len(steps) > MOST_STEPS:
                raise bad(draft.where, f"more than {MOST_STEPS} steps", "split the pipeline")
        return steps

    def _ordered(self) -> List[Draft]:
        """Depth first without recursion; a step that is met while it is open closes a cycle."""
        done: Dict[str, Draft] = {}
        for start in self.drafts:
            stack = [(start, iter(self._named(self.drafts[start])))]
            path = [start]
            while stack:
                name, rest = stack[-1]
                for needed, where in rest:
                    if needed in path:
                        cycle = [*path[path.index(needed):], needed]
                        raise bad(where, f"a cycle of steps: {' needs '.join(cycle)}", "remove one of these references")
                    if needed not in done:
                        stack.append((needed, iter(self._named(self.drafts[needed]))))
                        path.append(needed)
                        break
                else:
                    done[name] = self.drafts[name]
                    stack.pop()
                    path.pop()
        return list(done.values())

    def _named(self, draft: Draft) -> List[Tuple[str, str]]:
        found = draft.references()
        for name, where in found:
            if name not in self.drafts:
                raise bad(where, f"there is no step '{name}'", nearest(name, self.drafts))
        return found

    def _choices(self, draft: Draft) -> List[Tuple[str, Dict[str, Node]]]:
        """(label, values) of each repetition. References are matched by their labels, lists are multiplied."""
        if "each" not in draft.keys:
            return [("", {})]
        where, node = draft.keys["each"]
        if not isinstance(node, Map) or not _yaml.entries(node):
            raise bad(node.where, "'each' is a mapping of options to lists", "write each: {target: [cpu:avx2, cpu:avx512]}")
        matched: Dict[str, Dict[str, Node]] = {}
        lists: List[List[Tuple[str, str, Node]]] = []
        for key, (place, value) in _yaml.entries(node).items():
            key = key.replace("-", "_")
            if key not in draft.step.options and not draft.step.program:
                raise bad(place, f"the step '{draft.name}' has no option '{key}'", nearest(key, draft.step.options))
            if key in draft.keys:
                raise bad(place, f"'{key}' is an option of the step and in 'each'", "remove one of both")
            reference = REFERENCE.fullmatch(value.value) if isinstance(value, Text) else None
            if reference:
                base, output = reference[1], reference[3]
                if reference[2] is not None or self.labels[base] == [""]:
                    raise bad(value.where, f"'{value.value}' is one file, which 'each' cannot repeat over", f"name a step with 'each', or write {key}: {value.value}")
                matched[key] = {label: Text(f"${base}[{label}]" + (f".{output}" if output else ""), value.where) for label in self.labels[base]}
            elif isinstance(value, Text) and glob.has_magic(value.value):
                lists.append(self._matching(key, value))
            elif isinstance(value, Seq) and value.items:
                lists.append([(key, each.value if isinstance(each, Text) else str(index), each) for index, each in enumerate(value.items)])
            else:
                raise bad(value.where, f"'{key}' in 'each' is a list or a step with 'each'", "write [a, b], or a pattern of files such as models/*.onnx")
        shared = None
        for key, of_labels in matched.items():
            if shared is not None and list(of_labels) != shared:
                raise bad(where, f"the repetitions of '{key}' are others than those of '{next(iter(matched))}'", "repeat over one of them")
            shared = list(of_labels)
        found: List[Tuple[str, Dict[str, Node]]] = []
        for label in shared or [""]:
            for combination in itertools.product(*lists):
                values = {key: of_labels[label] for key, of_labels in matched.items()}
                values.update({key: value for key, _, value in combination})
                found.append((",".join([*([label] if label else []), *(text for _, text, _ in combination)]), values))
        seen = set()
        for label, _ in found:
            if "]" in label or label in seen:
                raise bad(where, f"'{label}' is repeated twice or has a ']'", "give each value once")
            seen.add(label)
        return found

    def _matching(self, key: str, pattern: Text) -> List[Tuple[str, str, Node]]:
        """The files of a pattern, called by their names without the ending where these differ."""
        paths = sorted(os.path.relpath(each, self.folder) for each in glob.glob(os.path.join(glob.escape(self.folder), pattern.value), recursive=True) if os.path.isfile(each))
        if not paths:
            raise bad(pattern.where, f"no file is called '{pattern.value}'", f"check the pattern, which is relative to {self.folder}")
        names = [os.path.splitext(os.path.basename(each))[0] for each in paths]
        names = names if len(set(names)) == len(names) else paths
        return [(key, name, Text(path, pattern.where)) for name, path in zip(names, paths)]

    def _planned(self, draft: Draft, label: str, values: Dict[str, Node]) -> Planned:
        nodes = {key: node for key, (_, node) in draft.keys.items() if key not in COMMON}
        nodes.update({key: node for key, node in values.items() if not draft.step.program})
        options: Dict[str, Any] = {}
        inputs: Dict[str, List[Source]] = {}
        several = set()
        for key, node in nodes.items():
            self._option(draft, key, node, options, inputs, several)
        program: List[str] = []
        outputs = _builtin.outputs_of(draft.step, options, {key: [self._base_name(each) for each in sources] for key, sources in inputs.items()})
        if draft.step.program:
            program = self._program(draft, values, inputs, several, outputs)
        after = [name for each in (texts_of(draft.keys["after"][1], "'after'") if "after" in draft.keys else ()) for name in self._instances("$" + each.value.lstrip("$"), each.where)]
        depends = [self._path(each) for each in (texts_of(draft.keys["depends"][1], "'depends'") if "depends" in draft.keys else ())]
        name = f"{draft.name}[{label}]" if label else draft.name
        return Planned(name, draft.name, label, draft.where, draft.step, options, inputs, outputs, frozenset(several), after, depends,
                       self._save(draft, label, outputs), seconds(draft.keys.get("timeout")), program,
                       _controls.conditions(draft.keys.get("if"), label, self._instances), *_controls.retries(draft.keys), _controls.resources(draft.keys.get("resources")))  # fmt: skip

    def _base_name(self, source: Source) -> str:
        return source.path or self.outputs[source.step.partition("[")[0]][source.output]

    def _option(self, draft: Draft, key: str, node: Node, options: Dict[str, Any], inputs: Dict[str, List[Source]], several: set) -> None:
        option = draft.step.options[key]
        what = f"'{key}' of the step '{draft.name}'"
        if option.kind in (FILE, FILES):
            inputs[key] = [source for each in (texts_of(node, what) if option.kind == FILES else [node]) for source in self._sources(each, what, option.kind == FILES)]
            several |= {key} if option.kind == FILES else set()
        elif option.kind == ANY and self._all_references(node):
            inputs[key] = [source for each in texts_of(node, what) for source in self._sources(each, what, True)]
            several |= {key} if isinstance(node, Seq) or len(inputs[key]) > 1 else set()
        elif option.kind == CALLABLE:
            source, symbol = _catalog.located(text_of(node, what), self.folder, node.where)
            if not os.path.isfile(source):
                raise bad(node.where, f"the file '{source}' does not exist", "check the path")
            options[key] = {"source": source, "symbol": symbol}
        else:
            options[key] = value_of(node, option, what)

    def _all_references(self, node: Node) -> bool:
        nodes = node.items if isinstance(node, Seq) else [node]
        return bool(nodes) and all(isinstance(each, Text) and REFERENCE.fullmatch(each.value) for each in nodes)

    def _path(self, node: Text) -> str:
        path = os.path.normpath(os.path.join(self.folder, node.value))
        if not os.path.exists(path):
            raise bad(node.where, f"the file '{node.value}' does not exist", f"check the path, which is relative to {self.folder}; $NAME is what a step gives")
        return path

    def _sources(self, node: Node, what: str, several: bool) -> List[Source]:
        text = text_of(node, what)
        if not REFERENCE.fullmatch(text):
            return [Source(path=self._path(node))]
        names = self._instances(text, node.where)
        if len(names) > 1 and not several:
            raise bad(node.where, f"{what} takes one file, and {text} are {len(names)}", f"name one, as ${names[0]}, or repeat this step with each: {{...: {text}}}")
        output = REFERENCE.fullmatch(text)[3]
        outputs = self.outputs[names[0].partition("[")[0]]
        if not outputs:
            raise bad(node.where, f"the step '{names[0]}' gives no files", "give it outputs, or use 'after' to wait for it")
        if output and output not in outputs:
            raise bad(node.where, f"the step '{names[0]}' has no output '{output}'", nearest(output, outputs))
        return [Source(step=name, output=output or next(iter(outputs))) for name in names]

    def _instances(self, text: str, where: str) -> List[str]:
        match = REFERENCE.fullmatch(text)
        if not match:
            raise bad(where, f"'{text.lstrip('$')}' is not a step", "write its name")
        base, label = match[1], match[2]
        labels = self.labels[base]
        if label is not None and label not in labels:
            raise bad(where, f"the step '{base}' has no repetition '{label}'", nearest(label, [each for each in labels if each] or ["none"]))
        return [f"{base}[{each}]" if each else base for each in (labels if label is None else [label])]

    def _program(self, draft: Draft, values: Dict[str, Node], inputs: Dict[str, List[Source]], several: set, outputs: Dict[str, str]) -> List[str]:
        """The words of the command, in which {NAME} is still the place of an input or output."""
        texts: Dict[str, str] = {}
        given = _yaml.entries(draft.keys["inputs"][1]) if "inputs" in draft.keys and isinstance(draft.keys["inputs"][1], Map) else {}
        if "inputs" in draft.keys and not given:
            raise bad(draft.keys["inputs"][0], "'inputs' is a mapping of names to files", "write inputs: {model: $ingest}")
        for key, node in {**{key: node for key, (_, node) in given.items()}, **values}.items():
            if isinstance(node, Text) and key in values and not REFERENCE.fullmatch(node.value) and not os.path.exists(os.path.join(self.folder, node.value)):
                texts[key] = node.value  # a word that 'each' varies, not a file
                continue
            inputs[key] = [source for each in texts_of(node, f"'{key}'") for source in self._sources(each, f"'{key}'", True)]
            if len(inputs[key]) > 1:
                several.add(key)
        both = (set(inputs) | set(texts)) & set(outputs)
        if both:
            raise bad(draft.where, f"'{min(both)}' is an input and an output", "give them different names")
        words = texts_of(draft.keys["run"][1], "'run'")
        if not isinstance(draft.keys["run"][1], Seq) or not words:
            raise bad(draft.keys["run"][1].where, "'run' is a list: the program and its arguments", "write run: [python3, prune.py, '{model}', '{out}']")
        for word in words:
            for match in PLACEHOLDER.finditer(word.value):
                name = match[1]
                if name and name not in inputs and name not in outputs and name not in texts:
                    raise bad(word.where, f"{{{name}}} is neither an input nor an output of the step '{draft.name}'", f"{nearest(name, [*inputs, *outputs, *texts] or ['none'])}; a brace itself is {{{{")
                if name in several and word.value != match[0]:
                    raise bad(word.where, f"{{{name}}} are several files, which stand for words of their own", f"write '{{{name}}}' alone")
        filled = [PLACEHOLDER.sub(lambda match: texts[match[1]].replace("{", "{{").replace("}", "}}") if match[1] in texts else match[0], word.value) for word in words]
        head = filled[0] if "/" not in filled[0] else os.path.join(self.folder, filled[0])
        found = shutil.which(head)
        if found is None:
            raise bad(words[0].where, f"there is no program '{filled[0]}'", "check its name, PATH and whether it is executable")
        return [found.replace("{", "{{").replace("}", "}}"), *filled[1:]]

    def _save(self, draft: Draft, label: str, outputs: Dict[str, str]) -> Dict[str, str]:
        if "save" not in draft.keys:
            return {}
        where, node = draft.keys["save"]
        if not outputs:
            raise bad(where, f"the step '{draft.name}' writes nothing to save", "remove 'save'")
        given = {key: value for key, (_, value) in _yaml.entries(node).items()} if isinstance(node, Map) else {next(iter(outputs)): node}
        found = {}
        for output, value in given.items():
            if output not in outputs:
                raise bad(where, f"the step '{draft.name}' has no output '{output}'", nearest(output, outputs))
            text = text_of(value, "a path of 'save'")
            if label and "{label}" not in text:
                raise bad(value.where, f"all repetitions of '{draft.name}' would be saved to '{text}'", "write {label} where their names differ, as in engine-{label}.tenon")
            found[output] = os.path.normpath(os.path.join(self.folder, text.replace("{label}", re.sub(r"[^\w.-]+", "-", label))))
        return found


def _check_files(plan: Plan) -> None:
    """No two steps save to one path, and none to what another reads as a file."""
    read: Dict[str, str] = {}
    for each in plan.steps:
        for path in [*(source.path for sources in each.inputs.values() for source in sources if source.path), *each.depends]:
            read.setdefault(os.path.realpath(path), each.name)
    saved: Dict[str, str] = {os.path.realpath(plan.file): "the pipeline's file"}
    for each in plan.steps:
        for path in each.save.values():
            real = os.path.realpath(path)
            if real in saved:
                raise bad(each.where, f"'{path}' is saved by '{each.name}' and is {saved[real]}", "give one of them another path")
            if real in read:
                raise bad(each.where, f"'{path}' is saved by '{each.name}' and read by '{read[real]}'", f"let '{read[real]}' take ${each.name} instead")
            if os.path.isdir(real) and not any(name for name in each.outputs.values() if not os.path.splitext(name)[1]):
                raise bad(each.where, f"'{path}' is a folder", "name a file")
            saved[real] = f"saved by '{each.name}'"
