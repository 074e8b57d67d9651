"""tenon.pipeline: runs and reruns, what is run again after a change, kills, faults of the file with their lines, steps side by side, steps of users.

Runs in the environment of in_wheel.py, which has PyYAML. Nothing here depends on how long something takes, but that steps overlap.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import zipfile

import tenon
from tenon import pipeline
from tenon.pipeline import _run

MODELS = pathlib.Path(os.environ["TENON_MODELS"])
SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])

WHOLE = """\
name: cnn
steps:
  ingest: {model: cnn.onnx}
  check: {model: $ingest, target: cpu}
  narrow: {step: quantize, model: $ingest, weights-only: 8}
  graph: {model: $narrow, after: check}
  engine:
    step: compile
    model: $narrow
    each: {target: [cpu:avx2, cpu:avx512]}
    save: out/{label}.tenon
  validate: {engine: "$engine[cpu:avx2]", model: $narrow, batch: 2}
  bench: {engine: "$engine[cpu:avx2]", runs: 3, batch: 1}
  count:
    run: [sh, -c, "cat {graph} {model} > {out}"]
    inputs: {graph: $graph, model: $narrow}
    outputs: {out: both.bin}
  mine: {step: "own.py:halve", model: $narrow, times: 2, outputs: {out: half.bin}}
  package:
    files: [$engine, $graph, $count, $mine]
    after: [validate, bench]
    save: out/cnn.zip
"""
OWN = '''\
from tenon import pipeline
def halve(model: pipeline.File, out, times: int = 1):
    data = open(model, "rb").read()
    open(out, "wb").write(data[: len(data) // 2] * times)
    return {"halves": times}
'''


def digests(folder):
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()}


class PipelineTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) if hasattr(self, "enterContext") else pathlib.Path(tempfile.mkdtemp())
        shutil.copy(MODELS / "linear.onnx", self.folder)
        shutil.copy(SOURCE / "models/fashion_cnn.onnx", self.folder / "cnn.onnx")
        (self.folder / "own.py").write_text(OWN)
        (self.folder / "p.yaml").write_text(WHOLE)

    def change(self, old, new, name="p.yaml"):
        text = (self.folder / name).read_text()
        self.assertIn(old, text)
        (self.folder / name).write_text(text.replace(old, new))

    def run_it(self, name="p.yaml", **options):
        return pipeline.run(self.folder / name, **options)

    def ran(self, report):
        return {row["name"] for row in report["steps"] if row["state"] == "done"}

    def command(self, *arguments, **options):
        return subprocess.run([sys.executable, "-m", "tenon.pipeline", *arguments], cwd=self.folder, capture_output=True, text=True, **options)

    def write(self, text, name="q.yaml"):
        (self.folder / name).write_text(text)
        return self.folder / name


class Running(PipelineTest):
    def test_run_and_rerun(self):
        done = self.command("run", "p.yaml", "--json", "--report", "r.html", "--progress=json")
        self.assertEqual(done.returncode, 0, done.stderr)
        first = json.loads(done.stdout)
        self.assertEqual((first["schema"], first["state"], first["executed"], first["cached"]), ("tenon.pipeline/1", "done", 11, 0))
        events = [json.loads(line) for line in done.stderr.splitlines()]
        self.assertEqual(11, events[-1]["ended"])
        out = digests(self.folder / "out")
        self.assertEqual({"cpu-avx2.tenon", "cpu-avx512.tenon", "cnn.zip"}, set(out))
        self.assertEqual(2, next(row for row in first["steps"] if row["name"] == "mine")["facts"]["halves"])
        with zipfile.ZipFile(self.folder / "out/cnn.zip") as archive:
            manifest = json.loads(archive.read("manifest.json"))
            self.assertEqual(set(archive.namelist()), {"manifest.json", *manifest["files"]})
            self.assertEqual({"engine-cpu-avx2/engine.tenon", "engine-cpu-avx512/engine.tenon", "graph/graph.html", "count/both.bin", "mine/half.bin"}, set(manifest["files"]))
            for name, facts in manifest["files"].items():
                self.assertEqual(hashlib.sha256(archive.read(name)).hexdigest(), facts["sha256"])
        text = (self.folder / "r.html").read_text()
        self.assertIn("engine[cpu:avx512]", text)
        self.assertNotIn("<script", text)

        again = self.run_it()
        self.assertEqual((again["executed"], again["cached"]), (0, 11))
        self.assertEqual(out, digests(self.folder / "out"))
        # A touched file has the same content; a removed result is written once more from the objects.
        os.utime(self.folder / "cnn.onnx")
        (self.folder / "out/cnn.zip").unlink()
        self.assertEqual(self.run_it()["executed"], 0)
        self.assertEqual(out, digests(self.folder / "out"))
        self.assertEqual(self.ran(self.run_it(again=["count"])), {"count"})
        # Elsewhere the bytes are the same.
        self.run_it(work="elsewhere", jobs=1)
        self.assertEqual(out, digests(self.folder / "out"))

    def test_a_change_runs_what_depends_on_it(self):
        self.run_it()
        for old, new, expected in (
            ("runs: 3", "runs: 4", {"bench"}),
            ("target: cpu}", "target: cpu:avx2}", {"check"}),
            ("batch: 2", "batch: 3", {"validate"}),
            ("times: 2", "times: 3", {"mine", "package"}),
            ("cat {graph} {model}", "cat {model} {graph}", {"count", "package"}),
            ("[cpu:avx2, cpu:avx512]", "[cpu:avx2, cpu:avx-vnni]", {"engine[cpu:avx-vnni]", "package"}),
            ("weights-only: 8", "weights-only: 8, keep: none_such", {"narrow"}),
        ):
            with self.subTest(new):
                self.change(old, new)
                if "none_such" in new:  # refused by the tool, so that nothing below runs
                    with self.assertRaises(tenon.CheckFailedError) as caught:
                        self.run_it()
                    states = {row["name"]: row["state"] for row in caught.exception.report["steps"]}
                    self.assertEqual(("failed", "skipped", "cached"), (states["narrow"], states["package"], states["check"]))
                    self.change(new, old)
                    continue
                self.assertEqual(self.ran(self.run_it()), expected)
        (self.folder / "own.py").write_text(OWN.replace("* times", "* (times + 1)"))
        self.assertEqual(self.ran(self.run_it()), {"mine", "package"})
        (self.folder / "own.py").write_text(OWN + "# the same bytes come out\n")
        self.change("times: 3", "times: 4")
        self.assertEqual(self.ran(self.run_it()), {"mine"})
        shutil.copy(SOURCE / "models/resnet20_fashion.onnx", self.folder / "cnn.onnx")
        self.assertEqual(self.ran(self.run_it()), {row["name"] for row in self.run_it()["steps"]})

    def test_a_damaged_object_is_made_again(self):
        report = self.run_it()
        path = pathlib.Path(next(row for row in report["steps"] if row["name"] == "count")["outputs"]["out"]["path"])
        wanted = path.read_bytes()
        for damaged in (b"short", wanted[:-1] + bytes([wanted[-1] ^ 1])):  # the second in its size
            path.chmod(0o600)
            path.write_bytes(damaged)
            self.assertEqual(self.ran(self.run_it()), {"count"})
            self.assertEqual(wanted, path.read_bytes())
        record = self.folder / ".p.work/results" / (next(row for row in report["steps"] if row["name"] == "mine")["key"] + ".json")
        record.write_text(record.read_text().replace('"halves":2', '"halves":3'))
        self.assertEqual(self.ran(self.run_it()), {"mine"})

    def test_what_changed_without_a_trace_is_not_used(self):
        """As a disk may do it: the hashes that are known say that nothing changed. What a step reads and what is saved is hashed all the same."""
        from tenon.pipeline import _store

        text = "steps:\n  ingest: {model: linear.onnx, save: copy.onnx}\n  more: {run: [sh, -c, 'cat {m} > {out}; true NUMBER'], inputs: {m: $ingest}, outputs: {out: out.bin}}\n"
        path = self.write(text.replace("NUMBER", "1"))
        model = pathlib.Path(pipeline.run(path)["steps"][0]["outputs"]["model"]["path"])
        wanted = model.read_bytes()

        def damage():
            model.chmod(0o600)
            model.write_bytes(wanted[:-1] + bytes([wanted[-1] ^ 1]))
            store = _store.Store(self.folder / ".q.work")
            store._hashes[str(model)], store._changed = [_store.signature(str(model)), time.time_ns() + 10**10, hashlib.sha256(wanted).hexdigest(), []], True
            store.save_hashes()

        for change, problem in ((lambda: self.write(text.replace("NUMBER", "2")), "'ingest' gave was damaged"), ((self.folder / "copy.onnx").unlink, "is damaged")):
            damage()
            change()
            with self.assertRaisesRegex(tenon.CheckFailedError, problem):
                pipeline.run(path)
            if model.exists():
                self.assertFalse((self.folder / "copy.onnx").exists())
                model.unlink()
            pipeline.run(path)
            self.assertEqual(wanted, (self.folder / "copy.onnx").read_bytes())

    def test_files_that_a_command_names(self):
        """Its scripts, the modules that these import and what a shell reads are in the key; what it writes to is not."""
        (self.folder / "helper").mkdir()
        for name, text in (("go.py", "import helper.inner\nprint(helper.inner.X)\n"), ("helper/__init__.py", ""), ("helper/inner.py", "X = 1\n"), ("x.cfg", "1"), ("y.txt", "1"), ("log.txt", "")):
            (self.folder / name).write_text(text)
        path = self.write(f"steps:\n  go: {{run: [{sys.executable}, go.py, --config=x.cfg]}}\n  sh: {{run: [sh, -c, 'cat y.txt && date +%N >log.txt 2>> log.txt']}}\n")
        pipeline.run(path)
        self.assertEqual(0, pipeline.run(path)["executed"])
        for name, expected in (("go.py", "go"), ("helper/inner.py", "go"), ("x.cfg", "go"), ("y.txt", "sh")):
            (self.folder / name).write_text((self.folder / name).read_text() + "\n")
            self.assertEqual({expected}, self.ran(pipeline.run(path)), name)

    def test_packages_that_a_function_imports(self):
        """Installed ones by their version, with those that they require; those that are the user's by their contents."""
        from tenon.pipeline import _code

        site = self.folder / "site-packages"
        for name, requires in (("alpha", "Requires-Dist: beta>=1\nRequires-Dist: gamma; extra == \"all\"\n"), ("beta", ""), ("gamma", ""), ("delta", "")):
            (site / f"{name}-1.0.dist-info").mkdir(parents=True)
            (site / f"{name}-1.0.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
            (site / f"{name}-1.0.dist-info/top_level.txt").write_text(f"{name}_module\n")
            (site / f"{name}_module.py").write_text("")
        (self.folder / "mine.py").write_text("def f():\n    from alpha_module import x\n    import beside, json\n")
        (self.folder / "beside.py").write_text("import delta_module\n")
        sys.path.insert(0, str(site))
        self.addCleanup(sys.path.remove, str(site))
        hashes, versions, _ = _code.identity(str(self.folder / "mine.py"), "", str(self.folder), lambda path: "")
        self.assertEqual(["beside.py", "mine.py"], [name for name, _ in hashes])
        self.assertEqual({"alpha": "1.0", "beta": "1.0", "delta": "1.0"}, versions)

    def is_killed(self, name, work, delay):
        """Whether a new run was still there so many seconds after a step began, when it was killed."""
        for folder in ("out", work):
            shutil.rmtree(self.folder / folder, ignore_errors=True)
        child = subprocess.Popen([sys.executable, "-m", "tenon.pipeline", "run", "p.yaml", "--work", work, "--progress=json", "--jobs=2"], cwd=self.folder,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
        for line in child.stderr:
            event = json.loads(line)
            if event["step"] == name and event["state"] == "started":
                time.sleep(delay)
                child.kill()
                break
        child.stderr.close()
        return child.wait() == -signal.SIGKILL

    def test_kill_at_each_step(self):
        self.run_it()
        wanted = digests(self.folder / "out")
        names = [row["name"] for row in self.run_it()["steps"]]
        for name in names:
            with self.subTest(name):
                work = f"killed-{names.index(name)}"
                # A short step may have ended, and the last one the run.
                self.assertTrue(self.is_killed(name, work, 0.02 * (names.index(name) % 4)) or self.is_killed(name, work, 0))
                report = self.run_it(work=work)
                self.assertEqual(wanted, digests(self.folder / "out"))
                self.assertEqual([], os.listdir(self.folder / work / "running"))
                self.assertEqual(11, report["executed"] + report["cached"])
                shutil.rmtree(self.folder / work)

    def test_steps_overlap(self):
        """Each of two waits for what the other writes when it starts, so neither would end alone."""
        wait = "touch {0}; for i in $(seq 600); do [ -e {1} ] && exit 0; sleep 0.05; done; exit 1"
        path = self.write("steps:\n" + "".join(
            f"  {a}: {{run: [sh, -c, '{wait.format(self.folder / a, self.folder / b)}']}}\n" for a, b in (("a", "b"), ("b", "a"))))
        self.assertEqual(self.ran(pipeline.run(path, jobs=2)), {"a", "b"})

    def test_what_measures_runs_alone(self):
        events = []
        path = self.write("steps:\n  engine: {step: compile, model: linear.onnx, target: 'cpu:avx2'}\n"
                          "  slow: {run: [sleep, '0.3'], after: engine}\n  slower: {run: [sleep, '0.4'], after: engine}\n"
                          "  bench: {engine: $engine, runs: 2, batch: 1}\n  more: {step: bench, engine: $engine, runs: 3, batch: 1}\n")  # fmt: skip
        pipeline.run(path, jobs=4, progress=events.append)
        running = set()
        for event in events:
            running = running | {event["step"]} if event["state"] == "started" else running - {event["step"]} if event["state"] == "done" else running
            if running & {"bench", "more"}:
                self.assertEqual(1, len(running), running)


    def test_what_counts_as_measuring(self):
        (self.folder / "d.npz").write_bytes(b"")
        plan = pipeline.load(self.write("""\
steps:
  compile: {model: cnn.onnx}
  here: {step: compile, model: cnn.onnx, target: "cpu:native"}
  validate: {engine: $compile, model: cnn.onnx}
  how-well: {step: validate, engine: $compile, model: cnn.onnx, data: d.npz}
  quantize: {model: cnn.onnx, data: d.npz}
  search: {step: quantize, model: cnn.onnx, data: d.npz, latency: 4ms}
  prune: {model: cnn.onnx, ratio: 30%}
  untimed: {step: prune, model: cnn.onnx, ratio: 30%, no-timing: true}
  bench: {engine: $compile}
"""))
        found = {each.name: _run.measured(each) for each in plan.steps}
        self.assertEqual({"how-well", "search", "prune", "bench"}, {name for name, (alone, _) in found.items() if alone})
        self.assertEqual({"how-well", "search", "prune", "bench", "here"}, {name for name, (_, machine) in found.items() if machine})

    def test_accuracy_has_to_hold_for_the_whole_interval(self):
        import numpy as np

        rng = np.random.default_rng(0)
        np.savez(self.folder / "d.npz", image=rng.random((200, 1, 28, 28), np.float32), labels=rng.integers(0, 10, 200))
        text = "steps:\n  compile: {model: cnn.onnx, target: 'cpu:avx2'}\n  validate: {engine: $compile, model: cnn.onnx, data: d.npz, seconds: 0.01, LIMIT}\n"
        for limit, reason in (("at_least: 1%", ""), ("drop: 10%", ""), ("at_least: 90%", "is worse"), ("at_least: 10%", "is not shown to hold")):
            path = self.write(text.replace("LIMIT", limit))
            if not reason:
                self.assertIn("top1", pipeline.run(path)["steps"][1]["facts"])
                continue
            with self.assertRaisesRegex(tenon.CheckFailedError, f"the limit .* {reason}"):
                pipeline.run(path)


    LOST = """\
steps:
  ingest: {model: cnn.onnx}
  other: {run: [cp, other.onnx, "{out}"], inputs: {m: $ingest}, outputs: {out: model.onnx}}
  engine: {step: compile, model: $other, target: "cpu:avx2"}
"""

    def test_what_was_lost_since_the_model_that_came_in(self):
        """With another model in between: the engine agrees with what it was made from, and the original is what accuracy is lost against."""
        import numpy as np

        rng = np.random.default_rng(0)
        np.savez(self.folder / "d.npz", image=rng.random((200, 1, 28, 28), np.float32), labels=rng.integers(0, 10, 200))
        shutil.copy(SOURCE / "models/resnet20_fashion.onnx", self.folder / "other.onnx")
        whole = "data: d.npz, seconds: 0.01"
        for step, problem in (
            (f"validate: {{engine: $engine, model: $ingest, {whole}, drop: 50%}}", ""),
            (f"validate: {{engine: $engine, model: $ingest, {whole}, at-least: 90%}}", "the limit 90% .* is worse"),
            (f"validate: {{engine: $engine, model: $ingest, {whole}, drop: 50%, atol: 1e-3}}", "outputs differ"),
            ("validate: {engine: $engine, model: $ingest}", "outputs differ(.|\n)*made from another model"),
            (f"accuracy: {{models: $engine, against: $ingest, {whole}, drop: 50%}}\n  reference: {{engine: $engine, data: d.npz, save: r.npz}}\n  last: {{step: accuracy, models: [$engine], against: $ingest, {whole}}}", ""),
            (f"accuracy: {{models: $engine, against: $ingest, {whole}, drop: -50%}}", "the limit -50% .* is worse"),
            (f"accuracy: {{models: $engine, {whole}, drop: 5%}}", "give it as 'against'"),
        ):
            with self.subTest(step):
                path = self.write(self.LOST + f"  {step}\n")
                if problem:
                    with self.assertRaisesRegex(tenon.CheckFailedError, problem):
                        pipeline.run(path)
                else:
                    facts = pipeline.run(path)["steps"][-1]["facts"]
                    self.assertLess(abs(facts["top1_difference"]), 0.5)
                    if "max_abs" in facts:
                        self.assertLess(facts["max_abs"], 1e-3)
                        self.assertGreater(facts["max_abs_of_model"], 1e-2)
        with np.load(self.folder / "r.npz") as found:
            self.assertEqual(200, len(found["image"]))
            self.assertEqual([200], [len(found[name]) for name in set(found.files) - {"image", "labels"}])


class Failing(PipelineTest):
    def failing(self, text, **options):
        with self.assertRaises(tenon.CheckFailedError) as caught:
            pipeline.run(self.write(text), **options)
        self.assertEqual("TN1102", caught.exception.id)
        return caught.exception

    def test_the_last_lines_and_the_place(self):
        error = self.failing("steps:\n  bad:\n    run: [sh, -c, 'echo said; exit 3']\n  good: {run: ['true']}\n  below: {run: ['true'], after: bad}\n")
        self.assertRegex(str(error), r"^TN1102: .*q\.yaml:2: the step 'bad' failed: 'sh' ended with 3\n  \| said \(")
        self.assertEqual({"bad": "failed", "good": "done", "below": "skipped"}, {row["name"]: row["state"] for row in error.report["steps"]})

    def test_killed(self):
        self.assertIn("was killed by SIGKILL", str(self.failing("steps: {a: {run: [sh, -c, 'kill -9 $$']}}")))

    def test_timeout(self):
        self.assertIn("took longer than 0.2 s", str(self.failing("steps: {a: {run: [sleep, '60'], timeout: 0.2s}}")))

    def test_an_output_is_missing(self):
        self.assertIn("without writing its output 'x'", str(self.failing("steps: {a: {run: ['true'], outputs: {x: x.bin}}}")))

    def test_an_output_is_a_link(self):
        self.assertIn("no regular file", str(self.failing("steps: {a: {run: [ln, -s, /etc/passwd, '{x}'], outputs: {x: x.bin}}}")))

    def test_the_tools_error(self):
        error = self.failing("steps:\n  check: {model: gaps.onnx}\n" if shutil.copy(MODELS / "gaps.onnx", self.folder) else "")
        self.assertIn("the_one", str(error))
        self.assertIn("error TN0302", str(self.failing("steps: {compile: {model: linear.onnx, target: 'cuda:sm_20'}}")))

    def test_an_exception_of_a_function(self):
        (self.folder / "own.py").write_text("def fail():\n    raise ValueError('the reason')\n")
        self.assertIn("ValueError: the reason", str(self.failing("steps: {a: {step: 'own:fail'}}")))

    def test_an_input_that_changes_meanwhile(self):
        (self.folder / "x.txt").write_text("before")
        error = self.failing("steps: {a: {run: [sh, -c, 'sleep 0.1; echo more >> x.txt'], inputs: {x: x.txt}}}")
        self.assertIn("was changed while the step read it", str(error))

    def test_the_exit_code(self):
        self.write("steps: {a: {run: ['false']}}")
        self.assertEqual(1, self.command("run", "q.yaml").returncode)
        self.write("steps: {a: {run: ['true']}, a: {run: ['true']}}")
        done = self.command("run", "q.yaml", "--json")
        self.assertEqual((5, "TN1101"), (done.returncode, json.loads(done.stdout)["code"]))
        self.write("steps: {a: {run: ['true']}}")
        for more in (["--report", "gone/r.html"], ["--again", "b"], ["--jobs", "0"], ["--work", "own.py/x"]):
            self.assertEqual(2, self.command("run", "q.yaml", *more).returncode, more)

    def test_interrupted(self):
        """Ctrl-C ends the steps that run and leaves nothing of them."""
        self.write("steps: {a: {run: [sh, -c, 'echo $$ > pid; sleep 60; true']}}")
        child = subprocess.Popen([sys.executable, "-m", "tenon.pipeline", "run", "q.yaml", "--progress=none"], cwd=self.folder, stderr=subprocess.PIPE)
        while not (self.folder / "pid").exists() or not (self.folder / "pid").read_text():
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        self.assertIn(b"interrupted", child.communicate()[1])
        self.assertEqual(130, child.returncode)
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.folder / "pid").read_text()), 0)
        self.assertEqual([], os.listdir(self.folder / ".q.work/running"))

    def test_the_pages_of_the_errors_show_what_is_printed(self):
        self.write("name: f\nsteps:\n  compile:\n    model: linear.onnx\n    targt: cpu\n", "fashion.yaml")
        self.page("TN1101")
        self.write("# a model of one layer\nname: f\nsteps:\n  ingest:\n    model: linear.onnx\n  check:\n    model: $ingest\n\n  narrow: {step: quantize, model: $ingest, weights-only: 8}\n", "fashion.yaml")
        self.page("TN1102")

    def page(self, code):
        example = re.search(r"```\n\$ python (.*)\n([^`]*)```", (SOURCE / f"docs/errors/{code}.md").read_text())
        done = self.command(*example[1].split()[2:], "--progress=none")
        self.assertEqual(example[2] + f"  see: tenon help {code}\n", done.stderr)

    def test_names_do_not_write_into_logs_and_pages(self):
        (self.folder / "x<b>\n&.txt").write_text("")
        path = self.write('steps:\n  a: {run: [cat, "{x}"], each: {x: ["x<b>\\n&.txt"]}}\n')
        report = pipeline.run(path)
        self.assertNotIn("<b>", pipeline.page(report))
        done = self.command("run", "q.yaml", "--again", "a")
        self.assertEqual(1, len([line for line in done.stderr.splitlines() if line]), done.stderr)


class Controls(PipelineTest):
    def test_retries(self):
        """One that fails twice; one that fails more often than it is tried, and says so; the delay ends with the run."""
        count = f"echo x >> {self.folder}/tries; [ $(wc -l < {self.folder}/tries) -gt 2 ]"
        path = self.write(f"steps:\n  a: {{run: [sh, -c, '{count}'], retries: 2, retry-delay: 0.01s}}\n")
        pipeline.run(path)
        self.assertEqual(3, (self.folder / "tries").read_text().count("x"))
        path = self.write("steps:\n  a: {run: ['false'], retries: 1, retry-delay: 0.01s}\n")
        with self.assertRaisesRegex(tenon.CheckFailedError, "ended with 1, the last of 2 times"):
            pipeline.run(path)

    def test_conditions(self):
        """On figures, and of a step that is repeated on those of the same repetition."""
        (self.folder / "own.py").write_text("def figures(value: float = 0, word: str = ''):\n    return {'value': value, 'word': word, 'yes': value > 1}\n")
        path = self.write("""\
steps:
  a: {step: "own.py:figures", word: w, each: {value: [1, 2]}}
  b: {step: "own.py:figures", each: {value: [1, 2]}, if: "$a.value >= 150%"}
  below: {run: ['true'], after: b, if: "$a[2].yes == true"}
  word: {run: ['true'], if: ["$a[1].word == w", "$a[2].value != 3"]}
  wrong: {run: ['true'], if: "$a[1].gone > 1"}
  unordered: {run: ['true'], if: "$a[1].word > 1"}
""")
        with self.assertRaisesRegex(tenon.CheckFailedError, "the step 'a\\[1\\]' has no figure 'gone'; it has value, word, yes") as caught:
            pipeline.run(path)
        rows = {row["name"]: row for row in caught.exception.report["steps"]}
        self.assertEqual({"b[1]": "skipped", "b[2]": "done", "below": "skipped", "word": "done", "wrong": "failed", "unordered": "failed"},
                         {name: row["state"] for name, row in rows.items() if not name.startswith("a[")})  # fmt: skip
        self.assertEqual("value of 'a[1]' is 1.0, not >= 150%", rows["b[1]"]["unmet"])
        self.assertIn("not &gt;= 150%", pipeline.page(caught.exception.report))

    def test_resources(self):
        """Of two that take all of a resource one runs after the other; GPUs are given by number; what a machine never has is an error."""
        from tenon.pipeline import _controls

        half = _controls.Pool().whole["memory"] * 3 // 4 >> 20
        take = f"mkdir {self.folder}/taken && sleep 0.2 && rmdir {self.folder}/taken"
        path = self.write(f"steps:\n  a: &a {{run: [sh, -c, '{take}'], resources: {{memory: {half}MiB}}}}\n  b: {{<<: *a, timeout: 1m}}\n")
        pipeline.run(path, jobs=4)
        with unittest.mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "5,7"}):
            path = self.write("steps:\n" + "".join(f"  {name}: {{run: [sh, -c, 'echo $CUDA_VISIBLE_DEVICES > {{o}}; sleep 0.2'], outputs: {{o: {name}}}, save: {name}, resources: {{gpu: 1}}}}\n" for name in "xyz"))
            pipeline.run(path, jobs=4)
            self.assertEqual({"5\n", "7\n"}, {(self.folder / name).read_text() for name in "xyz"})
            path = self.write("steps: {a: {run: ['true'], resources: {gpu: 3}}}")
            with self.assertRaisesRegex(tenon.CheckFailedError, "asks for gpu 3, and this machine has 2"):
                pipeline.run(path)

    def test_a_matrix_over_many_models(self):
        """Files of a pattern; a run that is killed goes on, and one model more runs alone."""
        (self.folder / "zoo").mkdir()
        for index in range(300):
            (self.folder / f"zoo/m{index:03}.bin").write_text(str(index))
        path = self.write("""\
steps:
  first: {run: [cp, "{model}", "{out}"], each: {model: zoo/*.bin}, outputs: {out: a.bin}}
  second: {run: [cp, "{model}", "{out}"], each: {model: $first}, outputs: {out: b.bin}, save: "out/{label}.bin"}
""")
        child = subprocess.Popen([sys.executable, "-m", "tenon.pipeline", "run", "q.yaml", "--progress=none"], cwd=self.folder)
        while child.poll() is None and len(list((self.folder / ".q.work/results").glob("*.json"))) < 50:
            time.sleep(0.02)
        child.kill()
        child.wait()
        report = pipeline.run(path)
        self.assertEqual(600, report["executed"] + report["cached"])
        self.assertGreaterEqual(report["cached"], 50)
        self.assertEqual("299", (self.folder / "out/m299.bin").read_text())
        (self.folder / "zoo/more.bin").write_text("more")
        report = pipeline.run(path)
        self.assertEqual({"first[more]", "second[more]"}, self.ran(report))
        self.assertIn("second[m123]", pipeline.page(report))


class BadFiles(PipelineTest):
    # (line, words of the message, text)
    FAULTS = (
        (1, "the key 'steps'", "[]\n"),
        (1, "the key 'steps'", ""),
        (1, "has no 'stebs'", "stebs: {}\n"),
        (2, "has no 'extra'", "steps: {a: {run: ['true']}}\nextra: 1\n"),
        (1, "has steps", "steps: {}\n"),
        (3, "no step 'compil' (did you mean 'compile'", "steps:\n  a:\n    step: compil\n"),
        (2, "no step 'zebra'", "steps:\n  zebra: {}\n"),
        (4, "no option 'targt' (did you mean 'target'", "steps:\n  compile:\n    model: linear.onnx\n    targt: cpu\n"),
        (2, "lacks 'model'", "steps:\n  compile: {target: cpu}\n"),
        (4, "a whole number, not 'two'", "steps:\n  compile:\n    model: linear.onnx\n    threads: two\n"),
        (4, "a number, not 'nan'", "steps:\n  quantize:\n    model: linear.onnx\n    percentile: nan\n"),
        (4, "true or false, not 'yes'", "steps:\n  compile:\n    model: linear.onnx\n    verify: yes\n"),
        (5, "is text, not a list", "steps:\n  compile:\n    model: linear.onnx\n    precision:\n      [fp16]\n"),
        (3, "'gone.onnx' does not exist", "steps:\n  compile:\n    model: gone.onnx\n"),
        (3, "no step 'gone'", "steps:\n  compile:\n    model: $gone\n"),
        (3, "no output 'oops'", "steps:\n  ingest: {model: linear.onnx}\n  compile: {model: $ingest.oops}\n"),
        (5, "a cycle of steps: a needs b needs a", "steps:\n  a:\n    run: ['true']\n    after: b\n  b: {run: ['true'], after: a}\n"),
        (3, "a cycle of steps: a needs a", "steps:\n  a:\n    after: a\n    run: ['true']\n"),
        (3, "the key 'a' stands twice, first in line 2", "steps:\n  a: {run: ['true']}\n  a: {run: ['true']}\n"),
        (4, "the key 'model' stands twice, first in line 3", "steps:\n  compile:\n    model: linear.onnx\n    model: linear.onnx\n"),
        (2, "the tag tag:yaml.org,2002:python", "steps:\n  a: !!python/object/apply:os.system ['true']\n"),
        (2, "alias *x is inside of itself", "steps:\n  a: &x [*x]\n"),
        (2, "alias *y has no anchor", "steps:\n  a: *y\n"),
        (6, "values, with what aliases repeat", "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(f"{b}: &{b} [{','.join(['*' + a] * 10)}]\n" for a, b in zip("abcdefghi", "bcdefghij"))),
        (1, "levels inside of each other", "steps: " + "[" * 100 + "\n"),
        (3, "not YAML", "steps:\n  a: [1, 2\n"),
        (2, "not YAML", "steps:\n\ta: 1\n"),
        (2, "not YAML: a character", "steps:\n  a: \x01\n"),
        (2, "a second document", "steps: {a: {run: ['true']}}\n---\nsteps: {}\n"),
        (2, "'step' or 'run', not both", "steps:\n  a: {step: compile, run: ['true']}\n"),
        (2, "no program 'no-such-program'", "steps:\n  a: {run: [no-such-program]}\n"),
        (2, "{x} is neither an input nor an output", "steps:\n  a: {run: [echo, '{x}']}\n"),
        (2, "is not the name of a file", "steps:\n  a: {run: ['true'], outputs: {x: ../x}}\n"),
        (2, "is not a name of a step", "steps:\n  'a b': {run: ['true']}\n"),
        (2, "is a time, not 'soon'", "steps:\n  a: {run: ['true'], timeout: soon}\n"),
        (3, "takes one file, and $e are 2", "steps:\n  e: {step: compile, model: linear.onnx, each: {target: [cpu:avx2, cpu:avx512]}}\n  bench: {engine: $e}\n"),
        (3, "no repetition 'cpu:avx'", "steps:\n  e: {step: compile, model: linear.onnx, each: {target: [cpu:avx2]}}\n  bench: {engine: '$e[cpu:avx]'}\n"),
        (2, "would be saved to 'x'", "steps:\n  e: {step: compile, model: linear.onnx, save: x, each: {target: [cpu:avx2, cpu:avx512]}}\n"),
        (3, "is saved by 'b' and is saved by 'a'", "steps:\n  a: {step: ingest, model: linear.onnx, save: x}\n  b: {step: ingest, model: linear.onnx, save: ./x}\n"),
        (2, "is saved by 'ingest' and read by 'ingest'", "steps:\n  ingest: {model: linear.onnx, save: linear.onnx}\n"),
        (2, "defines no function 'gone'", "steps:\n  a: {step: 'own.py:gone'}\n"),
        (2, "no module 'nothing'", "steps:\n  a: {step: 'nothing:gone'}\n"),
        (2, "lacks 'model'", "steps:\n  a: {step: 'own.py:halve', outputs: {out: x}}\n"),
        (2, "'times' of the step 'a' is a whole number", "steps:\n  a: {step: 'own.py:halve', model: linear.onnx, times: 1.5, outputs: {out: x}}\n"),
        (2, "'retries' is a whole number up to 100, not '-1'", "steps:\n  a: {run: ['true'], retries: -1}\n"),
        (2, "'retry-delay' is a time, not 'x'", "steps:\n  a: {run: ['true'], retries: 1, retry-delay: x}\n"),
        (2, "'retry-delay' without 'retries'", "steps:\n  a: {run: ['true'], retry-delay: 1s}\n"),
        (3, "is not a condition", "steps:\n  a: {run: ['true']}\n  b: {run: ['true'], if: $a.x}\n"),
        (2, "no step 'c'", "steps:\n  b: {run: ['true'], if: $c.x > 1}\n"),
        (3, "$a are several steps", "steps:\n  a: {run: [echo, '{n}'], each: {n: [1, 2]}}\n  b: {run: ['true'], if: $a.x > 1}\n"),
        (2, "there is no resource 'tpu'", "steps:\n  a: {run: ['true'], resources: {tpu: 1}}\n"),
        (2, "'gpu' is a whole number, not '1.5'", "steps:\n  a: {run: ['true'], resources: {gpu: 1.5}}\n"),
        (2, "no file is called 'zoo/*.onnx'", "steps:\n  compile: {each: {model: zoo/*.onnx}}\n"),
        (2, "belongs to 'run'", "steps:\n  compile: {model: linear.onnx, inputs: {x: linear.onnx}}\n"),
        (2, "lacks 'alias'", "steps:\n  gate: {version: 'cnn:1'}\n"),
        (4, "no option 'rule' (did you mean 'rules'", "steps:\n  gate:\n    version: cnn:1\n    rule: size <= 1\n"),
        (3, "no output 'versio'", "steps:\n  push: {file: linear.onnx, name: cnn}\n  promote: {version: $push.versio, alias: production}\n"),
        (2, "is not 'pdf'", "steps:\n  ingest: {model: linear.onnx, format: pdf}\n"),
    )

    def test_each_names_its_line(self):
        for line, words, text in self.FAULTS:
            with self.subTest(words):
                path = self.write(text)
                with self.assertRaises(tenon.BadInputError) as caught:
                    pipeline.load(path)
                self.assertIn(f"q.yaml:{line}: ", str(caught.exception))
                self.assertIn(words, str(caught.exception))
                self.assertEqual("TN1101", caught.exception.id)
                self.assertFalse((self.folder / ".q.work").exists())

    def test_bytes_that_are_no_text(self):
        (self.folder / "q.yaml").write_bytes(b"steps:\n  a: \xff\n")
        with self.assertRaisesRegex(tenon.BadInputError, "q.yaml:2: the file is not UTF-8"):
            pipeline.load(self.folder / "q.yaml")

    def test_what_is_not_a_fault(self):
        """Words keep their text, `<<` merges, and a pipeline of functions says the line of the call."""
        plan = pipeline.load(self.write("steps:\n  a: &a {step: compile, model: linear.onnx, precision: fp16}\n  b: {<<: *a, tap: [no, 0x10], state: 1e3}\n"))
        self.assertEqual({"precision": "fp16", "tap": ["no", "0x10"], "state": ["1e3"]}, plan.steps[1].options)
        with self.assertRaisesRegex(tenon.BadInputError, r"TN1101: test_pipeline.py:\d+: the step 'compile' lacks 'model'"):
            made = pipeline.Pipeline("x", folder=self.folder)
            made.add("compile")
            made.plan()


@pipeline.step("double", outputs={"twice": "twice.bin"})
def double(run, twice, source: pipeline.File, times: int = 2):
    pathlib.Path(twice).write_bytes(pathlib.Path(source).read_bytes() * times)
    return {"bytes": os.path.getsize(twice)}


class Extending(PipelineTest):
    def test_functions_do_as_files_do(self):
        made = pipeline.Pipeline("made", folder=self.folder)
        model = made.add("ingest", model="linear.onnx")
        made.add("double", source=model, times=3, save="x.bin")
        report = made.run()
        self.assertEqual(3 * (self.folder / "linear.onnx").stat().st_size, (self.folder / "x.bin").stat().st_size)
        self.assertEqual(report["executed"], 2)
        shutil.copy(__file__, self.folder / "steps.py")
        path = self.write("import: steps.py\nsteps:\n  ingest: {model: linear.onnx}\n  double: {source: $ingest, times: 3, save: y.bin}\n")
        self.assertEqual(pipeline.run(path)["executed"], 2)
        self.assertEqual((self.folder / "x.bin").read_bytes(), (self.folder / "y.bin").read_bytes())

    def test_push_calls_the_registry(self):
        """By a program in the place of tenon: which command lines a push makes."""
        stub = self.folder / "stub"
        stub.write_text("#!/bin/sh\n[ \"$1\" = --version ] && { echo 0; exit; }\necho \"$@\" >> " + str(self.folder / "calls") + "\n"
                        "case $2 in push) echo '{\"schema\":\"x\",\"name\":\"cnn\",\"version\":3,\"existing\":false}';; show) echo '{\"created\":\"today\"}';; gate) echo '{\"verdict\":\"passed\"}';; history) echo '{\"events\":[]}';; esac\n")  # fmt: skip
        stub.chmod(0o755)
        path = self.write("steps:\n  model: {step: push, file: linear.onnx, name: cnn-model}\n"
                          "  push: {file: linear.onnx, name: cnn, kind: engine, parent: $model, meta: [a=b], registry: reg, gate: production, promote: production, reason: r}\n")  # fmt: skip
        report = pipeline.run(path, tool=str(stub))
        calls = [line.replace(str(self.folder) + "/", "") for line in (self.folder / "calls").read_text().splitlines()]
        self.assertEqual([
            "registry push --json --progress=json -- cnn-model in/0/linear.onnx",
            "registry show --json --progress=json -- cnn:3",
            "registry show --json --progress=json --registry=reg -- cnn:3",  # whether the parent is what was pushed
            "registry push --json --progress=json --registry=reg --parent=cnn:3 --kind=engine --meta=a=b -- cnn in/0/linear.onnx",
            "registry show --json --progress=json --registry=reg -- cnn:3",
            "registry gate --json --progress=json --registry=reg -- cnn:3 production",
            "registry history --json --progress=json --registry=reg -- cnn@production",
            "registry promote --json --progress=json --registry=reg --reason=r -- cnn:3 production",
            "registry history --json --progress=json --registry=reg -- cnn@production",
        ], calls)  # fmt: skip
        self.assertEqual({"version": "cnn:3", "existing": False, "created": "today", "gate": "passed", "gate_event": "", "alias": "production", "event": ""}, report["steps"][1]["facts"])

    REGISTRY = """\
steps:
  compile: {model: linear.onnx, target: "cpu:avx2"}
  push: {file: $compile, name: linear, registry: reg}
  gate: {version: $push, alias: production, rules: ["size <= LIMIT"], registry: reg}
  promote: {version: $gate, alias: production, reason: a test, registry: reg}
"""

    def registry(self, *arguments):
        done = subprocess.run([sys.executable, "-m", "tenon", "registry", *arguments, "--registry", self.folder / "reg", "--json"], capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def test_gate_and_promote(self):
        """A version gets to production by its gate; one that is refused does not, and says by which rule."""
        path = self.write(self.REGISTRY.replace("LIMIT", "8MiB"))
        report = pipeline.run(path)
        facts = {row["name"]: row["facts"] for row in report["steps"]}
        self.assertEqual(("linear:1", "passed", None), (facts["gate"]["version"], facts["gate"]["gate"], facts["gate"]["champion"]))
        self.assertEqual(("linear:1", None), (facts["promote"]["version"], facts["promote"]["from"]))
        self.assertEqual(1, self.registry("show", "linear@production")["version"])
        self.assertEqual(0, pipeline.run(path)["executed"])

        shutil.copy(MODELS / "normed.onnx", self.folder / "linear.onnx")
        self.write(self.REGISTRY.replace("LIMIT", "1"))
        with self.assertRaises(tenon.CheckFailedError) as caught:
            pipeline.run(path)
        self.assertRegex(str(caught.exception), r"q\.yaml:4: the step 'gate' failed(.|\n)*TN1007(.|\n)*size <= 1")
        self.assertEqual("skipped", caught.exception.report["steps"][-1]["state"])
        self.assertEqual(1, self.registry("show", "linear@production")["version"])
        self.write(self.REGISTRY.replace("LIMIT", "8MiB"))
        self.assertEqual({"gate", "promote"}, self.ran(pipeline.run(path)))
        self.assertEqual(2, self.registry("show", "linear@production")["version"])

        # What a person does with the alias stays, and is said: nothing changed that would promote again.
        self.registry("rollback", "linear@production")
        report = pipeline.run(path)
        self.assertEqual(0, report["executed"])
        self.assertRegex(report["steps"][-1]["facts"]["now"], r"production was moved to version 1 by .* \(rollback\), which stays")
        self.assertEqual(1, self.registry("show", "linear@production")["version"])

        # To and fro between two models, the pipeline promotes each time, though it has done so before.
        for model, number in (("linear.onnx", 1), ("normed.onnx", 2), ("linear.onnx", 1)):
            shutil.copy(MODELS / model, self.folder / "linear.onnx")
            self.assertIn("promote", self.ran(pipeline.run(path)))
            self.assertEqual(number, self.registry("show", "linear@production")["version"])
            self.assertEqual(0, pipeline.run(path)["executed"])

    def test_the_registry_is_asked(self):
        """What was done in a registry that is lost, made anew or another one, or to a version that is gone, is done again."""
        path = self.write(self.REGISTRY.replace("LIMIT", "8MiB"))
        pipeline.run(path)
        other = str(self.folder / "other.tenon")
        subprocess.run([sys.executable, "-m", "tenon", "compile", self.folder / "linear.onnx", "-o", other, "--target", "cpu:avx512", "--quiet"], check=True)
        everything = {"push", "gate", "promote"}
        shutil.rmtree(self.folder / "reg")
        self.assertEqual(everything, self.ran(pipeline.run(path)))
        self.assertEqual(1, self.registry("show", "linear@production")["version"])

        shutil.rmtree(self.folder / "reg")  # and made anew, with other bytes as linear:1
        self.registry("push", "linear", other)
        self.assertEqual(everything, self.ran(pipeline.run(path)))
        self.assertEqual(2, self.registry("show", "linear@production")["version"])

        for note in "ab":
            self.registry("push", "linear", other, "--meta", f"note={note}")
        self.registry("gate", "linear@production", "--no-rules")
        for number in "34":
            self.registry("promote", f"linear:{number}", "production")
        self.registry("gc", "--keep", "1")
        report = pipeline.run(path)
        self.assertEqual((everything, "'linear:2' was deleted"), (self.ran(report), report["steps"][1]["again"]))
        self.assertEqual(5, self.registry("show", "linear@production")["version"])

        self.registry("gate", "linear@production", "--rule", "size <= 9MiB")
        self.assertEqual({"gate"}, self.ran(pipeline.run(path)))
        self.assertIn("size <= 8MiB", self.registry("gate", "linear@production")["rules"])

        # That of the environment, which is relative to where the command starts.
        self.write(self.REGISTRY.replace("LIMIT", "8MiB").replace(", registry: reg", ""))
        for name in ("one", "two"):
            done = self.command("run", "q.yaml", "--json", env={**os.environ, "TENON_REGISTRY": name})
            self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(3, json.loads(done.stdout)["executed"])
        self.assertTrue((self.folder / "two/registry.db").exists())

    def test_tune_and_profile(self):
        path = self.write("""\
steps:
  tune: {model: linear.onnx, shape: "x:4x8", target: "cpu:avx2", time: 5s, allow-noise: true, save: tuned.tenon}
  compile: {model: linear.onnx, shape: "x:4x8", target: "cpu:avx2", store: $tune.store, save: again.tenon}
  profile: {model: $tune, seconds: 0.1, save: {page: profile.html}}
""")
        report = pipeline.run(path)
        facts = {row["name"]: row["facts"] for row in report["steps"]}
        self.assertGreater(facts["tune"]["measured"], 0)
        self.assertIn("<html", (self.folder / "profile.html").read_text()[:200].lower())
        # The records are all that tuning decided by.
        self.assertEqual((self.folder / "tuned.tenon").read_bytes(), (self.folder / "again.tenon").read_bytes())
        self.assertEqual(0, pipeline.run(path)["executed"])
        # With records of before there is nothing left to measure.
        self.write("steps:\n  tune: {model: linear.onnx, shape: 'x:4x8', target: 'cpu:avx2', time: 5s, allow-noise: true, store: STORE}\n".replace(
            "STORE", next(row["outputs"]["store"]["path"] for row in report["steps"] if row["name"] == "tune")))
        self.assertEqual(0, pipeline.run(path)["steps"][0]["facts"]["measured"])

    def test_a_killed_tuning_goes_on(self):
        path = self.write("steps:\n  tune: {model: long.onnx, shape: 'x:4x16', target: 'cpu:avx2', time: 60s, allow-noise: true}\n")
        shutil.copy(MODELS / "long.onnx", self.folder)
        child = subprocess.Popen([sys.executable, "-m", "tenon.pipeline", "run", "q.yaml", "--progress=none"], cwd=self.folder)
        results = self.folder / ".q.work/results"
        records = lambda: sum(path.read_bytes().count(b"\n") for path in results.glob("*.tuning/*") if path.is_file())  # noqa: E731
        while child.poll() is None and records() < 4:
            time.sleep(0.02)
        self.assertIsNone(child.poll())
        child.kill()
        child.wait()
        facts = pipeline.run(path)["steps"][0]["facts"]
        self.assertGreaterEqual(facts["known"], 2)
        self.assertEqual([], list(results.glob("*.tuning")))


class Options(unittest.TestCase):
    def test_every_flag_of_a_verb_is_an_option(self):
        """Steps take the flags that the program has, but for those that are left out, each of which it has too."""
        from tenon.pipeline import _builtin

        said = subprocess.run([sys.executable, "-m", "tenon", "help", "--json"], capture_output=True, text=True, check=True).stdout
        flags = {verb["verb"]: {name[2:].replace("-", "_") for flag in verb["flags"] for name in flag["names"] if name.startswith("--")} for verb in json.loads(said)["verbs"]}
        for verb, (step, inputs, _) in _builtin._VERBS.items():
            left = {*_builtin._LEFT_EVERYWHERE.split(), *_builtin._LEFT.get(verb, "").split()}
            options = {name for name in _builtin.BUILTIN[step].options if name not in inputs and name not in _builtin._MORE.get(step, {})}
            self.assertEqual(flags[verb], options | left, verb)
            self.assertEqual(set(), options & left, verb)
        self.assertEqual(set(), _builtin._LEFT.keys() - _builtin._VERBS.keys())
        self.assertEqual(set(), _builtin._FILES.keys() - {name for verb in _builtin._VERBS for name in flags[verb]})

    def test_kinds_of_options(self):
        from tenon.pipeline import _builtin

        kinds = {name: _builtin.BUILTIN[step].options[name].kind for step, name in (
            ("bench", "batch"), ("bench", "seed"), ("bench", "cold"), ("bench", "inputs"), ("quantize", "percentile"), ("compile", "shape"), ("compile", "store"), ("prune", "seconds"))}  # fmt: skip
        self.assertEqual({"batch": "integer", "seed": "text", "cold": "flag", "inputs": "files", "percentile": "number", "shape": "texts", "store": "file", "seconds": "text"}, kinds)


if __name__ == "__main__":
    unittest.main()
