"""`StoreLimits`: how much one store may hold. No state; what a person sets is in `hub.settings`."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ENTRY_BYTES", "StoreLimits"]

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
