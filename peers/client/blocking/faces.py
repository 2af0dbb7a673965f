"""Streams, services, names, stores and writers for threads, each before its asyncio object in the loop thread.

Each class has the methods of its asyncio class with the same arguments, and `timeout_s` where it waits (`TimeoutError`
then); a test compares them. Several threads may share one object: a message is given to one reader, oldest first. A
call crosses threads, about 0.1 ms, so streams are read in batches and many messages are acknowledged at once. A replica
is read in the calling thread.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from hub.errors import ClosedError, UsageError
from hub.journal.block import Block
from hub.journal.layout import Column, whole_of
from hub.journal.message import RecordedMessage
from hub.messages.batch import Message
from peers.client.consumer_stream import ConsumedMessage, ConsumerStream
from peers.client.journal import History, Record, records_of
from peers.client.names import ServiceName
from peers.client.routes import Wanted
from peers.client.service import Service
from peers.client.store import Store, StoreChange, StoreEntry, StoreReplica, StoreWatch
from peers.client.stream import CallbackSubscription, MessageStream
from peers.client.values import BadMessage
from peers.client.writer import Writer
from peers.wire.records import Records

_ENTRIES_AT_ONCE = 1_000  # How many entries of a store cross threads at once
T = TypeVar("T")
P = ParamSpec("P")


class Call(Protocol):
    """Runs a coroutine in the loop thread, and waits for its result; `TimeoutError` after `timeout_s`."""

    def __call__(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T: ...


class Attribute(Generic[T]):
    """The attribute of that name of the asyncio object; see there."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...

    @overload
    def __get__(self, face: Face[Any], owner: type) -> T: ...

    def __get__(self, face: Face[Any] | None, owner: type) -> Self | T:
        if face is None:
            return self
        found: T = getattr(face._of, self._name)  # noqa: SLF001 -- a part of its face
        return found


A = TypeVar("A")


class Face(Generic[A]):
    """An object of the loop thread, as other threads see it."""

    def __init__(self, call: Call, of: A) -> None:
        self._call = call
        self._of = of


class _Entered(Face[A]):
    """Ends with its `with` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    @abstractmethod
    def _leave(self) -> None: ...


class _CanOpen(Protocol):
    async def open(self) -> None: ...

    async def close(self) -> None: ...


Opening = TypeVar("Opening", bound=_CanOpen)


class _Opened(_Entered[Opening]):
    """Opens as a `with` block begins, and closes as it ends."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def _leave(self) -> None:
        self.close()

    def open(self, *, timeout_s: float | None = None) -> None:
        """Open it, as the asyncio object does, where no `with` is written."""
        self._call(self._of.open(), timeout_s)

    def close(self, *, timeout_s: float | None = None) -> None:
        """Close it, as the asyncio object does."""
        self._call(self._of.close(), timeout_s)


class _CanRead(_CanOpen, Protocol):
    async def batch(self) -> list[Any]: ...


Reading = TypeVar("Reading", bound=_CanRead)


class _Reader(_Opened[Reading], Generic[Reading, T]):
    """A stream that several threads may read: each item is given to one of them.

    One thread at a time fetches a batch from the loop thread; the others wait for it.
    """

    _WORDS = "stream", "message", "open the stream first: `with client.subscribe(...) as messages`"

    def __init__(self, call: Call, of: Reading) -> None:
        super().__init__(call, of)
        self._ready: deque[T] = deque()  # Fetched from the loop thread and not given to a reader yet
        self._ended = False
        self._fetching = False
        self._changed = threading.Condition(threading.Lock())

    def __iter__(self) -> Iterator[T]:
        self._check_open()
        return self

    def __next__(self) -> T:
        try:
            return self.receive()
        except ClosedError:
            raise StopIteration from None

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: it or the client is closed, and all is read."""
        return self._ended and not self._ready

    def receive(self, *, timeout_s: float | None = None) -> T:
        """Return the oldest item, waiting for one; raises as in asyncio, and `TimeoutError` after `timeout_s`."""
        due_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                pass
            if not self._fill(due_s):
                whole, part, _ = self._WORDS
                if self._ended:
                    raise ClosedError(f"the {whole} is closed")
                raise TimeoutError(f"no {part} within {timeout_s} s")

    def iterate(self, timeout_s: float) -> Iterator[T]:
        """Iterate until no item has come for `timeout_s`, or to the end."""
        while True:
            try:
                yield self.receive(timeout_s=timeout_s)
            except (TimeoutError, ClosedError):
                return

    def batch(self, *, timeout_s: float | None = None) -> list[T]:
        """Wait for items and return those that are there; empty when none came in time, or at the end (`ended`)."""
        self._fill(None if timeout_s is None else time.monotonic() + timeout_s)
        with self._changed:
            ready = list(self._ready)
            self._ready.clear()
        return ready

    def close(self, *, timeout_s: float | None = None) -> None:
        """Close it, and throw away unread items. Readers in other threads get the end."""
        with self._changed:
            self._ended = True
            self._ready.clear()
            self._changed.notify_all()
        with suppress(ClosedError):  # it has ended with its client
            super().close(timeout_s=timeout_s)

    @abstractmethod
    def _is_open(self) -> bool: ...

    def _check_open(self) -> None:
        if not self._is_open():
            raise UsageError(self._WORDS[-1])

    def _fill(self, due_s: float | None) -> bool:
        """Wait until there is an item here; False when there was none in time, or at the end."""
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
        items: list[Any] = []
        ended = False
        try:
            items = self._call(self._of.batch(), timeout_s)
            ended = not items
        except TimeoutError:
            pass
        except ClosedError:
            ended = True
        finally:
            with self._changed:
                self._fetching = False
                if not self._ended:
                    self._ready.extend(items)
                    self._ended = ended
                self._changed.notify_all()


def _left_s(due_s: float | None) -> float | None:
    return None if due_s is None else max(0.0, due_s - time.monotonic())


class BlockingStream(_Reader[MessageStream, Message]):
    """Messages under some prefixes, oldest first, for threads. Made by `BlockingClient.subscribe`.

    Attributes are those of `MessageStream`; `position` and `epoch` move on, so read `epoch` first.
    """

    prefixes = Attribute[tuple[Wanted, ...]]()
    lost_messages = Attribute[int]()
    breaks = Attribute[int]()
    live = Attribute[bool]()
    position = Attribute[int | None]()
    epoch = Attribute[int]()
    buffered_bytes = Attribute[int]()

    def batch_nowait(self) -> list[Message]:
        """Return the messages that are there, as `batch`; empty if there is none."""
        return self.batch(timeout_s=0)

    def _is_open(self) -> bool:
        return self._of.opened


class BlockingSubscription(_Entered[CallbackSubscription]):
    """Messages given to a function, in the loop thread. Made by `BlockingClient.subscribe_callback`."""

    prefixes = Attribute[tuple[str, ...]]()
    lost_messages = Attribute[int]()
    breaks = Attribute[int]()

    def close(self, *, timeout_s: float | None = None) -> None:
        """Unsubscribe; the function is not called any more."""
        with suppress(ClosedError):  # it has ended with its client
            self._call(self._of.close(), timeout_s)

    def _leave(self) -> None:
        self.close()


class BlockingConsumedMessage(RecordedMessage):
    """A topic and a value, to be acknowledged: `message.ack()`."""

    deliveries: int  # How often it was delivered, as far as the hub that runs knows: 1 for the first time
    in_loop: ConsumedMessage  # The message as the loop thread has it
    _stream: BlockingConsumerStream

    @classmethod
    def of(cls, message: ConsumedMessage, stream: BlockingConsumerStream) -> BlockingConsumedMessage:
        """Make the face of a message for threads."""
        made: BlockingConsumedMessage = tuple.__new__(cls, message)
        made.offset, made.time_us, made.deliveries = message.offset, message.time_us, message.deliveries
        made._stream, made.in_loop = stream, message
        return made

    def ack(self) -> None:
        """Acknowledge it, so that it is not delivered again; as `ConsumerStream.ack`."""
        self._stream.ack(self)

    def nak(self, delay_s: float = 0.0) -> None:
        """Reject it for now, so that it is delivered again; as `ConsumerStream.nak`."""
        self._stream.nak(self, delay_s=delay_s)

    def in_progress(self) -> None:
        """Ask for more time; as `ConsumerStream.in_progress`."""
        self._stream.in_progress(self)


class BlockingConsumerStream(_Opened[ConsumerStream]):
    """Messages of a named consumer, each to be acknowledged, for threads. Made by `BlockingClient.consume`."""

    name = Attribute[str]()
    late_acks = Attribute[int]()
    ended = Attribute[bool]()

    def __iter__(self) -> Iterator[BlockingConsumedMessage]:
        return self

    def __next__(self) -> BlockingConsumedMessage:
        try:
            return self.receive()
        except ClosedError:
            raise StopIteration from None

    def receive(self, *, timeout_s: float | None = None) -> BlockingConsumedMessage:
        """Return the oldest message, waiting for one; raises as `ConsumerStream.receive`."""
        return BlockingConsumedMessage.of(self._call(self._of.receive(), timeout_s), self)

    def batch(self, *, timeout_s: float | None = None) -> list[BlockingConsumedMessage]:
        """Return all messages that are there, waiting for one; an empty list once the stream is closed."""
        return [BlockingConsumedMessage.of(each, self) for each in self._call(self._of.batch(), timeout_s)]

    def ack(self, *messages: BlockingConsumedMessage, timeout_s: float | None = None) -> None:
        """Acknowledge messages; as `ConsumerStream.ack`."""
        self._call(self._of.ack(*[message.in_loop for message in messages]), timeout_s)

    def ack_up_to(self, message: BlockingConsumedMessage, *, timeout_s: float | None = None) -> None:
        """Acknowledge a message, and all received before it."""
        self._call(self._of.ack_up_to(message.in_loop), timeout_s)

    def nak(self, *messages: BlockingConsumedMessage, delay_s: float = 0.0, timeout_s: float | None = None) -> None:
        """Reject messages for now; as `ConsumerStream.nak`."""
        self._call(self._of.nak(*[message.in_loop for message in messages], delay_s=delay_s), timeout_s)

    def in_progress(self, *messages: BlockingConsumedMessage, timeout_s: float | None = None) -> None:
        """Ask for more time for messages; as `ConsumerStream.in_progress`."""
        self._call(self._of.in_progress(*[message.in_loop for message in messages]), timeout_s)


class BlockingHistory(Face[History]):
    """A range of the journal, for threads. Made by `BlockingClient.read`; iterating yields records.

    While one piece is worked on, the loop thread fetches the next.
    """

    hub = Attribute[str]()
    next = Attribute[int]()
    epoch = Attribute[int]()
    columns = Attribute[tuple[Column, ...] | None]()

    def __init__(
        self, call: Call, history: History, on_bad: Callable[[BadMessage], None], timeout_s: float | None
    ) -> None:
        super().__init__(call, history)
        self._on_bad = on_bad
        self._timeout_s = timeout_s

    def pieces(self) -> Iterator[Records]:
        """Yield the hub's answers, one after the other. Raises as `BlockingClient.read` says."""
        pieces = cast("AsyncGenerator[Records]", self._of.pieces())
        try:
            while (found := self._call(_next_of(pieces), self._timeout_s)) is not None:
                yield found
        finally:
            with suppress(ClosedError):  # then it has ended already
                self._call(pieces.aclose())

    def blocks(self, *, verify: bool = False) -> Iterator[Block]:
        """Yield blocks, as `History.blocks`; raises `TimeoutError`, too."""
        for found in self.pieces():
            for data in found.blocks:
                yield Block.parse(whole_of(data), verify=verify)

    def __iter__(self) -> Iterator[Record]:
        for block in self.blocks():
            yield from records_of(block, self._on_bad, self.columns)


async def _next_of(pieces: AsyncGenerator[Records]) -> Records | None:
    return await anext(pieces, None)


class BlockingService(_Opened[Service]):
    """A function that answers requests, in the loop thread; use it in a `with` statement."""

    prefixes = Attribute[tuple[str, ...]]()
    requests = Attribute[int]()
    failures = Attribute[int]()
    running = Attribute[int]()


class BlockingServiceName(_Entered[ServiceName]):
    """A name that this client has claimed, for `with client.claim("org.example.Player")`."""

    name = Attribute[str]()
    labels = Attribute[tuple[str, ...]]()
    queue = Attribute[bool]()
    owned = Attribute[bool]()
    reason = Attribute[str]()

    def wait_owned(self, *, timeout_s: float | None = None) -> None:
        """Wait until this client owns it; raises as `ServiceName.wait_owned`."""
        self._call(self._of.wait_owned(), timeout_s)

    def wait_lost(self, *, timeout_s: float | None = None) -> str:
        """Wait until this client does not own it; return why. Raises `ClosedError` if the client is closed."""
        return self._call(self._of.wait_lost(), timeout_s)

    def relabel(self, labels: Iterable[str], *, timeout_s: float | None = None) -> None:
        """Announce the name with other labels; raises as `ServiceName.relabel`."""
        self._call(self._of.relabel(labels), timeout_s)

    def release(self, *, timeout_s: float | None = None) -> None:
        """Give the name up, or wait for it no longer. May be called twice, and when it is lost."""
        self._call(self._of.release(), timeout_s)

    def _leave(self) -> None:
        self.release()


class BlockingWriter(Face[Writer]):
    """Publishes messages that are recorded once each. Made by `BlockingClient.writer`."""

    name = Attribute[str]()

    def publish(
        self, topic: str, value: Any, *, sequence: int | None = None, timeout_s: float | None = None
    ) -> int | None:
        """Publish, and wait until the message is recorded; as `Writer.publish`. After `TimeoutError` it may be."""
        return self._call(self._of.publish(topic, value, sequence=sequence), timeout_s)


# Stores.


def asked(
    method: Callable[Concatenate[Store, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingStore, P], T]:
    """Make the blocking method of an asyncio one: same name, arguments, result and documentation."""

    @wraps(method)
    def wait(self: BlockingStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = self._ask(method(self._of, *args, **kwargs))
        return answer

    return wait


class BlockingStore(Face[Store]):
    """One store, for threads. Made by `BlockingClient.store`; all calls raise as those of `Store` of the same name.

    Messages that a thread has published before leave before its commands and reads. `put_many` is the cheap way to put.
    """

    name = Attribute[str]()
    written = Attribute[int]()

    def __init__(self, call: Call, ask: Callable[[Coroutine[Any, Any, Any]], Any], store: Store) -> None:
        super().__init__(call, store)
        self._ask = ask

    put = asked(Store.put)

    def put_nowait(self, key: Any, value: Any, *, expires_s: float | None = None) -> None:
        """Set the value of a key, without an answer; raises as `BlockingClient.publish_nowait`."""
        self._of.put_nowait(key, value, expires_s=expires_s)

    def put_many(
        self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]], *, expires_s: float | None = None
    ) -> list[int]:
        """Set the values of many keys, in frames of up to 1 MiB; return their versions, in order."""
        given = entries if isinstance(entries, Mapping) else list(entries)  # a generator runs in the thread that calls
        versions: list[int] = self._ask(self._of.put_many(given, expires_s=expires_s))
        return versions

    put_unique = asked(Store.put_unique)
    erase = asked(Store.erase)
    clear = asked(Store.clear)
    increment = asked(Store.increment)
    decrement = asked(Store.decrement)
    append = asked(Store.append)
    insert = asked(Store.insert)
    remove = asked(Store.remove)
    push = asked(Store.push)
    pop = asked(Store.pop)
    get = asked(Store.get)
    entry = asked(Store.entry)
    exists = asked(Store.exists)
    index = asked(Store.index)
    keys = asked(Store.keys)
    state = asked(Store.state)

    def entries(self, prefix: str = "") -> Iterator[StoreEntry]:
        """Yield all entries, or those of keys that are strings and begin with a prefix, as they are by then."""
        entries = self._of.entries(prefix)
        while some := self._ask(_some(entries)):
            yield from some

    def watch(self, prefix: str = "") -> BlockingStoreWatch:
        """Watch entries, for `with store.watch() as changes: for change in changes: ...`; see `Store.watch`."""
        return BlockingStoreWatch(self._call, self._call(in_loop(lambda: self._of.watch(prefix))))

    def replica(self) -> BlockingStoreReplica:
        """Copy the store into this process, for `with store.replica() as copy`; see `Store.replica`."""
        return BlockingStoreReplica(self._call, self._call(in_loop(self._of.replica)))


async def _some(entries: AsyncIterator[StoreEntry]) -> list[StoreEntry]:
    """Return the next entries; none behind the last one."""
    found: list[StoreEntry] = []
    async for entry in entries:
        found.append(entry)
        if len(found) >= _ENTRIES_AT_ONCE:
            break
    return found


async def in_loop(function: Callable[[], T]) -> T:
    """Call a function in the loop thread."""
    return function()


class BlockingStoreWatch(_Reader[StoreWatch, StoreChange]):
    """The changes of a store, the present state first, for threads. Made by `BlockingStore.watch`."""

    _WORDS = "watch", "change", "the watch is not open: write `with store.watch() as changes:`"

    def _is_open(self) -> bool:
        return self._of._is_open  # noqa: SLF001 -- programs see that reading raises


class BlockingStoreReplica(_Opened[StoreReplica]):
    """A copy of a store in this process, for threads: reading it crosses none. Made by `BlockingStore.replica`."""

    number = Attribute[int]()
    age_s = Attribute[float]()

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key as it is in this copy, `default` if there is none."""
        return self._of.get(key, default)

    def version(self, key: Any) -> int:
        """Return the version of a key's entry; 0 if there is none."""
        return self._of.version(key)

    def __contains__(self, key: Any) -> bool:
        return key in self._of

    def __len__(self) -> int:
        return len(self._of)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield keys and values of one state: that of the moment of the call."""
        return self._call(in_loop(self._of.items))

    def at_least(self, version: int, *, timeout_s: float = 30.0) -> Self:
        """Wait until this copy has a change; return the copy. Raises as `StoreReplica.at_least`."""
        self._call(self._of.at_least(version, timeout_s=timeout_s))
        return self
