"""Writes docs/pytorch-models.md from the results of check.py. Relies on scripts/requirements-torch.txt for the versions."""

import collections
import pathlib

from compare import TOLERANCE

HEAD = """# PyTorch models

The models of `models/pytorch/list.py`, exported by `torch.export` ({versions}), compiled for this machine's CPU and compared with eager in
float64: the largest difference relative to the largest value, which is to be at most {tolerance:g}. `models/pytorch/check.py` writes
this page. torchvision's are at their real size, those of transformers two narrow layers; all weights are seeded.

"Dims" says how the export declares batch and sequence: *named* is one symbol for each name, *dynamic* a symbol for each place, *automatic*
what torch leaves open of its own accord, *static* none. With named and dynamic ones the same engine also runs other sizes, whose error
stands in the column "other sizes". "Eager" is the error of eager in float32. Times are medians of {runs} runs on a shared machine: an
order of magnitude, not a measurement.
"""


def versions():
    lines = (pathlib.Path(__file__).resolve().parents[2] / "scripts/requirements-torch.txt").read_text().splitlines()
    return ", ".join(line.replace("==", " ") for line in lines if line.startswith("tor") or line.startswith("transformers"))


def number(value, form):
    return "" if value is None else format(value, form)


def table(rows):
    lines = ["| model | parameters | operators | dims | error | other sizes | eager | compile s | run ms | state |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for one in rows:
        state = f"{one['failed']}: {one['reason']}" if "failed" in one else "ok"
        cells = [one["name"], number(one.get("parameters"), ","), number(one.get("operators"), "d"), one.get("dims", ""),
                 number(one.get("error"), ".1e"), number(one.get("other_error"), ".1e"), number(one.get("eager_error"), ".1e"),
                 number(one.get("compile_s"), ".1f"), number(one.get("run_ms"), ".3g"), state.replace("|", "\\|")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def reasons(failed):
    """Reasons by how many models they stop."""
    groups = collections.defaultdict(list)
    for one in failed:
        groups[one["failed"], one["reason"]].append(one["name"])
    lines = ["| step | reason | models |", "|---|---|---|"]
    for (step, reason), names in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        text = reason.replace("|", "\\|")
        lines.append(f"| {step} | {text} | {len(names)}: {', '.join(names[:6])}{', …' if len(names) > 6 else ''} |")
    return "\n".join(lines) + "\n"


def page(results, listed, runs=5):
    """The whole text, for a list of so many models."""
    families = collections.defaultdict(list)
    for one in results:
        families[one["family"]].append(one)
    failed = [one for one in results if "failed" in one]
    exported = len(results) - sum(one["failed"] == "export" for one in failed)
    parts = [HEAD.format(tolerance=TOLERANCE, runs=runs, versions=versions()),
             f"Of the list's {listed} models {len(results)} were run, {exported} of them are exported and "
             f"{len(results) - len(failed)} pass.\n",
             "| family | models | exported | pass |\n|---|---|---|---|\n" + "".join(
                 f"| {family} | {len(rows)} | {sum(one.get('failed') != 'export' for one in rows)} | "
                 f"{sum('failed' not in one for one in rows)} |\n" for family, rows in families.items())]
    if failed:
        parts.append("## What falls short\n\nReasons of step \"export\" are torch's.\n\n" + reasons(failed))
    parts += [f"## {family[0].upper() + family[1:]}\n\n{table(rows)}" for family, rows in families.items()]
    return "\n".join(parts)
