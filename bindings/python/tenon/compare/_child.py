"""The process of one contender: readies it, runs it when it is told to, and says what that took.

One line of JSON a request on stdin, one a reply on what was stdout; whatever else is printed goes to stderr.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import time
from typing import Any, Callable, Dict

from . import _reference, _source
from ..contenders import TABLE, NotForThis, Options


def ready(request: Dict[str, Any]):
    """The function that runs the contender once, and the reply."""
    import numpy as np

    source = _source.load(request["model"], request["shapes"])
    digest = hashlib.sha256()
    for value in source.inputs:
        digest.update(np.ascontiguousarray(value).tobytes())
    module = _reference if request["name"] == "reference" else TABLE[request["name"]]
    start = time.perf_counter()
    run, versions = module.make(source, Options(request["threads"], request["device"], request["folder"]))
    made = time.perf_counter()
    outputs = run()
    done = time.perf_counter()
    paths = []
    for index, value in enumerate(outputs):
        paths.append(os.path.join(request["folder"], f"{request['name']}.{index}.npy"))
        np.save(paths[-1], _array(value))
    batch = source.inputs[0].shape[0] if source.inputs and source.inputs[0].ndim else 1
    reply = {"compile_s": made - start, "first_s": done - made, "versions": versions, "outputs": paths, "batch": int(batch),
             "inputs": digest.hexdigest()}  # fmt: skip
    return run, reply


def _array(value: Any):
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    return np.asarray(value)


def timed(run: Callable[[], Any], seconds: float, least: int) -> Dict[str, Any]:
    """Runs in a row for that long. The first brings back caches and threads that others used, and does not count."""
    run()
    times, end = [], time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return {"times": times, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    run = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "make":
                run, reply = ready(request)
            else:
                reply = timed(run, request["seconds"], request["least"])
        except NotForThis as reason:
            reply = {"not_for_this": str(reason)}
        except Exception as error:
            import traceback

            traceback.print_exc()
            reply = {"failed": f"{type(error).__name__}: {error}"}
        channel.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
