"""What the contenders of PyTorch share."""

from __future__ import annotations

import importlib.util


def missing(device: str) -> str:
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    if device == "cuda":
        import torch

        return "" if torch.cuda.is_available() else "torch sees no GPU"
    return ""


def prepare(source, options):
    """Module and inputs on the device, with FP32 products as FP32."""
    import torch

    from . import NotForThis

    if source.module is None:
        raise NotForThis("an ONNX file has no form in PyTorch")
    torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return source.module.to(options.device), [value.to(options.device) for value in source.inputs]


def runner(call, inputs, device: str):
    """A run to its end, with the outputs as they are."""
    import torch

    def run():
        with torch.inference_mode():
            outputs = flat(call(*inputs))
            if device == "cuda":
                torch.cuda.synchronize()
            return outputs

    return run


def flat(outputs) -> list:
    """The tensors of any nest of outputs, in order."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [value for value in tree_leaves(outputs) if isinstance(value, torch.Tensor)]


def onnx_file(source, options) -> str:
    """The model as an ONNX file, by PyTorch's own exporter."""
    import os

    if source.kind == "onnx":
        return source.path
    import torch

    path = os.path.join(options.folder, "exported.onnx")
    with torch.no_grad():
        torch.onnx.export(source.module, tuple(source.inputs), dynamo=True, verbose=False).save(path)
    return path


def versions() -> dict:
    import torch

    return {"torch": torch.__version__}
