#!/usr/bin/env python3
"""Writes test/zoo/expected: the models are filled, evaluated in float64 and run in ONNX Runtime with the test's inputs.

Relies on models/fill.py, scripts/reference64.py and scripts/peer_ort.py; takes some minutes and 2 GB of a temporary folder.
"""

import argparse
import pathlib
import sys
import tempfile

import onnx
import onnxruntime

import expectations

sys.path.insert(0, str(expectations.SOURCE / "scripts"))

import fill  # noqa: E402
import peer_ort  # noqa: E402
import reference64  # noqa: E402

THREADS = 2


def cases_of(name, folder):
    graph = expectations.GRAPHS[name]
    filled = folder / f"{name}.onnx"
    fill.fill(graph, filled)
    session = peer_ort.make_session(filled, THREADS, {})
    names = [output.name for output in session.get_outputs()]
    for case in expectations.cases_of(expectations.load_graph(graph)):
        arrays = expectations.inputs_for(expectations.load_graph(graph), case)
        peer = dict(zip(names, session.run(names, arrays)))
        reference = reference64.evaluate(onnx.load(str(filled)), arrays)
        yield {**case, "peer": f"onnxruntime {onnxruntime.__version__}",
               "outputs": {key: expectations.expectation(reference[key], peer[key]) for key in names}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(expectations.GRAPHS), help="all by default")
    options = parser.parse_args()
    for name in options.names:
        with tempfile.TemporaryDirectory() as folder:
            cases = list(cases_of(name, pathlib.Path(folder)))
        expectations.write(name, cases)
        print(name, [f"{output['peer_error'] / output['largest']:.2e}"
                     for case in cases for output in case["outputs"].values()], flush=True)


if __name__ == "__main__":
    main()
