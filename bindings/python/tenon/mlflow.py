"""From MLflow's registry and back: the model at an alias as a file, and an engine with its figures as a version there.

    tenon.mlflow.fetch("models:/cnn@champion", "models")             # {"model": "models/model.onnx", "version": "3", ...}
    tenon.mlflow.publish("cnn-engine", "cnn.tenon", metrics={"p99_ms": 1.9}, alias="champion")

Relies on mlflow or mlflow-skinny; the server is MLFLOW_TRACKING_URI, or the one of `mlflow.set_tracking_uri`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ._errors import BadInputError, usage

__all__ = ["fetch", "publish"]

_HASH = "tenon.sha256"


def _client(tracking_uri: Optional[str]) -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise usage("TN0105", "the bridge needs the package mlflow-skinny", "pip install mlflow-skinny") from error
    if tracking_uri:
        mlflow.set_tracking_uri(tracking_uri)
    return mlflow.MlflowClient()


def fetch(uri: str, folder: str, *, tracking_uri: Optional[str] = None) -> Dict[str, Any]:
    """Puts the model of a version into a folder, with its files of weights, and gives {"model": path, "name", "version", "run", "metrics"}.

    uri: "models:/NAME@ALIAS" or "models:/NAME/VERSION".
    The version holds an ONNX model, of MLflow's flavour onnx or as a file, or a .pt2 of torch.export. A pickle is refused: loading it could run any code.
    """
    named = re.fullmatch(r"models:/([^/@]+)(?:@([^/@]+)|/(\d+))", uri)
    if not named:
        raise usage("TN0105", f"'{uri}' is not a model of MLflow", "write models:/NAME@ALIAS or models:/NAME/VERSION")
    client = _client(tracking_uri)
    import mlflow

    version = client.get_model_version_by_alias(named[1], named[2]) if named[2] else client.get_model_version(named[1], named[3])
    with tempfile.TemporaryDirectory(prefix="tenon-mlflow-") as scratch:
        # By its number: the alias may move between both calls.
        place = mlflow.artifacts.download_artifacts(artifact_uri=f"models:/{named[1]}/{version.version}", dst_path=scratch)
        model = _model_of(place, uri)
        os.makedirs(folder, exist_ok=True)
        for source in _with_weights(model):
            shutil.copyfile(source, os.path.join(folder, os.path.basename(source)))
    metrics = client.get_run(version.run_id).data.metrics if version.run_id else {}
    return {"model": os.path.join(folder, os.path.basename(model)), "name": named[1], "version": str(version.version), "run": version.run_id, "metrics": dict(metrics)}


def _model_of(place: str, uri: str, endings: Tuple[str, ...] = (".onnx", ".pt2")) -> str:
    """The one file under `place` that Tenon reads."""
    found = sorted(os.path.join(base, name) for base, _, names in os.walk(place) for name in names if name.endswith(endings))
    if len(found) == 1:
        return found[0]
    files = [name for _, _, names in os.walk(place) for name in names]
    what = f"{len(found)} models" if found else f"no {' or '.join(endings)} among {', '.join(sorted(files)[:8]) or 'no files'}"
    hint = "log the model by mlflow.onnx.log_model, or its file by log_artifact"
    raise BadInputError(f"TN0105: '{uri}' has {what} ({hint})", "TN0105", hint)


def _with_weights(model: str) -> List[str]:
    """The model, and what lies beside it but for MLflow's own files: it may be its weights."""
    base = os.path.dirname(model)
    beside = [os.path.join(base, name) for name in sorted(os.listdir(base)) if name not in ("MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt")]
    return [model, *(path for path in beside if path != model and os.path.isfile(path))]


def publish(
    name: str,
    file: str,
    *,
    metrics: Mapping[str, float] = {},
    params: Mapping[str, Any] = {},
    tags: Mapping[str, str] = {},
    alias: Optional[str] = None,
    experiment: str = "tenon",
    tracking_uri: Optional[str] = None,
) -> Dict[str, Any]:
    """Stores a file as the next version of `name` with a run that has the figures, then moves the alias; returns {"name", "version", "run", "existing"}.

    A version that has the same bytes already is given instead, so that a repeated call changes nothing but the alias. The version appears when all of
    it is there; a call that fails before leaves a run marked as failed.
    """
    client = _client(tracking_uri)
    from mlflow.exceptions import MlflowException

    digest = hashlib.sha256()
    with open(file, "rb") as source:
        while block := source.read(1 << 20):
            digest.update(block)
    value = digest.hexdigest()
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    same = [each for each in client.search_model_versions(f"name = '{name}'") if each.tags.get(_HASH) == value]
    version = same[0] if same else _new_version(client, name, file, value, metrics, params, tags, experiment)
    if alias:
        client.set_registered_model_alias(name, alias, version.version)
    return {"name": name, "version": str(version.version), "run": version.run_id, "existing": bool(same)}


def _new_version(client: Any, name: str, file: str, value: str, metrics: Mapping[str, float], params: Mapping[str, Any], tags: Mapping[str, str], experiment: str) -> Any:
    found = client.get_experiment_by_name(experiment)
    run = client.create_run(found.experiment_id if found else client.create_experiment(experiment), run_name=f"{name} by tenon")
    try:
        for key, number in metrics.items():
            client.log_metric(run.info.run_id, key, float(number))
        for key, text in params.items():
            client.log_param(run.info.run_id, key, text)
        client.log_artifact(run.info.run_id, file, "model")
        version = client.create_model_version(name, f"{run.info.artifact_uri}/model", run.info.run_id, tags={**tags, _HASH: value})
    except BaseException:
        client.set_terminated(run.info.run_id, "FAILED")
        raise
    client.set_terminated(run.info.run_id)
    return version
