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
from typing import Any, Self, TypeVar

from hub.errors import ClosedError, UsageError
from peers.client.blocking.call import Call
from peers.client.blocking.opened import Opened
from peers.client.stores.replica import StoreReplica
from peers.client.stores.store import MISSING, Store
from peers.client.stores.values import StoreChange, StoreEntry, StoreState
from peers.client.stores.watch import StoreWatch

__all__ = ["BlockingStore", "BlockingStoreReplica", "BlockingStoreWatch"]

_ENTRIES_AT_ONCE = 1_000
"""How many entries cross threads at once."""

T = TypeVar("T")


class BlockingStore:
    """One store, for threads. Made by `BlockingClient.store`; all calls raise as those of `Store` of the same name.

    Args:
        call: Runs coroutines in the loop thread of the client.
        ask: The same, behind what was published before.
        store: In the loop thread; what it publishes may come from any thread.
    """

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

    def put(self, key: Any, value: Any, *, expires_s: float | None = None, if_version: int | None = None) -> int | None:
        """Set the value of a key; return the new version, None if there was another than `if_version`."""
        return self._of(self._store.put(key, value, expires_s=expires_s, if_version=if_version))

    def put_nowait(self, key: Any, value: Any, *, expires_s: float | None = None) -> None:
        """Set the value of a key, without an answer; raises as `BlockingClient.publish_nowait`."""
        self._store.put_nowait(key, value, expires_s=expires_s)

    def put_many(
        self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]], *, expires_s: float | None = None
    ) -> list[int]:
        """Set the values of many keys, in frames of up to 1 MiB; return their versions, in order."""
        given = entries if isinstance(entries, Mapping) else list(entries)  # a generator runs in the thread that calls
        return self._of(self._store.put_many(given, expires_s=expires_s))

    def put_unique(self, key: Any, value: Any, *, expires_s: float | None = None) -> bool:
        """Set the value of a key that has no entry; return whether that was so."""
        return self._of(self._store.put_unique(key, value, expires_s=expires_s))

    def erase(self, key: Any, *, if_version: int | None = None) -> bool:
        """Take an entry away; return whether there was one."""
        return self._of(self._store.erase(key, if_version=if_version))

    def clear(self) -> None:
        """Take all entries away."""
        self._of(self._store.clear())

    def increment(self, key: Any, by: Any = 1, *, expires_s: float | None = None) -> Any:
        """Add to a number or a time; return the new value."""
        return self._of(self._store.increment(key, by, expires_s=expires_s))

    def decrement(self, key: Any, by: Any = 1, *, expires_s: float | None = None) -> Any:
        """Subtract likewise; return the new value."""
        return self._of(self._store.decrement(key, by, expires_s=expires_s))

    def append(self, key: Any, text: str, *, expires_s: float | None = None) -> Any:
        """Put text behind a string; return the new value."""
        return self._of(self._store.append(key, text, expires_s=expires_s))

    def insert(self, key: Any, member: Any, value: Any = MISSING, *, expires_s: float | None = None) -> Any:
        """Put a member into a set, or with a value an entry into a table; return the new set or table."""
        return self._of(self._store.insert(key, member, value, expires_s=expires_s))

    def remove(self, key: Any, member: Any, *, expires_s: float | None = None) -> Any:
        """Take a member out of a set, or the entry of a key out of a table; return the new set or table."""
        return self._of(self._store.remove(key, member, expires_s=expires_s))

    def push(self, key: Any, element: Any, *, expires_s: float | None = None) -> Any:
        """Put an element behind a vector; return the new vector."""
        return self._of(self._store.push(key, element, expires_s=expires_s))

    def pop(self, key: Any, *, expires_s: float | None = None) -> Any:
        """Take the last element off a vector; return the new vector."""
        return self._of(self._store.pop(key, expires_s=expires_s))

    # Reads.

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, `default` if there is none."""
        return self._of(self._store.get(key, default))

    def entry(self, key: Any) -> StoreEntry | None:
        """Return the entry of a key, with its version; None if there is none."""
        return self._of(self._store.entry(key))

    def exists(self, key: Any) -> bool:
        """Return whether a key has an entry."""
        return self._of(self._store.exists(key))

    def index(self, key: Any, index: Any, default: Any = None) -> Any:
        """Return a part of a value, `default` if there is no such part."""
        return self._of(self._store.index(key, index, default))

    def keys(self, prefix: str = "") -> list[Any]:
        """Return all keys, or those that are strings and begin with a prefix."""
        return self._of(self._store.keys(prefix))

    def entries(self, prefix: str = "") -> Iterator[StoreEntry]:
        """Yield all entries, or those of keys that are strings and begin with a prefix, as they are by then."""
        entries = self._store.entries(prefix)
        while some := self._of(_some(entries)):
            yield from some

    def state(self) -> StoreState:
        """Return what the store says of itself."""
        return self._of(self._store.state())

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
    """The changes of a store, the present state first, for threads. Made by `BlockingStore.watch`.

    Args:
        call: Runs coroutines in the loop thread of the client.
        watch: In the loop thread; not open yet.
    """

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
    """A copy of a store in this process, for threads: reading it crosses none. Made by `BlockingStore.replica`.

    Args:
        call: Runs coroutines in the loop thread of the client.
        replica: In the loop thread; not open yet.
    """

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
