"""`Command` and `Change` of a store.

| kind | `value` | effect on the entry |
|---|---|---|
| put | the new value | has this value; with `if_version` only if it has that version (0: there is no entry) |
| put_unique | the new value | has this value, if there was no entry |
| erase, clear | | the entry, or all entries, are removed; erase takes `if_version` |
| increment, decrement | an amount | number ± number of its type, timestamp or timespan ± timespan |
| append; insert, insert_entry | a string; a member or `[key, value]` | appended; added to the set or table |
| remove; push, pop | a member or key; an element | removed from the set or table; added to or taken from the end |
| add, subtract | an operand | one of the operations above, by the type of the entry |

Increment, append, insert, insert_entry, push and add create a missing entry; for add `empty` says of which type.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

import msgspec

from hub.errors import UsageError
from hub.topics import STORES, check_prefix, check_topic, printable

ENTRY_BYTES = 200
"""Charge for an entry beside key and value: two bytes objects, a tuple, a version and a place in a dictionary."""


class StoreLimits(NamedTuple):
    """Limits of one store. A command that would exceed one is rejected and counted."""

    entries: int = 1_000_000
    bytes: int = 512 * 1024 * 1024  # with `ENTRY_BYTES` for each entry
    user_entries: int = 1_000_000  # most entries of one user
    user_bytes: int = 512 * 1024 * 1024
    entry_bytes: int = 512 * 1024  # longest key and value together, bytes: each change must fit into a frame
    changes: int = 65_536  # latest changes kept for replicas and watches
    changes_bytes: int = 16 * 1024 * 1024


class ChangeKind(IntEnum):
    """On the wire."""

    PUT = 0
    ERASE = 1
    EXPIRE = 2
    CLEAR = 3  # all entries are removed


class Change(NamedTuple):
    """One change of a store."""

    number: int  # its place among the changes of the store; of a put also the new version of the entry
    kind: int
    key: bytes  # canonical; empty for CLEAR
    value: bytes | None
    old: bytes | None
    expires_ns: int | None
    publisher: object  # the sender of the command; None if unknown, or if the entry has expired

    @property
    def size_bytes(self) -> int:
        return 200 + len(self.key) + len(self.value or b"") + len(self.old or b"")


class Command(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One command. On the wire an array of these fields; the last ones may be left out."""

    kind: str
    key: bytes = b""  # the key in msgpack, canonical or not
    value: bytes | None = None  # a value in msgpack; None where the kind needs none
    expiry_ns: int | None = None  # lifetime, ns. None: for ever after put and put_unique, else unchanged.
    if_version: int | None = None  # for put and erase: the version that the entry must have
    empty: bytes | None = None  # for add: the initial value of a missing entry; None: an error


class Operations(Protocol):
    """Pure functions on packed values; they raise `StoreError`."""

    def canonical(self, key: bytes) -> bytes:
        """Return the canonical form of a key: equal keys have equal bytes."""

    def check(self, value: bytes) -> None:
        """Raise `StoreError` if that is not exactly one value."""

    def apply(self, kind: str, old: bytes | None, operand: bytes | None, empty: bytes | None) -> bytes:
        """Return the new value of an entry, None if there was none; `empty` stands for a missing old value of add."""

    def index(self, value: bytes, index: bytes) -> bytes | None:
        """Return an element of a vector, the value of a table's key, or whether a set has a member; None if missing."""


def store_topic(name: str, what: str = "") -> str:
    """Return a topic of a store, or without `what` the prefix of all of them; raises `UsageError`."""
    if not name or "/" in name or "=" in name:
        raise UsageError(
            f"{printable(name)} is not a valid name of a store: expected at least one character, and no '/' or '='"
        )
    return check_topic(f"{STORES}{name}/{what}")


def parse_store(text: str) -> tuple[str, str]:
    """Return name and file of a setting NAME=FILE; raises UsageError."""
    name, equals, path = text.partition("=")
    if not equals or not path:
        raise UsageError(f"{printable(text)} is not a store: write NAME=FILE, or NAME=:memory:")
    store_topic(name)
    return name, path


def parse_feed(text: str) -> tuple[str, str]:
    """Return store and prefix of a setting NAME=PREFIX; raises `UsageError` or `InvalidTopicError`."""
    name, equals, prefix = text.partition("=")
    if not equals:
        raise UsageError(f"{printable(text)} feeds no store: write NAME=PREFIX")
    store_topic(name)
    if prefix.startswith(STORES):
        raise UsageError(f"{printable(text)}: topics under {STORES} feed no store")
    return name, check_prefix(prefix)


def parse_served(text: str) -> tuple[str, str]:
    """Return the outer and the local name of a store, of a setting STORE or NAME=STORE; raises UsageError."""
    known, _, name = text.rpartition("=")
    known = known or name
    store_topic(name)
    if "<$>" in known or known.startswith("/") or known.endswith("/"):
        raise UsageError(
            f"{printable(known)} is not a valid name of a store at a Zeek: no '<$>', and no '/' at either end"
        )
    return known, name
