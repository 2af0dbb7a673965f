"""`JournalStream`: the source of a stream that is read from the journal for ever.

```
FETCH from `position`, with a time to wait ─▶ hub: at once, or with the commit that brings what is wanted
stream ◀─ messages with their offsets ◀─ RECORDS, `next` ─▶ the next FETCH leaves before these are handed on
```

It uses the connection of its client. A FETCH that was lost with a connection is sent again over the next one, so that
nothing is missing and nothing comes twice. A slow reader is behind in the journal; where retention has overtaken it,
the stream has a gap. Where a hub has lost the end of its journal with its power, the stream goes on with the records
that have the offsets of the lost ones now (docs/adr/0034). A piece is asked for only while the stream is not full, so
it holds its `buffer_bytes` and two pieces of half of that. Why there is no live subscription behind it: docs/adr/0035.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import msgspec

from hub.errors import CloseCode, ClosedError, GoneError, HubError, InternalError, RejectedError
from hub.journal.block import Block, to_frames
from hub.journal.message import RecordedMessage
from hub.messages.batch import Batch, Message
from hub.topics import check_prefix
from peers.client.journal import JournalAccess, look_at
from peers.client.reports import Reports
from peers.client.routes import Claim, Wanted
from peers.client.stream import MessageStream
from peers.client.values import decode_batch
from peers.transport.backoff import Backoff
from peers.wire.records import FETCH_BYTES, FETCH_WAIT_LIMIT_MS, Fetch, Records

_LEAST_BYTES = 16 * 1024
"""Smallest piece that is asked for, bytes: a smaller one comes no sooner, however little the stream holds."""

_NUMBER_BYTES = 8
_NOT_NOW = frozenset({CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY})

_log = logging.getLogger("peers.client")


class RecordedBatch(Batch):
    """Messages of a journal, with their offsets, and their times in µs since 1970 UTC."""

    __slots__ = ("offsets", "times_us")

    def __init__(self, frames: bytes, offsets: Sequence[int], times_us: Sequence[int]) -> None:
        super().__init__(frames, len(offsets))
        self.offsets = offsets
        self.times_us = times_us
        self.size_bytes += 2 * _NUMBER_BYTES * len(offsets)


def decoded(batch: Batch, decode: Callable[[Batch, type[Message]], list[Message]]) -> list[Message]:
    """Decode a batch; messages of a journal get their offsets and times."""
    if not isinstance(batch, RecordedBatch):
        return decode(batch, Message)
    messages = decode(batch, RecordedMessage)
    if len(messages) != batch.messages:
        return list(_readable(batch))
    recorded = cast("list[RecordedMessage]", messages)  # a journal keeps no labels: all are of that class
    for message, offset, time_us in zip(recorded, batch.offsets, batch.times_us, strict=True):
        message.offset = offset
        message.time_us = time_us
    return messages


def _readable(batch: RecordedBatch) -> Iterator[Message]:
    """Yield the messages that can be read, one by one, each with its own offset."""
    rest: Batch | None = batch
    for offset, time_us in zip(batch.offsets, batch.times_us, strict=True):
        if rest is None:
            return
        first, rest = rest.split(1)
        for topic, value in decode_batch(first)[0]:
            yield RecordedMessage(topic, value, offset, time_us)


def recorded_batches(block: bytes) -> Iterator[RecordedBatch]:
    """Yield the messages of a block, in order."""
    columns = Block.parse(block, verify=False)
    offsets = range(columns.first, columns.next) if columns.offsets is None else _copied(columns.offsets)
    times_us = _copied(columns.times)
    start = 0
    for frames, messages in to_frames(block):
        end = start + messages
        yield RecordedBatch(frames, offsets[start:end], times_us[start:end])
        start = end


def _copied(column: memoryview) -> Sequence[int]:
    """Copy numbers, so that a slow reader does not keep the whole block in memory."""
    return array("q", column.tobytes())


class Start(NamedTuple):
    """The place where a stream begins."""

    offset: int = 0
    time_us: int | None = None
    """A time instead of the offset: the stream begins with the first record that is not older."""
    hub: str = ""
    """Whose journal that is; empty for that of the hub that is connected."""
    epoch: int = 0
    """The epoch to which the offset belongs; 0 if it is not known."""


class JournalStream:
    """Reads one stream from the journal, and knows the position of its reader.

    ```
    put, put, reached 120, put, reached 180, put ...        what is put into the stream
                    │ decode   decode │ taken               the reader takes some of it
                    ▼                 ▼
                 position 0 ──▶ 120 ──▶ ...                 moves on with the next call: then the reader is done with it
    ```
    """

    def __init__(
        self, access: JournalAccess, start: Start, buffer_bytes: int, backoff: Backoff, reports: Reports
    ) -> None:
        self.position: int | None = None
        """Everything recorded before this offset was read; it goes back only where the end of the journal was lost."""
        self.epoch = 0
        """The epoch of the journal to which the position belongs."""
        self.live = False
        """True once the end of the journal was reached."""
        self._access = access
        self._start = start
        self._piece_bytes = max(_LEAST_BYTES, min(FETCH_BYTES, buffer_bytes // 2))
        self._backoff = backoff
        self._reports = reports
        self._prefixes: tuple[str, ...] = ()
        self._sink: MessageStream
        # The id of the journal that is read; empty until a hub has told it. Offsets belong to that one only.
        self._journal_id = b""
        # The epoch to which the offset that is asked for belongs.
        self._asked_epoch = start.epoch
        # Set while the stream has room: a piece is handed on, and the next one asked for, only then.
        self._room = asyncio.Event()
        self._room.set()
        # Done once it is known whether there is a first piece.
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        # How many batches were put; of these, how many were decoded, taken by calls that have returned, and taken by
        # calls before the last one, so that the reader is done with them.
        self._put = self._decoded = self._taken = self._done = 0
        # Offsets that were reached, each with how many batches go before it, and its epoch.
        self._reached: deque[tuple[int, int, int]] = deque()

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

    def release(self, sink: MessageStream, claims: list[Claim]) -> None:  # noqa: ARG002 -- as `Subscriptions`
        self._end()

    def hold(self, sink: MessageStream) -> None:  # noqa: ARG002 -- as `Subscriptions`
        self._room.clear()

    def let_go(self, sink: MessageStream) -> None:  # noqa: ARG002 -- as `Subscriptions`
        self._room.set()

    def decode(self, batch: Batch) -> list[Message]:
        """Decode a batch that is taken."""
        self._decoded += 1
        return decoded(batch, self._reports.decode)

    def taken(self) -> None:
        """Take note that a call has taken what was decoded; the reader is done with what the call before it took."""
        self._done, self._taken = self._taken, self._decoded
        self._advance()

    def _advance(self) -> None:
        reached = self._reached
        while reached and reached[0][0] <= self._done:
            _, self.position, self.epoch = reached.popleft()

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

    async def _run(self) -> None:
        asking: asyncio.Task[Records] | None = None
        try:
            found = await self._begin()
            while True:
                asking = asyncio.create_task(self._next(found))
                asking.add_done_callback(look_at)
                self._hand_on(found)
                found = await asking
                await self._room.wait()
        except HubError as error:
            self.finish(None if isinstance(error, ClosedError) else error)
        except Exception as error:  # noqa: BLE001 -- the reader of the stream must not wait for ever
            _log.exception("a bug of the client, please report it")
            self.finish(InternalError(f"a bug of the client, please report it: {error!r}"))
        finally:
            if asking is not None:
                asking.cancel()

    async def _begin(self) -> Records:
        """Read the first piece: then it is known whether there is one."""
        offset, time_us, _, _ = self._start
        found = await self._fetch(offset, time_us)
        self._journal_id = found.journal or self._access.id
        self._goes_on(found, offset)
        self.position, self.epoch = found.start, found.epoch
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
                elif self._asked_epoch:  # cut back, to where records are deleted by now
                    self._cut(position, error.first)
                else:
                    raise
                # The hub has told this one just now: in the epoch of before it would cut it back, and refuse it again.
                position, self._asked_epoch = error.first, 0
            else:
                self._backoff.reset()
                self._goes_on(found, position)
                return found

    def _goes_on(self, found: Records, position: int) -> None:
        """Keep the epoch of a piece; report it where it begins earlier than it was asked to."""
        self._asked_epoch = found.epoch
        if found.start < position:
            self._cut(position, found.start)

    def _cut(self, position: int, start: int) -> None:
        self._sink.put_break()
        self._reports.cut(range(start, position))

    async def _fetch(self, offset: int, time_us: int | None = None, wait_ms: int = 0) -> Records:
        has_begun = self._begun.done()
        hub, size_bytes = self._start.hub, self._piece_bytes
        fetch = Fetch(1, offset, time_us, None, self._prefixes, size_bytes, wait_ms, hub, self._journal_id)
        fetch = msgspec.structs.replace(fetch, epoch=self._asked_epoch)
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
                self._put += 1
                self._sink.put(batch)
        self._reached.append((self._put, found.next, found.epoch))
        self._advance()
        if found.next >= found.head:
            self.live = True
