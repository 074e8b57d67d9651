"""ONNX Runtime as the oracle of models that `tenon quantize` reads and writes."""

import numpy as np
import onnxruntime


def by_peer(path, inputs):
    """What the file says by its own: without rewriting, ONNX Runtime computes each node as it stands."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def distance(actual, expected):
    """Of norms, relative to the expected one."""
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))
