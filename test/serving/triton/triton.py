"""A real Triton for tests and measurements: the one of .venv-triton, with Tenon's backend and the Python backend over a folder of models.

Relies on `scripts/setup.sh triton`; where that was not run, `needed()` says so and the scripts skip or end.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"])
sys.path.insert(0, str(SOURCE / "test/serving"))

ENVIRONMENT = SOURCE / ".venv-triton"
PYTHON = ENVIRONMENT / "bin/python"
PERF_ANALYZER = ENVIRONMENT / "perf_analyzer"


def needed():
    """Why there is no Triton; empty where there is one."""
    return "" if PERF_ANALYZER.exists() else "the environment .venv-triton is missing: `scripts/setup.sh triton` makes it"


def packages():
    return next(ENVIRONMENT.glob("lib/python3.*/site-packages"))


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def make_backends(folder):
    """The folder of backends: Tenon's as it is built, and the Python backend with its stub for the environment's Python."""
    (folder / "tenon").mkdir(parents=True)
    for library in ("libtriton_tenon.so", "libtenon_runtime.so"):
        shutil.copy(BUILD / "lib" / library, folder / "tenon")
    # Its stub finds libraries by its place, so that the folder of the package stays as it is and files are linked to.
    server = packages() / "pytriton/tritonserver"
    (folder / "python").mkdir()
    for path in [*(server / "backends/python").glob("*.*"), server / "python_backend_stubs" / packages().parent.name.removeprefix("python") / "triton_python_backend_stub"]:
        (folder / "python" / path.name).symlink_to(path)
    return folder


class Triton:
    """A running Triton over a folder of models. Ends with the `with`."""

    def __init__(self, models, *arguments, waits=True):
        self.holder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.holder.name)
        self.port, self.grpc_port = free_port(), free_port()
        self.log_path = folder / "log"
        environment = {**os.environ, "PYTHONPATH": str(packages()), "PATH": f"{PYTHON.parent}:{os.environ['PATH']}"}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [packages() / "pytriton/tritonserver/bin/tritonserver", "--model-repository", models, "--backend-directory", make_backends(folder / "backends"),
                 "--http-address", "127.0.0.1", "--http-port", str(self.port), "--grpc-address", "127.0.0.1", "--grpc-port", str(self.grpc_port),
                 "--allow-metrics", "false", "--exit-on-error", "false", *arguments],
                stdout=log, stderr=subprocess.STDOUT, env=environment)
        if waits:
            self.wait_until_live()

    def wait_until_live(self, seconds=60):
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                if urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/health/live", timeout=5).status == 200:
                    return
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("Triton did not start: " + self.log())
            time.sleep(0.05)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.holder.cleanup()
