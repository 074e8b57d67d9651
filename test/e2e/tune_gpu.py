"""`tenon tune` for a GPU, on a stand-in of the driver whose kernels take planted times: the tuner finds the fastest, does not use one with other
results, does not count rounds under a lower clock, and withdraws what is slower as a whole.
"""

import os
import pathlib
import stat
import unittest

import onnx
from tool import ToolTest
from tune import layers

BUILT = pathlib.Path(os.environ["TENON_BUILD_DIR"])
TARGET = ["--target", "cuda:native"]


class TuneOnGpu(ToolTest):
    own_cache = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(layers((64, 96, 128, 32), rows=32), cls.folder / "mlp.onnx")
        onnx.save(layers((64, 96), rows=32), cls.folder / "one.onnx")
        programs = cls.folder / "lib"
        programs.mkdir()
        (programs / "libcuda.so.1").symlink_to(BUILT / "test/unit/runtime/libtenon_fake_cuda.so")
        for library in ("libcublasLt.so.13", "libcudnn.so.9"):  # which compute: kernels of the plan do not, and are others to them
            (programs / library).symlink_to(BUILT / "test/unit/library/doubles" / library)
        # The driver compiles PTX: an assembler would only take time here.
        assembler = programs / "ptxas"
        assembler.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Cuda compilation tools, release 13.0, V13.0.88"\n')
        assembler.chmod(assembler.stat().st_mode | stat.S_IXUSR)
        cls.plan = cls.folder / "plan"
        cls.environment |= {"LD_LIBRARY_PATH": str(programs), "PATH": f"{programs}:{os.environ['PATH']}", "TENON_FAKE_GPU": str(cls.plan)}

    def setUp(self):
        self.store = self.folder / self.id().rsplit(".", 1)[1]
        self.plan.write_text("")

    def tune(self, *options, model="mlp.onnx"):
        return self.json("tune", model, "--store", self.store, *TARGET, "--time", "60s", *options)

    def trials(self):
        """By problem: the kernels that were timed, in whole nanoseconds, and the record."""
        records = self.json("cache", "ls", "--store", self.store)["records"]
        return {record["problem"]: ({trial["kernel"]: round(trial["time_us"], 3) for trial in record["trials"]}, record) for record in records}

    def engine(self, *options):
        self.succeed("compile", "mlp.onnx", "-o", "c.tenon", *TARGET, *options)
        return (self.folder / "c.tenon").read_bytes()

    def test_finds_the_fastest(self):
        half = ["--precision", "fp16"]
        report = self.tune("-o", "t.tenon", *half)
        self.assertEqual((3, "sm_90a", 1), (report["measured"], report["level"], report["threads"]))
        self.assertRegex(report["device"], r"^Fake GPU, 132 multiprocessors, 64(.0)? GiB, driver 13.0$")
        for times, record in self.trials().values():
            self.assertGreater(len(times), 8)
            fastest = min(times, key=times.get)
            self.assertEqual(fastest if times[fastest] < 0.99 * times[record["untuned"]] else record["untuned"], record["kernel"])
            self.assertEqual(len(set(times.values())), len(times))
            self.assertIn("cuBLASLt 13.2.3", record["libraries"])  # of a stand-in too
        whole = report["whole"]
        self.assertFalse(whole["withdrawn"])
        self.assertGreater(whole["speedup"], 1.2)
        self.assertAlmostEqual(whole["speedup"], whole["by_races"], delta=0.02 * whole["speedup"])
        self.assertEqual((0, 3), (lambda again: (again["measured"], again["known"]))(self.tune(*half)))
        self.assertEqual((self.folder / "t.tenon").read_bytes(), self.engine("--store", self.store, *half))
        self.assertNotEqual((self.folder / "t.tenon").read_bytes(), self.engine("--no-cache", *half))
        explained = self.json("cache", "explain", "mlp.onnx", "--store", self.store, *TARGET, *half)
        self.assertEqual({"hit", "no choice"}, {region["state"] for region in explained["regions"]})
        on_cpu = self.json("cache", "explain", "mlp.onnx", "--store", self.store)["regions"]
        self.assertEqual({"miss"}, {region["state"] for region in on_cpu})
        both = self.call("compile", "mlp.onnx", "-o", "b.tenon", "--target", "cuda:native,cpu:native", *half, "--store", self.store)
        self.assertEqual(0, both.returncode, both.stderr)
        self.assertIn("that tenon tune measured", self.succeed("explain", "kernels", "b.tenon", "dense0", "--variant", "sm_90a").stdout)
        done = self.succeed("compile", "mlp.onnx", "-o", "b.tenon", *TARGET, *half, "--budget", "20s", "--store", self.store)
        self.assertIn("0 measured in", done.stderr)
        self.assertIn("3 known", done.stderr)
        self.assertRegex(self.succeed("cache", "ls", "--store", self.store).stdout, r"^Fake GPU, .*, driver 13.0: sm_90a\n")

    def test_other_results_and_a_lower_clock(self):
        # The stand-in of the library computes, the planned kernels do not.
        refused = [text for problem in self.tune()["problems"] for text in problem["refused"]]
        self.assertEqual(12, len(refused))
        self.assertTrue(all("cublaslt" in text and "its results differ by" in text for text in refused), refused)
        before = self.trials()
        wrong = {times[record["kernel"]] for times, record in before.values()}
        self.plan.write_text("slow 4 16 1.5\n" + "".join(f"wrong {time}\n" for time in wrong))
        report = self.tune("--again")
        self.assertGreaterEqual(max(problem["disturbed_rounds"] for problem in report["problems"]), 4, report)
        after = self.trials()
        for problem, (times, record) in after.items():
            old, _ = before[problem]
            self.assertFalse(wrong & set(times.values()) - {old[record["untuned"]]}, "a kernel with other results was timed")
            for kernel, time in times.items():
                self.assertAlmostEqual(old.get(kernel, time), time, delta=0.002, msg="a round under a lower clock counts")

    def test_a_clock_that_stays_low(self):
        self.plan.write_text("slow 4 1000000 1.5\n")
        done = self.refuse(6, "TN0143", "tune", "one.onnx", "--store", self.store, *TARGET)
        self.assertIn("a lower clock of the GPU disturbed", done.stderr)
        self.assertIn("not tuned: TN0143", self.succeed("compile", "one.onnx", "-o", "o.tenon", *TARGET, "--budget", "10s", "--store", self.store).stderr)

    def test_withdraws_what_is_slower_as_a_whole(self):
        self.tune()
        tuned = {times[record["kernel"]] for times, record in self.trials().values() if record["kernel"] != record["untuned"]}
        self.assertTrue(tuned)
        self.plan.write_text("".join(f"whole {time} 9\n" for time in tuned))
        report = self.tune("--again", "-o", "t.tenon")
        self.assertTrue(report["whole"]["withdrawn"], report["whole"])
        self.assertLess(report["whole"]["speedup"], 1)
        self.assertTrue(all(record["kernel"] == record["untuned"] for _, record in self.trials().values()))
        self.assertEqual((self.folder / "t.tenon").read_bytes(), self.engine("--store", self.store))

    def test_without_a_gpu(self):
        self.environment.pop("LD_LIBRARY_PATH")
        try:
            self.assertIn("no GPU to measure on", self.refuse(3, "TN0517", "tune", "mlp.onnx", "--store", self.store, "--target", "cuda:sm_90a").stderr)
            done = self.succeed("compile", "one.onnx", "-o", "o.tenon", "--target", "cuda:sm_90a", "--budget", "1s", "--store", self.store)
            self.assertIn("not tuned: ", done.stderr)
        finally:
            self.environment["LD_LIBRARY_PATH"] = str(self.folder / "lib")


if __name__ == "__main__":
    unittest.main()
