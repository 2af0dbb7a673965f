"""`History`: a range of the hub's journal, read by iterating over it.

```
client.read("/zeek/", start=0) ─▶ FETCH, FETCH, ... each asked for while the one before is worked on
      async for record in history                Record(offset, time_us, topic, value)
      async for block in history.blocks()        hub.journal.block.Block, columns without an object for each record
```

It holds two pieces at most, and goes on where it was after a lost connection, if the hub has the same journal then. An
end that is not committed yet is waited for. Cost: of blocks, about 0.1 µs a record of 100 bytes; of records, about 1 µs
more each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from hub.errors import GoneError, UsageError
from hub.journal.block import Block
from hub.journal.excerpt import whole_of
from hub.journal.layout import COLUMNS, Column
from hub.topics import check_prefix
from peers.client.journal import JournalAccess, look_at, replaced, time_us
from peers.client.values import BadMessage, decode_body
from peers.wire.records import FETCH_BYTES, Fetch, Records

_WAIT_MS = 30_000
"""How long the hub waits for an end that is to come, before it is asked again."""


_LOST = "records before offset {start} were lost when the hub lost power; what has their offsets now begins at {end}"


class Record(NamedTuple):
    """A message of the journal. A column that was not asked for is 0, empty, or None."""

    offset: int
    time_us: int
    """Time at which the hub took the message, µs since 1970 UTC."""
    topic: str
    value: Any


class History:
    """A range of the journal, read by iterating. Made by `Client.read`, whose arguments it has.

    Args:
        access: The requests of the client.
        on_bad: Called with values that cannot be read.
    """

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
