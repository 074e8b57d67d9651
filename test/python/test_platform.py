"""Pipelines on Ray, and models from MLflow's registry and back. Runs in the environment of in_wheel.py with .venv-platform, whose servers these tests start."""

import hashlib
import os
import pathlib
import shutil
import tempfile
import unittest
import unittest.mock

import mlflow
import ray
import tenon
import tenon.mlflow
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
