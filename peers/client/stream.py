"""`MessageStream`: a subscription that is read by iterating.

A stream holds what it has not been asked for yet up to `buffer_bytes`, packed. Above that the client stops reading its
socket: then the hub's queue for this client fills, and its policy decides. Nothing is dropped on this side.

Owner: one client. Invariants: its source is held exactly while it is full, and let go once half of it was read. Not
here: who is asked for what (`peers.client.subscriptions`), reading the journal (`peers.client.journal_stream`),
functions that are called (`peers.client.subscriptions`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from hub.batch import Batch, Message
from hub.errors import ClosedError, UsageError
from peers.client.routes import Claim, Wanted

if TYPE_CHECKING:
    from peers.client.read_position import ReadPosition  # it loads blocks

__all__ = [
    "Decode",
    "Inbox",
    "MessageStream",
    "Opened",
    "Source",
]


class Opened(ABC):
    """Opens as the block begins, and closes, waiting for that, as it ends."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @abstractmethod
    async def open(self) -> None:
        """Open it, for those who do not write `async with`."""

    @abstractmethod
    async def close(self) -> None:
        """Close it."""


_TAKE_BYTES = 256 * 1024
"""How much of what waits is decoded in one go: about 10 ms of small values, so that the loop stays responsive."""


class _Mark(Enum):
    BREAK = "the connection was lost here"


_BREAK: Final = _Mark.BREAK


class Inbox:
    """Batches on their way to one reader.

    Args:
        decode: From a batch to its messages; reports what is not msgpack by itself.
        on_taken: Called when something was taken, or was not there.
    """

    __slots__ = (
        "_decode",
        "_error",
        "_items",
        "_on_taken",
        "_ready",
        "_something",
        "breaks",
        "finished",
        "lost_messages",
        "size_bytes",
    )

    def __init__(self, decode: Callable[[Batch], list[Message]], on_taken: Callable[[], None]) -> None:
        # How much waits, still packed, bytes.
        self.size_bytes = 0
        # How many messages were lost before the one that was read last; raised as the reader comes to a gap.
        self.lost_messages = 0
        # How often the connection was lost before the message that was read last.
        self.breaks = 0
        # True once `finish` or `discard` was called: nothing more is taken in.
        self.finished = False
        self._decode = decode
        self._on_taken = on_taken
        # What waits: batches, and marks between them. A number is a gap of so many messages.
        self._items: deque[Batch | int | _Mark] = deque()
        # Messages that were decoded for `next_message`, the oldest last.
        self._ready: list[Message] = []
        # The reason why nothing more comes; None before the end, and where it was asked for.
        self._error: Exception | None = None
        # Set while there is something to read, or nothing more comes.
        self._something = asyncio.Event()

    def __bool__(self) -> bool:
        """Return whether anything waits to be read."""
        return bool(self._items) or bool(self._ready)

    def put(self, batch: Batch) -> None:
        """Take a batch of messages."""
        if self.finished:
            return
        self._items.append(batch)
        self.size_bytes += batch.size_bytes
        self._something.set()

    def put_gap(self, lost_messages: int) -> None:
        """Take note that so many messages were lost here."""
        self._items.append(lost_messages)

    def put_break(self) -> None:
        """Take note that the connection was lost here: what was published until the next one is missing."""
        self._items.append(_BREAK)

    def finish(self, error: Exception | None = None) -> None:
        """Take nothing more; `error` is raised once the reader has read what is here."""
        if not self.finished:
            self.finished = True
            self._error = error
            self._something.set()

    def discard(self) -> None:
        """Throw away what waits: the reader reads no more."""
        self._items.clear()
        self._ready.clear()
        self.size_bytes = 0
        self.finish()
        self._on_taken()

    def take(self) -> list[Message]:
        """Return the oldest messages, those that `next_message` has decoded first; empty if there is none."""
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
        self.size_bytes -= taken_bytes
        if not items and not self.finished:
            self._something.clear()
        self._on_taken()
        return messages

    async def wait_batch(self) -> list[Message]:
        """Return the oldest messages, one or more; empty only at the end.

        Raises:
            PeerError: The reason why nothing more comes, unless it was asked for.
        """
        while True:
            messages = self.take()
            if messages:
                return messages
            if self.finished and not self._items:
                if self._error is not None:
                    raise self._error.with_traceback(None)  # else each call would lengthen it
                return []
            await self._something.wait()

    async def next_message(self) -> Message:
        """Return the oldest message.

        Raises:
            StopAsyncIteration: The end.
            PeerError: As for `wait_batch`.
        """
        if not self._ready:
            messages = await self.wait_batch()
            if not messages:
                raise StopAsyncIteration
            messages.reverse()
            self._ready = messages
        return self._ready.pop()


Decode = Callable[[Batch], list[Message]]
"""Makes the messages of a batch, when they are read."""


class Source(Protocol):
    """Where the messages of a stream come from: `Subscriptions`, or what begins in the journal."""

    async def open(self, sink: MessageStream, wants: Iterable[Wanted]) -> list[Claim]:
        """Let messages come; raises as `MessageStream.open`."""

    def release(self, sink: MessageStream, claims: list[Claim]) -> asyncio.Future[Any] | None:
        """Let nothing more come; return a future that is done when the hub knows it, too."""

    def hold(self, sink: MessageStream) -> None:
        """Bring nothing more for now: the stream is full."""

    def let_go(self, sink: MessageStream) -> None:
        """Bring messages again: the stream has room."""


class MessageStream:
    """Messages under some prefixes, oldest first.

    Made by `Client.subscribe`; use it with `async with`, or call `open` and `close`. One message is given to one
    reader; several readers share a stream.

    Args:
        source: The source of its messages.
        prefixes: What to subscribe to: prefixes, or a rule, or a name.
        decode: From a batch to messages.
        buffer_bytes: Most bytes that it holds, unread, before the client stops reading from the hub.
        read_position: The position of a stream that begins in the journal; None for others.
    """

    __slots__ = ("_buffer_bytes", "_claims", "_held", "_inbox", "_read_position", "_source", "prefixes")

    def __init__(
        self,
        source: Source,
        prefixes: tuple[Wanted, ...],
        decode: Decode,
        buffer_bytes: int,
        read_position: ReadPosition | None = None,
    ) -> None:
        self.prefixes = prefixes
        self._source = source
        self._buffer_bytes = buffer_bytes
        self._read_position = read_position
        self._inbox = Inbox(decode, self._taken)
        # The claims on what it subscribes to; None before `open`.
        self._claims: list[Claim] | None = None
        # True while it is full: its source was told to bring nothing more.
        self._held = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close_nowait()

    def __aiter__(self) -> Self:
        self._check_open()
        return self

    def __anext__(self) -> Coroutine[Any, Any, Message]:
        self._check_open()
        return self._inbox.next_message()

    @property
    def lost_messages(self) -> int:
        """How many messages of this client the hub has lost before the message that was read last.

        The hub counts for the client as a whole; with several subscriptions, those lost may belong to another. Of a
        stream that is read from the journal: how many records, of whatever topics, were deleted before it came to them.
        """
        return self._inbox.lost_messages

    @property
    def breaks(self) -> int:
        """How often the connection was lost, and made anew, before the message that was read last.

        What was published in between is missing; nobody knows how much that is. A stream that is read from the journal
        goes on where it was; it counts how often the end of the journal was lost, so that what comes next has offsets
        that others had before.
        """
        return self._inbox.breaks

    @property
    def live(self) -> bool:
        """Whether a stream that reads the journal has come to its end once; a stream without history is always live."""
        return self._read_position is None or self._read_position.live

    @property
    def position(self) -> int | None:
        """Of a stream that is read from the journal: everything recorded before this offset was read; None of others.

        A stream that is subscribed to from here, with `epoch`, misses nothing; what was read last may come again.
        """
        return self._read_position.position if self._read_position is not None else None

    @property
    def epoch(self) -> int:
        """The epoch of the journal in which `position` was told, to be kept with it; 0 where nobody knows."""
        return self._read_position.epoch if self._read_position is not None else 0

    @property
    def opened(self) -> bool:
        """Whether it was opened, or closed: otherwise reading would wait for ever, and raises."""
        return self._claims is not None or self._inbox.finished

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: the stream or the client is closed, and all is read."""
        return self._inbox.finished and not self._inbox

    @property
    def buffered_bytes(self) -> int:
        """How much waits to be read, bytes."""
        return self._inbox.size_bytes

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
            return await self._inbox.next_message()
        except StopAsyncIteration:
            raise ClosedError("the stream is closed") from None

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
        return await self._inbox.wait_batch()

    def batch_nowait(self) -> list[Message]:
        """Return the messages that are there, as `batch`, empty if there is none."""
        self._check_open()
        return self._inbox.take()

    def close_nowait(self) -> None:
        """Unsubscribe and throw away what was not read; do not wait for the hub."""
        self._release()

    async def close(self) -> None:
        """Unsubscribe, throw away what was not read, and wait until the hub has confirmed."""
        answer = self._release()
        if answer is not None:
            await asyncio.wait([answer])

    def _check_open(self) -> None:
        """Tell at once that nothing will ever come here, instead of waiting for it."""
        if not self.opened:
            raise UsageError(
                "the stream is not open, nothing comes: write `async with client.subscribe(...) as messages:` "
                "and iterate over `messages`, or `await stream.open()` first"
            )

    def _release(self) -> asyncio.Future[Any] | None:
        answer = self._source.release(self, self._claims or [])
        self._inbox.discard()
        return answer

    # As a sink.

    def put(self, batch: Batch) -> None:
        """Take a batch of messages."""
        inbox = self._inbox
        inbox.put(batch)
        if inbox.size_bytes > self._buffer_bytes and not self._held:
            self._held = True
            self._source.hold(self)

    def put_gap(self, lost_messages: int) -> None:
        """Take note that messages were lost here."""
        self._inbox.put_gap(lost_messages)

    def put_break(self) -> None:
        """Take note that the connection was lost here."""
        self._inbox.put_break()

    def finish(self, error: Exception | None) -> None:
        """Take note that nothing more comes."""
        self._inbox.finish(error)

    def _taken(self) -> None:
        if self._read_position is not None:
            self._read_position.taken()
        if self._held and self._inbox.size_bytes <= self._buffer_bytes // 2:
            self._held = False
            self._source.let_go(self)
