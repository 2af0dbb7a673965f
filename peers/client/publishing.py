"""`Publishing`: when a client's publications leave, and who waits for that.

```
put_nowait ─▶ Publications ──end of turn, 256 KiB, room again──▶ Connection
wait_put, drain ◀── progress ──────────────────┘
```

Owner: one client, in its event loop. Invariants: what was taken leaves in the order of the calls; nothing that was
taken is dropped without being counted (`unsent_messages`).
"""

from __future__ import annotations

import asyncio
import logging

from hub.errors import BusyError, HubError
from peers.client.connection import Connection
from peers.client.publications import Publications
from peers.client.receipts import Receipt
from peers.client.target import Target
from peers.client.waiters import Waiters

__all__ = ["Publishing"]

_WRITE_BYTES = 256 * 1024
"""Written in one go; also how much is collected in one turn before it is written early."""

_VALUE_OVERHEAD_BYTES = 32
"""Counted for a value beside its bytes, so that many tiny ones let others run as often as a few large ones."""

_log = logging.getLogger("peers.client")


class Publishing:
    """The outbound side of one client.

    Args:
        buffer_bytes: Most that waits.
    """

    def __init__(self, buffer_bytes: int) -> None:
        self.publications = Publications(buffer_bytes)
        self.unsent_messages = 0
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._ended: HubError | None = None
        self._flush_due = False
        self._unyielded_bytes = 0  # put by `put` since it let others run
        self._progress = Waiters()  # for room, or for everything to be sent

    def put_nowait(self, topic: Target, packed: bytes, receipt: Receipt | None = None) -> None:
        """Take a value. It leaves at the end of this turn of the loop, or when there is a connection.

        Raises:
            BusyError, InvalidTopicError, RejectedError: As `Publications.append`.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        publications = self.publications
        publications.append(topic, packed, receipt)
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)
        elif publications.buffered_bytes >= _WRITE_BYTES:
            self.write()

    async def put(self, topic: Target, packed: bytes, receipt: Receipt | None = None) -> None:
        """Take a value when there is room; let others run after each 256 KiB.

        Raises:
            InvalidTopicError, RejectedError, ClosedError, PeerError: As `put_nowait`.
        """
        while True:
            try:
                self.put_nowait(topic, packed, receipt)
            except BusyError:
                await self._progress.wait()
            else:
                break
        self._unyielded_bytes += len(packed) + _VALUE_OVERHEAD_BYTES
        if self._unyielded_bytes >= _WRITE_BYTES:
            self._unyielded_bytes = 0
            await asyncio.sleep(0)  # let the loop read and others run, a few milliseconds after the last time

    async def drain(self) -> None:
        """Wait until the operating system has everything.

        Raises:
            ClosedError, PeerError: The client is closed, or has ended with an error, before that.
        """
        self.write()
        while not self._sent:
            if self._ended is not None:
                raise self._ended.with_traceback(None)
            await self._progress.wait()

    async def wait_sent(self, timeout_s: float) -> None:
        """Wait until the operating system has everything, the connection is lost, or the time is up."""
        self.write()
        try:
            async with asyncio.timeout(timeout_s):
                while self._connection is not None and not self._sent:
                    await self._progress.wait()
        except TimeoutError:
            _log.warning("closing although the hub does not read: what was written last may not reach it")

    def write(self) -> None:
        """Hand over what waits, as long as the operating system takes it."""
        publications, connection = self.publications, self._connection
        while connection is not None and connection.writable and publications:
            connection.publish(publications.take(_WRITE_BYTES))
        if self._progress and publications.buffered_bytes <= publications.limit_bytes // 2:
            self._progress.wake()

    # For the client.

    def connected(self, connection: Connection) -> None:
        """Send what waits."""
        self._connection = connection
        self.write()

    def disconnected(self) -> None:
        """What was sent and not confirmed may be lost; what waits goes on waiting."""
        self._connection = None
        self.publications.receipts.disconnected()

    def finish(self, error: HubError) -> None:
        """Nothing is sent any more."""
        self._ended = error
        self._connection = None
        self.give_up(self.publications.clear(error))
        self.publications.receipts.disconnected()
        self._progress.wake()

    def give_up(self, messages: int) -> None:
        """Count messages that were published and will not be sent."""
        if messages:
            self.unsent_messages += messages
            _log.warning("%d messages were published and never sent", messages)

    # Inside.

    @property
    def _sent(self) -> bool:
        """Whether the operating system has everything."""
        return not self.publications and self._connection is not None and self._connection.writable

    def _flush(self) -> None:
        """End of the turn."""
        self._flush_due = False
        self.write()
