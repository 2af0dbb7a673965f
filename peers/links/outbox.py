"""`Outbox`: what this hub has to tell a peer hub by itself, written when a turn is over, in portions, while it reads.

```
core: mesh, rules, names, services ─▶ MeshNews, LinkRules, LinkNames, Announcement: merged changes ─▶ due(part)
                                                            end of the turn: part.take() ─▶ write
```

Each part merges the changes of one kind and cuts them into frames that the peer takes; when, how many at once, and
whether the peer reads is decided here, for all of them alike. So is when they tell again what the peer has refused for
now (`peers.links.attempts`): after a pause that doubles, up to a minute, and at once where the peer has taken some.

Owner: one connection. Invariant: something is written for every part that is due, at the end of this turn, or in the
next ones, or when the peer reads on and `write_more` is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final, Protocol

from hub.handler import Handler
from peers.links.attempts import Attempts
from peers.transport.backoff import Backoff

__all__ = ["PORTIONS_PER_TURN", "AnsweredPart", "Outbox", "Part"]

PORTIONS_PER_TURN: Final = 4
"""What is written in one turn, so that a link that comes up does not hold up the rest: 2,000 names, 10 ms."""


_AGAIN_FIRST_S: Final = 1.0
"""The bound of the first pause before what was refused is told again, seconds: links are looked at as often."""

_AGAIN_CAP_S: Final = 60.0
"""The largest bound of such a pause, seconds. One small frame that is refused costs both sides some 10 µs."""


_CALM_S: Final = 2 * _AGAIN_CAP_S
"""After so long without a refusal the pauses are short again, seconds."""


class Part(Protocol):
    """Changes of one kind."""

    def take(self) -> bytes:
        """Return the next portion, as frames, and forget it; nothing if there is nothing to tell any more.

        A part that has more than that says once more that it is due.
        """


class AnsweredPart(Part, Protocol):
    """Changes of one kind, which the peer may refuse."""

    attempts: Attempts[Any, Any]
    """What the peer has not answered yet, and what it has refused."""

    def refuse(self, number: int, *, for_now: bool) -> bool:
        """The peer has refused a frame of that number; return False if it is none of this part's."""

    def try_again(self) -> None:
        """Have some of what was refused told again."""


class Outbox:
    """What is still to be told.

    Args:
        handler: Of the peer.
        later: Calls a function after this turn of the loop.
        write: Writes frames to the peer.
    """

    __slots__ = (
        "_again_s",
        "_backoff",
        "_due",
        "_handler",
        "_is_awaited",
        "_later",
        "_parts",
        "_refused_s",
        "_write",
        "numbers",
    )

    _again_s: float
    """When some of what was refused is told again, by the clock of the loop; inf if there is nothing."""

    _refused_s: float
    """When the peer has refused something last."""

    _parts: list[AnsweredPart]
    """Those that were told to `add`."""

    numbers: Iterator[int]
    """Numbers the frames that the peer answers, from 1; no number is given twice."""

    _due: dict[Part, None]
    """The parts that have something to tell, in the order in which they said so; each goes as its portion is taken."""

    _is_awaited: bool
    """Whether `write_more` will be called after this turn; true from `due` on, false when it is."""

    def __init__(
        self, handler: Handler, later: Callable[[Callable[[], object]], object], write: Callable[[list[bytes]], object]
    ) -> None:
        self._handler = handler
        self._later = later
        self._write = write
        self._due = {}
        self._is_awaited = False
        self._again_s = math.inf
        self._backoff = Backoff(_AGAIN_FIRST_S, _AGAIN_CAP_S)
        self._refused_s = -math.inf
        self._parts = []
        self.numbers = count(1)

    def add(self, part: AnsweredPart) -> None:
        """Have a part told what the peer answers."""
        self._parts.append(part)

    def close(self) -> None:
        """Nobody is there to be told any more: let go of the parts, each of which knows this outbox."""
        self._due.clear()
        self._parts.clear()
        self._again_s = math.inf

    def due(self, part: Part) -> None:
        """A part has something to tell."""
        self._due[part] = None
        if not self._is_awaited:
            self._is_awaited = True
            self._later(self.write_more)

    def write_more(self) -> None:
        """Tell what there is to tell, while the peer reads; a turn's portions, the rest in the next."""
        self._is_awaited = True  # what becomes due from within is told here, or else in the next turn
        left = PORTIONS_PER_TURN
        while self._due and self._handler.writable:
            if not left:
                self._later(self.write_more)
                return
            left -= 1
            part = next(iter(self._due))
            del self._due[part]
            portion = part.take()
            if portion:
                self._write([portion])
        self._is_awaited = False

    # What the peer answers.

    def confirm(self, number: int) -> None:
        """The peer has taken a frame: where others of its kind were refused before, there may be room for more."""
        for part in self._parts:
            if part.attempts.confirm(number):
                part.try_again()
                break

    def refuse(self, number: int, now_s: float, *, for_now: bool) -> bool:
        """The peer has refused a frame; return False if nothing is known of it.

        Args:
            number: Of the frame.
            now_s: The time, by the clock of the loop.
            for_now: Whether the peer may take it later.
        """
        if now_s - self._refused_s > _CALM_S:
            self._backoff.reset()
        self._refused_s = now_s
        is_known = any(part.refuse(number, for_now=for_now) for part in self._parts)
        if self._again_s == math.inf:
            self._wait(now_s)
        return is_known

    def check(self, now_s: float) -> None:
        """Have some of what was refused told again, if it is time for that."""
        if now_s >= self._again_s:
            for part in self._parts:
                part.try_again()
            self._wait(now_s)

    def _wait(self, now_s: float) -> None:
        """Tell again later what is left of what was refused, if anything is."""
        has_refused = any(part.attempts.refused for part in self._parts)
        self._again_s = now_s + self._backoff.next_s() if has_refused else math.inf
