"""Engines as a Ray Serve deployment with KServe's protocol v2 in JSON, for applications that already use Ray.

    from ray import serve
    from tenon import ray_serve

    serve.run(ray_serve.app({"fashion": "fashion.tenon"}))

`tenon serve` speaks all of the protocol (gRPC, binary tensors, versions, statistics) and has no Python on the way of a request; docs/guides/deploy.md
compares both. Needs `pip install 'ray[serve]'`, which is imported when `app` is called.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Dict, List, Mapping, Tuple, Union

from . import _errors, _v2
from ._engine import load

__all__ = ["app"]

Item = Tuple[str, _v2.Request]


def app(models: Mapping[str, Union[str, os.PathLike]], *, max_batch_size: int = 16, batch_wait_timeout_s: float = 0.0, threads: int = 0, **deployment: Any) -> Any:
    """The application, for `serve.run` or `serve build`. Raises UsageError TN0105 without Ray Serve or without a model.

    models: {name: path of its engine}; every replica opens them there, so the paths have to be those of its node.
    max_batch_size: rows of one run; requests of one model, whose dim 0 is free and whose rows are shown to be independent at start, run together.
    batch_wait_timeout_s: how long a request waits for others to form a batch.
    threads: of a run; 0 is the CPUs that Ray gives the replica (`ray_actor_options={"num_cpus": 2}`).
    deployment: more options of `serve.deployment`, such as num_replicas, max_ongoing_requests, autoscaling_config and ray_actor_options.
    """
    try:
        from ray import serve
    except ImportError as error:
        raise _errors.usage("TN0105", "an application of Ray Serve needs the package Ray with it", "pip install 'ray[serve]'") from error
    if not models:
        raise _errors.usage("TN0105", "there is nothing to serve", "give {name: path of an engine}")

    @serve.deployment(**{"name": "tenon", **deployment})
    class Tenon:
        def __init__(self, paths: Dict[str, str], threads: int):
            self.service = Service(paths, threads or _cpus_of_replica(), max_batch_size)

        @serve.batch(max_batch_size=max_batch_size, batch_wait_timeout_s=batch_wait_timeout_s)
        async def infer(self, items: List[Item]) -> List[Any]:
            # In a thread, so that health checks and other requests are answered meanwhile.
            return await asyncio.to_thread(self.service.run, items)

        async def __call__(self, request: Any) -> Any:
            from starlette.responses import Response

            status, body = await self.service.answer(request.method, request.url.path, await request.body(), self.infer)
            return Response(body, status, media_type="application/json")

    return Tenon.bind({name: os.path.abspath(path) for name, path in models.items()}, threads)


def _cpus_of_replica() -> int:
    """The CPUs that Ray counts for the replica, at least one: runs of several replicas share the machine."""
    import ray

    return max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))


class Service:
    """What a replica does, without Ray: paths to answers."""

    def __init__(self, paths: Mapping[str, str], threads: int, most_rows: int):
        self.models = {name: _v2.Model(name, load(path, threads=threads)) for name, path in paths.items()}
        self.most_rows = most_rows

    def run(self, items: List[Item]) -> List[Any]:
        """The outputs or the error of each, in their order."""
        found: List[Any] = [None] * len(items)
        for name in dict.fromkeys(name for name, _ in items):
            places = [index for index, item in enumerate(items) if item[0] == name]
            for place, value in zip(places, self.models[name].run([items[index][1] for index in places], self.most_rows)):
                found[place] = value
        return found

    async def answer(self, method: str, path: str, body: bytes, infer: Any) -> Tuple[int, bytes]:
        """Status and body. infer: an async function that takes an Item and gives its outputs or its error."""
        try:
            value = await self._answer(method, path.strip("/").split("/"), body, infer)
            return 200, value if isinstance(value, bytes) else _v2.json.dumps(value).encode()
        except (_v2.BadRequest, _errors.Error) as error:
            return _v2.status_of(error), _v2.json.dumps({"error": str(error)}).encode()

    async def _answer(self, method: str, parts: List[str], body: bytes, infer: Any) -> Any:
        if parts[:1] != ["v2"]:
            raise _v2.BadRequest("the paths begin with /v2", 404)
        what = parts[1:]
        if method == "GET" and not what:
            from . import __version__

            return {"name": "tenon", "version": __version__, "extensions": []}
        if method == "GET" and what in (["health", "live"], ["health", "ready"]):
            return {what[1]: True}
        if what[:1] != ["models"] or len(what) < 2:
            raise _v2.BadRequest(f"there is no {method} {'/'.join(parts)}", 404)
        model = self.models.get(what[1])
        if model is None:
            raise _v2.BadRequest(f"there is no model '{what[1]}'", 404)
        rest = what[4:] if what[2:4] == ["versions", "1"] else what[2:]
        if method == "GET" and rest in ([], ["ready"]):
            return {"name": model.name, "ready": True} if rest else model.metadata()
        if method == "POST" and rest == ["infer"]:
            request = model.read(body)
            outputs = await infer((model.name, request))
            if isinstance(outputs, Exception):
                raise outputs
            return model.reply(request, outputs)
        raise _v2.BadRequest(f"there is no {method} {'/'.join(parts)}", 404)
