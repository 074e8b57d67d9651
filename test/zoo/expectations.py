"""What an output of a model of the zoo must be: samples of it in float64 and ONNX Runtime's own error at these samples.

Relies on samples being taken at the same places each time; regenerate.py writes the files that zoo.py reads.
"""

import json
import os
import pathlib
import sys

import numpy as np
import onnx

SOURCE = pathlib.Path(os.environ.get("TENON_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "models"))

import inputs  # noqa: E402

GRAPHS = {path.stem: path for path in sorted((SOURCE / "models/graphs").glob("*.onnx"))}
GRAPHS["fashion_cnn"] = SOURCE / "models/fashion_cnn.onnx"
EXPECTED = SOURCE / "test/zoo/expected"
SAMPLES = 400
OF_LARGEST = 1e-4
OF_PEER = 2.0
# Of engines that filter by Winograd (explain precision names it) instead of OF_PEER: docs/adr/0016.
OF_LARGEST_FILTERED = 1e-5
# What compiles an engine that does not.
UNFILTERED = ["--disable-family", "conv_winograd2", "--disable-family", "conv_winograd4"]
# Two sizes through one engine; the batch of the first has a padded row, the sequence of the second is odd.
SIZES = [{"batch": 2, "sequence": 24, "encoder_sequence": 19, "height": 52, "width": 37},
         {"batch": 1, "sequence": 17, "encoder_sequence": 31, "height": 64, "width": 48}]
# What the compiler is to be told: the steps of a recurrence are unrolled, up to the longest sequence.
OPTIONS = {"lstm.torchscript": ["--shape", "input_ids:[1..4]x[1..32]"]}

# Models with sizes that data decides, which GPUs do not run (docs/adr/0010-sizes-that-data-decides.md).
OF_CPUS = {"faster_rcnn.torchscript", "greedy_loop.torchscript", "ssdlite.torchscript"}


def cases_of(model):
    """What to test with: sizes for the symbols that the model has, or other data where it has none."""
    symbols = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim if dim.dim_param}
    sizes = [{name: extent for name, extent in sizes.items() if name in symbols} for sizes in SIZES]
    return [{"sizes": each} if symbols else {"sizes": {}, "seed": seed} for seed, each in enumerate(sizes)]


def load_graph(path):
    return onnx.load(str(path), load_external_data=False)


def inputs_for(model, case):
    return inputs.make_inputs(model, case["sizes"], case.get("seed", 0))


def sample(array):
    """SAMPLES elements spread evenly over the array, all of them if it has no more."""
    flat = array.reshape(-1).astype(np.float64)
    count = min(SAMPLES, flat.size)
    return flat[np.arange(count) * flat.size // count]


def expectation(reference, peer):
    """The entry of one output: its float64 values and what ONNX Runtime made of it."""
    values = sample(reference)
    return {"shape": list(reference.shape), "largest": float(np.abs(reference).max()),
            "peer_error": float(np.abs(sample(peer) - values).max()), "values": values.tolist()}


def faults(array, expected, is_filtered=False):
    """What is wrong with an output, in words; nothing if it is as exact as it must be of an engine that filters by Winograd, or does not."""
    if list(array.shape) != expected["shape"]:
        return [f"shape {list(array.shape)} instead of {expected['shape']}"]
    difference = np.abs(sample(array) - np.array(expected["values"]))
    error = float(np.nan_to_num(difference, nan=np.inf).max())
    found = []
    of_largest = OF_LARGEST_FILTERED if is_filtered else OF_LARGEST
    if error > of_largest * expected["largest"]:
        found.append(f"error {error:.2e} is over {of_largest} x the largest magnitude {expected['largest']:.3g}")
    if not is_filtered and error > OF_PEER * expected["peer_error"]:
        found.append(f"error {error:.2e} is over {OF_PEER} x ONNX Runtime's {expected['peer_error']:.2e}")
    return found


def read(name):
    return json.loads((EXPECTED / f"{name}.json").read_text())


def write(name, cases):
    """One value a line would be thousands of lines, one line a file cannot be compared: one line an output."""
    lines = ",\n".join(json.dumps(case) for case in cases)
    (EXPECTED / f"{name}.json").write_text(f"[\n{lines}\n]\n")
