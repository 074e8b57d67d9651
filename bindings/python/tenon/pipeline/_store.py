"""The work folder: contents by their hash, results by the key of their step, and hashes of files that have not changed.

    objects/<hash>/<files>      what steps wrote, read-only
    results/<key>.json, .log    what a step gave, naming objects; the file appears when everything it names is there
    running/<key>/, <key>.lock  folder of a step that runs, and the lock that its processes hold
    hashes.json                 hashes of files by their size, times and inode

Any number of processes may use one folder: whatever appears, appears by a rename when it is complete.
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
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import _onnx_files

FORMAT = 1  # of keys and results
SETTLED_NS = 2_000_000_000  # a file that changed later than this before it was hashed is hashed again


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def hash_file(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _hash_open(file)


def _hash_open(file: Any) -> str:
    whole = hashlib.sha256()
    while block := file.read(1 << 20):
        whole.update(block)
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
        now, mark = time.time_ns(), signature(path)
        known = self._hashes.get(path)
        if isinstance(known, list) and len(known) == 4 and known[0] == mark and max(mark[3:]) + SETTLED_NS < known[1]:
            return known[2], known[3]
        value, weights = hash_file(path), _onnx_files.weights_of(path)
        self._hashes[path], self._changed = [mark, now, value, weights], True
        return value, weights

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
        """What a step gave, if all that it wrote is there in its size."""
        try:
            with open(self.path("results", f"{key}.json"), "rb") as file:
                found = json.load(file)
            for output in found["outputs"].values():
                for name, size in output["files"].items():
                    if os.stat(self.path("objects", output["sha256"], name)).st_size != size:
                        return None
            return found
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

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
        value = hashes[names[0]] if names == [main] else digest(sorted(hashes.items()))
        target = self.path("objects", value)
        if names == [main]:
            os.makedirs(target, exist_ok=True)
            os.replace(os.path.join(folder, main), os.path.join(target, main))
            _sync_folder(target)
        elif os.path.isdir(target) and {name: _size(os.path.join(target, name)) for name in names} == sizes:
            shutil.rmtree(folder)
        else:
            shutil.rmtree(target, ignore_errors=True)
            os.replace(folder, target)
        _sync_folder(self.path("objects"))
        return {"sha256": value, "main": main, "files": sizes, "bytes": sum(sizes.values())}

    def save_result(self, key: str, result: Dict[str, Any]) -> None:
        write_whole(self.path("results", f"{key}.json"), canonical(result))

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

    def place(self, source: str, target: str) -> None:
        """A copy that appears complete. It is written in the work folder, so that a killed process leaves nothing beside the target, if that is on the same file system."""
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        key = f"save-{digest(os.path.abspath(target))[:32]}"
        with self.lock(key):
            folder = self.path("running", key)
            os.makedirs(folder, exist_ok=True)
            try:
                shutil.copyfile(source, os.path.join(folder, "copy"))
                os.replace(os.path.join(folder, "copy"), target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                shutil.copyfile(source, f"{target}.{os.getpid()}.tmp")
                os.replace(f"{target}.{os.getpid()}.tmp", target)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

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


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return -1
