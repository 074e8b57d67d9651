"""The two errors of pipelines: what is wrong with the file, and that a step failed. Both name the line."""

from __future__ import annotations

from .._errors import BadInputError, CheckFailedError


def bad(where: str, text: str, hint: str) -> BadInputError:
    """An error that is found before any step runs. where: "FILE.yaml:12"."""
    return BadInputError(f"TN1101: {where}: {text} ({hint})", "TN1101", hint)


def failed(text: str, hint: str) -> CheckFailedError:
    return CheckFailedError(f"TN1102: {text} ({hint})", "TN1102", hint)


class StepError(Exception):
    """The failure of a step. text: one line; tail: the last lines that the step printed."""

    def __init__(self, text: str, tail: str = ""):
        super().__init__(text, tail)
        self.text, self.tail = text, tail
