"""A registry of models and engines: push, search, promote and roll back, and load what an alias is at.

    from tenon import registry

    models = registry.Registry("models.registry")        # a folder, postgresql://..., or the https:// of a server
    version = models.push("cnn", "cnn.tenon", meta={"team": "vision"})
    models.promote(version, "production", reason="more accurate")
    for found in models.search("team=vision", "top1 >= 90%", kind="engine"):
        print(found.reference, found.metrics)
    engine = tenon.load("registry:cnn@production")       # of $TENON_REGISTRY

A folder and PostgreSQL are reached by the program of the package, a server by HTTP.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, Optional, Union

from . import _errors
from ._errors import door, usage
from ._registry_access import Program, Server, hash_of

__all__ = ["Event", "GateResult", "Move", "Object", "Registry", "Version"]

SCHEME = "registry:"


@dataclasses.dataclass(frozen=True)
class Version:
    """A version of an object. Only its aliases and metrics may change.

    hash: SHA-256 of its file. facts: what is known of where it comes from; `meta` in it has its tags.
    metrics: what gates measured of it last, where `search` found it.
    """

    name: str
    version: int
    kind: str
    hash: str
    bytes: int
    file: str = ""
    created: str = ""
    facts: Dict[str, Any] = dataclasses.field(default_factory=dict)
    note: str = ""
    aliases: List[str] = dataclasses.field(default_factory=list)
    deleted: bool = False
    metrics: Dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def reference(self) -> str:
        """NAME:VERSION."""
        return f"{self.name}:{self.version}"


@dataclasses.dataclass(frozen=True)
class Object:
    """A name with its versions. newest: the number of its newest one. aliases: {alias: version}."""

    name: str
    kind: str
    newest: int
    aliases: Dict[str, int]


@dataclasses.dataclass(frozen=True)
class Move:
    """An alias moved. origin: the version that it was at, or None."""

    name: str
    alias: str
    origin: Optional[int]
    to: int


@dataclasses.dataclass(frozen=True)
class Event:
    """What happened: push, sign, gate, rules, promote, rollback, delete, token, revoke."""

    id: int
    time: str
    by: str
    action: str
    object: str
    version: int
    alias: str
    origin: int
    detail: Dict[str, Any]
    hash: str


@dataclasses.dataclass(frozen=True)
class GateResult:
    """What a gate found of a version for an alias. figures: a row for each rule, with its value and verdict."""

    name: str
    version: int
    alias: str
    verdict: str
    champion: Optional[int]
    figures: List[Dict[str, Any]]
    conditions: Dict[str, Any]
    time: str
    by: str


def _made(kind: Any, row: Mapping[str, Any]) -> Any:
    names = {field.name for field in dataclasses.fields(kind)}
    values = {"origin" if key == "from" else key: value for key, value in row.items()}
    return kind(**{key: value for key, value in values.items() if key in names})


def _reference(version: Union[str, Version]) -> str:
    return version.reference if isinstance(version, Version) else version.removeprefix(SCHEME)


class Registry:
    """The registry at `where`: a folder, a URL of PostgreSQL, or the http(s) URL of a server that follows one.

    where: what $TENON_REGISTRY says by default, else the user's own folder.
    token: of the registry or the server; what $TENON_REGISTRY_TOKEN says by default.
    timeout: seconds that a server may take between two pieces of an answer.
    Several threads may use one object: each call opens the registry again.
    """

    def __init__(self, where: Union[str, os.PathLike, None] = None, token: Optional[str] = None, *, timeout: float = 60):
        self.where = os.fspath(where) if where is not None else os.environ.get("TENON_REGISTRY", "")
        is_server = self.where.startswith(("http://", "https://"))
        self._way: Any = Server(self.where, token, timeout) if is_server else Program(self.where, token)

    def __repr__(self) -> str:
        return f"Registry({self.where!r})"

    @door
    def list(self) -> List[Object]:
        """All objects by name."""
        return [_made(Object, row) for row in self._way.objects()]

    @door
    def versions(self, name: str) -> List[Version]:
        """The versions of an object, the newest first; of a server the newest 1,000."""
        return [_made(Version, row) for row in self._way.versions(name)]

    @door
    def search(
        self,
        *conditions: str,
        name: str = "",
        kind: str = "",
        alias: str = "",
        since: str = "",
        before: str = "",
        limit: Optional[int] = None,
    ) -> Iterator[Version]:
        """Versions that have all of that, the newest first, page by page as they are asked for.

        conditions: tags, "team=vision", and what gates measured, "top1 >= 90%" or "p50 <= 5ms".
        name: the object, or a pattern with * and ?. since, before: "2026-11-01", "2026-11-01T12:30:00Z", or "7d" and "12h" ago.
        """
        asked = {"where": list(conditions), "name": name, "kind": kind, "alias": alias, "since": since, "before": before}
        return self._pages({key: value for key, value in asked.items() if value}, limit)

    def _pages(self, asked: Dict[str, Any], limit: Optional[int]) -> Iterator[Version]:
        left = limit if limit is not None else float("inf")
        while left > 0:
            page = self._way.search({**asked, "most": int(min(left, 100))})
            yield from (_made(Version, row) for row in page["versions"])
            left -= len(page["versions"])
            if not page["next"]:
                return
            asked = {**asked, "after": page["next"]}

    @door
    def show(self, version: Union[str, Version]) -> Version:
        """A version by "NAME:VERSION", "NAME@ALIAS", or "NAME" for the newest."""
        return _made(Version, self._way.show(_reference(version)))

    @door
    def aliases(self, name: str) -> Dict[str, int]:
        """{alias: version} of an object."""
        return dict(self._way.object(name)["aliases"])

    @door
    def push(
        self,
        name: str,
        file: Union[str, os.PathLike],
        *,
        kind: str = "",
        meta: Mapping[str, str] = {},
        note: str = "",
        parent: Union[str, Version] = "",
        data: Union[str, Version] = "",
    ) -> Version:
        """Stores a file as the next version of an object. The same file with the same facts is the version that is there already.

        kind: "model", "engine", "data", "report" or "tuning"; by default what the file's content says.
        meta: tags, which `search` finds. parent, data: the versions that it was made from and trained or calibrated with.
        """
        flags: Dict[str, Any] = {"kind": kind, "note": note, "parent": _reference(parent), "data": _reference(data)}
        flags = {key: value for key, value in flags.items() if value}
        if meta:
            flags["meta"] = [f"{key}={value}" for key, value in meta.items()]
        pushed = self._way.push(name, os.fspath(file), flags)
        return self.show(f"{pushed['name']}:{pushed['version']}")

    @door
    def get(self, version: Union[str, Version], output: Union[str, os.PathLike, None] = None) -> str:
        """The path of a version's file on this machine, whose hash is that of the version.

        output: where to write it; by default a file of tenon/versions in $XDG_CACHE_HOME or ~/.cache, which is kept and hashed at each use.
        """
        shown = self.show(version)
        if shown.deleted:
            raise usage("TN1003", f"gc deleted {shown.reference}", "only its metadata is left")
        path = os.fspath(output) if output is not None else os.path.join(_cache(), shown.hash, os.path.basename(shown.file) or "file")
        if output is None and hash_of(path) == shown.hash:
            return path
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tenon-", dir=folder) as scratch:  # whole or not at all
            part = os.path.join(scratch, "part")
            self._way.fetch(shown.reference, part)
            if hash_of(part) != shown.hash:
                raise _errors.BadInputError(f"TN1005: what came is not the file of {shown.reference} (get it again)", "TN1005", "get it again")
            os.replace(part, path)
        return path

    @door
    def promote(self, version: Union[str, Version], alias: str, *, expect: Optional[int] = None, reason: str = "") -> Move:
        """Moves an alias to a version, if what its gates found of it stands. expect: move only from this version; 0 for none."""
        return _made(Move, self._way.promote(_reference(version), alias, expect, reason))

    @door
    def rollback(self, name: str, alias: str, *, reason: str = "") -> Move:
        """Moves an alias back to where it was before its last promotion."""
        return _made(Move, self._way.rollback(name, alias, reason))

    @door
    def history(self, name: str = "", alias: str = "", *, limit: int = 1000) -> List[Event]:
        """What happened, the newest first: of an object or an alias of it, or of everything."""
        return [_made(Event, row) for row in self._way.history(name, alias, limit)]

    @door
    def rules(self, name: str, alias: str) -> List[str]:
        """The rules of an alias, and what they pin."""
        return list(self._way.rules(name, alias))

    @door
    def gate_results(self, name: str, alias: str = "", *, limit: int = 1000) -> List[GateResult]:
        """What gates found among the last `limit` events, the newest first."""
        return [
            GateResult(event.object, event.version, event.alias, event.detail.get("verdict", ""), event.detail.get("champion") or None,
                       event.detail.get("figures", []), event.detail.get("conditions", {}), event.time, event.by)  # fmt: skip
            for event in self.history(name, alias, limit=limit)
            if event.action == "gate"
        ]


def _cache() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "tenon", "versions")


def file_of(source: Any) -> Any:
    """The path of the file that "registry:NAME@ALIAS" names in $TENON_REGISTRY; anything else as it is."""
    return Registry().get(source) if isinstance(source, str) and source.startswith(SCHEME) else source
