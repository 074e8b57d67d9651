"""Builds the Python package: a PEP 517 backend for `pip install .`, and a program for a build that is there.

    python bindings/python/build_wheel.py BUILD OUTPUT      packs the wheel from a finished CMake build

One wheel serves every Python from 3.10 on, since the package is Python over ctypes. Relies on the CMake targets
tenon_runtime, tenon_generate_c, tenon_compiler and tenon_launcher; the platform tag states the oldest glibc that they run on, and the test
python_wheel compares it with their symbols.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings/python/tenon"
PLATFORM = "manylinux_2_36"
TARGETS = ["tenon_runtime", "tenon_generate_c", "tenon_compiler", "tenon_launcher"]
# The place in the package of what CMake builds.
BINARIES = {
    "tenon/lib/libtenon_runtime.so": "lib/libtenon_runtime.so",
    "tenon/lib/libtenon_generate.so": "lib/libtenon_generate.so",
    "tenon/lib/libtenon_compiler.so": "lib/libtenon_compiler.so",
    "tenon/bin/tenon": "launcher/tenon",
}
# Of a build for another architecture (the presets aarch64 and riscv64): what runs engines, without the compiler and the command line.
RUNTIME = ["tenon/lib/libtenon_runtime.so"]
HEADERS = {f"tenon/include/tenon/{name}": ROOT / "include/tenon" / name for name in ("tenon.h", "tenon.hpp", "generate.h", "compiler.h", "graph.h", "graph.hpp")}
ENTRY_POINTS = """\
[console_scripts]
tenon = tenon.__main__:main

[mlflow.model_registry_store]
tenon = tenon.mlflow_store:TenonStore

[torch_dynamo_backends]
tenon = tenon.torch:backend
"""


def notices():
    """{name in the wheel: path} of the licence texts of what is linked in, which docs/reference/third-party.md lists."""
    packages = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs/reference/third-party.md").read_text(), re.M)
    paths = {package: pathlib.Path("/usr/share/doc") / package / "copyright" for package in packages}
    return {f"third-party/{package}": path for package, path in paths.items() if path.exists()}


def version():
    return re.search(r"project\(Tenon VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def metadata():
    licenses = "\n".join(f"License-File: {name}" for name in ["LICENSE", *notices()])
    return f"""\
Metadata-Version: 2.4
Name: tenon
Version: {version()}
Summary: Compiles trained models to engines, runs and explains them
License-Expression: Apache-2.0 WITH LLVM-exception
{licenses}
Requires-Python: >=3.10
Requires-Dist: numpy
Provides-Extra: torch
Requires-Dist: torch; extra == "torch"
Provides-Extra: pipeline
Requires-Dist: pyyaml; extra == "pipeline"
Description-Content-Type: text/markdown

{(ROOT / "README.md").read_text()}"""


def run(*command):
    subprocess.run([str(part) for part in command], cwd=ROOT, check=True)


def build(folder):
    """Configures and builds what the wheel holds, unless it is there and up to date."""
    if not (folder / "build.ninja").exists():
        run("cmake", "--preset", "release", "-B", folder)
    run("cmake", "--build", folder, "--target", *TARGETS)


def foreign_architecture(build_folder):
    """The processor that a build is for, if it is not x86-64."""
    cache = (pathlib.Path(build_folder) / "CMakeCache.txt").read_text()
    found = re.search(r"^CMAKE_SYSTEM_PROCESSOR:\w+=(\w+)$", cache, re.M)
    return found[1] if found and found[1] != "x86_64" else None


def stripped(path):
    """The bytes of a binary without symbols for debuggers."""
    with tempfile.NamedTemporaryFile() as file:
        run("strip", "--strip-unneeded", "-o", file.name, path)
        return pathlib.Path(file.name).read_bytes()


class Wheel:
    def __init__(self, path):
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6)
        self.record = []

    def add(self, name, data, executable=False):
        data = data.encode() if isinstance(data, str) else data
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes for the same build
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        self.archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 6)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, record_name):
        self.archive.writestr(record_name, "\n".join([*self.record, f"{record_name},,", ""]))
        self.archive.close()


def pack(build_folder, output):
    """Writes the wheel into the folder `output`; gives its name."""
    foreign = foreign_architecture(build_folder)
    platform = f"{PLATFORM}_{foreign or 'x86_64'}"
    name = f"tenon-{version()}-py3-none-{platform}.whl"
    os.makedirs(output, exist_ok=True)
    temporary = pathlib.Path(output) / (name + ".part")
    wheel = Wheel(temporary)
    for path in sorted([*PACKAGE.rglob("*.py"), PACKAGE / "py.typed"]):
        wheel.add(str(path.relative_to(PACKAGE.parent)), path.read_bytes())
    for place, path in HEADERS.items():
        wheel.add(place, path.read_bytes())
    for place in RUNTIME if foreign else BINARIES:
        path = pathlib.Path(build_folder) / BINARIES[place]
        # A foreign one was stripped by its linker.
        wheel.add(place, path.read_bytes() if foreign else stripped(path), executable=True)
    for path in sorted((ROOT / "docs").rglob("*.md")):  # what `tenon help` names
        wheel.add(f"tenon/{path.relative_to(ROOT)}", path.read_bytes())
    info = f"tenon-{version()}.dist-info"
    wheel.add(f"{info}/METADATA", metadata())
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: tenon\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n")
    if not foreign:
        wheel.add(f"{info}/entry_points.txt", ENTRY_POINTS)
    for place, path in {"LICENSE": ROOT / "LICENSE", **notices()}.items():
        wheel.add(f"{info}/licenses/{place}", path.read_bytes())
    wheel.close(f"{info}/RECORD")
    os.replace(temporary, pathlib.Path(output) / name)
    return name


# PEP 517.


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """`pip install . --config-settings build=FOLDER` takes another build than build/dev or build/release."""
    ready = [ROOT / "build/dev", ROOT / "build/release"]
    chosen = (config_settings or {}).get("build") or next((f for f in ready if (f / "build.ninja").exists()), ready[1])
    folder = ROOT / chosen
    build(folder)
    return pack(folder, wheel_directory)


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("Tenon is built from a clone: pip install . or pip wheel .")


if __name__ == "__main__":
    print(pack(sys.argv[1], sys.argv[2]))
