"""`Publishing`: when a client's publications leave, and how callers wait for that.

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
from collections.abc import Callable

from hub.errors import BusyError, CloseCode, HubError, RejectedError
from peers.client.connection import Connection
from peers.client.publications import Publications, Target
from peers.client.receipts import Receipt
from peers.client.waiters import Waiters
from peers.wire.control import Notice
from peers.wire.hello import Hello

__all__ = ["Publishing"]

_WRITE_BYTES = 256 * 1024
"""How many bytes are written in one go; also how much is collected in one turn before it is written early."""

_VALUE_OVERHEAD_BYTES = 32
"""Counted for a value beside its bytes, so that many tiny ones let others run as often as a few large ones."""

_log = logging.getLogger("peers.client")


class Publishing:
    """The outbound side of one client.

    Args:
        buffer_bytes: Most that waits.
        on_refused: Told why, and how many, when values that waited will not be sent to this hub.
        on_waiting: Called when `waiting` has changed.
    """

    def __init__(
        self, buffer_bytes: int, on_refused: Callable[[RejectedError, int], None], on_waiting: Callable[[], None]
    ) -> None:
        self._on_refused = on_refused
        self._on_waiting = on_waiting
        # Whether the hub owes a confirmation: from the write of a message that is to be confirmed, to the answer to the
        # last of them, or the end of the connection.
        self._waiting = False
        self.publications = Publications(buffer_bytes)
        # How many values were published and will not be sent; `give_up` raises it.
        self.unsent_messages = 0
        self._loop = asyncio.get_running_loop()
        # The connection that is open; None from `disconnected` until the next one.
        self._connection: Connection | None = None
        # Why nothing is taken any more; None until `finish`.
        self._ended: HubError | None = None
        # True from the first value of a turn until the flush at its end.
        self._flush_due = False
        # How much `put` has taken since it let others run, bytes.
        self._unyielded_bytes = 0
        # Those who wait for room, or until everything is sent.
        self._progress = Waiters()

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

    async def put_confirmed(self, topic: Target, packed: bytes) -> int:
        """Take a value when there is room, and wait until it is in the hub's journal; return its offset.

        Raises:
            RejectedError: It is not recorded; the text says why.
            ConnectionLostError: Nobody knows.
            InvalidTopicError, ClosedError, PeerError: As `put_nowait`.
        """
        receipt = Receipt()
        await self.put(topic, packed, receipt)
        return await receipt.wait()

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
        if bool(publications.receipts) is not self._waiting:
            self._tell_waiting()
        if self._progress and publications.buffered_bytes <= publications.limit_bytes // 2:
            self._progress.wake()

    # As a part of the client.

    @property
    def waiting(self) -> bool:
        """Whether messages were sent that the hub is to confirm."""
        return self._waiting

    def answer(self, notice: Notice) -> None:
        """Take note that messages were recorded, or were not."""
        self.publications.receipts.answer(notice)
        self._tell_waiting()

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Send what waits; what is larger than this hub takes is refused."""
        too_large = self.publications.fit(hello.frame)
        if too_large:
            text = f"{too_large} values that waited are larger than the {hello.frame} bytes that this hub takes"
            self._on_refused(RejectedError(CloseCode.TOO_BIG, text), too_large)
        self._connection = connection
        self.write()

    def disconnected(self, *, again: bool) -> None:  # noqa: ARG002 -- as all parts
        """Settle receipts of what was sent: it may be lost. What waits goes on waiting."""
        self._connection = None
        self.publications.receipts.disconnected()
        self._tell_waiting()

    def finish(self, ended: HubError) -> None:
        """Send nothing any more; tell those who wait."""
        self._ended = ended
        self._connection = None
        self.give_up(self.publications.clear(ended))
        self.publications.receipts.disconnected()
        self._progress.wake()

    def give_up(self, messages: int) -> None:
        """Count messages that were published and will not be sent."""
        if messages:
            self.unsent_messages += messages
            _log.warning("%d messages were published and never sent", messages)

    # Inside.

    def _tell_waiting(self) -> None:
        waiting = bool(self.publications.receipts)
        if waiting is not self._waiting:
            self._waiting = waiting
            self._on_waiting()

    @property
    def _sent(self) -> bool:
        """Return whether the operating system has everything."""
        return not self.publications and self._connection is not None and self._connection.writable

    def _flush(self) -> None:
        """Write what the turn has brought, at its end."""
        self._flush_due = False
        self.write()
