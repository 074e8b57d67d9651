"""Post-training quantization: `tenon.quantize`, over the verb of the command line."""

import os
import tempfile
import warnings
from typing import Any, Dict, Optional, Sequence, Union

from . import _data, _errors
from ._compile import verb
from ._errors import door
from ._onnx_export import is_program, onnx_of


@door
def quantize(
    model: Union[str, "os.PathLike[str]"],
    data: Optional[_data.Data] = None,
    output: Optional[Union[str, "os.PathLike[str]"]] = None,
    *,
    ranges: str = "mse",
    percentile: Optional[float] = None,
    samples: Optional[int] = None,
    keep: Sequence[str] = (),
    narrow: Sequence[str] = (),
    smoothing: bool = True,
    bias_correction: bool = True,
    reduce_range: bool = False,
    weights_only: Optional[int] = None,
    precision: str = "int8",
    dynamic: bool = False,
    per_tensor: bool = False,
    int4_form: str = "nbits",
    accuracy_drop: Union[float, str, None] = None,
    latency: Union[float, str, None] = None,
    test: Optional[_data.Data] = None,
    metric: Optional[str] = None,
    budget: Optional[float] = None,
    error_samples: Optional[int] = None,
    state: Optional[Union[str, "os.PathLike[str]"]] = None,
    report: Optional[Union[str, "os.PathLike[str]"]] = None,
    threads: Optional[int] = None,
) -> Dict[str, Any]:
    """Writes an ONNX model, or a .pt2 that is exported to ONNX first (which needs torch and onnxscript), with 8-bit weights and
    activations, calibrated with the data, and gives the report: the treatment of each layer with its reason, the range of each tensor, the size before and after. `data` is a path as for --data, a dict with
    an array for each input whose first dim counts the samples, or samples as dicts, without the dim of the batch: a list, a
    generator, a function that gives them. Without names: an array for the only input, samples or batches as tuples in the order
    of the inputs (a label behind them is left out); a DataLoader, each row of whose batches is a sample. Tensors of torch are
    accepted like arrays. Odd data, such as a single sample, is a Python warning and in the report. `output` is by default the
    model's name with .int8.onnx, .w8.onnx or .w4.onnx. Layers and tables named in `keep` stay FP32, layers in
    `narrow` do not. `precision` is their type, "int8" or "fp8" (E4M3). With `dynamic`, matmuls compute a scale for each
    row at run time, or with `per_tensor` one for all rows, and need no data. With `weights_only=8` no data is needed
    either; with data, weights of 4 bits are rounded by it. They are stored as MatMulNBits or, with `int4_form="qdq"`, as
    DequantizeLinear with block_size.

    With `accuracy_drop` (a share: 0.005, or "0.5%" as on the command line) or `latency` (seconds: 0.004, or "4ms") it searches
    for the fastest model that loses at most that, or the most accurate that takes at most that: docs/guides/quantize.md. Losses are
    measured on `test`, data as above with `labels` if there are any, by `metric`; `budget` is in seconds, `state` the path of a
    file from which a search continues. A search that finds nothing raises Error with id "TN0116". `report` is the path of a page
    in HTML."""
    with _errors.scratch("quantize", model) as scratch:
        arguments = ["quantize", f"--ranges={ranges}", *(f"--keep={name}" for name in keep)]
        arguments += [f"--narrow={name}" for name in narrow]
        arguments += ([] if smoothing else ["--no-smoothing"]) + ([] if bias_correction else ["--no-bias-correction"])
        arguments += ["--reduce-range"] if reduce_range else []
        arguments += [*(["--dynamic"] if dynamic else []), *(["--per-tensor"] if per_tensor else [])]
        arguments += [f"--precision={precision}", f"--int4-form={int4_form}"]
        source = os.fspath(model)
        if os.path.isfile(source) and is_program(source):
            output = output or f"{os.path.splitext(source)[0]}.quantized.onnx"
            source = onnx_of(source, scratch)
        if data is not None and data is test and hasattr(data, "__next__"):
            raise _errors.usage("TN0105", "data and test are one generator, which gives its samples once", "give a list, or a function that makes it")
        if data is not None:
            arguments.append(f"--data={_data.path(data, scratch, source)}")
        if test is not None:
            arguments.append(f"--test={_data.path(test, tempfile.mkdtemp(dir=scratch), source)}")
        if accuracy_drop is not None:
            text = accuracy_drop if isinstance(accuracy_drop, str) else f"{accuracy_drop * 100:.9f}%"
            arguments.append(f"--accuracy-drop={text}")
        if latency is not None:
            arguments.append(f"--latency={latency}" if isinstance(latency, str) else f"--latency={latency * 1000:.9f}ms")
        for flag, path in (("state", state), ("report", report)):
            if path is not None:
                arguments.append(f"--{flag}={os.fspath(path)}")
        for flag, value in (("metric", metric), ("budget", budget), ("error-samples", error_samples),
                            ("weights-only", weights_only), ("percentile", percentile), ("samples", samples), ("threads", threads)):
            if value is not None:
                arguments.append(f"--{flag}={value}")
        if output is not None:
            arguments.append(f"--output={os.fspath(output)}")
        result = verb(*arguments, "--", source)
    for warning in result.get("warnings", []):
        warnings.warn(warning, UserWarning, stacklevel=3)
    return result

