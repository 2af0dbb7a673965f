"""`Backoff`: how long to wait before the next attempt, with full jitter.

Full jitter, a uniform draw between 0 and the bound, spreads attempts over the whole window: when a hub has been
restarted, its clients do not all come back in the same moment. See Marc Brooker, "Exponential Backoff And
Jitter", AWS Architecture Blog, 2015.

```
failures in a row           1      2      3      4      5      6  ...
bound of a client, s       0.1    0.2    0.4    0.8    1.6    3.2  ... 5 ... 5, and 30 after a minute of waiting
bound of a link, s         0.1    0.2    0.4    0.8    1.6    2    ... 2
```

A hub has thousands of clients and few peers. So clients go on up to half a minute, but not in the first minute: a hub
that restarts a few times must not find them gone once it is well. Links, to peer hubs as
to Zeeks, stop at `LINK_CAP_S`: an attempt a second costs both sides next to nothing, and every second without a link is
one in which messages find no way.

Owner: whoever dials. Not here: clocks and sleeping.
"""

from __future__ import annotations

import random
from typing import Final

__all__ = ["CLIENT_CAP_S", "EARLY_CAP_S", "EARLY_S", "FIRST_S", "HELD_S", "LINK_CAP_S", "Backoff"]

FIRST_S: Final = 0.1
"""The bound of the first wait, seconds: a far side that was restarted is back within some hundred milliseconds."""

CLIENT_CAP_S: Final = 30.0
"""The largest bound of a client, seconds."""

EARLY_S: Final = 60.0
EARLY_CAP_S: Final = 5.0
"""No bound but the first one is larger than this until so long was waited since `reset`, seconds."""

LINK_CAP_S: Final = 2.0
"""The largest bound of a link, seconds. The mean wait is half of that: Zeek itself tries again each second."""

HELD_S: Final = 30.0
"""The bound after a refusal for a reason that stands until something else changes, seconds."""


class Backoff:
    """The bound doubles with each failure, up to a cap, and in the first minute of waiting to `EARLY_CAP_S`.

    Args:
        base_s: First bound, seconds.
        cap_s: Largest bound, seconds.
        source: Where the draws come from.
    """

    __slots__ = ("_base_s", "_bound_s", "_cap_s", "_random", "_waited_s")

    def __init__(
        self, base_s: float = FIRST_S, cap_s: float = CLIENT_CAP_S, source: random.Random | None = None
    ) -> None:
        self._base_s = base_s
        self._cap_s = cap_s
        self._bound_s = base_s
        """The bound of the next wait: each wait doubles it, up to the cap, and `reset` sets it back to the base."""
        self._waited_s = 0.0
        """How long was waited since `reset`."""
        self._random = source or random.Random()  # noqa: S311 -- spread, not secrecy

    @classmethod
    def for_link(cls) -> Backoff:
        """Return a backoff for a link to a peer hub or to a Zeek."""
        return cls(FIRST_S, LINK_CAP_S)

    def next_s(self) -> float:
        """Return how long to wait now, seconds."""
        bound_s = self._bound_s if self._waited_s >= EARLY_S else min(self._bound_s, max(EARLY_CAP_S, self._base_s))
        wait_s = self._random.uniform(0, bound_s)
        self._waited_s += wait_s
        self._bound_s = min(self._cap_s, self._bound_s * 2)
        return wait_s

    def held_s(self) -> float:
        """Return how long to wait after a refusal that stands until something else changes, seconds.

        It is drawn from the upper half of the window: after a short wait the far side would only refuse again.
        """
        return self._random.uniform(HELD_S / 2, HELD_S)

    def reset(self) -> None:
        """Begin anew: the far side has given a sign of life."""
        self._bound_s, self._waited_s = self._base_s, 0.0
