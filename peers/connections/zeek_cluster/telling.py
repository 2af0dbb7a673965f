"""`Telling`: publishers of a cluster are told of subscriptions, a share of them in each turn.

```
a subscription comes, the last one of a topic goes ─▶ changed ── each publisher takes note ─▶ the line ─▶ told
a publisher comes, or reads on ──────────────────────────────────────────────────────────────────┘
```

Each of many nodes is told of what each other one wants: 150 nodes that come at once are 22,500 words, and with CURVE
each is a box of its own. So a subscription costs its turn no more than a note, and all publishers together are told so
much in one turn, in their order; everybody else goes on meanwhile.

Owner: a cluster. Invariants: what a publisher is to be told it is told, as it is wanted or not by then; of several
changes of one topic it is told the last one. Bounds: what waits is of topics that are wanted, or were when it was told.
Not here: what is wanted (`peers.zeek.zmtp.wanted`), how it is told (`publisher`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final, Protocol

__all__ = ["TURN_COST", "Listener", "Telling"]

TURN_COST: Final = 4_000
"""What may be done in one turn, about µs."""

_HANDED_OUT_COST: Final = TURN_COST // 2
"""Of that, for taking note of what has changed: so that those who have taken note are told in any case."""

_NOTES_PER_COST: Final = 8
"""So many publishers take note of a topic in 1 µs."""


class Listener(Protocol):
    """A publisher."""

    def note(self, topic: bytes, *, again: bool = False) -> None:
        """Take note that it is to be told of a topic; `again`: also where it knows that it is wanted."""

    def tell_some(self) -> int:
        """Tell it some of what it is to be told; return what that has cost, about µs."""

    @property
    def has_untold(self) -> bool:
        """Whether there is more."""


class Telling:
    """Of one cluster.

    Args:
        after_turn: Calls a function once this turn of the loop is over.
        publishers: All who are told.
    """

    __slots__ = ("_after_turn", "_changed", "_is_due", "_line", "_publishers")

    def __init__(self, after_turn: Callable[[Callable[[], object]], object], publishers: Collection[Listener]) -> None:
        self._after_turn = after_turn
        self._publishers = publishers
        self._changed: OrderedDict[bytes, bool] = OrderedDict()
        """Topics of which no publisher has taken note yet, and whether that is `again`."""
        self._line: OrderedDict[Listener, None] = OrderedDict()
        """Those who have something to be told, first come."""
        self._is_due = False

    def changed(self, topic: bytes, *, again: bool) -> None:
        """All publishers are to be told of a topic; `again`: also those who know that it is wanted."""
        self._changed[topic] = again or self._changed.get(topic, False)
        self._request()

    def stand(self, publisher: Listener) -> None:
        """A publisher is to be told something."""
        self._line[publisher] = None
        self._request()

    def leave(self, publisher: Listener) -> None:
        """A publisher is gone; once or more."""
        self._line.pop(publisher, None)

    def _request(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._after_turn(self._go_on)

    def _go_on(self) -> None:
        """Do a turn's share."""
        self._is_due = False
        publishers, changed, line = self._publishers, self._changed, self._line
        cost = 0
        while changed and cost < _HANDED_OUT_COST:
            topic, again = changed.popitem(last=False)
            for publisher in publishers:
                publisher.note(topic, again=again)
            cost += 1 + len(publishers) // _NOTES_PER_COST
        while line and cost < TURN_COST:
            publisher, _ = line.popitem(last=False)
            cost += publisher.tell_some()
            if publisher.has_untold:
                line[publisher] = None
        if changed or line:
            self._request()
