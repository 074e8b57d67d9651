"""What errors are measured against: PyTorch in float64; of ONNX files ONNX Runtime without optimizations."""

from __future__ import annotations

from ..contenders import _torch


def make(source, options):
    if source.kind == "onnx":
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(source.path, settings, providers=["CPUExecutionProvider"])
        feeds = dict(zip(source.names, source.inputs))
        return lambda: session.run(None, feeds), {"reference": "ONNX Runtime on the CPU, without optimizations"}
    import torch

    torch.set_num_threads(options.threads)
    inputs = [value.double() if value.is_floating_point() else value for value in source.inputs]
    return _torch.runner(source.module.double(), inputs, "cpu"), {"reference": "PyTorch on the CPU in float64"}
