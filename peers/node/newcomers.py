"""`Newcomers`: those who have come and not said yet who they are, and who of them gives way to one more.

The one that has been there for longest gives way. Where an address holds a large part of the places, one of its own
does, so that nobody can push others out by coming often.

Owner of the state: whoever has the places (`peers.node.admission`, `peers.node.handshakes`). Cost: O(1) for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["Newcomers"]

_SHARE = 4
"""An address that holds more than one in so many of the places must give way itself. There are at most three such."""

One = TypeVar("One")


class Newcomers(Generic[One]):
    """The places.

    Args:
        limit: How many there are.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._hosts: dict[One, str] = {}
        """Each newcomer with the host it counts for; oldest first."""
        self._of: dict[str, dict[One, None]] = {}
        """The same newcomers by their host, oldest first. A host without newcomers has no entry."""
        self._crowding: dict[str, None] = {}
        """The hosts that hold a large part."""

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._hosts)

    def __iter__(self) -> Iterator[One]:
        """Go through them, oldest first."""
        return iter(self._hosts)

    def __contains__(self, one: One) -> bool:
        """Return whether it is one of them."""
        return one in self._hosts

    def giving_way(self, host: str) -> One | None:
        """Return who must go so that there is room for one more from a host; None if there is room."""
        if len(self._hosts) < self.limit:
            return None
        crowding = host if host in self._crowding else next(iter(self._crowding), None)
        return next(iter(self._hosts if crowding is None else self._of[crowding]))

    def add(self, one: One, host: str) -> None:
        """Give one more a place."""
        self._hosts[one] = host
        theirs = self._of.setdefault(host, {})
        theirs[one] = None
        if len(theirs) > self.limit // _SHARE:
            self._crowding[host] = None

    def remove(self, one: One) -> None:
        """Free the place of one, if it has one."""
        host = self._hosts.pop(one, None)
        if host is not None:
            theirs = self._of[host]
            del theirs[one]
            if len(theirs) <= self.limit // _SHARE:
                self._crowding.pop(host, None)
            if not theirs:
                del self._of[host]
