#!/usr/bin/env python3
"""Exports the models of list.py by torch.export: NAME.pt2, seeded inputs and eager's outputs in float64 as NAME.npz, facts.

Relies on scripts/requirements-torch.txt. NAME.npz has `in.INPUT` and `out.0`, `out.1`... in the order of the program's
tensors, and where dims are open the same once more for other sizes as `in2.INPUT` and `out2.0`. NAME.json says what the
program is: how its dims are declared, the reasons for which stricter ways were refused, its operators, eager's own error. A
model that cannot be exported has its error there. What is in the folder already and still valid is not made again.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import resource
import signal
import traceback

import numpy as np
import torch
from torch.utils import _pytree as tree

import build
from compare import TOLERANCE, error_of
from list import EXAMPLE, MODELS, OTHER


HERE = pathlib.Path(__file__).resolve().parent
SEEDS = range(1, 9)
LIMIT_GIB = 18
LIMIT_S = 900


def program_of(model, made):
    """The exported program, how its dims are declared, and per stricter way why torch refused it."""
    inputs = build.example(model)
    args, named = (tuple(inputs.values()), None) if build.positional(model) else ((), inputs)
    refused = {}
    for mode in build.MODES:
        try:
            shapes = build.dynamic_shapes(model, mode)
            return torch.export.export(made, args, named, dynamic_shapes=shapes), mode, refused
        except Exception as error:  # torch raises every kind
            refused[mode] = f"{type(error).__name__}: {error}"
            if mode == build.MODES[-1]:
                raise


def operators(program):
    """How often each operator is called, in bodies of branches and loops too."""
    counts = collections.Counter()
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            counts.update(str(node.target) for node in module.graph.nodes if node.op == "call_function")
    return dict(sorted(counts.items()))


def outputs(model, made, inputs):
    """The tensors that eager gives, in the order of the program's outputs."""
    return [leaf.numpy() for leaf in tree.tree_leaves(build.call(model, made, inputs)) if isinstance(leaf, torch.Tensor)]


def evaluate(model, made, sizes, seed, exact):
    """Inputs and eager's outputs, in float64 if `exact`. Buffers that the call changes are put back."""
    inputs = build.example(model, sizes, seed)
    state = {name: value.clone() for name, value in made.named_buffers()}
    made.to(torch.float64 if exact else torch.float32)
    given = {name: value.double() if exact and value.is_floating_point() else value for name, value in inputs.items()}
    try:
        return inputs, outputs(model, made, given)
    finally:
        made.float()
        for name, value in made.named_buffers():
            value.copy_(state[name])


def finite(arrays):
    return all(np.isfinite(array).all() for array in arrays)


def settled(model):
    """The model, its seed, its error in float32 (None if float32 is all that it does), inputs and outputs, by the first seed
    that decides in float32 what it does in float64.

    Detectors compare scores and overlaps: where two are nearly the same, either choice is right, and nothing is tested.
    """
    for seed in SEEDS:
        made = build.build(model, seed)
        inputs, single = evaluate(model, made, EXAMPLE, 0, False)
        try:
            exact = evaluate(model, made, EXAMPLE, 0, True)[1]
        except RuntimeError:
            exact = single
        if exact is single or finite(single) and not finite(exact):
            # Its code asks for float32 somewhere, or its masks overflow in float64.
            return made, seed, None, inputs, single
        error = error_of(single, exact)
        if error < TOLERANCE / 2:
            break
    return made, seed, error, inputs, exact


@torch.no_grad()
def export(model, folder):
    """Writes the program and the arrays, and gives the facts."""
    made, seed, error, inputs, exact = settled(model)
    program, mode, refused = program_of(model, made)
    torch.export.save(program, folder / f"{model.name}.pt2")
    facts = {"name": model.name, "dims": mode, "refused": refused, "operators": operators(program), "seed": seed,
             "parameters": sum(weight.numel() for weight in made.parameters()), "eager_error": error,
             "mutated": len(program.graph_signature.buffers_to_mutate)}
    names = program.graph_signature.user_inputs
    del program
    arrays = {f"in.{name}": value.numpy() for name, value in zip(names, inputs.values())}
    arrays.update({f"out.{number}": value for number, value in enumerate(exact)})
    if mode in OTHER and any(isinstance(d, str) for one in model.inputs.values() for d in one.dims):
        inputs, exact = evaluate(model, made, OTHER[mode], 1, error is not None)
        arrays.update({f"in2.{name}": value.numpy() for name, value in zip(names, inputs.values())})
        arrays.update({f"out2.{number}": value for number, value in enumerate(exact)})
    np.savez(folder / f"{model.name}.npz", **arrays)
    return facts


def key_of(model):
    """What an export depends on: the line of the list and the code that makes the model."""
    code = "".join((HERE / name).read_text() for name in ("build.py", "detection.py"))
    return hashlib.sha256((repr(model) + code).encode()).hexdigest()[:16]


def export_apart(model, folder):
    """In a process of its own, which ends beyond the limits; leaves the facts, or the error in their place."""
    path = folder / f"{model.name}.json"
    path.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_GIB << 30, LIMIT_GIB << 30))
        signal.alarm(LIMIT_S)
        log = os.open(folder / "export.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            facts = export(model, folder)
        except BaseException as error:  # whatever it is, it belongs into the results
            at = traceback.extract_tb(error.__traceback__)[-1]
            facts = {"name": model.name, "error": f"{type(error).__name__}: {error}",
                     "at": f"{pathlib.Path(at.filename).name}:{at.lineno}"}
        path.write_text(json.dumps({**facts, "key": key_of(model)}, indent=1))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if not path.exists():
        over = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        error = f"not exported after {LIMIT_S} s" if over else f"the process ended with status {status}"
        path.write_text(json.dumps({"name": model.name, "error": error, "key": key_of(model)}))


def facts_of(model, folder):
    """What is known of an export that is still valid, or None."""
    path = folder / f"{model.name}.json"
    facts = json.loads(path.read_text()) if path.exists() else {}
    there = "error" in facts or (folder / f"{model.name}.pt2").exists()
    return facts if there and facts.get("key") == key_of(model) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="names of list.py; all by default")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for model in MODELS:
        if options.models and model.name not in options.models:
            continue
        if facts_of(model, options.output) is None:
            export_apart(model, options.output)
        facts = facts_of(model, options.output)
        said = facts.get("error") or f"dims {facts['dims']}, eager's error {facts['eager_error']}"
        print(f"{model.name}: {said.splitlines()[0]}", flush=True)


if __name__ == "__main__":
    main()
