"""Swaps and rollbacks under load, by hand: `campaign_swaps.py [SWAPS] [ROLLBACKS]` prints what happened, and fails where a request was not
answered, or by a version that was no longer or not yet to answer.

Relies on the tests' server and clients; TENON_SOURCE_DIR and TENON_BUILD_DIR are set as for the tests.
"""

import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from load import Load
from server import TENON, Server

CLIENTS, SIZE = 4, 64
BODY = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, SIZE], "data": [1] * SIZE}]}).encode()


def compile_scale(path, factor):
    """y = factor * x."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", SIZE]) for name in "xy"]
    weight = numpy_helper.from_array(np.full(SIZE, factor, np.float32), "w")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [weight])
    model = path.with_suffix(".onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    subprocess.run([TENON, "compile", model, "-o", path, "--quiet"], check=True)


def factor_of(answer):
    values = set(json.loads(answer[3])["outputs"][0]["data"])
    assert len(values) == 1, answer
    return values.pop()


def check(load, changes):
    """Each answer is of what served at some moment between its request and its reply; changes are (begin, end, factor)."""
    assert not [answer for answer in load.answers if answer[2] != 200], [answer for answer in load.answers if answer[2] != 200][:3]
    at = 0
    for answer in sorted(load.answers):
        start, end = answer[0], answer[0] + answer[1]
        while at + 1 < len(changes) and changes[at + 1][1] < start:
            at += 1
        allowed = {factor for _, _, factor in itertools.takewhile(lambda change: change[0] <= end, itertools.islice(changes, at, None))}
        assert factor_of(answer) in allowed, (answer, allowed)


def report(what, count, seconds, load):
    times = sorted(answer[1] for answer in load.answers)
    print(f"| {count} {what} | {seconds:.0f} s | {len(times)} | 0 | {1e3 * times[len(times) // 2]:.1f} | {1e3 * times[int(len(times) * 0.99)]:.1f} | {1e3 * times[-1]:.0f} |")


def swaps(folder, count):
    """The engine of a version is replaced, and loaded."""
    models = folder / "swapped"
    models.mkdir()
    shutil.copy(folder / "2.tenon", models / "m.tenon")
    with Server(models, "--threads", 1) as server, Load(server, "m", CLIENTS, BODY) as load:
        begin = time.monotonic()
        changes = [(0, 0, 2)]
        for i in range(count):
            factor = 3 - i % 2
            shutil.copy(folder / f"{factor}.tenon", models / "new")
            (models / "new").replace(models / "m.tenon")
            start = time.monotonic()
            status, value = server.post("/v2/repository/models/m/load")
            assert status == 200, value
            changes.append((start, time.monotonic(), factor))
    check(load, changes)
    report("swaps", count, time.monotonic() - begin, load)


def rollbacks(folder, count):
    """All traffic to the new version, and back."""
    models = folder / "rolled"
    for version in (1, 2):
        (models / f"m/{version}").mkdir(parents=True)
        shutil.copy(folder / f"{version + 1}.tenon", models / f"m/{version}/model.tenon")
    (models / "m/config.pbtxt").write_text("version_policy { all { } }\n")
    with Server(models, "--threads", 1) as server, Load(server, "m", CLIENTS, BODY) as load:
        begin = time.monotonic()
        changes = [(0, 0, 3)]
        for call, factor in [("traffic", 2), *[("traffic", 3), ("rollback", 2)] * count]:
            start = time.monotonic()
            status, value = server.post(f"/v2/repository/models/m/{call}", {"weights": {str(factor - 1): 1}} if call == "traffic" else None)
            assert status == 200, value
            changes.append((start, time.monotonic(), factor))
            time.sleep(0.02)
    check(load, changes)
    report("rollbacks", count, time.monotonic() - begin, load)


def main():
    counts = [int(each) for each in sys.argv[1:3]] or [1000, 100]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for factor in (2, 3):
            compile_scale(folder / f"{factor}.tenon", factor)
        print("| what | in | requests | lost or wrong | p50 ms | p99 ms | most ms |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        swaps(folder, counts[0])
        rollbacks(folder, counts[1])


if __name__ == "__main__":
    main()
