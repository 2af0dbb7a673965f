"""`Failures`: who was not recognised how often, and how long the answer to the next failure is held back.

Each failure of an address within `WINDOW_S` of the one before doubles the time that its answer waits. The first one
waits, too: that hides how long it took to find out what was wrong. Who is recognised never waits, so that a colleague
behind the same address is not held up.

Of IPv6 a network of 64 bits is one address; all of this machine is one.

Owner: `peers.users.access`. No I/O: the time is an argument. Invariants: at most `limit` addresses are remembered, the
one that failed least lately is forgotten first. Cost: O(1).
"""

from __future__ import annotations

from peers.transport.host import host_of

__all__ = ["ADDRESSES", "FIRST_S", "LONGEST_S", "WINDOW_S", "Failures"]

FIRST_S = 0.1
"""How long the answer to a first failure waits, s: a hundred times what the slowest way to recognise somebody takes."""

LONGEST_S = 3.2
"""The longest that an answer waits, s: within `limits.handshake_s`, so that it is an answer still."""

WINDOW_S = 60.0
"""Without a failure for so long, an address is as good as new, s."""

ADDRESSES = 10_000
"""How many addresses are remembered, 200 bytes each. Whoever has more than these is not stopped by waiting, either."""


class Failures:
    """The failures of the last minute.

    Args:
        limit: How many addresses are remembered.
    """

    def __init__(self, limit: int = ADDRESSES) -> None:
        self._limit = limit
        self._last: dict[str, tuple[int, float]] = {}
        """Host → how many failures, and when the last one was; the one that failed last is last."""

    @property
    def addresses(self) -> int:
        """How many addresses are remembered."""
        return len(self._last)

    def note(self, address: str, now_s: float) -> float:
        """Take note of a failure.

        Args:
            address: Where it came from, as connections show it.
            now_s: The time, of any clock that runs evenly.

        Returns:
            How long the answer waits, s.
        """
        host = host_of(address)
        count, last_s = self._last.pop(host, (0, now_s))
        count = count + 1 if now_s - last_s < WINDOW_S else 1
        delay_s = FIRST_S * 2.0 ** (count - 1)
        if delay_s >= LONGEST_S:
            delay_s, count = LONGEST_S, count - 1  # the count need not grow any more
        if len(self._last) >= self._limit:
            del self._last[next(iter(self._last))]
        self._last[host] = count, now_s
        return delay_s
