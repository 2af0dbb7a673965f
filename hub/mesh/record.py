"""`Record`: what is known of one hub of the mesh, as of its last announcement that has come here.

Links, services, names and leaves are those of `seq`. Prefixes and rules ("topics" here) are those of `topics_seq`, and
where that is below `seq`, the hub is taken to want everything: so a limit never keeps a message from it.

```
whole, 7 ─ news 8 of a hub that has no room for the topics ─▶ 8, topics of 7 and "" ─ whole news 8 ─▶ whole, 8
         └ whole news 8, no room for its topics here ──────▶ 8, no topics, but ""   ─ room, and a copy ─▶ whole, 8
```

Owner: `hub.mesh.knowledge`. Cost: what an announcement touches; a full copy costs what the hub wants.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hub.mesh.announcement import Announcement, Interest, Interests
from hub.tags.rules import Rule

__all__ = ["EVERYTHING", "Record", "is_topic"]

EVERYTHING = ""
"""The prefix of all topics."""


class Record:
    """One hub.

    Args:
        hub: Its id.
    """

    __slots__ = (
        "_counted_seq",
        "_topics_seq",
        "hub",
        "is_cut",
        "left_out",
        "lost_s",
        "name",
        "neighbours",
        "seq",
        "wants",
    )

    def __init__(self, hub: bytes) -> None:
        self.hub = hub
        self.name = ""
        # The number of its last announcement that is known here; 0 before the first. It only grows.
        self.seq = 0
        # The hubs that it says it is linked with, each with the cost.
        self.neighbours: dict[bytes, int] = {}
        # What it wants, as far as it was told and kept.
        self.wants: dict[Interest, None] = {}
        # The number of the announcement up to which its topics are known; None: up to `seq`.
        self._topics_seq: int | None = None
        # Whether its topics are not kept, as there is no room for them; and how much is not kept, about.
        self.is_cut = False
        self.left_out = 0
        # The number up to which that is counted.
        self._counted_seq = 0
        # Since when it cannot be reached; infinite while it can.
        self.lost_s = math.inf

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be reached, as far as was looked."""
        return self.lost_s < math.inf

    @property
    def is_whole(self) -> bool:
        """Whether its topics are known; otherwise it is taken to want everything."""
        return self._topics_seq is None

    @property
    def topics_seq(self) -> int:
        """The number of the announcement up to which its topics are known; 0 for none."""
        return self.seq if self._topics_seq is None else self._topics_seq

    @property
    def believed(self) -> tuple[Interest, ...]:
        """What it is believed to want."""
        everything = (EVERYTHING,) if self._wants_all else ()
        return (*(one for one in self.wants if one != EVERYTHING), *everything)

    @property
    def _wants_all(self) -> bool:
        return not self.is_whole or EVERYTHING in self.wants

    def take(self, announcement: Announcement, limit: int, *, is_news: bool = True) -> Interests:
        """Take what a hub announces; return how what it is believed to want changes.

        Args:
            announcement: With a base that is not above `seq`.
            limit: How much of what it wants is kept. Topics are kept if all of them fit.
            is_news: Whether it is newer than what is known; otherwise it only completes that.
        """
        wants, wanted_all = self.wants, self._wants_all
        topics_seq = self.topics_seq
        takes_topics = announcement.is_whole and announcement.base <= topics_seq
        takes_others = is_news or (takes_topics and announcement.seq >= self.seq)
        if is_news:
            self._take_news(announcement)
        gone: Iterable[Interest] = announcement.removed
        if not announcement.base:
            wanted = dict.fromkeys(announcement.added)
            gone = [one for one in wants if one not in wanted]
        removed = [one for one in gone if one in wants and (takes_topics if is_topic(one) else takes_others)]
        for one in removed:
            del wants[one]
        added = dict.fromkeys(one for one in announcement.added if one not in wants)
        others = [one for one in added if not is_topic(one)] if takes_others else []
        topics = [one for one in added if is_topic(one)] if announcement.is_whole else []
        left_out = announcement.left_out
        if not takes_topics:
            self._topics_seq = topics_seq
            topics, left_out = [], 0
        elif left_out or len(wants) + len(others) + len(topics) > limit:
            kept = [one for one in wants if is_topic(one)]
            for one in kept:
                del wants[one]
            removed += kept
            self.left_out, left_out = 0, left_out + len(kept) + len(topics)
            topics = []
            self.is_cut, self._topics_seq, self._counted_seq = True, 0, announcement.seq
        else:
            self.left_out, self.is_cut = 0, False
            self._topics_seq = None if announcement.seq >= self.seq else announcement.seq
        room = max(0, limit - len(wants) - len(topics))
        self.left_out += left_out + max(0, len(others) - room)
        taken = topics + others[:room]
        wants.update(dict.fromkeys(taken))
        return _believed(taken, removed, (wanted_all, self._wants_all))

    def count(self, announcement: Announcement) -> int:
        """Count how many topics are not kept, from a change that continues nothing here; return how many it adds."""
        if announcement.seq <= self._counted_seq:
            return 0
        self._counted_seq = announcement.seq
        more = announcement.left_out + sum(map(is_topic, announcement.added))
        self.left_out = max(0, self.left_out + more - sum(map(is_topic, announcement.removed)))
        return more

    def _take_news(self, announcement: Announcement) -> None:
        self.seq = announcement.seq
        if announcement.name:
            self.name = announcement.name
        if announcement.neighbours is not None:
            self.neighbours = dict(announcement.neighbours)


def is_topic(interest: Interest) -> bool:
    """Return whether it is a prefix or a rule, which "everything" covers; not what is served or owned."""
    return isinstance(interest, str | Rule)


def _believed(added: list[Interest], removed: list[Interest], wanted_all: tuple[bool, bool]) -> Interests:
    """Return a change, with that of "everything" before and after it."""
    before, after = wanted_all
    added, removed = ([one for one in some if one != EVERYTHING] for some in (added, removed))
    if before is not after:
        (added if after else removed).append(EVERYTHING)
    return Interests(tuple(added), tuple(removed))
