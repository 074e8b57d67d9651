"""`tenon compile --target c`: folders of C whose bytes are those of the integer reference, on this machine and on cores of boards under QEMU; what is refused; and the
self-test, which finds planted faults.
"""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "test/e2e"))
import board
import nets
from reference import Reference
from tool import CNN, ToolTest

RANDOM_NETS = 14
ON_BOARD = 1


def random_inputs(model, count):
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    return list(np.random.default_rng(3).integers(-128, 128, (count, *shape)).astype(np.int8))


class Folders(ToolTest):
    def compiled(self, name, model):
        """The folder and the report of a model."""
        onnx.save(model, self.folder / f"{name}.onnx")
        report = self.json("compile", f"{name}.onnx", "--target", "c", "-o", name)
        return self.folder / name, report

    def check_bytes(self, name, model, inputs, run):
        folder, _ = self.compiled(name, model)
        code, outputs, said = run(folder, name, inputs)
        self.assertEqual((0, len(inputs)), (code, len(outputs)), f"{name}: {said}")
        for row, output in zip(inputs, outputs, strict=True):
            [expected] = Reference(model).run({"x": row.astype(np.int64)})
            np.testing.assert_array_equal(expected.ravel(), output, name)


class Host(Folders):
    def test_tiny_nets_on_this_machine(self):
        for name, model, arena, weights in [("kws", nets.keyword_spotting(), 16000, 24368), ("ad", nets.anomaly_detection(), 768, 270880)]:
            _, report = self.compiled(name, model)
            self.assertLessEqual(report["arena_bytes"], arena, name)
            self.assertLessEqual(report["weight_bytes"], 1.02 * weights, name)
            self.check_bytes(name, model, random_inputs(model, 2), board.run_host)

    def test_random_nets_on_this_machine(self):
        for seed in range(RANDOM_NETS):
            model = nets.random_net(seed)
            with self.subTest(seed=seed):
                self.check_bytes(f"net{seed}", model, random_inputs(model, 3), board.run_checked)

    def planted(self, name, model, change):
        """What the self-test says of a folder whose constants were changed."""
        folder, report = self.compiled(name, model)
        path = folder / f"{name}_weights.c"
        path.write_text(change(path.read_text()))
        subprocess.run(["make", "-s", "-C", folder, f"{name}_selftest", f"CC={board.GCC}"], check=True)
        done = subprocess.run([folder / f"{name}_selftest"], capture_output=True, text=True)
        return done, report

    def test_self_test_finds_planted_faults(self):
        def changed(array, by):
            def change(text):
                found = re.search(rf"{array}\[\d+\] = {{\s*(-?\d+)", text)
                return text[: found.start(1)] + str(int(found[1]) + by) + text[found.end(1) :]

            return change

        model = nets.keyword_spotting()
        done, report = self.planted("plain", model, lambda text: text)
        self.assertEqual((0, f"plain: {len(report['layers'])} layers are as compiled\n"), (done.returncode, done.stdout))
        for array, by in [("faulty_3_weights", 7), ("faulty_4_multiplier", 1 << 26), ("faulty_5_shift", 1), ("faulty_6_bias", 1 << 22)]:
            done, report = self.planted("faulty", model, changed(array, by))
            layer = int(array.split("_")[1])
            self.assertEqual((1, f"faulty: layer {layer} ({report['layers'][layer]['node']}) differs\n"), (done.returncode, done.stdout), array)

    def test_all_gaps_at_once(self):
        """Ten nodes without kernels, in one report, and no folder."""
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 6, 6]) for name in "xy"]
        net = nets.Net(0)
        x = net.quantize("x", (1, 4, 6, 6), 0.1)
        ops = [("InstanceNormalization", {}), ("Resize", {"mode": "linear"}), ("LogSoftmax", {"axis": 1}), ("ReduceMax", {"axes": [1], "keepdims": 1}), ("Softmax", {"axis": 1}), ("CumSum", {}),
               ("LpNormalization", {"axis": 1}), ("Mod", {"fmod": 1}), ("Max", {}), ("MatMul", {})]  # fmt: skip
        for op, attributes in ops:
            extra = {"Resize": ["", net.constant(np.array([1, 1, 2, 2], np.float32))], "CumSum": [net.constant(np.int64(2))], "InstanceNormalization": [net.constant(np.ones(4, np.float32)), net.constant(np.zeros(4, np.float32))],
                     "Mod": [x[0]], "Max": [net.quantize(net.node("Relu", [x[0]]), x[1], 0.2)[0]], "MatMul": [x[0]]}.get(op, [])  # fmt: skip
            x = net.quantize(net.node(op, [x[0], *extra], **attributes), x[1], 0.1)
        model = helper.make_model(helper.make_graph(net.nodes, "g", ports[:1], [helper.make_tensor_value_info(x[0], TensorProto.FLOAT, None)], net.constants),
                                  opset_imports=[helper.make_opsetid("", nets.OPSET)], ir_version=8)  # fmt: skip
        onnx.save(model, self.folder / "gaps.onnx")
        done = self.refuse(3, "TN0301", "check", "gaps.onnx", "--target", "c", "--json")
        report, _ = json.JSONDecoder().raw_decode(done.stdout)
        nodes = {gap["node"] for gap in report["gaps"]}
        wanted = {node.name for node in net.nodes if node.op_type in dict(ops)}
        self.assertEqual(set(), wanted - nodes)
        done = self.refuse(3, "TN0301", "compile", "gaps.onnx", "--target", "c", "-o", "gaps")
        for name in wanted:
            self.assertIn(f"node '{name}'", done.stderr)
        self.assertFalse((self.folder / "gaps").exists())

    def test_what_is_refused(self):
        model = nets.random_net(0)
        onnx.save(model, self.folder / "my-net.onnx")
        before = sorted(self.folder.iterdir())
        done = self.refuse(2, "TN0105", "compile", "my-net.onnx", "--target", "c")
        self.assertIn("--name", done.stderr)
        self.refuse(2, "TN0105", "compile", "my-net.onnx", "--target", "c", "--name", "while")
        for targets in (["--target", "c,cpu"], ["--target", "cpu", "--target", "c"]):
            done = self.refuse(2, "TN0105", "compile", "my-net.onnx", *targets, "--name", "net")
            self.assertIn("not a part of an engine", done.stderr)
        self.refuse(3, "TN0302", "run", "my-net.onnx", "--target", "c")
        self.refuse(2, "TN0105", "compile", "my-net.onnx", "--target", "c", "--name", "net", "--precision", "fp16")
        self.refuse(2, "TN0105", "compile", "my-net.onnx", "--name", "net")
        self.assertEqual(before, sorted(self.folder.iterdir()))
        self.succeed("compile", "my-net.onnx", "--target", "c", "--name", "net", "-o", "made")
        self.assertTrue((self.folder / "made/net.h").exists())
        floats = self.refuse(3, "TN0301", "compile", CNN, "--target", "c", "--shape", "image:1x1x28x28")
        self.assertIn("quantize", floats.stderr)

    def test_what_does_not_fit(self):
        onnx.save(nets.keyword_spotting(), self.folder / "large.onnx")
        self.succeed("compile", "large.onnx", "--target", "c", "--ram", "16000", "--flash", "27400", "-o", "fits")
        done = self.refuse(6, "TN0851", "compile", "large.onnx", "--target", "c", "--ram", "3KiB")
        self.assertIn("3948 bytes by rows, 876 more than --ram", done.stderr)
        self.assertIn("most is live at Conv_", done.stderr)
        done = self.refuse(6, "TN0851", "compile", "large.onnx", "--target", "c", "--flash", "20KiB")
        self.assertIn("more than --flash", done.stderr)
        self.refuse(2, "TN0105", "compile", "large.onnx", "--target", "c", "--ram", "0")
        self.refuse(2, "TN0105", "compile", "large.onnx", "--ram", "64KiB")
        self.assertFalse((self.folder / "large").exists())

    def test_sizes_must_be_fixed(self):
        model = nets.random_net(1)
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        onnx.save(model, self.folder / "free.onnx")
        done = self.refuse(3, "TN0301", "compile", "free.onnx", "--target", "c")
        self.assertIn("--shape", done.stderr)


class Board(Folders):
    """The same on the cores of boards."""

    def check_core(self, core, models):
        if why := board.missing(core):
            self.skipTest(why)
        for name, model in models:
            self.check_bytes(name, model, random_inputs(model, 1), functools.partial(board.run_board, core))

    def test_tiny_nets_on_m4(self):
        self.check_core("cortex-m4", [("kws", nets.keyword_spotting()), ("ad", nets.anomaly_detection())])

    def test_tiny_net_on_m55(self):
        self.check_core("cortex-m55", [("kws", nets.keyword_spotting())])

    def test_random_nets(self):
        seed = 0
        for core in board.CORES:
            with self.subTest(core=core):
                self.check_core(core, [(f"net{seed + i}", nets.random_net(seed + i)) for i in range(ON_BOARD)])
            seed += ON_BOARD


class Library(Folders):
    """`--target elf:CORE`, linked with lld and run under QEMU."""

    def test_libraries(self):
        model = nets.keyword_spotting()
        inputs = random_inputs(model, 1)
        [expected] = Reference(model).run({"x": inputs[0].astype(np.int64)})
        onnx.save(model, self.folder / "kws.onnx")
        for core in ("cortex-m0", "cortex-m4", "cortex-m33", "cortex-m55", "rv32imac", "rv64", "aarch64"):
            with self.subTest(core=core):
                report = self.json("compile", "kws.onnx", "--target", f"elf:{core}", "-o", core)
                folder = self.folder / core
                self.assertEqual({"kws.h", "kws.json", "libkws.a"}, {path.name for path in folder.iterdir()})
                self.assertIn(f"#define KWS_STACK_BYTES {report['stack_bytes']}\n", (folder / "kws.h").read_text())
                if core != "aarch64":
                    self.assertLessEqual(report["code_bytes"], 8192)
                on = "cortex-m0-large" if core == "cortex-m0" else core
                if why := board.missing(on):
                    self.skipTest(why)
                code, outputs, said, stack = board.run_library(on, folder, "kws", inputs)
                self.assertEqual((0, 1), (code, len(outputs)), said)
                np.testing.assert_array_equal(expected.ravel(), outputs[0])
                self.assertLessEqual(stack, report["stack_bytes"])
                self.assertGreaterEqual(stack, 0.8 * report["stack_bytes"])

    def test_rows(self):
        """In the 16 KB of the board with a Cortex-M0."""
        if why := board.missing("cortex-m0"):
            self.skipTest(why)
        model = nets.keyword_spotting()
        inputs = random_inputs(model, 1)
        onnx.save(model, self.folder / "kws.onnx")
        report = self.json("compile", "kws.onnx", "--target", "elf:cortex-m0", "--rows", "-o", "rows")
        code, outputs, said, stack = board.run_library("cortex-m0", self.folder / "rows", "kws", inputs)
        self.assertEqual((0, 1), (code, len(outputs)), said)
        [expected] = Reference(model).run({"x": inputs[0].astype(np.int64)})
        np.testing.assert_array_equal(expected.ravel(), outputs[0])
        self.assertLessEqual(stack, report["stack_bytes"])
        self.refuse(2, "TN0105", "compile", "kws.onnx", "--target", "elf:cortex-m0", "--input-rows", "-o", "pushed")


if __name__ == "__main__":
    unittest.main()
