"""`Expiry`: which entries are due when.

A wheel with a spoke for each 100 ms in which something is due. Owner: the store. Invariants: a key stands in exactly
one spoke, or in none; a spoke without keys goes. Cost: O(1) a key, O(log n) for a new spoke. Entries that never expire
cost nothing.

Times are numbers of nanoseconds of one clock, whichever that is. Not here: what becomes of what is due.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

__all__ = ["TICK_NS", "Expiry"]

TICK_NS = 100_000_000
"""How exact expiry is, ns: what is due within one tick goes together, at its end. Broker has the same."""

_SPARE_TICKS = 64
"""The order of the spokes is made anew once it has twice as many as there are, and some more."""


class Expiry:
    """The keys that expire."""

    __slots__ = ("_order", "_spokes", "due_ns")

    def __init__(self) -> None:
        self.due_ns: dict[bytes, int] = {}
        """Key → when it is due, ns. `set`, `discard` and `take` change it."""
        # Tick → the keys that are due at its end.
        self._spokes: dict[int, dict[bytes, None]] = {}
        # A heap of ticks; those whose spoke is gone are passed over.
        self._order: list[int] = []

    def __len__(self) -> int:
        return len(self.due_ns)

    def set(self, key: bytes, due_ns: int) -> None:
        """Let a key be due at a time, and not when it was due before."""
        self.discard(key)
        self.due_ns[key] = due_ns
        tick = _tick(due_ns)
        spoke = self._spokes.get(tick)
        if spoke is None:
            spoke = self._spokes[tick] = {}
            self._enter(tick)
        spoke[key] = None

    def discard(self, key: bytes) -> None:
        """Let a key be due never."""
        due_ns = self.due_ns.pop(key, None)
        if due_ns is not None:
            tick = _tick(due_ns)
            spoke = self._spokes[tick]
            del spoke[key]
            if not spoke:
                del self._spokes[tick]

    def clear(self) -> None:
        """Let nothing be due."""
        self.due_ns.clear()
        self._spokes.clear()
        self._order.clear()

    @property
    def next_ns(self) -> int | None:
        """When `take` will have something; None for never."""
        order = self._order
        while order and order[0] not in self._spokes:
            heappop(order)
        return order[0] * TICK_NS if order else None

    def take(self, now_ns: int, limit: int) -> list[bytes]:
        """Return keys that are due, `limit` at most, and forget them."""
        taken: list[bytes] = []
        while len(taken) < limit and (next_ns := self.next_ns) is not None and next_ns <= now_ns:
            spoke = self._spokes[self._order[0]]
            some = [key for key, _ in zip(spoke, range(limit - len(taken)), strict=False)]
            for key in some:
                self.discard(key)
            taken += some
        return taken

    def _enter(self, tick: int) -> None:
        if len(self._order) > 2 * len(self._spokes) + _SPARE_TICKS:
            self._order = list(self._spokes)
            heapify(self._order)
        else:
            heappush(self._order, tick)


def _tick(due_ns: int) -> int:
    """Return the tick at whose end something is due that is due at a time."""
    return -(-due_ns // TICK_NS)
