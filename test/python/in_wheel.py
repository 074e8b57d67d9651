"""Runs a test script in an environment made from the wheel: `in_wheel.py SCRIPT [PYTHON [ARGUMENT...]]`.

Without PYTHON, or where it is "clean", the environment is a new one with the wheel, numpy and PyYAML only, kept in the build folder until the wheel
changes. With PYTHON, which has torch, the wheel is unpacked beside it; without that program the test is skipped. The models
are made here, since the environment has no onnx. Relies on the target `wheel` being built.
"""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"])
FOLDER = BUILD / "test/python/work"
PACKAGES = ["numpy", "pyyaml"]


def wheel():
    found = sorted((BUILD / "wheel").glob("tenon-*.whl"))
    if len(found) != 1:
        sys.exit(f"one wheel is expected in {BUILD / 'wheel'}, there are {len(found)}: build the target 'wheel'")
    return found[0]


def environment(path, stamp):
    """The python of a clean environment with the wheel."""
    folder = FOLDER / "env"
    python = folder / "bin/python"
    stamp = f"{stamp} {' '.join(PACKAGES)}"
    if (folder / "stamp").exists() and (folder / "stamp").read_text() == stamp:
        return python
    if not python.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES], check=True)
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--force-reinstall", path]
    subprocess.run(install, check=True)
    (folder / "stamp").write_text(stamp)
    return python


def unpacked(path, stamp):
    """A folder for PYTHONPATH with the wheel's content."""
    folder = FOLDER / f"unpacked-{stamp[:16]}"
    if not folder.exists():
        for old in FOLDER.glob("unpacked-*"):
            shutil.rmtree(old, ignore_errors=True)
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        (folder / "tenon/bin/tenon").chmod(0o755)
    return folder


def main():
    script, *rest = sys.argv[1:]
    torch, arguments = [python for python in rest[:1] if python != "clean"], rest[1:]
    variables = {**os.environ, "TENON_MODELS": str(FOLDER / "models"), "XDG_CACHE_HOME": str(FOLDER / "cache")}
    if torch and not pathlib.Path(torch[0]).exists():
        print(f"{script}: skipped, since {torch[0]} is missing: scripts/setup.sh makes it\n\nOK (skipped=1)")
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = wheel()
    stamp = hashlib.sha256(path.read_bytes()).hexdigest()
    with open(FOLDER / "lock", "w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if torch:
            python = torch[0]
            variables["PYTHONPATH"] = str(unpacked(path, stamp))
        else:
            python = environment(path, stamp)
        made = FOLDER / "models/done"
        if not made.exists() or made.stat().st_mtime < (HERE / "make_models.py").stat().st_mtime:
            subprocess.run([sys.executable, HERE / "make_models.py", FOLDER / "models"], check=True)
    variables["TENON_WHEEL"] = str(path)
    return subprocess.run([python, HERE / script, *arguments], env=variables).returncode


if __name__ == "__main__":
    sys.exit(main())
