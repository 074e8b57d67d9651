"""OpenVINO with its hint for latency, in FP32."""

import importlib.util

PACKAGE = "openvino"


def missing(device: str) -> str:
    if device != "cpu":
        return "it does not run on NVIDIA GPUs"
    return "" if importlib.util.find_spec("openvino") else "openvino is not installed"


def make(source, options):
    import openvino

    model = openvino.convert_model(source.path) if source.kind == "onnx" else openvino.convert_model(
        source.module, example_input=tuple(source.inputs)
    )  # fmt: skip
    # Convolutions are chosen for shapes that are known.
    model.reshape({port: list(value.shape) for port, value in zip(model.inputs, source.inputs)})
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": options.threads, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    for index, value in enumerate(source.inputs):
        request.set_input_tensor(index, openvino.Tensor(value if source.kind == "onnx" else value.numpy()))

    def run():
        request.infer()
        return [request.get_output_tensor(index).data for index in range(len(model.outputs))]

    return run, {"openvino": openvino.__version__}
