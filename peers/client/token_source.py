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

from hub.errors import ConnectionLostError, RejectedError, UsageError
from peers.client.conversation import ABNORMAL
from peers.wire.token import check_token

__all__ = ["Token", "TokenSource", "checked"]

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
