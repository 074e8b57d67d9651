"""TensorRT from ONNX, with tensors of PyTorch on the device."""

import importlib.util

from . import _torch

PACKAGE = "tensorrt and torch (for PyTorch models also onnxscript)"


def missing(device: str) -> str:
    if device != "cuda":
        return "it runs on NVIDIA GPUs alone: --device cuda"
    return _torch.missing(device) or ("" if importlib.util.find_spec("tensorrt") else "tensorrt is not installed")


def make(source, options):
    import tensorrt
    import torch

    logger = tensorrt.Logger(tensorrt.Logger.ERROR)
    builder = tensorrt.Builder(logger)
    network = builder.create_network(0)
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse_from_file(_torch.onnx_file(source, options)):
        raise RuntimeError("; ".join(str(parser.get_error(i)) for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    config.clear_flag(tensorrt.BuilderFlag.TF32)
    profile = builder.create_optimization_profile()
    for index, value in enumerate(source.inputs):
        profile.set_shape(network.get_input(index).name, *[tuple(value.shape)] * 3)
    config.add_optimization_profile(profile)
    engine = tensorrt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
    context, stream = engine.create_execution_context(), torch.cuda.Stream()
    held, outputs = [torch.as_tensor(value).cuda().contiguous() for value in source.inputs], []
    for index, value in enumerate(held):
        context.set_input_shape(network.get_input(index).name, tuple(value.shape))
        context.set_tensor_address(network.get_input(index).name, value.data_ptr())
    for index in range(network.num_outputs):
        name = network.get_output(index).name
        dtype = torch.as_tensor(tensorrt.nptype(engine.get_tensor_dtype(name))(0)).dtype
        outputs.append(torch.empty(tuple(context.get_tensor_shape(name)), dtype=dtype, device="cuda"))
        context.set_tensor_address(name, outputs[-1].data_ptr())

    def run():
        if not context.execute_async_v3(stream.cuda_stream):
            raise RuntimeError("the run failed")
        stream.synchronize()
        return outputs

    return run, {"tensorrt": tensorrt.__version__}
