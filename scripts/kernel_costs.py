#!/usr/bin/env python3
"""How well kernels' predicted times rank their measured ones: every kernel of every region of some graphs of the zoo.

    scripts/kernel_costs.py --tenon build/dev/bin/tenon --target cpu -o cpu.json
    scripts/kernel_costs.py --page cpu.json h200.json

A rank correlation (Spearman's) for each kind of region over all its kernels, and what the chosen kernels lose against the
fastest of their regions. Kernels that fail, or give other results than the chosen one, are named.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Graph, sizes of the inputs, flags. Dims are given, so that every region can be measured by itself.
CASES = {
    "bert_b1": ("graphs/bert_base.dynamo", ["input_ids:1x128", "attention_mask:1x128", "token_type_ids:1x128"], []),
    "bert_b8": ("graphs/bert_base.dynamo", ["input_ids:8x128", "attention_mask:8x128", "token_type_ids:8x128"], []),
    "minilm_b1": ("graphs/minilm_l6.dynamo", ["input_ids:1x32", "attention_mask:1x32", "token_type_ids:1x32"], []),
    "gpt2_b1": ("graphs/gpt2.dynamo", ["input_ids:1x64", "attention_mask:1x64"], []),
    "t5_encoder": ("graphs/t5_encoder.dynamo", ["input_ids:1x48", "attention_mask:1x48"], []),
    "resnet50_b1": ("graphs/resnet50.dynamo", ["x:1x3x224x224"], []),
    "mobilenet_b1": ("graphs/mobilenet_v2.dynamo", ["x:1x3x224x224"], []),
    "vit_b1": ("graphs/vit_b16.dynamo", ["x:1x3x224x224"], []),
    "swin_b1": ("graphs/swin_t.dynamo", ["x:1x3x224x224"], []),
    "llama_b1": ("large/llama_1b_decode", ["input_ids:1x1", "position_ids:1x1"], []),
    "bert_b32": ("graphs/bert_base.dynamo", ["input_ids:32x128", "attention_mask:32x128", "token_type_ids:32x128"], []),
    "unet_b1": ("graphs/unet.dynamo", ["x:1x3x64x64"], []),
}
# Shapes that no prediction was fitted to.
HELD_OUT = {
    "bert_3x77": ("graphs/bert_base.dynamo", ["input_ids:3x77", "attention_mask:3x77", "token_type_ids:3x77"], []),
    "minilm_16x200": ("graphs/minilm_l6.dynamo", ["input_ids:16x200", "attention_mask:16x200", "token_type_ids:16x200"], []),
    "gpt2_2x300": ("graphs/gpt2.dynamo", ["input_ids:2x300", "attention_mask:2x300"], []),
    "t5_encoder_5x160": ("graphs/t5_encoder.dynamo", ["input_ids:5x160", "attention_mask:5x160"], []),
    "resnet50_b6": ("graphs/resnet50.dynamo", ["x:6x3x224x224"], []),
    "whisper_encoder": ("graphs/whisper_encoder.dynamo", ["input_features:1x80x3000"], []),
}
# Seeded inputs of a region are not what it gets in the model: far from the chosen kernel's result is a fault.
TOLERANCE = {"keep": 1e-3, "fp16": 2e-2}
LEAST_RANKED = 8


def ranks(values):
    """Each value's place in order; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for place in order[begin:end]:
            found[place] = (begin + end - 1) / 2
        begin = end
    return found


def correlation(a, b):
    """Spearman's; none where one of the two is constant."""
    a, b = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    spread = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return sum((x - mean) * (y - mean) for x, y in zip(a, b)) / spread if spread else None


def shapes_of(tenon, graph, wanted):
    """Those of the wanted shapes whose inputs the graph has; a lone input may have another name."""
    inputs = [row["name"] for row in json.loads(subprocess.run([tenon, "inspect", graph, "--json"], capture_output=True, text=True,
                                                               check=True).stdout)["inputs"]]
    if len(inputs) == 1 and len(wanted) == 1:
        wanted = [f"{inputs[0]}:{wanted[0].split(':')[1]}"]
    return [flag for shape in wanted if shape.split(":")[0] in inputs for flag in ("--shape", shape)]


def measure(options):
    rows, start = [], time.monotonic()
    for name, (graph, shapes, flags) in (HELD_OUT if options.held_out else CASES).items():
        if options.only and not any(part in name for part in options.only):
            continue
        if time.monotonic() - start > options.total:
            print(f"kernel_costs: {name} and what follows are left out: {options.total:.0f} s are over", file=sys.stderr)
            break
        path = ROOT / "models" / f"{graph}.onnx"
        command = [options.tenon, "bench", path, "--kernels", "all", "--json", "--quiet", "--target", options.target, *flags,
                   *shapes_of(options.tenon, path, shapes), "--threads", options.threads]
        command += ["--precision", options.precision] if options.precision != "keep" else []
        command += ["--per-family", options.per_family] if options.per_family else []
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"kernel_costs: {name}: {done.stderr.strip()}")
        for region in json.loads(done.stdout)["regions"]:
            rows.append({"case": name, **region})
        print(f"kernel_costs: {name} done after {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return {"device": options.device, "target": options.target, "precision": options.precision, "threads": options.threads,
            "commit": subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip(),
            "regions": rows}


def within(difference, tolerance):
    """JSON has no infinity, which is what one that is not finite in one of the two comes as."""
    return difference is not None and difference <= tolerance


def summary(result):
    """Lines of a table, a row a kind of region; then what failed or differs."""
    kinds, faults = {}, []
    for region in result["regions"]:
        kind = kinds.setdefault(region["strategy"], {"regions": 0, "predicted": [], "measured": [], "losses": []})
        good = [row for row in region["kernels"] if "time_us" in row]
        faults += [f"{region['case']} {region['label']}: {row['kernel']}: {row['problem']}"
                   for row in region["kernels"] if "problem" in row]
        faults += [f"{region['case']} {region['label']}: {row['kernel']} differs by {row['difference']}"
                   for row in good if not within(row["difference"], TOLERANCE[result["precision"]])]
        if not good:
            continue
        kind["regions"] += 1
        kind["predicted"] += [row["predicted_us"] for row in good]
        kind["measured"] += [row["time_us"] for row in good]
        chosen = [row["time_us"] for row in good if row["chosen"]]
        if chosen and len(good) > 1:
            kind["losses"].append(chosen[0] / min(row["time_us"] for row in good))
    lines = []
    for name, kind in sorted(kinds.items()):
        rank = correlation(kind["predicted"], kind["measured"]) if len(kind["measured"]) >= LEAST_RANKED else None
        losses = kind["losses"]
        mean = math.exp(sum(map(math.log, losses)) / len(losses)) if losses else None
        cells = [None if rank is None else f"{rank:.2f}", f"{mean:.2f}" if losses else None, f"{max(losses):.2f}" if losses else None]
        lines.append(f"| {name} | {kind['regions']} | {len(kind['measured'])} | {' | '.join(cell or '-' for cell in cells)} |")
    return lines, faults


def page(results):
    for result in results:
        lines, faults = summary(result)
        print(f"\n## {result['device'] or result['target']}\n\nTarget `{result['target']}`, precision {result['precision']}, "
              f"{result['threads']} threads, commit {result['commit']}.\n")
        print("| kind of region | regions | kernels | rank correlation | chosen / fastest, geometric mean | largest |\n|---|---|---|---|---|---|")
        print("\n".join(lines))
        print(f"\n{len(faults)} kernels fail or differ." + "".join(f"\n- {fault}" for fault in faults))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", type=pathlib.Path, default=ROOT / "build/dev/bin/tenon")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--precision", default="keep", choices=TOLERANCE)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--per-family", help="at most so many configurations of each family")
    parser.add_argument("--only", nargs="+", default=[], help="parts of names of cases")
    parser.add_argument("--held-out", action="store_true", help="shapes that no prediction was fitted to")
    parser.add_argument("--total", type=float, default=1e9, help="seconds after which no further case is begun")
    parser.add_argument("--device", default="", help="what the page calls the machine")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("--page", nargs="+", type=pathlib.Path, help="only print the tables of these results")
    options = parser.parse_args()
    if options.page:
        return page([json.loads(path.read_text()) for path in options.page])
    result = measure(options)
    if options.output:
        options.output.write_text(json.dumps(result, indent=1))
    return page([result])


if __name__ == "__main__":
    main()
