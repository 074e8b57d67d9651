#!/usr/bin/env python3
"""Runs a model in ONNX Runtime as well as its documentation knows how, and prints latencies as `tenon bench --json` does.

Relies on onnxruntime and numpy. All graph optimizations, a pool of spinning threads, inputs and outputs bound once.
"""

import argparse
import json
import os
import pathlib
import time

import numpy as np
import onnxruntime


def make_session(model, threads, fixed_dims):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    for name, extent in fixed_dims.items():
        options.add_free_dimension_override_by_name(name, extent)
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def named_dims(session, inputs):
    """Extent of each symbolic dimension, as the inputs have it."""
    return {dim: extent for value in session.get_inputs()
            for dim, extent in zip(value.shape, inputs[value.name].shape) if isinstance(dim, str)}


def bind(session, inputs):
    """A binding with every buffer in place, and the outputs of one run by name."""
    names = [value.name for value in session.get_outputs()]
    outputs = session.run(names, inputs)
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    buffers = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in outputs]
    for name, buffer in zip(names, buffers):
        binding.bind_ortvalue_output(name, buffer)
    return binding, dict(zip(names, outputs))


def latencies(session, binding, seconds, least):
    """Milliseconds of each run, after a fifth of the time as warm-up."""
    start = time.perf_counter()
    while time.perf_counter() - start < seconds / 5:
        session.run_with_iobinding(binding)
    times, start = [], time.perf_counter()
    while len(times) < least or time.perf_counter() - start < seconds:
        before = time.perf_counter_ns()
        session.run_with_iobinding(binding)
        times.append((time.perf_counter_ns() - before) / 1e6)
    return np.array(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--inputs", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--least", type=int, default=5, help="runs at least, whatever the time")
    parser.add_argument("--fix-dims", action="store_true",
                        help="tell ONNX Runtime the inputs' dimensions before it optimizes")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="save the outputs as npz")
    options = parser.parse_args()

    inputs = dict(np.load(options.inputs))
    start = time.perf_counter()
    session = make_session(options.model, options.threads, {})
    if options.fix_dims:
        session = make_session(options.model, options.threads, named_dims(session, inputs))
    load_ms = (time.perf_counter() - start) * 1e3
    binding, outputs = bind(session, inputs)
    if options.output:
        np.savez(options.output, **outputs)
    times = latencies(session, binding, options.seconds, options.least)
    lowest, median, p90, p99 = np.quantile(times, [0, 0.5, 0.9, 0.99]).tolist()
    print(json.dumps({
        "latency_ms": {"min": lowest, "median": median, "p90": p90, "p99": p99},
        "throughput_per_s": float(1e3 / times.mean()), "runs": len(times), "load_ms": load_ms,
        "threads": options.threads, "cpus": len(os.sched_getaffinity(0)),
        "version": f"onnxruntime {onnxruntime.__version__}"}))


if __name__ == "__main__":
    main()
