"""`tenon bench MODEL --against LIST`: the command line of this package."""

from __future__ import annotations

import argparse
import sys

from .. import _errors
from . import _measure
from ..contenders import TABLE


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="tenon bench", description="One model by Tenon and by others, on the same inputs and in turn.", allow_abbrev=False
    )
    made.add_argument("model", metavar="MODEL", help="model.py:make_model, or a model file (.onnx, .pt2)")
    made.add_argument("--against", default="", metavar="LIST", help=f"some of {', '.join(TABLE)}; what is installed by default")
    made.add_argument("--threads", type=int, default=0, help="of every contender; all usable CPUs by default")
    made.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    made.add_argument("--seconds", type=float, default=10.0, help="how long to measure, all together")
    made.add_argument("--shape", action="append", default=[], help="dims of an input of a model file: x:1x128")
    made.add_argument("--format", choices=["table", "json", "svg"], default="table")
    made.add_argument("-o", "--output", default="", help="a file for it; stdout by default")
    return made


def main(arguments=None) -> int:
    options = parser().parse_args(arguments)
    against = [name for name in options.against.split(",") if name]
    try:
        result = _measure.run(
            options.model, against=against or None, threads=options.threads, device=options.device,
            seconds=options.seconds, shapes=options.shape, log=lambda text: print(text, file=sys.stderr, flush=True),
        )  # fmt: skip
        text = {"table": result.table, "json": result.json, "svg": result.svg}[options.format]()
    except _errors.Error as error:
        print(f"error {error}", file=sys.stderr)
        return error.code
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text)
    return 1 if result.failures() else 0


if __name__ == "__main__":
    sys.exit(main())
