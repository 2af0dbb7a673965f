"""Keys and values on their way to a store and back; and what a client tells of entries and changes. No state."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from hub.frame import Encoding
from hub.stores.command import Change, ChangeKind
from peers.client.values import decode_body

__all__ = ["StoreChange", "StoreChangeKind", "StoreEntry", "StoreState", "change_of", "expiry_ns", "value_of"]

_SECOND_NS = 1_000_000_000


class StoreChangeKind(Enum):
    """What has become of an entry."""

    PUT = "put"
    """It has a new value, or is new."""
    ERASE = "erase"
    EXPIRE = "expire"
    """Its time was over."""
    CLEAR = "clear"
    """All entries are gone."""


_KINDS = {
    ChangeKind.PUT: StoreChangeKind.PUT,
    ChangeKind.ERASE: StoreChangeKind.ERASE,
    ChangeKind.EXPIRE: StoreChangeKind.EXPIRE,
    ChangeKind.CLEAR: StoreChangeKind.CLEAR,
}


class StoreEntry(NamedTuple):
    """One entry."""

    key: Any
    value: Any
    version: int
    """The number of its last change: for `put(..., if_version=version)`."""
    expires_s: float | None
    """In how many seconds it expires; None: never."""


class StoreState(NamedTuple):
    """What a store says of itself."""

    epoch: int
    """A store that has lost its entries begins another one, with a higher number."""
    number: int
    """Of its last change."""
    entries: int
    bytes: int
    """Of all entries in memory, about."""


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
    """The user, or else the name of the client, who has asked for it; None where nobody has said that."""
    present: bool
    """Whether it is an entry that was there as the watching began."""
    partial: bool
    """Whether more of the same state follows: the entries were read, and not each change. With the next change that is
    not partial, what was told is a state that the store had."""


def value_of(packed: bytes | None) -> Any:
    """Return the value that stands in some msgpack.

    Raises:
        ValueError: It is none that this client can read.
    """
    return None if packed is None else decode_body(Encoding.MSGPACK, packed)


def change_of(change: Change, *, present: bool, partial: bool) -> StoreChange:
    """Return a change with values."""
    is_clear = change.kind == ChangeKind.CLEAR
    return StoreChange(
        _KINDS[ChangeKind(change.kind)],
        None if is_clear else value_of(change.key),
        value_of(change.value),
        value_of(change.old),
        change.number,
        change.publisher,
        present,
        partial,
    )


def expiry_ns(expires_s: float | None) -> int | None:
    """Return a time to live as it stands in commands."""
    return None if expires_s is None else round(expires_s * _SECOND_NS)
