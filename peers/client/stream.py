"""`MessageStream`: a subscription that is read by iterating.

A stream holds unread messages up to `buffer_bytes`, packed. Above that the client stops reading its socket: then the
hub's queue for this client fills, and its policy decides. Nothing is dropped on this side. The source of a stream is
held exactly while the stream is full, and let go once half of it was read.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar

from hub.batch import Batch, Message
from hub.errors import ClosedError, UsageError
from peers.client.routes import Claim, Sink, Wanted

if TYPE_CHECKING:
    from peers.client.journal_stream import JournalStream  # it loads blocks

T = TypeVar("T")


class Opened(ABC):
    """Opens as the block begins, and closes, waiting for that, as it ends."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @abstractmethod
    async def open(self) -> None:
        """Open it, for programs that do not write `async with`."""

    @abstractmethod
    async def close(self) -> None:
        """Close it."""


class Items(Opened, Generic[T]):
    """A stream whose `receive` raises `ClosedError` at the end."""

    @abstractmethod
    async def receive(self) -> T:
        """Return the oldest item, waiting for one."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.receive()
        except ClosedError:
            raise StopAsyncIteration from None


Decode = Callable[[Batch], list[Message]]
"""Makes the messages of a batch, when they are read; reports by itself what is not msgpack."""

_TAKE_BYTES = 256 * 1024
"""How much of what waits is decoded in one go: about 10 ms of small values, so that the loop stays responsive."""


class _Mark(Enum):
    BREAK = "the connection was lost here"


_BREAK: Final = _Mark.BREAK


class Source(Protocol):
    """Where the messages of a stream come from: `Subscriptions`, or a `JournalStream`."""

    async def open(self, sink: MessageStream, wants: Iterable[Wanted]) -> list[Claim]: ...

    def release(self, sink: MessageStream, claims: list[Claim]) -> asyncio.Future[Any] | None:
        """Bring nothing more; return a future that is done when the hub knows it, too."""

    def hold(self, sink: MessageStream) -> None:
        """Bring nothing more for now: the stream is full."""

    def let_go(self, sink: MessageStream) -> None:
        """Bring messages again: the stream has room."""


class MessageStream(Opened, Sink):
    """Messages under some prefixes, oldest first.

    Made by `Client.subscribe`; use it with `async with`, or call `open` and `close`. One message is given to one
    reader; several readers share a stream.
    """

    lost_messages: int
    """How many messages of this client the hub has lost before the message that was read last.

    The hub counts for the client as a whole; with several subscriptions, those lost may belong to another. Of a stream
    that is read from the journal: how many records, of whatever topics, were deleted before it came to them."""

    breaks: int
    """How often the connection was lost, and made anew, before the message that was read last.

    What was published in between is missing; it is unknown how much that is. A stream that is read from the journal
    goes on where it was; it counts how often the end of the journal was lost, so that what comes next has offsets that
    others had before."""

    buffered_bytes: int
    """How much waits to be read, bytes."""

    def __init__(
        self,
        source: Source,
        prefixes: tuple[Wanted, ...],
        decode: Decode,
        buffer_bytes: int,
        journal: JournalStream | None = None,
    ) -> None:
        self.prefixes = prefixes
        self.lost_messages = self.breaks = self.buffered_bytes = 0
        self._source = source
        self._decode = decode
        self._buffer_bytes = buffer_bytes
        self._journal = journal
        # The claims on what it subscribes to; None before `open`.
        self._claims: list[Claim] | None = None
        self._held = False
        # True once nothing more is taken in.
        self._finished = False
        # The reason for that; None before the end, and where it was asked for.
        self._error: Exception | None = None
        # What waits: batches, and marks between them. A number is a gap of so many messages.
        self._items: deque[Batch | int | _Mark] = deque()
        # Messages that were decoded for `receive`, the oldest last.
        self._ready: list[Message] = []
        # Set while there is something to read, or nothing more comes.
        self._something = asyncio.Event()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close_nowait()

    def __aiter__(self) -> Self:
        self._check_open()
        return self

    def __anext__(self) -> Coroutine[Any, Any, Message]:
        self._check_open()
        return self._next()

    @property
    def live(self) -> bool:
        """Whether a stream that reads the journal has come to its end once; a stream without history is always live."""
        return self._journal is None or self._journal.live

    @property
    def position(self) -> int | None:
        """Of a stream that is read from the journal: everything recorded before this offset was read; None of others.

        A stream that is subscribed to from here, with `epoch`, misses nothing; what was read last may come again.
        """
        return self._journal.position if self._journal is not None else None

    @property
    def epoch(self) -> int:
        """The epoch of the journal to which `position` belongs, to be kept with it; 0 if it is not known."""
        return self._journal.epoch if self._journal is not None else 0

    @property
    def opened(self) -> bool:
        """Whether it was opened, or closed: otherwise reading would wait for ever, and raises."""
        return self._claims is not None or self._finished

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: the stream or the client is closed, and all is read."""
        return self._finished and not self._items and not self._ready

    async def open(self) -> None:
        """Subscribe, and wait for the hub's confirmation.

        Raises:
            InvalidTopicError: One of the prefixes is none.
            GoneError: Where it is to begin was deleted from the journal, or is not there yet.
            RejectedError: The hub refuses; the text says why.
            ClosedError, PeerError: The client is closed, or has ended with an error.
            UsageError: The stream was opened before.
        """
        if self._claims is not None:
            raise UsageError("a stream is opened once; subscribe again for another one")
        self._claims = []
        self._claims = await self._source.open(self, self.prefixes)

    async def receive(self) -> Message:
        """Return the oldest message, waiting for one.

        Cancellation: loses nothing.

        Raises:
            ClosedError: None will come.
            PeerError: The connection is lost for good; raised when everything that had come was read.
            UsageError: The stream was not opened.
        """
        self._check_open()
        try:
            return await self._next()
        except StopAsyncIteration:
            raise ClosedError("the stream is closed") from None

    async def _next(self) -> Message:
        if not self._ready:
            messages = await self.batch()
            if not messages:
                raise StopAsyncIteration
            messages.reverse()
            self._ready = messages
        return self._ready.pop()

    async def batch(self) -> list[Message]:
        """Wait for messages and return all that are there, up to about 256 KiB; empty only at the end.

        The cheapest way to read: one call for many messages. `lost_messages` and `breaks` hold for the first of them,
        and nothing is missing between them.

        Cancellation: loses nothing.

        Raises:
            PeerError: The connection is lost for good; raised when everything that had come was read.
            UsageError: The stream was not opened.
        """
        self._check_open()
        while True:
            messages = self.batch_nowait()
            if messages:
                return messages
            if self._finished and not self._items:
                if self._error is not None:
                    raise self._error.with_traceback(None)  # else each call would lengthen it
                return []
            await self._something.wait()

    def batch_nowait(self) -> list[Message]:
        """Return the messages that are there, as `batch`, empty if there is none."""
        self._check_open()
        if self._ready:
            ready, self._ready = self._ready, []
            ready.reverse()
            return ready
        messages: list[Message] = []
        taken_bytes = 0
        items = self._items
        while items and taken_bytes < _TAKE_BYTES:
            item = items[0]
            if isinstance(item, Batch):
                messages += self._decode(item)
                taken_bytes += item.size_bytes
            elif messages:
                break
            elif item is _BREAK:
                self.breaks += 1
            else:
                self.lost_messages += item
            items.popleft()
        self.buffered_bytes -= taken_bytes
        if not items and not self._finished:
            self._something.clear()
        self._taken()
        return messages

    def close_nowait(self) -> None:
        """Unsubscribe and throw away what was not read; do not wait for the hub."""
        self._release()

    async def close(self) -> None:
        """Unsubscribe, throw away what was not read, and wait until the hub has confirmed."""
        answer = self._release()
        if answer is not None:
            await asyncio.wait([answer])

    def _check_open(self) -> None:
        if not self.opened:
            raise UsageError(
                "the stream is not open, nothing comes: write `async with client.subscribe(...) as messages:` "
                "and iterate over `messages`, or `await stream.open()` first"
            )

    def _release(self) -> asyncio.Future[Any] | None:
        answer = self._source.release(self, self._claims or [])
        self._items.clear()
        self._ready.clear()
        self.buffered_bytes = 0
        self.finish(None)
        self._taken()
        return answer

    def _taken(self) -> None:
        """Tell the source that something was taken, or was not there."""
        if self._journal is not None:
            self._journal.taken()
        if self._held and self.buffered_bytes <= self._buffer_bytes // 2:
            self._held = False
            self._source.let_go(self)

    def put(self, batch: Batch) -> None:
        if self._finished:
            return
        self._items.append(batch)
        self.buffered_bytes += batch.size_bytes
        self._something.set()
        if self.buffered_bytes > self._buffer_bytes and not self._held:
            self._held = True
            self._source.hold(self)

    def put_gap(self, lost_messages: int) -> None:
        self._items.append(lost_messages)

    def put_break(self) -> None:
        self._items.append(_BREAK)

    def finish(self, error: Exception | None) -> None:
        """Take nothing more; `error` is raised once the reader has read what is here."""
        if not self._finished:
            self._finished = True
            self._error = error
            self._something.set()
