"""`Contest`: the claims to one name, and whose it is.

```
held      of a client of this hub; announced to peers ─┐
far       by link: what peers hold                     ├─▶ the earliest is the owner
waiting   clients of this hub, in order: the first is held when there is neither held nor far
```

A held claim that meets an earlier far one is lost: it waits again if it was made to, else it is gone. Hubs that are all
linked to one another so come to the same owner in whatever order they hear: the earliest claim is never given up.

Owner: `hub.names.names`. Invariants, after `settle`: where something is held it is the owner; where something waits
there is an owner. Cost: O(links).
"""

from __future__ import annotations

from collections import OrderedDict
from operator import attrgetter
from typing import NamedTuple

from hub.names.claim import Announced, Claim, Owner

__all__ = ["Contest", "Settled"]


_rank = attrgetter("rank")


class Settled(NamedTuple):
    """What settling has changed for clients of this hub."""

    raised: Claim | None = None
    """A claim that had waited, and is the owner now."""
    lost: Claim | None = None
    """A claim that was the owner until a peer hub told of an earlier one."""
    passed_over: tuple[Owner, ...] = ()
    """Clients that waited before the one that was raised, but have left: their claims are dropped."""


class Contest:
    """The claims to one name, here and at peer hubs."""

    __slots__ = ("_far", "announced", "held", "owner", "waiting")

    def __init__(self) -> None:
        # The claim of a client of this hub that peers are told of; None where none holds the name.
        self.held: Claim | None = None
        # The earliest claim as of the last `settle`; None where there is none.
        self.owner: Claim | None = None
        # What peers were told last; None where they were told nothing, or that it is over.
        self.announced: Announced | None = None
        # In the order of their coming; a plain dict would walk over all that had gone to find the first.
        self.waiting: OrderedDict[Owner, Claim] = OrderedDict()
        # Hub of the mesh, or link → the claim that it announces; from `put_far` to `drop_far`.
        self._far: dict[Owner, Claim] = {}

    def __bool__(self) -> bool:
        """Return whether anybody claims the name."""
        return self.held is not None or bool(self._far) or bool(self.waiting)

    def put_far(self, claim: Claim) -> None:
        """Take note that a peer hub has announced a claim, or another one than before."""
        self._far[claim.handler] = claim

    def drop_far(self, link: Owner) -> bool:
        """Take note that a peer hub holds the name no longer, or is gone; return whether it did hold it."""
        return self._far.pop(link, None) is not None

    def settle(self) -> Settled:
        """Find the owner again, after any change."""
        first = min(self._far.values(), key=_rank) if self._far else None
        held = self.held
        settled = Settled()
        if held is not None and first is not None and first.rank < held.rank:
            self.held = None
            if held.queue:
                self.waiting[held.handler] = held
                self.waiting.move_to_end(held.handler, last=False)
            settled = Settled(lost=held)
        elif held is None and first is None and self.waiting:
            settled = self._raise_next()
        self.owner = self.held or first
        return settled

    def _raise_next(self) -> Settled:
        """Let the first of those who wait, and have not left, hold the name."""
        passed_over: list[Owner] = []
        while self.waiting:
            handler, claim = self.waiting.popitem(last=False)
            if not handler.closed:
                self.held = claim
                break
            passed_over.append(handler)
        return Settled(raised=self.held, passed_over=tuple(passed_over))
