"""The blocking client: the asyncio client in a thread of its own, for programs without an event loop.

```
your threads ─ publish ─▶ Mailbox ─▶ │ loop thread │ ─▶ Client ─▶ hub
             ◀─ batch ─ one call ─── │             │ ◀─
```

Everything here may be called from any thread, except that functions given to the client (`on_dropped`,
`subscribe_callback`, `serve` ...) are called in the loop thread: they must be quick, and must not call back into the
client but for `publish_nowait`.

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
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from hub.batch import Message
from hub.errors import ClosedError, HubError, InternalError, RejectedError, UsageError
from hub.names.grammar import check_name
from hub.tags.rule import check_rule
from peers.client.blocking_history import BlockingHistory
from peers.client.blocking_name import BlockingServiceName
from peers.client.blocking_service import BlockingService
from peers.client.blocking_stream import BlockingStream
from peers.client.client import Client
from peers.client.journal import Committed, JournalState
from peers.client.names import KnownName
from peers.client.publications import checked_head
from peers.client.requests import TIMEOUT_S
from peers.client.service import CONCURRENCY, ServiceRequest
from peers.client.settings import ClientSettings, Options
from peers.client.statistics import ClientStatistics
from peers.client.stream import CallbackSubscription
from peers.client.target import Target, target
from peers.client.values import encode_value
from peers.endpoints import Endpoint
from peers.mailbox import Mailbox
from peers.wire.hello import Hello
from peers.wire.records import FETCH_BYTES

__all__ = ["BlockingClient", "BlockingHistory", "BlockingService", "BlockingStream", "connect"]

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
        self._pending: deque[tuple[Target, bytes]] = deque()  # taken from the mailbox, not yet by the client
        # Made in the loop thread before `open` returns:
        self._loop: asyncio.AbstractEventLoop
        self._client: Client
        self._mailbox: Mailbox[tuple[Target, bytes]]
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

    def publish(  # noqa: PLR0913 -- as the asyncio client's
        self,
        topic: str,
        value: Any,
        timeout_s: float | None = None,
        *,
        labels: Iterable[str] = (),
        sender: str = "",
        to: str = "",
    ) -> None:
        """Publish; waits while the mailbox is full, which it is when the client's buffer is.

        Args:
            topic: Of the message.
            value: Packed before this returns.
            timeout_s: Most to wait; None for as long as it takes.
            labels: As `Client.publish_nowait`.
            sender: The same.
            to: The same.

        Raises:
            BusyError: There was no room within `timeout_s`.
            InvalidTopicError: No client may publish to this topic.
            InvalidNameError: A label or a name is none.
            InvalidValueError: The value has no msgpack form.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        packed = encode_value(value)
        where = target(topic, labels, sender, to)
        checked_head(where)
        self._not_in_loop("publish, which waits; use publish_nowait")
        self._mailbox.put((where, packed), len(packed), timeout_s)

    def publish_nowait(
        self, topic: str, value: Any, *, labels: Iterable[str] = (), sender: str = "", to: str = ""
    ) -> None:
        """Publish; never waits.

        Raises:
            BusyError: The mailbox is full.
            InvalidTopicError, InvalidValueError, ClosedError, PeerError: As `publish`.
        """
        packed = encode_value(value)
        where = target(topic, labels, sender, to)
        checked_head(where)
        self._mailbox.put_nowait((where, packed), len(packed))

    def drain(self, timeout_s: float | None = None) -> None:
        """Wait until everything that was published is handed to the operating system.

        Raises:
            TimeoutError: It was not within `timeout_s`.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        self._call(self._drain(), timeout_s)

    def subscribe(
        self,
        *prefixes: str,
        buffer_bytes: int | None = None,
        from_offset: int | None = None,
        from_time: datetime | None = None,
    ) -> BlockingStream:
        """Subscribe, for `with client.subscribe("/zeek/") as messages: for message in messages: ...`.

        Args:
            prefixes: One or more; the empty one matches everything.
            buffer_bytes: Held, unread, before the client stops reading; default `stream_bytes`.
            from_offset: Begin with what the hub's journal has from this offset on, and go on live.
            from_time: The same, from the first record that is not older.

        Raises:
            UsageError: No prefix.
        """
        make = partial(self._client.subscribe, from_offset=from_offset, from_time=from_time)
        return BlockingStream(self._call, make, prefixes, buffer_bytes)

    def subscribe_rule(
        self, labels: Iterable[str] = (), *, prefix: str = "", sender: str = "", buffer_bytes: int | None = None
    ) -> BlockingStream:
        """Subscribe by a rule, as `Client.subscribe_rule`, for `with client.subscribe_rule(["door"]) as messages`.

        Raises:
            InvalidTopicError, InvalidNameError: As `Client.subscribe_rule`.
        """
        rule = check_rule(labels, prefix, sender)
        make = partial(self._client.subscribe_rule, prefix=prefix, sender=sender)
        return BlockingStream(self._call, make, (rule.labels,), buffer_bytes)

    def subscribe_name(self, name: str, *, buffer_bytes: int | None = None) -> BlockingStream:
        """Listen to what is sent to a name, as `Client.subscribe_name`.

        Raises:
            InvalidNameError: It is none.
        """
        return BlockingStream(self._call, self._client.subscribe_name, (check_name(name),), buffer_bytes)

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

    def publish_confirmed(self, topic: str, value: Any, timeout_s: float | None = None) -> int:
        """Publish behind what was published before, and wait until the message is in the hub's journal.

        Returns:
            Its offset.

        Raises:
            TimeoutError: It was not confirmed within `timeout_s`; it may still be recorded.
            RejectedError, ConnectionLostError, InvalidTopicError, InvalidValueError, ClosedError, PeerError: As
                `Client.publish_confirmed`.
        """
        return self._call(self._publish_confirmed(topic, value), timeout_s)

    # Requests.

    def request(self, topic: str, value: Any, timeout_s: float = TIMEOUT_S, *, name: bool = False) -> Any:
        """Ask whoever serves a topic, behind what was published before; return the reply.

        Raises:
            RequestError, ConnectionLostError, UsageError, PeerError: As `Client.request`.
        """
        return self._call(self._request(topic, encode_value(value), timeout_s, name))

    def request_nowait(
        self, topic: str, value: Any, timeout_s: float = TIMEOUT_S, *, name: bool = False
    ) -> concurrent.futures.Future[Any]:
        """Begin to ask: the future gets what `request` returns or raises.

        Raises:
            InvalidValueError, ClosedError: Nothing was asked.
        """
        return self._submit(self._request(topic, encode_value(value), timeout_s, name))

    def request_many(
        self,
        topic: str,
        values: Iterable[Any],
        timeout_s: float = TIMEOUT_S,
        *,
        name: bool = False,
        return_exceptions: bool = False,
    ) -> list[Any]:
        """Ask one service several things in one frame; see `Client.request_many`."""
        several = list(values)
        return self._call(
            self._client.request_many(topic, several, timeout_s, name=name, return_exceptions=return_exceptions)
        )

    def serve(
        self,
        prefixes: Sequence[str] | str,
        function: Callable[[ServiceRequest], Any],
        *,
        concurrency: int = CONCURRENCY,
    ) -> BlockingService:
        """Answer requests, for `with client.serve("/sum", function)`; see `Client.serve`.

        The function is called in the loop thread: it must be quick, or async.
        """
        return BlockingService(self._call, partial(self._client.serve, prefixes, function, concurrency=concurrency))

    def serve_batches(
        self, prefixes: Sequence[str] | str, function: Callable[[list[Any]], Any], *, concurrency: int = CONCURRENCY
    ) -> BlockingService:
        """Answer as many requests at once as came together; see `Client.serve_batches`."""
        make = partial(self._client.serve_batches, prefixes, function, concurrency=concurrency)
        return BlockingService(self._call, make)

    # Service names.

    def claim(
        self, name: str, labels: Iterable[str] = (), *, queue: bool = False, timeout_s: float | None = None
    ) -> BlockingServiceName:
        """Claim a service name, for `with client.claim("org.example.Player")`; see `Client.claim`.

        Raises:
            TimeoutError: No answer within `timeout_s`; it is not claimed.
            RejectedError, InvalidNameError, UsageError, ClosedError, PeerError: As `Client.claim`.
        """
        claimed = self._call(self._client.claim(name, labels, queue=queue), timeout_s)
        return BlockingServiceName(self._call, claimed)

    def names(self, prefix: str = "", timeout_s: float | None = None) -> list[KnownName]:
        """List the service names that the hub knows; see `Client.names`. Raises `TimeoutError`, too."""
        return self._call(self._client.names(prefix), timeout_s)

    # The journal.

    def read(
        self,
        *prefixes: str,
        start: int = 0,
        end: int | None = None,
        start_time: datetime | None = None,
        piece_bytes: int = FETCH_BYTES,
        timeout_s: float | None = None,
    ) -> BlockingHistory:
        """Read the hub's journal, for `for record in client.read("/zeek/")`, or its `blocks()`.

        Iterating raises what `Client.read` names, and `TimeoutError` where the hub does not answer in time.

        Args:
            prefixes: Of the topics wanted; all without any.
            start: First offset.
            end: The one behind the last; None for what is committed when reading begins.
            start_time: Instead of `start`: the first record that is not older.
            piece_bytes: What one answer of the hub holds, bytes.
            timeout_s: Most to wait for one answer.

        Raises:
            InvalidTopicError: One of the prefixes is none.
        """
        history = self._client.read(*prefixes, start=start, end=end, start_time=start_time, piece_bytes=piece_bytes)
        return BlockingHistory(lambda work: self._call(work, timeout_s), history)

    def journal(self, timeout_s: float | None = None) -> JournalState:
        """Ask how far the hub's journal reaches.

        Raises:
            TimeoutError: No answer within `timeout_s`.
            RejectedError, ClosedError, PeerError: As `Client.journal`.
        """
        return self._call(self._client.journal(), timeout_s)

    def stage(self, transaction: str, part: int, frames: bytes, timeout_s: float | None = None) -> None:
        """Bring messages that wait for `commit`; see `Client.stage`.

        Raises:
            TimeoutError: No answer within `timeout_s`: nobody knows whether they are staged.
            RejectedError, ConnectionLostError, ClosedError, PeerError: As `Client.stage`.
        """
        self._call(self._client.stage(transaction, part, frames), timeout_s)

    def stage_nowait(self, transaction: str, part: int, frames: bytes) -> concurrent.futures.Future[None]:
        """Begin to bring messages; what `stage` returns or raises is the result.

        Raises:
            ClosedError: The client is closed.
        """
        return self._submit(self._client.stage(transaction, part, frames))

    def commit(
        self, transaction: str, parts: list[int], *, query: str = "", batch: int = 0, timeout_s: float | None = None
    ) -> Committed:
        """Have what was staged become messages and records, all of it or nothing; see `Client.commit`.

        Raises:
            TimeoutError: No answer within `timeout_s`: nobody knows; with `query`, stage and commit it again.
            RejectedError, ConnectionLostError, ClosedError, PeerError: As `Client.commit`.
        """
        return self._call(self._client.commit(transaction, parts, query=query, batch=batch), timeout_s)

    def abort(self, transaction: str, timeout_s: float | None = None) -> None:
        """Drop what was staged. Raises as `commit`."""
        self._call(self._client.abort(transaction), timeout_s)

    # The rest.

    @property
    def ended(self) -> bool:
        """Whether the client is closed, or has ended with an error."""
        return self._client.ended

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

    async def _drain(self) -> None:
        await self._forward()
        await self._client.drain()

    async def _publish_confirmed(self, topic: str, value: Any) -> int:
        await self._forward()
        return await self._client.publish_confirmed(topic, value)

    async def _request(self, topic: str, packed: bytes, timeout_s: float, name: bool) -> Any:  # noqa: FBT001 -- on or off
        await self._forward()
        return await self._client.request_packed(topic, packed, timeout_s, name=name)

    # Between the threads.

    def _not_in_loop(self, what: str) -> None:
        if threading.current_thread() is self._thread:
            raise UsageError(f"a function called by the client cannot call {what}: it would wait for itself")

    def _call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine in the loop thread and wait for it.

        Raises:
            TimeoutError: It took longer, and was cancelled.
        """
        try:
            return self._submit(work, timeout_s).result()
        except concurrent.futures.CancelledError:
            raise ClosedError("the client is closed") from None

    def _submit(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> concurrent.futures.Future[T]:
        """Run a coroutine in the loop thread."""
        if threading.current_thread() is self._thread:
            work.close()
            self._not_in_loop("this")
        timed = work if timeout_s is None else _within(work, timeout_s)
        try:
            return asyncio.run_coroutine_threadsafe(timed, self._loop)
        except RuntimeError:
            timed.close()
            work.close()
            raise ClosedError("the client is closed") from None


async def _within(work: Coroutine[Any, Any, T], timeout_s: float) -> T:
    async with asyncio.timeout(timeout_s):
        return await work


async def _close_callback(subscription: CallbackSubscription) -> None:
    await subscription.close()
