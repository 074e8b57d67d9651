#!/usr/bin/env python3
"""Makes Triton's perf_analyzer run on glibc 2.36, for which its wheel is too new.

    perf_analyzer.py FOLDER        downloads it, and leaves FOLDER/perf_analyzer and FOLDER/libpreload.so

Versions of glibc and libstdc++ that the system lacks are made weak in the program; what it takes of them is in perf_analyzer_preload.cpp.
Relies on pip, clang++-22 and the layout of ELF.
"""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

VERSION = "2.60.0"
MISSING = {b"GLIBC_2.38", b"GLIBCXX_3.4.31", b"GLIBCXX_3.4.32"}
SHT_GNU_VERNEED, VER_FLG_WEAK = 0x6FFFFFFE, 2


def sections(image):
    """(type, offset, link, number of entries) of each section."""
    start, = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    for i in range(count):
        _, kind, _, _, offset, _, link, info = struct.unpack_from("<IIQQQQII", image, start + i * size)
        yield kind, offset, link, info


def make_weak(image):
    """How many versions were made weak."""
    found = 0
    table = list(sections(image))
    for kind, need, link, files in table:
        if kind != SHT_GNU_VERNEED:
            continue
        names = table[link][1]
        for _ in range(files):
            _, versions, _, first, next_need = struct.unpack_from("<HHIII", image, need)
            version = need + first
            for _ in range(versions):
                _, flags, _, name, next_version = struct.unpack_from("<IHHII", image, version)
                text = bytes(image[names + name:image.index(b"\0", names + name)])
                if text in MISSING:
                    struct.pack_into("<H", image, version + 4, flags | VER_FLG_WEAK)
                    found += 1
                version += next_version
            need += next_need
    return found


def main():
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--platform", "manylinux_2_38_x86_64",
                        f"perf-analyzer=={VERSION}", "-d", folder], check=True)
        wheel, = pathlib.Path(folder).glob("*.whl")
        image = bytearray(zipfile.ZipFile(wheel).read("perf_analyzer/bin/perf_analyzer"))
    weak = make_weak(image)
    if weak != len(MISSING):
        sys.exit(f"perf_analyzer needs {weak} of the {len(MISSING)} versions that were expected")
    program = target / "perf_analyzer"
    program.write_bytes(image)
    os.chmod(program, 0o755)
    source = pathlib.Path(__file__).with_name("perf_analyzer_preload.cpp")
    subprocess.run(["clang++-22", "-O1", "-shared", "-fPIC", source, "-o", target / "libpreload.so"], check=True)


if __name__ == "__main__":
    main()
