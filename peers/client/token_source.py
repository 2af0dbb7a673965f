"""`TokenSource`: what a client shows its hub for who it is: a text, or what a function of the program gives.

Invariants: the token is in no representation, no error and no line of the log; a function is asked anew for each
connection, and nothing of what it has given is kept. What it raises becomes a `ConnectionLostError` with that as its
cause: a sign-in service that is down for a while is like a hub that is down for a while.

Owner: one client, in its event loop. Not here: when it is asked (`peers.client.exchange`, `peers.client.renewal`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path

from hub.errors import ConnectionLostError, RejectedError, UsageError
from hub.topics import printable
from peers.client.conversation import ABNORMAL
from peers.wire.token import TOKEN_LIMIT_BYTES, check_token

__all__ = [
    "Token",
    "TokenSource",
    "checked",
    "read_token",
]

Token = str | Callable[[], str | Awaitable[str]]
"""What the option `token` takes."""


class TokenSource:
    """Gives the token for the next connection.

    Args:
        token: The option.
        timeout_s: How long an async function may take.
    """

    __slots__ = ("_timeout_s", "_token")

    def __init__(self, token: Token, timeout_s: float) -> None:
        self._token = token
        self._timeout_s = timeout_s

    @property
    def is_renewable(self) -> bool:
        """Whether there is a function, which may give another token the next time."""
        return callable(self._token)

    async def fresh(self) -> str:
        """Return a token.

        Raises:
            ConnectionLostError: The function has given none; the text says why, and its own error is the cause.
        """
        if not callable(self._token):
            return self._token
        try:
            async with asyncio.timeout(self._timeout_s):
                given = self._token()
                token = await given if inspect.isawaitable(given) else given
        except TimeoutError as error:
            raise _without(f"has given none within {self._timeout_s:g} s") from error
        except Exception as error:  # whatever the program's function raises
            raise _without(f"has failed with {type(error).__name__}") from error
        try:
            return checked(token)
        except UsageError as error:
            raise _without(f"has given something else: {error}") from None


def checked(token: object) -> str:
    """Return `token` if it is a text that can be said.

    Raises:
        UsageError: It is none, has no UTF-8 form, or is longer than any token. The text does not hold it.
    """
    if not isinstance(token, str):
        raise UsageError(f"the client's token is a {type(token).__name__}, not a text")
    try:
        token.encode()
        return check_token(token)
    except UnicodeEncodeError as error:
        start = error.start
    except RejectedError as error:
        raise UsageError(error.text) from None
    raise UsageError(f"the client's token is not UTF-8 at character {start}")


def _without(reason: str) -> ConnectionLostError:
    return ConnectionLostError(ABNORMAL, f"there is no token to be shown: the function for it {reason}")


def read_token(path: str) -> str:
    """Return the token in a file: one line, blanks around it are passed over.

    Raises:
        UsageError: The file cannot be read, or holds no such line. The text names the file, and shows nothing of it.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(TOKEN_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise UsageError(f"the file of the token {printable(path)} cannot be read: {reason}") from error
    try:
        token = content.decode().strip()
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or len(content) > TOKEN_LIMIT_BYTES:
        raise UsageError(f"the file {printable(path)} holds no token: one line of text is expected")
    return checked(token)
