"""`Outbox`: what this hub has to tell a peer hub by itself, written when a turn is over, in portions, while it reads.

```
core: filter, rules, names, services ─▶ Announcement, LinkRules, LinkNames: merged changes ─▶ due()
                                                                 end of the turn: take() ─▶ write
```

Each part merges the changes of one kind and cuts them into frames that the peer takes; when, how many at once, and
whether the peer reads is decided here, for all of them alike.

Owner: one connection. Invariant: something is written for every part that has something to tell, at the end of this
turn, or in the next ones, or when the peer reads on and `write_more` is called.
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

    def __bool__(self) -> bool:
        """Whether there is something to tell."""

    def take(self) -> bytes:
        """Return the next portion, as frames, and forget it."""


class Outbox:
    """What is still to be told.

    Args:
        handler: Of the peer.
        later: Calls a function after this turn of the loop.
        write: Writes frames, if there is still somebody to read them.
    """

    __slots__ = ("_handler", "_is_due", "_later", "_parts", "_write")

    _is_due: bool
    """Whether `write_more` will be called after this turn; true from `due` on, false when it is."""

    def __init__(
        self, handler: Handler, later: Callable[[Callable[[], object]], object], write: Callable[[bytes], object]
    ) -> None:
        self._handler = handler
        self._later = later
        self._write = write
        self._parts: list[Part] = []
        self._is_due = False

    def add(self, part: Part) -> None:
        """Take in another kind of changes, to be told behind the others."""
        self._parts.append(part)

    def close(self) -> None:
        """Nobody is there to be told any more: let go of the parts, each of which knows this outbox."""
        self._parts.clear()

    def due(self) -> None:
        """A part has something to tell."""
        if not self._is_due:
            self._is_due = True
            self._later(self.write_more)

    def write_more(self) -> None:
        """Tell what there is to tell, while the peer reads; a turn's portions, the rest in the next."""
        self._is_due = False
        left = PORTIONS_PER_TURN
        for part in self._parts:
            while part:
                if not self._handler.writable:
                    return
                if not left:
                    self.due()
                    return
                left -= 1
                self._write(part.take())
