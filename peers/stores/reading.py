"""`Reading`: what is asked of a master without changing anything.

Long answers come in pages, which are `Snapshot`s that are held between two requests. Owner: the master. Bounds:
`SNAPSHOTS_LIMIT` of them, each for `SNAPSHOT_NS` without a request. Who comes when there are so many is told to come
again: if he took another one's place, many who begin at one time would keep each other from ever coming to an end.

Cost: about 1 µs a read, 0.5 µs a row of a page. Not here: requests and replies (`peers.stores.master`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from hub.errors import CloseCode, StoreError
from hub.stores.snapshot import Row, Snapshot
from hub.stores.store import Store
from peers.stores.wire import (
    PAGE_BYTES,
    PAGE_ROWS,
    Exists,
    Get,
    Index,
    More,
    Page,
    Read,
    Rows,
    Since,
    SinceAnswer,
    State,
    change_rows,
)

SNAPSHOTS_LIMIT = 64
"""How many readers of pages a store has at one time. Of a million entries each notes 8 MB of keys."""

SNAPSHOT_NS = 10_000_000_000
"""How long one is held for whoever does not ask for its next page, ns."""


class _Held:
    """A snapshot between two requests."""

    __slots__ = ("snapshot", "until_ns", "values")

    def __init__(self, snapshot: Snapshot, *, values: bool) -> None:
        self.snapshot = snapshot
        self.values = values
        self.until_ns = 0


class Reading:
    """The reads of one store.

    Args:
        store: Which.
        now_ns: Its clock.
    """

    def __init__(self, store: Store, now_ns: Callable[[], int]) -> None:
        self._store = store
        self._now_ns = now_ns
        # Number → what is held.
        self._held: dict[int, _Held] = {}
        self._numbers = count(1)
        self.size_bytes = 0
        """How much memory those that are held take."""
        self.snapshots_total = 0
        """How many were begun."""

    def __len__(self) -> int:
        return len(self._held)

    def answer(self, read: Read, limit_bytes: int = PAGE_BYTES) -> object:
        """Return the answer, for msgpack.

        Args:
            read: What is asked.
            limit_bytes: How long it may be, about.

        Raises:
            StoreError: There is none.
        """
        match read:
            case Get():
                return self._get(read.key)
            case Exists() | Index() | State():
                return self._small(read)
            case Rows():
                return self._rows(read, limit_bytes)
            case More():
                return self._more(read.reading, limit_bytes)
            case Since():
                return self._since(read.number, limit_bytes)

    def _small(self, read: Exists | Index | State) -> object:
        store = self._store
        match read:
            case Exists():
                return store.get(read.key) is not None
            case Index():
                return store.index(read.key, read.index)
            case State():
                return store.epoch, store.number, len(store.entries), store.size_bytes

    def _get(self, key: bytes) -> object:
        entry = self._store.get(key)
        if entry is None:
            return None
        expires_ns = None
        if self._store.expiring:
            expires_ns = self._store.expires_ns(self._store.operations.canonical(key))
        return entry[0], entry[1], None if expires_ns is None else expires_ns - self._now_ns()

    def _rows(self, rows: Rows, limit_bytes: int) -> Page:
        self._tidy()
        if len(self._held) >= SNAPSHOTS_LIMIT:
            raise StoreError(f"{SNAPSHOTS_LIMIT} others read this store as a whole now", CloseCode.TRY_AGAIN_LATER)
        number = next(self._numbers)
        self.snapshots_total += 1
        snapshot = Snapshot(self._store, rows.prefix)
        self._held[number] = _Held(snapshot, values=rows.values)
        self.size_bytes += snapshot.size_bytes
        return self._page(number, limit_bytes)

    def _more(self, number: int, limit_bytes: int) -> Page:
        if number not in self._held:
            raise StoreError("this reading is over: begin again", CloseCode.GONE)
        return self._page(number, limit_bytes)

    def _page(self, number: int, limit_bytes: int) -> Page:
        held = self._held.pop(number)
        snapshot, store = held.snapshot, self._store
        now_ns = self._now_ns()
        rows = snapshot.page(PAGE_ROWS, limit_bytes)
        if snapshot.is_done:
            number = 0
            self.size_bytes -= snapshot.size_bytes
        else:
            held.until_ns = now_ns + SNAPSHOT_NS
            self._held[number] = held
        if held.values:
            shown: list[Row] = rows
            if store.expiring:
                shown = [
                    row if row.expires_ns is None else row._replace(expires_ns=row.expires_ns - now_ns) for row in rows
                ]
            return Page(store.epoch, number, snapshot.number, store.number, shown)
        return Page(store.epoch, number, snapshot.number, store.number, [row.key for row in rows])

    def _since(self, number: int, limit_bytes: int) -> SinceAnswer | None:
        changes = self._store.since(number, PAGE_ROWS, limit_bytes)
        if changes is None:
            return None
        return SinceAnswer(self._store.epoch, self._store.number, change_rows(changes, self._now_ns()))

    def _tidy(self) -> None:
        """Let go of what nobody has asked for in time."""
        now_ns = self._now_ns()
        for number, held in list(self._held.items()):
            if held.until_ns < now_ns:
                del self._held[number]
                self.size_bytes -= held.snapshot.size_bytes
