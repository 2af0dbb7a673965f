"""`Command`: what a store is asked to do.

| kind | `value` | what becomes of the entry |
|---|---|---|
| put | the new value | it is this value; with `if_version` only if its version is that (0: if there is no entry) |
| put_unique | the new value | it is this value, if there was no entry |
| erase | | it is gone; with `if_version` only if its version is that |
| clear | | all entries are gone; there is no key |
| increment, decrement | an amount | number ± number of its type, timestamp or timespan ± timespan |
| append | a string | the string, with this one behind it |
| insert | a member | the set, with this member |
| insert_entry | a vector of key and value | the table, with this entry |
| remove | a member or a key | the set or table without it |
| push | an element | the vector, with this element behind it |
| pop | | the vector without its last element; an empty one stays as it is |
| add, subtract | an operand | one of those above, by the type that the entry has: see `hub.stores.command` |

A missing entry is made by increment, append, insert, insert_entry, push and add, out of nothing of the type; for add
`empty` says which. Decrement, remove, pop and subtract need an entry.

On the wire a command is an array of these fields in this order; those at the end may be left out. No state.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

import msgspec

ENTRY_BYTES = 200
"""What an entry is charged beside the bytes of its key and value: two objects of bytes with 33 bytes each, a tuple, a
version, and a place in a dictionary that has up to half of its places free."""


class StoreLimits(NamedTuple):
    """The limits of one store. A command that would exceed one is refused, and counted."""

    entries: int = 1_000_000
    """Most entries."""
    bytes: int = 512 * 1024 * 1024
    """Most bytes of all entries, `ENTRY_BYTES` for each of them counted."""
    user_entries: int = 1_000_000
    """Most entries that one user has written last."""
    user_bytes: int = 512 * 1024 * 1024
    """Most bytes of them."""
    entry_bytes: int = 512 * 1024
    """Longest key and value together, bytes: each change must fit into a frame."""
    changes: int = 65_536
    """How many of the last changes are kept for those who have missed some."""
    changes_bytes: int = 16 * 1024 * 1024
    """How much memory these take at most, bytes."""


class ChangeKind(IntEnum):
    """What a change is. The numbers stand on the wire."""

    PUT = 0
    """There is a new value, whatever made it."""
    ERASE = 1
    EXPIRE = 2
    """The entry's time was over."""
    CLEAR = 3
    """All entries are gone."""


class Change(NamedTuple):
    """One change."""

    number: int
    """Its place among the changes of the store; of a put also the new version of the entry."""
    kind: int
    """A `ChangeKind`."""
    key: bytes
    """Canonical; empty for CLEAR."""
    value: bytes | None
    """The whole new value; None if there is none any more."""
    old: bytes | None
    """The value before, None if there was none."""
    expires_ns: int | None
    """When the entry expires, by the clock of the store; None for never."""
    publisher: object
    """Who has asked for it, None if nobody has said, or time has done it. The store only hands it on."""

    @property
    def size_bytes(self) -> int:
        """How much memory it takes, about: its own 200 bytes, key and values."""
        return 200 + len(self.key) + len(self.value or b"") + len(self.old or b"")


class Command(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One command."""

    kind: str
    """One of those in the table."""

    key: bytes = b""
    """The key in msgpack, canonical or not."""

    value: bytes | None = None
    """A value in msgpack; None where the kind needs none."""

    expiry_ns: int | None = None
    """How long the entry is to live from now on, nanoseconds, more than 0. None: for ever after put and put_unique; as
    before after all others."""

    if_version: int | None = None
    """For put and erase: the version that the entry must have."""

    empty: bytes | None = None
    """For add: what a missing entry starts from, in msgpack. None: a missing entry is an error."""


class Operations(Protocol):
    """What can be done with packed values. All functions are pure, and raise `StoreError` with a text for people."""

    def canonical(self, key: bytes) -> bytes:
        """Return the one form of a key: equal keys have equal bytes.

        Raises:
            StoreError: It is no value.
        """

    def check(self, value: bytes) -> None:
        """Raise `StoreError` if that is not exactly one value."""

    def apply(self, kind: str, old: bytes | None, operand: bytes | None, empty: bytes | None) -> bytes:
        """Return the new value of an entry.

        Args:
            kind: A kind of `hub.stores.command` that makes a value out of an old one.
            old: The old value; None if there is no entry.
            operand: The value of the command.
            empty: For add: what stands for an old value that is missing.

        Raises:
            StoreError: The kind is not known, the entry is missing and cannot be, the types do not allow it, or a
                number would leave its range.
        """

    def index(self, value: bytes, index: bytes) -> bytes | None:
        """Return a part of a value: an element of a vector, whether a set has a member, the value of a table's key.

        Returns:
            None if there is no such element or key.

        Raises:
            StoreError: The value has no parts, or the index of a vector is no number.
        """
