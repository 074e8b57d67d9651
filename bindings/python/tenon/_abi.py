"""The C interface by ctypes: structs, prototypes, and the three libraries.

The runtime is loaded by the import of the package, the others by the first call that needs them. Handles, pointers and
statuses are plain integers here (c_void_p), which makes calls cheap; only this module knows prototypes.
"""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

LIBRARIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")

Progress = ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_double)


class Sized(ctypes.Structure):
    """A struct whose first member is its size, which is set here."""

    def __init__(self, **members):
        super().__init__(struct_size=ctypes.sizeof(self), **members)


class EngineOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("variant", c_char_p), ("no_verify_weights", c_int32), ("gpu", c_int32)]


class PortInfo(Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("name", c_char_p), ("dtype", c_int32), ("rank", c_size_t),
        ("min_dims", POINTER(c_int64)), ("max_dims", POINTER(c_int64)),
    ]  # fmt: skip


class SessionValue(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class SessionOptions(Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("threads", c_uint32), ("memory_limit", c_uint64), ("measure_calls", c_int32),
        ("values", ctypes.POINTER(SessionValue)), ("value_count", c_size_t),
    ]  # fmt: skip


class RunOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("stream", c_void_p)]


class MemoryUse(Sized):
    _fields_ = [("struct_size", c_size_t)] + [
        (name, c_uint64) for name in ("arena", "state", "scratch", "weights", "workspace", "ports", "staging")
    ]


class RunFacts(Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("kernels", c_uint32), ("calls", c_uint32), ("moves", c_uint32),
        ("used_graph", c_int32), ("gpu_seconds", c_double),
    ]  # fmt: skip


class Input(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dims", c_void_p), ("rank", c_size_t)]


class Output(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


class Tensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("rank", c_int32), ("type_code", c_uint8),
        ("type_bits", c_uint8), ("type_lanes", c_uint16), ("dims", c_void_p), ("strides", c_void_p),
        ("byte_offset", c_uint64),
    ]  # fmt: skip


Texts = POINTER(c_char_p)


class Blob(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


class CompileOptions(Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("targets", Texts), ("precision", c_char_p), ("allow", Texts), ("shapes", Texts),
        ("states", Texts), ("taps", Texts), ("threads", c_uint32), ("no_cache", c_int32), ("verify", c_int32),
        ("cubin", c_int32), ("ptxas", c_char_p), ("progress", Progress), ("user", c_void_p),
        ("plugins", Texts), ("passes", c_void_p), ("pass_count", c_size_t),
        ("kernels", Texts), ("disabled_families", Texts), ("optimize_for", Texts),
        ("max_weights", c_double), ("strict", c_int32),
        ("kernel_libraries", Texts), ("unchecked_kernels", c_int32),
    ]  # fmt: skip


class CheckOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("targets", Texts), ("shapes", Texts)]


class InspectOptions(Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("format", c_char_p), ("shapes", Texts), ("output", c_char_p), ("profile", c_char_p),
    ]  # fmt: skip


class LanguageFacts(Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("family", c_char_p), ("chat_template", c_char_p), ("vocabulary", c_int64),
        ("layers", c_int64), ("positions", c_int64), ("trained_positions", c_int64),
    ]  # fmt: skip


class Tokens(ctypes.Structure):
    _fields_ = [("data", POINTER(c_int32)), ("count", c_size_t)]


class Message(ctypes.Structure):
    _fields_ = [("role", c_char_p), ("content", c_char_p), ("bytes", c_size_t)]


class SequenceOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("threads", c_uint32)]


class LogitBias(ctypes.Structure):
    _fields_ = [("token", c_int32), ("bias", c_double)]


class GenerateOptions(Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("repetition_penalty", c_double), ("frequency_penalty", c_double),
        ("presence_penalty", c_double), ("temperature", c_double), ("min_p", c_double), ("top_k", c_int64),
        ("top_p", c_double), ("seed", c_uint64), ("biases", POINTER(LogitBias)), ("bias_count", c_size_t),
        ("max_tokens", c_int64), ("stops", Texts), ("top_tokens", c_int64), ("response_format", c_char_p),
    ]  # fmt: skip


class Draw(ctypes.Structure):
    _fields_ = [("token", c_int32), ("logprob", c_double)]


class Piece(Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("text", c_void_p), ("bytes", c_size_t), ("draw", Draw), ("top", POINTER(Draw)),
        ("top_count", c_size_t), ("finish", c_int32),
    ]  # fmt: skip


ScoreProgress = ctypes.CFUNCTYPE(c_int32, c_void_p, c_double)


class ScoreOptions(Sized):
    _fields_ = [
        ("struct_size", c_size_t), ("window", c_int64), ("max_tokens", c_int64), ("threads", c_uint32),
        ("progress", ScoreProgress), ("user", c_void_p),
    ]  # fmt: skip


class Mean(ctypes.Structure):
    _fields_ = [("value", c_double), ("low", c_double), ("high", c_double)]


class Score(Sized):
    _fields_ = [("struct_size", c_size_t), ("tokens", c_int64), ("surprise", Mean), ("divergence", Mean), ("same_top", Mean)]


# What a function gives and takes; a status is a pointer.
STATUS = c_void_p
RUNTIME = {
    "tenon_status_code": (c_int32, [c_void_p]),
    "tenon_status_id": (c_char_p, [c_void_p]),
    "tenon_status_hint": (c_char_p, [c_void_p]),
    "tenon_status_text": (c_char_p, [c_void_p]),
    "tenon_status_destroy": (None, [c_void_p]),
    "tenon_engine_open": (STATUS, [c_char_p, c_void_p, c_void_p]),
    "tenon_engine_open_memory": (STATUS, [c_void_p, c_size_t, c_void_p, c_void_p]),
    "tenon_engine_destroy": (None, [c_void_p]),
    "tenon_engine_variant": (c_char_p, [c_void_p]),
    "tenon_engine_gpu": (c_int32, [c_void_p]),
    "tenon_engine_input_count": (c_size_t, [c_void_p]),
    "tenon_engine_output_count": (c_size_t, [c_void_p]),
    "tenon_engine_input": (STATUS, [c_void_p, c_size_t, c_void_p]),
    "tenon_engine_output": (STATUS, [c_void_p, c_size_t, c_void_p]),
    "tenon_engine_record": (STATUS, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "tenon_session_create": (STATUS, [c_void_p, c_void_p, c_void_p]),
    "tenon_session_destroy": (None, [c_void_p]),
    "tenon_session_prepare": (STATUS, [c_void_p, c_void_p, c_size_t]),
    "tenon_session_output_shape": (STATUS, [c_void_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "tenon_session_run": (STATUS, [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t]),
    "tenon_session_run_tensors": (STATUS, [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p]),
    "tenon_session_memory": (STATUS, [c_void_p, c_void_p]),
    "tenon_session_facts": (STATUS, [c_void_p, c_void_p]),
    "tenon_session_reset_state": (STATUS, [c_void_p]),
}  # fmt: skip
COMPILER = {
    "tenon_blob_destroy": (None, [c_void_p]),
    "tenon_compiler_version": (c_char_p, []),
    "tenon_compile": (STATUS, [c_char_p, c_char_p, c_void_p, c_void_p]),
    "tenon_check": (STATUS, [c_char_p, c_void_p, c_void_p]),
    "tenon_inspect": (STATUS, [c_char_p, c_void_p, c_void_p]),
    "tenon_explain": (STATUS, [c_char_p, c_char_p, c_char_p, c_int32, c_void_p]),
    "tenon_verb": (STATUS, [Texts, Progress, c_void_p, c_void_p]),
}
GENERATE = {
    "tenon_language_model_open": (STATUS, [c_char_p, c_void_p, c_void_p]),
    "tenon_language_model_destroy": (None, [c_void_p]),
    "tenon_language_model_facts": (STATUS, [c_void_p, c_void_p]),
    "tenon_tokens_destroy": (None, [c_void_p]),
    "tenon_language_model_tokenize": (STATUS, [c_void_p, c_char_p, c_size_t, c_int32, c_void_p]),
    "tenon_text_destroy": (None, [c_void_p]),
    "tenon_language_model_detokenize": (STATUS, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "tenon_language_model_chat": (STATUS, [c_void_p, c_char_p, c_void_p, c_size_t, c_void_p]),
    "tenon_sequence_create": (STATUS, [c_void_p, c_void_p, c_void_p]),
    "tenon_sequence_destroy": (None, [c_void_p]),
    "tenon_sequence_memory": (STATUS, [c_void_p, c_void_p]),
    "tenon_answer_create": (STATUS, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "tenon_answer_next": (STATUS, [c_void_p, c_void_p]),
    "tenon_answer_destroy": (None, [c_void_p]),
    "tenon_language_model_score": (STATUS, [c_void_p, c_void_p, c_char_p, c_size_t, c_void_p, c_void_p]),
}


def load(name: str, prototypes: dict) -> ctypes.CDLL:
    path = os.path.join(LIBRARIES, name)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{error}; install the package with pip, which builds and adds its libraries") from None
    for function, (result, arguments) in prototypes.items():
        entry = getattr(library, function)
        entry.restype, entry.argtypes = result, arguments
    return library


runtime = load("libtenon_runtime.so", RUNTIME)


@functools.cache
def compiler() -> ctypes.CDLL:
    return load("libtenon_compiler.so", COMPILER)


@functools.cache
def generate() -> ctypes.CDLL:
    return load("libtenon_generate.so", GENERATE)


def texts(values) -> ctypes.Array:
    """A list of strings that ends with NULL."""
    encoded = [value.encode() for value in values]
    return (c_char_p * (len(encoded) + 1))(*encoded, None)
