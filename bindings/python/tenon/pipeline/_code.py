"""What the code of a step is: the files that its command names, and of Python the modules that they import.

Files of the user's own modules count by their contents, installed packages by their versions, with those that they require. It is read from the source,
without running it: modules that are imported by a computed name, and what a program that is no Python reads or starts, are not found.
"""

from __future__ import annotations

import ast
import glob
import importlib.machinery
import importlib.metadata
import os
import re
import shlex
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

_INSTALLED = ("site-packages", "dist-packages")
_STANDARD = getattr(sys, "stdlib_module_names", frozenset(sys.builtin_module_names))


def named_files(words: Sequence[str], folder: str) -> List[str]:
    """The program and the files that its words name: whole words, behind `=`, and within the text of a shell, but for what that writes to."""
    found = [words[0]]
    for before, word in zip(words, words[1:]):
        texts = [word, word.partition("=")[2]]
        if before.startswith("-") and before.endswith("c"):
            texts = _read_by_shell(word)
        elif before == "-m":
            texts = [_module_file(word, [folder, *sys.path])]
        found += [os.path.join(folder, each) for each in texts if each and "\0" not in each and os.path.isfile(os.path.join(folder, each))]
    return list(dict.fromkeys(found))


def _read_by_shell(text: str) -> Iterator[str]:
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    before = ""
    try:
        for word in words:
            if ">" not in before:
                yield word
            before = word
    except ValueError:  # quotes that do not end
        return


def _module_file(name: str, places: Sequence[str]) -> str:
    """The file that `python -m` runs; empty where there is none, or that of an installed package."""
    found = _spec(name, places)
    if found and found.submodule_search_locations:
        found = _spec("__main__", list(found.submodule_search_locations))
    return found.origin or "" if found and not _is_installed(found) else ""


def _spec(name: str, places: Sequence[str]) -> Optional[importlib.machinery.ModuleSpec]:
    found = None
    for part in name.split("."):
        try:
            found = importlib.machinery.PathFinder.find_spec(part, list(places))
        except (ImportError, ValueError):
            return None
        if found is None:
            return None
        places = list(found.submodule_search_locations or [])
    return found


def _is_installed(spec: importlib.machinery.ModuleSpec) -> bool:
    places = [spec.origin or "", *(spec.submodule_search_locations or [])]
    return any(part in _INSTALLED for place in places for part in place.split(os.sep))


def identity(source: str, program: str, folder: str, hash_of: Callable[[str], str]) -> List[Any]:
    """[hashes of the file and of the user's own modules that it imports, {installed package: version}]. program: the Python that runs it, where that is another one."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(program))) if program else sys.prefix
    places = sys.path if os.path.realpath(prefix) == os.path.realpath(sys.prefix) else [place for name in _INSTALLED for place in glob.glob(os.path.join(prefix, "lib/python3*", name))]
    hashes: List[Any] = []
    roots: Set[str] = set()
    seen: Set[str] = {os.path.realpath(source)}
    waiting = [source]
    while waiting:
        path = waiting.pop()
        hashes.append([os.path.basename(path), hash_of(os.path.realpath(path))])
        for root in _imports(path):
            spec = _spec(root, [os.path.dirname(path), folder, *places]) if root not in _STANDARD else None
            if spec is None:
                continue
            if _is_installed(spec) and root != __package__.partition(".")[0]:
                roots.add(root)
                continue
            for each in _files_of(spec):
                if os.path.realpath(each) not in seen:
                    seen.add(os.path.realpath(each))
                    waiting.append(each)
    return [sorted(hashes), _versions(roots, places), sys.version.split()[0] if places is sys.path else ""]


def _imports(path: str) -> Set[str]:
    """First words of what a file imports, anywhere in it."""
    try:
        with open(path, "rb") as file:
            nodes = list(ast.walk(ast.parse(file.read())))
    except (SyntaxError, ValueError, RecursionError):
        return set()
    plain = {each.name.partition(".")[0] for node in nodes if isinstance(node, ast.Import) for each in node.names}
    return plain | {node.module.partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}


def _files_of(spec: importlib.machinery.ModuleSpec) -> List[str]:
    """A module's file; of a package all files of Python in it, since parts of it may be imported by computed names."""
    if spec.submodule_search_locations:
        return sorted(os.path.join(base, name) for place in spec.submodule_search_locations for base, _, names in os.walk(place) for name in names if name.endswith(".py"))
    return [spec.origin] if spec.origin and spec.origin.endswith((".py", ".so")) else []


def _versions(roots: Set[str], places: Sequence[str]) -> Dict[str, str]:
    """Versions of the packages that modules come from and of all that these require."""
    if not roots:
        return {}
    known: Dict[str, Tuple[str, List[str]]] = {}
    owners: Dict[str, Set[str]] = {}
    for each in importlib.metadata.distributions(path=list(places)):
        name = _normal(each.metadata["Name"] or "")
        if name in known:  # the first on the path is the one that is imported
            continue
        known[name] = each.version, [_normal(re.match(r"[\w.-]+", text)[0]) for text in each.requires or [] if "extra ==" not in text]
        top = (each.read_text("top_level.txt") or "").split() or {file.parts[0].removesuffix(".py") for file in each.files or [] if file.suffix in (".py", ".so")}
        for module in top:
            owners.setdefault(module, set()).add(name)
    found: Dict[str, str] = {}
    waiting = [name for root in roots for name in owners.get(root, {_normal(root)})]
    while waiting:
        name = waiting.pop()
        if name in known and name not in found:
            found[name] = known[name][0]
            waiting += known[name][1]
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
