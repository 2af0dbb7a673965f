"""`Change`: what a command, or time, has done to a store. It never changes itself.

Numbers of the changes of a store go up by one. The version of an entry is the number of its last change.
No state.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

__all__ = ["Change", "ChangeKind"]


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
