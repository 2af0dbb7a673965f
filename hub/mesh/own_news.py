"""`OwnNews`: what a hub has to tell of itself, and when it is time to.

```
change (what is wanted here) ──▶ a few at once, one announcement a second in the long run ─┐
costs, link_changes (links) ───▶ the same, by a pace of its own ───────────────────────────┼─▶ Knowledge.announce
links that are gone ───────────▶ GONE_S later, whatever was told before ───────────────────┘
```

Owner: `Mesh`. Invariants: whatever has changed here is announced, or waits here and `due_s` says until when; what was
taken back before anybody was told is never told. No clock: times are arguments. Cost: that of the changes.

Not here: who is told (`hub.mesh.knowledge`), what follows for messages (`hub.mesh.mesh`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from hub.filter import Change
from hub.mesh.announcement import SEQ_LIMIT, Interest, Interests
from hub.mesh.knowledge import Knowledge
from hub.mesh.pace import Pace

__all__ = ["BURST", "EVERY_S", "GONE_S", "OUTBID_LIMIT", "OwnNews"]

L = TypeVar("L")

OUTBID_LIMIT: Final = SEQ_LIMIT // 2
"""The highest number given by somebody else in the name of this hub that this one goes above, so that there is room for
what it announces later. With a higher one, which no twin comes to, it is not heard until it starts anew."""

EVERY_S: Final = 1.0
"""How often a hub announces what has changed there, in the long run."""

BURST: Final = 8
"""How many announcements it may make at once, after it was quiet: so a change is heard at once, a stream of them once a
second."""

GONE_S: Final = 0.1
"""How long a link that is gone may take to come back, seconds, before others are told of it where they were told much
lately. What is sent by it meanwhile is lost. Since a link must have been announced before, that cannot be often."""


class OwnNews(Generic[L]):
    """What one hub has not announced yet.

    Args:
        knowledge: Has the record of this hub, and tells others.
        links: The id of a neighbour → the link to it.
    """

    __slots__ = (
        "_changes",
        "_gone_s",
        "_interest_pace",
        "_knowledge",
        "_link_pace",
        "_links",
        "_outbid",
        "costs",
        "link_changes",
    )

    def __init__(self, knowledge: Knowledge[L], links: Mapping[bytes, L]) -> None:
        self._knowledge, self._links = knowledge, links
        # The id of a neighbour → what the link to it costs: what this hub will announce next. Until then messages go by
        # what is announced, so that whoever gets them can know by which ways they were sent.
        self.costs: dict[bytes, int] = {}
        # Whether there are links of this hub that were not announced yet, or are announced and gone.
        self.link_changes = False
        # Prefix or rule → whether it is wanted here now, of those that were not announced yet.
        self._changes: dict[Interest, bool] = {}
        # The number that this hub's next announcement must be above, where somebody else speaks in its name.
        self._outbid = 0
        self._interest_pace, self._link_pace = Pace(BURST, EVERY_S), Pace(BURST, EVERY_S)
        # When others are told of links that are gone, whatever was told before; infinite while there are none.
        self._gone_s = math.inf

    def change(self, change: Change | Interests) -> None:
        """What this hub wants of others has changed."""
        wants, changes = self._knowledge.own.wants, self._changes
        for some, is_wanted in ((change.removed, False), (change.added, True)):
            for one in some:
                if (one in wants) is is_wanted:
                    changes.pop(one, None)  # it was taken back before anybody was told
                else:
                    changes[one] = is_wanted

    def outbid(self, seq: int) -> None:
        """Somebody else has spoken in the name of this hub, under that number: this one goes above it, if it can."""
        if seq <= OUTBID_LIMIT:
            self._outbid = max(self._outbid, seq)

    # Telling.

    def may_tell_of_links(self, now_s: float) -> bool:
        """Return whether links can be announced now: there was not much to tell lately, and nobody is to be outbid."""
        return not self._outbid and self._link_pace.ready_s(now_s) <= now_s

    def tell_of_links(self, now_s: float) -> bool:
        """Announce the links of this hub; return whether they are others than those announced before."""
        return self._announce_links(now_s, Interests())

    def tell_of_ends(self, now_s: float) -> None:
        """Announce which links are gone; of those that have come others hear when it is time for that."""
        self._link_pace.use(now_s)
        self._gone_s = math.inf
        own = self._knowledge.own
        own.neighbours = {hub: cost for hub, cost in own.neighbours.items() if hub in self._links}
        self._knowledge.announce(Interests(), neighbours=True)

    def tell_what_is_due(self, now_s: float) -> bool:
        """Announce what it is time for; return whether the links that are announced are others than before."""
        is_gone = self._look_for_ends(now_s)
        if is_gone:
            self.tell_of_ends(now_s)
        links_due = (self.link_changes or bool(self._outbid)) and self._link_pace.ready_s(now_s) <= now_s
        wants_due = bool(self._changes) and self._interest_pace.ready_s(now_s) <= now_s
        if not (links_due or wants_due):
            return is_gone
        change = self._take_changes() if wants_due else Interests()
        if wants_due:
            self._interest_pace.use(now_s)
        if links_due:
            return self._announce_links(now_s, change) or is_gone
        self._knowledge.announce(change, neighbours=False)
        return is_gone

    def due_s(self, now_s: float) -> float:
        """Return when `tell_what_is_due` has something to announce; infinite for never."""
        due_s = self._gone_s
        if self._changes:
            due_s = min(due_s, self._interest_pace.ready_s(now_s))
        if self.link_changes or self._outbid:
            due_s = min(due_s, self._link_pace.ready_s(now_s))
        return due_s

    def _look_for_ends(self, now_s: float) -> bool:
        """Return whether links that are gone are to be announced now."""
        if self._links.keys() >= self._knowledge.own.neighbours.keys():
            self._gone_s = math.inf
        elif self._gone_s == math.inf:
            self._gone_s = now_s + GONE_S
        else:
            return self._gone_s <= now_s
        return False

    def _announce_links(self, now_s: float, change: Interests) -> bool:
        self._link_pace.use(now_s)
        self.link_changes = False
        self._gone_s = math.inf
        own = self._knowledge.own
        is_changed = own.neighbours != self.costs
        own.neighbours = dict(self.costs)
        if self._outbid:
            self._knowledge.outbid(self._outbid)
            self._outbid = 0
        else:
            self._knowledge.announce(change, neighbours=True)
        return is_changed

    def _take_changes(self) -> Interests:
        wants, changes = self._knowledge.own.wants, self._changes
        added = tuple(one for one, is_wanted in changes.items() if is_wanted)
        removed = tuple(one for one, is_wanted in changes.items() if not is_wanted)
        for one in removed:
            del wants[one]
        wants.update(dict.fromkeys(added))
        changes.clear()
        return Interests(added, removed)
