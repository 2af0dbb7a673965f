"""What a client asks of a journal: `JournalAccess`, its requests; `History`, a range read by iterating over it.

```
client.read("/zeek/", start=0) ─▶ FETCH, FETCH, ... each asked for while the one before is worked on
      async for record in history                Record(offset, time_us, topic, value)
      async for block in history.blocks()        hub.journal.block.Block, columns without an object for each record
```

Each request is answered once. A FETCH that was lost with its connection is sent again over the next one, since it
changes nothing; a STAGE or COMMIT is not. Nor is a FETCH of the hub's own journal if the next hub has another journal,
where the same offsets are other records. A history holds two pieces at most, and waits for an end that is to come.
Cost: of blocks, about 0.1 µs a record of 100 bytes; of records, about 1 µs more each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hub.errors import CloseCode, ClosedError, ConnectionLostError, GoneError, HubError, RejectedError, UsageError
from hub.journal.layout import COLUMNS, Column
from hub.topics import check_prefix
from peers.client.conversation import ABNORMAL, JOURNAL, Numbers, Verb
from peers.client.values import BadMessage, decode_body
from peers.wire.control import Notice
from peers.wire.hello import Hello
from peers.wire.records import END_OF_TIME_US, FETCH_BYTES, REPLACED, Commit, Fetch, Records, Stage

if TYPE_CHECKING:
    from hub.journal.block import Block
    from peers.client.connection import Connection
    from peers.client.journal_stream import JournalStream

_AGAIN_S = (0.05, 0.2, 1.0)
"""Pauses before a FETCH that the hub could not answer now is sent again."""

_ASK_AGAIN = frozenset({CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY})

_WAIT_MS = 30_000
"""How long the hub waits for an end that is to come, before it is asked again."""


_LOST = "records before offset {start} were lost when the hub lost power; what has their offsets now begins at {end}"


class JournalState(NamedTuple):
    """How far a hub's journal reaches."""

    id: bytes
    """Id of the journal, 16 bytes, made with it."""
    first: int
    """The oldest offset that is retained."""
    head: int
    """The offset behind the newest record that is committed."""
    epoch: int = 0
    """The epoch of the journal: `read` takes it with an offset, and raises if records before that offset are lost."""


class Committed(NamedTuple):
    """The outcome of a COMMIT."""

    first: int
    """Offset of its first message."""
    messages: int
    again: bool
    """Whether it had been committed before, so that nothing was done."""


class _Request(NamedTuple):
    answer: asyncio.Future[Records | Notice | HubError]
    verb: Verb
    repeat: bool
    """Whether it is sent again over the next connection."""
    is_own: bool
    """Whether it is about the journal of the hub that is connected, not about that of another one."""
    patient: bool
    """Whether a full stream of the client may keep the answer from being read."""


class JournalAccess:
    """The requests of one client."""

    def __init__(self, on_waiting: Callable[[], None]) -> None:
        self.id = b""
        """Id of the journal of the hub that is connected, or was last; empty if it has none."""
        self.streams: set[JournalStream] = set()
        """End with the client."""
        self._on_waiting = on_waiting
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
        """Read a piece. Cancellation: a FETCH that waits at the hub is given up there, too.

        Args:
            fetch: The request, which is numbered here.
            patient: Whether a full stream of the client may keep the answer from being read.

        Raises:
            GoneError: The offset is not in the journal.
            RejectedError: The hub has no journal, or cannot read it.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        pauses = iter(_AGAIN_S)
        while True:
            number = self._numbers.next()
            verb = msgspec.structs.replace(fetch, request=number)
            answer = await self._ask(verb, repeat=True, is_own=not fetch.hub, patient=patient)
            if isinstance(answer, Records):
                return answer
            pause_s = next(pauses, None) if answer.code in _ASK_AGAIN else None
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
        self._on_waiting()
        self._send(verb)
        try:
            outcome = await request.answer
        except asyncio.CancelledError:
            if isinstance(verb, Fetch) and verb.wait_ms:
                self._send(
                    Fetch(verb.request, time=END_OF_TIME_US, bytes=0)
                )  # the hub waits no longer under its number
            raise
        finally:
            self._requests.pop(verb.request, None)
            self._on_waiting()
        if isinstance(outcome, HubError):
            raise outcome.with_traceback(None)
        return outcome

    def _send(self, verb: Verb) -> None:
        connection = self._connection
        if connection is not None:
            connection.conversation.say(verb)
            connection.write_outgoing()

    def receive(self, answer: Records | Notice) -> None:
        request = self._requests.get(answer.request)
        if request is not None and not request.answer.done():
            request.answer.set_result(answer)

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Send again what the last connection has not answered, if the hub has the same journal."""
        self._connection = connection
        if self.id not in {b"", hello.journal}:
            self._answer_all(replaced(), own_only=True)
        self.id = hello.journal
        for request in list(self._requests.values()):
            if request.repeat and not request.answer.done():
                self._send(request.verb)

    def disconnected(self, *, again: bool) -> None:  # noqa: ARG002 -- as all parts
        self._connection = None
        error = ConnectionLostError(ABNORMAL, "the connection was lost before the hub answered")
        for request in self._requests.values():
            if not request.repeat and not request.answer.done():
                request.answer.set_result(error)

    def finish(self, ended: HubError) -> None:
        self._closed = ended
        self._connection = None
        self._answer_all(self._closed)
        for stream in list(self.streams):
            stream.finish(None if isinstance(ended, ClosedError) else ended)

    def _answer_all(self, error: HubError, *, own_only: bool = False) -> None:
        for request in self._requests.values():
            if (request.is_own or not own_only) and not request.answer.done():
                request.answer.set_result(error)


def replaced() -> RejectedError:
    return RejectedError(CloseCode.GONE, REPLACED)


def _error(notice: Notice) -> RejectedError:
    if notice.code == CloseCode.GONE and notice.offset is not None:
        return GoneError(notice.text, notice.offset)
    return RejectedError(notice.code, notice.text)


def time_us(time: datetime | None) -> int | None:
    """Return a time in µs since 1970; without a zone it is local time."""
    return None if time is None else round(time.timestamp() * 1_000_000)


def look_at(asking: asyncio.Future[Records]) -> None:
    """Retrieve the error of a request whose reader has stopped: else asyncio complains of it."""
    if not asking.cancelled():
        asking.exception()


class Record(NamedTuple):
    """A message of the journal. A column that was not asked for is 0, empty, or None."""

    offset: int
    time_us: int
    """Time at which the hub took the message, µs since 1970 UTC."""
    topic: str
    value: Any


class History:
    """A range of the journal, read by iterating. Made by `Client.read`, whose arguments it has."""

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
        self._access = access
        self._prefixes = tuple(check_prefix(prefix) for prefix in prefixes) or ("",)
        self._time = time_us(start_time)
        self._end = end
        self._piece_bytes = piece_bytes
        self._on_bad = on_bad
        self.columns = _checked(columns)
        """The columns of the records; None for all."""
        self.hub = hub
        """The hub whose journal is read; empty for the one that is connected."""
        self.epoch = epoch
        """The epoch of the journal to which `next` belongs; 0 if it is not known."""
        self.next = start
        """The offset at which reading goes on: everything before it was read."""

    async def pieces(self) -> AsyncIterator[Records]:
        """Yield the hub's answers, one after the other.

        Raises:
            GoneError: The start is not in the journal.
            RejectedError, ClosedError, PeerError: As `Client.read`.
        """
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
                    raise replaced()
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
        size_bytes = self._piece_bytes or FETCH_BYTES
        fetch = Fetch(
            1,
            start,
            time,
            self._end,
            self._prefixes,
            size_bytes,
            wait_ms,
            self.hub,
            journal_id,
            self.columns,
            self.epoch,
        )
        asking = asyncio.get_running_loop().create_task(self._access.fetch(fetch))
        asking.add_done_callback(look_at)
        return asking

    async def blocks(self, *, verify: bool = False) -> AsyncIterator[Block]:
        """Yield blocks with columns to be used as they are; those that were not asked for mean nothing.

        Args:
            verify: Whether to compare the checksum here too; the hub did when it read them.

        Raises:
            JournalCorruptError: An answer is no block.
            GoneError, RejectedError, ClosedError, PeerError: As `Client.read`.
        """
        from hub.journal.block import Block  # noqa: PLC0415 -- loaded late
        from hub.journal.layout import whole_of  # noqa: PLC0415 -- the same

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
    """Yield the records of a block with their values; report those that cannot be read, and leave them out."""
    has_offset, has_time, has_topic, has_value = (columns is None or column in columns for column in COLUMNS)
    for offset, at_us, topic, encoding, body in block.records():
        try:
            value = decode_body(encoding, body) if has_value else None
        except ValueError as error:
            on_bad(BadMessage(topic, body, 1, str(error)))
        else:
            yield Record(offset * has_offset, at_us * has_time, topic * has_topic, value)


def _checked(columns: Collection[Column] | None) -> tuple[Column, ...] | None:
    unknown = [column for column in columns or () if column not in COLUMNS]
    if unknown:
        raise UsageError(f"there is no column {unknown[0]!r}: there are {', '.join(COLUMNS)}")
    return None if columns is None else tuple(column for column in COLUMNS if column in columns)
