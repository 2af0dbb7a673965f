"""What went wrong in Spark, in one line: without Java's stack, without the workers' tracebacks.

Here the errors of Spark are translated into ours, once, at the border (`peers.spark.session.running_job`).
"""

from __future__ import annotations

import re

from hub.errors import HubError

__all__ = ["JobFailedError", "cause_of", "last_words", "spark_errors"]

_TRACEBACK = "Traceback (most recent call last):"
_CLASS = re.compile(r'^(?:Exception in thread "\w+" )?(?:[\w$]+\.)+[\w$]+: ')
_CAUSED_BY = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] ")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_NOISE = re.compile(r"WARNING|Using Spark|Setting |To adjust|\s+at |[0-9/]+ [0-9:]+ (?:WARN|INFO)")


class JobFailedError(HubError):
    """Spark gave up on a job; the text is the cause, without Java's stack."""


def spark_errors() -> tuple[type[Exception], ...]:
    """Return what Spark raises; to be called when pyspark is known to be there."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 -- part of the extra
    from pyspark.errors import PySparkException  # noqa: PLC0415 -- the same

    return (PySparkException, Py4JError)


def cause_of(error: Exception) -> str:
    """Return the cause in one line: what a worker raised, else what Java said first and what was behind it."""
    text = str(error)
    if _TRACEBACK in text:
        return _raised(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:]  # py4j's own words, of an object that nobody knows
    first = _plain(lines[0].removeprefix(": ")) if lines else type(error).__name__
    causes = _CAUSED_BY.findall(text)
    last = _plain(causes[-1]) if causes else first
    return first if last in first else f"{first.rstrip('.')}: {last}"


def _raised(text: str) -> str:
    """Return the last line of the last traceback, which names the exception."""
    *_, traceback = text.split(_TRACEBACK)
    told = [line for line in traceback.splitlines() if line.strip() and not line.startswith((" ", "\t"))]
    return _CLASS.sub("", told[0]) if told else "a Python worker failed"


def _plain(line: str) -> str:
    line = _CLASS.sub("", line.strip())
    return _SQLSTATE.sub("", _CONDITION.sub("", line))


def last_words(log: str) -> str:
    """Return why a Java that has ended did not start, of all that it wrote; empty if it does not say."""
    return next((_plain(line) for line in log.splitlines() if line.strip() and not _NOISE.match(line)), "")
