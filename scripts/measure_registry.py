"""Measures the registry beside MLflow's server, in turn: a page of a list, what an alias is at, moving an alias.

    PYTHON_WITH_MLFLOW scripts/measure_registry.py --build build/dev [--models 200] [--versions 5] [--rounds 200]

Both are on SQLite in the same folder, with the same models, versions and aliases. MLflow is asked by its own client over HTTP, by
one connection, as its users do. Tenon has no server for this: it is asked twice, by `tenon registry` as a process for each question
(with --json), and by a process that stays and uses the library (registry_speed answer). Prints the medians and, of the ratios of
the pairs, median and quartiles.
"""

import argparse
import atexit
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import mlflow


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def name_of(model):
    return f"model-{model:05}"


class MlflowServer:
    def __init__(self, folder, models, versions):
        port = free_port()
        command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--default-artifact-root", f"{folder}/artifacts", "--host", "127.0.0.1",
                   "--port", str(port), "--workers", "1"]
        # Without its executors of jobs, which have nothing to do with the registry.
        environment = dict(os.environ, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false")
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, start_new_session=True)
        atexit.register(self.close)
        self.client = mlflow.MlflowClient(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}")
        for _ in range(600):
            try:
                self.client.search_registered_models(max_results=1)
                break
            except Exception:  # until it listens
                time.sleep(0.2)
        for model in range(models):
            self.client.create_registered_model(name_of(model))
            for version in range(1, versions + 1):
                self.client.create_model_version(name_of(model), f"s3://models/{model}/{version}")  # nothing is stored
            self.client.set_registered_model_alias(name_of(model), "production", str(versions))

    def list(self, name):
        assert len(self.client.search_registered_models(max_results=100)) > 0

    def resolve(self, name):
        self.client.get_model_version_by_alias(name, "production")

    def promote(self, name, version):
        self.client.set_registered_model_alias(name, "production", str(version))

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(30)


class Resident:
    """The library in a process that stays."""

    def __init__(self, build, registry):
        self.process = subprocess.Popen([build / "test/registry/registry_speed", "answer", registry], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        assert self.process.stdout.readline()

    def list(self, name):
        self.ask("list model")  # the first page, as of the other

    def resolve(self, name):
        self.ask(f"resolve {name}")

    def promote(self, name, version):
        self.ask(f"promote {name} {version}")

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


class Command:
    """A process for each question."""

    def __init__(self, build, registry):
        self.start = [build / "bin/tenon", "registry", "--registry", registry, "--json"]

    def call(self, *arguments):
        subprocess.run([*self.start, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

    def list(self, name):
        self.call("list")

    def resolve(self, name):
        self.call("show", f"{name}@production")

    def promote(self, name, version):
        self.call("promote", f"{name}:{version}", "production")

    def close(self):
        pass


def milliseconds(work, *arguments):
    start = time.perf_counter()
    work(*arguments)
    return (time.perf_counter() - start) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/dev"))
    for name, value in (("models", 200), ("versions", 5), ("rounds", 200)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    chance, build = random.Random(1), options.build.resolve()
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = pathlib.Path(name).resolve()
        subprocess.run([build / "test/registry/registry_speed", "fill", folder / "registry", str(options.models), str(options.versions)], check=True)
        server = MlflowServer(folder, options.models, options.versions)
        ours = {"library": Resident(build, folder / "registry"), "command": Command(build, folder / "registry")}
        print(f"mlflow {mlflow.__version__}, {options.models} models of {options.versions} versions, {options.rounds} rounds\n")
        print("| | MLflow p50 | ours | p50 | ratio, median (quartiles) |\n|---|---|---|---|---|")
        for what in ("list", "resolve", "promote"):
            times = {"mlflow": [], **{each: [] for each in ours}}
            for _ in range(options.rounds):
                model = name_of(chance.randrange(options.models))
                extra = [chance.randrange(1, options.versions + 1)] if what == "promote" else []
                for each, asked in (("mlflow", server), *ours.items()):
                    # Each moves the alias: to where the other has it would be nothing to do.
                    times[each].append(milliseconds(getattr(asked, what), model, *extra))
                    extra = [extra[0] % options.versions + 1] if extra and each != "mlflow" else extra
            for each in ours:
                ratios = [theirs / mine for theirs, mine in zip(times["mlflow"], times[each])]
                low, middle, high = statistics.quantiles(ratios, n=4)
                print(f"| {what} | {statistics.median(times['mlflow']):.2f} ms | {each} | {statistics.median(times[each]):.2f} ms | {middle:.1f} ({low:.1f} to {high:.1f}) |", flush=True)
        for each in (server, *ours.values()):
            each.close()


if __name__ == "__main__":
    main()
