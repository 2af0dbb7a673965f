"""`JournalStream`: the source of a stream that begins in the journal, and is read from there for ever.

```
FETCH from `position`, with a time to wait ─▶ hub: at once, or with the commit that brings what is wanted
stream ◀─ messages with their offsets ◀─ RECORDS, `next` ─▶ the next FETCH leaves before these are handed on
```

It uses the connection of its client. A FETCH that was lost with a connection is sent again over the next one: all that
is needed to go on is a position, so nothing is missing and nothing comes twice. A slow reader is behind in the journal;
where retention has overtaken it, the gap is told at its place. Where a hub has lost the end of its journal with its
power, the stream goes on where other records have the offsets of those that are lost (docs/adr/0034).

Owner: one stream. Bounds: a piece is asked for only while the stream is not full, so it holds its `buffer_bytes` and
two pieces of half of that. Why there is no live subscription behind it: docs/adr/0035.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from hub.errors import CloseCode, ClosedError, GoneError, HubError, InternalError, RejectedError
from hub.topics import check_prefix
from peers.client.journal import JournalAccess, journal_of
from peers.client.read_position import ReadPosition, recorded_batches
from peers.client.reports import Reports
from peers.client.routes import Claim, Wanted
from peers.client.stream import MessageStream
from peers.transport.backoff import Backoff
from peers.wire.records import FETCH_BYTES, FETCH_WAIT_LIMIT_MS, Fetch, Records

__all__ = ["JournalStream", "Start"]

_LEAST_BYTES = 16 * 1024
"""Smallest piece that is asked for, bytes: a smaller one is no quicker to have, however little the stream holds."""

_NOT_NOW = frozenset({CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY})

_log = logging.getLogger("peers.client")


class Start(NamedTuple):
    """The place where a stream begins."""

    offset: int = 0
    time_us: int | None = None
    """A time instead of the offset: the stream begins with the first record that is not older."""
    hub: str = ""
    """Whose journal that is; empty for that of the hub that is connected."""
    epoch: int = 0
    """In which the offset was told; 0 where nobody knows."""


class JournalStream:
    """Reads one stream from the journal.

    Args:
        access: The requests of its client.
        start: The place where it begins.
        read_position: The position of the reader of the stream.
        buffer_bytes: How much the stream holds.
        backoff: Of this stream alone: how long it waits before it asks again for what the hub cannot give now.
        reports: Told what was deleted before it was read, and what the journal has lost.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- what it is given by its client
        self,
        access: JournalAccess,
        start: Start,
        read_position: ReadPosition,
        buffer_bytes: int,
        backoff: Backoff,
        reports: Reports,
    ) -> None:
        self._access = access
        self._start = start
        self._read_position = read_position
        self._piece_bytes = max(_LEAST_BYTES, min(FETCH_BYTES, buffer_bytes // 2))
        self._backoff = backoff
        self._reports = reports
        # The prefixes of the stream, from `open` on.
        self._prefixes: tuple[str, ...] = ()
        self._sink: MessageStream
        # The id of the journal that is read; empty until a hub has told it. Offsets mean something in that one only.
        self._journal_id = b""
        # The epoch of the journal in which the position of the stream was told; 0 where nobody knows.
        self._epoch = start.epoch
        # Set while the stream has room: a piece is handed on, and the next one asked for, only then.
        self._room = asyncio.Event()
        self._room.set()
        # Done once it is known whether there is a first piece: `open` waits for it.
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The task that reads; None before `open`.
        self._task: asyncio.Task[None] | None = None

    # For the stream.

    async def open(self, sink: MessageStream, wants: Iterable[Wanted]) -> list[Claim]:
        """Begin to read; raises as `MessageStream.open`. The journal keeps no labels: there are prefixes only."""
        self._sink = sink
        self._prefixes = tuple(dict.fromkeys(check_prefix(want) for want in wants if isinstance(want, str)))
        self._access.streams.add(self)
        self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            await self._begun
        except BaseException:
            self._end()
            raise
        return []

    def release(self, sink: MessageStream, claims: list[Claim]) -> None:  # noqa: ARG002 -- as others
        """Read no more."""
        self._end()

    def hold(self, sink: MessageStream) -> None:  # noqa: ARG002 -- as others
        """Ask for nothing more: the stream is full."""
        self._room.clear()

    def let_go(self, sink: MessageStream) -> None:  # noqa: ARG002 -- as others
        """Ask again, as the stream has room."""
        self._room.set()

    # For the client.

    def finish(self, error: HubError | None) -> None:
        """End the stream: nothing more comes."""
        if self._begun.done():
            self._sink.finish(error)
        else:
            self._begun.set_exception(error or ClosedError("the client is closed"))
        self._end()

    def _end(self) -> None:
        self._access.streams.discard(self)
        if self._task is not None:
            self._task.cancel()

    # Reading.

    async def _run(self) -> None:
        asking: asyncio.Task[Records] | None = None
        try:
            found = await self._begin()
            while True:
                asking = asyncio.create_task(self._next(found))
                asking.add_done_callback(_retrieve)
                self._hand_on(found)
                found = await asking
                await self._room.wait()
        except HubError as error:
            self.finish(None if isinstance(error, ClosedError) else error)
        except Exception as error:  # noqa: BLE001 -- whatever it is, who reads the stream must not wait for ever
            _log.exception("a bug of the client, please report it")
            self.finish(InternalError(f"a bug of the client, please report it: {error!r}"))
        finally:
            if asking is not None:
                asking.cancel()

    async def _begin(self) -> Records:
        """Read the first piece: then it is known whether there is one."""
        offset, time_us, hub, _ = self._start
        found = await self._fetch(offset, time_us)
        self._journal_id = journal_of(found, hub, self._access.id)
        self._goes_on(found, offset)
        self._read_position.begin(found.start, found.epoch)
        if not self._begun.done():
            self._begun.set_result(None)
        return found

    async def _next(self, found: Records) -> Records:
        """Read the piece behind another one, which is handed on by then; wait where that was the last."""
        position = found.next
        wait_ms = FETCH_WAIT_LIMIT_MS if position >= found.head else 0
        while True:
            try:
                found = await self._fetch(position, wait_ms=wait_ms)
            except GoneError as error:
                if error.first > position:
                    self._sink.put_gap(error.first - position)
                    self._reports.drop(error.first - position)
                elif self._epoch:  # cut back, to where records are deleted by now
                    self._cut(position, error.first)
                else:
                    raise
                # The hub has told this one just now: in the epoch of before it would cut it back, and refuse it again.
                position, self._epoch = error.first, 0
            else:
                self._backoff.reset()
                self._goes_on(found, position)
                return found

    def _goes_on(self, found: Records, position: int) -> None:
        """Keep the epoch of a piece; tell where it begins earlier than it was asked to."""
        self._epoch = found.epoch
        if found.start < position:
            self._cut(position, found.start)

    def _cut(self, position: int, start: int) -> None:
        self._sink.put_break()
        self._reports.cut(range(start, position))

    async def _fetch(self, offset: int, time_us: int | None = None, wait_ms: int = 0) -> Records:
        has_begun = self._begun.done()
        hub, size_bytes = self._start.hub, self._piece_bytes
        fetch = Fetch(1, offset, time_us, None, self._prefixes, size_bytes, wait_ms, hub, self._journal_id)
        fetch = msgspec.structs.replace(fetch, epoch=self._epoch)
        while True:
            try:
                return await self._access.fetch(fetch, patient=has_begun)
            except RejectedError as error:
                if error.code not in _NOT_NOW or (hub and not has_begun):
                    raise
            await asyncio.sleep(self._backoff.next_s())

    def _hand_on(self, found: Records) -> None:
        for block in found.blocks:
            for batch in recorded_batches(block):
                self._read_position.put()
                self._sink.put(batch)
        self._read_position.reached(found.next, found.epoch)
        if found.next >= found.head:
            self._read_position.live = True


def _retrieve(asking: asyncio.Task[Records]) -> None:
    """Look at the outcome: a stream that has ended does not look, and asyncio would complain of that."""
    if not asking.cancelled():
        asking.exception()
