"""`TokenSource`: the token of a client, a text or the result of the program's function, and its renewal.

The token is in no representation, no error and no line of the log. A function is called again for each connection, and
its results are not kept. Some four fifths of the time of a proof are waited before it is renewed: one attempt at a
time, and none without a connection. Failures are reported and logged, and raised nowhere: the connection is good until
its proof ends.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from hub.errors import ConnectionLostError, HubError, PeerError, RejectedError, UsageError
from hub.topics import printable
from peers.client.conversation import ABNORMAL, TOKENS, Numbers
from peers.wire.control import TOKEN_LIMIT_BYTES, Notice, Renewal, check_token
from peers.wire.hello import Hello

if TYPE_CHECKING:
    from peers.client.connection import Connection

Token = str | Callable[[], str | Awaitable[str]]  # Type of the option `token`

_EARLIEST, _LATEST = 0.75, 0.85
"""The part of a proof's time after which it is renewed: drawn between the two, so that clients that signed in together
are not renewed together; a fifth of the time is left for failures."""

_LEAST_S = 1.0  # Shorter waits between two attempts are not worth it: the next connection brings a fresh token
_log = logging.getLogger("peers.client")


def checked(token: object) -> str:
    """Return `token` without blanks around it. The text of a `UsageError` does not hold it."""
    if not isinstance(token, str):
        raise UsageError(f"the client's token is a {type(token).__name__}, not a text")
    try:
        token.encode()
        return check_token(token.strip())
    except UnicodeEncodeError as error:
        start = error.start
    except RejectedError as error:
        raise UsageError(error.text) from None
    raise UsageError(f"the client's token is not UTF-8 at character {start}")


def read_token(path: str) -> str:
    """Return the token in a file: one line, blanks around it are ignored.

    Raises:
        UsageError: The file cannot be read, or holds no such line. The text names the file, and shows nothing of it.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 -- clients load no pathlib
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


def _without(reason: str) -> ConnectionLostError:
    return ConnectionLostError(ABNORMAL, f"there is no token to be shown: the function for it {reason}")


class TokenSource:
    """Gives the token for the next connection, and renews the proof of one that lasts. A text cannot be renewed."""

    def __init__(self, token: Token, timeout_s: float, report: Callable[[PeerError], None]) -> None:
        self._token = token
        self._timeout_s = timeout_s
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._random = random.Random()  # noqa: S311 -- spread, not secrecy
        self._numbers = Numbers(TOKENS)
        self._connection: Connection | None = None
        self._ends_s = 0.0
        self._asked = 0  # The number of the TOKEN that the hub has not answered; 0 for none
        self._timer: asyncio.TimerHandle | None = None  # The next step: the time to ask for a token, or the asking
        self._task: asyncio.Task[None] | None = None

    @property
    def is_renewable(self) -> bool:
        return callable(self._token)

    @property
    def waiting(self) -> bool:
        return bool(self._asked)

    async def fresh(self) -> str:
        """Return a token; a function that fails is like a hub that is down: `ConnectionLostError`."""
        if not callable(self._token):
            return checked(self._token)
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

    def answer(self, notice: Notice) -> None:
        """Take the hub's answer to a TOKEN."""
        if notice.request != self._asked:
            return
        self._asked = 0
        if notice.kind == "error":
            self._failed(RejectedError(notice.code, notice.text))
        elif notice.until is not None:
            self._expect_end(notice.until)

    def connected(self, connection: Connection, hello: Hello) -> None:
        self._connection = connection
        if hello.until is not None and self.is_renewable:
            self._expect_end(hello.until)

    def disconnected(self) -> None:
        """Stop: the next connection brings a fresh token of its own."""
        self._connection = None
        self._asked = 0
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._timer = self._task = None

    def finish(self, ended: HubError) -> None:  # noqa: ARG002 -- as all parts
        self.disconnected()

    def _expect_end(self, left_s: float) -> None:
        self._ends_s = self._loop.time() + left_s
        self._timer = self._loop.call_later(left_s * self._random.uniform(_EARLIEST, _LATEST), self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._renew())

    async def _renew(self) -> None:
        try:
            token = await self.fresh()
        except PeerError as error:
            self._failed(error)
            return
        if self._connection is not None:
            self._asked = self._numbers.next()
            self._connection.say(Renewal(self._asked, token))

    def _failed(self, error: PeerError) -> None:
        _log.warning("the token was not renewed: %s", error)
        self._report(error)
        wait_s = (self._ends_s - self._loop.time()) / 2
        if wait_s >= _LEAST_S:
            self._timer = self._loop.call_later(wait_s, self._begin)
