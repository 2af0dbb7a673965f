"""What a blocking client's calls return: streams, services, names and writers, for threads.

```
your threads ─ call ─▶ │ loop thread: MessageStream, Service, ServiceName, ... │
```

Each class has the methods of its asyncio class with the same arguments, and `timeout_s` where something is waited for;
a test compares them. Any thread may call, and several may share one object: each message is given to one reader, oldest
first. A call crosses threads, about 0.1 ms, so streams are read in batches and many messages are acknowledged at once.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast

from hub.batch import Message
from hub.errors import ClosedError, UsageError
from hub.journal.block import Block
from hub.journal.excerpt import whole_of
from hub.journal.layout import Column
from hub.journal.message import RecordedMessage
from peers.client.consumer_stream import ConsumedMessage, ConsumerStream
from peers.client.history import History, Record, records_of
from peers.client.names import ServiceName
from peers.client.routes import Wanted
from peers.client.service import Service
from peers.client.stream import MessageStream
from peers.client.subscriptions import CallbackSubscription
from peers.client.values import BadMessage
from peers.client.writer import Writer
from peers.wire.records import Records

__all__ = [
    "BlockingConsumedMessage",
    "BlockingConsumerStream",
    "BlockingHistory",
    "BlockingService",
    "BlockingServiceName",
    "BlockingStream",
    "BlockingSubscription",
    "BlockingWriter",
    "Call",
    "Opened",
]

T = TypeVar("T")


class Call(Protocol):
    """Runs a coroutine in the loop thread, and waits for its result; `TimeoutError` after `timeout_s`."""

    def __call__(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Return what the coroutine returns."""


class Opened(ABC):
    """Opens as a `with` block begins, and closes as it ends."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def open(self, *, timeout_s: float | None = None) -> None:
        """Open it, where no `with` is written."""

    @abstractmethod
    def close(self, *, timeout_s: float | None = None) -> None:
        """Close it."""


class BlockingStream(Opened):
    """Messages under some prefixes, oldest first, for threads. Made by `BlockingClient.subscribe`.

    Several threads may read one stream; each message is given to one of them.
    """

    def __init__(self, call: Call, stream: MessageStream) -> None:
        self._call = call
        self._stream = stream
        # Fetched from the loop thread and not given to a reader yet.
        self._ready: deque[Message] = deque()
        # Set when the loop thread says that nothing more comes, and by `close`.
        self._ended = False
        # While one thread asks the loop thread; the others wait for what it brings.
        self._fetching = False
        self._changed = threading.Condition(threading.Lock())

    def __iter__(self) -> Iterator[Message]:
        self._check_open()
        return self

    def __next__(self) -> Message:
        try:
            return self.receive()
        except ClosedError:
            raise StopIteration from None

    @property
    def prefixes(self) -> tuple[Wanted, ...]:
        """The prefixes, or the rule or the name, that it subscribes to."""
        return self._stream.prefixes

    @property
    def lost_messages(self) -> int:
        """How many messages of this client the hub has lost before those that were fetched last."""
        return self._stream.lost_messages

    @property
    def breaks(self) -> int:
        """How often the connection was lost, and made anew, before what was fetched last."""
        return self._stream.breaks

    @property
    def live(self) -> bool:
        """Whether what comes now is live: see `MessageStream.live`."""
        return self._stream.live

    @property
    def position(self) -> int | None:
        """The position of a stream that began in the journal: see `MessageStream.position`."""
        return self._stream.position

    @property
    def epoch(self) -> int:
        """The epoch in which `position` was told: see `MessageStream.epoch`. Read it first: both move on."""
        return self._stream.epoch

    @property
    def buffered_bytes(self) -> int:
        """How much waits in the loop thread to be fetched, bytes."""
        return self._stream.buffered_bytes

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: the stream or the client is closed, and all is read."""
        return self._ended and not self._ready

    def open(self, *, timeout_s: float | None = None) -> None:
        """Subscribe, and wait for the hub's confirmation; raises as `MessageStream.open`, and `TimeoutError`."""
        self._call(self._stream.open(), timeout_s)

    def receive(self, *, timeout_s: float | None = None) -> Message:
        """Return the oldest message, waiting for one.

        Raises:
            TimeoutError: None came within `timeout_s`.
            ClosedError: None will come.
            PeerError: The connection is lost for good.
            UsageError: The stream was not opened.
        """
        due_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                pass
            if not self._fill(due_s):
                if self._ended:
                    raise ClosedError("the stream is closed")
                raise TimeoutError(f"no message within {timeout_s} s")

    def iterate(self, timeout_s: float) -> Iterator[Message]:
        """Iterate until no message has come for `timeout_s`, or to the end."""
        while True:
            try:
                yield self.receive(timeout_s=timeout_s)
            except (TimeoutError, ClosedError):
                return

    def batch(self, *, timeout_s: float | None = None) -> list[Message]:
        """Wait for messages and return those that are there; empty when none came in time, or at the end (`ended`).

        Raises:
            PeerError: The connection is lost for good.
            UsageError: The stream was not opened.
        """
        self._fill(None if timeout_s is None else time.monotonic() + timeout_s)
        return self._take()

    def batch_nowait(self) -> list[Message]:
        """Return the messages that are there, as `batch`; empty if there is none."""
        return self.batch(timeout_s=0)

    def close(self, *, timeout_s: float | None = None) -> None:
        """Unsubscribe, and throw away what was not read. Readers in other threads get the end."""
        with self._changed:
            self._ended = True
            self._ready.clear()
            self._changed.notify_all()
        with suppress(ClosedError):  # it has ended with its client
            self._call(self._stream.close(), timeout_s)

    # In the loop thread.

    async def _batch(self, timeout_s: float | None) -> tuple[list[Message], bool]:
        messages = self._stream.batch_nowait()
        if messages:
            return messages, False
        try:
            async with asyncio.timeout(timeout_s):
                messages = await self._stream.batch()
        except TimeoutError:
            return [], False
        return messages, not messages

    # Between the threads.

    def _check_open(self) -> None:
        if not self._stream.opened:
            raise UsageError("open the stream first: `with client.subscribe(...) as messages`")

    def _take(self) -> list[Message]:
        with self._changed:
            ready = list(self._ready)
            self._ready.clear()
        return ready

    def _fill(self, due_s: float | None) -> bool:
        """Wait until there is a message here; False when there was none in time, or at the end."""
        self._check_open()
        while True:
            with self._changed:
                if self._ready or self._ended:
                    return bool(self._ready)
                if self._fetching:
                    if not self._changed.wait(_left_s(due_s)):
                        return False
                    continue
                self._fetching = True
            self._fetch(_left_s(due_s))
            if due_s is not None and time.monotonic() >= due_s:
                return bool(self._ready)

    def _fetch(self, timeout_s: float | None) -> None:
        messages: list[Message] = []
        ended = False
        try:
            messages, ended = self._call(self._batch(timeout_s))
        except ClosedError:
            ended = True
        finally:
            with self._changed:
                self._fetching = False
                if not self._ended:
                    self._ready.extend(messages)
                    self._ended = ended
                self._changed.notify_all()


def _left_s(due_s: float | None) -> float | None:
    """Return how long there is to wait; None for ever."""
    return None if due_s is None else max(0.0, due_s - time.monotonic())


class BlockingSubscription:
    """Messages given to a function, in the loop thread. Made by `BlockingClient.subscribe_callback`."""

    def __init__(self, call: Call, subscription: CallbackSubscription) -> None:
        self._call = call
        self._subscription = subscription

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes that it subscribes to."""
        return self._subscription.prefixes

    @property
    def lost_messages(self) -> int:
        """How many messages of this client the hub has lost since it was opened."""
        return self._subscription.lost_messages

    @property
    def breaks(self) -> int:
        """How often the connection was lost, and made anew, since it was opened."""
        return self._subscription.breaks

    def close(self, *, timeout_s: float | None = None) -> None:
        """Unsubscribe; the function is not called any more."""
        with suppress(ClosedError):  # it has ended with its client
            self._call(self._subscription.close(), timeout_s)


class BlockingConsumedMessage(RecordedMessage):
    """A topic and a value, to be acknowledged: `message.ack()`."""

    deliveries: int
    """How often it was delivered, as far as the hub that runs knows: 1 for the first time."""
    _stream: BlockingConsumerStream
    _message: ConsumedMessage

    @classmethod
    def of(cls, message: ConsumedMessage, stream: BlockingConsumerStream) -> BlockingConsumedMessage:
        """Make the face of a message for threads."""
        made: BlockingConsumedMessage = tuple.__new__(cls, message)
        made.offset, made.time_us, made.deliveries = message.offset, message.time_us, message.deliveries
        made._stream, made._message = stream, message
        return made

    @property
    def in_loop(self) -> ConsumedMessage:
        """The message as the loop thread has it."""
        return self._message

    def ack(self) -> None:
        """Say that the program is done with it, so that it is not delivered again; as `ConsumerStream.ack`."""
        self._stream.ack(self)

    def nak(self, delay_s: float = 0.0) -> None:
        """Say that the program cannot do it now, so that it is delivered again; as `ConsumerStream.nak`."""
        self._stream.nak(self, delay_s=delay_s)

    def in_progress(self) -> None:
        """Say that the program still works on it; as `ConsumerStream.in_progress`."""
        self._stream.in_progress(self)


class BlockingConsumerStream(Opened):
    """Messages of a named consumer, each to be acknowledged, for threads. Made by `BlockingClient.consume`."""

    def __init__(self, call: Call, stream: ConsumerStream) -> None:
        self._call = call
        self._stream = stream

    def __iter__(self) -> Iterator[BlockingConsumedMessage]:
        return self

    def __next__(self) -> BlockingConsumedMessage:
        try:
            return self.receive()
        except ClosedError:
            raise StopIteration from None

    @property
    def name(self) -> str:
        """What the consumer is called."""
        return self._stream.name

    @property
    def late_acks(self) -> int:
        """How many messages were acknowledged too late to count: they were delivered again."""
        return self._stream.late_acks

    @property
    def ended(self) -> bool:
        """Whether nothing more comes, and all is read."""
        return self._stream.ended

    def open(self, *, timeout_s: float | None = None) -> None:
        """Become a member; raises as `ConsumerStream.open`, and `TimeoutError`."""
        self._call(self._stream.open(), timeout_s)

    def receive(self, *, timeout_s: float | None = None) -> BlockingConsumedMessage:
        """Return the oldest message, waiting for one.

        Raises:
            TimeoutError: None came within `timeout_s`.
            ClosedError, HubError: As `ConsumerStream.receive`.
        """
        return BlockingConsumedMessage.of(self._call(self._stream.receive(), timeout_s), self)

    def batch(self, *, timeout_s: float | None = None) -> list[BlockingConsumedMessage]:
        """Return all messages that are there, waiting for one; an empty list once the stream is closed.

        Raises:
            TimeoutError: None came within `timeout_s`.
            HubError: As `ConsumerStream.receive`.
        """
        return [BlockingConsumedMessage.of(each, self) for each in self._call(self._stream.batch(), timeout_s)]

    def ack(self, *messages: BlockingConsumedMessage, timeout_s: float | None = None) -> None:
        """Say that the program is done with messages; as `ConsumerStream.ack`."""
        self._call(self._stream.ack(*[message.in_loop for message in messages]), timeout_s)

    def ack_up_to(self, message: BlockingConsumedMessage, *, timeout_s: float | None = None) -> None:
        """Acknowledge a message, and all that were handed out before it."""
        self._call(self._stream.ack_up_to(message.in_loop), timeout_s)

    def nak(self, *messages: BlockingConsumedMessage, delay_s: float = 0.0, timeout_s: float | None = None) -> None:
        """Say that the program cannot do messages now; as `ConsumerStream.nak`."""
        self._call(self._stream.nak(*[message.in_loop for message in messages], delay_s=delay_s), timeout_s)

    def in_progress(self, *messages: BlockingConsumedMessage, timeout_s: float | None = None) -> None:
        """Say that the program still works on messages; as `ConsumerStream.in_progress`."""
        self._call(self._stream.in_progress(*[message.in_loop for message in messages]), timeout_s)

    def close(self, *, timeout_s: float | None = None) -> None:
        """Tell the hub what was acknowledged, and be no member any more; what was not is for others, at once."""
        self._call(self._stream.close(), timeout_s)


class BlockingHistory:
    """A range of the journal, for threads. Made by `BlockingClient.read`; iterating yields records.

    While one piece is worked on, the loop thread fetches the next.
    """

    def __init__(
        self, call: Call, history: History, on_bad: Callable[[BadMessage], None], timeout_s: float | None
    ) -> None:
        self._call = call
        self._history = history
        self._on_bad = on_bad
        self._timeout_s = timeout_s

    @property
    def hub(self) -> str:
        """Whose journal is read; empty for that of the hub that is connected."""
        return self._history.hub

    @property
    def next(self) -> int:
        """Where reading goes on: everything before it was read."""
        return self._history.next

    @property
    def epoch(self) -> int:
        """The epoch of the journal in which `next` was told; 0 where nobody knows."""
        return self._history.epoch

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """What of each record is wanted; None for all of it."""
        return self._history.columns

    def pieces(self) -> Iterator[Records]:
        """Yield the hub's answers, one after the other. Raises as `BlockingClient.read` says."""
        pieces = cast("AsyncGenerator[Records]", self._history.pieces())
        try:
            while (found := self._call(_next_of(pieces), self._timeout_s)) is not None:
                yield found
        finally:
            with suppress(ClosedError):  # then it has ended already
                self._call(pieces.aclose())

    def blocks(self, *, verify: bool = False) -> Iterator[Block]:
        """Yield blocks, their columns ready to be used. What stands in one that was not asked for means nothing.

        Args:
            verify: Whether to compare the checksum here too; the hub did when it read them.

        Raises:
            JournalCorruptError: What came is no block.
            TimeoutError, GoneError, RejectedError, ClosedError, PeerError: As `BlockingClient.read` says.
        """
        for found in self.pieces():
            for data in found.blocks:
                yield Block.parse(whole_of(data), verify=verify)

    def __iter__(self) -> Iterator[Record]:
        for block in self.blocks():
            yield from records_of(block, self._on_bad, self._history.columns)


async def _next_of(pieces: AsyncGenerator[Records]) -> Records | None:
    return await anext(pieces, None)


class BlockingService(Opened):
    """A function that answers requests, in the loop thread; use it in a `with` statement."""

    def __init__(self, call: Call, service: Service) -> None:
        self._call = call
        self._service = service

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes of the topics that it serves."""
        return self._service.prefixes

    @property
    def requests(self) -> int:
        """How many requests came."""
        return self._service.requests

    @property
    def failures(self) -> int:
        """How many of them were answered with a failure."""
        return self._service.failures

    @property
    def running(self) -> int:
        """How many calls of an async function are awaited."""
        return self._service.running

    def open(self, *, timeout_s: float | None = None) -> None:
        """Serve; raises as `Service.open`, and `TimeoutError`: then it does not serve."""
        self._call(self._service.open(), timeout_s)

    def close(self, *, timeout_s: float | None = None) -> None:
        """Serve no longer; what runs is waited for, as by `Service.close`."""
        self._call(self._service.close(), timeout_s)


class BlockingServiceName:
    """A name that this client has claimed, for `with client.claim("org.example.Player")`."""

    def __init__(self, call: Call, claimed: ServiceName) -> None:
        self._call = call
        self._claimed = claimed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    @property
    def name(self) -> str:
        """The name that is claimed."""
        return self._claimed.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that are announced with the name."""
        return self._claimed.labels

    @property
    def queue(self) -> bool:
        """Whether the claim waits while somebody else owns the name."""
        return self._claimed.queue

    @property
    def owned(self) -> bool:
        """Whether this client owns it now, as far as it was told."""
        return self._claimed.owned

    @property
    def reason(self) -> str:
        """Why the name is not owned, or not any more; for people."""
        return self._claimed.reason

    def wait_owned(self, *, timeout_s: float | None = None) -> None:
        """Wait until this client owns it; raises as `ServiceName.wait_owned`, and `TimeoutError`."""
        self._call(self._claimed.wait_owned(), timeout_s)

    def wait_lost(self, *, timeout_s: float | None = None) -> str:
        """Wait until this client does not own it; return why.

        Raises:
            TimeoutError: It owns it still.
            ClosedError: The client is closed.
        """
        return self._call(self._claimed.wait_lost(), timeout_s)

    def relabel(self, labels: Iterable[str], *, timeout_s: float | None = None) -> None:
        """Announce the name with other labels; raises as `ServiceName.relabel`, and `TimeoutError`."""
        self._call(self._claimed.relabel(labels), timeout_s)

    def release(self, *, timeout_s: float | None = None) -> None:
        """Give the name up, or wait for it no longer. May be called twice, and when it is lost."""
        self._call(self._claimed.release(), timeout_s)


class BlockingWriter:
    """Publishes messages that are recorded once each. Made by `BlockingClient.writer`."""

    def __init__(self, call: Call, writer: Writer) -> None:
        self._call = call
        self._writer = writer

    @property
    def name(self) -> str:
        """What the hub knows it by."""
        return self._writer.name

    def publish(
        self, topic: str, value: Any, *, sequence: int | None = None, timeout_s: float | None = None
    ) -> int | None:
        """Publish, and wait until the message is recorded; as `Writer.publish`.

        Raises:
            TimeoutError: It was not confirmed within `timeout_s`; it may still be recorded.
            UsageError, RejectedError, InvalidTopicError, InvalidValueError, ClosedError, PeerError: As
                `Writer.publish`.
        """
        return self._call(self._writer.publish(topic, value, sequence=sequence), timeout_s)
