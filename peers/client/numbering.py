"""`Numbers`: the numbers of a client's requests to its hub, which tell to which part an answer belongs.

| part | its numbers |
|---|---|
| subscriptions | from 1 on |
| service names | from 2^29 on |
| fresh tokens | the last 2^16 below 2^30 |
| services | from 2^30 on |
| journal | from 2^31 on, up to what a frame holds |

Owner of a `Numbers`: one part of a client. Invariant: a number does not come again before all others of its part have.
Requests to services of other clients have transaction ids of their own (`peers.client.pending`).
"""

from __future__ import annotations

__all__ = ["JOURNAL", "NAMES", "SERVICES", "SUBSCRIPTIONS", "TOKENS", "Numbers"]

SUBSCRIPTIONS = range(1, 1 << 29)
NAMES = range(1 << 29, (1 << 30) - (1 << 16))
TOKENS = range((1 << 30) - (1 << 16), 1 << 30)
SERVICES = range(1 << 30, 1 << 31)
JOURNAL = range(1 << 31, 1 << 32)


class Numbers:
    """Gives out the numbers of one part, one after the other, and begins anew behind the last.

    Args:
        numbers: Those of the part.
    """

    __slots__ = ("_numbers", "last")

    last: int
    """The number that was given out last; at first the smallest of the part, which is given out in the second round."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers
        self.last = numbers.start

    def next(self) -> int:
        """Return the next number."""
        self.last = self.last + 1 if self.last + 1 < self._numbers.stop else self._numbers.start
        return self.last
