"""`Follower`: the source of a stream that begins in the journal and goes on live. What to do when is `Following`'s.

```
stream ◀─ pieces ─ reading: a client of its own, that fetches, until the stream is live
       ◀─ live ─── line:    a client of its own, made when the end of the journal is near, and whenever it is lost
```

Each of the two is a connection of its own. A line subscribes once in its life, so that all that it brings was recorded
from the offset on that the hub's confirmation bears: over a connection with other subscriptions, messages that were
queued for them could come behind it. And so a stream that is read slowly, or reads much, holds up no other.

Owner: one stream. Invariants: those of `Following`; a piece is asked for only while the stream is not full, so that it
holds its `buffer_bytes`, a piece, and as much put aside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from hub.batch import Batch
from hub.errors import CloseCode, ClosedError, ConnectionLostError, HubError, InternalError, RejectedError
from hub.journal.block import to_frames
from hub.topics import RESERVED, check_prefix
from peers.backoff import Backoff
from peers.client.following import Following, Phase, Want
from peers.client.interest import Claim
from peers.client.journal import JournalAccess, replaced
from peers.client.places import Places
from peers.client.routes import Wanted
from peers.client.stream import MessageStream
from peers.client.subscriptions import Subscriptions
from peers.wire.hello import Hello
from peers.wire.records import FETCH_BYTES, Fetch, Records

__all__ = ["Follower", "Line", "Start", "Terms"]

_JOURNAL_EVENTS = RESERVED + "journal"
"""Where a hub tells that its journal has failed."""

_WAIT_MS = 1_000
"""Longest wait for records that are not there yet, before it is looked whether it is time to subscribe."""

_LEAST_BYTES = 16 * 1024
"""A smaller piece is no quicker to have, however little the stream holds."""

_STABLE_S = 5.0
"""How long it must have been live before the backoff begins anew."""

_NOT_NOW = frozenset({CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY})

_log = logging.getLogger("peers.client")


class Line(Protocol):
    """A client, as far as it is needed here."""

    @property
    def hub(self) -> Hello | None:
        """What the hub has said of itself."""

    @property
    def access(self) -> JournalAccess:
        """To the hub's journal."""

    @property
    def subscriptions(self) -> Subscriptions:
        """What it receives."""

    async def open(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """End the connection."""


class Start(NamedTuple):
    """Where a stream begins."""

    offset: int = 0
    time_us: int | None = None
    """Instead of the offset: with the first record that is not older."""


class Terms(NamedTuple):
    """What a follower is given by its client."""

    connect: Callable[[bool, Callable[[Hello], object]], Line]
    """Makes a client that is not connected yet: whether it reconnects, and what is called when it is connected."""
    again: bool
    """Whether what is lost is made anew."""
    backoff: Backoff
    on_dropped: Callable[[int], None]
    followers: set[Follower]
    """Those that have connections."""


class Follower:
    """Brings one stream from the journal to live.

    Args:
        terms: Of its client.
        start: Where it begins.
        places: Of the stream.
        buffer_bytes: Of the stream.
    """

    def __init__(self, terms: Terms, start: Start, places: Places, buffer_bytes: int) -> None:
        self._terms = terms
        self._start = start
        self._places = places
        self._buffer_bytes = buffer_bytes
        self._piece_bytes = max(_LEAST_BYTES, min(FETCH_BYTES, buffer_bytes // 2))  # half is read, half asked for
        self._loop = asyncio.get_running_loop()
        self._prefixes: tuple[str, ...] = ()
        self._sink: MessageStream
        self._state: Following
        self._reading: Line | None = None
        self._line: _Live | None = None
        self._journal_id: bytes | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._lost = asyncio.Event()
        self._rested_s = 0.0
        self._live_s = 0.0
        self._begun: asyncio.Future[None] = self._loop.create_future()
        self._ended = False
        self._task: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    # For the stream.

    async def open(self, sink: MessageStream, wants: Iterable[Wanted]) -> list[Claim]:
        """Begin to read; raises as `MessageStream.open`. The journal keeps no labels: there are prefixes only."""
        self._sink = sink
        self._prefixes = tuple(dict.fromkeys(check_prefix(want) for want in wants if isinstance(want, str)))
        self._terms.followers.add(self)
        self._task = self._loop.create_task(self._run())
        try:
            await self._begun
        except BaseException:
            self._end()
            raise
        return []

    def release(self, sink: MessageStream, claims: list[Claim]) -> asyncio.Future[Any] | None:  # noqa: ARG002 -- as others
        """Read and subscribe no more."""
        self._end()
        return asyncio.gather(*self._closing, return_exceptions=True) if self._closing else None

    def hold(self, sink: MessageStream) -> None:  # noqa: ARG002 -- as others
        """Ask for nothing more, and once it is live, read nothing more."""
        self._room.clear()
        if self._line is not None and self._state.is_joined:
            self._line.hold()

    def let_go(self, sink: MessageStream) -> None:  # noqa: ARG002 -- as others
        """The opposite."""
        self._room.set()
        if self._line is not None:
            self._line.let_go()

    # For the client.

    def finish(self, error: HubError | None) -> None:
        """Nothing more comes."""
        if self._ended:
            return
        if self._begun.done():
            self._sink.finish(error)
        else:
            self._begun.set_exception(error or ClosedError("the client is closed"))
        self._end()

    async def wait_closed(self) -> None:
        """Wait until its connections are closed."""
        if self._closing:
            await asyncio.wait(self._closing)

    # The way.

    async def _run(self) -> None:
        try:
            await self._begin()
            while True:
                match self._state.want:
                    case Want.PIECE | Want.MORE:
                        await self._read()
                    case Want.LINE:
                        await self._join()
                    case Want.NOTHING:
                        self._drop_reading()
                        self._lost.clear()
                        await self._lost.wait()
        except HubError as error:
            self.finish(error)
        except Exception as error:  # noqa: BLE001 -- whatever it is, who reads the stream must not wait for ever
            _log.exception("a bug of the client, please report it")
            self.finish(InternalError(f"a bug of the client, please report it: {error!r}"))

    async def _begin(self) -> None:
        """Have the first piece: now it is known whether there is one."""
        offset, time_us = self._start
        found = await self._fetch(Fetch(1, offset, time_us, None, self._prefixes, self._piece_bytes))
        self._places.begin(found.start)
        self._state = Following(found.start, self._buffer_bytes)
        self._hand_on(found)
        if not self._begun.done():
            self._begun.set_result(None)

    async def _read(self) -> None:
        """Have a piece of the journal, and hand it on."""
        await self._room.wait()
        state = self._state
        wait_ms = 0
        if state.want is Want.MORE and self._rest_s > 0:
            wait_ms = max(1, min(_WAIT_MS, int(self._rest_s * 1000)))
        fetch = Fetch(1, state.position, None, state.seam, self._prefixes, self._piece_bytes, wait_ms)
        self._hand_on(await self._fetch(fetch))

    def _hand_on(self, found: Records) -> None:
        if self._rest_s <= 0:
            self._state.rested()
        for block in found.blocks:
            for frames, messages in to_frames(block):
                self._put(Batch(frames, messages))
        self._places.reached(found.next)
        self._state.fetched(found.next, found.head)
        self._settle()

    def _put(self, batch: Batch) -> None:
        self._places.put()
        self._sink.put(batch)

    def _settle(self) -> None:
        """Do what follows from a change of phase."""
        self._places.live = self._state.is_joined
        if self._state.phase is Phase.HISTORY:
            self._drop_line()
        elif self._state.phase is Phase.LIVE and self._line is not None:
            self._live_s = self._loop.time()
            for batch in self._state.take_aside():
                self._put(batch)
            if not self._room.is_set():
                self._line.hold()

    # The journal.

    async def _fetch(self, fetch: Fetch) -> Records:
        while True:
            reading = self._reading or await self._connect_reading()
            try:
                return await reading.access.fetch(fetch)
            except RejectedError as error:
                if error.code not in _NOT_NOW:
                    raise
            await asyncio.sleep(self._terms.backoff.next_s())

    async def _connect_reading(self) -> Line:
        while True:
            reading = self._terms.connect(self._terms.again, self._meet)
            try:
                await reading.open()
            except ConnectionLostError:
                if not self._terms.again:
                    raise
            else:
                self._reading = reading
                return reading
            await asyncio.sleep(self._terms.backoff.next_s())

    def _meet(self, hello: Hello) -> None:
        """The connection that reads is made, perhaps anew: offsets mean something in one journal only."""
        if self._journal_id is None:
            self._journal_id = hello.journal
        elif hello.journal != self._journal_id:
            self.finish(replaced())

    def _drop_reading(self) -> None:
        if self._reading is not None:
            self._close(self._reading)
            self._reading = None

    # Live.

    async def _join(self) -> None:
        """Subscribe over a new connection."""
        if self._rest_s > 0:
            await asyncio.sleep(self._rest_s)
        line = self._line = _Live(self)
        try:
            offset = await line.open(self._terms.connect(False, _ignore), self._prefixes)
        except HubError as error:
            if line is self._line and not isinstance(error, ConnectionLostError):
                raise
            self.lost(line, error)
        if line is self._line:
            if self._state.phase is Phase.JOINING and line.journal_id != self._journal_id:
                raise replaced()
            self._state.joined(offset)
            self._settle()

    def receive(self, line: _Live, batch: Batch) -> None:
        """Messages were delivered."""
        if line is self._line:
            if self._state.put(batch):
                self._put(batch)
            else:
                self._settle()

    def missed(self, line: _Live, messages: int) -> None:
        """Messages were lost on their way here."""
        if line is self._line:
            if self._state.missed():
                self._sink.put_gap(messages)
                self._terms.on_dropped(messages)
            else:
                self._settle()

    def doubt(self, line: _Live) -> None:
        """The journal has failed: an offset that was told before may have been given again."""
        if line is self._line and self._state.phase in {Phase.JOINING, Phase.SEAM}:
            self._state.give_back()
            self._settle()

    def lost(self, line: _Live, error: HubError | None) -> None:
        """A connection that subscribes has ended."""
        if line is not self._line:
            return
        if not self._terms.again or not isinstance(error, ConnectionLostError):
            self.finish(error)
            return
        if self._state.phase is Phase.LIVE and self._loop.time() - self._live_s >= _STABLE_S:
            self._terms.backoff.reset()
        if self._state.lost():
            self._sink.put_break()
        self._drop_line()
        self._lost.set()

    def _drop_line(self) -> None:
        """Let a connection that subscribes go; another one is not tried at once."""
        if self._line is None:
            return
        line, self._line = self._line, None
        self._rested_s = self._loop.time() + self._terms.backoff.next_s()
        if line.client is not None:
            self._close(line.client)

    @property
    def _rest_s(self) -> float:
        """How long it is not to be tried to subscribe."""
        return self._rested_s - self._loop.time()

    # Ends.

    def _end(self) -> None:
        self._ended = True
        if self._task is not None:
            self._task.cancel()
        self._drop_line()
        self._drop_reading()
        self._tell_closed()

    def _close(self, line: Line) -> None:
        task = self._loop.create_task(line.close())
        self._closing.add(task)
        task.add_done_callback(self._closed)

    def _closed(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        self._tell_closed()

    def _tell_closed(self) -> None:
        if self._ended and not self._closing:
            self._terms.followers.discard(self)


class _Live:
    """The sink of one connection that subscribes."""

    __slots__ = ("_follower", "client", "journal_id")

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self.client: Line | None = None
        self.journal_id = b""

    async def open(self, client: Line, prefixes: tuple[str, ...]) -> int | None:
        """Subscribe; return the offset where that begins, None if nobody knows.

        Raises:
            RejectedError, ConnectionLostError, ProtocolError: The hub refuses, or there is none.
        """
        await client.open()
        self.client = client
        self.journal_id = client.hub.journal if client.hub is not None else b""
        subscriptions = client.subscriptions
        await subscriptions.open(self, prefixes)
        offset = subscriptions.began
        await subscriptions.open(_Doubts(self._follower, self), (_JOURNAL_EVENTS,))
        still = subscriptions.began
        return None if offset is None or still is None or still < offset else offset

    def hold(self) -> None:
        """Read nothing more."""
        if self.client is not None:
            self.client.subscriptions.hold(self)

    def let_go(self) -> None:
        """Read on."""
        if self.client is not None:
            self.client.subscriptions.let_go(self)

    def put(self, batch: Batch) -> None:
        """Messages were delivered."""
        self._follower.receive(self, batch)

    def put_gap(self, lost_messages: int) -> None:
        """Messages were lost here."""
        self._follower.missed(self, lost_messages)

    def put_break(self) -> None:
        """Never called: such a connection is not made anew."""

    def finish(self, error: Exception | None) -> None:
        """The connection has ended."""
        self._follower.lost(self, error if isinstance(error, HubError) else None)


class _Doubts:
    """The sink of what a hub tells of its journal."""

    __slots__ = ("_follower", "_line")

    def __init__(self, follower: Follower, line: _Live) -> None:
        self._follower = follower
        self._line = line

    def put(self, batch: Batch) -> None:  # noqa: ARG002 -- as others
        """It has failed, or works again."""
        self._follower.doubt(self._line)

    def put_gap(self, lost_messages: int) -> None:
        """The other sink is told, too."""

    def put_break(self) -> None:
        """Never called."""

    def finish(self, error: Exception | None) -> None:
        """The other sink is told, too."""


def _ignore(_: Hello) -> None:
    """A connection is made."""
