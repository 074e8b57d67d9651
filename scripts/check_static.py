#!/usr/bin/env python3
"""Checks that a `tenon` of the static preset can be carried to another machine: what it links, its size, and that it
compiles and runs a model with an empty environment. Relies on objdump, and on nothing of Tenon but the binary.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
LIMIT = 90 * 1000 * 1000


def needed(binary):
    """Libraries that the loader would open, and the newest glibc version asked for."""
    table = subprocess.run(["objdump", "-p", binary], check=True, stdout=subprocess.PIPE, text=True).stdout
    versions = re.findall(r"\bGLIBC_([0-9.]+)", table)
    newest = max(versions, key=lambda text: [int(part) for part in text.split(".")], default="none")
    return re.findall(r"^\s*NEEDED\s+(\S+)", table, re.M), newest


def link_faults(binary):
    libraries, _ = needed(binary)
    faults = [f"needs {library}, which another machine may not have" for library in libraries
              if library not in ALLOWED]
    size = binary.stat().st_size
    if size > LIMIT:
        faults.append(f"has {size / 1e6:.1f} MB, more than {LIMIT / 1e6:.0f}")
    return faults


def run_faults(binary, model):
    """Compiles and runs the model with nothing in the environment."""
    with tempfile.TemporaryDirectory() as folder:
        engine = f"{folder}/model.tenon"
        for command in (["compile", model, "-o", engine, "--no-cache", "--quiet"], ["run", engine, "--quiet"]):
            done = subprocess.run([binary, *command], env={}, cwd=folder, timeout=120,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                return [f"{command[0]} ended with {done.returncode}: {done.stdout.strip()}"]
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/fashion_cnn.onnx")
    parser.add_argument("--links-only", action="store_true", help="for a program that is no tenon")
    options = parser.parse_args()
    faults = link_faults(options.binary)
    if not faults and not options.links_only:
        faults = run_faults(options.binary, options.model.resolve())
    if faults:
        sys.exit("\n".join(f"check_static: {options.binary.name} {fault}" for fault in faults))
    libraries, newest = needed(options.binary)
    did = "" if options.links_only else f", compiles and runs {options.model.name} with an empty environment"
    print(f"{options.binary.name}: {options.binary.stat().st_size / 1e6:.1f} MB, needs {', '.join(libraries)} "
          f"with GLIBC_{newest} or newer{did}")


if __name__ == "__main__":
    main()
