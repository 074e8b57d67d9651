"""The steps that come with Tenon. Most are a verb of the command line with its flags as options; a few are functions over several verbs.

Each calls the program `tenon`, as any other orchestrator can.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
import zipfile
from typing import Any, Dict, List, Mapping, Tuple

from . import _onnx_files
from ._catalog import ANY, BUILTIN, CALLABLE, FILE, FILES, FLAG, TEXT, TEXTS, Option, Step
from ._faults import StepError
from ._flags import FLAGS
from ._store import canonical, hash_file
from ._registry import gate, promote, push  # noqa: F401
from ._task import Run, arguments, own_process, write_json

# verb: (step, inputs, outputs).
_VERBS = {
    "check": ("check", {"model": FILE}, {"report": "report.json"}),
    "inspect": ("graph", {"model": FILE}, {"page": "graph.html"}),
    "quantize": ("quantize", {"model": FILE}, {"model": "model.onnx", "report": "report.json"}),
    "prune": ("prune", {"model": FILE}, {"model": "model.onnx", "recipe": "recipe.json", "report": "report.json"}),
    "compile": ("compile", {"model": FILE}, {"engine": "engine.tenon", "report": "report.json"}),
    "bench": ("bench", {"engine": FILE}, {"report": "report.json"}),
    "tune": ("tune", {"model": FILE}, {"engine": "engine.tenon", "report": "report.json", "store": "tuning"}),
    "profile": ("profile", {"model": FILE}, {"report": "report.json", "page": "profile.html"}),
    "accuracy": ("accuracy", {"models": FILES}, {"report": "report.json"}),
}
# Flags that are no options: what a pipeline decides itself, and what needs a file that it has no place for.
_LEFT_EVERYWHERE = "help json quiet progress registry"
_LEFT = {
    "inspect": "isa format output all",
    "quantize": "output report state",
    "prune": "output recipe",
    "compile": "output stop_after dump_phases reproducer force",
    "bench": "isa output against device format kernels per_family",
    "tune": "output resume again",
    "profile": "isa html trace layers layer_times",
    "accuracy": "isa",
}
# Flags whose text names files.
_FILES = {**dict.fromkeys("ab data device_profile profile reference scores store test".split(), FILE), "inputs": FILES, "plugin": FILES}
# Options of a verb's step that are no flags.
_MORE = {"accuracy": {"against": Option(FILE), "at_least": Option(TEXT), "drop": Option(TEXT)}}
_SUFFIXES = {"*": TEXTS, "!": FLAG}
_VERB_OF = {step: verb for verb, (step, *_) in _VERBS.items()}
_WRITES_TO = {"compile": "engine", "quantize": "model", "prune": "model", "tune": "engine"}  # the output of -o


def _flags(text: str) -> Dict[str, Option]:
    """Of words as those of FLAGS."""
    found = {}
    for word in text.split():
        name, _, kind = word.partition(":")
        found[name.rstrip("*!")] = Option(kind or _SUFFIXES.get(word[-1], TEXT))
    return found


def _options_of(verb: str) -> Dict[str, Option]:
    left = f"{_LEFT_EVERYWHERE} {_LEFT.get(verb, '')}".split()
    return {name: Option(_FILES.get(name, option.kind)) for name, option in _flags(FLAGS[verb]).items() if name not in left}


def _searches(options: Mapping[str, Any]) -> bool:
    return bool(options.get("accuracy_drop") or options.get("latency"))


def _own_target(options: Mapping[str, Any]) -> bool:
    """Whether the result depends on this machine's CPU or GPU."""
    parts = ",".join(options.get("target") or []).split(",")
    return any(part == "cuda" or "native" in part for part in parts)


# Whether nothing may run beside it, and whether its result holds for this machine only: by its options.
_ALWAYS = lambda options: True  # noqa: E731
_ALONE = {"bench": _ALWAYS, "accuracy": _ALWAYS, "tune": _ALWAYS, "profile": _ALWAYS, "gate": _ALWAYS, "quantize": _searches,
          "prune": lambda options: not options.get("no_timing"), "validate": lambda options: "data" in options,
          "compile": lambda options: "budget" in options, "push": lambda options: "gate" in options}  # fmt: skip
_MACHINE = {**_ALONE, "compile": lambda options: "budget" in options or _own_target(options)}


def _register() -> None:
    found = {
        name: ({**{each: Option(kind, required=True) for each, kind in inputs.items()}, **_options_of(verb), **_MORE.get(name, {})}, outputs)
        for verb, (name, inputs, outputs) in _VERBS.items()
    }
    found["ingest"] = ({"model": Option(FILE), "callable": Option(CALLABLE), "format": Option(TEXT, choices=("pt2", "onnx"))}, {"model": "model.onnx"})
    found["validate"] = (
        {"engine": Option(FILE, required=True), "model": Option(FILE, required=True), "at_least": Option(TEXT), "drop": Option(TEXT),
         **_flags("inputs:files rtol atol data:file metric* output shape* fill* seed batch:integer seconds threads:integer")},
        {"report": "report.json"},
    )  # fmt: skip
    found["reference"] = ({"engine": Option(FILE, required=True), "data": Option(FILE, required=True), **_flags("batch:integer")}, {"reference": "reference.npz"})
    found["package"] = ({"files": Option(FILES, required=True)}, {"package": "package.zip"})
    found["push"] = (
        {"file": Option(FILE, required=True), "name": Option(TEXT, required=True), "parent": Option(ANY), "data": Option(ANY), "gate_data": Option(FILE),
         **_flags("kind meta* note registry gate promote reason seconds")},
        {"version": "version.json"},
    )  # fmt: skip
    found["gate"] = (
        {"version": Option(ANY, required=True), "alias": Option(TEXT, required=True), "data": Option(FILE), **_flags("rules* seconds repetitions:integer machine registry")},
        {"version": "version.json", "report": "report.json"},
    )  # fmt: skip
    found["promote"] = (
        {"version": Option(ANY, required=True), "alias": Option(TEXT, required=True), **_flags("reason expect registry")},
        {"report": "report.json"},
    )
    found["mlflow-fetch"] = ({"uri": Option(TEXT, required=True), "tracking_uri": Option(TEXT)}, {"model": "model.onnx"})
    found["mlflow-publish"] = (
        {"file": Option(FILE, required=True), "name": Option(TEXT, required=True), "reports": Option(FILES), **_flags("alias experiment tracking_uri tags*")},
        {"version": "version.json"},
    )  # fmt: skip
    never = lambda options: False  # noqa: E731
    for name, (options, outputs) in found.items():
        BUILTIN[name] = Step(name, options, outputs, symbol=name.replace("-", "_") if name not in _VERB_OF or name in _MORE else "verb",
                             alone=_ALONE.get(name, never), machine=_MACHINE.get(name, never), volatile=name.startswith("mlflow-"))  # fmt: skip


def outputs_of(step: Step, options: Mapping[str, Any], inputs: Mapping[str, List[str]]) -> Dict[str, str]:
    """The outputs with the names of their files, which for a model that is taken in is its own."""
    if step.name != "ingest":
        return dict(step.outputs)
    return {"model": os.path.basename(inputs["model"][0]) if inputs.get("model") else f"model.{options.get('format', 'pt2')}"}


def verb(run: Run, **options: Any) -> Dict[str, Any]:
    """A step that is a verb of the command line."""
    name = run.task["step"]
    _, inputs, outputs = _VERBS[_VERB_OF[name]]
    positional = [each for key in inputs for each in ([options[key]] if isinstance(options[key], str) else options[key])]
    more = []
    if name in _WRITES_TO:
        more += [f"--output={run.output(_WRITES_TO[name])}"]
    if name == "prune":
        more += [f"--recipe={run.output('recipe')}"]
    if name == "quantize" and _searches(options):
        # A search that is killed goes on where it was.
        more += [f"--state={os.path.join(run.task['work'], 'results', run.task['key'])}.search"]
    if name == "compile" and "threads" not in options:
        more += [f"--threads={run.task['threads']}"]
    if name in ("compile", "tune"):
        more += [f"--store={_own_store(run, options.pop('store', ''))}"]
    if name == "profile":
        more += [f"--html={run.output('page')}"]
    if name == "graph":
        more += ["--format=html", f"--output={run.output('page')}"]
    answer = run.tenon(_VERB_OF[name], *arguments(options, tuple(inputs)), *more, "--", *positional, answers=(3,) if name == "check" else ())
    if "report" in outputs:
        write_json(run.output("report"), answer)
    if name == "tune":
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(_tuning_state(run), "lock"))  # of the process that wrote it
        os.rename(_tuning_state(run), run.output("store"))
    if name == "check" and answer.get("gaps"):
        lines = [f"{gap['op']} '{gap['node']}': {gap['why']}; {gap['workaround']}" for gap in answer["gaps"]]
        raise StepError(f"Tenon does not support {len(lines)} nodes of the model", "\n".join(lines))
    return _few(answer)


def _tuning_state(run: Run) -> str:
    """Where tuning keeps what it has measured, so that it goes on there after a kill."""
    return os.path.join(run.task["work"], "results", f"{run.task['key']}.tuning")


def _own_store(run: Run, named: str) -> str:
    """A tuning store for a verb: never that of whoever runs it, which is no input, but a copy of the one that is named, or one that is empty."""
    store = _tuning_state(run) if run.task["step"] == "tune" else os.path.join(run.folder, "tuning")
    if named and not os.path.isdir(store):
        half = os.path.join(run.folder, "half")
        shutil.copytree(named, half, copy_function=shutil.copyfile)  # without the rights of a result, which nobody may write
        os.rename(half, store)
    return store


def _few(answer: Mapping[str, Any]) -> Dict[str, Any]:
    """Of an answer what the report shows: numbers and short texts of the first level, and latencies."""
    found = {key: value for key, value in answer.items() if isinstance(value, (int, float, bool)) or (isinstance(value, str) and len(value) < 80 and key != "schema")}
    found.update({f"latency_{key}_ms": value for key, value in (answer.get("latency_ms") or {}).items()} if isinstance(answer.get("latency_ms"), dict) else {})
    return found


def ingest(run: Run, model: str = "", callable: Mapping[str, str] = {}, format: str = "pt2") -> Dict[str, Any]:
    """A model file with its files of weights, or what a function makes: a module with example inputs, or an ExportedProgram."""
    if bool(model) == bool(callable):
        raise StepError("it takes one of 'model' and 'callable'")
    target = run.output("model")
    if callable:
        return own_process(run, {"source": "", "symbol": "export", "arguments": {"callable": dict(callable), "format": format}})
    shutil.copyfile(model, target)
    for name in _onnx_files.weights_of(model):
        beside = os.path.join(os.path.dirname(target), name)
        os.makedirs(os.path.dirname(beside), exist_ok=True)
        shutil.copyfile(os.path.join(os.path.dirname(model), name), beside)
    return {}


def export(run: Run, callable: Mapping[str, str], format: str) -> Dict[str, Any]:
    """Runs in a process of its own, since it imports torch and the user's file."""
    from .. import _export, prune
    from ._child import load

    made = getattr(load(callable["source"]), callable["symbol"])()
    parts = made if isinstance(made, tuple) else (made,)
    module, inputs, shapes = (*parts, None, None)[:3]
    if format == "onnx":
        prune.export(module, inputs, run.output("model"), **(_axes(module, inputs, shapes) if shapes else {}))
    else:
        _export.save(_export.program_of(module, inputs, shapes), run.output("model"))
    return {}


def _axes(module: Any, inputs: Any, shapes: Any) -> Dict[str, Any]:
    """dynamic_shapes of torch.export, by name or in order, as torch.onnx.export takes them: names of arguments, and their free axes."""
    names = list(inspect.signature(module.forward).parameters)[: len(inputs) if isinstance(inputs, (tuple, list)) else 1]
    given = shapes if isinstance(shapes, dict) else dict(zip(names, shapes))
    dims = {name: dict(each.items() if isinstance(each, dict) else enumerate(each)) for name, each in given.items() if each}
    axes = {name: {axis: getattr(dim, "__name__", f"{name}_{axis}") for axis, dim in each.items() if dim is not None and not isinstance(dim, int)} for name, each in dims.items()}
    return {"input_names": names, "dynamic_axes": axes}


def validate(run: Run, engine: str, model: str, data: str = "", metric: List[str] = [], at_least: str = "", drop: str = "", output: str = "", **options: Any) -> Dict[str, Any]:
    """The engine's numbers beside those of the interpreter of the model that it was made from; with data its accuracy beside that of `model`, by the ends of 95 % intervals.

    Where `model` is not what the engine was made from (a quantized one is in between), both are meant to differ: how much is reported, and limits on accuracy say what
    is too much. Without such limits, or with tolerances that are given, the numbers have to agree.
    """
    if (at_least or drop) and not data:
        raise StepError("'at_least' and 'drop' are about accuracy, which needs 'data'")
    made_from = run.task.get("built_from")
    is_other = bool(made_from and (at_least or drop) and not {"rtol", "atol"} & options.keys())
    report: Dict[str, Any] = {"schema": "tenon.pipeline.validate/1"}
    report["compare"], facts = _compared(run, engine, model, options, not is_other)
    if is_other:
        report["compare_made_from"], own = _compared(run, engine, made_from, options, True)
        facts = {"max_abs": own["max_abs"], "max_abs_of_model": facts["max_abs"]}
    if data:
        kept = {key: options[key] for key in ("shape", "batch", "seconds", "threads") if key in options}
        kept.update({key: value for key, value in (("metric", metric), ("output", output)) if value})
        report["accuracy"] = run.tenon("accuracy", *arguments(kept), f"--data={data}", "--", model, engine)
        facts.update(_judged(report["accuracy"], at_least, drop))
    write_json(run.output("report"), report)
    return facts


def _compared(run: Run, engine: str, model: str, options: Mapping[str, Any], must_agree: bool) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """(what `compare` says, facts of it)."""
    found = run.tenon("compare", *arguments(options, ("seconds",)), "--", engine, model, answers=(1,))
    beyond = [f"{layer['name']}: off by {layer['max_abs']:.3g}, relative {layer['max_rel']:.3g}; {layer['mismatch']}" for layer in found["layers"] if layer["beyond"] or layer["mismatch"]]
    if beyond and must_agree:
        hint = "\nThe engine was made from another model: 'data' with 'drop' or 'at-least' limits what was lost between both." if run.task.get("built_from") else ""
        raise StepError("the engine's outputs differ from the model's", "\n".join(beyond) + hint)
    return found, {"max_abs": max((layer["max_abs"] for layer in found["layers"]), default=0.0)}


def accuracy(run: Run, models: List[str], against: str = "", at_least: str = "", drop: str = "", **options: Any) -> Dict[str, Any]:
    """The verb; with `against` all models beside that one, such as the one that came in: `drop` is what may be lost on the way."""
    if drop and not against and len(models) < 2:
        raise StepError("'drop' is about a model to compare with: give it as 'against'")
    answer = run.tenon("accuracy", *arguments(options), "--", *([against] if against else []), *models)
    write_json(run.output("report"), answer)
    return {**_few(answer), **_judged(answer, at_least, drop)}


def _judged(answer: Mapping[str, Any], at_least: str, drop: str) -> Dict[str, Any]:
    """The figures of the last model, once all beside the first (or the only one) are within the limits."""
    facts = {}
    for metric in answer["metrics"]:
        for model in metric["models"][1:] or metric["models"]:
            _judge(metric, model, at_least, drop)
        last = metric["models"][-1]
        facts[metric["metric"]] = last["value"]
        if last.get("difference"):
            facts[f"{metric['metric']}_difference"] = last["difference"]["value"]
    return facts


def _judge(metric: Mapping[str, Any], model: Mapping[str, Any], at_least: str, drop: str) -> None:
    sign = 1 if metric["better"] == "higher" else -1
    rules = [(at_least, model, sign * _number(at_least)), (drop, model.get("difference") or {}, -_number(drop))]
    for text, facts, limit in rules:
        if not text:
            continue
        low, high = sorted(sign * end for end in facts.get("interval_95") or [float("nan")] * 2)
        if not low >= limit:
            verdict = "is worse" if high < limit else "is not shown to hold it: more data decide"
            what = f"{metric['metric']} {facts.get('value')} (95 % interval {facts.get('interval_95')})"
            raise StepError(f"the limit {text} on {what} {verdict}")


def _number(text: str) -> float:
    try:
        return (float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)) if text else 0.0
    except ValueError as error:
        raise StepError(f"'{text}' is neither a number nor a share such as 0.5%") from error


def reference(run: Run, **options: Any) -> Dict[str, Any]:
    """Data with the outputs that the engine gives for them, for `tenon.drift` and `tenon serve` to compare with."""
    return own_process(run, {"source": "", "symbol": "reference_here", "arguments": options})


def reference_here(run: Run, engine: str, data: str, batch: int = 64) -> Dict[str, Any]:
    import numpy as np

    from .. import drift

    arrays = drift.with_outputs(engine, drift._load(data), batch=batch)
    np.savez(run.output("reference"), **arrays)
    return {"rows": max(len(each) for each in arrays.values())}


def package(run: Run, files: List[str]) -> Dict[str, Any]:
    """A zip of files and folders with a manifest of their hashes; the same bytes for the same contents."""
    entries: Dict[str, str] = {}
    for path, origin in zip(files, run.task["origins"]["files"]):
        for name, whole in _named(path, origin):
            if name in entries:
                raise StepError(f"two files would be '{name}' in the package")
            entries[name] = whole
    manifest = {"schema": "tenon.package/1", "tenon": run.task["tool_version"],
                "files": {name: {"sha256": hash_file(path), "bytes": os.path.getsize(path)} for name, path in sorted(entries.items())}}  # fmt: skip
    with zipfile.ZipFile(run.output("package"), "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry("manifest.json"), canonical(manifest))
        for name, path in sorted(entries.items()):
            with archive.open(_entry(name), "w", force_zip64=os.path.getsize(path) >= 1 << 31) as to, open(path, "rb") as source:
                shutil.copyfileobj(source, to, 1 << 20)
    return {"files": len(entries)}


def _named(path: str, origin: str):
    """(name in the package, path) of a file, of its weights, or of all in a folder; those of steps in a folder of the step's name."""
    head = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in origin).strip("-.")
    base = os.path.dirname(path)
    names = [os.path.basename(path), *(_onnx_files.weights_of(path) if os.path.isfile(path) else [])]
    if os.path.isdir(path):
        names = [os.path.relpath(os.path.join(folder, name), base) for folder, _, files in os.walk(path) for name in files]
    return [(f"{head}/{name}" if head else name, os.path.join(base, name)) for name in names]


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def mlflow_fetch(run: Run, **options: str) -> Dict[str, Any]:
    """The model of a version of MLflow's registry, which always is asked for: an alias moves."""
    return own_process(run, {"source": "", "symbol": "mlflow_fetch_here", "arguments": options})


def mlflow_fetch_here(run: Run, uri: str, tracking_uri: str = "") -> Dict[str, Any]:
    from .. import mlflow

    folder = os.path.dirname(run.output("model"))
    found = mlflow.fetch(uri, folder, tracking_uri=tracking_uri or None)
    os.replace(found["model"], run.output("model"))
    return {"name": found["name"], "version": found["version"], **found["metrics"]}


def mlflow_publish(run: Run, **options: Any) -> Dict[str, Any]:
    """A file as a version of MLflow's registry, with the figures of reports as metrics of its run."""
    return own_process(run, {"source": "", "symbol": "mlflow_publish_here", "arguments": options})


def mlflow_publish_here(run: Run, file: str, name: str, reports: List[str] = [], alias: str = "", experiment: str = "tenon", tracking_uri: str = "", tags: List[str] = []) -> Dict[str, Any]:
    from .. import mlflow

    metrics: Dict[str, float] = {}
    for path in reports:
        with open(path) as source:
            metrics.update(_figures(json.load(source)))
    named = dict(each.partition("=")[::2] for each in tags)
    found = mlflow.publish(name, file, metrics=metrics, tags=named, alias=alias or None, experiment=experiment, tracking_uri=tracking_uri or None)
    write_json(run.output("version"), {key: found[key] for key in ("name", "version")})
    return {**found, **metrics}


def _figures(report: Mapping[str, Any]) -> Dict[str, float]:
    """The numbers of a report of `bench`, `accuracy` or `validate`: those of its first level, and the metrics of its last model."""
    found = {key: float(value) for key, value in _few(report).items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
    for each in (report.get("accuracy") or report).get("metrics") or []:
        found[each["metric"]] = each["models"][-1]["value"]
    return found


_register()
