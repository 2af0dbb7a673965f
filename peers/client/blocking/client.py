"""`BlockingClient`: a client's connection to a hub, for threads.

It has the methods of `peers.client.Client` with the same arguments, and `timeout_s` where something is waited for; a
test compares them. What one thread publishes, asks and confirms leaves in the order of its calls; values are packed in
the thread that calls.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Collection, Coroutine, Iterable
from datetime import datetime
from functools import wraps
from inspect import signature
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from hub.batch import Message
from hub.journal.layout import Column
from peers.client.blocking.faces import (
    BlockingConsumerStream,
    BlockingHistory,
    BlockingService,
    BlockingServiceName,
    BlockingStore,
    BlockingStream,
    BlockingSubscription,
    BlockingWriter,
    Call,
    in_loop,
)
from peers.client.blocking.loop_thread import LoopThread
from peers.client.client import Client
from peers.client.dial import Destination
from peers.client.exchange import ClientStatistics
from peers.client.journal import Committed, JournalState
from peers.client.names import KnownName
from peers.client.publications import Target, checked_head, target
from peers.client.requests import TIMEOUT_S, unfailed
from peers.client.settings import ClientSettings
from peers.client.store import Store
from peers.client.values import encode_value
from peers.shm.ring import Block
from peers.wire.hello import Hello
from peers.wire.records import FETCH_BYTES

T = TypeVar("T")
P = ParamSpec("P")
F = TypeVar("F")


def _made(
    method: Callable[Concatenate[Client, P], T], face: Callable[[Call, T], F]
) -> Callable[Concatenate[BlockingClient, P], F]:
    """Make the method of threads that returns the face of what the asyncio method returns: same arguments."""

    @wraps(method)
    def make(self: BlockingClient, /, *args: P.args, **kwargs: P.kwargs) -> F:
        return self._face(face, lambda client: method(client, *args, **kwargs))

    make.__doc__ = (method.__doc__ or "").replace("async with", "with")
    make.__signature__ = signature(method).replace(return_annotation=face.__name__)  # type: ignore[attr-defined]
    return make


class BlockingClient:
    """A connection to a hub for threads. Made by `connect`.

    Methods are those of `Client`, and raise as these. `timeout_s` is the most to wait; then they raise `TimeoutError`.

    Args:
        destination: The hub, and the way to it.
        settings: See `Options`.
    """

    def __init__(self, destination: Destination, settings: ClientSettings) -> None:
        self._thread = LoopThread(destination, settings)
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
        """HELLO of the hub that is connected, or was last."""
        return self._client.hub

    @property
    def dropped_messages(self) -> int:
        """How many messages for this client the hub has lost."""
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
        """Publish a value that is msgpack already; as `publish`."""
        self._put(target(topic, labels, sender, to), packed, timeout_s)

    def publish_nowait(
        self, topic: str, value: Any, labels: Iterable[str] = (), *, sender: str = "", to: str = ""
    ) -> None:
        """Publish; never waits. Raises `BusyError` if the mailbox is full, else as `publish`."""
        self._put_nowait(target(topic, labels, sender, to), encode_value(value))

    def publish_packed_nowait(
        self, topic: str, packed: bytes, labels: Iterable[str] = (), *, sender: str = "", to: str = ""
    ) -> None:
        """Publish a value that is msgpack already; as `publish_nowait`."""
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
        """Publish, and wait until the message is in the hub's journal; return its offset.

        After `TimeoutError` the message may still be recorded. Other errors are those of `Client.publish_confirmed`.
        """
        where, packed = target(topic, labels, sender, to), encode_value(value)
        checked_head(where)
        return self._thread.call(self._publish_confirmed(where, packed), timeout_s)

    writer = _made(Client.writer, BlockingWriter)

    def allocate(self, size_bytes: int, *, timeout_s: float | None = None) -> Block:
        """Return a block for bytes, as `Client.allocate`; it may be filled in any thread."""
        return self._thread.call(self._client.allocate(size_bytes), timeout_s)

    def allocate_nowait(self, size_bytes: int) -> Block:
        """As `allocate`, but raises `BusyError` instead of waiting."""
        return self._thread.call(in_loop(lambda: self._client.allocate_nowait(size_bytes)))

    def drain(self, *, timeout_s: float | None = None) -> None:
        """Wait until everything that was published is handed to the operating system."""
        self._thread.call(self._drain(), timeout_s)

    subscribe = _made(Client.subscribe, BlockingStream)
    subscribe_rule = _made(Client.subscribe_rule, BlockingStream)
    subscribe_name = _made(Client.subscribe_name, BlockingStream)

    def subscribe_callback(
        self,
        prefixes: tuple[str, ...] | list[str] | str,
        function: Callable[[Message], object],
        *,
        timeout_s: float | None = None,
    ) -> BlockingSubscription:
        """Subscribe a function, called in the loop thread with each message; `close` unsubscribes."""
        subscription = self._thread.call(self._client.subscribe_callback(prefixes, function), timeout_s)
        return BlockingSubscription(self._thread.call, subscription)

    # Requests.

    def request(self, topic: str, value: Any, *, timeout_s: float = TIMEOUT_S, name: bool = False) -> Any:
        """Ask the service of a topic, behind what was published before; return the reply. See `Client.request`."""
        return self._thread.call(self._request(topic, encode_value(value), timeout_s, name))

    def request_packed(self, topic: str, packed: bytes, *, timeout_s: float = TIMEOUT_S, name: bool = False) -> Any:
        """Ask with a value that is msgpack already; as `request`."""
        return self._thread.call(self._request(topic, packed, timeout_s, name))

    def request_nowait(
        self, topic: str, value: Any, *, timeout_s: float = TIMEOUT_S, name: bool = False
    ) -> concurrent.futures.Future[Any]:
        """Begin to ask: the future gets what `request` returns or raises."""
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
        """Ask one service several things at once, behind what was published before; see `Client.request_many`."""
        answers = self._thread.call(self._request_many(topic, list(values), timeout_s, name))
        return answers if return_exceptions else unfailed(answers)

    def store(self, name: str, *, timeout_s: float = TIMEOUT_S) -> BlockingStore:
        """Return a store of the mesh, by its name; see `Client.store`."""
        requests = self._thread.exchange.requests
        store = Store(name, requests, self._client.subscribe, self.publish_packed_nowait, timeout_s)
        return BlockingStore(self._thread.call, lambda work: self._thread.call(self._behind(work, timeout_s)), store)

    serve = _made(Client.serve, BlockingService)
    serve_batches = _made(Client.serve_batches, BlockingService)

    # Service names.

    def claim(
        self, name: str, labels: Iterable[str] = (), *, queue: bool = False, timeout_s: float | None = None
    ) -> BlockingServiceName:
        """Claim a service name, for `with client.claim("org.example.Player")`; see `Client.claim`."""
        claimed = self._thread.call(self._client.claim(name, labels, queue=queue), timeout_s)
        return BlockingServiceName(self._thread.call, claimed)

    def names(self, prefix: str = "", *, timeout_s: float | None = None) -> list[KnownName]:
        """List the service names that the hub knows; see `Client.names`."""
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
        """Read a journal, for `for record in client.read("/zeek/")`, or its `blocks()`; see `Client.read`.

        Iterating raises what `Client.read` names, and `TimeoutError` if one answer takes longer than `timeout_s`.
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

    consume = _made(Client.consume, BlockingConsumerStream)

    def remove_consumer(self, name: str, *, timeout_s: float | None = None) -> bool:
        """Have the hub forget a named consumer; return whether there was one. Its streams end."""
        return self._thread.call(self._client.remove_consumer(name), timeout_s)

    def journal(self, *, hub: str = "", timeout_s: float | None = None) -> JournalState:
        """Ask how far the journal of a hub reaches; see `Client.journal`."""
        return self._thread.call(self._client.journal(hub=hub), timeout_s)

    def stage(self, transaction: str, part: int, frames: bytes, *, timeout_s: float | None = None) -> None:
        """Send messages that wait for `commit`; see `Client.stage`."""
        self._thread.call(self._client.stage(transaction, part, frames), timeout_s)

    def stage_nowait(self, transaction: str, part: int, frames: bytes) -> concurrent.futures.Future[None]:
        """Begin to send messages: the future gets what `stage` returns or raises."""
        return self._thread.submit(self._client.stage(transaction, part, frames))

    def commit(
        self, transaction: str, parts: list[int], *, query: str = "", batch: int = 0, timeout_s: float | None = None
    ) -> Committed:
        """Publish and record the staged messages, all or none; see `Client.commit`."""
        return self._thread.call(self._client.commit(transaction, parts, query=query, batch=batch), timeout_s)

    def abort(self, transaction: str, *, timeout_s: float | None = None) -> None:
        """Drop what was staged."""
        self._thread.call(self._client.abort(transaction), timeout_s)

    # The rest.

    def __repr__(self) -> str:
        return repr(self._client)

    @property
    def ended(self) -> bool:
        """Whether the client is closed, or has ended with an error."""
        return self._client.ended

    def statistics(self) -> ClientStatistics:
        """Return counters of the client; what is on its way to the loop thread is not counted yet."""
        return self._client.statistics()

    def wait_closed(self, *, timeout_s: float | None = None) -> None:
        """Wait until the client has ended: closed, or with an error, which is raised."""
        self._thread.call(self._thread.exchange.wait_closed(), timeout_s)

    def close(self) -> None:
        """Send what was published, for at most `close_timeout_s`, then end the connection and the thread.

        Streams end, also for readers in other threads. May be called twice.
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

    def _face(self, face: Callable[[Call, T], F], make: Callable[[Client], T]) -> F:
        return face(self._thread.call, self._thread.call(in_loop(lambda: make(self._client))))

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
