"""`Supervision`: which worker is to be started when, and which has taken too long. No I/O, no clock.

```
           due                    up                     ended
WAITING ─────────▶ STARTING ─────────────▶ UP ──┐
   ▲                  │ ended, or overdue       │
   └──────────────────┴─────────────────────────┘   for a while, longer each time (`Backoff`)
```

A worker that has served for `STEADY_S` is not one that fails at its start: if it ends, its place begins anew with short
waits. Nothing is ever given up: each attempt costs a process, at most one in `CLIENT_CAP_S` for each place.

Owner: `Workers`, which says what has happened and asks what to do. Times are seconds of any clock that runs evenly.
"""

from __future__ import annotations

import enum
import math
import random
from typing import Final

from peers.transport.backoff import Backoff

__all__ = ["START_S", "STEADY_S", "Phase", "Supervision"]

START_S: Final = 60.0
"""How long a worker may take until it serves, seconds: a hundred times what it takes on an idle machine."""

STEADY_S: Final = 30.0
"""How long a worker has to serve so that its end is no failed start, seconds: as long as the longest wait."""


class Phase(enum.Enum):
    """What a place for a worker is doing."""

    WAITING = enum.auto()
    """There is no process; one is due at some time."""
    STARTING = enum.auto()
    """There is a process that does not serve yet."""
    UP = enum.auto()
    """There is a process that serves."""


class _Place:
    """One of the places for workers."""

    __slots__ = ("backoff", "phase", "until_s")

    def __init__(self, source: random.Random | None) -> None:
        self.backoff = Backoff(source=source)
        self.phase = Phase.WAITING
        self.until_s = -math.inf
        """When a process is due (WAITING), late (STARTING), or steady (UP)."""


class Supervision:
    """The places for workers, numbered from 1.

    Args:
        places: How many there are.
        source: Where the waits are drawn from.
    """

    __slots__ = ("_is_stopping", "_places", "ended", "started")

    def __init__(self, places: int, source: random.Random | None = None) -> None:
        self._places = {number: _Place(source) for number in range(1, places + 1)}
        self._is_stopping = False
        self.started = 0
        """How many processes were started."""
        self.ended = 0
        """How many of these have ended, except because the hub stops."""

    def __len__(self) -> int:
        return len(self._places)

    @property
    def up(self) -> int:
        """How many workers serve."""
        return len(self.serving())

    def serving(self) -> list[int]:
        """Return the places whose worker serves."""
        return [number for number, place in self._places.items() if place.phase is Phase.UP]

    def due(self, now_s: float) -> list[int]:
        """Return the places where a process is to be started now; each counts as started."""
        if self._is_stopping:
            return []
        found = self._past(Phase.WAITING, now_s)
        for number in found:
            place = self._places[number]
            place.phase, place.until_s = Phase.STARTING, now_s + START_S
            self.started += 1
        return found

    def overdue(self, now_s: float) -> list[int]:
        """Return the places whose process has taken too long to start, and is to be killed; it is said once of each."""
        found = self._past(Phase.STARTING, now_s)
        for number in found:
            self._places[number].until_s = math.inf
        return found

    def serves(self, number: int, now_s: float) -> None:
        """The process of a place serves from now on."""
        place = self._places[number]
        place.phase, place.until_s = Phase.UP, now_s + STEADY_S

    def end(self, number: int, now_s: float) -> float:
        """The process of a place has ended, or could not be started; return after how many seconds the next one is due.

        That is inf where the hub stops.
        """
        place = self._places[number]
        if place.phase is Phase.UP and now_s >= place.until_s:
            place.backoff.reset()
        place.phase = Phase.WAITING
        if self._is_stopping:
            place.until_s = math.inf
            return math.inf
        self.ended += 1
        wait_s = place.backoff.next_s()
        place.until_s = now_s + wait_s
        return wait_s

    def next_s(self) -> float:
        """Return when to ask again at the latest; inf for never, unless something happens."""
        times = (place.until_s for place in self._places.values() if place.phase is not Phase.UP)
        return math.inf if self._is_stopping else min(times, default=math.inf)

    def stop(self) -> None:
        """The hub stops: start no process any more."""
        self._is_stopping = True

    def _past(self, phase: Phase, now_s: float) -> list[int]:
        return [number for number, place in self._places.items() if place.phase is phase and place.until_s <= now_s]
