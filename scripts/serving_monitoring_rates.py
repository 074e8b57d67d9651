#!/usr/bin/env python3
"""False alarms of a server over clean windows, and shifts that it finds: many models, each with a reference of its own.

    scripts/serving_monitoring_rates.py [--models 100] [--windows 100]

Each model is the same engine with another reference of 5,000 rows; each request is one window. It exits with 1 where a rate is out of its
bounds: clean windows 1 % ± 0.5, a shift of 0.5 σ found in 95 %. Relies on a built `tenon`, TENON_SOURCE_DIR and TENON_BUILD_DIR, and onnx.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test/serving"))
from server import Server  # noqa: E402
from traffic import SIZE, write_version  # noqa: E402


def send(server, name, x):
    head = json.dumps({"parameters": {"binary_data_output": True}, "inputs": [{"name": "x", "shape": x.shape, "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}]}).encode()
    status, _, body = server.call("POST", f"/v2/models/{name}/infer", head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))})
    assert status == 200, body


def drifted(server, names, windows):
    """Windows with drift of all models, once each has so many."""
    def counts():
        return [json.loads(server.get(f"/v2/models/{name}/drift")[1]) for name in names]

    server.wait_until(lambda: all(each["windows"] == windows for each in counts()), 120)
    return sum(each["windows_with_drift"] for each in counts())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--windows", type=int, default=100, help="clean ones of each model")
    parser.add_argument("--rows", type=int, default=500)
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    rows = lambda count: rng.standard_normal((count, SIZE)).astype(np.float32)  # noqa: E731
    names = [f"m{i}" for i in range(arguments.models)]
    with tempfile.TemporaryDirectory() as holder:
        folder = pathlib.Path(holder)
        write_version(folder / "engine/1/model.tenon", 1.0)
        for name in names:
            (folder / "models" / name / "1").mkdir(parents=True)
            shutil.copy(folder / "engine/1/model.tenon", folder / "models" / name / "1/model.tenon")
            np.savez(folder / "models" / name / "reference.npz", x=rows(5000))
            (folder / "models" / name / "config.pbtxt").write_text('parameters { key: "drift_reference" value { string_value: "reference.npz" } }\n')
        with Server(folder / "models", "--drift-window", arguments.rows) as server:
            server.wait_until(lambda: all(server.get(f"/v2/models/{name}/drift")[0] == 200 for name in names), 120)
            for _ in range(arguments.windows):
                for name in names:
                    send(server, name, rows(arguments.rows))
            clean = drifted(server, names, arguments.windows)
            for name in names:
                send(server, name, rows(arguments.rows) + np.float32(0.5))
            found = drifted(server, names, arguments.windows + 1) - clean
            dropped = server.metric("tenon_drift_dropped_rows_total", "")
    alarms, power = clean / (arguments.windows * len(names)), found / len(names)
    print(f"{arguments.windows * len(names)} clean windows of {arguments.rows} rows: {alarms:.2%} called drift; a shift of 0.5 σ: {power:.1%} of {len(names)} found; {dropped:.0f} rows dropped")
    return 0 if 0.005 <= alarms <= 0.015 and power >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
