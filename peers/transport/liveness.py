"""`Liveness`: heartbeat of a connection, without I/O or clock.

```
heard ──20 s──▶ PING ──10 s──▶ lost            a side that does not read (a slow consumer) cannot hear:
  ▲───── any byte ─────┘                       it sends a PONG every 10 s, so that the hub does not give up
```
"""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

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
