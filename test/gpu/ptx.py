"""The PTX of whole models, on a machine without a GPU: it needs nothing from outside, is the same bytes with and without a
CUDA toolkit, and ptxas (where there is one) assembles every kernel for each architecture without memory for spills.
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
from tool import CNN, ToolTest  # noqa: E402

GRAPHS = SOURCE / "models/graphs"
# Between them: library calls and their fallbacks, attention, norms, depthwise convolutions, embeddings.
MODELS = {"fashion_cnn": CNN, **{name: GRAPHS / f"{name}.onnx" for name in (
    "bert_base.dynamo", "gpt2.dynamo", "mobilenet_v2.dynamo", "resnet50.torchscript", "vit_b16.dynamo")}}
ARCHS = ("sm_80", "sm_89", "sm_90", "sm_100")
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
    return faults


def ptxas_faults(ptx, arch):
    """What ptxas says against it: errors, and memory of its own for a thread."""
    done = subprocess.run([PTXAS, "-v", f"-arch={arch}", "-", "-o", "/dev/null"], input=ptx, text=True, capture_output=True,
                          timeout=120)
    report = done.stdout + done.stderr
    if done.returncode != 0:
        return [report.strip()]
    kernels = re.split(r"Compiling entry function ", report)[1:]
    return [kernel.split(maxsplit=1)[0].strip("'") + " has memory of its own: " + frame.group(0)
            for kernel in kernels for frame in re.finditer(r"\d+ bytes stack frame.*", kernel)
            if re.search(r"[1-9]\d* bytes", frame.group(0))]


class Ptx(ToolTest):
    @classmethod
    def compiled(cls, model, *flags, archs=ARCHS, environment=()):
        """PTX by architecture."""
        folder = cls.folder / "phases"
        shutil.rmtree(folder, ignore_errors=True)
        kept, cls.environment = cls.environment, {**cls.environment, **dict(environment)}
        cls.succeed("compile", model, "--target", "cuda:" + ",".join(archs), "--stop-after", "codegen", "--dump-phases", folder,
                    "--no-cache", "--quiet", *flags)
        cls.environment = kept
        return {arch: (folder / f"4-codegen-{arch}.ptx").read_bytes().rstrip(b"\0").decode() for arch in archs}

    def hold(self, model, *flags, archs=ARCHS):
        for arch, ptx in self.compiled(model, *flags, archs=archs).items():
            with self.subTest(arch=arch, flags=flags):
                self.assertEqual([], text_faults(ptx, arch))
                if PTXAS:
                    self.assertEqual([], ptxas_faults(ptx, arch))

    def test_models(self):
        for name, model in MODELS.items():
            with self.subTest(name):
                self.hold(model)

    def test_narrow_types(self):
        self.hold(MODELS["vit_b16.dynamo"], "--precision", "fp16")
        self.hold(CNN, "--precision", "bf16")

    def test_rows_of_all_widths(self):
        """The measured kernels: rows of a warp, a block and a cluster."""
        for name, case in gpu_cases.all_cases().items():
            if name.startswith(("softmax", "layer_norm", "rms_norm", "add_norm", "chain")):
                with self.subTest(name):
                    gpu_cases.onnx.save(case.model(), str(self.folder / "kernel.onnx"))
                    self.hold(self.folder / "kernel.onnx", archs=("sm_80", "sm_90"))

    @unittest.skipUnless(PTXAS, "ptxas is not here: the PTX above was not assembled")
    def test_assembled_by_ptxas(self):
        """Its skipping says that the others looked at the text only; memory of a thread is found."""
        for arch in ARCHS:
            found = ptxas_faults(SPILLING.format(arch=arch), arch)
            self.assertEqual(1, len(found), found)
            self.assertIn("planted has memory of its own", found[0])
            self.assertEqual(1, len(ptxas_faults("nothing", arch)))

    def test_planted_texts_are_found(self):
        self.assertEqual(["needs .extern .func (.param .b32 r) __nv_expf"],
                         text_faults(".target sm_90\n.extern .func (.param .b32 r) __nv_expf\n.entry k", "sm_90"))
        self.assertEqual(["is not for sm_90 alone", "has no kernel"], text_faults(".target sm_80\n", "sm_90"))

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


if __name__ == "__main__":
    unittest.main()
