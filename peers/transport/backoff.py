"""`Backoff`: how long to wait before the next attempt, with full jitter.

```
failures in a row           1      2      3      4      5      6  ...
bound of a client, s       0.1    0.2    0.4    0.8    1.6    3.2  ... 5 ... 5, and 30 after a minute of waiting
bound of a link, s         0.1    0.2    0.4    0.8    1.6    2    ... 2
```

A uniform draw up to the bound spreads the clients of a restarted hub (Marc Brooker, "Exponential Backoff And Jitter",
AWS Architecture Blog, 2015). Links have a low cap: a hub has few, and without them messages find no path.
"""

from __future__ import annotations

import random
from typing import Final

FIRST_S: Final = 0.1  # First bound, seconds: a restarted hub is back within some hundred milliseconds
CLIENT_CAP_S: Final = 30.0  # Largest bound of a client, seconds
EARLY_S: Final = 60.0
EARLY_CAP_S: Final = 5.0  # Largest bound in the first `EARLY_S` of waiting since `reset`, seconds
LINK_CAP_S: Final = 2.0  # Largest bound of a link, seconds. Zeek itself tries each second
HELD_S: Final = 30.0  # Bound after a rejection that lasts until something changes, seconds


class Backoff:
    """The bound doubles with each failure, up to a cap."""

    def __init__(
        self, base_s: float = FIRST_S, cap_s: float = CLIENT_CAP_S, source: random.Random | None = None
    ) -> None:
        self._base_s = base_s
        self._cap_s = cap_s
        self._bound_s = base_s
        self._waited_s = 0.0
        self._random = source or random.Random()  # noqa: S311 -- spread, not secrecy

    @classmethod
    def for_link(cls) -> Backoff:
        return cls(FIRST_S, LINK_CAP_S)

    def next_s(self) -> float:
        bound_s = self._bound_s if self._waited_s >= EARLY_S else min(self._bound_s, max(EARLY_CAP_S, self._base_s))
        wait_s = self._random.uniform(0, bound_s)
        self._waited_s += wait_s
        self._bound_s = min(self._cap_s, self._bound_s * 2)
        return wait_s

    def held_s(self) -> float:
        """Return the wait after a rejection that lasts, seconds: in the upper half of the window."""
        return self._random.uniform(HELD_S / 2, HELD_S)

    def reset(self) -> None:
        self._bound_s, self._waited_s = self._base_s, 0.0
