"""`Record`: what is known of one hub of the mesh, as of its last announcement that has come here.

Owner: `hub.mesh.knowledge`. Invariant: it is what the hub itself had at `seq`, but for what is over the limit, which
are counted and not kept. Cost: what an announcement touches; a full copy costs what the hub wants.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hub.mesh.announcement import Announcement, Interest, Interests

__all__ = ["Record"]


class Record:
    """One hub.

    Args:
        hub: Its id.
    """

    __slots__ = ("addresses", "hub", "left_out", "lost_s", "name", "neighbours", "seq", "wants")

    def __init__(self, hub: bytes) -> None:
        self.hub = hub
        self.name = ""
        # URLs at which it says that other hubs may dial it; nobody has looked whether they are any.
        self.addresses: tuple[str, ...] = ()
        # The number of its last announcement that is known here; 0 before the first. It only grows.
        self.seq = 0
        # The hubs that it says it is linked with, each with the cost.
        self.neighbours: dict[bytes, int] = {}
        # The prefixes and rules that it wants.
        self.wants: dict[Interest, None] = {}
        # How many of them were not kept, as they were too many.
        self.left_out = 0
        # Since when it cannot be reached; infinite while it can.
        self.lost_s = math.inf

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be reached, as far as was looked."""
        return self.lost_s < math.inf

    def take(self, announcement: Announcement, limit: int) -> Interests:
        """Take what a hub announces, which must be newer than what is known; return what it wants unlike before.

        Args:
            announcement: With a base that is not above `seq`.
            limit: How many prefixes and rules are kept.
        """
        self.seq = announcement.seq
        self.left_out += announcement.left_out
        if announcement.name:
            self.name = announcement.name
        if announcement.addresses and not announcement.base:
            self.addresses = announcement.addresses
        if announcement.neighbours is not None:
            self.neighbours = dict(announcement.neighbours)
        wants = self.wants
        if announcement.base:
            gone: Iterable[Interest] = announcement.removed
        else:
            wanted = dict.fromkeys(announcement.added)
            gone = [one for one in wants if one not in wanted]
        removed = tuple(one for one in gone if one in wants)
        for one in removed:
            del wants[one]
        added: list[Interest] = []
        for one in announcement.added:
            if one in wants:
                continue
            if len(wants) >= limit:
                self.left_out += 1
                continue
            wants[one] = None
            added.append(one)
        return Interests(tuple(added), removed)
