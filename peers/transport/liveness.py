"""`Liveness` decides whether the far side is still there, and when this side has to show that it is.

```
heard ──20 s──▶ PING ──10 s──▶ lost            while this side does not read (a slow consumer), it cannot hear:
  ▲───── any byte ─────┘                       every 10 s a PONG, which needs no answer, keeps the hub from giving up
```

Owner: one connection. No I/O, and no clock: times are arguments, in seconds of one monotonic clock.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

__all__ = ["NO_ANSWER", "PING_AFTER_S", "PING_TIMEOUT_S", "Act", "Liveness", "Step"]

PING_AFTER_S = 20.0
"""Default of the time without a byte from the far side after which it is sent a PING, seconds."""

PING_TIMEOUT_S = 10.0
"""Default of the time in which the far side must send something after a PING, seconds."""


NO_ANSWER = "no answer to the ping"
"""The reason for giving up a silent connection begins with this text. `peers.websocket.zeek` recognises the case by it,
since its protocol has another reason for it."""


class Act(Enum):
    """What a connection must do now."""

    NOTHING = "nothing"
    PING = "send PING"
    PONG = "send PONG"
    LOST = "give the connection up"


class Step(NamedTuple):
    """What a connection must do now, and when it must look again."""

    act: Act
    next_s: float
    """The time of the next look; infinite if there is none."""


class Liveness:
    """The keepalive rules of one connection.

    Args:
        now_s: The time, which counts as the first sign of life.
        ping_after_s: Time without a byte from the far side after which it is sent a PING.
        ping_timeout_s: Time in which it must send something then.
    """

    __slots__ = ("_ping_after_s", "_ping_timeout_s", "_pinged_s", "heard_s")

    heard_s: float
    """When the far side was last heard. The connection sets it with each read; `check` sets it while this side does not
    read, so that the time without reading does not count against the far side."""

    _pinged_s: float
    """When the last PING was sent, minus infinity before the first. A PING waits for its answer exactly while this is
    later than `heard_s`."""

    def __init__(
        self, now_s: float, ping_after_s: float = PING_AFTER_S, ping_timeout_s: float = PING_TIMEOUT_S
    ) -> None:
        self.heard_s = now_s
        self._ping_after_s = ping_after_s
        self._ping_timeout_s = ping_timeout_s
        self._pinged_s = -math.inf

    @property
    def check_after_pause_s(self) -> float:
        """How long after it stops reading this side must look: the hub may have sent a PING just before."""
        return self._ping_timeout_s / 2

    def has_overslept(self, now_s: float) -> bool:
        """Whether nothing was heard for so long that the hub may have begun to give this side up.

        It adds as `check` does: who was sent a PING has been silent for so long. (A difference of the same two times
        may be smaller by rounding.)
        """
        return now_s >= self.heard_s + self._ping_after_s

    def check(self, now_s: float, *, reading: bool) -> Step:
        """Decide what the connection must do now.

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
