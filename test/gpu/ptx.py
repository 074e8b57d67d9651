"""The PTX of whole models, on a machine without a GPU: it needs nothing from outside, is the same bytes with and without a
CUDA toolkit, and ptxas (where there is one) assembles every kernel for each architecture without memory for spills, within
the registers and the shared memory of a block there.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "test/e2e"), str(SOURCE / "scripts")]

import gpu_cases  # noqa: E402
from sharding_nets import NETS  # noqa: E402
from tool import CNN, ToolTest  # noqa: E402

GRAPHS = SOURCE / "models/graphs"
# Between them: library calls and their fallbacks, attention, norms, depthwise convolutions, embeddings.
MODELS = {"fashion_cnn": CNN, **{name: GRAPHS / f"{name}.onnx" for name in (
    "bert_base.dynamo", "gpt2.dynamo", "mobilenet_v2.dynamo", "resnet50.torchscript", "vit_b16.dynamo")}}
ARCHS = ("sm_80", "sm_89", "sm_90a", "sm_100")
# Of a block, by the programming guide of CUDA; 65,536 registers and 1024 threads everywhere. Blocks of a cluster.
SHARED = {"sm_80": 163 << 10, "sm_86": 99 << 10, "sm_89": 99 << 10, "sm_90": 227 << 10, "sm_90a": 227 << 10, "sm_100": 227 << 10}
CLUSTER = {"sm_90": 8, "sm_90a": 16, "sm_100": 8}
REGISTERS, THREADS = 65536, 1024
PTXAS = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")

SPILLING = """.version 8.6
.target {arch}
.address_size 64
.visible .entry planted(.param .u64 out) {{
  .local .align 4 .b8 depot[64];
  .reg .b32 %r<3>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u64 %rd2, depot;
  cvt.u64.u32 %rd3, %r1;
  add.u64 %rd2, %rd2, %rd3;
  st.local.u32 [%rd2], %r1;
  ld.local.u32 %r2, [depot];
  st.global.u32 [%rd1], %r2;
  ret;
}}
"""


def text_faults(ptx, arch):
    """What PTX must not say, or must."""
    faults = [f"needs {line.strip()}" for line in ptx.splitlines() if ".extern .func" in line]
    if re.findall(r"^\.target (\S+)", ptx, re.M) != [arch]:
        faults.append(f"is not for {arch} alone")
    if ".entry" not in ptx:
        faults.append("has no kernel")
    faults += [f"has {word}" for word in ("wgmma", "setmaxnreg") if word in ptx and arch != "sm_90a"]
    faults += [f"has clusters of {blocks}" for blocks in re.findall(r"^\.reqnctapercluster (\d+)", ptx, re.M)
               if int(blocks) > CLUSTER.get(arch, 1)]
    return faults


def launches_of(plan):
    """{kernel: (threads, bytes of dynamic shared memory)} of a plan as text, the most of its launches."""
    found = {}
    for name, threads, shared in re.findall(r"^\d+: launch (\w+)\(.* x (\d+) threads(?: scratch (\d+))?", plan, re.M):
        found[name] = tuple(map(max, found.get(name, (0, 0)), (int(threads), int(shared or 0))))
    return found


def limit_faults(report, launches, arch):
    """What the kernels of a report of ptxas take beyond what the architecture has. A warp gets registers by the 256."""
    faults = []
    for kernel in re.split(r"Compiling entry function ", report)[1:]:
        name = kernel.split(maxsplit=1)[0].strip("'")
        if name not in launches:
            faults.append(f"{name} is launched nowhere")
            continue
        threads, dynamic = launches[name]
        registers = -(-int(re.search(r"Used (\d+) registers", kernel)[1]) // 8) * 8 * -(-threads // 32) * 32
        fixed = re.search(r"(\d+) bytes smem", kernel)
        shared = dynamic + (int(fixed[1]) if fixed else 0)
        faults += [f"{name}: {taken} {what} of {most}" for what, taken, most in (
            ("threads", threads, THREADS), ("registers", registers, REGISTERS), ("bytes of shared memory", shared, SHARED[arch]))
            if taken > most]
    return faults


def ptxas_faults(ptx, arch, launches=None):
    """What ptxas says against it: errors, memory of its own for a thread, and with launches what a block cannot have."""
    done = subprocess.run([PTXAS, "-v", f"-arch={arch}", "-", "-o", "/dev/null"], input=ptx, text=True, capture_output=True,
                          timeout=120)
    report = done.stdout + done.stderr
    if done.returncode != 0:
        return [report.strip()]
    kernels = re.split(r"Compiling entry function ", report)[1:]
    return [kernel.split(maxsplit=1)[0].strip("'") + " has memory of its own: " + frame.group(0)
            for kernel in kernels for frame in re.finditer(r"\d+ bytes stack frame.*", kernel)
            if re.search(r"[1-9]\d* bytes", frame.group(0))] + (limit_faults(report, launches, arch) if launches is not None else [])


class Ptx(ToolTest):
    @classmethod
    def compiled(cls, model, *flags, archs=ARCHS, environment=()):
        """PTX and the launches by architecture."""
        folder = cls.folder / "phases"
        shutil.rmtree(folder, ignore_errors=True)
        kept, cls.environment = cls.environment, {**cls.environment, **dict(environment)}
        cls.succeed("compile", model, "--target", "cuda:" + ",".join(archs), "--stop-after", "plan", "--dump-phases", folder,
                    "--quiet", *flags)
        cls.environment = kept
        return {arch: ((folder / f"4-codegen-{arch}.ptx").read_bytes().rstrip(b"\0").decode(),
                       launches_of((folder / f"5-plan-{arch}.txt").read_text())) for arch in archs}

    def hold(self, model, *flags, archs=ARCHS):
        for arch, (ptx, launches) in self.compiled(model, *flags, archs=archs).items():
            with self.subTest(arch=arch, flags=flags):
                self.assertEqual([], text_faults(ptx, arch))
                if PTXAS:
                    self.assertEqual([], ptxas_faults(ptx, arch, launches))

    def test_models(self):
        for name, model in MODELS.items():
            with self.subTest(name):
                self.hold(model)

    def test_narrow_types(self):
        for name in ("bert_base.dynamo", "vit_b16.dynamo"):
            self.hold(MODELS[name], "--precision", "fp16")
        self.hold(CNN, "--precision", "bf16")

    def test_rows_of_all_widths(self):
        """The measured kernels: rows of a warp, a block and a cluster."""
        for name, case in gpu_cases.all_cases().items():
            if name.startswith(("softmax", "layer_norm", "rms_norm", "add_norm", "chain")):
                with self.subTest(name):
                    gpu_cases.onnx.save(case.model(), str(self.folder / "kernel.onnx"))
                    self.hold(self.folder / "kernel.onnx", archs=("sm_80", "sm_90"))

    def test_ranks(self):
        """An engine with ranks has the kernels of its collectives, which no launch of its plan names."""
        path = self.folder / "gated.onnx"
        gpu_cases.onnx.save(NETS["gated"](), str(path))
        cuts = [f"--pin={name}={cut}" for name, cut in (("gate", "column"), ("up", "column"), ("down", "row"))]
        for arch, (ptx, _) in self.compiled(path, "--tp", "2", *cuts, archs=("sm_80", "sm_90a")).items():
            with self.subTest(arch=arch):
                self.assertEqual([], text_faults(ptx, arch))
                self.assertEqual({"tenon_all_reduce_one_f32_2", "tenon_all_reduce_two_f32_2"}, set(re.findall(r"\.entry (tenon_\w+)", ptx)))
                self.assertNotIn("multimem", ptx)
                if PTXAS:
                    self.assertEqual([], ptxas_faults(ptx, arch))

    def test_planted_texts_are_found(self):
        self.assertEqual(["needs .extern .func (.param .b32 r) __nv_expf"],
                         text_faults(".target sm_90\n.extern .func (.param .b32 r) __nv_expf\n.entry k", "sm_90"))
        self.assertEqual(["has wgmma", "has clusters of 16"], text_faults(
            ".target sm_100\n.entry k\n.reqnctapercluster 16, 1, 1\nwgmma.fence.sync.aligned;", "sm_100"))
        self.assertEqual(["is not for sm_90 alone", "has no kernel"], text_faults(".target sm_80\n", "sm_90"))

    def test_planted_launches_are_found(self):
        """Of a kernel with 72 registers: what fits one part does not fit another, and 1024 threads fit none."""
        report = "Compiling entry function 'k' for\nptxas info : Used 65 registers, used 1 barriers, 1024 bytes smem"
        large = {"k": (256, 150 << 10)}
        self.assertEqual([], limit_faults(report, large, "sm_80"))
        self.assertEqual(["k: 154624 bytes of shared memory of 101376"], limit_faults(report, large, "sm_89"))
        self.assertEqual(["k: 73728 registers of 65536"], limit_faults(report, {"k": (1024, 0)}, "sm_100"))
        self.assertEqual(["k is launched nowhere"], limit_faults(report, {}, "sm_80"))
        plan = "3: launch k(n * 2) grid n x 128 threads scratch 36880 reads %1\n4: launch k(n) grid 1 x 64 threads reads %2\n"
        self.assertEqual({"k": (128, 36880)}, launches_of(plan))

    def test_a_toolkit_changes_nothing(self):
        toolkit = self.folder / "toolkit"
        (toolkit / "nvvm/libdevice").mkdir(parents=True)
        (toolkit / "nvvm/libdevice/libdevice.10.bc").write_bytes(b"planted")
        (toolkit / "bin").mkdir()
        (toolkit / "bin/ptxas").symlink_to("/bin/false")
        (toolkit / "bin/nvcc").symlink_to("/bin/false")
        path = f"{toolkit}/bin:{os.environ['PATH']}"
        environment = {"CUDA_HOME": str(toolkit), "CUDA_PATH": str(toolkit), "CUDA_ROOT": str(toolkit), "PATH": path}
        for name in ("fashion_cnn", "mobilenet_v2.dynamo"):
            plain = self.compiled(MODELS[name], archs=("sm_90",))
            self.assertEqual(plain, self.compiled(MODELS[name], archs=("sm_90",), environment=environment))


@unittest.skipUnless(PTXAS, "ptxas is not here: PTX was looked at as text only")
class Assembled(ToolTest):
    def test_assembled_by_ptxas(self):
        """Memory of a thread is found, and launches that do not fit."""
        for arch in ARCHS:
            found = ptxas_faults(SPILLING.format(arch=arch), arch)
            self.assertEqual(1, len(found), found)
            self.assertIn("planted has memory of its own", found[0])
            self.assertEqual(1, len(ptxas_faults("nothing", arch)))
            # Launched with what a block has on the others, and with more threads than any has.
            found = ptxas_faults(SPILLING.format(arch=arch), arch, {"planted": (64, 120 << 10)})[1:]
            self.assertEqual(["planted: 122880 bytes of shared memory of 101376"] if arch == "sm_89" else [], found)
            found = ptxas_faults(SPILLING.format(arch=arch), arch, {"planted": (2048, 0)})[1:]
            self.assertEqual(["planted: 2048 threads of 1024"], found)


if __name__ == "__main__":
    unittest.main()
