"""Programs of torch.export as ONNX, for what rewrites ONNX. Relies on torch and onnxscript, which only this path needs."""

from __future__ import annotations

import os
from typing import Any

from ._errors import usage


def is_program(path: Any) -> bool:
    """Whether it names an archive of torch.export."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def onnx_of(path: Any, folder: str) -> str:
    """The path of an ONNX model in `folder` with the archive's program; weights lie beside it."""
    try:
        import onnxscript  # noqa: F401  what torch.onnx.export writes with
        import torch
    except ImportError as error:
        raise usage(
            "TN0105", f"'{os.fspath(path)}' is a program of torch.export, and to make ONNX of it {error.name} is missing",
            f"pip install {error.name}",
        ) from error  # fmt: skip
    model = os.path.join(folder, "model.onnx")
    torch.onnx.export(torch.export.load(path), (), model, dynamo=True, external_data=True, verbose=False)
    return model
