"""The work folder: contents by their hash, results by the key of their step, and hashes of files that have not changed.

    objects/<hash>/<files>      what steps wrote, read-only
    results/<key>.json, .log    what a step gave, naming objects; the file appears when everything it names is there
    results/<name>.last         the key of the step that last did something outside, such as moving an alias
    running/<key>/, <key>.lock  folder of a step that runs, and the lock that its processes hold
    hashes.json                 hashes of files by their size, times and inode

Any number of processes may use one folder: whatever appears, appears by a rename when it is complete. Nothing in it is believed by its name or size:
a result counts if its own hash and those of all that it names are right, a step reads its inputs through once more before it starts, and copies are hashed
while they are made.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import threading
import time
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Tuple

from . import _onnx_files

FORMAT = 2  # of keys and results
SETTLED_NS = 2_000_000_000  # a file that changed later than this before it was hashed is hashed again


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def hash_file(path: str, copy: Optional[BinaryIO] = None) -> str:
    """SHA-256 of a file, which on the way is written to `copy` where that is given."""
    whole = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            whole.update(block)
            if copy:
                copy.write(block)
    return whole.hexdigest()


def write_whole(path: str, data: bytes) -> None:
    """The file appears complete, and stays after a power cut."""
    temporary = f"{path}.{os.getpid()}-{threading.get_ident()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(os.path.dirname(path))


def _sync_folder(path: str) -> None:
    handle = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def inside(folder: str) -> List[str]:
    """All files below a folder, relative to it."""
    return sorted(os.path.relpath(os.path.join(base, name), folder) for base, _, names in os.walk(folder) for name in names)


def signature(path: str) -> List[int]:
    facts = os.stat(path)
    return [facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]


class Store:
    def __init__(self, folder: str):
        self.folder = os.path.abspath(folder)
        for name in ("objects", "results", "running"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        self._known: Optional[Dict[str, Any]] = None
        self._changed = False

    @property
    def _hashes(self) -> Dict[str, Any]:
        if self._known is None:
            self._known = {}
            with contextlib.suppress(OSError, ValueError), open(self.path("hashes.json"), "rb") as file:
                known = json.load(file)
                self._known = known if isinstance(known, dict) else {}
        return self._known

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    # Inputs.

    def facts(self, path: str) -> Tuple[str, List[str]]:
        """SHA-256 of a file and the files of weights that it names, from what is known where neither size, times nor inode changed."""
        path = os.path.abspath(path)
        value, weights = self._known_of(path)
        if weights is None:
            weights = _onnx_files.weights_of(path)
            self._hashes[path][3], self._changed = weights, True
        return value, weights

    def known_hash(self, path: str) -> str:
        """The SHA-256 of a file as `facts` gives it."""
        return self._known_of(os.path.abspath(path))[0]

    def _known_of(self, path: str) -> Tuple[str, Optional[List[str]]]:
        now, mark = time.time_ns(), signature(path)
        known = self._hashes.get(path)
        if isinstance(known, list) and len(known) == 4 and known[0] == mark and max(mark[3:]) + SETTLED_NS < known[1]:
            return known[2], known[3]
        value = hash_file(path)
        self._hashes[path], self._changed = [mark, now, value, None], True
        return value, None

    def content(self, path: str) -> Tuple[str, List[Any]]:
        """(hash, marks) of a file or folder from outside; the marks tell later whether it was changed meanwhile."""
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        names = inside(path) if os.path.isdir(path) else [os.path.basename(path), *self.facts(path)[1]]
        whole = [os.path.join(folder, name) for name in names]
        hashes = [self.facts(each)[0] for each in whole]
        value = hashes[0] if len(names) == 1 and folder != path else digest(list(zip(names, hashes)))
        return value, [[each, signature(each)] for each in whole]

    def save_hashes(self) -> None:
        if self._changed:
            with contextlib.suppress(OSError):  # without it the next run hashes again
                write_whole(self.path("hashes.json"), canonical(self._hashes))
            self._changed = False

    # Results.

    def result(self, key: str) -> Optional[Dict[str, Any]]:
        """What a step gave, if the record and all that it names have their hashes. Contents that have changed since they were last hashed are hashed again."""
        try:
            with open(self.path("results", f"{key}.json"), "rb") as file:
                record = json.load(file)
            found = record["result"]
            if record["sha256"] != digest(found) or found["key"] != key:
                return None
            return found if all(self.holds(output, self.known_hash) for output in found["outputs"].values()) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def holds(self, output: Dict[str, Any], hash_of: Callable[[str], str] = hash_file) -> bool:
        """Whether the files of an output, and no others, are there with their contents."""
        base, hashes = self.path("objects", output["sha256"]), output["hashes"]
        try:
            names = [output["main"]] if list(hashes) == [output["main"]] else inside(base)  # one content may have several names
            return sorted(hashes) == names and _value_of(hashes, output["main"]) == output["sha256"] and all(hash_of(os.path.join(base, name)) == hashes[name] for name in names)
        except OSError:
            return False

    def discard(self, output: Dict[str, Any]) -> None:
        """Removes a damaged output, so that the step that gave it runs again."""
        shutil.rmtree(self.path("objects", output["sha256"]), ignore_errors=True)

    def output_path(self, output: Dict[str, Any]) -> str:
        return os.path.normpath(self.path("objects", output["sha256"], output["main"]))

    def adopt(self, folder: str, main: str) -> Dict[str, Any]:
        """Moves what a step wrote into `folder` to the objects. main: the file or folder in it that stands for all."""
        names = inside(folder)
        hashes, sizes = {}, {}
        for name in names:
            path = os.path.join(folder, name)
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise ValueError(f"'{name}' is no regular file")
            hashes[name], sizes[name] = hash_file(path), os.path.getsize(path)
            os.chmod(path, 0o444)
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
        value = _value_of(hashes, main)
        output = {"sha256": value, "main": main, "files": sizes, "hashes": hashes, "bytes": sum(sizes.values())}
        target = self.path("objects", value)
        if names == [main]:
            os.makedirs(target, exist_ok=True)
            os.replace(os.path.join(folder, main), os.path.join(target, main))
            _sync_folder(target)
        elif self.holds(output):
            shutil.rmtree(folder)
        else:
            shutil.rmtree(target, ignore_errors=True)
            os.replace(folder, target)
        _sync_folder(self.path("objects"))
        return output

    def save_result(self, key: str, result: Dict[str, Any]) -> None:
        # As JSON gives it back: that is what the hash is of.
        write_whole(self.path("results", f"{key}.json"), canonical({"result": result, "sha256": digest(json.loads(canonical(result)))}))

    def last(self, name: str) -> str:
        """The key of the step that last did what `name` stands for, such as moving an alias."""
        try:
            with open(self.path("results", f"{name}.last")) as file:
                return file.read()
        except OSError:
            return ""

    def save_last(self, name: str, key: str) -> None:
        if self.last(name) != key:
            write_whole(self.path("results", f"{name}.last"), key.encode())

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[int]:
        """A step's own lock over all processes; its processes inherit the handle, so that one that outlives a killed run is waited for."""
        path = self.path("running", f"{key}.lock")
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(handle, fcntl.LOCK_EX)
            with contextlib.suppress(OSError):
                if os.fstat(handle).st_ino == os.stat(path).st_ino:  # else its last holder removed it
                    break
            os.close(handle)
        try:
            yield handle
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
            os.close(handle)

    def save(self, output: Dict[str, Any], target: str) -> None:
        """A copy of an output that appears complete, unless the target has these bytes. Files of weights beside a model keep their names: the model comes last."""
        source = self.output_path(output)
        beside = target if os.path.isdir(source) else os.path.dirname(target)
        for name in sorted(output["hashes"], key=lambda each: each == output["main"]):
            to = target if name == output["main"] else os.path.join(beside, os.path.relpath(name, output["main"]) if os.path.isdir(source) else name)
            if not os.path.isfile(to) or os.path.getsize(to) != output["files"][name] or self.known_hash(to) != output["hashes"][name]:
                self.place(self.path("objects", output["sha256"], name), to, output["hashes"][name])

    def place(self, source: str, target: str, wanted: str) -> None:
        """A copy that appears complete, if it has the hash that is wanted; else ValueError. It is written in the work folder, so that a killed process leaves nothing beside the target, if that is on the same file system."""
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        key = f"save-{digest(os.path.abspath(target))[:32]}"
        with self.lock(key):
            folder = self.path("running", key)
            os.makedirs(folder, exist_ok=True)
            try:
                self._copy(source, os.path.join(folder, "copy"), wanted)
                os.replace(os.path.join(folder, "copy"), target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                beside = f"{target}.{os.getpid()}.tmp"
                self._copy(source, beside, wanted)
                os.replace(beside, target)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _copy(self, source: str, target: str, wanted: str) -> None:
        with open(target, "wb") as copy:
            found = hash_file(source, copy)
        if found != wanted:
            os.unlink(target)
            raise ValueError(f"'{source}' is damaged")

    def sweep(self) -> None:
        """Removes folders of steps that were killed and that nobody works on."""
        for name in os.listdir(self.path("running")):
            key = name.partition(".")[0]
            with contextlib.suppress(OSError):
                handle = os.open(self.path("running", f"{key}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(self.path("running", key), ignore_errors=True)
                    os.unlink(self.path("running", f"{key}.lock"))
                finally:
                    os.close(handle)


def _value_of(hashes: Dict[str, str], main: str) -> str:
    """The hash of an output: of its one file, or of the names and hashes of all."""
    return hashes[main] if list(hashes) == [main] else digest(sorted(hashes.items()))
