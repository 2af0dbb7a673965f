"""`Party` and `Spans`: what is pending, as who has asked knows it and as who is to answer.

```
requester's ids            hub's ids at this service          every 10 ms
 7 ┐                        0 ┐                               ┌ bucket ┐
 8 │ one frame ── Block ──  1 │ own, count, left              │ blocks │
 9 ┘                        2 ┘                               └────────┘
40   one frame ── Block ──  3
```

A frame of requests is one `Block` (`hub.requests.block`). Both sides know it by where it begins, in small maps of their
own: requests that came alone in a dictionary, the others in order of their first id.

Owner: `hub.requests.requests`. Invariants: what is pending of one requester never overlaps in its ids, nor what is
pending at one service in the hub's; a block is in both maps and in its bucket, or settled.

Cost: a request that came alone is a dictionary hit in each map; a block of several O(log n) for the frame, not for the
request.

Not here: who gets what (`hub.requests.requests`), who serves what (`hub.requests.services`).
"""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedDict

from hub.handler import Handler
from hub.requests.layout import TRANSACTIONS

try:
    from hub.requests._block import Block
except ImportError:
    from hub.requests.block import Block

__all__ = ["Block", "Party", "Spans"]

_MASK = TRANSACTIONS - 1


class Party:
    """A handler as one that asks and one that serves."""

    __slots__ = ("asked", "asked_requests", "gone", "handler", "is_link", "issued", "owed", "owed_requests", "served")

    handler: Handler

    is_link: bool

    asked: Spans
    """What it has asked and has no answer to, by its own ids."""

    asked_requests: int

    owed: Spans
    """What it is to answer, by the hub's ids."""

    owed_requests: int

    issued: int
    """How many of the hub's ids it was given so far; the next one is that, modulo 2^32."""

    served: dict[str, int]
    """Prefix → how often it said that it serves it; kept by `hub.requests.services`."""

    gone: bool
    """Whether its handler has left."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.is_link = handler.is_link
        self.asked = Spans()
        self.asked_requests = 0
        self.owed = Spans()
        self.owed_requests = 0
        self.issued = 0
        self.served = {}
        self.gone = False

    def take_ids(self, count: int) -> int:
        """Return the first of so many ids in a row that no pending request at this service has."""
        while True:
            first = self.issued & _MASK
            if first + count > TRANSACTIONS:  # a block does not go over the end
                self.issued += TRANSACTIONS - first
                continue
            self.issued += count
            if self.owed.is_free(first, count):  # not after 2^32 requests, if an old one is still pending
                return first

    def was_issued(self, own: int) -> bool:
        """Whether this service was ever given this id."""
        return (self.issued - 1 - own) & _MASK < self.issued


class Spans:
    """Blocks by an id that their requests have."""

    __slots__ = ("_ranges", "singles")

    singles: dict[int, Block]
    """Blocks of one request, by their id."""

    def __init__(self) -> None:
        self.singles = {}
        self._ranges: SortedDict | None = None

    @property
    def ranges(self) -> SortedDict:
        """Blocks of several, by their first id."""
        if self._ranges is None:
            self._ranges = SortedDict()
        return self._ranges

    def blocks(self) -> list[Block]:
        """Every block, those of one request first."""
        return [*self.singles.values(), *(self._ranges.values() if self._ranges is not None else ())]

    def covering(self, number: int) -> tuple[Block, int] | None:
        """Return the block of several that `number` is in, and its place there, whether it is pending or not."""
        if not self._ranges:
            return None
        start, block = self._ranges.peekitem(self._ranges.bisect_right(number) - 1)  # -1: the last may go over the end
        place = (number - start) & _MASK
        return (block, place) if place < block.count else None

    def is_free(self, first: int, count: int) -> bool:
        """Whether none of these ids is pending. Blocks whose answered part is in the way are parted."""
        if self.singles and not self._is_free_of_singles(first, count):
            return False
        if not self._ranges:
            return True
        overlaps = list(self._overlaps(first, count))
        for block, start, stop in overlaps:
            if block.answered is None or block.answered.find(0, start, stop) >= 0:
                return False
        if count > 1:
            for block, start, stop in overlaps:
                block.part(start, stop)
        return True

    def _is_free_of_singles(self, first: int, count: int) -> bool:
        if count == 1:
            return first not in self.singles
        end = first + count
        if not self.singles.keys().isdisjoint(range(first, min(end, TRANSACTIONS))):
            return False
        return end <= TRANSACTIONS or self.singles.keys().isdisjoint(range(end - TRANSACTIONS))

    def _overlaps(self, first: int, count: int) -> Iterator[tuple[Block, int, int]]:
        """Yield the blocks of several that have one of these ids, with the places in them."""
        found = self.covering(first)
        if found is not None:
            block, place = found
            yield block, place, min(block.count, place + count)
        ranges = self.ranges
        index = ranges.bisect_right(first)
        for step in range(len(ranges)):
            start, block = ranges.peekitem((index + step) % len(ranges))
            distance = (start - first) & _MASK
            if not 0 < distance < count:
                break
            yield block, 0, min(block.count, count - distance)
