#!/usr/bin/env python3
"""What `tenon quantize` loses and costs on nets trained on real data, as a table: the accuracy of each form against FP32, with 95 % intervals
by pairs and as the mean of three draws of calibration samples, and its latency in turn with FP32's.

Relies on the files that models/train_gloss_lm.py and models/train_heads.py write (--nets), models/resnet20_fashion.onnx and Debian's
dataset-fashion-mnist. With --peers also what ONNX Runtime's quantizer and NNCF make of the same samples, run by Tenon and by their
own best runtime; that needs onnxruntime, openvino and nncf.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import numpy as np

SOURCE = pathlib.Path(__file__).resolve().parent.parent
SAMPLES, DRAWS = 300, 3
# name: metric, rows of the test, what perplexity counts relative to FP32's
NETS = {"resnet20_fashion": ("top1", 10000), "efficientnet_lite0": ("top1", 5000), "minilm": ("top1", 3000), "gloss_lm": ("perplexity", 512)}
LIMITS = {("resnet20_fashion", "int8"): 0.3, ("efficientnet_lite0", "int8"): 0.3, ("minilm", "int8"): 0.5, ("gloss_lm", "int8"): 1.0,
          ("gloss_lm", "w4"): 3.0} | {(net, "fp8"): 0.1 for net in NETS}
FORMS = {"int8": ["--data"], "dynamic": ["--dynamic"], "fp8": ["--precision", "fp8", "--data"], "w8": ["--weights-only", "8"],
         "w4": ["--weights-only", "4"], "w4 by samples": ["--weights-only", "4", "--data"]}
PRODUCTS_ONLY = {"dynamic", "w4", "w4 by samples"}


def load(net, nets):
    """(model, training arrays, test arrays)"""
    if net == "resnet20_fashion":
        sys.path.insert(0, str(SOURCE / "models"))
        import gzip
        folder = pathlib.Path("/usr/share/datasets/fashion-mnist")

        def split(prefix):
            with gzip.open(folder / f"{prefix}-images-idx3-ubyte.gz") as images, gzip.open(folder / f"{prefix}-labels-idx1-ubyte.gz") as labels:
                return {"image": np.frombuffer(images.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28).astype(np.float32) / 255,
                        "labels": np.frombuffer(labels.read(), np.uint8, offset=8).astype(np.int64)}
        return SOURCE / "models/resnet20_fashion.onnx", split("train"), split("t10k")
    if net == "gloss_lm":
        with np.load(nets / "gloss_lm.npz") as rows:
            return nets / "gloss_lm.onnx", {"input_ids": rows["train"]}, {"input_ids": rows["test"]}
    arrays = []
    for part in ("train", "test"):
        with np.load(nets / f"{net}.{part}.npz") as rows:
            arrays.append({name: rows[name] for name in rows})
    return nets / f"{net}.onnx", *arrays


class Campaign:
    def __init__(self, args):
        self.tenon, self.work, self.args = args.tenon, args.work, args
        self.work.mkdir(parents=True, exist_ok=True)

    def call(self, *arguments):
        done = subprocess.run([self.tenon, *map(str, arguments), "--json"], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)

    def calibration(self, net, training, draw):
        path = self.work / f"{net}.calib{draw}.npz"
        count = len(next(iter(training.values())))
        chosen = np.sort(np.random.default_rng(draw).choice(count, SAMPLES, replace=False))
        np.savez(path, **{name: rows[chosen] for name, rows in training.items() if name != "labels"})
        return path

    def ours(self, net, model, draws, form):
        """Paths, a draw each; forms that read no samples have one."""
        flags, paths = FORMS[form], []
        for draw, data in enumerate(draws if flags[-1] == "--data" else draws[:1]):
            path = self.work / f"{net}.{form.replace(' ', '-')}.{draw}.onnx"
            report = self.call("quantize", model, *flags, *([data] if flags[-1] == "--data" else []), "-o", path)
            paths.append(path)
        return paths, report["bytes_after"] / report["bytes_before"]

    def measure(self, model, paths, data, metric):
        report = self.call("accuracy", model, *paths, "--data", data, "--metric", metric, "--seconds", self.args.seconds)
        return report

    def run(self, net):
        metric, rows = NETS[net]
        model, training, test = load(net, self.args.nets)
        data = self.work / f"{net}.test.npz"
        np.savez(data, **{name: values[:rows] for name, values in test.items()})
        draws = [self.calibration(net, training, draw) for draw in range(DRAWS)]
        for form in self.args.forms:
            if net in ("resnet20_fashion", "efficientnet_lite0") and form in PRODUCTS_ONLY:
                continue
            paths, size = self.ours(net, model, draws, form)
            report = self.measure(model, paths, data, metric)
            (self.work / f"{net}.{form.replace(' ', '-')}.json").write_text(json.dumps(report))
            print(row(net, form, metric, size, report), flush=True)


def row(net, form, metric, size, report):
    models, costs = report["metrics"][0]["models"], report["models"]
    base = models[0]["value"]
    scale = 100 if metric == "top1" else 100 / base
    drops = [(model["value"] - base) * scale * (-1 if metric == "top1" else 1) for model in models[1:]]
    differences = [sorted(scale * end * (-1 if metric == "top1" else 1) for end in model["difference"]["interval_95"]) for model in models[1:]]
    low, high = (statistics.mean(each[i] for each in differences) for i in (0, 1))
    limit = LIMITS.get((net, form))
    mean = statistics.mean(drops)
    verdict = "" if limit is None else "holds" if mean <= limit else "MISSES"
    ratio = statistics.mean(cost["latency_ratio"]["of_medians"] for cost in costs[1:])
    unit = "points" if metric == "top1" else "%"
    return (f"| {net} | {form} | {base:.4g} | {mean:+.2f} {unit} ({low:+.2f} .. {high:+.2f}) | {', '.join(f'{drop:+.2f}' for drop in drops)} | "
            f"{limit if limit is not None else ''} | {verdict} | {size:.2f} | {ratio:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default=SOURCE / "build/dev/bin/tenon", type=pathlib.Path)
    parser.add_argument("--nets", type=pathlib.Path, required=True, help="where the training scripts wrote")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="for models and samples of this run")
    parser.add_argument("--only", nargs="+", default=list(NETS), choices=list(NETS))
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=list(FORMS))
    parser.add_argument("--seconds", default="1", help="of each latency")
    args = parser.parse_args()
    print("| net | form | FP32 | loss, mean of draws (95 % interval) | each draw | limit | | file | latency |\n|---|---|---|---|---|---|---|---|---|")
    campaign = Campaign(args)
    for net in args.only:
        campaign.run(net)


if __name__ == "__main__":
    main()
