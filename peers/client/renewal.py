"""`TokenRenewal`: a client shows a fresh token before the one that it has shown ends, and the connection stays.

```
hub: until=600 ─▶ about 480 s later: the program's function ─▶ TOKEN ─▶ hub: confirmed, until=600 ─▶ ...
                                        └── it fails, or the hub refuses: told, and tried again in what is left
```

Purpose: a connection that outlives its token. Where the program has given a text and no function there is nothing to
renew, and the hub ends the connection in time.

Owner: one client, in its event loop. Invariants: one attempt at a time, and none without a connection; what goes wrong
is told to the program (`on_rejected`) and logged, and raised nowhere: the connection is good until its proof ends.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from hub.errors import HubError, PeerError, RejectedError
from peers.client.connection import Connection
from peers.client.conversation import TOKENS, Numbers
from peers.client.token_source import TokenSource
from peers.wire.control import Notice
from peers.wire.hello import Hello
from peers.wire.token import Renewal

__all__ = ["TokenRenewal"]

_EARLIEST, _LATEST = 0.75, 0.85
"""The part of a proof's time after which it is renewed. Between the two it is left to chance, so that a thousand
clients that were signed in together are not renewed together; a fifth of the time is left for what may go wrong."""

_LEAST_S = 1.0
"""Shorter waits between two attempts are not worth it: the next connection brings a fresh token."""

_log = logging.getLogger("peers.client")


class TokenRenewal:
    """A part of a client (`peers.client.exchange`).

    Args:
        source: Gives the tokens.
        on_waiting: Called when `waiting` may have changed.
        report: Told what went wrong.
    """

    def __init__(
        self, source: TokenSource, on_waiting: Callable[[], None], report: Callable[[PeerError], None]
    ) -> None:
        self._source = source
        self._on_waiting = on_waiting
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._random = random.Random()  # noqa: S311 -- spread, not secrecy
        self._numbers = Numbers(TOKENS)
        # The connection that is open; None from `disconnected` until the next one.
        self._connection: Connection | None = None
        # When what was shown ends, by the loop's clock.
        self._ends_s = 0.0
        # The number of the TOKEN that the hub has not answered; 0 for none.
        self._asked = 0
        # What comes next: the time to ask for a token, or the asking; None for neither.
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> bool:
        """Whether the hub's answer is awaited: then the connection must be read."""
        return bool(self._asked)

    def answer(self, notice: Notice) -> None:
        """Take the hub's answer to a TOKEN."""
        if notice.request != self._asked:
            return
        self._asked = 0
        if notice.kind == "error":
            self._failed(RejectedError(notice.code, notice.text))
        elif notice.until is not None:
            self._expect_end(notice.until)
        self._on_waiting()

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Take note of how long the proof holds that this connection was made with."""
        self._connection = connection
        if hello.until is not None and self._source.is_renewable:
            self._expect_end(hello.until)

    def disconnected(self, *, again: bool) -> None:  # noqa: ARG002 -- as all parts
        """Ask for nothing more: the next connection brings a fresh token of its own."""
        self._connection = None
        self._asked = 0
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._timer = self._task = None

    def finish(self, ended: HubError) -> None:  # noqa: ARG002 -- as all parts
        """Ask for nothing more."""
        self.disconnected(again=False)

    def _expect_end(self, left_s: float) -> None:
        self._ends_s = self._loop.time() + left_s
        self._timer = self._loop.call_later(left_s * self._random.uniform(_EARLIEST, _LATEST), self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._renew())

    async def _renew(self) -> None:
        try:
            token = await self._source.fresh()
        except PeerError as error:
            self._failed(error)
            return
        connection = self._connection
        if connection is not None:
            self._asked = self._numbers.next()
            connection.conversation.renew(Renewal(self._asked, token))
            connection.write_outgoing()
            self._on_waiting()

    def _failed(self, error: PeerError) -> None:
        """Tell it, and try again when half of the time that is left is over."""
        _log.warning("the token was not renewed: %s", error)
        self._report(error)
        wait_s = (self._ends_s - self._loop.time()) / 2
        if wait_s >= _LEAST_S:
            self._timer = self._loop.call_later(wait_s, self._begin)
