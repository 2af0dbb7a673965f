"""`Changes`: the last changes of a store, for those who have missed some.

Owner: the store. Invariants: the numbers of what is kept follow one another, and the last one is that of the store.
Bounds: by number and by bytes; the oldest go first. Cost: O(1) a change; `since` looks through what is kept.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from hub.stores.change import Change

__all__ = ["Changes"]


class Changes:
    """A ring of changes.

    Args:
        count_limit: Most changes that are kept.
        bytes_limit: Most bytes that these take.
    """

    __slots__ = ("_bytes_limit", "_count_limit", "_ring", "size_bytes")

    def __init__(self, count_limit: int, bytes_limit: int) -> None:
        self._count_limit = count_limit
        self._bytes_limit = bytes_limit
        self._ring: deque[Change] = deque()
        self.size_bytes = 0
        """What is kept takes so much memory, about."""

    def __len__(self) -> int:
        return len(self._ring)

    def append(self, change: Change) -> None:
        """Keep a change, and drop the oldest ones if there are too many."""
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
        """Return the changes behind a number, as many as fit.

        Args:
            number: That of the last change that is known already.
            last: That of the last change of the store.
            limit: How many to return at most.
            limit_bytes: How much they may take; one change is returned however large it is.

        Returns:
            None if some of them are not kept any more, or there never was such a number.
        """
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
