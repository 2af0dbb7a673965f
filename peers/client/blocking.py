"""The blocking client: the asyncio client in a thread of its own, for programs without an event loop.

```
your threads ─ publish ─▶ Mailbox ─▶ │ loop thread │ ─▶ Client ─▶ hub
             ◀─ batch ─ one call ─── │             │ ◀─
```

Everything here may be called from any thread, except that functions given to the client (`on_dropped`,
`subscribe_callback` ...) are called in the loop thread: they must be quick, and must not call back into the client but
for `publish_nowait`.

Cost, measured in docs/clients.md: publishing packs the value in the calling thread and appends it to a list under a
lock; the loop is woken once for many. Reading crosses threads once per batch, not per message (about 0.1 ms each time).
One thread and one loop per client.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from hub.batch import Message
from hub.errors import ClosedError, HubError, InternalError, RejectedError, UsageError
from peers.client.client import Client, ClientStatistics
from peers.client.publications import checked_head
from peers.client.settings import ClientSettings, Options
from peers.client.stream import CallbackSubscription, MessageStream
from peers.client.values import encode_value
from peers.endpoints import Endpoint
from peers.mailbox import Mailbox
from peers.wire.hello import Hello

__all__ = ["BlockingClient", "BlockingStream", "connect"]

_log = logging.getLogger("peers.client")

T = TypeVar("T")


def connect(url: str, **options: Unpack[Options]) -> BlockingClient:
    """Make a client of the hub at `url`, for `with`, or to be closed with `close`.

    Args:
        url: `tcp://host:port`, `unix:///path` or `ws://host:port[/path]`.
        options: See `Options`.

    Raises:
        InvalidEndpointError, UsageError: The URL is none of a hub, or an option makes no sense.
        ConnectionLostError, RejectedError, ProtocolError: There is no connection. The text says what to do.
    """
    client = BlockingClient(Endpoint.parse_remote(url), ClientSettings(**options))
    client.open()
    return client


class BlockingClient:
    """A connection to a hub for threads. Made by `connect`.

    Args:
        endpoint: Where the hub is.
        settings: See `Options`.
    """

    def __init__(self, endpoint: Endpoint, settings: ClientSettings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, name=f"hub client {settings.name}".rstrip(), daemon=True)
        self._closing = threading.Lock()
        self._pending: deque[tuple[str, bytes]] = deque()  # taken from the mailbox, not yet by the client
        # Made in the loop thread before `open` returns:
        self._loop: asyncio.AbstractEventLoop
        self._client: Client
        self._mailbox: Mailbox[tuple[str, bytes]]
        self._mail: asyncio.Event
        self._forwarding: asyncio.Lock
        self._stop: asyncio.Event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Make the first connection. Called by `connect`, and raises what that raises."""
        self._thread.start()
        try:
            self._ready.result()
        except HubError:
            self._thread.join()
            raise

    @property
    def hub(self) -> Hello | None:
        """What the hub says of itself."""
        return self._client.hub

    @property
    def dropped_messages(self) -> int:
        """How many messages for this client the hub has lost, as told by it."""
        return self._client.dropped_messages

    def publish(self, topic: str, value: Any, timeout_s: float | None = None) -> None:
        """Publish; waits while the mailbox is full, which it is when the client's buffer is.

        Args:
            topic: Of the message.
            value: Packed before this returns.
            timeout_s: Most to wait; None for as long as it takes.

        Raises:
            BusyError: There was no room within `timeout_s`.
            InvalidTopicError: No client may publish to this topic.
            InvalidValueError: The value has no msgpack form.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        packed = encode_value(value)
        checked_head(topic)
        self._not_in_loop("publish, which waits; use publish_nowait")
        self._mailbox.put((topic, packed), len(packed), timeout_s)

    def publish_nowait(self, topic: str, value: Any) -> None:
        """Publish; never waits.

        Raises:
            BusyError: The mailbox is full.
            InvalidTopicError, InvalidValueError, ClosedError, PeerError: As `publish`.
        """
        packed = encode_value(value)
        checked_head(topic)
        self._mailbox.put_nowait((topic, packed), len(packed))

    def drain(self, timeout_s: float | None = None) -> None:
        """Wait until everything that was published is handed to the operating system.

        Raises:
            TimeoutError: It was not within `timeout_s`.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        self._call(self._drain(timeout_s))

    def subscribe(self, *prefixes: str, buffer_bytes: int | None = None) -> BlockingStream:
        """Subscribe, for `with client.subscribe("/zeek/") as messages: for message in messages: ...`.

        Raises:
            UsageError: No prefix.
        """
        return BlockingStream(self._call, self._client.subscribe, prefixes, buffer_bytes)

    def subscribe_callback(
        self, prefixes: tuple[str, ...] | list[str] | str, function: Callable[[Message], object]
    ) -> Callable[[], None]:
        """Subscribe a function, called in the loop thread.

        Returns:
            Call it to unsubscribe.

        Raises:
            InvalidTopicError, RejectedError, ClosedError, PeerError: As `BlockingStream.open`.
        """
        subscription = self._call(self._client.subscribe_callback(prefixes, function))
        return lambda: self._call(_close_callback(subscription))

    def statistics(self) -> ClientStatistics:
        """The client as it is now. What is on its way to the loop thread is not counted yet."""
        return self._client.statistics()

    def close(self) -> None:
        """Send what was published, for at most `close_timeout_s`, then end the connection and the thread.

        Streams end: whoever waits for messages in another thread gets the end. May be called twice.
        """
        self._not_in_loop("close")
        with self._closing:
            if self._thread.is_alive():
                with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                    self._loop.call_soon_threadsafe(self._stop.set)
                self._thread.join()

    # In the loop thread.

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 -- it belongs to the thread that waits for the connection
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                _log.exception("the loop thread of a blocking client failed")

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._mail, self._stop, self._forwarding = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        self._mailbox = Mailbox(self._loop, self._mail.set)
        self._client = Client(self._endpoint, self._settings)
        await self._client.open()
        self._ready.set_result(None)
        pump = asyncio.create_task(self._pump())
        watch = asyncio.create_task(self._watch())
        await self._stop.wait()
        self._mailbox.close(ClosedError("the client is closed"))
        watch.cancel()
        if self._client.statistics().connected:
            with contextlib.suppress(TimeoutError, HubError):
                async with asyncio.timeout(self._settings.close_timeout_s):
                    await self._forward()
        pump.cancel()
        self._pending.extend(self._mailbox.take())
        self._client.give_up(len(self._pending))
        await self._client.close()
        callers = asyncio.all_tasks() - {asyncio.current_task()}
        if callers:
            await asyncio.wait(callers, timeout=1.0)  # what other threads wait for is answered before the loop ends

    async def _pump(self) -> None:
        """Forward what comes into the mailbox, as fast as the client takes it."""
        try:
            while True:
                await self._mail.wait()
                await self._forward()
        except HubError as error:
            self._mailbox.close(error)
        except Exception as error:
            self._mailbox.close(InternalError(f"a bug of the client, please report it: {error!r}"))
            raise

    async def _forward(self) -> None:
        async with self._forwarding:
            self._mail.clear()
            pending = self._pending
            pending.extend(self._mailbox.take())
            while pending:
                try:
                    await self._client.publish_packed(*pending[0])
                except RejectedError as error:
                    if self._client.ended:
                        raise
                    self._client.reject(error, 1)  # larger than the hub takes; the caller has long gone on
                pending.popleft()

    async def _watch(self) -> None:
        """When the client ends with an error, publishers get it."""
        try:
            await self._client.wait_closed()
        except HubError as error:
            self._mailbox.close(error)

    async def _drain(self, timeout_s: float | None) -> None:
        async with asyncio.timeout(timeout_s):
            await self._forward()
            await self._client.drain()

    # Between the threads.

    def _not_in_loop(self, what: str) -> None:
        if threading.current_thread() is self._thread:
            raise UsageError(f"a function called by the client cannot call {what}: it would wait for itself")

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop thread and wait for it."""
        if threading.current_thread() is self._thread:
            work.close()
            self._not_in_loop("this")
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise ClosedError("the client is closed") from None
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClosedError("the client is closed") from None


async def _close_callback(subscription: CallbackSubscription) -> None:
    await subscription.close()


class BlockingStream:
    """Messages under some prefixes, oldest first, for threads. Made by `BlockingClient.subscribe`.

    Several threads may read one stream; each message is given to one of them.
    """

    def __init__(
        self,
        call: Callable[[Coroutine[Any, Any, Any]], Any],
        make: Callable[..., MessageStream],
        prefixes: tuple[str, ...],
        buffer_bytes: int | None,
    ) -> None:
        self._call = call
        self._make = make
        self._prefixes = prefixes
        self._buffer_bytes = buffer_bytes
        self._stream: MessageStream | None = None
        self._ready: deque[Message] = deque()
        self._ended = False
        self._fetching = False  # one thread at a time asks the loop thread; others wait for what it brings
        self._changed = threading.Condition(threading.Lock())
        if not prefixes:
            raise UsageError("subscribe to one prefix or more; the empty text matches everything")

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        try:
            return self.receive()
        except ClosedError:
            raise StopIteration from None

    @property
    def lost_messages(self) -> int:
        """How many messages of this client the hub has lost before those that were fetched last."""
        return self._stream.lost_messages if self._stream is not None else 0

    @property
    def breaks(self) -> int:
        """How often the connection was lost, and made anew, before what was fetched last."""
        return self._stream.breaks if self._stream is not None else 0

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: the stream or the client is closed, and all is read."""
        return self._ended and not self._ready

    def open(self) -> None:
        """Subscribe, and wait for the hub's confirmation.

        Raises:
            InvalidTopicError: One of the prefixes is none.
            RejectedError: The hub refuses.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        if self._stream is not None:
            raise UsageError("a stream is opened once; subscribe again for another one")
        self._stream = self._call(self._open())

    def receive(self, timeout_s: float | None = None) -> Message:
        """Return the oldest message, waiting for one.

        Raises:
            TimeoutError: None came within `timeout_s`.
            ClosedError: None will come.
            PeerError: The connection is lost for good.
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
                yield self.receive(timeout_s)
            except (TimeoutError, ClosedError):
                return

    def batch(self, timeout_s: float | None = None) -> list[Message]:
        """Wait for messages and return those that are there; empty when none came in time, or at the end (`ended`).

        Raises:
            PeerError: The connection is lost for good.
        """
        self._fill(None if timeout_s is None else time.monotonic() + timeout_s)
        with self._changed:
            ready = list(self._ready)
            self._ready.clear()
        return ready

    def close(self) -> None:
        """Unsubscribe, and throw away what was not read. Readers in other threads get the end."""
        with self._changed:
            self._ended = True
            self._ready.clear()
            self._changed.notify_all()
        if self._stream is None:
            return
        try:
            self._call(self._stream.close())
        except ClosedError:
            return  # with its client

    # In the loop thread.

    async def _open(self) -> MessageStream:
        stream = self._make(*self._prefixes, buffer_bytes=self._buffer_bytes)
        await stream.open()
        return stream

    async def _batch(self, stream: MessageStream, timeout_s: float | None) -> tuple[list[Message], bool]:
        try:
            async with asyncio.timeout(timeout_s):
                messages = await stream.batch()
        except TimeoutError:
            return [], False
        return messages, not messages

    # Between the threads.

    def _fill(self, due_s: float | None) -> bool:
        """Wait until there is a message here; False when there was none in time, or at the end."""
        if self._stream is None:
            raise UsageError("open the stream first: `with client.subscribe(...) as messages`")
        while True:
            with self._changed:
                if self._ready or self._ended:
                    return bool(self._ready)
                if self._fetching:
                    if not self._changed.wait(_left_s(due_s)):
                        return False
                    continue
                self._fetching = True
            self._fetch(self._stream, _left_s(due_s))
            if due_s is not None and time.monotonic() >= due_s:
                return bool(self._ready)

    def _fetch(self, stream: MessageStream, timeout_s: float | None) -> None:
        messages: list[Message] = []
        ended = False
        try:
            messages, ended = self._call(self._batch(stream, timeout_s))
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
    """How long there is to wait, None for ever."""
    return None if due_s is None else max(0.0, due_s - time.monotonic())
