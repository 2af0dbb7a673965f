"""Requests and replies whose values are in shared memory: in their place stands a handle, which knows how to be read.

What makes them, and what reads the memory, is outside (`peers.shm`); the core passes them on unread, and asks for bytes
for those who take no shared memory.
"""

from __future__ import annotations

from typing import Protocol, TypeVar, cast

from hub.errors import RejectedError
from hub.frame import FLAG_SHARED
from hub.requests.layout import Reply, Request

__all__ = ["as_bytes"]


class _Handle(Protocol):
    """Values of a frame with SHARED: `bytes` that are a handle."""

    def plain(self, flags: int) -> bytes:
        """Return the values themselves.

        Raises:
            RejectedError: They are gone.
        """


ItemT = TypeVar("ItemT", bound=Request | Reply)


def as_bytes(item: ItemT) -> ItemT | None:
    """Return the same item with its values as bytes; None if they are gone."""
    try:
        values = cast("_Handle", item.values).plain(item.flags)
    except RejectedError:
        return None
    return cast("ItemT", item._replace(values=values, flags=item.flags & ~FLAG_SHARED))
