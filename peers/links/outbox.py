"""`Outbox`: what this hub has to tell a peer hub by itself, written when a turn is over, in portions, while it reads.

```
core: filter, rules, names, services ─▶ Announcement, LinkRules, LinkNames: merged changes ─▶ due(part)
                                                            end of the turn: part.take() ─▶ write
```

Each part merges the changes of one kind and cuts them into frames that the peer takes; when, how many at once, and
whether the peer reads is decided here, for all of them alike. The core knows the parts; the outbox knows those that
have something to tell, in the order in which they said so.

Owner: one connection. Invariant: something is written for every part that is due, at the end of this turn, or in the
next ones, or when the peer reads on and `write_more` is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from hub.handler import Handler

__all__ = ["PORTIONS_PER_TURN", "Outbox", "Part"]

PORTIONS_PER_TURN: Final = 4
"""What is written in one turn, so that a link that comes up does not hold up the rest: 2,000 names, 10 ms."""


class Part(Protocol):
    """Changes of one kind."""

    def take(self) -> bytes:
        """Return the next portion, as frames, and forget it; nothing if there is nothing to tell any more.

        A part that has more than that says once more that it is due.
        """


class Outbox:
    """What is still to be told.

    Args:
        handler: Of the peer.
        later: Calls a function after this turn of the loop.
        write: Writes frames to the peer.
    """

    __slots__ = ("_due", "_handler", "_is_awaited", "_later", "_write")

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

    def close(self) -> None:
        """Nobody is there to be told any more: let go of the parts that are due, each of which knows this outbox."""
        self._due.clear()

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
