"""`tenon profile` on a GPU: the causes and the advice of kernels whose times are planted.

The driver and cuBLASLt are stand-ins (PlantedGpu.cpp): nothing is computed, and a kernel takes the time that a file says. Which cause a
kernel has is known from its structure; that the real GPU takes such times is for scripts/planted_causes.py to say.
"""

import importlib.util
import os
import pathlib
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tool import SOURCE, TENON, ToolTest

PLANTED = pathlib.Path(os.environ["TENON_BUILD_DIR"]) / "test/e2e/planted"
TARGET = ["--target", "cuda:h200"]


def tile(rows, columns, split=1):
    """gemm_tensorcore with a tile, and the warps and stages that go with it."""
    warps, high = {(128, 64): ("32x32", 3), (16, 32): ("16x16", 6), (32, 64): ("32x16", 5)}[rows, columns]
    return f"gemm_tensorcore{{tile={rows}x{columns}x64,warp={warps},stages={high},split_k={split}}}"


def product(rows, depth, columns, follower=None):
    """x [rows, depth] by a constant matrix; a Gelu or nothing behind it."""
    weight = numpy_helper.from_array((np.random.default_rng(1).standard_normal((depth, columns)) / depth**0.5).astype(np.float16), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p" if follower else "y"], name="mm")]
    if follower:
        nodes.append(helper.make_node(follower, ["p"], ["y"], name="after"))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [rows, size]) for name, size in (("x", depth), ("y", columns))]
    return helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight]), opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


class ProfileOnGpuTest(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.times = cls.folder / "times"
        cls.environment |= {"LD_LIBRARY_PATH": str(PLANTED), "TENON_PLANTED_TIMES": str(cls.times)}

    def engine(self, name, model, *flags):
        onnx.save(model, self.folder / f"{name}.onnx")
        self.succeed("compile", f"{name}.onnx", "-o", f"{name}.tenon", *TARGET, *flags)
        return f"{name}.tenon"

    def region(self, engine, node="mm"):
        """What is predicted for a node's region: its microseconds, and the record "time" of the chosen kernel."""
        region = next(row for row in self.json("explain", "kernels", engine, node)["regions"])
        chosen = next(row for row in region["candidates"] if row["verdict"] == "chosen")
        return chosen["us"], chosen["time"]

    def kernels(self, engine):
        return [row["kernel"] for row in self.json("explain", "placement", engine)["instructions"] if row.get("kernel")]

    def profile(self, engine, times, *flags):
        """With the planted times; a number is that of each kernel of the engine, and of a library's call."""
        if not isinstance(times, dict):
            times = {kernel: times for kernel in self.kernels(engine)} | {"matmul-start": times, "matmul-teraflops": 1e6}
        self.times.write_text("".join(f"{name} {value}\n" for name, value in times.items()))
        report = self.json("profile", engine, *flags)
        region = max(report["regions"], key=lambda row: row["time_us"])
        return report, region

    def test_parts_are_the_prediction(self):
        """At the predicted time the causes and what the floors need are all of it."""
        engine = self.engine("parts", product(256, 1024, 1024, "Gelu"))
        us, time = self.region(engine)
        self.assertAlmostEqual(us, sum(part["us"] for part in time["parts"]), delta=0.02)
        report, region = self.profile(engine, us)
        self.assertEqual(time["parts"], [{"part": part["part"], "us": round(part["us"], 4)} for part in region["gpu"]["parts"]])
        needed = sum(min(region["floors_us"][floor], us) for floor in ("compute", "memory"))
        lost = sum(cause["us"] for cause in region["gpu"]["causes"])
        self.assertTrue(us - needed - 0.02 <= lost <= us, (us, needed, lost))
        text = self.succeed("explain", "kernels", engine, "mm").stdout
        self.assertIn(f"{time['parts'][0]['part']} {time['parts'][0]['us']:.2f}", text)
        self.assertIn(f"{time['blocks']} blocks, {time['at_once']} at once", text)

    def cause_of(self, name, model, part, *flags, factor=1.0, times=None):
        """The first cause of the model's longest kernel at `factor` times its prediction, in its row too."""
        engine = self.engine(name, model, *flags)
        us, _ = self.region(engine)
        report, region = self.profile(engine, times or us * factor)
        self.assertEqual(part, region["gpu"]["causes"][0]["part"], (name, us, region["kernel"], region["gpu"], region["floors_us"]))
        if region["class"] == "latency":
            self.assertIn(f"{part} (", region["cause"])
        return report, region

    def test_planted_causes_are_named_first(self):
        by_hand = ["--kernel"]
        cases = {
            # Too few blocks: 32 of 128 x 64 on 132 multiprocessors, each through a long depth.
            "idle": (product(512, 4096, 512), "idle", [*by_hand, "mm=" + tile(128, 64)]),
            # Blocks that share a depth of four steps meet for longer than they multiply.
            "split": (product(32, 512, 256), "split", [*by_hand, "mm=" + tile(16, 32, 8)]),
            # One step of the depth, in many waves: first operands take longer than products.
            "fill": (product(8192, 64, 512), "fill", [*by_hand, "mm=" + tile(32, 64)]),
            # A library's call of hardly any work.
            "start": (product(64, 64, 64), "start", [*by_hand, "mm=cublaslt"]),
        }
        for name, (model, part, flags) in cases.items():
            with self.subTest(name):
                self.cause_of(name, model, part, *flags)

    def test_what_no_model_explains_is_measured(self):
        report, region = self.cause_of("beyond", product(256, 1024, 1024), "beyond-model", factor=4)
        self.assertEqual("latency", region["class"])
        advice = next(row for row in report["advice"] if row["rule"] == "tune")
        self.assertIn("--budget", advice["command"])
        # Another family is known to be predicted less; of other configurations nothing is.
        predicted = sum(part["us"] for part in region["gpu"]["parts"])
        candidates = self.json("explain", "kernels", "beyond.tenon", "mm")["regions"][0]["candidates"]
        other = min(row["us"] for row in candidates if row["verdict"] == "possible" and row["kernel"].split("{")[0] != region["kernel"].split("{")[0])
        self.assertGreater(other, predicted)
        self.assertAlmostEqual(region["time_us"] - other, advice["gain_us"], delta=0.02 * region["time_us"])
        self.assertAlmostEqual(report["measured"]["timed_us"] / predicted, advice["at_most"], delta=0.05 * advice["at_most"])
        self.assertIn("x as fast, predicted; at most", self.succeed("profile", "beyond.tenon").stdout)

    def test_gelu_by_itself_is_found(self):
        engine = self.engine("gelu", product(1024, 768, 3072, "Gelu"))
        gelu = next(row for row in self.json("explain", "kernels", engine)["regions"] if row["operations"] == ["gelu"])
        planted = self.predicted(engine) | {"matmul-start": 10, "matmul-teraflops": 1e6}
        advice = {row["rule"]: row for row in self.profile(engine, planted)[0]["advice"]}
        self.assertIn("--allow tanh-gelu", advice["tanh-gelu"]["command"])
        self.assertTrue(advice["tanh-gelu"]["changes_numbers"])
        self.assertAlmostEqual(0.52 * gelu["cost"]["us"], advice["tanh-gelu"]["gain_us"], delta=0.1)
        self.succeed("compile", "gelu.onnx", "-o", "tanh.tenon", *TARGET, "--allow", "tanh-gelu")
        self.assertEqual(1, len(self.json("explain", "kernels", "tanh.tenon")["regions"]))
        self.assertNotIn("tanh-gelu", {row["rule"] for row in self.profile("tanh.tenon", planted)[0]["advice"]})

    def test_times_that_something_slows_down_are_no_evidence(self):
        """As under a debugger: each start takes 60 us, but a graph starts once."""
        engine = self.engine("slowed", product(256, 1024, 1024, "Softmax"))
        planted = {kernel: 5 for kernel in self.kernels(engine)} | {"each-start": 60}
        report, region = self.profile(engine, planted)
        self.assertTrue(report["measured"]["disturbed"], [report["measured"], region["kernel"]])
        self.assertEqual("unknown", region["class"])
        self.assertNotIn("tune", {row["rule"] for row in report["advice"]})
        self.assertTrue(any("as a debugger does" in note for note in report["measured"]["notes"]))

    def test_every_row_of_latency_says_why_and_what_would_help(self):
        for name, rows, columns in (("few", 128, 768), ("some", 1024, 768), ("narrow", 96, 320)):
            engine = self.engine(name, product(rows, 768, columns, "Gelu"))
            us, _ = self.region(engine)
            report, region = self.profile(engine, us * 1.05)
            for row in report["groups"]:
                if row["class"] != "latency":
                    continue
                self.assertRegex(row["cause"], r"\d+ % [a-z-]+ \(")
                index = report["operators"][row["operators"][0]]["region"]
                helps = [advice for advice in report["advice"] if index in advice["regions"]]
                self.assertTrue(helps or report["regions"][index]["gpu"]["considered"], (name, row))
            self.assertNotIn("nothing better is known", self.succeed("profile", engine).stdout)

    def test_more_rows_share_what_starts(self):
        """A start of 20 us and little else: twice the rows take hardly longer, which the command runs."""
        weight = product("rows", 768, 768)
        engine = self.engine("rows", weight, "--shape", "x:[1..4096]x768", "--kernel", "mm=cublaslt")
        report, region = self.profile(engine, {"*": 1, "matmul-start": 20}, "--shape", "x:128x768")
        advice = next((row for row in report["advice"] if row["rule"] == "rows"), None)
        if not region["gpu"]["parts"]:
            self.skipTest("parts are of other sizes")
        self.assertIsNotNone(advice, report["advice"])
        self.assertIn("x:256x768", advice["command"])

    def test_faster_kernels_by_prediction_are_named(self):
        """A kernel that the user asked for hides a faster one; without the wish there is nothing to say."""
        engine = self.engine("hand", product(256, 1024, 1024), "--kernel", "mm=" + tile(16, 32))
        us, _ = self.region(engine)
        report, _ = self.profile(engine, us)
        self.assertEqual("forbidden-kernels", report["advice"][0]["rule"])
        engine = self.engine("own", product(256, 1024, 1024))
        report, region = self.profile(engine, self.region(engine)[0])
        rules = {row["rule"] for row in report["advice"]}
        self.assertNotIn("forbidden-kernels", rules)
        candidates = self.json("explain", "kernels", engine, "mm")["regions"][0]["candidates"]
        least = min(row["us"] for row in candidates if row["verdict"] in ("possible", "chosen"))
        gains = region["time_us"] * (1 - least / self.region(engine)[0])
        self.assertEqual("other-kernel" in rules, gains > 0.02 * report["measured"]["timed_us"], candidates)

    def predicted(self, engine):
        """The prediction of each kernel of an engine, as its planted time; calls take what the stand-in says, which is the model's."""
        regions = self.json("explain", "kernels", engine)["regions"]
        rows = self.json("explain", "placement", engine)["instructions"]
        return {row["kernel"]: regions[row["region"]]["cost"]["us"] for row in rows if row.get("kernel") and "region" in row}

    def test_the_defects_of_the_campaign_are_named_first(self):
        """Those of scripts/planted_causes.py --gpu, with kernels that take what is predicted for them."""
        spec = importlib.util.spec_from_file_location("planted_causes", SOURCE / "scripts/planted_causes.py")
        campaign = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(campaign)
        bench = campaign.Bench(TENON, self.folder, "cuda:h200")
        for cause in campaign.GPU_CAUSES:
            with self.subTest(cause.name):
                bench.compile(cause)
                report, region = self.profile("cause.tenon", self.predicted("cause.tenon"), *cause.run_flags)
                self.assertEqual(cause.rule, report["advice"][0]["rule"] if report["advice"] else "none", [report["advice"], region])
                if cause.part:
                    self.assertEqual(cause.part, region["gpu"]["causes"][0]["part"], [region["kernel"], region["gpu"], region["floors_us"]])

    def test_counters_decide_where_they_are_read(self):
        engine = self.engine("counted", product(256, 1024, 1024))
        us, _ = self.region(engine)
        planted = {kernel: us for kernel in self.kernels(engine)}
        for shares, wanted in (((71, 40), "compute"), ((30, 82), "memory"), ((41, 38), "latency")):
            values = {f"counter.{name}": value for name, value in zip(("processors", "memory", "dram", "tensor", "warps"), (*shares, 12, 55, 9))}
            region = self.profile(engine, planted | values, "--counters")[1]
            self.assertEqual(wanted, region["class"])
            self.assertEqual((shares[0] / 100, shares[1] / 100, 0.12, 0.55), tuple(region["gpu"]["counters"][name] for name in ("processors", "memory", "dram", "tensor_pipe")))
            self.assertIn(f"multiprocessors {shares[0]} %, tensor pipe 55 %, memory {shares[1]} %", region["cause"])
        self.assertRegex(region["cause"], r"; \d+ % [a-z-]+ \(")
        # Of a range in which the GPU waits half of the time: ten runs of the step, and as long again.
        values = {"counter.processors": 35, "counter.memory": 20, "counter.nanoseconds": 2 * 10 * us * 1000}
        counters = self.profile(engine, planted | values, "--counters")[1]["gpu"]["counters"]
        self.assertAlmostEqual(0.7, counters["processors"], delta=0.01)
        self.assertAlmostEqual(0.4, counters["memory"], delta=0.01)

    def test_profiles_go_on_without_counters(self):
        engine = self.engine("uncounted", product(256, 1024, 1024))
        us, _ = self.region(engine)
        planted = {kernel: us for kernel in self.kernels(engine)}
        report, region = self.profile(engine, planted | {"counter.refused": 35}, "--counters")
        self.assertIsNone(region["gpu"]["counters"])
        self.assertTrue(any("without counters" in note and "ERR_NVGPUCTRPERM" in note for note in report["measured"]["notes"]), report["measured"])
        self.assertIn("without counters", self.succeed("profile", engine, "--counters").stdout)

    def test_a_crash_of_cupti_is_a_note(self):
        engine = self.engine("crashed", product(256, 1024, 1024))
        us, _ = self.region(engine)
        planted = {kernel: us for kernel in self.kernels(engine)}
        report, region = self.profile(engine, planted | {"counter.crash": 1}, "--counters", "--ab", engine)
        self.assertIsNone(region["gpu"]["counters"])
        self.assertAlmostEqual(us, region["time_us"], delta=0.1)
        notes = [note for note in report["measured"]["notes"] if "without counters" in note]
        self.assertEqual(1, len(notes))
        self.assertIn("the process that counts ended: Segmentation fault", notes[0])

    def test_bytes_come_from_the_level_that_holds_them(self):
        """A step is timed by itself: 32 MB stay in the L2, 128 MB do not."""
        for rows, level in ((4096, "L2"), (16384, "memory")):
            nodes = [helper.make_node("Neg", ["x"], ["y"], name="mm")]
            ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [rows, 2048]) for name in "xy"]
            graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
            engine = self.engine(f"bytes{rows}", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))
            limits = {row["level"].split()[0]: row["bytes_per_s"] for row in self.profile(engine, 1)[0]["limits"]["memory"]}
            us = 2 * rows * 2048 * 2 / limits[level] * 1e6 / 0.9
            region = self.profile(engine, us)[1]
            self.assertEqual("memory", region["class"], region)
            self.assertTrue(region["limit"].startswith(level), region["limit"])
            self.assertAlmostEqual(0.9, region["of_limit"], delta=0.02)


if __name__ == "__main__":
    unittest.main()
