"""A model for Triton's Python backend that runs ONNX Runtime: measure.py puts it into a folder of models as model.py, beside model.onnx.

Requests that Triton hands over together run as one batch.
"""

import os

import numpy as np
import onnxruntime
import triton_python_backend_utils as triton


class TritonPythonModel:
    def initialize(self, args):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        path = os.path.join(args["model_repository"], args["model_version"], "model.onnx")
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = [value.name for value in self.session.get_inputs()]
        self.output = self.session.get_outputs()[0].name

    def execute(self, requests):
        parts = [[triton.get_input_tensor_by_name(request, name).as_numpy() for name in self.inputs] for request in requests]
        feed = {name: np.concatenate([part[i] for part in parts]) for i, name in enumerate(self.inputs)}
        result, = self.session.run([self.output], feed)
        rows = np.cumsum([len(part[0]) for part in parts])[:-1]
        return [triton.InferenceResponse([triton.Tensor(self.output, piece)]) for piece in np.split(result, rows)]
