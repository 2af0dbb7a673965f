"""`BlockingStore`, `BlockingStoreWatch`, `BlockingStoreReplica`: a store, for threads.

```
your threads ─ put, get ─▶ │ loop thread: Store        │ ─▶ hub
             ◀─ batch ──── │ StoreWatch                │ ◀─
             ◀─ get ────── │ StoreReplica: its entries │ ◀─
```

Owner: whoever has it; any thread may call, and several may share one. Invariants: what a thread has published before
leaves before what it asks; each change is given to one reader, oldest first. Cost: a command or a read crosses threads
(about 0.1 ms), so `put_many` is the cheap one; entries and changes cross in batches. A replica is read in the thread
that asks, where it crosses none.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from hub.errors import ClosedError, UsageError
from peers.client.blocking.faces import Call, Opened
from peers.client.stores.replica import StoreReplica, StoreWatch
from peers.client.stores.store import Store
from peers.client.stores.values import StoreChange, StoreEntry

__all__ = ["BlockingStore", "BlockingStoreReplica", "BlockingStoreWatch"]

_ENTRIES_AT_ONCE = 1_000
"""How many entries cross threads at once."""

T = TypeVar("T")
P = ParamSpec("P")


def asked(
    method: Callable[Concatenate[Store, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingStore, P], T]:
    """Make the blocking method of an asyncio one: same name, arguments, result and documentation."""

    @wraps(method)
    def wait(self: BlockingStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._of(method(self._store, *args, **kwargs))

    return wait


class BlockingStore:
    """One store, for threads. Made by `BlockingClient.store`; all calls raise as those of `Store` of the same name."""

    def __init__(self, call: Call, ask: Callable[[Coroutine[Any, Any, Any]], Any], store: Store) -> None:
        self._call = call
        self._ask = ask
        self._store = store

    @property
    def name(self) -> str:
        """What it is called."""
        return self._store.name

    @property
    def written(self) -> int:
        """The highest number of a change that this object has made."""
        return self._store.written

    # Commands.

    put = asked(Store.put)

    def put_nowait(self, key: Any, value: Any, *, expires_s: float | None = None) -> None:
        """Set the value of a key, without an answer; raises as `BlockingClient.publish_nowait`."""
        self._store.put_nowait(key, value, expires_s=expires_s)

    def put_many(
        self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]], *, expires_s: float | None = None
    ) -> list[int]:
        """Set the values of many keys, in frames of up to 1 MiB; return their versions, in order."""
        given = entries if isinstance(entries, Mapping) else list(entries)  # a generator runs in the thread that calls
        return self._of(self._store.put_many(given, expires_s=expires_s))

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

    # Reads.

    get = asked(Store.get)
    entry = asked(Store.entry)
    exists = asked(Store.exists)
    index = asked(Store.index)
    keys = asked(Store.keys)

    def entries(self, prefix: str = "") -> Iterator[StoreEntry]:
        """Yield all entries, or those of keys that are strings and begin with a prefix, as they are by then."""
        entries = self._store.entries(prefix)
        while some := self._of(_some(entries)):
            yield from some

    state = asked(Store.state)

    # Copies.

    def watch(self, prefix: str = "") -> BlockingStoreWatch:
        """Watch entries, for `with store.watch() as changes: for change in changes: ...`; see `Store.watch`."""
        return BlockingStoreWatch(self._call, self._call(_made(lambda: self._store.watch(prefix))))

    def replica(self) -> BlockingStoreReplica:
        """Copy the store into this process, for `with store.replica() as copy`; see `Store.replica`."""
        return BlockingStoreReplica(self._call, self._call(_made(self._store.replica)))

    def _of(self, work: Coroutine[Any, Any, T]) -> T:
        answer: T = self._ask(work)
        return answer


class BlockingStoreWatch(Opened):
    """The changes of a store, the present state first, for threads. Made by `BlockingStore.watch`."""

    def __init__(self, call: Call, watch: StoreWatch) -> None:
        self._call = call
        self._watch = watch
        # Fetched from the loop thread and not given to a reader yet; for whoever has the lock.
        self._ready: deque[StoreChange] = deque()
        self._reading = threading.Lock()
        self._is_open = False
        # Set when the loop thread says that nothing more comes.
        self._ended = False

    def __iter__(self) -> Iterator[StoreChange]:
        if not self._is_open:
            raise UsageError("the watch is not open: write `with store.watch() as changes:`")
        return self

    def __next__(self) -> StoreChange:
        try:
            return self.receive()
        except ClosedError:
            raise StopIteration from None

    def open(self, *, timeout_s: float | None = None) -> None:
        """Begin to watch; raises as `StoreWatch.open`, and `TimeoutError`."""
        self._call(self._watch.open(), timeout_s)
        self._is_open = True

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: the watch or the client is closed, and all is read."""
        return self._ended and not self._ready

    def receive(self, *, timeout_s: float | None = None) -> StoreChange:
        """Return the next change, waiting for one.

        Raises:
            TimeoutError: None came within `timeout_s`.
            ClosedError: None will come: the watch, or the client, is closed.
            HubError: As `StoreWatch.batch`.
        """
        with self._reader(timeout_s) as is_ours:
            if is_ours and self._ready:
                return self._ready.popleft()
        if self._ended:
            raise ClosedError("the watch is closed")
        raise TimeoutError(f"no change within {timeout_s} s")

    def iterate(self, timeout_s: float) -> Iterator[StoreChange]:
        """Iterate until no change has come for `timeout_s`, or to the end."""
        while True:
            try:
                yield self.receive(timeout_s=timeout_s)
            except (TimeoutError, ClosedError):
                return

    def batch(self, *, timeout_s: float | None = None) -> list[StoreChange]:
        """Wait for changes and return those that are there; empty when none came in time, or at the end (`ended`).

        Raises:
            HubError: As `StoreWatch.batch`.
        """
        with self._reader(timeout_s) as is_ours:
            found = list(self._ready) if is_ours else []
            if is_ours:
                self._ready.clear()
            return found

    def close(self, *, timeout_s: float | None = None) -> None:
        """End it; what was not read is thrown away, but for what has crossed threads already."""
        self._call(self._watch.close(), timeout_s)

    @contextmanager
    def _reader(self, timeout_s: float | None) -> Iterator[bool]:
        """Let one thread at a time read, with changes unless none came in time; False: others read all that time."""
        due_s = None if timeout_s is None else time.monotonic() + timeout_s
        if not self._reading.acquire(timeout=-1 if timeout_s is None else max(0.0, timeout_s)):
            yield False
            return
        try:
            if not self._ready and not self._ended:
                self._fetch(None if due_s is None else max(0.0, due_s - time.monotonic()))
            yield True
        finally:
            self._reading.release()

    def _fetch(self, timeout_s: float | None) -> None:
        try:
            self._ready.extend(self._call(self._watch.batch(), timeout_s))
        except TimeoutError:
            return
        except ClosedError:
            pass
        self._ended = not self._ready  # the watch gives an empty list at its end alone


class BlockingStoreReplica(Opened):
    """A copy of a store in this process, for threads: reading it crosses none. Made by `BlockingStore.replica`."""

    def __init__(self, call: Call, replica: StoreReplica) -> None:
        self._call = call
        self._replica = replica

    def open(self, *, timeout_s: float | None = None) -> None:
        """Copy the store, and wait until that is done; raises as `StoreReplica.open`, and `TimeoutError`."""
        self._call(self._replica.open(), timeout_s)

    def close(self, *, timeout_s: float | None = None) -> None:
        """Copy no more. What is there can still be read; it grows old."""
        self._call(self._replica.close(), timeout_s)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key as it is in this copy, `default` if there is none."""
        return self._replica.get(key, default)

    def version(self, key: Any) -> int:
        """Return the version of a key's entry; 0 if there is none."""
        return self._replica.version(key)

    def __contains__(self, key: Any) -> bool:
        return key in self._replica

    def __len__(self) -> int:
        return len(self._replica)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield keys and values of one state: that of the moment of the call."""
        return self._call(_made(self._replica.items))

    @property
    def number(self) -> int:
        """The number of the last change that this copy has."""
        return self._replica.number

    @property
    def age_s(self) -> float:
        """How long ago the store was as this copy is, at most, seconds."""
        return self._replica.age_s

    def at_least(self, version: int, *, timeout_s: float = 30.0) -> Self:
        """Wait until this copy has a change; return the copy. Raises as `StoreReplica.at_least`."""
        self._call(self._replica.at_least(version, timeout_s=timeout_s))
        return self


async def _made(make: Callable[[], T]) -> T:
    """Call a function in the loop thread."""
    return make()


async def _some(entries: AsyncIterator[StoreEntry]) -> list[StoreEntry]:
    """Return the next entries; none behind the last one."""
    found: list[StoreEntry] = []
    async for entry in entries:
        found.append(entry)
        if len(found) >= _ENTRIES_AT_ONCE:
            break
    return found
