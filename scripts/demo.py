#!/usr/bin/env python3
"""The main job on real input: compiles the small CNN, classifies Fashion-MNIST's 10,000 test pictures with the engine,
and compares accuracy and latency with ONNX Runtime. Relies on a built tool, .venv and Debian's dataset-fashion-mnist.
"""

import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import onnxruntime
from PIL import Image

import contact_sheet

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models/fashion_cnn.onnx"
PEER = ROOT / "scripts/peer_ort.py"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
PART = 1000
ROUNDS = 3
SECONDS = "0.4"
THREADS = str(min(2, len(os.sched_getaffinity(0))))
STARTED = time.monotonic()


def step(text):
    print(f"demo: {time.monotonic() - STARTED:5.1f} s  {text}", file=sys.stderr, flush=True)


def output_of(command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"demo: '{' '.join(map(str, command))}' failed with exit code {done.returncode}")
    return done.stdout


def load_pictures():
    """Pictures (n x 28 x 28, uint8) and their labels."""
    with gzip.open(DATA / "t10k-images-idx3-ubyte.gz") as stream:
        pictures = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(DATA / "t10k-labels-idx1-ubyte.gz") as stream:
        labels = np.frombuffer(stream.read(), np.uint8, offset=8)
    return pictures, labels


def as_input(pictures):
    return (pictures.astype(np.float32) / 255)[:, None]


def classify(tenon, engine, pictures, folder):
    """Logits of the engine, a run of the tool for each thousand pictures."""
    parts = []
    for start in range(0, len(pictures), PART):
        inputs, outputs = folder / "part.npz", folder / "logits.npz"
        np.savez(inputs, image=as_input(pictures[start:start + PART]))
        output_of([tenon, "run", engine, "--inputs", inputs, "-o", outputs, "--quiet"])
        parts.append(np.load(outputs)["logits"])
    return np.concatenate(parts)


def classify_by_peer(pictures):
    session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    parts = [session.run(["logits"], {"image": as_input(pictures[start:start + PART])})[0]
             for start in range(0, len(pictures), PART)]
    return np.concatenate(parts)


def classes_of_model():
    session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    return json.loads(session.get_modelmeta().custom_metadata_map["classes"])


def race(tenon, engine, pictures, batch, folder):
    """Smallest latency in ms of the engine and of ONNX Runtime, measured in turn."""
    inputs = folder / f"batch-{batch}.npz"
    np.savez(inputs, image=as_input(pictures[:batch]))
    ours, theirs = [], []
    for _ in range(ROUNDS):
        report = output_of([tenon, "bench", engine, "--inputs", inputs, "--threads", THREADS, "--seconds", SECONDS,
                            "--json", "--quiet"])
        ours.append(json.loads(report))
        report = output_of([sys.executable, PEER, MODEL, "--inputs", inputs, "--threads", THREADS,
                            "--seconds", SECONDS])
        theirs.append(json.loads(report)["latency_ms"]["min"])
    return min(one["latency_ms"]["min"] for one in ours), min(theirs), ours[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenon", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "out/demo")
    options = parser.parse_args()
    tenon, folder = options.tenon, options.output
    folder.mkdir(parents=True, exist_ok=True)
    engine = folder / "fashion_cnn.tenon"

    step("checking and compiling models/fashion_cnn.onnx")
    output_of([tenon, "check", MODEL, "--quiet"])
    compiled = json.loads(output_of([tenon, "compile", MODEL, "-o", engine, "--json", "--shape",
                                     f"image:[1..{PART}]x1x28x28"]))
    pictures, labels = load_pictures()
    step(f"classifying {len(pictures)} pictures with the engine")
    before = time.monotonic()
    logits = classify(tenon, engine, pictures, folder)
    seconds = time.monotonic() - before
    step("classifying them with ONNX Runtime")
    theirs = classify_by_peer(pictures)
    step("measuring both in turn")
    races = {batch: race(tenon, engine, pictures, batch, folder) for batch in (1, 32)}
    step("drawing the contact sheet")
    contact_sheet.sheet(pictures[:96], logits[:96], labels[:96], classes_of_model(), 12).save(
        folder / "contact-sheet.png")
    Image.fromarray(pictures[0]).save(folder / "picture.png")
    report(options, engine, compiled, logits, theirs, labels, seconds, races)


def report(options, engine, compiled, logits, theirs, labels, seconds, races):
    winners, peers = logits.argmax(axis=1), theirs.argmax(axis=1)
    tenon, engine = (os.path.relpath(path) for path in (options.tenon, engine))
    folder = os.path.relpath(options.output)
    library = options.tenon.parent.parent / "lib/libtenon_runtime.so"
    isa = races[1][2]["isa"]
    print(f"""
The small CNN, compiled{' (from the cache)' if compiled['from_cache'] else ''} in {compiled['compile_s']:.2f} s: \
{compiled['regions']} regions, {compiled['engine_bytes'] / 1024:.0f} KiB, running at level {isa}.
  accuracy   {np.mean(winners == labels):.2%} of {len(labels)} pictures in {seconds:.1f} s; \
ONNX Runtime {np.mean(peers == labels):.2%}
  agreement  {np.sum(winners != peers)} pictures classified otherwise than by ONNX Runtime; \
logits differ by at most {np.abs(logits - theirs).max() / np.abs(theirs).max():.1e} of the largest""")
    for batch, (own, peer, _) in races.items():
        print(f"  latency    batch {batch:<3} {own:.3f} ms, ONNX Runtime {peer:.3f} ms: {peer / own:.2f} times as fast "
              f"({THREADS} threads, measured in turn)")
    print(f"""  runtime    {os.path.relpath(library)}, {library.stat().st_size / 1024:.0f} KiB: all that a program of your own needs to run it
  pictures   {folder}/contact-sheet.png

Try next:
  {tenon} explain fusion {engine}
  {tenon} bench {engine} --batch 64
  {tenon} run {engine} --inputs {folder}/picture.png""")
    if np.mean(winners == labels) != np.mean(peers == labels):
        sys.exit("demo: the accuracy differs from ONNX Runtime's")


if __name__ == "__main__":
    main()
