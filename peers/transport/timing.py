"""Times of a connection, without I/O or clock: `Backoff` before the next attempt, `Liveness`, its heartbeat.

A uniform draw up to a bound that doubles spreads the clients of a restarted hub (Marc Brooker, "Exponential Backoff And
Jitter", AWS Architecture Blog, 2015). Links have a low cap: a hub has few, and without them messages find no path.

```
heard ──20 s──▶ PING ──10 s──▶ lost            a side that does not read (a slow consumer) cannot hear:
  ▲───── any byte ─────┘                       it sends a PONG every 10 s, so that the hub does not give up
```
"""

from __future__ import annotations

import math
import random
from enum import Enum
from typing import Final, NamedTuple

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


PING_AFTER_S = 20.0  # Default silence before a PING, seconds
PING_TIMEOUT_S = 10.0  # Default time for an answer, seconds


# Begins the reason for giving up a silent connection; `peers.websocket.zeek_codec` recognises it.
NO_ANSWER = "no answer to the ping"


class Act(Enum):
    """A duty of a connection."""

    NOTHING = "nothing"
    PING = "send PING"
    PONG = "send PONG"
    LOST = "give the connection up"


class Step(NamedTuple):
    """A duty, and the time of the next look."""

    act: Act
    next_s: float  # Time of the next look; may be infinite


class Liveness:
    """The heartbeat of one connection; `now_s` counts as the first sign of life."""

    __slots__ = ("_ping_after_s", "_ping_timeout_s", "_pinged_s", "heard_s")

    def __init__(
        self, now_s: float, ping_after_s: float = PING_AFTER_S, ping_timeout_s: float = PING_TIMEOUT_S
    ) -> None:
        # When the far side was last heard. Set with each read, and by `check` while this side does not read.
        self.heard_s = now_s
        self._ping_after_s = ping_after_s
        self._ping_timeout_s = ping_timeout_s
        # When the last PING was sent; it waits for an answer while this is later than `heard_s`.
        self._pinged_s: float = -math.inf

    @property
    def check_after_pause_s(self) -> float:
        """How soon to look after reading was paused: the hub may have sent a PING just before."""
        return self._ping_timeout_s / 2

    def has_overslept(self, now_s: float) -> bool:
        """Whether the silence was so long that the hub may have begun to give up.

        It adds as `check` does, since the difference of the same times may be smaller by rounding.
        """
        return now_s >= self.heard_s + self._ping_after_s

    def check(self, now_s: float, *, reading: bool) -> Step:
        """Return what to do now; `reading`: this side has read all the time since the last look."""
        if not reading:
            self.heard_s = now_s
            return Step(Act.PONG, now_s + self._ping_after_s / 2)
        if self._pinged_s > self.heard_s:
            lost_s = self._pinged_s + self._ping_timeout_s
            return Step(Act.LOST, math.inf) if now_s >= lost_s else Step(Act.NOTHING, lost_s)
        silent_s = self.heard_s + self._ping_after_s
        if now_s < silent_s:
            return Step(Act.NOTHING, silent_s)
        self._pinged_s = now_s
        return Step(Act.PING, now_s + min(self._ping_timeout_s, self._ping_after_s))
