"""Tenon: compiles trained models to engines, runs and explains them.

    import tenon

    engine = tenon.compile("model.onnx")        # or model.pt2, or a torch.nn.Module with example inputs
    y = engine(x)                               # numpy arrays or torch tensors, without copies
    engine.explain("fusion")

    for piece in tenon.generate("model.gguf", "How many days are there in a week?"):
        print(piece.text, end="", flush=True)

With PyTorch, `torch.compile(model, backend="tenon")` needs no import of this package.
"""

from typing import TYPE_CHECKING

from ._engine import Engine, Port, Session, load
from ._errors import (
    BadInputError, CancelledError, CheckFailedError, DeviceError, Error, ExhaustedError, InternalError, UnsupportedError,
    UsageError,
)  # fmt: skip

if TYPE_CHECKING:  # imported when they are first used: see __getattr__
    from . import compare, drift, mlflow, onnxruntime, passes, pipeline, prune, ray_serve, registry
    from ._accuracy import accuracy
    from ._compile import check, compile, doctor, inspect
    from ._generate import Answer, Generation, LanguageModel, Piece, generate
    from ._graph import Graph, graph
    from ._quantize import quantize
    from ._tune import tune
    from .torch import report, reset

__version__ = "0.1.0"

__all__ = [
    "Answer", "BadInputError", "CancelledError", "CheckFailedError", "DeviceError", "Engine", "Error", "ExhaustedError",
    "Generation", "Graph", "InternalError", "LanguageModel", "Piece", "Port", "Session", "UnsupportedError", "UsageError",
    "accuracy", "check", "compile", "doctor", "generate", "graph", "inspect", "load", "prune", "quantize", "report",
    "reset", "tune",
]  # fmt: skip

_SUBMODULES = ("compare", "drift", "mlflow", "onnxruntime", "passes", "pipeline", "prune", "ray_serve", "registry", "torch")


def __getattr__(name):
    """Names that need more than running does are imported when they are first used."""
    if name in ("compile", "check", "inspect", "doctor"):
        from . import _compile

        value = getattr(_compile, name)
    elif name == "accuracy":
        from ._accuracy import accuracy as value
    elif name in ("generate", "Answer", "Generation", "LanguageModel", "Piece"):
        from . import _generate

        value = getattr(_generate, name)
    elif name in ("graph", "Graph"):
        from . import _graph

        value = getattr(_graph, name)
    elif name == "quantize":
        from ._quantize import quantize as value
    elif name == "tune":
        from ._tune import tune as value
    elif name in _SUBMODULES:
        import importlib

        # Not `from . import`, which asks this function again.
        value = importlib.import_module(f".{name}", __name__)
    elif name in ("report", "reset"):
        from . import torch as backend

        value = getattr(backend, name)
    else:
        raise AttributeError(f"module 'tenon' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
