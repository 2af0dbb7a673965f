"""`FollowingStream`: history from the hub's journal, then live, without a gap and without a duplicate at the seam.

```
CATCHING_UP   FETCH, FETCH, ... ─▶ inbox            nearly at the end of the journal: subscribe
CROSSING      live ─▶ put aside; FETCH up to where the subscription began ─▶ inbox; then what was put aside ─▶ inbox
LIVE          live ─▶ inbox
              lost connection, lost messages, too much put aside while CROSSING: back to CATCHING_UP
```

The hub tells with its confirmation at which offset a subscription begins: everything before it is history, everything
from it on comes live. That holds for what a connection has not subscribed to before, so that such a stream has a
connection of its own, and takes another one when it goes back.

Owner: one reader. Bound: `buffer_bytes` and one piece of history wait to be read, as much again is put aside. What is
lost while the seam is crossed is read from the journal instead; once the stream is live, losses are told as always.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple, Protocol, cast

from hub.batch import Batch
from hub.errors import CloseCode, ConnectionLostError, HubError, RejectedError, UsageError
from hub.journal.block import to_frames
from hub.topics import check_prefix
from peers.backoff import Backoff
from peers.client.journal import JournalAccess, replaced
from peers.client.stream import Decode, MessageStream
from peers.client.subscriptions import Subscriptions
from peers.wire.records import FETCH_BYTES, Fetch, Records

__all__ = ["FollowingStream", "Line", "Past"]

_NEAR_RECORDS = 8_192
"""So near the end of the journal the stream subscribes: a full block is read in milliseconds."""


class Past(NamedTuple):
    """Where history begins."""

    offset: int = 0
    time_us: int | None = None
    """Instead of `offset`: µs since 1970."""


class Line(Protocol):
    """A connection of the stream's own: another `Client`."""

    @property
    def subscriptions(self) -> Subscriptions:
        """Its subscriptions."""

    @property
    def access(self) -> JournalAccess:
        """What it asks of the journal."""

    async def close(self) -> None:
        """End it."""


class _State(Enum):
    CATCHING_UP = "reading history"
    CROSSING = "between history and live"
    LIVE = "live"


class FollowingStream(MessageStream):
    """Messages under some prefixes, from a place in the journal on.

    Args:
        dial: Makes the connection.
        prefixes: What to read.
        decode: From a batch to messages.
        past: Where to begin.
        buffer_bytes: Held, unread, before the stream asks for no more.
    """

    __slots__ = ("_aside", "_aside_bytes", "_broken", "_dial", "_line", "_next", "_room", "_state", "_task", "_time_us")

    def __init__(
        self,
        dial: Callable[[], Awaitable[Line]],
        prefixes: tuple[str, ...],
        decode: Decode,
        past: Past,
        buffer_bytes: int,
    ) -> None:
        checked = tuple(check_prefix(prefix) for prefix in prefixes)
        super().__init__(cast("Subscriptions", None), checked, decode, buffer_bytes)  # its own, once there is a line
        self._dial = dial
        self._line: Line | None = None
        self._next = past.offset
        self._time_us = past.time_us
        self._state = _State.CATCHING_UP
        self._aside: list[Batch] = []
        self._aside_bytes = 0
        self._broken = False  # what was put aside is not all
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def live(self) -> bool:
        """Whether all history was handed out."""
        return self._state is _State.LIVE

    @property
    def position(self) -> int:
        """The offset up to which history was handed out; once the stream is live, where that began."""
        return self._next

    async def open(self) -> None:
        """Connect, and read the first piece of history.

        Raises:
            GoneError: The beginning was deleted, or is not there yet.
            RejectedError: The hub has no journal, or cannot read it.
            ConnectionLostError, ProtocolError: There is no connection.
            UsageError: The stream was opened before.
        """
        if self._line is not None:
            raise UsageError("a stream is opened once; subscribe again for another one")
        line = self._line = await self._dial()
        try:
            self._take_history(await line.access.fetch(self._fetch(None)))
        except BaseException:
            await line.close()
            raise
        self._task = asyncio.get_running_loop().create_task(self._follow(line))

    async def _follow(self, line: Line) -> None:
        try:
            while True:
                await self._catch_up(line)
                await self._cross(line)
                if self.live:
                    return
                await line.close()
                journal_id = line.access.id
                line = self._line = await self._redial()
                if line.access.id != journal_id:
                    raise replaced()
        except HubError as error:
            self._inbox.finish(error)

    async def _redial(self) -> Line:
        """Make another connection, sooner or later."""
        backoff = Backoff()
        while True:
            with suppress(ConnectionLostError):
                return await self._dial()
            await asyncio.sleep(backoff.next_s())

    async def _catch_up(self, line: Line) -> None:
        """Hand out history until little of it is left."""
        self._state = _State.CATCHING_UP
        while True:
            await self._wait_room()
            found = await line.access.fetch(self._fetch(None))
            self._take_history(found)
            if found.head - found.next < _NEAR_RECORDS:
                return

    async def _cross(self, line: Line) -> None:
        """Subscribe, and hand out history up to where that began, and then what has come since."""
        self._state = _State.CROSSING
        self._broken = False
        self._subscriptions = line.subscriptions
        self._claims = await line.subscriptions.open(self, self.prefixes)
        seam = line.subscriptions.began
        if seam is None:
            raise RejectedError(CloseCode.JOURNAL_FAILED, "the hub records nothing now, so that history has no end")
        while self._next < seam and not self._broken:
            found = await line.access.fetch(self._fetch(seam))
            if found.next == self._next:  # the hub has waited for it: the journal has failed, and offsets changed
                self._break_off()
            self._take_history(found)
        aside, self._aside, self._aside_bytes = self._aside, [], 0
        if self._broken:
            self._state = _State.CATCHING_UP
            return
        self._state = _State.LIVE
        for batch in aside:
            self.put(batch)

    def _fetch(self, end: int | None) -> Fetch:
        return Fetch(1, self._next, self._time_us, end, self.prefixes, FETCH_BYTES)

    def _take_history(self, found: Records) -> None:
        for block in found.blocks:
            for frames, messages in to_frames(bytes(block)):
                self._inbox.put(Batch(frames, messages))
        self._next, self._time_us = found.next, None

    async def _wait_room(self) -> None:
        while self._inbox.size_bytes > self._buffer_bytes:
            self._room.clear()
            await self._room.wait()

    def _taken(self) -> None:
        super()._taken()
        self._room.set()

    # As a sink of what comes live.

    def put(self, batch: Batch) -> None:
        """Take messages."""
        if self._state is _State.LIVE:
            super().put(batch)
        elif self._state is _State.CROSSING and not self._broken:
            self._aside.append(batch)
            self._aside_bytes += batch.size_bytes
            if self._aside_bytes > self._buffer_bytes:
                self._break_off()

    def put_gap(self, lost_messages: int) -> None:
        """Messages were lost here: history has them, as long as the stream is not live."""
        if self._state is _State.LIVE:
            super().put_gap(lost_messages)
        else:
            self._break_off()

    def put_break(self) -> None:
        """The connection was lost here: the same."""
        if self._state is _State.LIVE:
            super().put_break()
        else:
            self._break_off()

    def finish(self, error: Exception | None) -> None:
        """Nothing more comes over this connection; before the stream is live, there will be another one."""
        if self._state is _State.LIVE:
            super().finish(error)

    def _break_off(self) -> None:
        self._broken = True
        self._aside, self._aside_bytes = [], 0

    # Ends.

    def close_nowait(self) -> None:
        """End it and throw away what was not read; do not wait for the hub."""
        self._end()

    async def close(self) -> None:
        """End it, throw away what was not read, and close its connection."""
        task = self._end()
        if task is not None:
            await asyncio.wait([task])

    def _end(self) -> asyncio.Task[Any] | None:
        line, self._line = self._line, None
        if self._task is not None:
            self._task.cancel()
        self._inbox.discard()
        return None if line is None else asyncio.get_running_loop().create_task(_closed(line, self._task))


async def _closed(line: Line, task: asyncio.Task[None] | None) -> None:
    if task is not None:
        with suppress(asyncio.CancelledError):
            await task
    await line.close()
