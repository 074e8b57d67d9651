"""What steps there are and which options each takes: read from signatures, and of files of users from their source, which is not imported.

Not importing keeps a pipeline whose steps use torch as quick to check as any other; the functions run in processes of their own.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.machinery
import inspect
import os
import re
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ._faults import bad

FILE, FILES, TEXT, TEXTS, INTEGER, NUMBER, FLAG, CALLABLE, ANY = "file", "files", "text", "texts", "integer", "number", "flag", "callable", "any"
# Of annotations by their last word.
KINDS = {
    "File": FILE, "Path": FILE, "PathLike": FILE, "Files": FILES, "str": TEXT, "List[str]": TEXTS, "list[str]": TEXTS, "Sequence[str]": TEXTS,
    "int": INTEGER, "float": NUMBER, "bool": FLAG, "Callable": CALLABLE,
}  # fmt: skip


class File(str):
    """The annotation of an argument that is a file or a folder: its content is part of the step's key. The step gets its path."""


class Files(List[str]):
    """The annotation of an argument that is one or several files. The step gets a list of paths."""


@dataclasses.dataclass(frozen=True)
class Option:
    kind: str
    required: bool = False
    choices: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Step:
    """A kind of step. outputs: {name: file name}, the first is what $step stands for."""

    name: str
    options: Mapping[str, Option]
    outputs: Mapping[str, str]
    function: Optional[Callable[..., Any]] = None  # of built-in steps, which runs here
    source: str = ""  # else the file of it
    symbol: str = ""
    alone: bool = False  # it measures time: nothing runs beside it
    machine: bool = False  # its result is about this machine
    program: bool = False
    volatile: bool = False  # it reads what is no input, such as a server, and always runs


BUILTIN: Dict[str, Step] = {}
OWN: Dict[str, Step] = {}


def step(name: str, *, outputs: Mapping[str, str] = {}, alone: bool = False, machine: bool = False, volatile: bool = False) -> Callable[[Callable], Callable]:
    """Registers a function as a step of pipelines, in files that `import` its file and in this process.

        @step("distill", outputs={"student": "student.onnx"})
        def distill(student: str, model: File, epochs: int = 3): ...

    outputs: {name: file name}; an argument of that name gets the path to write to, and `$distill` in other steps stands for the first.
    alone: it measures time, so nothing else runs at the same time. machine: its result holds only for this machine.
    volatile: it reads something that is not an input, such as a server, so it runs each time; its dependents run only if its bytes changed.
    Other arguments are its options; annotated File or Files they are inputs, with str, int, float, bool, List[str] or Literal their
    type is checked before anything runs. A dict that it returns is shown in the report. Raise any exception to fail.
    """

    def register(function: Callable) -> Callable:
        source = os.path.abspath(inspect.getsourcefile(function) or "")
        OWN[name] = Step(name, _options(ast.parse(inspect.getsource(function).lstrip()).body[0], outputs), dict(outputs), source=source,
                         symbol=function.__qualname__, alone=alone, machine=machine, volatile=volatile)  # fmt: skip
        return function

    return register


def _kind(annotation: Optional[ast.expr]) -> Option:
    text = ast.unparse(annotation).replace("'", '"') if annotation else ""
    text = text.strip('"')
    if optional := re.fullmatch(r"(?:typing\.)?Optional\[(.*)\]|(.*) \| None", text):
        text = optional[1] or optional[2]
    if choices := re.fullmatch(r"(?:typing\.)?Literal\[(.*)\]", text):
        return Option(TEXT, choices=tuple(str(each) for each in ast.literal_eval(f"({choices[1]},)")))
    return Option(KINDS.get(re.sub(r"^(\w+\.)+", "", text), ANY))


def _options(function: ast.FunctionDef, outputs: Mapping[str, str]) -> Dict[str, Option]:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    without = len(named) - len(arguments.defaults)
    given = [(each, index < without) for index, each in enumerate(named)]
    given += [(each, default is None) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return {
        each.arg: dataclasses.replace(_kind(each.annotation), required=required)
        for each, required in given if each.arg not in outputs and each.arg != "run"
    }  # fmt: skip


def _definitions(source: str, where: str) -> Dict[str, ast.FunctionDef]:
    try:
        with open(source, "rb") as file:
            module = ast.parse(file.read())
    except OSError as error:
        raise bad(where, f"{source} cannot be read: {error.strerror}", "check the path") from error
    except (SyntaxError, ValueError) as error:
        raise bad(where, f"{source}:{getattr(error, 'lineno', 1)} is not Python: {error}", "correct the file") from error
    return {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}


def imported(source: str, where: str) -> Dict[str, Step]:
    """The steps that a file of Python registers with literal arguments."""
    found = {}
    for name, function in _definitions(source, where).items():
        for decorator in function.decorator_list:
            if not isinstance(decorator, ast.Call) or ast.unparse(decorator.func).rpartition(".")[2] != "step":
                continue
            try:
                names = [ast.literal_eval(each) for each in decorator.args]
                flags = {each.arg: ast.literal_eval(each.value) for each in decorator.keywords}
            except ValueError as error:
                raise bad(where, f"{source}:{decorator.lineno}: the arguments of @step are not literals", "write them out") from error
            title = names[0] if names else flags.pop("name", name)
            outputs = flags.get("outputs", {})
            found[title] = Step(title, _options(function, outputs), outputs, source=source, symbol=name,
                                alone=flags.get("alone", False), machine=flags.get("machine", False), volatile=flags.get("volatile", False))  # fmt: skip
    return found


def of_callable(text: str, outputs: Mapping[str, str], folder: str, where: str) -> Step:
    """The step for "module:function" or "file.py:function"."""
    source, name = located(text, folder, where)
    function = _definitions(source, where).get(name)
    if function is None:
        raise bad(where, f"{source} defines no function '{name}'", "name one that stands at the left margin of the file")
    return Step(text, _options(function, outputs), outputs, source=source, symbol=name)


def located(text: str, folder: str, where: str) -> Tuple[str, str]:
    """(file, function) of "module:function", which is looked for beside the pipeline's file and where Python looks."""
    module, _, name = text.rpartition(":")
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or not module:
        raise bad(where, f"'{text}' is not a function", "write module:function or file.py:function")
    if module.endswith(".py"):
        return os.path.normpath(os.path.join(folder, module)), name
    places: Optional[List[str]] = [folder, *sys.path]
    found = None
    for part in module.split("."):
        found = importlib.machinery.PathFinder.find_spec(part, places)
        places = list(found.submodule_search_locations or []) if found else []
    if found is None or not (found.origin or "").endswith(".py"):
        raise bad(where, f"there is no module '{module}'", "put its file beside the pipeline's, or install it")
    return found.origin, name
