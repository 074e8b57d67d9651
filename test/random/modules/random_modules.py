"""Random modules of PyTorch through torch.export, the .pt2 importer and an engine, against eager PyTorch (docs/explanation/random-models.md).

usage: random_modules.py [--seed SEED] [--count N] [--seconds S] [--dump DIR] [--show]
Module number i has the seed SEED + i. Each process of modules may crash: the next one goes on behind the module that did.
Needs torch, and the package tenon on PYTHONPATH.
"""

import argparse
import collections
import os
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


def grown(seed):
    """(module, sizes, other sizes) of a seed."""
    import torch
    from sketch import Module, Retry, Sketch
    from statements import statement

    torch.manual_seed(seed)
    sketch = Sketch(seed)
    wanted = sketch.rng.choice([1, 2, 3, 4, 6, 8, 12])
    for _ in range(20 * wanted):
        try:
            sketch.add(statement(sketch))
        except (Retry, IndexError, RuntimeError, TypeError, ValueError):
            continue
        if len(sketch.lines) >= wanted and any(name.startswith("v") for name in sketch.names()):
            break
    module = Module(sketch.inputs, sketch.weights, sketch.lines, sketch.outputs())
    others = [{name: sketch.rng.choice([1, 2, 3, 5, 9, 16]) for name in sketch.sizes} for _ in range(2)]
    return module, sketch.sizes, others


def shrunk(module, verdict, again):
    """The fewest lines and outputs that still end so; `again` judges."""
    from sketch import Module

    def tries(module):
        for output in module.outputs if len(module.outputs) > 1 else []:
            yield Module(module.inputs, module.weights, module.lines, [output])
        for index in reversed(range(len(module.lines))):
            yield Module(module.inputs, module.weights, module.lines[:index] + module.lines[index + 1:], module.outputs)
        if len(module.inputs) > 1:
            for index in range(len(module.inputs)):
                yield Module(module.inputs[:index] + module.inputs[index + 1:], module.weights, module.lines, module.outputs)

    budget, changed = 60, True
    while changed and budget > 0:
        changed = False
        for candidate in tries(module):
            budget -= 1
            found = again(candidate)
            if found.same(verdict):
                module, verdict, changed = candidate, found, True
                break
            if budget <= 0:
                break
    return module, verdict


def work(flags):
    """Modules one after the other; a line for each goes to standard output."""
    import torch
    from judge import judge

    torch.set_num_threads(1)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(flags.seed, flags.seed + flags.count):
            if flags.seconds and time.monotonic() - begin > flags.seconds:
                break
            print(f"begin\t{seed}", flush=True)
            module, sizes, others = grown(seed)
            again = lambda module: judge(module, seed, sizes, others, folder)
            verdict = again(module) if module.outputs else None
            if verdict is None:
                continue
            while verdict.kind == "gap":  # what remains without the operator is a module too
                print(f"gap\t{seed}\t\t{verdict.detail}", flush=True)
                rest = module.without(re.sub(r"^(aten\.)?_*", "", verdict.detail).split(".")[0].split(":")[0])
                if rest is None or len(rest.lines) == len(module.lines):
                    break
                module, verdict = rest, again(rest)
            if verdict.kind == "gap":
                continue
            if verdict.is_fault and not flags.whole:
                module, verdict = shrunk(module, verdict, again)
            print(f"{verdict.kind}\t{seed}\t{verdict.place}\t{' '.join(verdict.detail.split())}", flush=True)
            if verdict.is_fault or flags.show:
                text = f"# seed {seed}, sizes {sizes}, others {others}: {verdict.kind} {verdict.place} {verdict.detail}\n{module.text()}"
                print("\n".join("| " + line for line in text.splitlines()), flush=True)
                if flags.dump:
                    pathlib.Path(flags.dump).mkdir(parents=True, exist_ok=True)
                    pathlib.Path(flags.dump, f"{seed}.py").write_text(text)
            torch._dynamo.reset() if seed % 50 == 0 else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--dump", default="")
    parser.add_argument("--show", action="store_true", help="print each module")
    parser.add_argument("--whole", action="store_true", help="do not shrink what fails")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker:
        return work(flags)
    print(f"seed {flags.seed}", flush=True)
    kinds, reasons, end, seed, begin = collections.Counter(), collections.Counter(), flags.seed + flags.count, flags.seed, time.monotonic()
    while seed < end:
        left = max(flags.seconds - (time.monotonic() - begin), 1) if flags.seconds else 0
        command = [sys.executable, __file__, "--worker", f"--seed={seed}", f"--count={min(end - seed, 400)}", f"--seconds={left}", f"--dump={flags.dump}"]
        command += ["--show"] * flags.show + ["--whole"] * flags.whole
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        last = None
        for line in worker.stdout:
            kind, *rest = line.rstrip("\n").split("\t")
            if kind == "begin":
                last, seed = int(rest[0]), int(rest[0]) + 1
                continue
            if line.startswith("|"):
                print(line, end="", flush=True)
                continue
            if len(rest) == 3:
                last = None
                kinds[kind] += 1
                if kind != "passed":
                    reasons[f"{kind}: {rest[2][:100]}"] += 1
        if worker.wait() != 0:
            if last is None:
                return 2  # it did not get as far as a module
            print(f"| seed {last}: the process ended with {worker.returncode}", flush=True)
            kinds["crashed"] += 1
        elif left and time.monotonic() - begin > flags.seconds - 1:
            break
    for reason, count in reasons.most_common(60):
        print(f"{count:5} {reason}")
    print(f"{sum(kinds.values())} modules, seeds {flags.seed} to {seed - 1}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    return 1 if any(kinds[kind] for kind in ("wrong", "failed", "refused", "crashed")) else 0


if __name__ == "__main__":
    sys.exit(main())
