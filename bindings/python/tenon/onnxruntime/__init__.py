"""ONNX Runtime's interface over Tenon, so that programs written for it run with one import changed:

    import tenon.onnxruntime as onnxruntime

    session = onnxruntime.InferenceSession("model.onnx")
    outputs = session.run(None, {"x": x})

A program that is not yours is given it before it imports its own: sys.modules["onnxruntime"] = tenon.onnxruntime.

A model is compiled when its session is made and read from the compile cache from then on. One that Tenon can compile for fixed sizes only is
compiled at the first run of each set of sizes, and the session warns of that. What Tenon lacks is tenon.UnsupportedError, a wrong input a
ValueError. Of the options those count that have a meaning here: threads, providers, free dimensions. Any number of threads may run one session.
"""

from __future__ import annotations

from typing import List

from .. import _compile
from ._metadata import ModelMetadata
from ._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from ._session import CPU as _CPU
from ._session import CUDA as _CUDA
from ._session import InferenceSession, NodeArg, get_available_providers
from ._values import IOBinding, OrtValue

__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "InferenceSession", "IOBinding", "ModelMetadata", "NodeArg", "OrtValue",
    "RunOptions", "SessionOptions", "get_all_providers", "get_available_providers", "get_device",
]  # fmt: skip

__version__ = "1.31.1"  # the version of ONNX Runtime whose interface this is


def get_all_providers() -> List[str]:
    return [_CUDA, _CPU]


def get_device() -> str:
    return "GPU" if _CUDA in get_available_providers() else "CPU"


def get_version_string() -> str:
    return __version__


def get_build_info() -> str:
    return "Tenon"


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str = "") -> None:
    """Taken and not looked at: libraries are opened where a run needs them."""


def set_seed(seed: int) -> None:
    """Taken and not looked at: a model draws the same numbers each time."""


def set_default_logger_severity(severity: int) -> None:
    """Taken and not looked at: nothing is logged."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Taken and not looked at: nothing is logged."""


def enable_telemetry_events() -> None:
    """There are none."""


def disable_telemetry_events() -> None:
    """There are none."""


from . import capi  # noqa: E402, F401  at the end, since it takes its names from here
