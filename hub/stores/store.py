"""`Store`: the entries of a master, and `Snapshot`: its entries page by page.

```
Command ── apply ─▶ entries ── Change, under the next number ─▶ changes ─▶ the caller keeps and publishes it
 time ──── expire ─▶                                                  └──▶ since(): for replicas that missed some
```

Times are arguments, of one clock for the whole life of the store (Unix time where entries are kept over restarts). A
command is applied as a whole, or raises `StoreError` and changes nothing. The version of an entry is the number of its
last change. About 1 µs a put, 5 to 20 µs for arithmetic and containers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple, TypeAlias

from hub.errors import CloseCode, StoreError
from hub.stores.command import ENTRY_BYTES, Change, ChangeKind, Command, Operations, StoreLimits

TICK_NS = 100_000_000  # precision of expiry, ns, as in Broker: entries due within one tick expire together, at its end
_SPARE = 64  # the heap is rebuilt once it is twice as long as needed, and some more


class Expiry:
    """The keys that expire."""

    __slots__ = ("_order", "due_ns")

    def __init__(self) -> None:
        self.due_ns: dict[bytes, int] = {}  # key → when it is due, ns
        # A heap of the ticks at whose ends keys are due, and the keys; outdated entries are skipped.
        self._order: list[tuple[int, bytes]] = []

    def __len__(self) -> int:
        return len(self.due_ns)

    def set(self, key: bytes, due_ns: int) -> None:
        before = self.due_ns.get(key)
        self.due_ns[key] = due_ns
        if before is not None and _tick(before) == _tick(due_ns):
            return
        if len(self._order) > 2 * len(self.due_ns) + _SPARE:
            self._order = [(_tick(due_ns), key) for key, due_ns in self.due_ns.items()]
            heapify(self._order)
        else:
            heappush(self._order, (_tick(due_ns), key))

    def discard(self, key: bytes) -> None:
        self.due_ns.pop(key, None)

    def clear(self) -> None:
        self.due_ns.clear()
        self._order.clear()

    @property
    def next_ns(self) -> int | None:
        """When `take` will return something; None for never."""
        order = self._order
        while order:
            tick, key = order[0]
            due_ns = self.due_ns.get(key)
            if due_ns is not None and _tick(due_ns) == tick:
                return tick * TICK_NS
            heappop(order)
        return None

    def take(self, now_ns: int, limit: int) -> list[bytes]:
        taken: list[bytes] = []
        while len(taken) < limit and (next_ns := self.next_ns) is not None and next_ns <= now_ns:
            key = heappop(self._order)[1]
            del self.due_ns[key]
            taken.append(key)
        return taken


def _tick(due_ns: int) -> int:
    return -(-due_ns // TICK_NS)


class Changes:
    """A bounded ring of the latest changes."""

    __slots__ = ("_bytes_limit", "_count_limit", "_ring", "size_bytes")

    def __init__(self, count_limit: int, bytes_limit: int) -> None:
        self._count_limit = count_limit
        self._bytes_limit = bytes_limit
        self._ring: deque[Change] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._ring)

    def append(self, change: Change) -> None:
        ring = self._ring
        ring.append(change)
        # `Change.size_bytes`, without a call for each change.
        size = self.size_bytes + 200 + len(change.key)
        if change.value is not None:
            size += len(change.value)
        if change.old is not None:
            size += len(change.old)
        while ring and (size > self._bytes_limit or len(ring) > self._count_limit):
            size -= ring.popleft().size_bytes
        self.size_bytes = size

    def since(self, number: int, last: int, limit: int, limit_bytes: int) -> list[Change] | None:
        """Return the changes after `number`, as many as fit, at least one; None if some are dropped."""
        first = last - len(self._ring) + 1
        if number > last or number < first - 1:
            return None
        found: list[Change] = []
        left = limit_bytes
        for change in islice(self._ring, number + 1 - first, None):
            left -= change.size_bytes
            if len(found) >= limit or (left < 0 and found):
                break
            found.append(change)
        return found


Entry: TypeAlias = tuple[bytes, int, str | None]  # value, version, writer: plain things, no work for the collector
_PUT, _ERASE = int(ChangeKind.PUT), int(ChangeKind.ERASE)

_make_change = tuple.__new__


class Kept(NamedTuple):
    """An entry as it was kept elsewhere, over a restart."""

    key: bytes
    value: bytes
    version: int
    expires_ns: int | None = None
    user: str | None = None


class StoreStatistics(NamedTuple):
    """Contents of a store, and its counters since it was made."""

    entries: int
    bytes: int
    expiring: int
    number: int
    changes_total: int
    kept_changes: int
    kept_changes_bytes: int
    refused_total: int
    expired_total: int


class Store:
    """One store.

    `number` is that of its last change. A store in memory begins with a higher one at each start, such as the time, so
    that versions are never reused. `epoch` is raised when changes of an earlier life may be lost; replicas then copy
    again.
    """

    def __init__(
        self,
        name: str,
        operations: Operations,
        limits: StoreLimits = StoreLimits(),  # noqa: B008 -- frozen
        *,
        number: int = 0,
        epoch: int = 0,
    ) -> None:
        self.name = name
        self.limits = limits
        self.epoch = epoch
        self.number = number
        self._began = number  # that number as the store was made, or restored
        self.operations = operations
        self.entries: dict[bytes, Entry] = {}  # key → entry; read-only
        self.changes = Changes(limits.changes, limits.changes_bytes)
        self.size_bytes = 0
        self._expiry = Expiry()
        self._users: dict[str, list[int]] = {}  # user → number and bytes of entries
        self._refused = self._expired = 0
        self._acts: dict[str, Callable[[Command, int, object, str | None], Change | None]] = {
            "put": self._put,
            "put_unique": self._put_unique,
            "erase": self._erase,
            "clear": self._clear,
        }

    def __len__(self) -> int:
        return len(self.entries)

    def apply(self, command: Command, now_ns: int, publisher: object = None, user: str | None = None) -> Change | None:
        """Apply a command; `publisher` is for `Change.publisher`, `user` is charged for the entry.

        Returns:
            The change. None: put or erase found another version, put_unique found an entry, erase found none.

        Raises:
            StoreError: The command is rejected, and nothing has changed.
        """
        try:
            act = self._acts.get(command.kind)
            if act is None:
                return self._calculate(command, now_ns, publisher, user)
            return act(command, now_ns, publisher, user)
        except StoreError:
            self._refused += 1
            raise

    def _put(self, command: Command, now_ns: int, publisher: object, user: str | None) -> Change | None:
        key = command.key
        entry = self.entries.get(key)
        if entry is None:
            key = self.operations.canonical(key)
            entry = self.entries.get(key)
        if command.if_version is not None and (0 if entry is None else entry[1]) != command.if_version:
            return None
        value = command.value
        if value is None:
            raise StoreError(f"{command.kind} needs a value")
        self.operations.check(value)
        expiry_ns = command.expiry_ns
        expires_ns = None if expiry_ns is None else now_ns + _positive(expiry_ns)
        return self._write(key, entry, value, expires_ns, publisher, user)

    def _put_unique(self, command: Command, now_ns: int, publisher: object, user: str | None) -> Change | None:
        if self._find(command.key)[1] is not None:
            return None
        return self._put(command, now_ns, publisher, user)

    def _calculate(self, command: Command, now_ns: int, publisher: object, user: str | None) -> Change:
        key, entry = self._find(command.key)
        old = None if entry is None else entry[0]
        value = self.operations.apply(command.kind, old, command.value, command.empty)
        expiry_ns = command.expiry_ns
        expires_ns = self._expiry.due_ns.get(key) if expiry_ns is None else now_ns + _positive(expiry_ns)
        return self._write(key, entry, value, expires_ns, publisher, user)

    def _erase(self, command: Command, _: int, publisher: object, __: str | None) -> Change | None:
        key, entry = self._find(command.key)
        if entry is None or (command.if_version is not None and entry[1] != command.if_version):
            return None
        return self._remove(key, entry, _ERASE, publisher)

    def _clear(self, _: Command, __: int, publisher: object, ___: str | None) -> Change:
        self.entries = {}  # a snapshot may go on with the old ones
        self._expiry.clear()
        self._users.clear()
        self.size_bytes = 0
        return self._changed(ChangeKind.CLEAR, b"", None, None, None, publisher)

    def _find(self, key: bytes) -> tuple[bytes, Entry | None]:
        entry = self.entries.get(key)
        if entry is None:
            key = self.operations.canonical(key)
            entry = self.entries.get(key)
        return key, entry

    def _write(  # noqa: PLR0913, PLR0917 -- called for each put: by place is quicker than by name
        self, key: bytes, entry: Entry | None, value: bytes, expires_ns: int | None, publisher: object, user: str | None
    ) -> Change:
        size = len(key) + len(value)
        limits = self.limits
        if size > limits.entry_bytes:
            raise StoreError(f"an entry of {size} bytes, the limit is {limits.entry_bytes}", CloseCode.TOO_BIG)
        if entry is None:
            old = None
            grown = size + ENTRY_BYTES
            if len(self.entries) >= limits.entries:
                raise _full(f"{len(self.entries)} entries, as many as it may have")
        else:
            old = entry[0]
            grown = len(value) - len(old)
        if grown > 0 and self.size_bytes + grown > limits.bytes:
            raise _full(f"{self.size_bytes} bytes; with {grown} more it would have more than {limits.bytes}")
        if user is not None or (entry is not None and entry[2] is not None):
            self._charge(user, entry, size + ENTRY_BYTES, size + ENTRY_BYTES - grown)
        self.size_bytes += grown
        if expires_ns is not None:
            self._expiry.set(key, expires_ns)
        elif key in self._expiry.due_ns:
            self._expiry.discard(key)
        self.number = number = self.number + 1
        self.entries[key] = (value, number, user)
        change: Change = _make_change(Change, (number, _PUT, key, value, old, expires_ns, publisher))
        self.changes.append(change)
        return change

    def _remove(self, key: bytes, entry: Entry, kind: int, publisher: object) -> Change:
        del self.entries[key]
        self._expiry.discard(key)
        size = len(key) + len(entry[0]) + ENTRY_BYTES
        self.size_bytes -= size
        if entry[2] is not None:
            self._discharge(entry[2], size)
        return self._changed(kind, key, None, entry[0], None, publisher)

    def _changed(  # noqa: PLR0913, PLR0917 -- the fields of a change
        self, kind: int, key: bytes, value: bytes | None, old: bytes | None, expires_ns: int | None, publisher: object
    ) -> Change:
        self.number += 1
        change = Change(self.number, int(kind), key, value, old, expires_ns, publisher)
        self.changes.append(change)
        return change

    def _charge(self, user: str | None, entry: Entry | None, size: int, old_size: int) -> None:
        """Charge an entry to its writer, and release it for the user before; raises `StoreError`, changing nothing."""
        before = None if entry is None else entry[2]
        if user is not None:
            self._users[user] = self._charge_of(user, before, size, old_size)
        if before is not None and before != user:
            self._discharge(before, old_size)

    def _charge_of(  # noqa: PLR0913, PLR0917 -- called for each put of a user: by place is quicker than by name
        self, user: str, before: str | None, size: int, old_size: int, more_entries: int = 0, more_bytes: int = 0
    ) -> list[int]:
        entries, size_bytes = self._users.get(user, (0, 0))
        entries += 1 if user != before else 0
        size_bytes += size - old_size if user == before else size
        grows = user != before or size > old_size
        if grows and entries + more_entries > self.limits.user_entries:
            text = f"{entries + more_entries - 1} entries of user {user!r}, as many as one may have"
            raise _full(text)
        if grows and size_bytes + more_bytes > self.limits.user_bytes:
            raise _full(f"too much of user {user!r}: with this entry more than {self.limits.user_bytes} bytes")
        return [entries, size_bytes]

    def check_user(self, user: str, key: bytes, size: int, more_entries: int, more_bytes: int) -> tuple[int, int]:
        """Check that a user may write an entry of this size that is not applied here yet.

        `more_entries` and `more_bytes` (with `ENTRY_BYTES`) are requested and not applied yet. Returns the entries and
        bytes that it adds to their charge; raises `StoreError` over a limit.
        """
        entry = self.entries.get(key)
        before = None if entry is None else entry[2]
        old_size = 0 if entry is None else len(key) + len(entry[0]) + ENTRY_BYTES
        self._charge_of(user, before, size + ENTRY_BYTES, old_size, more_entries, more_bytes)
        is_same = before == user
        return int(not is_same), max(0, size + ENTRY_BYTES - (old_size if is_same else 0))

    def _discharge(self, user: str, size: int) -> None:
        charged = self._users[user]
        charged[0] -= 1
        charged[1] -= size
        if not charged[0]:
            del self._users[user]

    def charged(self, user: str) -> tuple[int, int]:
        entries, size_bytes = self._users.get(user, (0, 0))
        return entries, size_bytes

    @property
    def next_expiry_ns(self) -> int | None:
        return self._expiry.next_ns

    def expire(self, now_ns: int, limit: int = 1_000) -> list[Change]:
        changes = [
            self._remove(key, self.entries[key], ChangeKind.EXPIRE, None) for key in self._expiry.take(now_ns, limit)
        ]
        self._expired += len(changes)
        return changes

    @property
    def expiring(self) -> int:
        return len(self._expiry)

    def expires_ns(self, key: bytes) -> int | None:
        """Return when the entry of a canonical key expires; None for never, or no entry."""
        return self._expiry.due_ns.get(key)

    def get(self, key: bytes) -> Entry | None:
        """Return the entry of a key, canonical or not; raises StoreError for an invalid key."""
        return self._find(key)[1]

    def index(self, key: bytes, index: bytes) -> bytes | None:
        """Return a part of a value, or None; raises `StoreError` as `Operations.index`, or without an entry."""
        entry = self._find(key)[1]
        if entry is None:
            raise StoreError("there is no entry with this key")
        return self.operations.index(entry[0], index)

    def since(self, number: int, limit: int, limit_bytes: int) -> list[Change] | None:
        """Return the changes after a number, as `Changes.since`; None: take a snapshot instead."""
        return self.changes.since(number, self.number, limit, limit_bytes)

    def refuse(self, commands: int) -> None:
        self._refused += commands

    def statistics(self) -> StoreStatistics:
        return StoreStatistics(
            entries=len(self.entries),
            bytes=self.size_bytes,
            expiring=len(self._expiry),
            number=self.number,
            changes_total=self.number - self._began,
            kept_changes=len(self.changes),
            kept_changes_bytes=self.changes.size_bytes,
            refused_total=self._refused,
            expired_total=self._expired,
        )

    def restore(self, kept: Iterable[Kept], number: int) -> None:
        """Load entries that were kept over a restart, without changes or limits. `number`: of the last change."""
        for key, value, version, expires_ns, user in kept:
            self.entries[key] = (value, version, user)
            size = len(key) + len(value) + ENTRY_BYTES
            self.size_bytes += size
            if expires_ns is not None:
                self._expiry.set(key, expires_ns)
            if user is not None:
                charged = self._users.setdefault(user, [0, 0])
                charged[0] += 1
                charged[1] += size
        self.number = self._began = max(self.number, number)


def _positive(expiry_ns: int) -> int:
    if expiry_ns <= 0:
        raise StoreError(f"an expiry of {expiry_ns} ns: an entry must live for more than that")
    return expiry_ns


def _full(has: str) -> StoreError:
    return StoreError(f"the store is full: it has {has}", CloseCode.OVERFLOW)


LOOKED_AT = 10_000  # most keys that one page looks at, about 2 ms. A page may be empty and not the last one.


class Row(NamedTuple):
    """One entry."""

    key: bytes
    value: bytes
    version: int
    expires_ns: int | None


_make_row = tuple.__new__


class Snapshot:
    """A reading of all entries, page by page, while the store changes; `prefix` selects keys that are strings.

    The keys are noted at the beginning; each page reads their present values. For one consistent state, apply the
    changes after `number` up to the store's number at the last page (`hub.stores.replica` does). 10 ms and 8 MB for a
    million keys.
    """

    __slots__ = ("_keys", "_left", "_next", "_prefix", "_store", "number", "size_bytes")

    def __init__(self, store: Store, prefix: str = "") -> None:
        self._store = store
        self._prefix = prefix.encode(errors="surrogateescape")
        self.number = store.number
        keys = list(store.entries)
        self._left = len(keys)
        self.size_bytes = 8 * len(keys)
        self._keys: Iterator[bytes] = iter(keys)
        self._next: Row | None = None  # a row that did not fit into the last page

    @property
    def is_done(self) -> bool:
        return not self._left and self._next is None

    def page(self, limit: int, limit_bytes: int) -> list[Row]:
        """Return the next entries as they are now; at least one if `limit_bytes` is too small for it."""
        rows: list[Row] = []
        entries, prefix = self._store.entries, self._prefix
        expires_ns = self._store.expires_ns
        looked = 0
        if self._next is not None:
            row, self._next = self._next, None
            if row.key in entries:  # a newer version of it is among the changes
                rows.append(row)
                limit_bytes -= len(row.key) + len(row.value)
        while len(rows) < limit and looked < LOOKED_AT and limit_bytes > 0:
            key = next(self._keys, None)
            if key is None:
                break
            looked += 1
            if prefix and not text_begins(key, prefix):
                continue
            entry = entries.get(key)
            if entry is None:
                continue
            row = _make_row(Row, (key, entry[0], entry[1], expires_ns(key)))
            limit_bytes -= len(key) + len(entry[0])
            if limit_bytes < 0 and rows:
                self._next = row
                break
            rows.append(row)
        self._left -= looked
        return rows


def text_begins(key: bytes, prefix: bytes) -> bool:
    """Return whether a packed key is a string with a prefix."""
    first = key[0]
    if 0xA0 <= first <= 0xBF:
        return key.startswith(prefix, 1)
    head = _HEADS.get(first)
    return head is not None and key.startswith(prefix, head)


_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5}  # first byte of a longer msgpack string → length of its head
