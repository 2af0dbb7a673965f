"""`BlockingClient`: a client's connection to a hub, as threads see it.

```
your threads ─ publish ─▶ │ LoopThread: Mailbox ─▶ Client │ ─▶ hub
             ◀─ batch ─── │ one call for many messages    │ ◀─
```

It has the methods of `peers.client.client.Client` with the same arguments, and `timeout_s` where something is waited
for; a test compares them. What a call returns that lives on (a stream, a service) is a face of its own, a file each.

Owner: whoever has it; any thread may call. Invariants: what is published, asked and confirmed by one thread leaves in
the order of its calls; values are packed in the thread that calls. Not here: the loop and its thread (`loop_thread`).
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from hub.batch import Message
from hub.journal.layout import Column
from peers.client.blocking.faces import (
    BlockingConsumerStream,
    BlockingHistory,
    BlockingService,
    BlockingServiceName,
    BlockingStream,
    BlockingSubscription,
    BlockingWriter,
)
from peers.client.blocking.loop_thread import LoopThread
from peers.client.blocking.store import BlockingStore
from peers.client.client import Client
from peers.client.consumer_stream import ConsumerStream
from peers.client.dial import Destination
from peers.client.exchange import ClientStatistics
from peers.client.journal import Committed, JournalState
from peers.client.names import KnownName
from peers.client.publications import Target, checked_head, target
from peers.client.requests import TIMEOUT_S, unfailed
from peers.client.service import CONCURRENCY, ServiceRequest
from peers.client.settings import PREFETCH, ClientSettings
from peers.client.stores.store import Store
from peers.client.stream import MessageStream
from peers.client.values import encode_value
from peers.shm.ring import Block
from peers.wire.hello import Hello
from peers.wire.records import FETCH_BYTES

__all__ = ["BlockingClient"]

T = TypeVar("T")


class BlockingClient:
    """A connection to a hub for threads. Made by `connect`.

    Args:
        destination: The hub, and the way to it.
        settings: See `Options`.
    """

    def __init__(self, destination: Destination, settings: ClientSettings) -> None:
        self._thread = LoopThread(destination, settings)
        # The client in the loop thread: made when `open` has returned.
        self._client: Client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Make the first connection. Called by `connect`, and raises what that raises."""
        self._thread.open()
        self._client = Client(self._thread.exchange)

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
        labels: Iterable[str] = (),
        *,
        sender: str = "",
        to: str = "",
        timeout_s: float | None = None,
    ) -> None:
        """Publish; waits while the mailbox is full, which it is when the client's buffer is.

        Args:
            topic: Topic of the message.
            value: Packed before this returns.
            labels: As for `Client.publish_nowait`.
            sender: As for `Client.publish_nowait`.
            to: As for `Client.publish_nowait`.
            timeout_s: Most to wait; None for as long as it takes.

        Raises:
            BusyError: There was no room within `timeout_s`.
            InvalidTopicError: No client may publish to this topic.
            InvalidNameError: A label or a name is none.
            InvalidValueError: The value has no msgpack form.
            RejectedError: The value is larger than what the hub takes.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        self._put(target(topic, labels, sender, to), encode_value(value), timeout_s)

    def publish_packed(  # noqa: PLR0913 -- the same
        self,
        topic: str,
        packed: bytes,
        labels: Iterable[str] = (),
        *,
        sender: str = "",
        to: str = "",
        timeout_s: float | None = None,
    ) -> None:
        """Publish a value that is msgpack already, and is not looked into; as `publish`."""
        self._put(target(topic, labels, sender, to), packed, timeout_s)

    def publish_nowait(
        self, topic: str, value: Any, labels: Iterable[str] = (), *, sender: str = "", to: str = ""
    ) -> None:
        """Publish; never waits.

        Raises:
            BusyError: The mailbox is full.
            InvalidTopicError, InvalidNameError, InvalidValueError, RejectedError, ClosedError, PeerError: As `publish`.
        """
        self._put_nowait(target(topic, labels, sender, to), encode_value(value))

    def publish_packed_nowait(
        self, topic: str, packed: bytes, labels: Iterable[str] = (), *, sender: str = "", to: str = ""
    ) -> None:
        """Publish a value that is msgpack already, and is not looked into; as `publish_nowait`."""
        self._put_nowait(target(topic, labels, sender, to), packed)

    def publish_confirmed(  # noqa: PLR0913 -- the same
        self,
        topic: str,
        value: Any,
        labels: Iterable[str] = (),
        *,
        sender: str = "",
        to: str = "",
        timeout_s: float | None = None,
    ) -> int:
        """Publish behind what was published before, and wait until the message is in the hub's journal.

        Returns:
            Its offset.

        Raises:
            TimeoutError: It was not confirmed within `timeout_s`; it may still be recorded.
            RejectedError, ConnectionLostError, InvalidTopicError, InvalidNameError, InvalidValueError, ClosedError,
                PeerError: As `Client.publish_confirmed`.
        """
        where, packed = target(topic, labels, sender, to), encode_value(value)
        checked_head(where)
        return self._thread.call(self._publish_confirmed(where, packed), timeout_s)

    def writer(self, name: str) -> BlockingWriter:
        """Return what publishes messages that are recorded once each, as `Client.writer`.

        Raises:
            UsageError: The name is too long.
        """
        return BlockingWriter(self._thread.call, self._client.writer(name))

    def allocate(self, size_bytes: int, *, timeout_s: float | None = None) -> Block:
        """Return a block for bytes, as `Client.allocate`; it may be filled in any thread.

        Raises:
            TimeoutError: There was no room within `timeout_s`.
            UsageError: There never will be room for so many.
        """
        return self._thread.call(self._client.allocate(size_bytes), timeout_s)

    def allocate_nowait(self, size_bytes: int) -> Block:
        """As `allocate`, but raises `BusyError` instead of waiting."""
        return self._thread.call(self._allocate_nowait(size_bytes))

    def drain(self, *, timeout_s: float | None = None) -> None:
        """Wait until everything that was published is handed to the operating system.

        Raises:
            TimeoutError: It was not within `timeout_s`.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        self._thread.call(self._drain(), timeout_s)

    def subscribe(  # noqa: PLR0913 -- as `Client.subscribe`
        self,
        *prefixes: str | Iterable[str],
        buffer_bytes: int | None = None,
        from_offset: int | None = None,
        from_time: datetime | None = None,
        hub: str = "",
        recorded: bool = False,
        epoch: int = 0,
    ) -> BlockingStream:
        """Subscribe, for `with client.subscribe("/zeek/") as messages: for message in messages: ...`.

        Args:
            prefixes: One or more, also as lists; the empty one matches everything.
            buffer_bytes: Held, unread, before the client stops reading; default `stream_bytes`.
            from_offset: Read the hub's journal from this offset on, for ever; see `Client.subscribe`.
            from_time: The same, from the first record that is not older.
            hub: Whose journal that is; see `Client.subscribe`.
            recorded: The same, from the end that the journal has now, if no other place is given.
            epoch: In which `from_offset` was told; see `Client.subscribe`.

        Raises:
            UsageError: No prefix; a hub and no place to begin; an epoch without `from_offset`.
        """
        make = partial(
            self._client.subscribe,
            *prefixes,
            buffer_bytes=buffer_bytes,
            from_offset=from_offset,
            from_time=from_time,
            hub=hub,
            recorded=recorded,
            epoch=epoch,
        )
        return self._stream(make)

    def subscribe_rule(
        self, labels: Iterable[str] = (), *, prefix: str = "", sender: str = "", buffer_bytes: int | None = None
    ) -> BlockingStream:
        """Subscribe by a rule, as `Client.subscribe_rule`, for `with client.subscribe_rule(["door"]) as messages`.

        Raises:
            InvalidTopicError, InvalidNameError: As `Client.subscribe_rule`.
        """
        make = self._client.subscribe_rule
        return self._stream(partial(make, labels, prefix=prefix, sender=sender, buffer_bytes=buffer_bytes))

    def subscribe_name(self, name: str, *, buffer_bytes: int | None = None) -> BlockingStream:
        """Listen to what is sent to a name, as `Client.subscribe_name`.

        Raises:
            InvalidNameError: It is none.
        """
        return self._stream(partial(self._client.subscribe_name, name, buffer_bytes=buffer_bytes))

    def subscribe_callback(
        self,
        prefixes: tuple[str, ...] | list[str] | str,
        function: Callable[[Message], object],
        *,
        timeout_s: float | None = None,
    ) -> BlockingSubscription:
        """Subscribe a function, called in the loop thread with each message; `close` unsubscribes.

        Raises:
            TimeoutError: The hub has not confirmed within `timeout_s`; it is not subscribed.
            InvalidTopicError, RejectedError, ClosedError, PeerError: As `BlockingStream.open`.
        """
        subscription = self._thread.call(self._client.subscribe_callback(prefixes, function), timeout_s)
        return BlockingSubscription(self._thread.call, subscription)

    # Requests.

    def request(self, topic: str, value: Any, *, timeout_s: float = TIMEOUT_S, name: bool = False) -> Any:
        """Ask whoever serves a topic, behind what was published before; return the reply.

        Raises:
            RequestError, ConnectionLostError, UsageError, PeerError: As `Client.request`.
        """
        return self._thread.call(self._request(topic, encode_value(value), timeout_s, name))

    def request_packed(self, topic: str, packed: bytes, *, timeout_s: float = TIMEOUT_S, name: bool = False) -> Any:
        """Ask with a value that is msgpack already, and is not looked into; as `request`."""
        return self._thread.call(self._request(topic, packed, timeout_s, name))

    def request_nowait(
        self, topic: str, value: Any, *, timeout_s: float = TIMEOUT_S, name: bool = False
    ) -> concurrent.futures.Future[Any]:
        """Begin to ask: the future gets what `request` returns or raises.

        Raises:
            InvalidValueError, ClosedError: Nothing was asked.
        """
        return self._thread.submit(self._request(topic, encode_value(value), timeout_s, name))

    def request_packed_nowait(
        self, topic: str, packed: bytes, *, timeout_s: float = TIMEOUT_S, name: bool = False
    ) -> concurrent.futures.Future[Any]:
        """Begin to ask with a value that is msgpack already; as `request_nowait`."""
        return self._thread.submit(self._request(topic, packed, timeout_s, name))

    def request_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        timeout_s: float = TIMEOUT_S,
        name: bool = False,
        return_exceptions: bool = False,
    ) -> list[Any]:
        """Ask one service several things in one frame, behind what was published before; see `Client.request_many`."""
        answers = self._thread.call(self._request_many(topic, list(values), timeout_s, name))
        return answers if return_exceptions else unfailed(answers)

    def store(self, name: str, *, timeout_s: float = TIMEOUT_S) -> BlockingStore:
        """Return a store of the mesh, by its name; nothing is asked yet. See `Client.store`.

        Raises:
            UsageError: That is no name.
        """
        requests = self._thread.exchange.requests
        store = Store(name, requests, self._client.subscribe, self.publish_packed_nowait, timeout_s)
        return BlockingStore(self._thread.call, lambda work: self._thread.call(self._behind(work, timeout_s)), store)

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
        return BlockingService(self._thread.call, self._client.serve(prefixes, function, concurrency=concurrency))

    def serve_batches(
        self, prefixes: Sequence[str] | str, function: Callable[[list[Any]], Any], *, concurrency: int = CONCURRENCY
    ) -> BlockingService:
        """Answer as many requests at once as came together; see `Client.serve_batches`."""
        return BlockingService(
            self._thread.call, self._client.serve_batches(prefixes, function, concurrency=concurrency)
        )

    # Service names.

    def claim(
        self, name: str, labels: Iterable[str] = (), *, queue: bool = False, timeout_s: float | None = None
    ) -> BlockingServiceName:
        """Claim a service name, for `with client.claim("org.example.Player")`; see `Client.claim`.

        Raises:
            TimeoutError: No answer within `timeout_s`; it is not claimed.
            RejectedError, InvalidNameError, UsageError, ClosedError, PeerError: As `Client.claim`.
        """
        claimed = self._thread.call(self._client.claim(name, labels, queue=queue), timeout_s)
        return BlockingServiceName(self._thread.call, claimed)

    def names(self, prefix: str = "", *, timeout_s: float | None = None) -> list[KnownName]:
        """List the service names that the hub knows; see `Client.names`. Raises `TimeoutError`, too."""
        return self._thread.call(self._client.names(prefix), timeout_s)

    # The journal.

    def read(  # noqa: PLR0913 -- as `Client.read`
        self,
        *prefixes: str,
        start: int = 0,
        end: int | None = None,
        start_time: datetime | None = None,
        piece_bytes: int = FETCH_BYTES,
        hub: str = "",
        columns: Collection[Column] | None = None,
        epoch: int = 0,
        timeout_s: float | None = None,
    ) -> BlockingHistory:
        """Read the hub's journal, or that of another one, for `for record in client.read("/zeek/")`, or its `blocks()`.

        Iterating raises what `Client.read` names, and `TimeoutError` where the hub does not answer in time.

        Args:
            prefixes: Prefixes of the topics wanted; without any, all topics are wanted.
            start: First offset.
            end: The one behind the last; None for what is committed when reading begins.
            start_time: Instead of `start`: the first record that is not older.
            piece_bytes: How much one answer of the hub holds, bytes.
            hub: Another hub of the mesh, by its name or id, whose journal is read.
            columns: What of each record is wanted: see `Client.read`.
            epoch: In which `start` was told: see `Client.read`.
            timeout_s: Most to wait for one answer.

        Raises:
            InvalidTopicError: One of the prefixes is none.
            UsageError: There is no such column.
        """
        history = self._client.read(
            *prefixes,
            start=start,
            epoch=epoch,
            end=end,
            start_time=start_time,
            piece_bytes=piece_bytes,
            hub=hub,
            columns=columns,
        )
        return BlockingHistory(self._thread.call, history, self._thread.report_bad, timeout_s)

    def consume(  # noqa: PLR0913 -- as the asyncio client's
        self,
        name: str,
        *prefixes: str,
        from_offset: int | None = None,
        from_time: datetime | None = None,
        key: str | None = None,
        redeliver_s: float | None = None,
        deliveries: int | None = None,
        dead_letters: str | None = None,
        prefetch: int = PREFETCH,
    ) -> BlockingConsumerStream:
        """Consume recorded messages, as `Client.consume`, for `with client.consume("orders", "/app/") as messages`.

        Raises:
            UsageError: Terms, and no prefixes that they are for; two places to begin, or one before the first.
        """
        make = partial(
            self._client.consume,
            name,
            *prefixes,
            from_offset=from_offset,
            from_time=from_time,
            key=key,
            redeliver_s=redeliver_s,
            deliveries=deliveries,
            dead_letters=dead_letters,
            prefetch=prefetch,
        )

        async def made() -> ConsumerStream:
            return make()

        return BlockingConsumerStream(self._thread.call, self._thread.call(made()))

    def remove_consumer(self, name: str, *, timeout_s: float | None = None) -> bool:
        """Have the hub forget a named consumer, as `Client.remove_consumer`; return whether there was one."""
        return self._thread.call(self._client.remove_consumer(name), timeout_s)

    def journal(self, *, hub: str = "", timeout_s: float | None = None) -> JournalState:
        """Ask how far the hub's journal reaches, or that of another hub of the mesh, by its name or id.

        Raises:
            TimeoutError: No answer within `timeout_s`.
            RejectedError, ClosedError, PeerError: As `Client.journal`.
        """
        return self._thread.call(self._client.journal(hub=hub), timeout_s)

    def stage(self, transaction: str, part: int, frames: bytes, *, timeout_s: float | None = None) -> None:
        """Bring messages that wait for `commit`; see `Client.stage`.

        Raises:
            TimeoutError: No answer within `timeout_s`: nobody knows whether they are staged.
            RejectedError, ConnectionLostError, ClosedError, PeerError: As `Client.stage`.
        """
        self._thread.call(self._client.stage(transaction, part, frames), timeout_s)

    def stage_nowait(self, transaction: str, part: int, frames: bytes) -> concurrent.futures.Future[None]:
        """Begin to bring messages; what `stage` returns or raises is the result.

        Raises:
            ClosedError: The client is closed.
        """
        return self._thread.submit(self._client.stage(transaction, part, frames))

    def commit(
        self, transaction: str, parts: list[int], *, query: str = "", batch: int = 0, timeout_s: float | None = None
    ) -> Committed:
        """Have what was staged become messages and records, all of it or nothing; see `Client.commit`.

        Raises:
            TimeoutError: No answer within `timeout_s`: nobody knows; with `query`, stage and commit it again.
            RejectedError, ConnectionLostError, ClosedError, PeerError: As `Client.commit`.
        """
        return self._thread.call(self._client.commit(transaction, parts, query=query, batch=batch), timeout_s)

    def abort(self, transaction: str, *, timeout_s: float | None = None) -> None:
        """Drop what was staged. Raises as `commit`."""
        self._thread.call(self._client.abort(transaction), timeout_s)

    # The rest.

    def __repr__(self) -> str:
        return repr(self._client)

    @property
    def ended(self) -> bool:
        """Whether the client is closed, or has ended with an error."""
        return self._client.ended

    def statistics(self) -> ClientStatistics:
        """The client as it is now. What is on its way to the loop thread is not counted yet."""
        return self._client.statistics()

    def wait_closed(self, *, timeout_s: float | None = None) -> None:
        """Wait until the client has ended: closed, or with an error that no reconnecting cures.

        Raises:
            TimeoutError: It has not within `timeout_s`.
            PeerError: That error.
        """
        self._thread.call(self._thread.exchange.wait_closed(), timeout_s)

    def close(self) -> None:
        """Send what was published, for at most `close_timeout_s`, then end the connection and the thread.

        Streams end: whoever waits for messages in another thread gets the end. May be called twice.
        """
        self._thread.close()

    # Inside.

    def _put(self, where: Target, packed: bytes, timeout_s: float | None) -> None:
        self._check(where, packed)
        self._thread.put(where, packed, timeout_s)

    def _put_nowait(self, where: Target, packed: bytes) -> None:
        self._check(where, packed)
        self._thread.put_nowait(where, packed)

    def _check(self, where: Target, packed: bytes) -> None:
        """Raise at the call what the loop thread could only tell later. The limit is that of the hub as known now."""
        checked_head(where)
        self._thread.exchange.publishing.publications.check_size(where, len(packed))

    def _stream(self, make: Callable[[], MessageStream]) -> BlockingStream:
        return BlockingStream(self._thread.call, self._thread.call(_made(make)))

    async def _behind(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Do something behind what was published before."""
        try:
            await self._thread.forward_within(timeout_s)
        except BaseException:
            work.close()
            raise
        return await work

    async def _publish_confirmed(self, where: Target, packed: bytes) -> int:
        await self._thread.forward()
        return await self._thread.exchange.publishing.put_confirmed(where, packed)

    async def _drain(self) -> None:
        await self._thread.forward()
        await self._client.drain()

    async def _request(self, topic: str, packed: bytes, timeout_s: float, name: bool) -> Any:  # noqa: FBT001 -- on or off
        left_s = await self._thread.forward_within(timeout_s)
        return await self._thread.exchange.requests.ask(topic, packed, left_s, named=name)

    async def _request_many(self, topic: str, values: list[Any], timeout_s: float, name: bool) -> list[Any]:  # noqa: FBT001 -- the same
        left_s = await self._thread.forward_within(timeout_s)
        return await self._thread.exchange.requests.ask_many(topic, values, left_s, named=name)

    async def _allocate_nowait(self, size_bytes: int) -> Block:
        return self._client.allocate_nowait(size_bytes)


async def _made(make: Callable[[], MessageStream]) -> MessageStream:
    return make()
