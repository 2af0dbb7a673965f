"""`shown_token`: what a command shows to the hub for who runs it; never a flag, which everybody on the machine can see.

| given | the token |
|---|---|
| `--token-file PATH` (or `HUB_TOKEN_FILE`) | the line in that file, read anew for each connection |
| `--token-file -` | asked for at the terminal, unseen, once |
| neither | the environment variable `HUB_TOKEN`; without it nothing is shown |

Owner: nobody. Not here: tokens of users, as the hub knows them (`peers.cli.token`).
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hub.errors import UsageError
from peers.cli.errors import FlagError
from peers.client.token_file import read_token
from peers.client.token_source import Token, checked

__all__ = ["ASKED", "TOKEN_VARIABLE", "TokenFile", "first_token", "shown_token", "text_or_path"]

TOKEN_VARIABLE = "HUB_TOKEN"  # noqa: S105 -- its name

ASKED = "-"

_TERMINAL = Path("/dev/tty")

TokenFile = Annotated[
    str,
    Parameter(
        name="--token-file",
        env_var="HUB_TOKEN_FILE",
        help="File of the token by which the hub knows who this is; - asks for it. Else that of HUB_TOKEN.",
        allow_leading_hyphen=True,  # for -, which asks
        show_default=False,
    ),
]
"""The flag `--token-file`, or the environment variable `HUB_TOKEN_FILE`."""


def shown_token(file: str) -> Token:
    """Return the token, or a function that reads it again for each connection.

    Args:
        file: What `--token-file` says.

    Raises:
        FlagError: There is no token where it should be; the text shows nothing of it.
    """
    text, path = text_or_path(file)
    return partial(read_token, path) if path else text


def text_or_path(file: str) -> tuple[str, str]:
    """Return the token, or the path of the file that it is in and can be read from; the other text is empty.

    Raises:
        FlagError: As `shown_token`.
    """
    if file in {"", ASKED}:
        return first_token(file), ""
    first_token(file)  # a mistake is told at once
    return "", file


def first_token(file: str) -> str:
    """Return the token as it is now; the arguments are those of `shown_token`.

    Raises:
        FlagError: As `shown_token`.
    """
    if not file:
        return os.environ.get(TOKEN_VARIABLE, "")
    try:
        return _ask() if file == ASKED else read_token(file)
    except UsageError as error:
        raise FlagError(f"--token-file: {error}") from error


def _ask() -> str:
    try:
        with _TERMINAL.open():
            pass
    except OSError as error:
        raise UsageError("there is no terminal to ask for the token; name a file, or set HUB_TOKEN") from error
    import getpass  # noqa: PLC0415 -- with what a terminal needs, for the few who are asked

    token = checked(getpass.getpass("token: ").strip())
    if not token:
        raise UsageError("no token was given")
    return token
