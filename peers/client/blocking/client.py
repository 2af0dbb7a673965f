"""`BlockingClient`: a client for threads, over an event loop in a thread of its own.

It has the methods of `peers.client.Client` with the same arguments, and `timeout_s` where it waits; a test compares
them. Publications, requests and confirmations of one thread leave in the order of its calls; values are packed in the
thread that calls. Limits: the mailbox, the batch taken out of it, and the client's own buffer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable
from datetime import datetime
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from hub.errors import BusyError, ClosedError, HubError, InternalError, RejectedError, RequestTimeoutError, UsageError
from hub.journal.layout import Column
from hub.messages.batch import Message
from hub.messages.request_frame import Status
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
from peers.client.client import Client
from peers.client.exchange import ClientStatistics, Destination, Exchange
from peers.client.journal import Committed, JournalState
from peers.client.names import KnownName
from peers.client.publications import Target, checked_head, target
from peers.client.requests import TIMEOUT_S, unfailed
from peers.client.settings import ClientSettings
from peers.client.store import Store
from peers.client.values import BadMessage, encode_value
from peers.shm.ring import Block
from peers.wire.hello import Hello
from peers.wire.records import FETCH_BYTES

T = TypeVar("T")
P = ParamSpec("P")
F = TypeVar("F")

_MAILBOX_BYTES = 1024 * 1024  # Limit of the mailbox; a running loop empties it within milliseconds
_ITEM_BYTES = 120
"""Cost of an item beside its payload: a pair (56), a bytes object (33), its place in a list (8), rounded up."""

_log = logging.getLogger("peers.client")


class LoopThread:
    """The loop of one client, in a thread of its own, and the mailbox of publications for it."""

    def __init__(self, destination: Destination, settings: ClientSettings) -> None:
        self._destination = destination
        self._settings = settings
        self._thread = threading.Thread(target=self._run, name=f"hub client {settings.name}".rstrip(), daemon=True)
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._closing = threading.Lock()
        # Its lock guards the four fields below: the mailbox, the threads that wait for room, and why it is closed.
        self._room = threading.Condition(threading.Lock())
        self._items: list[tuple[Target, bytes]] = []  # not empty: the loop was woken
        self._size_bytes = 0
        self._waiting = 0
        self._error: Exception | None = None
        # Taken from the mailbox, and not yet by the client; only the holder of `_forwarding` takes from it.
        self._pending: deque[tuple[Target, bytes]] = deque()
        # Made in the loop thread before `open` returns:
        self.exchange: Exchange
        self.loop: asyncio.AbstractEventLoop
        self._mail: asyncio.Event
        self._forwarding: asyncio.Lock
        self._stop: asyncio.Event

    def open(self) -> None:
        """Start, and make the first connection; raises as `connect`."""
        self._thread.start()
        try:
            self._ready.result()
        except HubError:
            self._thread.join()
            raise

    def close(self) -> None:
        """Send publications, for at most `close_timeout_s`, and end the client and the thread. May be called twice."""
        self._check_outside("close")
        with self._closing:
            if self._thread.is_alive():
                with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                    self.loop.call_soon_threadsafe(self._stop.set)
                self._thread.join()

    def put(self, where: Target, packed: bytes, timeout_s: float | None) -> None:
        """Publish when there is room; raises as `BlockingClient.publish`."""
        self._check_outside("publish, which waits; use publish_nowait")
        with self._room:
            if not self._has_room(packed):
                self._waiting += 1
                try:
                    found = self._room.wait_for(lambda: self._has_room(packed), timeout_s)
                finally:
                    self._waiting -= 1
                if not found:
                    raise BusyError(f"no room in the mailbox within {timeout_s} s")
            self._append(where, packed)

    def put_nowait(self, where: Target, packed: bytes) -> None:
        """Publish; raises as `put`."""
        with self._room:
            if not self._has_room(packed):
                raise BusyError(f"{self._size_bytes} bytes wait for the loop, the limit is {_MAILBOX_BYTES}")
            self._append(where, packed)

    def _has_room(self, packed: bytes) -> bool:
        """Return whether `put` need not wait. An empty mailbox accepts any item."""
        if self._error is not None or not self._items:
            return True
        return self._size_bytes + len(packed) + _ITEM_BYTES <= _MAILBOX_BYTES

    def _append(self, where: Target, packed: bytes) -> None:
        if self._error is not None:
            raise self._error.with_traceback(None)
        if not self._items:
            try:
                self.loop.call_soon_threadsafe(self._mail.set)
            except RuntimeError as error:
                raise ClosedError("the event loop is closed") from error
        self._items.append((where, packed))
        self._size_bytes += len(packed) + _ITEM_BYTES

    def _take(self) -> None:
        with self._room:
            self._pending.extend(self._items)
            self._items = []
            self._size_bytes = 0
            if self._waiting:
                self._room.notify_all()

    def _close_mailbox(self, error: Exception) -> None:
        with self._room:
            self._error = error
            self._room.notify_all()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine in the loop thread and wait for it.

        Raises:
            TimeoutError: It took longer, and was cancelled.
            ClosedError: The client is closed.
        """
        try:
            return self.submit(work, timeout_s).result()
        except concurrent.futures.CancelledError:
            raise ClosedError("the client is closed") from None

    def submit(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> concurrent.futures.Future[T]:
        """Run a coroutine in the loop thread; return the future of its outcome."""
        if threading.current_thread() is self._thread:
            work.close()
            self._check_outside("this")
        timed = work if timeout_s is None else _within(work, timeout_s)
        try:
            return asyncio.run_coroutine_threadsafe(timed, self.loop)
        except RuntimeError:
            timed.close()
            work.close()
            raise ClosedError("the client is closed") from None

    def report_bad(self, bad: BadMessage) -> None:
        """Report it in the loop thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self.exchange.reports.bad, bad)

    def _check_outside(self, what: str) -> None:
        if threading.current_thread() is self._thread:
            raise UsageError(f"a function called by the client cannot call {what}: it would wait for itself")

    async def forward(self) -> None:
        """Give the client all earlier publications; raises the error with which the client has ended."""
        async with self._forwarding:
            self._mail.clear()
            self._take()
            pending = self._pending
            while pending:
                try:
                    await self.exchange.publishing.put(*pending[0])
                except RejectedError as error:
                    if self.exchange.ended is not None:
                        raise
                    self.exchange.reports.reject(error, 1)  # larger than the hub takes now; the caller has gone on
                pending.popleft()

    async def forward_within(self, timeout_s: float) -> float:
        """Forward earlier publications before a request; return the rest of its time, or raise."""
        if (not self._pending and not self._mail.is_set()) or not timeout_s > 0:
            return timeout_s
        due_s = self.loop.time() + timeout_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(due_s):
                await self.forward()
        left_s = due_s - self.loop.time()
        if left_s <= 0:
            text = "earlier publications could not be sent within the time that the request gives"
            raise RequestTimeoutError(Status.TIMED_OUT, text)
        return left_s

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 -- it belongs to the thread that waits for the connection
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                _log.exception("the loop thread of a blocking client failed")

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._mail, self._stop, self._forwarding = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        self.exchange = exchange = Exchange(self._destination, self._settings)
        await exchange.open()
        self._ready.set_result(None)
        pump = asyncio.create_task(self._pump())
        watch = asyncio.create_task(self._watch())
        await self._stop.wait()
        self._close_mailbox(ClosedError("the client is closed"))
        watch.cancel()
        if exchange.connection is not None:
            with contextlib.suppress(TimeoutError, HubError):
                async with asyncio.timeout(self._settings.close_timeout_s):
                    await self.forward()
        pump.cancel()
        self._take()
        exchange.publishing.give_up(len(self._pending))
        await exchange.close()
        callers = asyncio.all_tasks() - {asyncio.current_task()}
        if callers:
            await asyncio.wait(callers, timeout=1.0)  # calls of other threads are answered before the loop ends

    async def _pump(self) -> None:
        try:
            while True:
                await self._mail.wait()
                await self.forward()
        except HubError as error:
            self._close_mailbox(error)
        except Exception as error:
            self._close_mailbox(InternalError(f"a bug of the client, please report it: {error!r}"))
            raise

    async def _watch(self) -> None:
        try:
            await self.exchange.wait_closed()
        except HubError as error:
            self._close_mailbox(error)


async def _within(work: Coroutine[Any, Any, T], timeout_s: float) -> T:
    async with asyncio.timeout(timeout_s):
        return await work


def _made(
    method: Callable[Concatenate[Client, P], T], face: Callable[[Call, T], F]
) -> Callable[Concatenate[BlockingClient, P], F]:
    """Make the method for threads, with the same arguments, that returns the face of the asyncio result."""

    @wraps(method)
    def make(self: BlockingClient, /, *args: P.args, **kwargs: P.kwargs) -> F:
        return self._face(face, lambda client: method(client, *args, **kwargs))

    make.__doc__ = (method.__doc__ or "").replace("async with", "with")
    make.__signature__ = signature(method).replace(return_annotation=face.__name__)  # type: ignore[attr-defined]
    return make


class BlockingClient:
    """A connection to a hub for threads. Made by `connect`.

    Methods are those of `Client`, and raise as these. `timeout_s` is the most to wait; then they raise `TimeoutError`.
    """

    def __init__(self, destination: Destination, settings: ClientSettings) -> None:
        self._thread = LoopThread(destination, settings)
        self._client: Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Make the first connection. Called by `connect`, and raises as `connect`."""
        self._thread.open()
        self._client = Client(self._thread.exchange)

    @property
    def hub(self) -> Hello | None:
        """HELLO of the hub that is connected, or was last."""
        return self._client.hub

    @property
    def dropped_messages(self) -> int:
        """How many messages for this client the hub has dropped."""
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
        """Publish as `Client.publish_nowait`; waits while the mailbox is full, which it is when the client's buffer is.

        Raises:
            BusyError: There was no room within `timeout_s`.
            UsageError, PeerError: As `Client.publish_nowait`.
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
        """Wait until the operating system has all publications."""
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
        """Ask the service of a topic, behind earlier publications; return the reply. See `Client.request`."""
        return self._thread.call(self._request(topic, encode_value(value), timeout_s, name))

    def request_packed(self, topic: str, packed: bytes, *, timeout_s: float = TIMEOUT_S, name: bool = False) -> Any:
        """Ask with a value that is msgpack already; as `request`."""
        return self._thread.call(self._request(topic, packed, timeout_s, name))

    def request_nowait(
        self, topic: str, value: Any, *, timeout_s: float = TIMEOUT_S, name: bool = False
    ) -> concurrent.futures.Future[Any]:
        """Begin to ask: the future gets the result or the error of `request`."""
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
        """Ask one service several things at once, behind earlier publications; see `Client.request_many`."""
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

        Iterating also raises `TimeoutError` if one answer takes longer than `timeout_s`.
        """
        return self._face(
            lambda call, history: BlockingHistory(call, history, self._thread.report_bad, timeout_s),
            lambda client: client.read(
                *prefixes,
                start=start,
                epoch=epoch,
                end=end,
                start_time=start_time,
                piece_bytes=piece_bytes,
                hub=hub,
                columns=columns,
            ),
        )

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
        """Begin to send messages: the future gets the result or the error of `stage`."""
        return self._thread.submit(self._client.stage(transaction, part, frames))

    def commit(
        self, transaction: str, parts: list[int], *, query: str = "", batch: int = 0, timeout_s: float | None = None
    ) -> Committed:
        """Publish and record the staged messages, all or none; see `Client.commit`."""
        return self._thread.call(self._client.commit(transaction, parts, query=query, batch=batch), timeout_s)

    def abort(self, transaction: str, *, timeout_s: float | None = None) -> None:
        """Drop staged messages."""
        self._thread.call(self._client.abort(transaction), timeout_s)

    # The rest.

    def __repr__(self) -> str:
        return repr(self._client)

    @property
    def ended(self) -> bool:
        """Whether the client is closed, or has ended with an error."""
        return self._client.ended

    def statistics(self) -> ClientStatistics:
        """Return counters of the client, without the messages in the mailbox."""
        return self._client.statistics()

    def wait_closed(self, *, timeout_s: float | None = None) -> None:
        """Wait until the client has ended: closed, or with an error, which is raised."""
        self._thread.call(self._thread.exchange.wait_closed(), timeout_s)

    def close(self) -> None:
        """Send publications, for at most `close_timeout_s`, then end the connection and the thread.

        Streams end, also for readers in other threads. May be called twice.
        """
        self._thread.close()

    def _put(self, where: Target, packed: bytes, timeout_s: float | None) -> None:
        self._check(where, packed)
        self._thread.put(where, packed, timeout_s)

    def _put_nowait(self, where: Target, packed: bytes) -> None:
        self._check(where, packed)
        self._thread.put_nowait(where, packed)

    def _check(self, where: Target, packed: bytes) -> None:
        """Raise errors at the call that the loop thread could only report. The limit is that of the hub as of now."""
        checked_head(where)
        self._thread.exchange.publishing.publications.check_size(where, len(packed))

    def _face(self, face: Callable[[Call, T], F], make: Callable[[Client], T]) -> F:
        return face(self._thread.call, self._thread.call(in_loop(lambda: make(self._client))))

    async def _behind(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
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
