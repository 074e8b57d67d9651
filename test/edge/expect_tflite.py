"""Writes tflite_bytes.npy: what TensorFlow Lite Micro makes of the model of tflite.py. By hand, with a Python that has tflite-micro: TENON_SOURCE_DIR=. TENON_BUILD_DIR=build/dev python test/edge/expect_tflite.py."""

import pathlib

import numpy as np
import tflite
from tflite_micro.python.tflite_micro import runtime

model, data, _ = tflite.Operators.quantized_model(has_lite_scales=True)
interpreter = runtime.Interpreter.from_bytes(model.bytes())
interpreter.set_input(data, 0)
interpreter.invoke()
np.save(pathlib.Path(__file__).parent / "tflite_bytes.npy", interpreter.get_output(0).ravel())
