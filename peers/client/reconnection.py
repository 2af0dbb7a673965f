"""`Reconnection`: a client's one connection: made, watched, and made again when it is lost.

```
open() ─▶ dial ─▶ connected ──lost──▶ disconnected ─▶ backoff ─▶ dial ─▶ connected ...
                                           └── final, or not to be made again ──▶ gave up
```

Owner: one client, in its event loop. Invariants: one connection at a time; `connected` and `disconnected` are called in
turn; `gave_up` is called once, at the end, unless `cancel` came first.

Not here: what is said over the connection (`peers.client.exchange`), where the hub is (`peers.client.dial`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from hub.errors import ConnectionLostError, InternalError, PeerError
from peers.client.connection import Connection, Ending
from peers.transport.backoff import Backoff
from peers.wire.hello import Hello

__all__ = ["Dial", "Reconnection"]

_STABLE_S = 5.0
"""How long a connection must hold before the backoff begins anew: a hub that takes us and then closes at once is not
to be dialled ten times a second."""

_log = logging.getLogger("peers.client")

Dial = Callable[[], Awaitable[tuple[Connection, Hello]]]


class Kept(Protocol):
    """The client that is kept connected."""

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Take a connection that was made."""

    def disconnected(self, ending: Ending, *, again: bool) -> None:
        """Take note that the connection is lost; `again` tells whether another will be made."""

    def gave_up(self, error: PeerError | InternalError) -> None:
        """Take note that there will be no connection any more."""


class Reconnection:
    """A client's connection, which is made again when it is lost.

    Args:
        dial: Makes a connection.
        kept: The client.
        backoff: Pauses between attempts.
        again: Whether a lost connection is made again.
    """

    def __init__(self, dial: Dial, kept: Kept, backoff: Backoff, *, again: bool) -> None:
        self._dial = dial
        self._kept = kept
        self._backoff = backoff
        self._again = again
        # The task that watches the connection and makes it again; None before `open`.
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make the first connection.

        Raises:
            ConnectionLostError, RejectedError, ProtocolError: There is none; the text says what to do.
        """
        connection, hello = await self._dial()
        self._kept.connected(connection, hello)
        self._task = asyncio.create_task(self._run(connection))

    def cancel(self) -> None:
        """Make no more connections."""
        if self._task is not None:
            self._task.cancel()

    async def wait(self) -> None:
        """Wait until no more connections are made."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, connection: Connection) -> None:
        """Keep connected until it is cancelled, or until trying again makes no sense."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                since_s = loop.time()
                await asyncio.wait([connection.lost])  # to be cancelled without cancelling that
                ending = connection.lost.result()
                again = self._again and not ending.final
                self._kept.disconnected(ending, again=again)
                if not again:
                    self._kept.gave_up(ending.error())
                    return
                if loop.time() - since_s >= _STABLE_S:
                    self._backoff.reset()
                connection, hello = await self._redial(ending.retry_after_s)
                self._kept.connected(connection, hello)
        except PeerError as error:
            self._kept.gave_up(error)
        except Exception as error:  # noqa: BLE001 -- whatever it is, those who wait must not wait on
            _log.exception("a bug of the client, please report it")
            self._kept.gave_up(InternalError(f"a bug of the client, please report it: {error!r}"))

    async def _redial(self, retry_after_s: float | None) -> tuple[Connection, Hello]:
        """Try until there is a connection; for the first time after so long, where the hub has asked for that.

        Raises:
            RejectedError, ProtocolError: The hub does not want us.
        """
        last = ""
        while True:
            wait_s = self._backoff.next_s() if retry_after_s is None else retry_after_s
            retry_after_s = None
            await asyncio.sleep(wait_s)
            try:
                return await self._dial()
            except ConnectionLostError as error:
                if error.text != last:
                    last = error.text
                    _log.warning("no connection yet: %s", last)
