"""`Review`: takes away what handlers hold and may no longer hold, since they were given other rights.

```
Authority.give_rights ─▶ begin ─▶ services, names, prefixes, rules: each judged ─▶ taken away ─▶ one notice
                                  a share of each turn, one handler behind the other
```

What must hold at once holds without this: routes leave out who may not see a topic, and publishing asks the rights
that there are. A service that may not serve any more is asked until its turn comes, and a name is its owner's until
then: 10,000 handlers with a few prefixes each take about a second, in which nobody waits longer than for a share.

Owner: `hub.authority`. Invariants: a handler that is given rights again is judged from the beginning; one that leaves
is forgotten. Cost: 2 µs for what stays, 20 µs for what is taken away.

Not here: who may do what (`hub.policy`), how the far side is told (`hub.authority`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.policy.policy import Rights
from hub.topics import printable
from hub.turn import Turn

__all__ = ["Kind", "Review"]

_JUDGED_PER_STEP = 8
"""How many things are judged in one step of the turn: 2 µs each."""

_SHOWN = 8
"""How many things the notice names that were taken away."""


class Kind(NamedTuple):
    """One kind of thing that handlers hold."""

    held: Callable[[Handler], Iterable[Any]]
    """Gives what a handler holds of it, as far as it is judged."""
    may_hold: Callable[[Handler, Rights, Any], bool]
    """Whether it may hold this one, with these rights."""
    take_away: Callable[[Handler, Any], object]
    show: Callable[[Any], str]
    """Names one for people."""


class Review:
    """What is still to be judged.

    Args:
        turn: Gives the steps.
        kinds: What is judged, what matters most first.
        tell: Called with a handler from which something was taken away, and what it is told.
    """

    __slots__ = ("_due", "_kinds", "_tell", "_turn")

    def __init__(self, turn: Turn, kinds: Sequence[Kind], tell: Callable[[Handler, RejectedError], object]) -> None:
        self._turn = turn
        self._kinds = kinds
        self._tell = tell
        # Handlers that are not judged to the end, in the order in which they were given rights, with the steps that
        # are left.
        self._due: dict[Handler, Iterator[None]] = {}

    @property
    def is_behind(self) -> bool:
        """Return whether there is something to `go_on` with."""
        return bool(self._due)

    def begin(self, handler: Handler) -> None:
        """Judge what a handler holds, beginning with this turn."""
        self._due.pop(handler, None)
        if handler.rights is not None:
            self._due[handler] = self._judge(handler, handler.rights)
            self.go_on()

    def forget(self, handler: Handler) -> None:
        """Judge a handler no further: it has left, and all that it holds goes with it."""
        self._due.pop(handler, None)

    def go_on(self) -> None:
        """Judge as much as this turn has steps for."""
        due = self._due
        while due and self._turn.step():
            handler, steps = next(iter(due.items()))
            if next(steps, self) is self and due.get(handler) is steps:
                del due[handler]

    def _judge(self, handler: Handler, rights: Rights) -> Iterator[None]:
        """Take away what may not be held, in steps, and tell it at the end."""
        taken: list[str] = []
        number = 0
        for held, may_hold, take_away, show in self._kinds:
            for one in list(held(handler)):
                number += 1
                if not may_hold(handler, rights, one):
                    take_away(handler, one)
                    taken.append(show(one))
                    yield
                elif not number % _JUDGED_PER_STEP:
                    yield
        if taken:
            more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
            what = ", ".join(taken[:_SHOWN])
            text = f"no longer granted to user {printable(rights.user.name)}, and taken away: {what}{more}"
            self._tell(handler, RejectedError(CloseCode.NOT_ALLOWED, text))
