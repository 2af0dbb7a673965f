"""What a blocking client's calls return: streams, callbacks, services, names and history, for threads.

```
your threads ─ one call for many messages ─▶ │ loop thread: MessageStream, Service, ServiceName, History │
```

Each is a thin face of what `peers.client.client` returns, which lives in the loop thread: the same methods with the
same arguments, and `timeout_s` where something is waited for; a test compares them.

Owner: whoever has it; any thread may call, and several threads may share a stream. Cost: reading crosses threads once
per batch, not per message (about 0.1 ms each time); history once per piece of a megabyte, whose blocks are taken apart
in the thread that reads. Not here: the loop thread (`peers.client.blocking`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast

from hub.batch import Message
from hub.errors import ClosedError, UsageError
from hub.journal.block import Block
from peers.client.journal import History, Record, records_of
from peers.client.names import ServiceName
from peers.client.routes import Wanted
from peers.client.service import Service
from peers.client.stream import CallbackSubscription, MessageStream
from peers.client.values import BadMessage
from peers.wire.records import Records

__all__ = ["BlockingHistory", "BlockingService", "BlockingServiceName", "BlockingStream", "BlockingSubscription"]

T = TypeVar("T")


class Call(Protocol):
    """A function that runs a coroutine in the loop thread, and waits for it."""

    def __call__(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Return what the coroutine returns, or raise `TimeoutError` after `timeout_s`."""


class BlockingStream:
    """Messages under some prefixes, oldest first, for threads. Made by `BlockingClient.subscribe`.

    Several threads may read one stream; each message is given to one of them.

    Args:
        call: Runs coroutines in the loop thread of the client.
        stream: In the loop thread; not open yet.
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

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

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
    """Messages given to a function, in the loop thread. Made by `BlockingClient.subscribe_callback`.

    Args:
        call: Runs coroutines in the loop thread of the client.
        subscription: In the loop thread, open.
    """

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


class BlockingService:
    """A function that answers requests, in the loop thread; use it in a `with` statement.

    Args:
        call: Runs coroutines in the loop thread of the client.
        service: Not open yet.
    """

    def __init__(self, call: Call, service: Service) -> None:
        self._call = call
        self._service = service

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

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
    """A name that this client has claimed, for `with client.claim("org.example.Player")`.

    Args:
        call: Runs coroutines in the loop thread of the client.
        claimed: In the loop thread.
    """

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


class BlockingHistory:
    """A range of the journal, for threads. Made by `BlockingClient.read`; iterating yields records.

    While one piece is worked on, the loop thread fetches the next.

    Args:
        call: Runs coroutines in the loop thread of the client.
        history: In the loop thread.
        on_bad: Is told of values that cannot be read, from any thread.
        timeout_s: Most to wait for one answer of the hub.
    """

    def __init__(
        self, call: Call, history: History, on_bad: Callable[[BadMessage], None], timeout_s: float | None
    ) -> None:
        self._call = call
        self._history = history
        self._on_bad = on_bad
        self._timeout_s = timeout_s

    @property
    def next(self) -> int:
        """Where reading goes on: everything before it was read."""
        return self._history.next

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
        """Yield blocks, their columns ready to be used.

        Args:
            verify: Whether to compare the checksum here too; the hub did when it read them.

        Raises:
            JournalCorruptError: What came is no block.
            TimeoutError, GoneError, RejectedError, ClosedError, PeerError: As `BlockingClient.read` says.
        """
        for found in self.pieces():
            for data in found.blocks:
                yield Block.parse(data, verify=verify)

    def __iter__(self) -> Iterator[Record]:
        for block in self.blocks():
            yield from records_of(block, self._on_bad)


async def _next_of(pieces: AsyncGenerator[Records]) -> Records | None:
    return await anext(pieces, None)
