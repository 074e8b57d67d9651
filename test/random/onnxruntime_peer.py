"""ONNX Runtime as a second oracle: runs random models that random_models dumped, and has it judge the results.

usage: onnxruntime_peer.py RANDOM_MODELS SEED COUNT [KNOWN]
KNOWN is a file with a line for each seed whose difference is explained: `seed: reason`. Exits with 1 for others, and
for a line whose seed does not differ any more. Relies on random_models to be the only one that says what rounding may
do. Models that ONNX Runtime lacks a kernel for, or refuses, say nothing.
"""

import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

SECONDS_A_MODEL = 60


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # The kernels as the operators' definitions name them, not what its own optimizer makes of them.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def answer(folder):
    """Writes peer.npz; returns why not, or nothing."""
    try:
        session = session_of(folder / "model.onnx")
        inputs = dict(np.load(folder / "inputs.npz"))
        names = [output.name for output in session.get_outputs()]
        results = session.run(names, inputs)
        np.savez(folder / "peer.npz", **dict(zip(names, results)))
        return None
    except Exception as error:  # ONNX Runtime has a class for each of its codes, and NumPy for a type it lacks.
        text = re.sub(r"Load model from \S+ failed:", "", re.sub(r"\s+", " ", str(error)))
        return re.sub(r"\(v\d+\)|\(n_v\d+\)", "", text)[:120] or type(error).__name__


def answer_in_child(folder):
    """The same in a process of its own: some models end it."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS_A_MODEL)
        reason = answer(folder)
        if reason:
            (folder / "refusal.txt").write_text(reason)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    refusal = folder / "refusal.txt"
    if os.WIFSIGNALED(status):
        (folder / "peer.npz").unlink(missing_ok=True)
        return f"signal {os.WTERMSIG(status)}"
    return refusal.read_text() if refusal.exists() else None


def explained(path):
    lines = pathlib.Path(path).read_text().splitlines() if path else []
    return {int(line.split(":")[0]): line for line in lines if line and not line.startswith("#")}


def main(program, seed, count, known=None):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--seed", seed, "--count", count, "--dump", folder, "--dump-all"], check=False,
                       stdout=subprocess.DEVNULL)
        refusals = collections.Counter(filter(None, map(answer_in_child, sorted(pathlib.Path(folder).iterdir()))))
        judged = subprocess.run([program, "--seed", seed, "--count", count, "--peer", folder], check=False,
                                capture_output=True, text=True)
    print(judged.stdout)
    for reason, times in refusals.most_common(8):
        print(f"{times:6} {reason}")
    differing = {int(found) for found in re.findall(r"^DIFFERENT seed (\d+)", judged.stdout, re.M)}
    same = int(re.search(r"(\d+) the same", judged.stdout)[1])
    reasons = explained(known)
    for unexplained in sorted(differing - set(reasons)):
        print(f"seed {unexplained} differs, and nothing explains it")
    for gone in sorted(set(reasons) - differing):
        print(f"seed {gone} does not differ any more: take it off the list")
    return 0 if same > 0 and differing == set(reasons) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
