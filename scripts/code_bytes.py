#!/usr/bin/env python3
"""Whether two compilers give the same plans and code, but for the names of kernels, of all zoo graphs for each target.

    scripts/code_bytes.py --tenon build/dev/bin/tenon -o before.json      # before a change
    scripts/code_bytes.py --tenon build/dev/bin/tenon --against before.json

For changes that must not change code: the second call names every variant whose code, and every one whose plan alone, differs,
and fails if code does. Relies on the table of sections (docs/reference/engine-format.md).
"""

import argparse
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = {2: "plan", 3: "code"}
TARGETS = ("cpu", "cuda:sm_80", "cuda:sm_90", "cuda:sm_90a")


def elf_sections(data):
    """What a code object executes and reads: its sections but for tables of symbols."""
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, table + size * i) for i in range(count)]
    for name, kind, _, _, offset, length in headers:
        start = headers[names][4] + name
        if kind == 1 and data[start:data.index(b"\0", start)].startswith((b".text", b".rodata", b".data")):
            yield data[offset:offset + length]


def without_names(data):
    """Kernels and their symbols numbered in the order in which they come: names are hashes of what kernels were made from."""
    numbers = {}
    return re.sub(rb"k_[0-9a-f]{32}\w*", lambda name: b"k_%032d" % numbers.setdefault(name[0], len(numbers)), data)


def sections(engine):
    """Hashes of plans and code without the names of kernels, each list in the order of the variants, equal ones once."""
    data = engine.read_bytes()
    (count,) = struct.unpack_from("<I", data, 12)
    found = {name: [] for name in KINDS.values()}
    for place in range(64, 64 + 64 * count, 64):
        kind, _, offset, length = struct.unpack_from("<IIQQ", data, place)
        if kind in KINDS:
            content = data[offset:offset + length]
            content = b"".join(elf_sections(content)) if content.startswith(b"\x7fELF") else without_names(content)
            found[KINDS[kind]].append(hashlib.sha256(content).hexdigest()[:32])
    return {kind: list(dict.fromkeys(hashes)) for kind, hashes in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenon", type=pathlib.Path, required=True)
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--only", nargs="+", default=[""], help="graphs whose name contains one")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("--against", type=pathlib.Path)
    options = parser.parse_args()
    graphs = [ROOT / "models/fashion_cnn.onnx", *sorted((ROOT / "models").glob("*/*.onnx"))]
    result, seconds = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        engine = pathlib.Path(folder) / "e.tenon"
        for graph in (g for g in graphs if any(text in g.name for text in options.only)):
            for target in options.targets:
                start = time.monotonic()
                done = subprocess.run([options.tenon, "compile", graph, "-o", engine, "--target", target, "--no-cache",
                                       "--quiet"], stderr=subprocess.PIPE, text=True)  # fmt: skip
                seconds += time.monotonic() - start
                result[f"{graph.stem} {target}"] = sections(engine) if done.returncode == 0 else {"refused": done.stderr[:200]}
    print(f"{len(result)} engines, {seconds:.0f} s")
    if options.output:
        options.output.write_text(json.dumps(result, indent=0))
    if not options.against:
        return 0
    before = json.loads(options.against.read_text())
    changed = {kind: [key for key in result if result[key].get(kind) != before.get(key, {}).get(kind)] for kind in ("refused", "code", "plan")}
    for kind, keys in changed.items():
        print(f"{kind}: {len(keys)} differ", *keys, sep="\n  ")
    return 1 if changed["refused"] or changed["code"] else 0


if __name__ == "__main__":
    sys.exit(main())
