"""`Silence`: is the far side still there, and does it know that we are? Plain rules; the clock is an argument.

```
heard ──20 s──▶ PING ──10 s──▶ lost            while this side does not read (a slow consumer), it cannot hear:
  ▲───── any byte ─────┘                       every 10 s a PONG, which needs no answer, keeps the hub from giving up
```
"""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

__all__ = ["PING_AFTER_S", "PING_TIMEOUT_S", "Act", "Silence", "Step"]

PING_AFTER_S = 20.0
PING_TIMEOUT_S = 10.0


class Act(Enum):
    """What to do now."""

    NOTHING = "nothing"
    PING = "send PING"
    PONG = "send PONG"
    LOST = "give the connection up"


class Step(NamedTuple):
    """What to do now, and when to look again."""

    act: Act
    next_s: float


class Silence:
    """The keepalive rules of one connection.

    Args:
        now_s: Of a monotonic clock, as all times here.
        ping_after_s: Silence after which PING is sent.
        ping_timeout_s: Time for an answer.
    """

    __slots__ = ("_ping_after_s", "_ping_timeout_s", "_pinged_s", "heard_s")

    heard_s: float
    """When something came last; set by the connection."""

    def __init__(
        self, now_s: float, ping_after_s: float = PING_AFTER_S, ping_timeout_s: float = PING_TIMEOUT_S
    ) -> None:
        self.heard_s = now_s
        self._ping_after_s = ping_after_s
        self._ping_timeout_s = ping_timeout_s
        self._pinged_s = -math.inf

    @property
    def pause_check_s(self) -> float:
        """How soon to look after this side stops reading: the hub may have asked for a sign of life just before."""
        return self._ping_timeout_s / 2

    def overslept(self, now_s: float) -> bool:
        """Whether nothing was heard for as long as a hub needs to give us up."""
        return now_s - self.heard_s >= self._ping_after_s

    def check(self, now_s: float, *, reading: bool) -> Step:
        """Look at the connection.

        Args:
            now_s: The time.
            reading: Whether this side has read all the time since the last look.
        """
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
