"""The runtime cross-built by the presets aarch64 and riscv64: engines compiled on this machine run by it under QEMU, with the bytes that x86-64 gives, and its wheel.
`make test-cross` builds what it needs; without that it is skipped.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tool import ToolTest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
# {level: (architecture, processor of QEMU with the level's features)}
CPUS = {
    "armv8-a": ("aarch64", "cortex-a53"),
    "armv8.2-a+dotprod": ("aarch64", "cortex-a76"),
    "armv8.6-a+i8mm": ("aarch64", "max,sme=off,sve=off"),
    "armv9-a+sve": ("aarch64", "max,sme=off"),
    "rv64gcv": ("riscv64", "rv64,v=true,vlen=128,vext_spec=v1.0"),
}
LEVELS = sys.argv[1:]
# What the wheel's tag promises, and the architecture in the header of an ELF file.
NEWEST_GLIBC = (2, 36)
MACHINES = {"aarch64": 183, "riscv64": 243}


def program(architecture):
    return SOURCE / "build" / architecture / "bin/run_engine"


def net():
    """Convolutions of bytes as quantizers write them, a depthwise one among them, and a product of floats behind them."""
    random = np.random.default_rng(5)
    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def quantized(x, name, scale):
        parameters = [constant(f"{name}_s", np.float32(scale)), constant(f"{name}_z", np.uint8(117))]
        nodes.append(helper.make_node("QuantizeLinear", [x, *parameters], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *parameters], [name]))
        return name

    def conv(x, name, outputs, inputs, size, group=1):
        weight = constant(f"{name}_w", random.integers(-127, 128, (outputs, inputs // group, size, size), np.int8))
        parameters = [constant(f"{name}_ws", np.full(outputs, 1 / 64, np.float32)), constant(f"{name}_wz", np.zeros(outputs, np.int8))]
        nodes.append(helper.make_node("DequantizeLinear", [weight, *parameters], [f"{name}_d"], axis=0))
        nodes.append(helper.make_node("Conv", [x, f"{name}_d"], [name], group=group, pads=[size // 2] * 4))
        return quantized(name, f"{name}_r", 0.25)

    x = quantized("x", "a", 0.03125)
    x = conv(x, "c1", 16, 3, 3)
    x = conv(x, "c2", 16, 16, 3, group=16)
    x = conv(x, "c3", 40, 16, 1)
    x = conv(x, "c4", 24, 40, 3)
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["p"]))
    nodes.append(helper.make_node("Flatten", ["p"], ["f"]))
    nodes.append(helper.make_node("MatMul", ["f", constant("m", random.standard_normal((24, 10)).astype(np.float32))], ["y"]))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", [1, 3, 13, 11]), ("y", [1, 10])))
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Cross(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(net(), cls.folder / "net.onnx")
        cls.x = np.random.default_rng(6).standard_normal((1, 3, 13, 11)).astype(np.float32)
        cls.x.tofile(cls.folder / "x.bin")
        np.save(cls.folder / "x.npy", cls.x)

    def emulated(self, architecture, cpu, *arguments):
        for path in (SOURCE / f".qemu/qemu-{architecture}", f"qemu-{architecture}"):
            try:
                return subprocess.run([path, "-L", f"/usr/{architecture}-linux-gnu", "-cpu", cpu, program(architecture), *arguments],
                                      cwd=self.folder, capture_output=True, text=True)
            except FileNotFoundError:
                continue
        return self.skipTest(f"there is no qemu-{architecture}: scripts/setup.sh emulators makes it")

    def need(self, architecture):
        if not program(architecture).exists():
            self.skipTest(f"the preset {architecture} is not built: make test-cross does")

    def test_every_level_gives_the_bytes_of_this_machine(self):
        for architecture in MACHINES:
            self.need(architecture)
        self.succeed("compile", "net.onnx", "-o", "host.tenon", "--target", "cpu:avx2")
        self.succeed("run", "host.tenon", "--inputs", "x=x.npy", "-o", "host.npz")
        wanted = np.load(self.folder / "host.npz")["y"]
        self.assertGreater(np.ptp(wanted), 1)
        for level in LEVELS:
            architecture, cpu = CPUS[level]
            self.succeed("compile", "net.onnx", "-o", "e.tenon", "--target", f"cpu:{level}")
            done = self.emulated(architecture, cpu, "e.tenon", "x.bin", "y.bin", "2")
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            self.assertIn(level, done.stdout)
            y = np.fromfile(self.folder / "y.bin", np.float32).reshape(wanted.shape)
            # The last product is one of floats.
            np.testing.assert_allclose(y, wanted, rtol=0, atol=5e-6 * np.abs(wanted).max(), err_msg=level)

    def test_a_level_that_the_processor_lacks_is_refused(self):
        self.need("aarch64")
        self.succeed("compile", "net.onnx", "-o", "sve.tenon", "--target", "cpu:armv9-a+sve")
        done = self.emulated("aarch64", "cortex-a53", "sve.tenon", "x.bin", "y.bin")
        self.assertIn("TN0517", done.stdout)

    def test_wheels(self):
        for architecture, machine in MACHINES.items():
            self.need(architecture)
            (path,) = (SOURCE / "build" / architecture / "wheel").glob("*.whl")
            self.assertRegex(path.name, rf"^tenon-[\d.]+-py3-none-manylinux_2_36_{architecture}\.whl$")
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
                self.assertEqual(["tenon/lib/libtenon_runtime.so"], [name for name in names if "/lib/" in name or "/bin/" in name])
                self.assertIn("tenon/__init__.py", names)
                (tag,) = [name for name in names if name.endswith(".dist-info/WHEEL")]
                self.assertIn(f"Tag: py3-none-manylinux_2_36_{architecture}\n", archive.read(tag).decode())
                library = archive.read("tenon/lib/libtenon_runtime.so")
            self.assertEqual(machine, int.from_bytes(library[18:20], "little"))
            used = [tuple(map(int, each.split(b"."))) for each in re.findall(rb"GLIBC_([\d.]+)\0", library)]
            self.assertLessEqual(max(used), NEWEST_GLIBC)
            self.assertLess(len(library), 520_000)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
