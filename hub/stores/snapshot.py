"""`Snapshot`: all entries of a store, or their keys, page by page, while the store goes on changing.

The keys that are there at the beginning are noted; each page looks up what they are then. So a page may show later
states than the one before: whoever wants one state applies the changes behind `Snapshot.number` up to the number of the
store when the last page was read, each to what has an older version (`hub.stores.replica` does).

Owner: whoever reads. Cost: 10 ms to note a million keys, and 8 MB; about 0.2 µs a key looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hub.stores.store import Store

LOOKED_AT = 10_000
"""How many keys one page looks at, at most: about 2 ms. A page may be empty and not the last one."""


class Row(NamedTuple):
    """One entry."""

    key: bytes
    value: bytes
    version: int
    expires_ns: int | None


_make_row = tuple.__new__


class Snapshot:
    """One reading.

    Args:
        store: Which.
        prefix: Only keys that are strings and begin like this; empty: all keys.
    """

    __slots__ = ("_keys", "_left", "_next", "_prefix", "_store", "number", "size_bytes")

    def __init__(self, store: Store, prefix: str = "") -> None:
        self._store = store
        self._prefix = prefix.encode(errors="surrogateescape")
        self.number = store.number
        """Of the last change as this began."""
        keys = list(store.entries)
        self._left = len(keys)
        self.size_bytes = 8 * len(keys)
        """How much memory its notes take."""
        self._keys: Iterator[bytes] = iter(keys)
        # What did not fit into the last page.
        self._next: Row | None = None

    @property
    def is_done(self) -> bool:
        """Whether there are no more pages."""
        return not self._left and self._next is None

    def page(self, limit: int, limit_bytes: int) -> list[Row]:
        """Return the next entries, as they are now.

        Args:
            limit: How many at most.
            limit_bytes: How long their keys and values may be together; one entry is returned whatever its size.
        """
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
    """Tell whether a packed key is a string that begins with some bytes."""
    first = key[0]
    if 0xA0 <= first <= 0xBF:
        return key.startswith(prefix, 1)
    head = _HEADS.get(first)
    return head is not None and key.startswith(prefix, head)


_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5}
"""First byte of a longer string in msgpack → how long its head is."""
