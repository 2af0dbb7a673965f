"""The journal of a hub: `JournalAccess`, a client's requests; `History`, a range; `JournalStream`, an endless source.

```
client.read("/zeek/", start=0) ─▶ FETCH, FETCH, ... each sent while the piece before is processed
client.subscribe(..., from_offset=0) ─▶ FETCH with a time to wait ─▶ RECORDS: at once, or with the next commit
```

Each request is answered once. A FETCH that was lost with its connection is sent again over the next one, since it
changes nothing; a STAGE or COMMIT is not. Nor is a FETCH of the hub's own journal if the next hub has another journal,
where the same offsets are other records. Cost: of blocks, about 0.1 µs a record of 100 bytes; of records, about 1 µs
more each. Why there is no live subscription behind a stream of the journal: docs/adr/0035.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from hub.errors import (
    CloseCode,
    ClosedError,
    ConnectionLostError,
    GoneError,
    HubError,
    InternalError,
    RejectedError,
    UsageError,
)
from hub.journal.block import Block, to_frames
from hub.journal.layout import COLUMNS, Column, whole_of
from hub.journal.message import RecordedMessage
from hub.messages.batch import Batch, Message
from hub.topics import check_prefix
from peers.client.conversation import ABNORMAL, JOURNAL, Numbers, Verb
from peers.client.reports import Reports
from peers.client.routes import Claim, Wanted
from peers.client.stream import MessageStream
from peers.client.values import BadMessage, decode_batch, decode_body
from peers.transport.timing import Backoff
from peers.wire.control import Notice
from peers.wire.hello import Hello
from peers.wire.records import END_OF_TIME_US, FETCH_BYTES, FETCH_WAIT_LIMIT_MS, REPLACED, Commit, Fetch, Records, Stage

if TYPE_CHECKING:
    from peers.client.connection import Connection

_AGAIN_S = (0.05, 0.2, 1.0)  # Pauses before a FETCH that the hub could not answer now is sent again
_NOT_NOW = frozenset({CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY})

_WAIT_MS = 30_000  # How long the hub waits for an end that is to come, before it is asked again
_LEAST_BYTES = 16 * 1024
"""Smallest piece of a stream, bytes: a smaller one comes no sooner, however small the buffer is."""

_NUMBER_BYTES = 8

_LOST = (
    "records before offset {start} were lost when the hub lost power; records that reuse these offsets begin at {end}"
)

_log = logging.getLogger("peers.client")


class JournalState(NamedTuple):
    """The range of a hub's journal."""

    id: bytes  # Id of the journal, 16 bytes, made with it
    first: int  # The oldest offset that is retained
    head: int  # The offset behind the newest record that is committed
    epoch: int = 0
    """The epoch of the journal: `read` takes it with an offset, and raises if records before that offset are lost."""


class Committed(NamedTuple):
    """The outcome of a COMMIT."""

    first: int  # Offset of its first message
    messages: int
    again: bool  # Whether it had been committed before, so that nothing was done


class _Request(NamedTuple):
    answer: asyncio.Future[Records | Notice | HubError]
    verb: Verb
    repeat: bool  # Whether it is sent again over the next connection
    is_own: bool  # Whether it is about the journal of the hub that is connected, not about that of another one
    patient: bool  # Whether a full stream of the client may keep the answer from being read


class JournalAccess:
    """The requests of one client."""

    def __init__(self) -> None:
        self.id = b""  # Id of the journal of the hub that is connected, or was last; empty if it has none
        self.streams: set[JournalStream] = set()  # Open streams; they end with the client
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        # Requests that were not answered, by number; also those that wait for a connection.
        self._requests: dict[int, _Request] = {}
        self._numbers = Numbers(JOURNAL)
        self._closed: HubError | None = None

    @property
    def waiting(self) -> bool:
        return any(not request.patient for request in self._requests.values())

    async def fetch(self, fetch: Fetch, *, patient: bool = False) -> Records:
        """Read a piece; raises as `Client.read`. Cancellation: a FETCH that waits at the hub is cancelled there, too.

        `patient`: Whether a full stream of the client may keep the answer from being read.
        """
        pauses = iter(_AGAIN_S)
        while True:
            number = self._numbers.next()
            verb = msgspec.structs.replace(fetch, request=number)
            answer = await self._ask(verb, repeat=True, is_own=not fetch.hub, patient=patient)
            if isinstance(answer, Records):
                return answer
            pause_s = next(pauses, None) if answer.code in _NOT_NOW else None
            if pause_s is None:
                raise _error(answer)
            await asyncio.sleep(pause_s)

    async def stage(self, stage: Stage) -> None:
        """Send messages that wait for their COMMIT; raises as `Client.stage`."""
        await self._done(stage._replace(request=self._numbers.next()))

    async def commit(self, commit: Commit) -> Committed:
        """Publish and record the staged messages; raises as `Client.commit`."""
        notice = await self._done(msgspec.structs.replace(commit, request=self._numbers.next()))
        return Committed(notice.offset or 0, notice.count, notice.again)

    async def _done(self, verb: Stage | Commit) -> Notice:
        answer = await self._ask(verb, repeat=False)
        if isinstance(answer, Notice) and answer.kind != "error":
            return answer
        raise _error(answer) if isinstance(answer, Notice) else RejectedError(CloseCode.BAD_DATA, "no answer to that")

    async def _ask(
        self, verb: Fetch | Stage | Commit, *, repeat: bool, is_own: bool = True, patient: bool = False
    ) -> Records | Notice:
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        if self._connection is None and not repeat:
            raise ConnectionLostError(ABNORMAL, "there is no connection now")
        request = _Request(self._loop.create_future(), verb, repeat, is_own, patient)
        self._requests[verb.request] = request
        try:
            if self._connection is not None:
                self._connection.say(verb)
            outcome = await request.answer
        except asyncio.CancelledError:
            if isinstance(verb, Fetch) and verb.wait_ms and self._connection is not None:
                # Another FETCH of the same number takes the place of the one that waits.
                self._connection.say(Fetch(verb.request, time=END_OF_TIME_US, bytes=0))
            raise
        finally:
            self._requests.pop(verb.request, None)
        if isinstance(outcome, HubError):
            raise outcome.with_traceback(None)
        return outcome

    def receive(self, answer: Records | Notice) -> None:
        request = self._requests.get(answer.request)
        if request is not None and not request.answer.done():
            request.answer.set_result(answer)

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Send unanswered requests again, if the hub has the same journal."""
        self._connection = connection
        if self.id not in {b"", hello.journal}:
            self._answer_all(_replaced(), own_only=True)
        self.id = hello.journal
        for request in list(self._requests.values()):
            if request.repeat and not request.answer.done():
                connection.say(request.verb)

    def disconnected(self) -> None:
        self._connection = None
        error = ConnectionLostError(ABNORMAL, "the connection was lost before the hub answered")
        for request in self._requests.values():
            if not request.repeat and not request.answer.done():
                request.answer.set_result(error)

    def finish(self, ended: HubError) -> None:
        self._closed = ended
        self._connection = None
        self._answer_all(ended)
        for stream in list(self.streams):
            stream.finish(None if isinstance(ended, ClosedError) else ended)

    def _answer_all(self, error: HubError, *, own_only: bool = False) -> None:
        for request in self._requests.values():
            if (request.is_own or not own_only) and not request.answer.done():
                request.answer.set_result(error)


def _replaced() -> RejectedError:
    return RejectedError(CloseCode.GONE, REPLACED)


def _error(notice: Notice) -> RejectedError:
    if notice.code == CloseCode.GONE and notice.offset is not None:
        return GoneError(notice.text, notice.offset)
    return RejectedError(notice.code, notice.text)


def time_us(time: datetime | None) -> int | None:
    """Return a time in µs since 1970; without a zone it is local time."""
    return None if time is None else round(time.timestamp() * 1_000_000)


def _look_at(asking: asyncio.Future[Records]) -> None:
    """Retrieve the error of a request whose reader has stopped: else asyncio logs it."""
    if not asking.cancelled():
        asking.exception()


class Record(NamedTuple):
    """A message of the journal. A column that was not asked for is 0, empty, or None."""

    offset: int
    time_us: int  # Time at which the hub took the message, µs since 1970 UTC
    topic: str
    value: Any


class History:
    """A range of the journal, read by iterating: it holds two pieces at most. Made by `Client.read`."""

    def __init__(  # noqa: PLR0913 -- one argument of `Client.read` each
        self,
        access: JournalAccess,
        prefixes: tuple[str, ...],
        *,
        start: int,
        epoch: int = 0,
        end: int | None,
        start_time: datetime | None,
        piece_bytes: int,
        hub: str = "",
        columns: Collection[Column] | None = None,
        on_bad: Callable[[BadMessage], None],
    ) -> None:
        unknown = [column for column in columns or () if column not in COLUMNS]
        if unknown:
            raise UsageError(f"there is no column {unknown[0]!r}: there are {', '.join(COLUMNS)}")
        self._access = access
        self._prefixes = tuple(check_prefix(prefix) for prefix in prefixes) or ("",)
        self._time = time_us(start_time)
        self._end = end
        self._piece_bytes = piece_bytes
        self._on_bad = on_bad
        self.columns = None if columns is None else tuple(column for column in COLUMNS if column in columns)
        """The columns of the records; None for all."""
        self.hub = hub  # The hub whose journal is read; empty for the one that is connected
        self.epoch = epoch  # The epoch of the journal to which `next` belongs; 0 if it is not known
        self.next = start  # The offset at which reading goes on: everything before it was read

    async def pieces(self) -> AsyncIterator[Records]:
        """Yield the hub's answers, one after the other; raises as `Client.read`."""
        journal_id = b""
        start, time = self.next, self._time
        asking = self._ask(start, journal_id, time)
        try:
            while True:
                found = await asking
                if time is None and found.start < start:
                    raise GoneError(_LOST.format(start=start, end=found.start), found.start)
                start, time, self.epoch = found.next, None, found.epoch
                told = found.journal or self._access.id
                if told != (journal_id or told):
                    raise _replaced()
                journal_id = told
                if self._end is None:
                    self._end = found.head
                done = found.next >= self._end
                if not done:
                    asking = self._ask(found.next, journal_id, wait_ms=_WAIT_MS if found.next == found.head else 0)
                yield found
                self.next = found.next
                if done:
                    return
        finally:
            asking.cancel()

    def _ask(self, start: int, journal_id: bytes, time: int | None = None, wait_ms: int = 0) -> asyncio.Task[Records]:
        fetch = Fetch(
            1,
            start,
            time,
            self._end,
            self._prefixes,
            self._piece_bytes or FETCH_BYTES,
            wait_ms,
            self.hub,
            journal_id,
            self.columns,
            self.epoch,
        )
        asking = asyncio.get_running_loop().create_task(self._access.fetch(fetch))
        asking.add_done_callback(_look_at)
        return asking

    async def blocks(self, *, verify: bool = False) -> AsyncIterator[Block]:
        """Yield blocks (`hub.journal.block.Block`): columns without an object for each record.

        Args:
            verify: Whether to compare the checksum here too; the hub did when it read them.

        Raises:
            JournalCorruptError: An answer is no block. Other errors are those of `Client.read`.
        """
        async for found in self.pieces():
            for data in found.blocks:
                yield Block.parse(whole_of(data), verify=verify)

    async def __aiter__(self) -> AsyncIterator[Record]:
        async for block in self.blocks():
            for record in records_of(block, self._on_bad, self.columns):
                yield record


def records_of(
    block: Block, on_bad: Callable[[BadMessage], None], columns: tuple[Column, ...] | None = None
) -> Iterator[Record]:
    """Yield the readable records of a block with their values; report the others."""
    has_offset, has_time, has_topic, has_value = (columns is None or column in columns for column in COLUMNS)
    for offset, at_us, topic, encoding, body in block.records():
        try:
            value = decode_body(encoding, body) if has_value else None
        except ValueError as error:
            on_bad(BadMessage(topic, body, 1, str(error)))
        else:
            yield Record(offset * has_offset, at_us * has_time, topic * has_topic, value)


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
    for message, offset, at_us in zip(recorded, batch.offsets, batch.times_us, strict=True):
        message.offset = offset
        message.time_us = at_us
    return messages


def _readable(batch: RecordedBatch) -> Iterator[Message]:
    rest: Batch | None = batch
    for offset, at_us in zip(batch.offsets, batch.times_us, strict=True):
        if rest is None:
            return
        first, rest = rest.split(1)
        for topic, value in decode_batch(first)[0]:
            yield RecordedMessage(topic, value, offset, at_us)


def recorded_batches(block: bytes) -> Iterator[RecordedBatch]:
    """Yield the messages of a block, in order."""
    columns = Block.parse(block, verify=False)
    # Numbers are copied, so that a slow reader does not keep the whole block in memory.
    offsets = range(columns.first, columns.next) if columns.offsets is None else array("q", columns.offsets.tobytes())
    times_us = array("q", columns.times.tobytes())
    start = 0
    for frames, messages in to_frames(block):
        end = start + messages
        yield RecordedBatch(frames, offsets[start:end], times_us[start:end])
        start = end


class Start(NamedTuple):
    """The place where a stream begins."""

    offset: int = 0
    time_us: int | None = None
    """A time instead of the offset: the stream begins with the first record that is not older."""
    hub: str = ""  # The hub whose journal is read; empty for the one that is connected
    epoch: int = 0  # The epoch to which the offset belongs; 0 if it is not known


class JournalStream:
    """Reads one stream from the journal, and knows the position of its reader.

    ```
    put, put, reached 120, put, reached 180, put ...        batches in the stream
                    │ decode   decode │ taken               the reader takes some of them
                    ▼                 ▼
                 position 0 ──▶ 120 ──▶ ...                 moves on with the next call: the reader is done with them
    ```

    A slow reader is behind in the journal; where retention has overtaken it, the stream has a gap. Where a hub has lost
    the end of its journal with its power, the stream goes on with the records that have the offsets of the lost ones
    now (docs/adr/0034). A piece is asked for only while the stream is not full, so it holds its `buffer_bytes` and two
    pieces of half of that.
    """

    def __init__(
        self, access: JournalAccess, start: Start, buffer_bytes: int, backoff: Backoff, reports: Reports
    ) -> None:
        # All records before this offset were read; it goes back only where the end of the journal was lost.
        self.position: int | None = None
        self.epoch = 0  # The epoch of the journal to which the position belongs
        self.live = False  # True once the end of the journal was reached
        self._access = access
        self._start = start
        self._piece_bytes = max(_LEAST_BYTES, min(FETCH_BYTES, buffer_bytes // 2))
        self._backoff = backoff
        self._reports = reports
        self._prefixes: tuple[str, ...] = ()
        self._sink: MessageStream
        # The id of the journal that is read; empty until a hub has sent it. Offsets belong to that one only.
        self._journal_id = b""
        self._asked_epoch = start.epoch  # The epoch to which the offset of the next FETCH belongs
        # Set while the stream has room: a piece is handed on, and the next one asked for, only then.
        self._room = asyncio.Event()
        self._room.set()
        # Done once it is known whether there is a first piece.
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        # How many batches were put; of these, how many were decoded, taken by calls that have returned, and taken by
        # calls before the last one, so that the reader is done with them.
        self._put = self._decoded = self._taken = self._done = 0
        # Offsets that were reached, each with the number of batches before it, and its epoch.
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

    # As `Subscriptions`.

    def release(self, sink: MessageStream, claims: list[Claim]) -> None:  # noqa: ARG002
        self._end()

    def hold(self, sink: MessageStream) -> None:  # noqa: ARG002
        self._room.clear()

    def let_go(self, sink: MessageStream) -> None:  # noqa: ARG002
        self._room.set()

    def decode(self, batch: Batch) -> list[Message]:
        """Decode a batch that is taken."""
        self._decoded += 1
        return decoded(batch, self._reports.decode)

    def taken(self) -> None:
        """A call has taken the decoded batches; the reader is done with those of the call before."""
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
                asking.add_done_callback(_look_at)
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
        offset, at_us, _, _ = self._start
        found = await self._fetch(offset, at_us)
        self._journal_id = found.journal or self._access.id
        self._goes_on(found, offset)
        self.position, self.epoch = found.start, found.epoch
        if not self._begun.done():
            self._begun.set_result(None)
        return found

    async def _next(self, found: Records) -> Records:
        """Read the piece behind another one, which is handed on meanwhile; wait where that was the last."""
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
                # The hub has just sent this offset: in the epoch of before it would cut it back, and refuse it again.
                position, self._asked_epoch = error.first, 0
            else:
                self._backoff.reset()
                self._goes_on(found, position)
                return found

    def _goes_on(self, found: Records, position: int) -> None:
        """Keep the epoch of a piece; report it where the piece begins earlier than `position`."""
        self._asked_epoch = found.epoch
        if found.start < position:
            self._cut(position, found.start)

    def _cut(self, position: int, start: int) -> None:
        self._sink.put_break()
        self._reports.cut(range(start, position))

    async def _fetch(self, offset: int, at_us: int | None = None, wait_ms: int = 0) -> Records:
        has_begun = self._begun.done()
        hub, size_bytes = self._start.hub, self._piece_bytes
        fetch = Fetch(1, offset, at_us, None, self._prefixes, size_bytes, wait_ms, hub, self._journal_id)
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
