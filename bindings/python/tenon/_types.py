"""Element types of the C interface, as numpy, torch and DLPack have them."""

from __future__ import annotations

import functools
from typing import NamedTuple, Optional


class DType(NamedTuple):
    name: str  # torch's, and numpy's where it has the type
    numpy: str  # the type in which numpy holds it: raw bytes where it has none
    code: int  # of DLPack
    bits: int


# By tenon_dtype, from 1. Elements of 4 and 2 bits lie one to a byte.
DTYPES = [
    DType("float32", "f4", 2, 32), DType("float64", "f8", 2, 64), DType("float16", "f2", 2, 16),
    DType("bfloat16", "u2", 4, 16), DType("int8", "i1", 0, 8), DType("int16", "i2", 0, 16),
    DType("int32", "i4", 0, 32), DType("int64", "i8", 0, 64), DType("uint8", "u1", 1, 8),
    DType("uint16", "u2", 1, 16), DType("uint32", "u4", 1, 32), DType("uint64", "u8", 1, 64),
    DType("bool", "?", 6, 8), DType("float8_e4m3fn", "u1", 10, 8), DType("float8_e4m3fnuz", "u1", 11, 8),
    DType("float8_e5m2", "u1", 12, 8), DType("float8_e5m2fnuz", "u1", 13, 8), DType("int4", "i1", 0, 4),
    DType("uint4", "u1", 1, 4), DType("complex64", "c8", 5, 64), DType("complex128", "c16", 5, 128),
    DType("float8_e8m0fnu", "u1", 14, 8), DType("float4_e2m1fn", "u1", 17, 4), DType("int2", "i1", 0, 2),
    DType("uint2", "u1", 1, 2),
]  # fmt: skip


@functools.cache
def numpy_type(index: int):
    """What numpy arrays of a tenon_dtype have as their dtype; ml_dtypes' own ones where it is installed."""
    import numpy

    entry = DTYPES[index - 1]
    if hasattr(numpy, entry.name) or entry.name == "bool":
        return numpy.dtype(entry.numpy)
    try:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, entry.name))
    except (ImportError, AttributeError):
        return numpy.dtype(entry.numpy)


@functools.cache
def torch_type(index: int) -> Optional[object]:
    """The torch.dtype of a tenon_dtype; None where torch has none."""
    import torch

    return getattr(torch, DTYPES[index - 1].name, None)
