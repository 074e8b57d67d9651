"""`tenon tune` and `tenon cache`: what is measured is kept however a run ends, compilations use it and nothing else, and what is
damaged, foreign or busy is said.

The machine that runs this may be busy: nothing here relies on which kernel wins.
"""

import fcntl
import multiprocessing
import os
import signal
import subprocess
import time
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tool import CNN, TENON, ToolTest

FAST = ["--allow-noise", "--time", "60s"]
COMPILE = ["--target", "cpu:native"]


def layers(sizes, rows=64):
    """x [rows, sizes[0]] through products to each of the other sizes, with a ReLU behind each."""
    rng = np.random.default_rng(0)
    weights, nodes, last = [], [], "x"
    for index, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        weights.append(numpy_helper.from_array(rng.standard_normal((inputs, outputs), np.float32) / 8, f"w{index}"))
        nodes += [helper.make_node("MatMul", [last, f"w{index}"], [f"p{index}"], name=f"dense{index}"),
                  helper.make_node("Relu", [f"p{index}"], [f"r{index}"], name=f"act{index}")]
        last = f"r{index}"
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, sizes[0]]),
             helper.make_tensor_value_info(last, TensorProto.FLOAT, [rows, sizes[-1]])]
    return helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], weights),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def reshape():
    """Moves nothing and computes nothing: a model without regions."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", [4, 4]), ("y", [16]))]
    return helper.make_model(helper.make_graph([helper.make_node("Reshape", ["x", "to"], ["y"])], "g", ports[:1], ports[1:],
                                               [numpy_helper.from_array(np.array([16]), "to")]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def burn():
    while True:
        pass


class TuneTest(ToolTest):
    """Every test has a store of its own; the compile cache is that of all."""

    own_cache = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(layers((64, 128, 128, 32)), cls.folder / "mlp.onnx")
        onnx.save(layers((64, 96), rows=128), cls.folder / "other.onnx")
        onnx.save(reshape(), cls.folder / "reshape.onnx")

    def setUp(self):
        self.store = self.folder / self.id().rsplit(".", 1)[1]
        self.records = self.store / "records"

    def tune(self, model, *options):
        return self.json("tune", model, "--store", self.store, *FAST, *options)

    def lines(self):
        return self.records.read_text().splitlines()[1:] if self.records.exists() else []

    def compiled(self, model, *options):
        """The bytes of an engine."""
        self.succeed("compile", model, "-o", "c.tenon", *COMPILE, *options)
        return (self.folder / "c.tenon").read_bytes()


class Tune(TuneTest):
    def test_measures_once(self):
        first = self.tune("mlp.onnx", "-o", "t.tenon")
        self.assertEqual("tenon.tune/1", first["schema"])
        self.assertEqual(3, first["measured"])
        for problem in first["problems"]:
            self.assertEqual("measured", problem["state"])
            self.assertTrue(2 <= problem["kernels_raced"] <= 16, problem)
            self.assertGreater(problem["untuned_us"], 0)
            self.assertTrue(problem["kernel"] == problem["untuned"] or problem["gain"] > 1.01, problem)
        self.assertEqual(sorted(first["best_so_far"], key=lambda row: -row["run_us"]), first["best_so_far"])
        self.check_agreement(first)
        lines = self.lines()
        self.assertEqual(first["whole"] and first["whole"]["withdrawn"] and 6 or 3, len(lines))
        second = self.tune("mlp.onnx", "-o", "t2.tenon")
        self.assertEqual((0, 3), (second["measured"], second["known"]))
        self.assertEqual(lines, self.lines())
        self.assertEqual((self.folder / "t.tenon").read_bytes(), (self.folder / "t2.tenon").read_bytes())
        again = self.tune("mlp.onnx", "--again")
        self.assertEqual((3, 0), (again["measured"], again["known"]))

    def check_agreement(self, report):
        """The parts of a run add up to it, and what the races let expect begins at the run that was measured."""
        run = report["best_so_far"][0]["run_us"]
        self.assertLessEqual(sum(problem["run_us"] for problem in report["problems"]), run * 1.0001)
        saved = sum(problem["run_us"] * (1 - 1 / problem["gain"]) for problem in report["problems"])
        whole = report["whole"]
        if whole and not whole["withdrawn"]:
            self.assertAlmostEqual(whole["untuned_us"] / run, 1, delta=1e-6)
            self.assertAlmostEqual(whole["speedup"], whole["untuned_us"] / whole["run_us"], delta=0.02 * whole["speedup"])
            self.assertAlmostEqual(report["best_so_far"][-1]["run_us"] / (run - saved), 1, delta=1e-6)
            self.assertAlmostEqual(whole["by_races"], run / (run - saved), delta=1e-6)

    def test_compile_uses_the_store(self):
        self.tune("mlp.onnx", "-o", "t.tenon")
        tuned = self.compiled("mlp.onnx", "--store", self.store)
        self.assertEqual((self.folder / "t.tenon").read_bytes(), tuned)
        self.assertEqual(tuned, self.compiled("mlp.onnx", "--store", self.store, "--no-cache"))
        self.assertIn("that tenon tune measured", self.succeed("explain", "kernels", "c.tenon", "dense0").stdout)
        untuned = self.compiled("mlp.onnx", "--no-cache")
        self.assertNotIn("that tenon tune measured", self.succeed("explain", "kernels", "c.tenon", "dense0").stdout)
        self.assertNotEqual(untuned, tuned)  # at least by the reasons
        self.assertEqual(untuned, self.compiled("mlp.onnx"))  # the store of all is empty

    def test_what_the_user_asks_for_goes_before(self):
        self.tune("mlp.onnx")
        self.compiled("mlp.onnx", "--store", self.store, "--kernel", "dense0=tiled")
        self.assertRegex(self.succeed("explain", "kernels", "c.tenon", "dense0").stdout, r"chosen +[\d.]+ us +tiled")
        self.compiled("mlp.onnx", "--store", self.store, "--disable-family", "gemm_packed")
        self.assertNotRegex(self.succeed("explain", "kernels", "c.tenon", "dense0").stdout, r"chosen +[\d.]+ us +gemm_packed")

    def test_convolutions_compute_the_same(self):
        shape = ["--shape", "image:1x1x28x28"]
        report = self.json("tune", CNN, "-o", "t.tenon", "--store", self.store, "--allow-noise", "--time", "10s", *shape)
        self.assertGreater(max(problem["kernels_raced"] for problem in report["problems"]), 8, report)  # of several families
        self.assertEqual([], [problem["refused"] for problem in report["problems"] if problem["refused"]])
        self.succeed("compile", CNN, "-o", "u.tenon", "--no-cache", *COMPILE, *shape)
        results = []
        for engine in ("t.tenon", "u.tenon"):
            self.succeed("run", engine, "-o", "out.npz")
            results.append(np.load(self.folder / "out.npz"))
        for name in results[0]:
            np.testing.assert_allclose(results[0][name], results[1][name], rtol=1e-3, atol=1e-4)

    def test_text(self):
        text = self.succeed("tune", "mlp.onnx", "--store", self.store, *FAST).stdout
        self.assertRegex(text, r"3 measured in .* s, 0 known")
        self.assertRegex(text, r"dense0.*\n +[\d.]+ us")
        done = self.call("tune", "mlp.onnx", "--store", self.store, *FAST, "--again", "--progress", "json")
        self.assertRegex(done.stderr, r'"phase": ?"tuning dense')

    def test_time_is_over(self):
        onnx.save(layers((512, 768, 1024, 640, 896), rows=256), self.folder / "large.onnx")
        report = self.json("tune", "large.onnx", "--store", self.store, "--time", "0.1s", "--allow-noise")
        self.assertGreater(report["left"], 0)
        self.assertIn("run it again", self.succeed("tune", "large.onnx", "--store", self.store, "--time", "0.1s", "--allow-noise").stdout)

    def test_while_compiling(self):
        """A busy machine leaves the engine as it is without tuning."""
        done = self.succeed("compile", "mlp.onnx", "-o", "b.tenon", *COMPILE, "--budget", "20s", "--store", self.store)
        self.assertRegex(done.stderr, r"measured in [\d.]+ s|not tuned: TN0143")
        self.assertEqual((self.folder / "b.tenon").read_bytes(), self.compiled("mlp.onnx", "--store", self.store, "--no-cache"))
        self.assertIn("not tuned: TN0142", self.succeed("compile", "reshape.onnx", "-o", "r.tenon", "--budget", "1s", "--store", self.store).stderr)

    def test_a_killed_run_goes_on(self):
        onnx.save(layers(tuple(range(64, 144, 8))), self.folder / "long.onnx")
        process = subprocess.Popen([str(TENON), "tune", "long.onnx", "--store", self.store, "--time", "60s", "--allow-noise"], cwd=self.folder,
                                   env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(self.lines()) < 2:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kept = self.lines()
        report = self.tune("long.onnx", "--resume")
        self.assertIn(report["known"], (len(kept), len(kept) - 1))  # the last may have been torn
        self.assertEqual(len(report["problems"]), report["known"] + report["measured"])
        self.assertEqual(kept[:report["known"]], self.lines()[:report["known"]])


class Busy(TuneTest):
    def test_a_busy_machine(self):
        onnx.save(layers((1024, 1024), rows=256), self.folder / "large.onnx")  # longer than a process has the CPU at once
        burners = [multiprocessing.Process(target=burn, daemon=True) for _ in range(3 * os.cpu_count())]
        for burner in burners:
            burner.start()
        try:
            done = self.refuse(6, "TN0143", "tune", "large.onnx", "--store", self.store)
            self.assertRegex(done.stderr, r"other programs disturbed \d+ of \d+ rounds")
            self.assertEqual([], self.lines())
        finally:
            for burner in burners:
                burner.kill()
                burner.join()


class Refusals(TuneTest):
    def test_nothing_to_tune(self):
        done = self.refuse(3, "TN0142", "tune", "reshape.onnx", "--store", self.store)
        self.assertIn("no region of the model has a choice of kernels", done.stderr)
        model = layers((64, 32))
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        onnx.save(model, self.folder / "free.onnx")
        self.assertIn("--shape", self.refuse(3, "TN0142", "tune", "free.onnx", "--store", self.store).stderr)
        self.assertEqual(1, self.tune("free.onnx", "--shape", "x:64x64")["measured"])

    def test_two_at_once(self):
        self.store.mkdir(mode=0o700)
        with open(self.store / "lock", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for call in (["tune", "mlp.onnx"], ["cache", "gc"]):
                self.refuse(6, "TN0141", *call, "--store", self.store)
            self.succeed("cache", "ls", "--store", self.store)  # readers need no lock
            self.compiled("mlp.onnx", "--store", self.store)

    def test_other_devices(self):
        self.refuse(2, "TN0105", "tune", "mlp.onnx", "--target", "cuda:sm_90,cpu:native", "--store", self.store)
        self.refuse(2, "TN0111", "tune", "mlp.onnx", "-o", "mlp.onnx", "--store", self.store)


class Cache(TuneTest):
    def test_moves_to_another_store(self):
        self.tune("mlp.onnx", "-o", "t.tenon")
        self.tune("other.onnx")
        self.succeed("cache", "export", "--store", self.store, "-o", "moved.tuning")
        other = self.folder / "other"
        added = self.json("cache", "import", "moved.tuning", "--store", other)
        self.assertEqual(added["records"], added["new"])
        self.assertEqual(0, self.json("cache", "import", "moved.tuning", "--store", other)["new"])
        self.assertEqual((self.folder / "t.tenon").read_bytes(), self.compiled("mlp.onnx", "--store", other))
        listed = self.json("cache", "ls", "--store", other)["records"]
        self.assertEqual(added["records"], len(listed))
        self.assertIn("dense0", self.succeed("cache", "ls", "--store", other).stdout)

    def test_reasons_of_misses(self):
        self.tune("mlp.onnx")
        explain = ["cache", "explain", "mlp.onnx", "--store", self.store]
        self.assertTrue(all(region["hit"] for region in self.json(*explain)["regions"]))
        onnx.save(layers((64, 128), rows=128), self.folder / "rows.onnx")
        region, = self.json("cache", "explain", "rows.onnx", "--store", self.store)["regions"]
        self.assertRegex(region["miss"], "no record of these sizes .*; the nearest has")
        shape = ["--shape", "image:1x1x28x28"]
        regions = self.json("cache", "explain", CNN, *shape, "--store", self.store)["regions"]
        kinds = {"miss": "no record", "no choice": "is the only kernel for it"}
        self.assertEqual(set(kinds), {region["state"] for region in regions})
        for region in regions:
            self.assertIn(kinds[region["state"]], region["miss"])
        free = self.json("cache", "explain", CNN, "--store", self.store)["regions"]
        self.assertEqual({"free sizes"}, {region["state"] for region in free})
        self.assertIn(f"\n0 of {sum(region['state'] == 'miss' for region in regions)} regions that have a choice of kernels, {len(regions)} in all\n",
                      self.succeed("cache", "explain", CNN, *shape, "--store", self.store).stdout)
        if len(os.sched_getaffinity(0)) > 1:
            done = subprocess.run([str(TENON), *map(str, explain)], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                                  check=True, preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
            self.assertRegex(done.stdout, r"stale .*\n +it was measured for other threads '\d+', here '1'")
        other = self.json("cache", "explain", "mlp.onnx", "--store", self.store, "--target", "cpu:x86-64-v3")["regions"]
        self.assertTrue(all(region["state"] in ("stale", "hit") for region in other), other)

    def test_torn(self):
        self.tune("mlp.onnx")
        self.succeed("cache", "gc", "--store", self.store)  # of what a slower engine withdrew the last record stays
        whole = self.records.read_bytes()
        self.records.write_bytes(whole[:-20])
        done = self.succeed("compile", "mlp.onnx", "-o", "c.tenon", *COMPILE, "--store", self.store)
        self.assertIn("the last record of the tuning store is incomplete and is dropped", done.stderr)
        self.assertEqual(2, len(self.json("cache", "ls", "--store", self.store)["records"]))
        again = self.tune("mlp.onnx")
        self.assertEqual((1, 2), (again["measured"], again["known"]))

    def test_damaged(self):
        self.tune("mlp.onnx")
        self.succeed("cache", "gc", "--store", self.store)  # of what a slower engine withdrew the last record stays
        text = bytearray(self.records.read_bytes())
        text[text.index(b"\n") + 60] ^= 1
        self.records.write_bytes(text)
        done = self.succeed("compile", "mlp.onnx", "-o", "c.tenon", *COMPILE, "--store", self.store)
        self.assertRegex(done.stderr, "TN0140: record 1 of .*: its checksum does not match; it is not used")
        self.refuse(5, "TN0140", "cache", "import", self.records, "--store", self.folder / "new")
        self.assertFalse((self.folder / "new" / "records").exists())
        self.assertEqual(1, self.json("cache", "gc", "--store", self.store)["dropped"])
        self.assertEqual([], self.json("cache", "ls", "--store", self.store)["faults"])
        again = self.tune("mlp.onnx")
        self.assertEqual((1, 2), (again["measured"], again["known"]))

    def test_none(self):
        self.store.mkdir(mode=0o700)
        self.records.write_text("something else\n")
        os.chmod(self.records, 0o600)
        for call in (["tune", "mlp.onnx"], ["cache", "ls"], ["compile", "mlp.onnx", "-o", "c.tenon", *COMPILE]):
            self.refuse(5, "TN0140", *call, "--store", self.store)
        self.refuse(5, "TN0140", "cache", "import", "mlp.onnx", "--store", self.folder / "new")
        for wrong in (["ls", "x"], ["explain"], ["import"], ["export"]):
            self.refuse(2, "TN0105", "cache", *wrong, "--store", self.store)


if __name__ == "__main__":
    unittest.main()
