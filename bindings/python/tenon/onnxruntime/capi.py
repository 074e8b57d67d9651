"""`onnxruntime.capi`: programs name types and errors by modules inside of ONNX Runtime's package. All of them are this one.

Imports are absolute, since its own name may be onnxruntime.capi.
"""

import sys

from tenon._errors import BadInputError, DeviceError, Error, UnsupportedError, UsageError
from tenon.onnxruntime import (  # noqa: F401
    ExecutionMode, ExecutionOrder, GraphOptimizationLevel, InferenceSession, IOBinding, ModelMetadata, NodeArg, OrtValue, RunOptions,
    SessionOptions, get_all_providers, get_available_providers, get_device,
)  # fmt: skip

Fail = EngineError = RuntimeException = Error
InvalidArgument = ValueError  # wrong arguments and tensors: UsageError and BadInputError
InvalidGraph = InvalidProtobuf = BadInputError
ModelLoaded = NoModel = NoSuchFile = UsageError
NotImplemented = UnsupportedError
EPFail = DeviceError

__path__ = []  # so that the import of the names below looks for them inside of this module
for _name in ("onnxruntime_pybind11_state", "_pybind_state", "onnxruntime_inference_collection"):
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = sys.modules[__name__]
