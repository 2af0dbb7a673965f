"""Errors of cyclopts in one line: what is wrong, what would be right, where to read on.

```
hub: --timeout 10m: give a number, such as 1.5; see `hub sub --help`
```

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
"""What to give where a value could not be read, by the type of the flag."""


def told(error: CycloptsError) -> str:
    """Return one line on a wrong command line."""
    command = " ".join(["hub", *(error.command_chain or ())])
    return f"{_flaw(error)}; see `{command} --help`"


def _flaw(error: CycloptsError) -> str:
    match error:
        case CoercionError() if error.msg is None and error.token is not None:
            return f"{_flag(error)} {error.token.value}: give {_expected(error.target_type)}"
        case UnknownOptionError():
            flag = error.token.keyword or error.token.value
            names = [name for argument in error.argument_collection for name in argument.names]
            return f"{flag}: there is no such flag{_closest(flag, names)}"
        case UnknownCommandError():
            return _unknown_command((error.unused_tokens or [""])[0], error.app or ())
        case UnusedCliTokensError():
            return f"{' '.join(error.unused_tokens or ())}: that is more than this command takes"
        case MissingArgumentError() if error.argument is not None:
            return _missing(error.argument.name, is_flag_given=bool(error.keyword))
    return " ".join(str(error).split()).rstrip(".")


def _unknown_command(given: str, names: Iterable[str]) -> str:
    if given.startswith("-"):
        return f"{given}: there is no such flag"
    commands = [name for name in names if not name.startswith("-")]
    return f"{given}: there is no such command{_closest(given, commands) or _listed(commands)}"


def _flag(error: CoercionError) -> str:
    if error.token is not None and error.token.keyword is not None:
        return error.token.keyword
    return _argument_name(error.argument.name) if error.argument is not None else "an argument"


def _argument_name(name: str) -> str:
    return name.lstrip("-").upper()


def _missing(name: str, *, is_flag_given: bool) -> str:
    if is_flag_given:
        return f"{name}: a value must follow it"
    return f"{name if name.startswith('-') else _argument_name(name)} is missing"


def _expected(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return _one_of(map(str, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _one_of(str(member.value) for member in kind)
    return _EXPECTED.get(kind, f"what reads as {getattr(kind, '__name__', kind)}")


def _one_of(choices: Iterable[str]) -> str:
    return f"one of {', '.join(choices)}"


def _closest(given: str, names: Iterable[str]) -> str:
    close = get_close_matches(given, list(names), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _listed(names: Iterable[str]) -> str:
    return f"; there are {', '.join(names)}"
