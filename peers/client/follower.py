"""`Follower`: the source of a stream that begins in the journal and goes on live. What to do when is `Following`'s.

```
stream ◀─ pieces ─ reading: a client of its own, that fetches, until the stream is live
       ◀─ live ─── line:    a client of its own, made when the end of the journal is near, and whenever it is lost
```

Where the journal is that of another hub than the one that is connected, or the reader wants an offset for each message,
there is no line: the first one reads on for ever, and is given what is recorded as soon as it is.

Each of the two is a connection of its own (`peers.client.line`), so that a stream that is read slowly, or reads much,
holds up no other.

Owner: one stream. Invariants: those of `Following`; a piece is asked for only while the stream is not full, so that it
holds its `buffer_bytes`, a piece, and as much put aside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from hub.batch import Batch
from hub.errors import CloseCode, ClosedError, ConnectionLostError, HubError, InternalError, RejectedError
from hub.topics import check_prefix
from peers.client.followers import Terms
from peers.client.following import Following, Phase, Want
from peers.client.interest import Claim
from peers.client.journal import journal_of, replaced
from peers.client.line import Line, Subscribing
from peers.client.read_position import ReadPosition
from peers.client.recorded_block import recorded_batches
from peers.client.routes import Wanted
from peers.client.stream import MessageStream
from peers.wire.hello import Hello
from peers.wire.records import FETCH_BYTES, Fetch, Records

__all__ = ["Follower", "Start"]

_WAIT_MS = 1_000
"""Longest wait for records that are not there yet, ms, before it is looked whether it is time to subscribe."""

_LEAST_BYTES = 16 * 1024
"""Smallest piece that is asked for, bytes: a smaller one is no quicker to have, however little the stream holds."""

_FOLLOW_WAIT_MS = 30_000
"""The same, where the stream never subscribes, so that there is nothing to look for."""

_FOLLOW_PAUSE_S = 0.05
"""How long such a stream pauses at the end of the journal before it asks for more, seconds: a hub that records much
else is asked twenty times a second."""

_STABLE_S = 5.0
"""How long a stream must have been live before the backoff begins anew, seconds."""

_NOT_NOW = frozenset({CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY})

_log = logging.getLogger("peers.client")


class Start(NamedTuple):
    """The place where a stream begins."""

    offset: int = 0
    time_us: int | None = None
    """A time instead of the offset: the stream begins with the first record that is not older."""
    hub: str = ""
    """Whose journal that is; empty for that of the hub that is connected."""
    stays: bool = False
    """Whether it reads on in the journal for ever, as what is delivered live has no offset."""


class Follower:
    """Brings one stream from the journal to live.

    Args:
        terms: The terms of its client.
        start: The place where it begins.
        read_position: The position of the reader of the stream.
        buffer_bytes: How much the stream holds.
    """

    def __init__(self, terms: Terms, start: Start, read_position: ReadPosition, buffer_bytes: int) -> None:
        self._terms = terms
        self._start = start
        self._read_position = read_position
        self._buffer_bytes = buffer_bytes
        self._piece_bytes = max(_LEAST_BYTES, min(FETCH_BYTES, buffer_bytes // 2))  # half is read, half asked for
        self._loop = asyncio.get_running_loop()
        # The prefixes of the stream, from `open` on.
        self._prefixes: tuple[str, ...] = ()
        self._sink: MessageStream
        self._state: Following
        # The client that reads the journal; None before the first piece, and while it is not needed.
        self._reading: Line | None = None
        # The client that subscribes, or tries to; None while there is none.
        self._line: Subscribing | None = None
        # The id of the journal that is read; None until a hub has told it. Offsets mean something in that one only.
        self._journal_id: bytes | None = None
        # Whether that is the journal of another hub than the one that is connected, as far as is known: there it cannot
        # be joined.
        self._is_elsewhere = bool(start.hub)
        # Set while the stream has room: a piece is asked for only then.
        self._room = asyncio.Event()
        self._room.set()
        # Set when the client that subscribes is lost; cleared before that is waited for.
        self._lost = asyncio.Event()
        # Until when it is not to be tried to subscribe, by the loop's clock.
        self._rested_s = 0.0
        # When the stream became live last, by the loop's clock.
        self._live_s = 0.0
        # Done once it is known whether there is a first piece: `open` waits for it.
        self._begun: asyncio.Future[None] = self._loop.create_future()
        # True once the stream is released or finished: nothing is handed on any more.
        self._ended = False
        # The task that reads and subscribes; None before `open`.
        self._task: asyncio.Task[None] | None = None
        # Tasks that close connections; `wait_closed` waits for them.
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
        """End both connections: read and subscribe no more."""
        self._end()
        return asyncio.gather(*self._closing, return_exceptions=True) if self._closing else None

    def hold(self, sink: MessageStream) -> None:  # noqa: ARG002 -- as others
        """Ask for nothing more, and read nothing more once the stream is live."""
        self._room.clear()
        if self._line is not None and self._state.is_joined:
            self._line.hold()

    def let_go(self, sink: MessageStream) -> None:  # noqa: ARG002 -- as others
        """Ask and read again, as the stream has room."""
        self._room.set()
        if self._line is not None:
            self._line.let_go()

    # For the client.

    def finish(self, error: HubError | None) -> None:
        """End the stream: nothing more comes."""
        if self._ended:
            return
        if self._begun.done():
            self._sink.finish(error)
        else:
            self._begun.set_exception(error or ClosedError("the client is closed"))
        self._end()

    async def wait_closed(self) -> None:
        """Wait until both connections are closed."""
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
        """Have the first piece: then it is known whether there is one."""
        offset, time_us, hub, stays = self._start
        found = await self._fetch(Fetch(1, offset, time_us, None, self._prefixes, self._piece_bytes, 0, hub, b""))
        told = journal_of(found, hub, self._journal_id or b"")
        self._is_elsewhere = told != self._journal_id
        self._journal_id = told
        self._read_position.begin(found.start)
        self._state = Following(found.start, self._buffer_bytes, joins=not (self._is_elsewhere or stays))
        self._hand_on(found)
        if not self._begun.done():
            self._begun.set_result(None)

    async def _read(self) -> None:
        """Have a piece of the journal, and hand it on."""
        await self._room.wait()
        state = self._state
        wait_ms = 0
        if state.want is Want.MORE:
            if self._is_elsewhere or self._start.stays:
                await asyncio.sleep(_FOLLOW_PAUSE_S)
                wait_ms = _FOLLOW_WAIT_MS
            elif self._rest_s > 0:
                wait_ms = max(1, min(_WAIT_MS, int(self._rest_s * 1000)))
        hub, size_bytes = self._start.hub, self._piece_bytes
        fetch = Fetch(1, state.position, None, state.seam, self._prefixes, size_bytes, wait_ms, hub, self._journal_id)
        self._hand_on(await self._fetch(fetch))

    def _hand_on(self, found: Records) -> None:
        if self._rest_s <= 0:
            self._state.rested()
        for block in found.blocks:
            for batch in recorded_batches(block):
                self._put(batch)
        self._read_position.reached(found.next)
        self._state.fetched(found.next, found.head)
        self._settle()

    def _put(self, batch: Batch) -> None:
        self._read_position.put()
        self._sink.put(batch)

    def _settle(self) -> None:
        """Do what follows from a change of phase."""
        self._read_position.live = self._state.is_live
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
                return await reading.journal.fetch(fetch)
            except RejectedError as error:
                if error.code not in _NOT_NOW or (self._start.hub and not self._begun.done()):
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
        """Check that the connection that reads, made perhaps anew, reaches the same journal as before."""
        if self._journal_id is None:
            self._journal_id = hello.journal
        elif self._is_elsewhere:
            return
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
        line = self._line = Subscribing(self)
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

    def receive(self, line: Subscribing, batch: Batch) -> None:
        """Take messages that were delivered."""
        if line is self._line:
            if self._state.put(batch):
                self._put(batch)
            else:
                self._settle()

    def missed(self, line: Subscribing, messages: int) -> None:
        """Take note that messages were lost on their way here."""
        if line is self._line:
            if self._state.missed():
                self._sink.put_gap(messages)
                self._terms.on_dropped(messages)
            else:
                self._settle()

    def doubt(self, line: Subscribing) -> None:
        """Give the subscription back, as the journal has failed: an offset told before may have been given again."""
        if line is self._line and self._state.phase in {Phase.JOINING, Phase.SEAM}:
            self._state.give_back()
            self._settle()

    def lost(self, line: Subscribing, error: HubError | None) -> None:
        """Take note that a connection that subscribes has ended."""
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
        """Return how long it is not to be tried to subscribe, seconds."""
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


def _ignore(_: Hello) -> None:
    """Do nothing: nobody wants to know that a connection is made."""
