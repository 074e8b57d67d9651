"""What the generators of bad files share: the list of classes, and protobuf written by hand."""

import dataclasses
import pathlib
import random
import struct


@dataclasses.dataclass
class BadFile:
    door: str
    kind: str  # the class of the fault
    content: bytes
    errors: tuple  # each of them is right
    place: object = None  # makes what lies beside the file: called with the file's folder


class Classes:
    """Functions that give one file of a class for a random generator and its number in the class."""

    def __init__(self, door):
        self.door = door
        self.rows = []

    def add(self, kind, errors, count=12):
        """Decorates make(rng, number) -> bytes, or (bytes, place)."""
        errors = (errors,) if isinstance(errors, str) else tuple(errors)

        def register(make):
            self.rows.append((kind, errors, count, make))
            return make

        return register

    def files(self, seed):
        for kind, errors, count, make in self.rows:
            for number in range(count):
                made = make(random.Random(f"{seed} {self.door} {kind} {number}"), number)
                content, place = made if isinstance(made, tuple) else (made, None)
                yield BadFile(self.door, kind, content, errors, place)


def save(files, folder):
    """Writes each into a folder of its own where it has something beside it; gives (file, path) pairs."""
    suffix = {"onnx": ".onnx", "pt2": ".pt2", "npz": ".npz", "npy": ".npy", "image": ".png"}
    saved = []
    for index, file in enumerate(files):
        name = f"{index:05}{suffix.get(file.door, '.tenon')}"
        path = pathlib.Path(folder) / name
        if file.place:
            path = pathlib.Path(folder) / f"{index:05}" / name
            path.parent.mkdir()
            file.place(path.parent)
        path.write_bytes(file.content)
        saved.append((file, path))
    return saved


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, content):
    """A varint field of an int, else one of bytes."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def flip(rng, content, begin, end):
    at = rng.randrange(begin, end)
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1:]


def put(content, offset, layout, *values):
    packed = struct.pack(layout, *values)
    return content[:offset] + packed + content[offset + len(packed):]
