"""The announcements between hubs: `Announcement`, `Digest`, `Wanted`; and the `Record` of each hub that results.

```
link comes up     ─▶ Digest: the known hubs, each with the number of its last announcement     ◀─ the same
                  ─▶ Announcement with base 0 of each hub of which the far side knows less: a full copy
something changed ─▶ Announcement from `base` to `seq`, on every link but the one that it came over
one was missed    ─▶ Wanted                                                                    ◀─ a full copy
```

An announcement states how things are at `seq`, for all that has changed since `base`. So it fits a hub that knows any
state from `base` to `seq`, and it does no harm to hear a part of it twice.

Links, services, names and leaves of a record are those of `seq`. Its prefixes and rules ("topics") are those of
`topics_seq`, and where that is below `seq`, the hub is assumed to want everything: so a limit never keeps a message
from it.

```
whole, 7 ─ news 8 of a hub that has no room for the topics ─▶ 8, topics of 7 and "" ─ whole news 8 ─▶ whole, 8
         └ whole news 8, no room for its topics here ──────▶ 8, no topics, but ""   ─ room, and a copy ─▶ whole, 8
```
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from hub.labels.rules import Rule
from hub.messages.frame import Origin
from hub.names.claim import Announced

SEQ_LIMIT = 2**32 - 1  # The highest number of an announcement: one a second for 136 years

EVERYTHING: Final = ""  # The prefix of all topics


class Served(NamedTuple):
    """Requests under a prefix are answered at a hub."""

    prefix: str


class Leaf(NamedTuple):
    """A leaf is peered with a hub; other hubs may have it as well (`hub.links`)."""

    endpoint: bytes  # Its id, 16 bytes
    since_us: int  # Since when the hub has it, µs since 1970 by its own clock; later than any claim that it knew of


Interest = str | Rule | Served | Announced | Leaf
"""Messages under a prefix or that a rule matches, requests, and messages for a name or a leaf."""


def is_topic(interest: Interest) -> bool:
    """Return whether it is a prefix or a rule, which the prefix "" covers."""
    return isinstance(interest, str | Rule)


class Interests(NamedTuple):
    """How the interests of a hub have changed; a `hub.prefixes.Change` is one of prefixes alone."""

    added: tuple[Interest, ...] = ()
    removed: tuple[Interest, ...] = ()


class Announcement(NamedTuple):
    """A change at one hub, announced by that hub and passed on by others."""

    hub: bytes  # Its id, 16 bytes
    base: int  # The number of the announcement that this one continues; 0: this is a full copy
    seq: int  # The number of this one, 1 to `SEQ_LIMIT`; none is used twice
    name: str = ""
    # The ids of all hubs that it is linked with, each with the cost of that link; None if nothing has changed
    neighbours: tuple[tuple[bytes, int], ...] | None = None
    added: tuple[Interest, ...] = ()
    removed: tuple[Interest, ...] = ()
    left_out: int = 0  # How many interests the reader has left out, as one hub may not have so many; never sent
    is_whole: bool = True
    """Whether the speaker knows the prefixes and rules of that hub. If not, it lists none of them, and the hub is
    assumed to want everything, until another hub lists them."""


class Digest(NamedTuple):
    """The hubs that the speaker knows, each with the number up to which it knows everything."""

    known: tuple[tuple[bytes, int], ...]


class Wanted(NamedTuple):
    """The speaker has missed an announcement of a hub, and wants a full copy."""

    hub: bytes


# The contents of a ROUTING frame; or, in an ORIGIN frame, an epoch of the far side itself that others have said
Told = Announcement | Digest | Wanted | Origin


class Record:
    """The state of one hub, as it has announced it."""

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
        # The number of its last announcement; 0 before the first. It only grows.
        self.seq = 0
        # The hubs that it says it is linked with, each with the cost.
        self.neighbours: dict[bytes, int] = {}
        # Its interests, as far as they are kept.
        self.wants: dict[Interest, None] = {}
        # The number up to which its topics are known; None: up to `seq`.
        self._topics_seq: int | None = None
        # Whether its topics are not kept for lack of room; and how many interests are not kept, about.
        self.is_cut = False
        self.left_out = 0
        # The number up to which `left_out` is counted.
        self._counted_seq = 0
        # Since when it cannot be reached; infinite while it can.
        self.lost_s = math.inf

    @property
    def is_lost(self) -> bool:
        """Whether it could not be reached at the last look."""
        return self.lost_s < math.inf

    @property
    def is_whole(self) -> bool:
        """Whether its topics are known; otherwise it is assumed to want everything."""
        return self._topics_seq is None

    @property
    def topics_seq(self) -> int:
        return self.seq if self._topics_seq is None else self._topics_seq

    @property
    def believed(self) -> tuple[Interest, ...]:
        """The interests that it is assumed to have."""
        everything = (EVERYTHING,) if self._wants_all else ()
        return (*(one for one in self.wants if one != EVERYTHING), *everything)

    @property
    def _wants_all(self) -> bool:
        return not self.is_whole or EVERYTHING in self.wants

    def take(self, announcement: Announcement, limit: int, *, is_news: bool = True) -> Interests:
        """Take an announcement; return how the interests change that the hub is assumed to have.

        Args:
            announcement: With a base that is not above `seq`.
            limit: How many interests are kept. Topics are kept if all of them fit.
            is_news: Whether it is newer than the record; otherwise it only completes that.
        """
        wants, wanted_all = self.wants, self._wants_all
        topics_seq = self.topics_seq
        takes_topics = announcement.is_whole and announcement.base <= topics_seq
        takes_others = is_news or (takes_topics and announcement.seq >= self.seq)
        if is_news:
            self._take_news(announcement)
        gone: Iterable[Interest] = announcement.removed if announcement.base else wants
        stays = set(announcement.added)  # also if it is removed as well
        gone = [one for one in gone if one in wants and one not in stays]
        removed = [one for one in gone if (takes_topics if is_topic(one) else takes_others)]
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
        """Count topics that are not kept, from a change that continues nothing here; return how many it adds."""
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


def _believed(added: list[Interest], removed: list[Interest], wanted_all: tuple[bool, bool]) -> Interests:
    """Return a change, with that of "everything" before and after it."""
    before, after = wanted_all
    added, removed = ([one for one in some if one != EVERYTHING] for some in (added, removed))
    if before is not after:
        (added if after else removed).append(EVERYTHING)
    return Interests(tuple(added), tuple(removed))
