"""`Contest`: the claims to one name, and whose it is.

```
held      of a client of this hub; announced to peers ─┐
far       by link: what peers hold                     ├─▶ the earliest is the owner
waiting   clients of this hub, in order: the first is held when there is neither held nor far
```

A held claim that meets an earlier far one is lost: it waits again if it was made to, else it is gone. Hubs that are all
linked to one another so come to the same owner in whatever order they hear: the earliest claim is never given up.

Owner: `hub.names.names`. Invariants, after `settle`: where something is held it is the owner; where something waits
there is an owner. Cost: O(links), and O(waiting) for a claim that is lost and waits again.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from hub.handler import Handler
from hub.names.claim import Announced, Claim

__all__ = ["Contest", "Settled"]


_rank = attrgetter("rank")


class Settled(NamedTuple):
    """What settling has changed for clients of this hub."""

    raised: Claim | None = None
    """It waited, and is the owner now."""
    lost: Claim | None = None
    """It was the owner, and a far claim was earlier."""


class Contest:
    """The claims to one name."""

    __slots__ = ("_far", "announced", "held", "owner", "waiting")

    def __init__(self) -> None:
        self.held: Claim | None = None
        self.owner: Claim | None = None
        """As of the last `settle`."""
        self.announced: Announced | None = None
        """What peers were told last, None for nothing or that it is over."""
        self.waiting: dict[Handler, Claim] = {}
        self._far: dict[Handler, Claim] = {}

    def __bool__(self) -> bool:
        """Whether anybody claims the name."""
        return self.held is not None or bool(self._far) or bool(self.waiting)

    def put_far(self, claim: Claim) -> None:
        """A peer hub has announced a claim, or another one than before."""
        self._far[claim.handler] = claim

    def drop_far(self, link: Handler) -> bool:
        """It holds it no longer, or is gone; return whether it did."""
        return self._far.pop(link, None) is not None

    def settle(self) -> Settled:
        """Find the owner again, after any change."""
        first = min(self._far.values(), key=_rank) if self._far else None
        held = self.held
        settled = Settled()
        if held is not None and first is not None and first.rank < held.rank:
            self.held = None
            if held.queue:
                self.waiting = {held.handler: held, **self.waiting}
            settled = Settled(lost=held)
        elif held is None and first is None and self.waiting:
            handler = next(iter(self.waiting))
            self.held = self.waiting.pop(handler)
            settled = Settled(raised=self.held)
        self.owner = self.held or first
        return settled
