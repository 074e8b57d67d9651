"""c = a + alpha * b in Triton, and what writes its PTX and metadata: python vector_add_triton.py [FOLDER], without a GPU."""

import json
import os
import pathlib
import sys

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # which name this file's folder

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def vector_add(a, b, c, n, alpha, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(c + i, tl.load(a + i, mask=inside) + alpha * tl.load(b + i, mask=inside), mask=inside)


def main(folder: pathlib.Path) -> None:
    types = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "n": "i32", "alpha": "fp32", "BLOCK": "constexpr"}
    source = ASTSource(vector_add, signature=types, constexprs={"BLOCK": 1024})
    kernel = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})
    (folder / "vector_add_triton.ptx").write_text(kernel.asm["ptx"])
    kept = ("name", "shared", "num_warps", "num_ctas", "global_scratch_size", "profile_scratch_size", "launch_cooperative_grid", "triton_version")
    metadata = {key: value for key, value in kernel.metadata._asdict().items() if key in kept}
    (folder / "vector_add_triton.metadata.json").write_text(json.dumps(metadata, indent=2) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
