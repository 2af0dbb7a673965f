"""`Store`: a store, wherever in the mesh its master is; `StoreReplica`, a copy of it, and `StoreWatch`, its changes.

Each call of a `Store` is a request. Those of one turn of the loop leave as one frame, and are carried out as one batch:
so `asyncio.gather` of many puts is nearly as fast as `put_many`. Copies get the changes of the master and ask it for
missing ones. Cost of a replica: about 1 µs a read, and the memory of all entries.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Self

from hub.errors import ClosedError, HubError, NoResponderError, RequestOverflowError, UsageError
from hub.stores.command import Change, ChangeKind
from hub.stores.replica import Needs, Replica
from hub.stores.store import text_begins
from peers.client.requests import TIMEOUT_S, Requests
from peers.client.stream import Items, MessageStream, Opened
from peers.client.values import encode_value, value_of
from peers.stores.operations import canonical_form
from peers.stores.wire import changes_topic, heard, read_topic, write_topic

_SECOND_NS = 1_000_000_000

_MISSING: Any = object()  # Default of an argument for which None is a value


class StoreEntry(NamedTuple):
    """One entry."""

    key: Any
    value: Any
    version: int  # The number of its last change: for `put(..., if_version=version)`
    expires_s: float | None  # In how many seconds it expires; None: never


class StoreState(NamedTuple):
    """The state of a store."""

    epoch: int  # A store that has lost its entries begins another one, with a higher number
    number: int  # Of its last change
    entries: int
    bytes: int  # Of all entries in memory, about


def expiry_ns(expires_s: float | None) -> int | None:
    return None if expires_s is None else round(expires_s * _SECOND_NS)


class Store:
    """One store.

    All calls raise `RequestError` if the store does not exist (`NoResponderError`), may not be asked
    (`NotAllowedError`) or refuses (`RequestFailedError`: the text says why, and nothing was changed); after
    `ConnectionLostError`, `ResponderGoneError` or `RequestTimeoutError` it is unknown whether a command was carried
    out: a store that cannot write its file answers with the last one.
    """

    def __init__(
        self,
        name: str,
        requests: Requests,
        subscribe: Callable[[str], MessageStream],
        publish: Callable[[str, bytes], object],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.name = name
        self._requests = requests
        self._subscribe = subscribe
        self._publish = publish
        self._timeout_s = timeout_s
        self._read_topic, self._write_topic = read_topic(name), write_topic(name)
        self._changes_topic = changes_topic(name)
        self.written = 0  # The highest number of a change that this object has made, for `StoreReplica.at_least`

    async def put(
        self, key: Any, value: Any, *, expires_s: float | None = None, if_version: int | None = None
    ) -> int | None:
        """Set the value of a key.

        Args:
            key: Any value.
            value: Any value.
            expires_s: How long the entry lives; None: until it is erased.
            if_version: The version that the entry must have; 0: there must be none.

        Returns:
            The new version; None if there was another version than `if_version`.
        """
        command = ["put", encode_value(key), encode_value(value), expiry_ns(expires_s), if_version]
        return self._noted(await self._write(command))

    def put_nowait(self, key: Any, value: Any, *, expires_s: float | None = None) -> None:
        """Set the value of a key, without an answer.

        Raises:
            BusyError, ClosedError, PeerError: As `Client.publish_nowait`.
        """
        command = ["put", encode_value(key), encode_value(value), expiry_ns(expires_s)]
        self._publish(self._write_topic, encode_value(command))

    async def put_many(
        self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]], *, expires_s: float | None = None
    ) -> list[int]:
        """Set the values of many keys, in frames of up to 1 MiB; return their versions, in order.

        The first error is raised; the others may have been carried out.
        """
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        expiry = expiry_ns(expires_s)
        commands = [["put", encode_value(key), encode_value(value), expiry] for key, value in pairs]
        answers = await self._requests.ask_many(self._write_topic, commands, self._timeout_s)
        for answer in answers:
            if isinstance(answer, NoResponderError):
                raise self._absent(answer) from answer
            if isinstance(answer, HubError):
                raise answer
        self.written = max(self.written, max(answers, default=0))
        return answers

    async def put_unique(self, key: Any, value: Any, *, expires_s: float | None = None) -> bool:
        """Set the value of a key that has no entry; return whether that was so."""
        command = ["put_unique", encode_value(key), encode_value(value), expiry_ns(expires_s)]
        return self._noted(await self._write(command)) is not None

    async def erase(self, key: Any, *, if_version: int | None = None) -> bool:
        """Erase an entry; return whether there was one (with this version, if one is given)."""
        command = ["erase", encode_value(key), None, None, if_version]
        return self._noted(await self._write(command)) is not None

    async def clear(self) -> None:
        """Erase all entries."""
        self._noted(await self._write(["clear"]))

    async def increment(self, key: Any, by: Any = 1, *, expires_s: float | None = None) -> Any:
        """Add to a number, or a timespan to a timestamp or timespan; a missing number is 0. Return the new value."""
        return await self._calculate("increment", key, by, expires_s)

    async def decrement(self, key: Any, by: Any = 1, *, expires_s: float | None = None) -> Any:
        """Subtract likewise; there must be an entry."""
        return await self._calculate("decrement", key, by, expires_s)

    async def append(self, key: Any, text: str, *, expires_s: float | None = None) -> Any:
        """Append text to a string; return the new value."""
        return await self._calculate("append", key, text, expires_s)

    async def insert(self, key: Any, member: Any, value: Any = _MISSING, *, expires_s: float | None = None) -> Any:
        """Insert a member into a set, or with a value an entry into a table; return the new set or table."""
        if value is _MISSING:
            return await self._calculate("insert", key, member, expires_s)
        return await self._calculate("insert_entry", key, [member, value], expires_s)

    async def remove(self, key: Any, member: Any, *, expires_s: float | None = None) -> Any:
        """Remove a member of a set, or the entry of a key of a table; return the new set or table."""
        return await self._calculate("remove", key, member, expires_s)

    async def push(self, key: Any, element: Any, *, expires_s: float | None = None) -> Any:
        """Append an element to a vector; return the new vector."""
        return await self._calculate("push", key, element, expires_s)

    async def pop(self, key: Any, *, expires_s: float | None = None) -> Any:
        """Remove the last element of a vector; return the new vector."""
        return await self._calculate("pop", key, None, expires_s)

    async def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, `default` if there is none."""
        found = await self._read(["get", encode_value(key)])
        return default if found is None else value_of(found[0])

    async def entry(self, key: Any) -> StoreEntry | None:
        """Return the entry of a key, with its version; None if there is none."""
        found = await self._read(["get", encode_value(key)])
        return None if found is None else _entry(key, *found)

    async def exists(self, key: Any) -> bool:
        """Return whether a key has an entry."""
        return bool(await self._read(["exists", encode_value(key)]))

    async def index(self, key: Any, index: Any, default: Any = None) -> Any:
        """Return a part of a value, `default` if there is no such part.

        It is an element of a vector by its place, the value of a table's key, and of a set whether it has a member.
        """
        found = await self._read(["index", encode_value(key), encode_value(index)])
        return default if found is None else value_of(found)

    async def keys(self, prefix: str = "") -> list[Any]:
        """Return all keys, or those that are strings and begin with a prefix."""
        return [value_of(key) async for key in self._rows(prefix, values=False)]

    async def entries(self, prefix: str = "") -> AsyncIterator[StoreEntry]:
        """Yield all entries, or those of keys that are strings and begin with a prefix, as they are by then."""
        async for key, value, version, left_ns in self._rows(prefix, values=True):
            yield _entry(value_of(key), value, version, left_ns)

    async def state(self) -> StoreState:
        """Return the state of the store."""
        return StoreState(*await self._read(["state"]))

    def watch(self, prefix: str = "") -> StoreWatch:
        """Watch all entries, or those of keys that are strings with a prefix: the present ones, then changes."""
        return StoreWatch(self._read, self._subscribe(self._changes_topic), prefix)

    def replica(self) -> StoreReplica:
        """Copy the store into this process, to read it without asking."""
        return StoreReplica(self._read, self._subscribe(self._changes_topic))

    async def _write(self, command: list[Any]) -> Any:
        return await self._ask(self._write_topic, command)

    async def _read(self, read: list[Any]) -> Any:
        return await self._ask(self._read_topic, read)

    async def _ask(self, topic: str, question: list[Any]) -> Any:
        try:
            return await self._requests.ask(topic, encode_value(question), self._timeout_s)
        except NoResponderError as error:
            raise self._absent(error) from error

    def _absent(self, error: NoResponderError) -> NoResponderError:
        text = f"no hub of the mesh has a store {self.name!r}; `hub run --store {self.name}=:memory:` has one"
        return NoResponderError(error.status, text)

    async def _calculate(self, kind: str, key: Any, operand: Any, expires_s: float | None) -> Any:
        number, value = await self._write([kind, encode_value(key), encode_value(operand), expiry_ns(expires_s)])
        self._noted(number)
        return value_of(value)

    async def _rows(self, prefix: str, *, values: bool) -> AsyncIterator[Any]:
        _, reading, _, _, rows = await self._read(["rows", prefix, values])
        for row in rows:
            yield row
        while reading:
            _, reading, _, _, rows = await self._read(["more", reading])
            for row in rows:
                yield row

    def _noted(self, number: int | None) -> int | None:
        if number is not None and number > self.written:
            self.written = number
        return number


def _entry(key: Any, value: bytes, version: int, left_ns: int | None) -> StoreEntry:
    return StoreEntry(key, value_of(value), version, None if left_ns is None else left_ns / _SECOND_NS)


CHECK_S = 1.0  # How often the master is asked for the number of its last change, seconds
_RETRY_S = 0.2  # How long after a failure the master is asked again, seconds; twice as long after each further one
_RETRY_MAX_S = 5.0

_FIRST_S = 300.0  # How long the first state may take, seconds, where many copies begin at the same time
_PAGES_AHEAD = 4
"""How many pages of a snapshot, a quarter of a MiB each, are asked for while the one before is taken in: so hub and
client work side by side."""

BATCH_CHANGES = 1_000  # Most changes of a batch: a few milliseconds
HELD_CHANGES = 65_536  # How many changes that were not read are held before the store is not read on


class StoreChangeKind(Enum):
    """The kind of a change."""

    PUT = "put"  # It has a new value, or is new
    ERASE = "erase"
    EXPIRE = "expire"  # Its time was over
    CLEAR = "clear"  # All entries are gone


class StoreChange(NamedTuple):
    """One change."""

    kind: StoreChangeKind
    key: Any  # None where all entries are gone
    value: Any  # None where there is no value any more
    old: Any  # The value before; None if there was none
    version: int  # The number of the change
    publisher: Any  # The user, or else the name of the client, that has asked for it; None if unknown
    present: bool  # Whether it is an entry that was there as the watching began
    partial: bool
    """Whether more of the same state follows, as entries were read, and not each change. The next change that is not
    partial completes a state that the store had."""


class _Copy(Opened):
    """A copy in the making: of all entries, or of those whose keys are strings with a prefix."""

    _ONCE: ClassVar[str]

    def __init__(
        self,
        read: Callable[[list[Any]], Awaitable[Any]],
        stream: MessageStream,
        prefix: str = "",
        *,
        tells_loaded: bool = False,
    ) -> None:
        self._read = read
        self._stream = stream
        self._prefix = prefix
        self._packed_prefix = prefix.encode(errors="surrogateescape")
        self._replica = Replica(tells_loaded=tells_loaded)
        self._loaded = 0
        self._is_open = False
        self._error: HubError | None = None  # Why nothing comes any more
        self._room = asyncio.Event()
        self._room.set()
        self._needed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._advanced = asyncio.Event()  # Set by each change, and by the end

    @abstractmethod
    def _take(self, changes: list[Change], are_loaded: bool) -> None:  # noqa: FBT001 -- yes or no
        """Take changes, none at the end; `are_loaded` if only all together make a state that the store had."""

    async def open(self) -> None:
        """Copy the store, and wait until that is done.

        Raises:
            RequestError: The store does not exist, or this client may not read it.
            HubError: The client has ended, or the store cannot be subscribed to.
        """
        if self._is_open:
            raise UsageError(self._ONCE)
        self._is_open = True
        await self._stream.open()
        self._start(self._hear())
        try:
            await self._fill_first()
            await self._check()
        except BaseException:
            await self.close()
            raise
        self._start(self._keep())

    async def close(self) -> None:
        """Copy no more."""
        self._end(ClosedError("the store is not copied any more"))
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stream.close()

    async def _fill_first(self) -> None:
        """Get the first state; the master may be busy with others."""
        async with asyncio.timeout(_FIRST_S):
            while self._replica.needs is not Needs.NOTHING:
                try:
                    await self._fill()
                except RequestOverflowError:
                    await asyncio.sleep(_RETRY_S)

    def _start(self, act: Any) -> None:
        task = asyncio.get_running_loop().create_task(act)
        task.add_done_callback(self._done)
        self._tasks.append(task)

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        self._end(error if isinstance(error, HubError) else ClosedError(f"the store is not copied any more: {error!r}"))

    def _end(self, error: HubError) -> None:
        if self._error is None:
            self._error = error
            self._take([], False)
        self._advanced.set()

    def _apply(self, changes: list[Change]) -> None:
        are_loaded = self._replica.loaded_total != self._loaded
        self._loaded = self._replica.loaded_total
        if changes:
            prefix = self._packed_prefix
            if prefix:
                changes = [each for each in changes if each.kind == ChangeKind.CLEAR or text_begins(each.key, prefix)]
            self._take(changes, are_loaded)
        self._advanced.set()

    async def _hear(self) -> None:
        while True:
            await self._room.wait()
            messages = await self._stream.batch()
            if not messages:
                raise ClosedError("the client is closed")
            for message in messages:
                epoch, rows = message.value
                self._apply(self._replica.hear(epoch, self._wanted(rows)))
            if self._replica.needs is not Needs.NOTHING:
                self._needed.set()

    def _wanted(self, rows: Sequence[Any]) -> list[Change]:
        """Return changes; those of entries that are not copied do nothing."""
        changes = heard(rows, time.time_ns())
        if not self._packed_prefix:
            return changes
        return [
            change
            if change.kind == ChangeKind.CLEAR or text_begins(change.key, self._packed_prefix)
            else change._replace(kind=int(ChangeKind.ERASE), value=None)
            for change in changes
        ]

    async def _keep(self) -> None:
        wait_s = CHECK_S
        failures = 0
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await self._needed.wait()
            except TimeoutError:
                pass
            self._needed.clear()
            await self._room.wait()
            try:
                if self._replica.needs is Needs.NOTHING:
                    await self._check()
                while self._replica.needs is not Needs.NOTHING:
                    await self._fill()
            except ClosedError:
                raise
            except HubError:
                if self._error is not None:
                    return
                wait_s = min(_RETRY_MAX_S, _RETRY_S * 2**failures)
                failures = min(failures + 1, 10)
            else:
                wait_s, failures = CHECK_S, 0

    async def _check(self) -> None:
        now_ns = time.monotonic_ns()
        epoch, number, _, _ = await self._read(["state"])
        self._replica.heard(epoch, number, now_ns)
        self._advanced.set()

    async def _fill(self) -> None:
        if self._replica.needs is Needs.SNAPSHOT:
            await self._load()
            return
        answer = await self._read(["since", self._replica.number])
        if answer is None:
            self._replica.forgotten()
        else:
            epoch, _, rows = answer
            self._apply(self._replica.hear(epoch, self._wanted(rows)))

    async def _load(self) -> None:
        ahead: deque[asyncio.Future[Any]] = deque()
        try:
            epoch, reading, first, number, rows = await self._read(["rows", self._prefix, True])
            self._replica.begin(epoch, first)
            while True:
                while reading and len(ahead) < _PAGES_AHEAD:
                    ahead.append(asyncio.ensure_future(self._read(["more", reading])))
                    ahead[-1].add_done_callback(_looked_at)
                await asyncio.sleep(0)  # until it has run, a task has asked nothing, and the hub would wait meanwhile
                self._replica.take_rows(rows)
                if not reading:
                    break
                _, reading, _, number, rows = await ahead.popleft()
        except HubError:
            self._replica.forgotten()
            raise
        finally:
            for asked in ahead:
                asked.cancel()
        self._apply(self._replica.finish(number))


def _looked_at(asked: asyncio.Future[Any]) -> None:
    """Retrieve the error of a page that was asked for behind the last one: else asyncio logs it."""
    if not asked.cancelled():
        asked.exception()


class StoreReplica(_Copy):
    """Made by `Store.replica`; use it with `async with`, or call `open` and `close`."""

    _ONCE = "a replica is opened once; make another one"

    async def close(self) -> None:
        """Copy no more. The entries can still be read, and grow old."""
        await super().close()

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key as it is in this copy, `default` if there is none."""
        entry = self._replica.entries.get(canonical_form(encode_value(key)))
        return default if entry is None else value_of(entry[0])

    def version(self, key: Any) -> int:
        """Return the version of a key's entry; 0 if there is none."""
        entry = self._replica.entries.get(canonical_form(encode_value(key)))
        return 0 if entry is None else entry[1]

    def __contains__(self, key: Any) -> bool:
        return canonical_form(encode_value(key)) in self._replica.entries

    def __len__(self) -> int:
        return len(self._replica.entries)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield keys and values of one state: that of the moment of the call."""
        entries = list(self._replica.entries.items())
        return ((value_of(key), value_of(entry[0])) for key, entry in entries)

    @property
    def number(self) -> int:
        """The number of the last change that this copy has."""
        return self._replica.number

    @property
    def age_s(self) -> float:
        """How old this copy is at most, seconds: about 1 s at the longest while all is well."""
        age_ns = self._replica.age_ns(time.monotonic_ns())
        return float("inf") if age_ns is None else age_ns / _SECOND_NS

    async def at_least(self, version: int, *, timeout_s: float = 30.0) -> Self:
        """Wait until this copy has a change, such as one that was written just now; return the copy.

        Raises:
            TimeoutError: It has not come in time.
            HubError: The client, or the copy, has ended.
        """
        async with asyncio.timeout(timeout_s):
            while self._replica.number < version or not self._replica.is_ready:
                if self._error is not None:
                    raise ClosedError("the replica is closed") if isinstance(self._error, ClosedError) else self._error
                self._advanced.clear()
                self._needed.set()
                await self._advanced.wait()
        return self

    def _take(self, changes: list[Change], are_loaded: bool) -> None:  # noqa: FBT001 -- yes or no
        """Do nothing: the replica has applied them."""


class StoreWatch(_Copy, Items[StoreChange]):
    """Made by `Store.watch`; use it with `async with`, or call `open` and `close`."""

    _ONCE = "a watch is opened once; watch again for another one"

    def __init__(self, read: Callable[[list[Any]], Awaitable[Any]], stream: MessageStream, prefix: str) -> None:
        super().__init__(read, stream, prefix, tells_loaded=True)
        self._changes: deque[tuple[Change, bool, bool]] = deque()  # Unread changes, each with `present` and `partial`
        self._is_present = True
        self._some = asyncio.Event()

    async def open(self) -> None:
        """Begin to watch; raises as `StoreReplica.open`."""
        await super().open()
        self._is_present = False

    async def close(self) -> None:
        """Stop; unread changes are thrown away."""
        self._changes.clear()
        await super().close()

    def __aiter__(self) -> Self:
        if not self._is_open:
            raise UsageError("the watch is not open: write `async with store.watch() as changes:`")
        return self

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: the watch, or the client, is closed, and all is read."""
        return isinstance(self._error, ClosedError) and not self._changes

    async def receive(self) -> StoreChange:
        """Return the next change, waiting for one.

        Cancellation: loses nothing.

        Raises:
            ClosedError: None will come.
            HubError: The client has ended with an error.
        """
        if not await self._some_there():
            raise ClosedError("the watch is closed")
        return self._take_first()

    async def batch(self) -> list[StoreChange]:
        """Return all changes that are there, waiting for one, as `receive`; an empty list once the watch is closed."""
        await self._some_there()
        return [self._take_first() for _ in range(min(len(self._changes), BATCH_CHANGES))]

    async def _some_there(self) -> bool:
        while not self._changes:
            error = self._error
            if isinstance(error, ClosedError):
                return False
            if error is not None:
                raise error
            self._some.clear()
            await self._some.wait()
        return True

    def _take_first(self) -> StoreChange:
        change, present, partial = self._changes.popleft()
        if len(self._changes) < HELD_CHANGES // 2:
            self._room.set()
        return change_of(change, present=present, partial=partial)

    def _take(self, changes: list[Change], are_loaded: bool) -> None:  # noqa: FBT001 -- yes or no
        last = len(changes) - 1 if are_loaded else 0
        present = self._is_present
        self._changes.extend((change, present, place < last) for place, change in enumerate(changes))
        if len(self._changes) >= HELD_CHANGES:
            self._room.clear()
        self._some.set()


def change_of(change: Change, *, present: bool, partial: bool) -> StoreChange:
    is_clear = change.kind == ChangeKind.CLEAR
    return StoreChange(
        StoreChangeKind[ChangeKind(change.kind).name],
        None if is_clear else value_of(change.key),
        value_of(change.value),
        value_of(change.old),
        change.number,
        change.publisher,
        present,
        partial,
    )
