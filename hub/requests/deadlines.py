"""`Deadlines`: what is due when, in buckets of 10 ms.

```
due:      1203          1204            1290
buckets:  {a, b}        {}              {c, d, e}       a dictionary, with the numbers in a heap beside it
```

Owner: `hub.requests.requests`. Invariants: nothing is due before its time, and at most 10 ms after it; what is armed is
never later than the first bucket that holds something.

Cost: O(1) to enter and to leave a bucket; O(log buckets) for each new one. A bucket that was left empty costs about
200 bytes until its time.

Not here: the clock; whoever has one calls `take` (`peers.node.node`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

from hub.requests.pending import Block

__all__ = ["BUCKET_MS", "Deadlines"]

BUCKET_MS = 10
"""How exact a time-out is, ms: a tenth of the shortest one that anybody sets, and 100 wake-ups a second at most."""


class Deadlines:
    """Buckets of blocks.

    Args:
        wake_at: Called with a time, ms, at which `take` is to be called; a later call takes the place of an earlier.
    """

    __slots__ = ("_armed", "_buckets", "_numbers", "_wake_at")

    def __init__(self, wake_at: Callable[[int], object]) -> None:
        self._wake_at = wake_at
        # Number of a bucket → the blocks that are due then. A bucket is there from its first block until `take` finds
        # it empty.
        self._buckets: dict[int, dict[Block, None]] = {}
        # The numbers of all buckets, as a heap.
        self._numbers: list[int] = []
        # The bucket that `wake_at` was called for last; infinite while nothing is to be waited for.
        self._armed: float = math.inf

    def bucket(self, due_ms: int) -> dict[Block, None]:
        """Return the bucket of what is due then."""
        number = -(-due_ms // BUCKET_MS)
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = {}
            heappush(self._numbers, number)
            if number < self._armed:
                self._arm(number)
        return bucket

    @property
    def next_due_ms(self) -> int | None:
        """Return when to call `take` next; None if nothing is pending."""
        return None if math.isinf(self._armed) else int(self._armed) * BUCKET_MS

    def take(self, now_ms: int, most: int) -> list[Block]:
        """Take blocks that are due out of their buckets, and ask for the rest later. The caller settles them.

        Args:
            now_ms: The time now, ms.
            most: As many as one turn may take.
        """
        taken: list[Block] = []
        self._armed = math.inf
        while self._numbers:
            number = self._numbers[0]
            bucket = self._buckets[number]
            if bucket:
                if number * BUCKET_MS > now_ms or len(taken) == most:
                    self._arm(number)
                    break
                some = [bucket.popitem()[0] for _ in range(min(len(bucket), most - len(taken)))]
                taken.extend(reversed(some))  # in the order in which they came
            else:
                heappop(self._numbers)
                del self._buckets[number]
        return taken

    def _arm(self, number: int) -> None:
        self._armed = number
        self._wake_at(number * BUCKET_MS)
