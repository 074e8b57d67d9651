"""A Triton kernel of one's own inside a model of PyTorch's: python softmax_triton.py [FOLDER].

Writes softmax.ptx, its metadata, its description and its reference to FOLDER, without a GPU; with one, compiles a module by them and compares it with PyTorch's.
"""

import json
import os
import pathlib
import sys
import tempfile

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # which name this file's folder

import onnx
import torch
import triton
import triton.language as tl
from onnx import TensorProto, helper
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

KEPT = ("name", "shared", "num_warps", "num_ctas", "global_scratch_size", "profile_scratch_size", "launch_cooperative_grid", "triton_version")
COLUMNS = 1024
"""The most that a row has, which is one block's."""


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * columns + i, powers / tl.sum(powers, 0), mask=i < columns)


@torch.library.custom_op("example::softmax", mutates_args=())
def row_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


@row_softmax.register_fake
def _(x):
    return torch.empty_like(x)


class Attention(torch.nn.Module):
    def forward(self, queries, keys, values):
        return row_softmax(queries @ keys.T / keys.shape[1] ** 0.5) @ values


def write_library(folder: pathlib.Path) -> str:
    """Triton's PTX with all that goes with it; gives its path."""
    types = {"x": "*fp32", "y": "*fp32", "columns": "i32", "BLOCK": "constexpr"}
    source = ASTSource(softmax, signature=types, constexprs={"BLOCK": COLUMNS})
    kernel = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})
    (folder / "softmax.ptx").write_text(kernel.asm["ptx"])
    metadata = {key: value for key, value in kernel.metadata._asdict().items() if key in KEPT}
    (folder / "softmax.metadata.json").write_text(json.dumps(metadata, indent=2) + "\n")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", "columns"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], "softmax", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "softmax.onnx")
    tensor = {"type": "f32", "shape": ["rows", "columns"]}
    entry = {
        "operator": "example::softmax", "backend": "cuda", "metadata": "softmax.metadata.json", "reference": "softmax.onnx",
        "inputs": [{"name": "x", **tensor}], "outputs": [{"name": "y", **tensor}], "arguments": ["x", "y", "columns"], "grid": ["rows"],
        "sizes": {"columns": [1, COLUMNS]},
    }  # fmt: skip
    (folder / "softmax.json").write_text(json.dumps({"schema": "tenon.kernels/1", "kernels": [entry]}, indent=2) + "\n")
    return str(folder / "softmax.ptx")


def main(folder: pathlib.Path) -> None:
    library = write_library(folder)
    if not torch.cuda.is_available():
        print(f"{library} is written; this machine has no GPU to run it")
        return
    inputs = [torch.randn(rows, 64, device="cuda") for rows in (256, COLUMNS, COLUMNS)]
    with torch.inference_mode():
        attention = torch.compile(Attention().eval(), backend="tenon", options={"kernel_libraries": [library]})
        torch.testing.assert_close(attention(*inputs), Attention()(*inputs), rtol=1e-3, atol=1e-4)
    print("Triton's softmax runs inside the engine, and gives what PyTorch gives")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
