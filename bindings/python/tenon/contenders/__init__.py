"""Who can be compared with Tenon: one file and one line each.

A contender's module has
    PACKAGE             what to install where it is missing
    missing(device)     why it cannot be used here, or ""
    make(source, options) -> (run, versions)
        readies the model for its inputs, which is what "compile" times, and gives a function without arguments that runs it once
        to the end and returns the outputs as a list, each something `numpy.asarray` takes; and versions by name.
Heavy imports stay inside of the functions: the table is read by processes that use none of them.
"""

from typing import NamedTuple

from . import eager, inductor, max_autotune, onnxruntime, openvino, tenon, tensorrt

TABLE = {
    "tenon": tenon,
    "eager": eager,
    "inductor": inductor,
    "max-autotune": max_autotune,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "tensorrt": tensorrt,
}


class Options(NamedTuple):
    threads: int
    device: str  # "cpu" or "cuda"
    folder: str  # for files on the way


class NotForThis(Exception):
    """The contender does not take models of this kind: no failure, and no row with times."""
