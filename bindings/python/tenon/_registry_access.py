"""How tenon.registry reaches a registry: by the program of the package, or by HTTP. Both have the same methods, which give rows of JSON."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, Mapping, Optional

from . import _errors
from ._errors import usage

_PIECE = 1 << 20


def hash_of(path: str) -> str:
    """Empty where there is no such file."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()


def _split(reference: str) -> List[str]:
    """NAME, and what follows it with its mark."""
    found = re.fullmatch(r"([^:@]+)((?:[:@].+)?)", reference)
    if not found:
        raise usage("TN1004", f"'{reference}' is not a version of a registry", "use NAME:VERSION, NAME@ALIAS, or NAME for the newest version")
    return [found[1], found[2]]


class Program:
    """By `tenon registry ... --json`, which has its own checks of arguments, roles and gates."""

    def __init__(self, where: str, token: Optional[str]):
        self._place = [f"--registry={where}"] if where else []
        self._environment = {**os.environ, **({"TENON_REGISTRY_TOKEN": token} if token else {})}

    def _run(self, command: str, *words: str, flags: Mapping[str, Any] = {}) -> Dict[str, Any]:
        tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tenon")
        given = [f"--{key}={each}" for key, value in flags.items() for each in (value if isinstance(value, list) else [value])]
        done = subprocess.run([tool, "registry", command, "--json", *self._place, *given, "--", *words],
                              capture_output=True, stdin=subprocess.DEVNULL, env=self._environment)  # fmt: skip
        try:
            said = json.loads(done.stdout)
        except ValueError:
            raise _errors.InternalError(f"TN0902: `tenon registry {command}` ended with {done.returncode}: {done.stderr[-500:]!r}") from None
        if done.returncode != 0 and said.get("schema") == "tenon.error/1":
            raise _errors.made(said["exit"], said["code"], said["message"], said.get("hint", ""))
        return said

    def objects(self) -> list:
        return self._run("list")["objects"]

    def object(self, name: str) -> Dict[str, Any]:
        versions = self._run("list", name)["versions"]
        return {"aliases": {alias: row["version"] for row in versions for alias in row["aliases"]}}

    def versions(self, name: str) -> list:
        return self._run("list", name)["versions"]

    def search(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        return self._run("search", *asked.get("where", []), flags={key: value for key, value in asked.items() if key != "where"})

    def show(self, reference: str) -> Dict[str, Any]:
        return self._run("show", reference)

    def push(self, name: str, file: str, flags: Dict[str, Any]) -> Dict[str, Any]:
        return self._run("push", name, file, flags=flags)

    def fetch(self, reference: str, path: str) -> None:
        self._run("show", reference, flags={"output": path})

    def promote(self, reference: str, alias: str, expect: Optional[int], reason: str) -> Dict[str, Any]:
        flags = {"reason": reason, **({} if expect is None else {"expect": expect or "none"})}
        return self._run("promote", reference, alias, flags=flags)

    def rollback(self, name: str, alias: str, reason: str) -> Dict[str, Any]:
        return self._run("rollback", f"{name}@{alias}", flags={"reason": reason})

    def history(self, name: str, alias: str, limit: int) -> list:
        events = self._run("history", *([f"{name}@{alias}" if alias else name] if name else []), flags={"last": limit})["events"]
        return events[::-1]

    def rules(self, name: str, alias: str) -> list:
        return self._run("gate", f"{name}@{alias}")["rules"]


class Server:
    """By /v2/registry of a server."""

    def __init__(self, url: str, token: Optional[str], timeout: float):
        self._url, self._timeout = url.rstrip("/") + "/v2/registry", timeout
        token = token or os.environ.get("TENON_REGISTRY_TOKEN")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def _open(self, path: str, query: Mapping[str, Any] = {}, body: Any = None, headers: Mapping[str, str] = {}) -> Any:
        target = f"{self._url}{path}" + (f"?{urllib.parse.urlencode(query, doseq=True)}" if query else "")
        request = urllib.request.Request(target, data=body, headers={**self._headers, **headers}, method="GET" if body is None else "POST")
        try:
            return urllib.request.urlopen(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            raise self._refused(error) from None
        except (OSError, ssl.SSLError, http.client.HTTPException) as error:
            hint = "check that the server is running and can be reached from here"
            raise _errors.DeviceError(f"TN1013: '{self._url}': {error} ({hint})", "TN1013", hint) from error

    @staticmethod
    def _refused(error: urllib.error.HTTPError) -> _errors.Error:
        said = error.read(1 << 16)
        try:
            text = json.loads(said)["error"]
        except (ValueError, TypeError, KeyError):
            text = f"TN0902: the server answered {error.code} {error.reason}"
        found = re.fullmatch(r"(TN\d{4}): (.*?)(?: \(([^()]*(?:\([^()]*\)[^()]*)*)\))?", text, re.S)
        code, message, hint = (found[1], found[2], found[3] or "") if found else ("TN0902", text, "")
        kind = {409: 1, 429: 6, 500: 70, 501: 3, 503: 6}.get(error.code, 2)  # classes of the command line
        return _errors.made(kind, code, message, hint)

    def _ask(self, path: str, query: Mapping[str, Any] = {}, body: Any = None) -> Dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        with self._open(path, query, data, {"Content-Type": "application/json"} if data else {}) as answer:
            return json.load(answer)

    @staticmethod
    def _object(name: str) -> str:
        return f"/objects/{urllib.parse.quote(name, safe='')}"

    def _alias(self, name: str, alias: str) -> str:
        return f"{self._object(name)}/aliases/{urllib.parse.quote(alias, safe='')}"

    def _version(self, reference: str) -> str:
        name, rest = _split(reference)
        if rest.startswith("@"):
            return self._alias(name, rest[1:])
        return f"{self._object(name)}/versions/{urllib.parse.quote(rest[1:] or 'newest', safe='')}"

    def objects(self) -> list:
        found: list = []
        query: Dict[str, Any] = {"most": 1000}
        while True:
            page = self._ask("/objects", query)
            found += page["objects"]
            if not page["next"]:
                return found
            query["after"] = page["next"]

    def object(self, name: str) -> Dict[str, Any]:
        return self._ask(self._object(name), {"most": 1})

    def versions(self, name: str) -> list:
        return self._ask(self._object(name), {"most": 1000})["versions"]

    def search(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        return self._ask("/search", asked)

    def show(self, reference: str) -> Dict[str, Any]:
        return self._ask(self._version(reference))

    def push(self, name: str, file: str, flags: Dict[str, Any]) -> Dict[str, Any]:
        query = {**flags, "file": os.path.basename(file), "sha256": hash_of(file)}
        with open(file, "rb") as body:
            size = os.fstat(body.fileno()).st_size
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
            with self._open(f"{self._object(name)}/versions", query, body, headers) as answer:
                return json.load(answer)

    def fetch(self, reference: str, path: str) -> None:
        with self._open(f"{self._version(reference)}/file") as answer, open(path, "wb") as file:
            shutil.copyfileobj(answer, file, _PIECE)

    def promote(self, reference: str, alias: str, expect: Optional[int], reason: str) -> Dict[str, Any]:
        name, rest = _split(reference)
        number = int(rest[1:]) if rest.startswith(":") and rest[1:].isdigit() else self.show(reference)["version"]
        expected = {} if expect is None else {"expected": expect or None}
        return self._ask(self._alias(name, alias), body={"version": number, "reason": reason, **expected})

    def rollback(self, name: str, alias: str, reason: str) -> Dict[str, Any]:
        return self._ask(f"{self._alias(name, alias)}/rollback", body={"reason": reason})

    def history(self, name: str, alias: str, limit: int) -> list:
        query = {"most": max(1, min(limit, 1000)), **({"alias": alias} if alias else {})}
        return self._ask(f"{self._object(name)}/history" if name else "/history", query)["events"]

    def rules(self, name: str, alias: str) -> list:
        return self._ask(f"{self._alias(name, alias)}/rules")["rules"]
