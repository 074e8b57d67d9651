"""The process of a function of a user's file: `python -m tenon.pipeline._child CALL.json`. Imports the file, calls the function, writes what it returns."""

import importlib.util
import inspect
import json
import os
import sys

from ._task import _NO_PROGRESS, Run, Stop


def load(source: str):
    """The module of a file, under a name at which `if __name__ == "__main__"` does nothing."""
    sys.path[:0] = [os.path.dirname(source)]
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(source))[0], source)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def call(function, arguments, run: Run):
    """With `run` and the paths of outputs, for those of the arguments that the function has."""
    known = inspect.signature(function).parameters
    more = {name: run.output(name) for name in run.task["outputs"] if name in known}
    return function(**arguments, **more, **({"run": run} if "run" in known else {}))


def main() -> None:
    with open(sys.argv[1]) as file:
        given = json.load(file)
    run = Run(given["task"], given["run_folder"], given["handle"], _NO_PROGRESS, Stop())
    if given["source"]:
        function = load(given["source"])
        for name in given["symbol"].split("."):
            function = getattr(function, name)
    else:
        from . import _builtin

        function = getattr(_builtin, given["symbol"])
    facts = call(function, given["arguments"], run)
    if facts is not None and not isinstance(facts, dict):
        raise TypeError(f"{given['symbol']} returned {type(facts).__name__}: a step gives a dict of facts or nothing, and writes its outputs as files")
    with open(given["said"], "w") as file:
        json.dump(facts or {}, file, allow_nan=False)


if __name__ == "__main__":
    main()
