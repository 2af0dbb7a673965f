"""Errors of cyclopts in one line: `hub: --timeout 10m: give a number, such as 1.5; see `hub sub --help``.

cyclopts would draw a box of three lines or more, which no log and no `grep` takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from difflib import get_close_matches
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from cyclopts.exceptions import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

_EXPECTED: dict[object, str] = {
    bool: "yes or no",
    int: "a whole number",
    float: "a number, such as 1.5",
    datetime: "a time, such as 2026-11-21T12:00:00Z",
    timedelta: "a length of time with its unit, such as 10s, 5m or 1h",
}
"""The expected value, where one could not be read, by the type of the flag."""


def told(error: CycloptsError) -> str:
    command = " ".join(["hub", *(error.command_chain or ())])
    return f"{_flaw(error)}; see `{command} --help`"


def _flaw(error: CycloptsError) -> str:
    match error:
        case CoercionError() if error.msg is None and error.token is not None:
            name = error.token.keyword or (_upper(error.argument.name) if error.argument is not None else "an argument")
            return f"{name} {error.token.value}: give {_expected(error.target_type)}"
        case UnknownOptionError():
            flag = error.token.keyword or error.token.value
            names = [name for argument in error.argument_collection for name in argument.names]
            return f"{flag}: there is no such flag{_closest(flag, names)}"
        case UnknownCommandError():
            given = (error.unused_tokens or [""])[0]
            commands = [name for name in error.app or () if not name.startswith("-")]
            hint = _closest(given, commands) or f"; there are {', '.join(commands)}"
            return f"{given}: there is no such " + ("flag" if given.startswith("-") else f"command{hint}")
        case UnusedCliTokensError():
            return f"{' '.join(error.unused_tokens or ())}: unexpected argument"
        case MissingArgumentError() if error.argument is not None:
            name = error.argument.name
            missing = f"{name if name.startswith('-') else _upper(name)} is missing"
            return f"{name}: a value must follow it" if error.keyword else missing
    return " ".join(str(error).split()).rstrip(".")


def _upper(name: str) -> str:
    return name.lstrip("-").upper()


def _expected(kind: Any) -> str:
    choices: list[str] = []
    if get_origin(kind) is Literal:
        choices = [str(choice) for choice in get_args(kind)]
    elif isinstance(kind, type) and issubclass(kind, Enum):
        choices = [str(member.value) for member in kind]
    if choices:
        return f"one of {', '.join(choices)}"
    return _EXPECTED.get(kind, f"what reads as {getattr(kind, '__name__', kind)}")


def _closest(given: str, names: Iterable[str]) -> str:
    close = get_close_matches(given, list(names), n=1)
    return f"; did you mean {close[0]}?" if close else ""
