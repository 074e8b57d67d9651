"""ONNX Runtime with all optimizations of the graph; on a GPU with tensors bound on the device."""

import importlib.util

from . import _torch

PACKAGE = "onnxruntime (for PyTorch models also onnxscript; for GPUs onnxruntime-gpu)"
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


def missing(device: str) -> str:
    if importlib.util.find_spec("onnxruntime") is None:
        return "onnxruntime is not installed"
    import onnxruntime

    return "" if PROVIDERS[device] in onnxruntime.get_available_providers() else f"this build has no {PROVIDERS[device]}"


def make(source, options):
    import numpy as np
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = options.threads, 1
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    provider = PROVIDERS[options.device]
    details = {"use_tf32": "0"} if options.device == "cuda" else {}
    session = onnxruntime.InferenceSession(_torch.onnx_file(source, options), settings, providers=[(provider, details)])
    binding = session.io_binding()
    for entry, value in zip(session.get_inputs(), source.inputs):
        tensor = onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value), options.device, 0)
        binding.bind_ortvalue_input(entry.name, tensor)
    for entry in session.get_outputs():
        binding.bind_output(entry.name, options.device)

    def run():
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return [value.numpy() for value in binding.get_outputs()] if options.device == "cpu" else binding.copy_outputs_to_cpu()

    return run, {"onnxruntime": onnxruntime.__version__}
