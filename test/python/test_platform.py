"""Pipelines on Ray, and models from MLflow's registry and back. Runs in the environment of in_wheel.py with .venv-platform, whose servers these tests start."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import mlflow
import ray
import tenon
import tenon.mlflow
from mlflow.exceptions import MlflowException
from tenon import pipeline

MODELS = pathlib.Path(os.environ["TENON_MODELS"])
PACKAGE = str(pathlib.Path(tenon.__file__).parents[1])

WHOLE = """\
steps:
  ingest: {model: linear.onnx}
  engine: {step: compile, model: $ingest, each: {target: [cpu:avx2, cpu:avx512]}, save: "out/{label}.tenon"}
  mine: {step: "own.py:twice", model: $ingest, outputs: {out: twice.bin}, save: out/twice.bin}
  sum: {run: [sh, -c, "sha256sum < {model} > {out}"], inputs: {model: $mine}, outputs: {out: sum.txt}, save: out/sum.txt}
"""
DIES = """\
import os, signal
def once(out):
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), "died")
    open(out, "w").write("done")
    pid = os.getpid()
    while not os.path.exists(place):  # up to the worker of Ray
        if open(f"/proc/{pid}/cmdline").read().startswith("ray::"):
            open(place, "w").close()
            os.kill(pid, signal.SIGKILL)
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
"""
OWN = "def twice(model, out):\n    data = open(model, 'rb').read()\n    open(out, 'wb').write(data + data)\n"


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


class Platform(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """One tracking server's database for all, since making one takes long; artifacts go below the current folder."""
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(holder.name)
        cls.uri = f"sqlite:///{holder.name}/ml.db"
        mlflow.set_tracking_uri(cls.uri)

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        shutil.copy(MODELS / "linear.onnx", self.folder)
        (self.folder / "own.py").write_text(OWN)

    def write(self, text):
        (self.folder / "p.yaml").write_text(text)
        return self.folder / "p.yaml"

    def test_steps_run_here_while_ray_starts(self):
        """What measures waits for Ray, and from then on steps run there. Nothing to run starts no Ray."""
        where = "run: [sh, -c, 'echo ${RAY_RAYLET_PID:-here} NAME > {out}'], outputs: {out: pid.txt}"
        path = self.write(f"""\
steps:
  engine: {{step: compile, model: linear.onnx, target: "cpu:avx2"}}
  first: {{{where.replace("NAME", "1")}, save: out/first}}
  bench: {{engine: $engine, runs: 3, batch: 1, after: first}}
  last: {{{where.replace("NAME", "2")}, after: bench, save: out/last}}
""")
        self.assertEqual(4, pipeline.run(path, jobs=2, executor="ray")["executed"])
        self.assertEqual("here 1\n", (self.folder / "out/first").read_text())
        self.assertRegex((self.folder / "out/last").read_text(), r"^\d+ 2\n$")
        with unittest.mock.patch("ray.init", side_effect=AssertionError):
            self.assertEqual(0, pipeline.run(path, jobs=2, executor="ray")["executed"])
            with self.assertRaisesRegex(tenon.CheckFailedError, "Ray does not start: AssertionError"):
                pipeline.run(path, executor="ray", again=["bench"])

    def test_ray_runs_the_same_file(self):
        """All of it in a Ray that is there already."""
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": {"PYTHONPATH": PACKAGE}})
        self.addCleanup(ray.shutdown)
        path = self.write(WHOLE)
        self.assertEqual(5, pipeline.run(path, jobs=2)["executed"])
        local = digests(self.folder / "out")
        shutil.rmtree(self.folder / "out")
        self.assertEqual(5, pipeline.run(path, jobs=2, executor="ray", work=str(self.folder / "on-ray"))["executed"])
        self.assertEqual(local, digests(self.folder / "out"))
        with self.assertRaises(tenon.CheckFailedError) as caught:
            pipeline.run(self.write("steps: {bad: {run: [sh, -c, 'echo said; exit 3']}, good: {run: ['true']}}"), executor="ray")
        self.assertIn("'sh' ended with 3\n  | said", str(caught.exception))
        self.assertEqual(["failed", "done"], [row["state"] for row in caught.exception.report["steps"]])

    def test_matrix_resources_and_retries_on_ray(self):
        """A step that fails twice, a worker that dies, steps that take the whole cluster, a GPU by its number, and what no node has."""
        ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": {"PYTHONPATH": PACKAGE}})
        self.addCleanup(ray.shutdown)
        (self.folder / "models").mkdir()
        for name in ("linear", "normed"):
            shutil.copy(MODELS / f"{name}.onnx", self.folder / "models")
        (self.folder / "dies.py").write_text(DIES)
        path = self.write(f"""\
steps:
  engine: {{step: compile, each: {{model: "models/*.onnx", target: [cpu:avx2, cpu:avx512]}}, resources: {{memory: 100MiB}}, save: "out/{{label}}.tenon"}}
  flaky: {{run: [sh, -c, 'echo x >> {self.folder}/tries; test $(wc -l < {self.folder}/tries) -ge 3 && echo done > {{out}}'], outputs: {{out: f.txt}}, retries: 3, retry-delay: 0.1s}}
  dies: {{step: "dies.py:once", outputs: {{out: d.txt}}, retries: 1, retry-delay: 0.1s}}
  gpu: {{run: [sh, -c, 'echo $CUDA_VISIBLE_DEVICES > {{out}}'], outputs: {{out: g.txt}}, resources: {{gpu: 1}}, save: out/gpu.txt}}
  wide: {{run: [sh, -c, 'echo begin >> {self.folder}/at; sleep 0.1; echo end >> {self.folder}/at; echo {{label}} > {{out}}'], outputs: {{out: w.txt}}, each: {{label: [a, b, c]}}, resources: {{cpu: 2}}}}
""")
        report = pipeline.run(path, jobs=2, executor="ray")
        self.assertEqual((10, {"done"}), (report["executed"], {row["state"] for row in report["steps"]}))
        self.assertEqual(4, len(list((self.folder / "out").glob("*.tenon"))))
        self.assertEqual((3, "0\n", ["begin", "end"] * 3), ((self.folder / "tries").read_text().count("x"), (self.folder / "out/gpu.txt").read_text(), (self.folder / "at").read_text().split()))
        # All but the one whose command names a file that it has changed.
        self.assertEqual(["flaky"], [row["name"] for row in pipeline.run(path, jobs=2, executor="ray")["steps"] if row["state"] == "done"])
        ray.shutdown()
        with self.assertRaisesRegex(tenon.CheckFailedError, "it asks for gpu 8, which Ray on this machine does not have"):
            pipeline.run(self.write("steps: {many: {run: ['true'], resources: {gpu: 8}}}"), executor="ray")

    def test_from_mlflow_and_back(self):
        uri = self.uri
        client = mlflow.MlflowClient()
        first = tenon.mlflow.publish("cnn", str(self.folder / "linear.onnx"), metrics={"top1": 0.5}, alias="champion")
        self.assertEqual(("1", False), (first["version"], first["existing"]))
        again = tenon.mlflow.publish("cnn", str(self.folder / "linear.onnx"), alias="champion")
        self.assertEqual(("1", True), (again["version"], again["existing"]))
        self.assertEqual({"top1": 0.5}, tenon.mlflow.fetch("models:/cnn@champion", str(self.folder / "fetched"))["metrics"])
        path = self.write(f"""\
steps:
  mlflow-fetch: {{uri: "models:/cnn@champion", tracking_uri: "{uri}"}}
  compile: {{model: $mlflow-fetch, target: "cpu:avx2"}}
  bench: {{engine: $compile, runs: 3, batch: 1}}
  mlflow-publish: {{file: $compile, name: cnn-engine, reports: $bench, alias: ready, tags: [target=avx2], tracking_uri: "{uri}"}}
""")
        self.assertEqual(4, pipeline.run(path)["executed"])
        version = client.get_model_version_by_alias("cnn-engine", "ready")
        self.assertEqual(("1", "avx2"), (str(version.version), version.tags["target"]))
        self.assertLessEqual({"latency_median_ms", "throughput_per_s"}, set(client.get_run(version.run_id).data.metrics))
        # The alias is asked for each time; the same version needs nothing more, another one all.
        self.assertEqual({"mlflow-fetch"}, {row["name"] for row in pipeline.run(path)["steps"] if row["state"] == "done"})
        tenon.mlflow.publish("cnn", str(MODELS / "normed.onnx"), alias="champion")
        self.assertEqual(4, pipeline.run(path)["executed"])
        self.assertEqual("2", str(client.get_model_version_by_alias("cnn-engine", "ready").version))

    def test_the_client_of_mlflow_on_a_registry(self):
        """MlflowClient against `tenon:`: what it writes, `tenon registry` has, and the other way round."""
        place = self.folder / "registry"
        tool = lambda *words: json.loads(subprocess.run([sys.executable, "-m", "tenon", "registry", "--registry", place, "--json", *map(str, words)], check=True, capture_output=True, text=True).stdout)
        client = mlflow.MlflowClient(registry_uri=f"tenon:{place}")
        subprocess.run([sys.executable, "-m", "tenon", "registry", "--registry", place, "push", "vision/other", self.folder / "linear.onnx"], check=True, capture_output=True)
        client.create_registered_model("cnn", tags={"team": "vision"}, description="digits")
        with mlflow.start_run() as run:
            mlflow.log_artifact(str(self.folder / "linear.onnx"), "model")
        first = client.create_model_version("cnn", f"runs:/{run.info.run_id}/model", run.info.run_id, tags={"stage": "tried"}, description="the first")
        second = client.create_model_version("cnn", str(MODELS / "normed.onnx"))
        self.assertEqual((["1", "2"], run.info.run_id, "the first", "tried"), ([str(first.version), str(second.version)], first.run_id, first.description, first.tags["stage"]))
        with self.assertRaisesRegex(MlflowException, "already exists"):
            client.create_registered_model("cnn")
        client.set_registered_model_alias("cnn", "production", 1)
        client.set_registered_model_alias("cnn", "production", "2")
        self.assertEqual(["promote", "promote"], [event["action"] for event in tool("history", "cnn@production")["events"]])
        tool("rollback", "cnn@production")
        by_alias = client.get_model_version_by_alias("cnn", "production")
        self.assertEqual(("1", ["production"]), (str(by_alias.version), by_alias.aliases))
        client.set_model_version_tag("cnn", 2, "checked", "no")
        client.set_model_version_tag("cnn", 2, "checked", "yes = now")
        client.set_model_version_tag("cnn", 2, "gone", "x")
        client.delete_model_version_tag("cnn", 2, "gone")
        client.update_model_version("cnn", 2, description="the second")
        self.assertEqual({"checked": "yes = now", "mlflow.note.content": "the second"}, tool("show", "cnn:2")["tags"])
        self.assertEqual("the second", client.get_model_version("cnn", 2).description)
        model = client.get_registered_model("cnn")
        self.assertEqual(("digits", {"team": "vision"}, {"production": 1}), (model.description, model.tags, {alias: int(number) for alias, number in model.aliases.items()}))
        client.set_registered_model_tag("cnn", "team", "other")
        self.assertEqual(["cnn"], [each.name for each in client.search_registered_models("tags.team = 'other'")])
        self.assertEqual(["cnn", "vision~other"], [each.name for each in client.search_registered_models(order_by=["name ASC"])])
        self.assertEqual(["cnn"], [each.name for each in client.search_registered_models(max_results=1)])
        self.assertEqual([2], [int(each.version) for each in client.search_model_versions("name = 'cnn' and tags.checked = 'yes = now'")])
        self.assertEqual([1], [int(each.version) for each in client.search_model_versions(f"run_id = '{run.info.run_id}'")])
        copied = client.copy_model_version("models:/cnn@production", "vision~mine")
        self.assertEqual("cnn:1", tool("show", f"vision/mine:{copied.version}")["facts"]["parent"])
        with unittest.mock.patch("mlflow.tracking._model_registry.utils._registry_uri", f"tenon:{place}"):
            fetched = tenon.mlflow.fetch("models:/vision~other/1", str(self.folder / "fetched"))
        self.assertEqual((self.folder / "linear.onnx").read_bytes(), pathlib.Path(fetched["model"]).read_bytes())
        for code, call in (("RESOURCE_DOES_NOT_EXIST", lambda: client.get_model_version("cnn", 7)), ("RESOURCE_DOES_NOT_EXIST", lambda: client.get_registered_model("none")),
                           ("RESOURCE_DOES_NOT_EXIST", lambda: client.get_model_version_by_alias("cnn", "none")), ("INVALID_PARAMETER_VALUE", lambda: client.delete_model_version("cnn", 1)),
                           ("INVALID_PARAMETER_VALUE", lambda: client.create_model_version("cnn", str(self.folder / "own.py")))):  # fmt: skip
            with self.assertRaises(MlflowException) as caught:
                call()
            self.assertEqual(code, caught.exception.error_code, caught.exception)
        self.assertEqual([], tool("verify")["problems"])

    def test_what_the_bridge_refuses(self):
        with self.assertRaisesRegex(tenon.UsageError, "models:/NAME@ALIAS"):
            tenon.mlflow.fetch("cnn@champion", str(self.folder))
        (self.folder / "model.pkl").write_bytes(b"\x80\x04.")
        tenon.mlflow.publish("pickled", str(self.folder / "model.pkl"))
        with self.assertRaisesRegex(tenon.BadInputError, "no .onnx or .pt2 among model.pkl"):
            tenon.mlflow.fetch("models:/pickled/1", str(self.folder / "x"))
        self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    unittest.main()
