"""Writes docs/reference/pytorch-models.md and its pages of tables from the results of check.py. Relies on scripts/requirements-torch.txt for the versions."""

import collections
import pathlib

from compare import TOLERANCE

# Dynamo's reasons for a break that Tenon has no part in. Any other is shown as unexplained.
EXPLAINED = {
    "Dynamic shape operator": "data decides the size of a result, and dynamo traces that only with "
                              "torch._dynamo.config.capture_dynamic_output_shape_ops",
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": "Python takes a number out of a tensor",
    "Data-dependent branching": "Python decides by the data",
}

HEAD = """# PyTorch models

This page tells you whether a model like yours runs in Tenon, and what kept those that do not. Look up an architecture in its table:

{index}

The models are those of `models/pytorch/list.py`. torchvision's have their real size; those of transformers have two narrow layers. All weights are seeded. `torch.export`
exports each one ({versions}), and Tenon compiles it for the CPU. The error is the largest difference from eager in float64, relative to the largest value; it must be at most
{tolerance:g}. `models/pytorch/check.py` writes these pages.
"""

COLUMNS = """What the columns say:

- **dims**: how the export declares batch and sequence. *named* is one symbol for each name, *dynamic* a symbol for each place, *automatic* what torch leaves open by itself,
  *static* none. With named and dynamic dims the same engine also runs other sizes: **other sizes** is their error.
- **eager**: the error of eager in float32.
- **compile s**, **run ms**: medians of {runs} runs on a shared machine, or one run if it takes seconds. They give an order of magnitude, not a measurement.
- **backend**: the same model under `torch.compile(model, backend="tenon")`: its error, the number of graphs that dynamo makes, its graph breaks, and after the plus the further
  graphs of a second call with other sizes.
"""

# The pages of tables: a page's end of name, its title, and the families on it. None has more than 12,000 characters.
PAGES = {
    "torchvision": ("PyTorch models of torchvision", ("torchvision",)),
    "text": ("PyTorch models of text", ("transformers text", "transformers seq2seq")),
    "decoders": ("PyTorch decoders", ("transformers decoder", "transformers decoding step")),
    "media": ("PyTorch models of images, sound and series", ("",)),
}


def versions():
    lines = (pathlib.Path(__file__).resolve().parents[2] / "scripts/requirements-torch.txt").read_text().splitlines()
    return ", ".join(line.replace("==", " ") for line in lines if line.startswith("tor") or line.startswith("transformers"))


def was_run(one):
    """Whether the model was exported, or that was tried; else only the backend was."""
    return "dims" in one or "failed" in one


def under_backend(one):
    """The cell of the backend."""
    facts = one.get("backend")
    if facts is None:
        return ""
    if "failed" in facts:
        return f"{facts['failed']}: {facts['reason']}"
    breaks = len(facts["breaks"])
    again = facts.get("graphs_again")
    graphs = f"{facts['graphs']} graph{'s' * (facts['graphs'] != 1)}" + (f" + {again}" if again is not None else "")
    return f"{max(facts['error'], facts.get('other_error', 0)):.1e}, {graphs}" + (
        f", {breaks} break{'s' * (breaks != 1)}" if breaks else "")


def number(value, form):
    return "" if value is None else format(value, form)


def table(rows):
    lines = ["| model | parameters | operators | dims | error | other sizes | eager | compile s | run ms | state | backend |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for one in rows:
        state = f"{one['failed']}: {one['reason']}" if "failed" in one else "ok" if was_run(one) else "not run"
        cells = [one["name"], number(one.get("parameters"), ","), number(one.get("operators"), "d"), one.get("dims", ""),
                 number(one.get("error"), ".1e"), number(one.get("other_error"), ".1e"), number(one.get("eager_error"), ".1e"),
                 number(one.get("compile_s"), ".1f"), number(one.get("run_ms"), ".3g"), state.replace("|", "\\|"), under_backend(one).replace("|", "\\|")]
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


def breaks(results):
    """Where dynamo breaks graphs, and why, by how many models."""
    groups = collections.defaultdict(set)
    for one in results:
        for reason, source in one["backend"].get("breaks", []):
            groups[f"{reason}: {EXPLAINED.get(reason, 'unexplained')}", source].add(one["name"])
    lines = ["| reason | at | models |", "|---|---|---|"]
    for (reason, source), names in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        shown = sorted(names)
        text = reason.replace("|", "\\|")
        lines.append(f"| {text} | {source} | {len(names)}: {', '.join(shown[:6])}{', …' if len(names) > 6 else ''} |")
    return "\n".join(lines) + "\n"


def summary(families):
    lines = ["| family | models | exported | pass | under the backend | pass | breaks |", "|---|---|---|---|---|---|---|"]
    for family, rows in families.items():
        ran = [one for one in rows if was_run(one)]
        tried = [one["backend"] for one in rows if "backend" in one]
        lines.append(f"| {family} | {len(ran)} | {sum(one.get('failed') != 'export' for one in ran)} | "
                     f"{sum('failed' not in one for one in ran)} | {len(tried)} | "
                     f"{sum('failed' not in one for one in tried)} | {sum(len(one.get('breaks', ())) for one in tried)} |")
    return "\n".join(lines) + "\n"


def by_family(results):
    families = collections.defaultdict(list)
    for one in results:
        families[one["family"]].append(one)
    return families


def page(results, listed, index=""):
    """The text of the first page, for a list of `listed` models."""
    ran = [one for one in results if was_run(one)]
    failed = [one for one in ran if "failed" in one]
    exported = len(ran) - sum(one["failed"] == "export" for one in failed)
    tried = [one for one in results if "backend" in one]
    wrong = [{"name": one["name"], **one["backend"]} for one in tried if "failed" in one["backend"]]
    parts = [HEAD.format(tolerance=TOLERANCE, versions=versions(), index=index),
             f"Of the list's {listed} models, {len(ran)} were run: {exported} could be exported and "
             f"{len(ran) - len(failed)} pass. {len(tried)} were run under the backend, and {len(tried) - len(wrong)} pass.\n",
             summary(by_family(results))]
    if failed:
        parts.append("## What falls short\n\nReasons of the step \"export\" come from torch.\n\n" + reasons(failed))
    if wrong:
        parts.append("## What falls short under the backend\n\n" + reasons(wrong))
    if any(one["backend"].get("breaks") for one in tried):
        parts.append("## Graph breaks\n\n" + breaks(tried))
    return "\n".join(parts)


def tables(results, first, runs=5):
    """The pages of tables, by their ends of name; `first` is the file name of the first page."""
    texts = {}
    for family, rows in by_family(results).items():
        end, title = next((end, title) for end, (title, begins) in PAGES.items() if family.startswith(begins))
        texts.setdefault(end, f"# {title}\n\n[PyTorch models]({first}) says how they are run, and what kept those that do not pass.\n\n{COLUMNS.format(runs=runs)}")
        texts[end] += f"\n## {family[0].upper() + family[1:]}\n\n{table(rows)}"
    return texts


def write(path, results, listed):
    """Writes all pages: `path` and, beside it, those of tables."""
    texts = tables(results, path.name)
    names = {end: f"{path.stem}-{end}.md" for end in texts}
    index = "\n".join(f"- [{PAGES[end][0]}]({name})" for end, name in names.items())
    path.write_text(page(results, listed, index))
    for end, name in names.items():
        (path.parent / name).write_text(texts[end])
