#!/usr/bin/env python3
"""On a GPU: do the classes of `tenon profile` agree with Nsight Compute's, and does a profile by counters agree with itself?

    scripts/measure_profile_gpu.py --tenon build/dev/bin/tenon -o profile-gpu.json

Compiles BERT-large, ResNet-50, ViT-B/16 and a step of a decoder in fp16, profiles each without and with --counters, runs each once under
ncu (with clocks and caches as they are), and adds up the time of regions whose classes agree. Nsight Compute's class is its own rule: the larger of the throughputs of
multiprocessors and of memory where it is at least 60 %, else latency. Kernels are matched by their order: those of Tenon by their names,
and what stands between two of them is the library's call there. The regions that disagree are printed, the longest first, with what ncu counted.
Where a profile cannot read counters, its note says why, and the figures are of the classes by floors alone. Relies on ncu being allowed to
read counters.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import tempfile

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
ENGINES = {
    "bert_large": ("large/bert_large.dynamo.onnx", ["input_ids:8x384", "attention_mask:8x384", "token_type_ids:8x384"]),
    "resnet50": ("graphs/resnet50.dynamo.onnx", ["image:32x3x224x224"]),
    "vit_b16": ("graphs/vit_b16.dynamo.onnx", ["image:32x3x224x224"]),
    "llama_decode": ("large/llama_1b_decode.onnx", ["input_ids:1x1"]),
}
NEAR = 60
METRICS = {"sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed", "memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
           "us": "gpu__time_duration.sum"}
# Of the regions that disagree, as many are printed.
SHOWN = 12
# What a profile says beyond Nsight Compute's three classes is latency there.
OURS = {"launch": "latency", "too short": "latency", "unknown": "unknown"}


def ncu_class(sm, memory):
    return "latency" if max(sm, memory) < NEAR else "memory" if memory > sm else "compute"


class Bench:
    def __init__(self, tenon, ncu, folder, models):
        self.tenon, self.ncu, self.folder, self.models = pathlib.Path(tenon).resolve(), ncu, folder, models

    def run(self, *arguments):
        done = subprocess.run([self.tenon, *arguments], capture_output=True, text=True, cwd=self.folder)
        if done.returncode:
            raise RuntimeError(f"tenon {' '.join(map(str, arguments))}: exit status {done.returncode}, {done.stderr}")
        return done.stdout

    def json(self, *arguments):
        return json.loads(self.run(*arguments, "--json"))

    def kernels(self, engine):
        """Of each kernel of one run in its order: its name and the two throughputs and microseconds that ncu counts."""
        done = subprocess.run([self.ncu, "--csv", "--page", "raw", "--cache-control", "none", "--clock-control", "none", "--metrics", ",".join(METRICS.values()), self.tenon, "run", engine],
                              capture_output=True, text=True, cwd=self.folder)
        lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
        if done.returncode or not lines:
            raise RuntimeError(f"ncu: {done.stdout[-800:]}{done.stderr[-800:]}")
        rows = list(csv.DictReader(lines))
        scale = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3}[rows[0][METRICS["us"]]]  # the row of units
        return [(row["Kernel Name"].split("(")[0], *(float(row[METRICS[key]].replace(",", "")) for key in ("sm", "memory")),
                 float(row[METRICS["us"]].replace(",", "")) * scale) for row in rows[1:]]

    def joined(self, engine):
        """Of each region, the longest of its kernels by ncu: its class, both throughputs and microseconds."""
        rows = self.json("explain", "placement", engine)["instructions"]
        steps = [row for row in rows if "region" in row]
        kernels, found, at = self.kernels(engine), {}, 0
        # Fallbacks of calls are not run.
        steps = [row for row in steps if not row.get("kernel") or any(kernel[0] == row["kernel"] for kernel in kernels)]
        names = [row.get("kernel") for row in steps]
        own = set(filter(None, names))
        for row, name in zip(steps, names):
            taken = []
            if name:
                while at < len(kernels) and kernels[at][0] != name:
                    at += 1
                taken = kernels[at:at + 1]
                at += 1
            else:
                while at < len(kernels) and kernels[at][0] not in own:
                    taken.append(kernels[at])
                    at += 1
            for _, sm, memory, us in taken:
                if us > found.get(row["region"], (0,))[-1]:
                    found[row["region"]] = (ncu_class(sm, memory), sm, memory, us)
        return found

    def compare(self, name, graph, shapes):
        engine = f"{name}.tenon"
        self.run("compile", self.models / graph, "-o", engine, "--target", "cuda", "--precision", "fp16", *(flag for shape in shapes for flag in ("--shape", shape)))
        theirs, row = self.joined(engine), {"model": name}
        for kind, flags in (("floors", []), ("counters", ["--counters"])):
            try:
                report = self.json("profile", engine, *flags)
            except RuntimeError as error:
                if not flags:
                    raise
                row[f"notes_{kind}"], row[kind] = [str(error)], None
                continue
            row[f"notes_{kind}"] = report["measured"]["notes"]
            if flags and not any(region["gpu"] and region["gpu"]["counters"] for region in report["regions"]):
                row[kind] = None
                continue
            rows = [{"label": region["label"], "kernel": region["kernel"], "us": region["time_us"], "class": region["class"], "cause": region["cause"],
                     "ncu": dict(zip(("class", "sm", "memory", "us"), theirs[index]))} for index, region in enumerate(report["regions"]) if index in theirs]
            agreeing = sum(each["us"] for each in rows if OURS.get(each["class"], each["class"]) == each["ncu"]["class"])
            row[kind] = agreeing / max(sum(each["us"] for each in rows), 1e-9)
            row[f"rows_{kind}"] = rows
        return row


def differing(rows):
    """Lines of the regions whose classes differ, the longest first; those that say the same are one line."""
    lines = {}
    for each in rows:
        kind = OURS.get(each["class"], each["class"])
        if kind != each["ncu"]["class"]:
            line = f"{kind} beside {each['ncu']['class']}: {each['kernel'].split('{')[0]}, sm {each['ncu']['sm']:.0f} %, memory {each['ncu']['memory']:.0f} %; {each['cause'][:110]}"
            us, count = lines.get(line, (0, 0))
            lines[line] = us + each["us"], count + 1
    return [f"  {us:8.1f} us in {count:3} {line}" for line, (us, count) in sorted(lines.items(), key=lambda item: -item[1][0])[:SHOWN]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default="tenon", help="the program")
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute")
    parser.add_argument("-o", "--output", required=True, help="JSON of the rows")
    parser.add_argument("--only", help="models whose names contain this")
    parser.add_argument("--models", type=pathlib.Path, default=MODELS, help="the folder of their graphs")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.tenon, options.ncu, pathlib.Path(folder), options.models.resolve())
        for name, (graph, shapes) in ENGINES.items():
            if options.only and options.only not in name:
                continue
            rows.append(bench.compare(name, graph, shapes))
            counted = rows[-1]["counters"]
            print(f"{name:<14} {rows[-1]['floors']:6.1%} of the time by floors, " + (f"{counted:6.1%} by counters" if counted is not None else rows[-1]["notes_counters"][-1]), flush=True)
            print("\n".join(differing(rows[-1]["rows_floors"] if counted is None else rows[-1]["rows_counters"])), flush=True)
            pathlib.Path(options.output).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
