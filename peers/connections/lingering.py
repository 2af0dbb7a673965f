"""`Lingering`: how long a connection that this side has ended is kept so that the far side can read why.

```
end ──▶ all is read            ──2 s──▶ over    the far side has the last frame; it may still be sending
    └─▶ something is unread, and it gets less ─▶ go on, up to `limits.linger_s`
    └─▶ something is unread, and it does not  ──`limits.linger_unread_s`──▶ over
```

A socket that is closed while bytes wait in it tears the frame that they belong to, and one that is closed with unread
input resets the connection: either way the far side never learns the reason. So this side stops sending, reads on, and
throws away what it reads.

Plain rules; the clock and the number of unread bytes are arguments. Owner: one connection.
"""

from __future__ import annotations

import math

from hub.settings import Limits

__all__ = ["LINGER_S", "Lingering"]

LINGER_S = 2.0
"""Between two looks, seconds; and how long a far side that has everything may take to close."""


class Lingering:
    """One end.

    Args:
        now_s: When it was said, of a monotonic clock.
        unread_bytes: What the far side has not taken yet, the last frame with it.
        limits: How long it may take to read that, or something of it.
    """

    __slots__ = ("_limit_s", "_read_s", "_unread_bytes", "_unread_s")

    def __init__(self, now_s: float, unread_bytes: int, limits: Limits) -> None:
        self._limit_s = now_s + limits.linger_s
        self._unread_s = limits.linger_unread_s
        self._read_s = now_s  # when the far side was last seen to have read
        self._unread_bytes = unread_bytes  # at the last look

    def check(self, now_s: float, unread_bytes: int) -> float:
        """Return when to look again, infinity if the connection is to be closed now."""
        if unread_bytes < self._unread_bytes:
            self._read_s = now_s
            self._unread_bytes = unread_bytes
        if not unread_bytes or now_s >= min(self._limit_s, self._read_s + self._unread_s):
            return math.inf
        return now_s + LINGER_S
