"""Exports, compiles and runs one module, and judges the results by eager PyTorch in float32 and in float64."""

import copy
import logging
import pathlib
import warnings

import tenon
import torch
from sketch import default_type

# Of the largest magnitude of a result, by what the program computes in.
TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}
LARGEST = 3e38
logging.disable(logging.WARNING)
warnings.simplefilter("ignore")

REFUSED_SIZES = ("TN0603", "TN0604", "TN0612", "TN0602")


class Verdict:
    """kind: passed, gap, not exported, wrong, refused, failed (with `detail`)."""

    def __init__(self, kind, detail="", place=""):
        self.kind, self.detail, self.place = kind, detail, place

    @property
    def is_fault(self):
        return self.kind in ("wrong", "failed", "refused")

    def same(self, other):
        return self.kind == other.kind and self.detail[:6] == other.detail[:6]


def export(module, inputs):
    shapes = tuple({i: torch.export.Dim.AUTO if not isinstance(dim, int) else torch.export.Dim.STATIC for i, dim in enumerate(spec.dims)}
                   for spec in module.inputs)
    with torch.no_grad():
        return torch.export.export(module.make(), tuple(inputs), dynamic_shapes=shapes)


def eager(model, inputs):
    with torch.no_grad():
        return [x.clone() for x in model(*[x.clone() for x in inputs])]


def widened(inputs):
    return [x.double() if x.dtype.is_floating_point else x.clone() for x in inputs]


def difference(got, single, double, tolerance):
    """None, or what is wrong with `got`: where float32 and float64 differ by themselves, that much more is allowed."""
    if got.dtype != single.dtype or got.shape != single.shape:
        return f"shape  {got.dtype} {list(got.shape)} for {single.dtype} {list(single.shape)}"
    if single.shape != double.shape:
        return None
    if not single.dtype.is_floating_point:
        bad = (got != single) & (single == double)
        return f"values {int(bad.sum())} of {bad.numel()} elements differ" if bad.any() else None
    got, single = got.double(), single.double()
    sure = single.isfinite() & double.isfinite() & (double.abs() < LARGEST)
    special = (~single.isfinite()) & ((single == double) | (single.isnan() & double.isnan()))
    bad = special & ~((got == single) | (got.isnan() & single.isnan()))
    if sure.any():
        scale = max(1.0, double[sure].abs().max().item())
        noise = (single - double)[sure].abs().max().item()
        allowed = tolerance * scale + 10 * noise
        bad |= sure & ~((got - double).abs() <= allowed)
    if not bad.any():
        return None
    at = bad.nonzero()[0].tolist()
    return f"values {int(bad.sum())} of {bad.numel()} elements differ; at {at} {got[tuple(at)]:.7g} for {double[tuple(at)]:.7g}"


def tolerance_of(module):
    text = module.source() + str([input.dtype for input in module.inputs])
    types = [t for t in TOLERANCES if str(t) in text]
    return max([TOLERANCES[t] for t in types] + [TOLERANCES[torch.float32]])


def is_stated(program, inputs):
    """Whether the sizes lie in the ranges that torch.export states, which its own guards do not all check."""
    names = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"}
    nodes = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    for node, x in zip(nodes, inputs):
        for size, stated in zip(x.shape, node.meta["val"].shape):
            if isinstance(stated, int) and size != stated:
                return False
            known = program.range_constraints.get(stated.node.expr) if isinstance(stated, torch.SymInt) else None
            if known is not None and not known.lower <= size <= known.upper:
                return False
    return True


def judge(module, seed, sizes, others, folder):
    inputs = module.data(seed, sizes)
    try:
        with default_type(torch.float32):
            program = export(module, inputs)
            path = pathlib.Path(folder) / "model.pt2"
            torch.export.save(program, path)
    except Exception as error:
        return Verdict("not exported", f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}")
    try:
        engine = tenon.compile(str(path), cache=False, threads=1)
    except tenon.UnsupportedError as error:
        gaps = [f"{gap.get('op', gap.get('opType'))}: {gap.get('reason', gap.get('why'))}" for gap in error.gaps] or [str(error)]
        return Verdict("gap", gaps[0])
    except tenon.Error as error:
        return Verdict("failed", f"{error.id} {error}")
    return compare(module, program, engine, seed, sizes, others)


def compare(module, program, engine, seed, sizes, others):
    exported = copy.deepcopy(program).module()
    single, double = module.make(), module.make(is_wide=True)
    session = engine.session(threads=1)
    tolerance = tolerance_of(module)
    is_stateful = bool(program.graph_signature.buffers_to_mutate)
    runs = [(sizes, seed)] + ([(sizes, seed + 1)] if is_stateful else []) + [(other, seed + 2) for other in others]
    for number, (run_sizes, run_seed) in enumerate(runs):
        inputs = module.data(run_seed, run_sizes)
        if not is_stated(program, inputs):
            continue
        try:
            by_program = eager(exported, inputs)
            by_single = eager(single, inputs)
            with default_type(torch.float64):
                by_double = eager(double, widened(inputs))
        except Exception:
            if number == 0:
                return Verdict("not exported", "eager refuses it at last")
            break  # sizes that PyTorch refuses; state may be half written
        if any(difference(a, b, b, 1e-3) for a, b in zip(by_program, by_single)):
            return Verdict("not exported", "torch.export gives other results than eager")
        place = "" if number == 0 else f"at {run_sizes}"
        try:
            results = session.run(*[x.contiguous() for x in inputs])
        except tenon.Error as error:
            return Verdict("refused" if error.id in REFUSED_SIZES else "failed", f"{error.id} {error}", place)
        results = list(results.values())
        if len(results) != len(by_single):
            return Verdict("wrong", f"count  {len(results)} outputs for {len(by_single)}")
        for index, (got, a, b) in enumerate(zip(results, by_single, by_double)):
            found = difference(torch.as_tensor(got), a, b, tolerance)
            if found:
                return Verdict("wrong", f"{found} (output {module.outputs[index]})", place)
    return Verdict("passed")
