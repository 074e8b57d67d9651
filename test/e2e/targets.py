"""Targets as users name them: parts, the GPU of this machine, profiles that replace the table's numbers, and what each
architecture's variant holds. GPU engines are compiled here, assembled where ptxas is, and not run.
"""

import json
import re
import shutil
import subprocess
import unittest

import onnx
from onnx import TensorProto, helper
from tool import CNN, ToolTest

# Whether there are clusters, and kernels that start before the one ahead of them ends.
ARCHITECTURES = {"sm_80": False, "sm_86": False, "sm_89": False, "sm_90": True, "sm_90a": True, "sm_100": True, "sm_100a": True, "sm_120": True}


def norms():
    """Rows that are shared out to clusters where there are any."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [4096, 16384]) for name in "xy"]
    nodes = [helper.make_node("Softmax", ["x"], ["s"], axis=-1, name="rows"), helper.make_node("Relu", ["s"], ["y"], name="relu")]
    return helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:]),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Targets(ToolTest):
    own_cache = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(norms(), cls.folder / "norms.onnx")

    def levels(self, engine):
        return [variant["level"] for variant in self.json("check", engine)["variants"]]

    def write(self, profile):
        (self.folder / "profile.json").write_text(json.dumps(profile))

    def test_parts(self):
        for name, levels in {"cuda:h200": ["sm_90a"], "cuda:a100,l40s": ["sm_80", "sm_89"], "cuda:b200": ["sm_100a"],
                             "cpu:zen4": ["avx512-vnni-bf16"], "cuda:rtx5090": ["sm_120"]}.items():  # fmt: skip
            self.succeed("compile", CNN, "-o", "p.tenon", "--target", name)
            self.assertEqual(levels, self.levels("p.tenon"), name)
        for name, levels in {"armv8-a": ["armv8-a"], "avx2,sm_90": ["x86-64-v3", "sm_90"], "cpu:avx2,h200": ["x86-64-v3", "sm_90a"]}.items():
            self.succeed("compile", CNN, "-o", "p.tenon", "--target", name)
            self.assertEqual(levels, self.levels("p.tenon"), name)
        done = self.refuse(2, "TN0105", "compile", CNN, "-o", "p.tenon", "--target", "cuda:h100,h200")
        self.assertIn("both sm_90a", done.stderr)

    def test_the_cpu_of_this_machine(self):
        self.succeed("compile", CNN, "-o", "native.tenon", "--target", "cpu:native")
        self.assertEqual([self.json("doctor")["will_use"]], self.levels("native.tenon"))

    def test_every_target_that_is_listed_is_taken(self):
        listed = self.refuse(3, "TN0302", "compile", CNN, "-o", "p.tenon", "--target", "xyzzy").stderr
        for device in ("cpu", "cuda"):
            for names in re.findall(rf"\({device}:([^)]*)\)", listed):
                for name in names.split(", "):
                    self.succeed("check", CNN, "--target", name)
                    self.succeed("check", CNN, "--target", f"{device}:{name}")
        self.assertIn("did you mean 'armv8-a'?", self.refuse(3, "TN0302", "check", CNN, "--target", "armv8a").stderr)

    def test_architectures_lie_side_by_side(self):
        self.succeed("compile", CNN, "-o", "both.tenon", "--target", "cpu:avx2,armv8-a,cuda:sm_80")
        variants = self.json("inspect", "both.tenon")["variants"]
        self.assertEqual([("x86-64-v3", "x86-64", "avx2"), ("armv8-a", "aarch64", "neon"), ("sm_80", "nvptx", "sm_80")],
                         [(variant["level"], variant["architecture"], variant["features"]) for variant in variants])
        data = (self.folder / "both.tenon").read_bytes()
        machines = {int.from_bytes(data[at + 18 : at + 20], "little") for at in range(0, len(data), 64)
                    if data[at : at + 4] == b"\x7fELF"}  # fmt: skip
        self.assertEqual({62, 183}, machines)
        doctor = self.json("doctor")
        own = {"x86-64": "x86-64-v3", "aarch64": "armv8-a"}[doctor["architecture"]]
        self.assertEqual({doctor["architecture"]}, {level["architecture"] for level in doctor["levels"]})
        runs = {variant["level"] for variant in self.json("check", "both.tenon")["variants"] if variant["runs_here"]}
        self.assertEqual({own}, runs - {"sm_80"})
        foreign = {"x86-64-v3": "armv8-a", "armv8-a": "x86-64-v3"}[own]
        self.refuse(3, "TN0517", "run", "both.tenon", "--variant", foreign)

    def test_the_gpu_of_this_machine(self):
        done = self.succeed("compile", CNN, "-o", "p.tenon", "--target", "cuda")
        gpus = self.json("doctor")["gpu"]["devices"]
        if gpus:
            self.assertIn(gpus[0]["capability"], self.levels("p.tenon")[0])
        else:
            self.assertIn("NVIDIA H200 (cuda:h200), which is assumed", done.stderr)
            self.assertEqual(["sm_90a"], self.levels("p.tenon"))

    def test_an_engine_for_other_targets_is_kept(self):
        shutil.copy(CNN, self.folder / "kept.onnx")
        self.succeed("compile", "kept.onnx", "--target", "cpu:avx2")
        done = self.refuse(2, "TN0105", "compile", "kept.onnx", "--target", "cuda:sm_90")
        self.assertIn("--target cpu,cuda", done.stderr)
        self.assertEqual(["x86-64-v3"], self.levels("kept.tenon"))
        self.succeed("compile", "kept.onnx", "--target", "cpu:avx2,cuda:sm_90")
        self.refuse(2, "TN0105", "compile", "kept.onnx", "--target", "cpu:avx2")
        self.succeed("compile", "kept.onnx", "--target", "cuda:sm_90", "--force")
        self.assertEqual(["sm_90"], self.levels("kept.tenon"))

    def test_each_architecture_has_what_it_can_do(self):
        self.succeed("compile", "norms.onnx", "-o", "n.tenon", "--target", "cuda:" + ",".join(ARCHITECTURES))
        data = (self.folder / "n.tenon").read_bytes()
        found = {}
        for ptx in re.findall(rb"\.version [^\0]+\0", data):
            arch = re.search(rb"\.target (\w+)", ptx)[1].decode()
            found[arch] = ptx[:-1].decode()
        self.assertEqual(set(ARCHITECTURES), set(found))
        ptxas = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
        for arch, waits in ARCHITECTURES.items():
            self.assertEqual(waits, "griddepcontrol" in found[arch], arch)
            self.assertEqual(waits, "cluster" in found[arch], arch)
            if ptxas:
                (self.folder / "code.ptx").write_text(found[arch])
                subprocess.run([ptxas, f"-arch={arch}", "code.ptx", "-o", "code.cubin"], cwd=self.folder, check=True)

    def test_profile(self):
        self.succeed("compile", CNN, "-o", "p.tenon")
        self.write({"cpu": {"memory_bytes_per_s": 1e9, "launch_s": 1}})
        # The cache tells engines apart that were decided by other numbers.
        for expected in (False, True):
            report = self.json("compile", CNN, "-o", "p.tenon", "--device-profile", "profile.json")
            self.assertEqual(expected, report["from_cache"])

    def test_refused_profiles(self):
        for profile in ({"cpu": {"memory": 1}}, {"cpu": {"cores": 0}}, {"cuda": {"cores": 4}}, [], {"cpu": {"name": "\x1b[2J", "x\x1b": 1}}):
            self.write(profile)
            done = self.refuse(2, "TN0105", "compile", CNN, "-o", "p.tenon", "--device-profile", "profile.json")
            self.assertNotIn("\x1b", done.stderr)

    def test_calibrated(self):
        self.refuse(2, "TN0105", "doctor", "-o", "mine.json")
        self.succeed("doctor", "--calibrate", "-o", "mine.json")
        profile = json.loads((self.folder / "mine.json").read_text())
        cpu = profile["cpu"]
        self.assertGreater(cpu["memory_bytes_per_s"], 1e8)
        self.assertGreater(cpu["cache_bytes_per_s"], cpu["memory_bytes_per_s"] / 4)
        self.assertGreater(cpu["fp32_flops"], 1e9)
        self.assertEqual(bool(self.json("doctor")["gpu"]["devices"]), "cuda" in profile)
        self.succeed("compile", CNN, "-o", "p.tenon", "--device-profile", "mine.json")
        self.succeed("run", "p.tenon")


if __name__ == "__main__":
    unittest.main()
