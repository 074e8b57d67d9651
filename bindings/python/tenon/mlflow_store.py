"""MLflow's model registry in a registry of Tenon: whoever uses `MlflowClient` reads and writes it, and its gates, roles and history hold for them.

    mlflow.set_registry_uri("tenon:")                        # $TENON_REGISTRY; or tenon:/srv/registry, tenon:postgresql://HOST/DATABASE
    mlflow.register_model("runs:/RUN/model", "cnn")          # the next version of cnn
    client.set_registered_model_alias("cnn", "production", 2)  # tenon registry promote cnn:2 production

Relies on mlflow or mlflow-skinny, which finds this class by the entry point `mlflow.model_registry_store`. A registered model is an object, so it exists once
it has a version; `vision/cnn` is called `vision~cnn`, since MLflow's addresses take no slash. Versions never change and stay: what would delete or rename one is refused, and
says by which command it is done here. Tags and descriptions are those of `tenon registry tag`.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import tempfile
from typing import Any, Dict, List, Optional

import mlflow.artifacts
from mlflow.entities.model_registry import ModelVersion, ModelVersionTag, RegisteredModel, RegisteredModelAlias, RegisteredModelTag
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, PERMISSION_DENIED, RESOURCE_ALREADY_EXISTS, RESOURCE_DOES_NOT_EXIST, TEMPORARILY_UNAVAILABLE
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.model_registry.abstract_store import AbstractStore
from mlflow.utils.search_utils import SearchModelUtils, SearchModelVersionUtils

from ._errors import BadInputError
from .mlflow import _model_of, _with_weights

__all__ = ["TenonStore"]

_RUN, _SOURCE = "mlflow.run_id", "mlflow.source"  # of a version's metadata: what it was registered from
_NOTE = "mlflow.note.content"  # the tag that holds a description which was given later
_CODES = {"TN1003": RESOURCE_DOES_NOT_EXIST, "TN1014": PERMISSION_DENIED, "TN1002": TEMPORARILY_UNAVAILABLE, "TN1013": TEMPORARILY_UNAVAILABLE}


def _call(place: str, *arguments: str) -> Dict[str, Any]:
    """What `tenon registry` says. Its errors are MLflow's, with the code of Tenon in the text."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tenon")
    command = [program, "registry", *(["--registry", place] if place else []), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout)
    code = (re.findall(r"\berror (TN\d+): ", done.stderr) or [""])[0]
    raise MlflowException(done.stderr.strip() or f"'tenon registry {arguments[0]}' ended with {done.returncode}", error_code=_CODES.get(code, INVALID_PARAMETER_VALUE))


def _milliseconds(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def _refuse(what: str, instead: str) -> MlflowException:
    return MlflowException(f"a registry of Tenon {what}: {instead}", error_code=INVALID_PARAMETER_VALUE)


class TenonStore(AbstractStore):
    def __init__(self, store_uri: Optional[str] = None, tracking_uri: Optional[str] = None):
        super().__init__(store_uri, tracking_uri)
        place = (store_uri or "tenon:").partition(":")[2]
        self._place = place[2:] if place.startswith("//") else place
        self._waiting: Dict[str, Dict[str, str]] = {}  # tags of models that have no version yet

    def _tenon(self, *arguments: str) -> Dict[str, Any]:
        return _call(self._place, *arguments)

    # Reading

    def _model(self, row: Dict[str, Any]) -> RegisteredModel:
        found = self._tenon("list", "--", row["name"])
        versions = [self._version(each) for each in found["versions"]]
        aliases = [RegisteredModelAlias(alias, str(number)) for alias, number in row["aliases"].items()]
        note = found["tags"].pop(_NOTE, "")
        tags = [RegisteredModelTag(key, value) for key, value in found["tags"].items()]
        return RegisteredModel(_out(row["name"]), versions[-1].creation_timestamp, versions[0].creation_timestamp, note, versions[:1], tags, aliases)

    def _version(self, row: Dict[str, Any]) -> ModelVersion:
        meta = dict(row["facts"].get("meta") or {})
        run, source = meta.pop(_RUN, ""), meta.pop(_SOURCE, "")
        created = _milliseconds(row["created"])
        tags = {"tenon.sha256": row["hash"], "tenon.kind": row["kind"], **meta, **row["tags"]}
        note = tags.pop(_NOTE, row["note"])
        return ModelVersion(_out(row["name"]), str(row["version"]), created, created, note, source=source or f"tenon:{row['name']}:{row['version']}", run_id=run,
                            tags=[ModelVersionTag(key, value) for key, value in tags.items()], aliases=row["aliases"])  # fmt: skip

    def get_registered_model(self, name: str) -> RegisteredModel:
        rows = [row for row in self._tenon("list")["objects"] if row["name"] == _in(name)]
        if not rows:
            raise MlflowException(f"Registered Model with name={name} not found", error_code=RESOURCE_DOES_NOT_EXIST)
        return self._model(rows[0])

    def search_registered_models(
        self, filter_string: Optional[str] = None, max_results: int = 100, order_by: Optional[List[str]] = None, page_token: Optional[str] = None
    ) -> PagedList:
        found = SearchModelUtils.filter([self._model(row) for row in self._tenon("list")["objects"]], filter_string)
        return PagedList(*SearchModelUtils.paginate(SearchModelUtils.sort(found, order_by), page_token, max_results))

    def get_model_version(self, name: str, version: Any) -> ModelVersion:
        row = self._tenon("show", "--", f"{_in(name)}:{version}")
        if row["deleted"]:
            raise MlflowException(f"Model Version {name}:{version} was deleted", error_code=RESOURCE_DOES_NOT_EXIST)
        return self._version(row)

    def get_model_version_by_alias(self, name: str, alias: str) -> ModelVersion:
        return self._version(self._tenon("show", "--", f"{_in(name)}@{alias}"))

    def get_latest_versions(self, name: str, stages: Optional[List[str]] = None) -> List[ModelVersion]:
        return [self.get_model_version(name, self._tenon("show", "--", _in(name))["version"])]

    def search_model_versions(
        self, filter_string: Optional[str] = None, max_results: int = 10000, order_by: Optional[List[str]] = None, page_token: Optional[str] = None
    ) -> PagedList:
        named = re.search(r"\bname\s*=\s*['\"]([^'\"]*)['\"]", filter_string or "")
        names = [row["name"] for row in self._tenon("list")["objects"] if not named or row["name"] == _in(named[1])]
        versions = [self._version(row) for name in names for row in self._tenon("list", "--", name)["versions"] if not row["deleted"]]
        found = SearchModelVersionUtils.filter(versions, filter_string)
        return PagedList(*SearchModelVersionUtils.paginate(SearchModelVersionUtils.sort(found, order_by), page_token, max_results))

    def get_model_version_download_uri(self, name: str, version: Any) -> str:
        """A folder with the file, whose hash is checked each time."""
        row = self._tenon("show", "--", f"{_in(name)}:{version}")
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(cache, "tenon", "mlflow", row["hash"])
        os.makedirs(folder, exist_ok=True)
        self._tenon("show", "-o", os.path.join(folder, row["file"]), "--", f"{_in(name)}:{version}")
        return f"file://{folder}"

    # Writing

    def create_registered_model(self, name: str, tags: Optional[List[Any]] = None, description: Optional[str] = None, deployment_job_id: Optional[str] = None) -> RegisteredModel:
        try:
            self.get_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            now = int(datetime.datetime.now().timestamp() * 1000)
            self._waiting[name] = {**{tag.key: tag.value for tag in tags or []}, **({_NOTE: description} if description else {})}
            return RegisteredModel(name, now, now, description or "", [], tags or [], [])
        raise MlflowException(f"Registered Model (name={name}) already exists", error_code=RESOURCE_ALREADY_EXISTS)

    def create_model_version(
        self,
        name: str,
        source: str,
        run_id: Optional[str] = None,
        tags: Optional[List[Any]] = None,
        run_link: Optional[str] = None,
        description: Optional[str] = None,
        local_model_path: Optional[str] = None,
        model_id: Optional[str] = None,
    ) -> ModelVersion:
        meta = {_SOURCE: source, **({_RUN: run_id} if run_id else {})}
        with tempfile.TemporaryDirectory(prefix="tenon-mlflow-") as scratch:
            place = local_model_path or (source if os.path.exists(source) else mlflow.artifacts.download_artifacts(artifact_uri=source, dst_path=scratch))
            try:
                files = [place] if os.path.isfile(place) else _with_weights(_model_of(place, source, (".onnx", ".pt2", ".tenon")))
            except BadInputError as error:
                raise MlflowException(str(error), error_code=INVALID_PARAMETER_VALUE) from error
            pairs = [word for key, value in meta.items() for word in ("--meta", f"{key}={value}")]
            made = self._tenon("push", *pairs, *(["--note", description] if description else []), "--", _in(name), *files)
        for tag in tags or []:
            self.set_model_version_tag(name, made["version"], tag)
        for key, value in self._waiting.pop(name, {}).items():
            self.set_registered_model_tag(name, RegisteredModelTag(key, value))
        return self.get_model_version(name, made["version"])

    def set_registered_model_alias(self, name: str, alias: str, version: Any) -> None:
        self._tenon("promote", "--reason", "by MLflow", "--", f"{_in(name)}:{version}", alias)

    def copy_model_version(self, src_mv: ModelVersion, dst_name: str) -> ModelVersion:
        origin = f"{_in(src_mv.name)}:{src_mv.version}"
        with tempfile.TemporaryDirectory(prefix="tenon-mlflow-") as scratch:
            row = self._tenon("show", "--", origin)
            file = os.path.join(scratch, row["file"])
            self._tenon("show", "-o", file, "--", origin)  # a folder, where the version is of several files
            made = self._tenon("push", "--parent", origin, "--meta", f"{_SOURCE}=models:/{src_mv.name}/{src_mv.version}", "--", _in(dst_name), file)
        return self.get_model_version(dst_name, made["version"])

    def set_registered_model_tag(self, name: str, tag: Any) -> None:
        self._tenon("tag", "--object", "--", _in(name), f"{tag.key}={tag.value}")

    def delete_registered_model_tag(self, name: str, key: str) -> None:
        self._tenon("tag", "--object", "--", _in(name), f"{key}=")

    def update_registered_model(self, name: str, description: Optional[str], deployment_job_id: Optional[str] = None) -> RegisteredModel:
        self._tenon("tag", "--object", "--", _in(name), f"{_NOTE}={description or ''}")
        return self.get_registered_model(name)

    def set_model_version_tag(self, name: str, version: Any, tag: Any) -> None:
        self._tenon("tag", "--", f"{_in(name)}:{version}", f"{tag.key}={tag.value}")

    def delete_model_version_tag(self, name: str, version: Any, key: str) -> None:
        """A tag that the version was made with is one of its facts, and stays."""
        self._tenon("tag", "--", f"{_in(name)}:{version}", f"{key}=")

    def update_model_version(self, name: str, version: Any, description: Optional[str]) -> ModelVersion:
        self._tenon("tag", "--", f"{_in(name)}:{version}", f"{_NOTE}={description or ''}")
        return self.get_model_version(name, version)

    # What a registry of Tenon does otherwise

    def delete_registered_model_alias(self, name: str, alias: str) -> None:
        raise _refuse("keeps aliases", "move it, or take it back by `tenon registry rollback`")

    def rename_registered_model(self, name: str, new_name: str) -> RegisteredModel:
        raise _refuse("renames nothing", "push the file under the new name")

    def delete_registered_model(self, name: str) -> None:
        raise _refuse("deletes no model", "`tenon registry gc --keep N` deletes versions that nobody needs")

    def delete_model_version(self, name: str, version: Any) -> None:
        raise _refuse("deletes no single version", "`tenon registry gc --keep N` deletes those that nobody needs")

    def transition_model_version_stage(self, name: str, version: Any, stage: str, archive_existing_versions: bool) -> ModelVersion:
        raise _refuse("has no stages", "set an alias")


def _in(name: str) -> str:
    return name.replace("~", "/")


def _out(name: str) -> str:
    return name.replace("/", "~")
