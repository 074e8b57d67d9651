"""kill -9 of workers under load, by hand: `campaign_kills.py [KILLS] [SEED]` prints a table in Markdown, and fails where a request stayed
without an answer, had a wrong one, or was struck by the end of a worker that its model was not in.

Relies on the tests' server and clients; TENON_SOURCE_DIR and TENON_BUILD_DIR are set as for the tests.
"""

import bisect
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

from connections import quantile
from load import Load
from server import Server, compile_cnn

SHARED, OWN = ["first", "second"], ["alone"]


def make_models(folder):
    for name in SHARED + OWN:
        (folder / name / "1").mkdir(parents=True)
    compile_cnn(folder / "first/1/model.tenon")
    for name in SHARED[1:] + OWN:
        shutil.copy(folder / "first/1/model.tenon", folder / name / "1/model.tenon")
    for name in OWN:
        (folder / name / "config.pbtxt").write_text('parameters { key: "worker" value { string_value: "own" } }\n')


def quantiles(times):
    return [1e3 * quantile(times, share) for share in (0.5, 0.99, 1)]


def strike(server, loads, models):
    """Kills the worker of these models; when that was, and when each had answered a request that came after it."""
    worker = None
    while worker is None:
        worker = server.worker(models[0])
    start = time.monotonic()
    os.kill(worker, signal.SIGKILL)
    answered = lambda model: any(answer[0] > start and answer[2] == 200 for answer in loads[model].answers[-200:])
    while not all(answered(model) for model in models):
        if time.monotonic() > start + 30:
            raise AssertionError("a model did not come back: " + "".join(server.log[-20:]))
        time.sleep(0.002)
    return start, time.monotonic()


def overlaps(answer, outages):
    """Whether it was asked or on its way in one of them; they follow each other."""
    last = bisect.bisect_right(outages, (answer[0] + answer[1], float("inf"))) - 1
    return last >= 0 and answer[0] <= outages[last][1]


def main():
    count, seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 1
    chance = random.Random(seed)
    outages = {"shared": [], "own": []}  # (kill, when every model had answered again)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_models(folder)
        with Server(folder, "--threads", 1) as server:
            loads = {model: Load(server, model, threads=2) for model in SHARED + OWN}
            begin = time.monotonic()
            for load in loads.values():
                load.__enter__()
            for _ in range(count):
                kind = chance.choice(list(outages))
                outages[kind].append(strike(server, loads, SHARED if kind == "shared" else OWN))
                time.sleep(chance.random() * 0.2)
            for load in loads.values():
                load.__exit__()
            seconds = time.monotonic() - begin
            losses = server.metric("tenon_worker_losses_total", None)
    answers = [answer for load in loads.values() for answer in load.answers]
    wrong = [answer for load in loads.values() for answer in load.wrong()]
    correct = {answer[3].split(b'"outputs"')[1] for answer in answers if answer[2] == 200}
    stray, beside = [], []
    for model, load in loads.items():
        own, other = ("shared", "own") if model in SHARED else ("own", "shared")
        stray += [answer for answer in load.lost() if not overlaps(answer, outages[own])]
        beside += [answer[1] for answer in load.answers if overlaps(answer, outages[other]) and not overlaps(answer, outages[own])]
    both = sorted(outages["shared"] + outages["own"])
    usual = [answer[1] for load in loads.values() for answer in load.answers if not overlaps(answer, both)]
    back = {kind: [end - start for start, end in each] for kind, each in outages.items()}
    print(f"{count} kills with seed {seed} in {seconds:.0f} s, {len(answers)} requests of {2 * len(loads)} clients, {sum(len(load.lost()) for load in loads.values())} answered with TN0814\n")
    print("| | p50 ms | p99 ms | most ms |\n| --- | ---: | ---: | ---: |")
    rows = {"kill to the next answer of every model, the worker that two models share": back["shared"], "the same, a worker of its own": back["own"],
            "requests to models of another worker, from a kill to its end": beside, "requests while no worker was missing": usual}
    for what, times in rows.items():
        print(f"| {what} ({len(times)}) | " + (" | ".join(f"{value:.0f}" for value in quantiles(times)) if times else "| |") + " |")
    assert losses == count, (losses, count)
    assert not wrong, wrong[:3]
    assert not stray, stray[:3]
    assert len(correct) == 1, f"{len(correct)} different outputs"


if __name__ == "__main__":
    main()
