"""Copies of a store in this process: `StoreReplica`, which is read without a request, and `StoreWatch`, its changes.

Both hear the changes of the master and ask it for what is missing. Cost of a replica: about 1 µs a read, and the memory
of all entries.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Self

from hub.errors import ClosedError, HubError, RequestOverflowError, UsageError
from hub.stores.command import Change, ChangeKind
from hub.stores.replica import Needs, Replica
from hub.stores.store import text_begins
from peers.client.stream import Items, MessageStream, Opened
from peers.client.values import encode_value, value_of
from peers.stores.operations import canonical_form
from peers.stores.wire import heard

CHECK_S = 1.0
"""How often the master is asked how far it is, seconds."""

_RETRY_S = 0.2
"""How long after a failure the master is asked again, seconds; twice as long after each further one."""

_RETRY_MAX_S = 5.0

_FIRST_S = 300.0
"""How long the first state may take, seconds, where many want one at the same time."""

_PAGES_AHEAD = 4
"""How many pages of a snapshot, a quarter of a MiB each, are asked for while the one before is taken in: so hub and
client work side by side."""

_SECOND_NS = 1_000_000_000

BATCH_CHANGES = 1_000
"""Most changes of a batch: a few milliseconds."""

HELD_CHANGES = 65_536
"""How many changes that were not read are held before the store is not read on."""


class StoreChangeKind(Enum):
    """The kind of a change."""

    PUT = "put"
    """It has a new value, or is new."""
    ERASE = "erase"
    EXPIRE = "expire"
    """Its time was over."""
    CLEAR = "clear"
    """All entries are gone."""


class StoreChange(NamedTuple):
    """One change."""

    kind: StoreChangeKind
    key: Any
    """None where all entries are gone."""
    value: Any
    """None where there is no value any more."""
    old: Any
    """The value before; None if there was none."""
    version: int
    """The number of the change."""
    publisher: Any
    """The user, or else the name of the client, who has asked for it; None if unknown."""
    present: bool
    """Whether it is an entry that was there as the watching began."""
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
        # Why nothing comes any more.
        self._error: HubError | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._needed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        # Set by each change, and by the end.
        self._advanced = asyncio.Event()

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
        """Ask for what is missing, and from time to time for the number of the master's last change."""
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
        """Read a snapshot. If it fails, the replica still needs one."""
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
    """Retrieve the error of a page that was asked for behind the last one: else asyncio complains of it."""
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
        # Unread changes, each with `present` and `partial`.
        self._changes: deque[tuple[Change, bool, bool]] = deque()
        self._is_present = True
        self._some = asyncio.Event()

    async def open(self) -> None:
        """Begin to watch.

        Raises:
            RequestError: The store does not exist, or this client may not read it.
            HubError: The client has ended, or the store cannot be subscribed to.
        """
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
        """Return all changes that are there, waiting for one; an empty list once the watch, or the client, is closed.

        Cancellation: loses nothing.

        Raises:
            HubError: The client has ended with an error.
        """
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
