"""`Knowledge`: what is known of every hub of the mesh, and who must be told what of it.

```
hear(link, announcement) ─ newer ──▶ record ─▶ due on every other link
                          ├ the same or older: passed over
                          └ something between is missing: a full copy is asked for
```

Owner: `Mesh`. Invariants: of each hub the newest announcement that has come stands here; whatever stands here was told
on every link, or is due there; what a far side has told itself is not told back. A hub whose topics are not known here
(`hub.mesh.record`) is told on as such, so that whoever knows them tells better. Cost: an announcement costs what it
touches, once for each link.

Not here: what follows from it (`hub.mesh.graph`, `hub.mesh.mesh`), bytes (`peers.wire`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from hub.errors import CloseCode, RejectedError
from hub.limits import MeshLimits
from hub.mesh.announcement import Announcement, Digest, Interest, Interests, Told, Wanted
from hub.mesh.outgoing import Outgoing
from hub.mesh.record import EVERYTHING, Record

__all__ = ["Heard", "Knowledge", "contradicts"]

L = TypeVar("L")


class Heard(NamedTuple):
    """What an announcement has changed here."""

    hub: bytes
    interest: Interests
    """What the hub wants otherwise than before."""
    neighbours: bool
    """Whether it told of its links; they may be the same as before."""


def contradicts(announcement: Announcement, record: Record) -> bool:
    """Return whether an announcement says otherwise than what is known of its hub by one of the same number.

    A hub says nothing twice under one number: so there are two of them, or somebody lies. Whoever hears both takes the
    same one for true, that with the higher list of links, and tells it on; so the other one of the two hears of it.
    """
    told = announcement.neighbours
    return told is not None and announcement.seq == record.seq and dict(told) != record.neighbours


class Knowledge(Generic[L]):
    """Every hub that is known, this one with it.

    Args:
        own: The record of this hub.
        limits: How much there may be.
    """

    __slots__ = (
        "_asking",
        "_cut",
        "_due",
        "_limits",
        "_links",
        "left_out_total",
        "neighbours",
        "own",
        "prefixes",
        "records",
        "refused_total",
        "taken_total",
    )

    def __init__(self, own: Record, limits: MeshLimits) -> None:
        self._limits = limits
        self.own = own
        # Hub → what is known of it. A hub is there from its first announcement until `forget`; this one always.
        self.records: dict[bytes, Record] = {own.hub: own}
        # Link → what it is to be told; from `add` to `discard`.
        self._links: dict[L, Outgoing] = {}
        # Those that there may be something for since `take`.
        self._due: dict[L, None] = {}
        # Those whose far side has asked for something, and is not answered yet.
        self._asking: dict[L, None] = {}
        # Hub → whether it was asked for, of those whose topics are not kept here, as there was no room.
        self._cut: dict[bytes, bool] = {}
        # How many prefixes and rules of other hubs are kept.
        self.prefixes = 0
        # How many links other hubs tell of.
        self.neighbours = 0
        # Since the start: how many announcements have said something new; how many were refused, as there were too many
        # hubs, or links of one; and how many prefixes were not kept, as they were too many.
        self.taken_total = self.refused_total = self.left_out_total = 0

    # Links.

    def add(self, link: L) -> None:
        """A link is up: the far side is told what is known here, in a few words."""
        outgoing = self._links[link] = Outgoing(self._digest())
        self._due[link] = None
        for hub in self._cut:
            if self._fits(self.records[hub]):
                outgoing.want(hub)

    def discard(self, link: L) -> None:
        """A link is gone."""
        del self._links[link]
        self._due.pop(link, None)
        self._asking.pop(link, None)

    def __contains__(self, link: L) -> bool:
        return link in self._links

    def due(self) -> Iterable[L]:
        """Return the links that are to be told something."""
        return [link for link in self._due if self._links[link]]

    def compare(self) -> None:
        """Tell all far sides once more what is known here, so that they tell what is not."""
        digest = self._digest()
        for link, outgoing in self._links.items():
            outgoing.tell_digest(digest)
            self._due[link] = None

    def _digest(self) -> Digest:
        known = {hub: record.seq if record.is_cut else record.topics_seq for hub, record in self.records.items()}
        return Digest(tuple((hub, seq) for hub, seq in known.items() if seq))

    def take(self, link: L) -> list[Told]:
        """Return what a link is to be told now, and forget it; nothing for a link that is gone."""
        outgoing = self._links.get(link)
        self._due.pop(link, None)
        return outgoing.take(self.records) if outgoing is not None else []

    # What is said here.

    def announce(self, change: Interests, *, neighbours: bool) -> None:
        """This hub itself has something to say: its record has been changed already, but for `seq`."""
        base = self.own.seq
        self.own.seq = base + 1
        self._spread(None, self.own, (base, base), (*change.added, *change.removed), neighbours=neighbours)

    def outbid(self, seq: int) -> None:
        """Somebody else has told of this hub, with that number: what this hub says itself must be newer."""
        self.own.seq = max(self.own.seq, seq) + 1
        for link, outgoing in self._links.items():
            if outgoing.is_told:
                outgoing.copy(self.own.hub)
                self._due[link] = None

    # What is heard.

    def hear_digest(self, link: L, digest: Digest) -> None:
        """The far side tells what it knows: whatever is newer here is due there, at once where it is its first."""
        outgoing = self._links[link]
        is_first = not outgoing.is_told
        outgoing.ask_newer(digest)
        if is_first:
            outgoing.answer(self.records)
            self._due[link] = None
        else:
            self._asking[link] = None

    def hear_wanted(self, link: L, wanted: Wanted) -> None:
        """The far side wants a full copy."""
        if wanted.hub in self.records:
            self._links[link].ask_copy(wanted.hub)
            self._asking[link] = None

    def answer(self, now_s: float) -> float:
        """Make that due which far sides have asked for, as often as each may; return when to call again, or inf."""
        again_s = math.inf
        for link in list(self._asking):
            outgoing = self._links[link]
            ready_s = outgoing.answers.ready_s(now_s)
            if ready_s > now_s:
                again_s = min(again_s, ready_s)
                continue
            outgoing.answers.use(now_s)
            del self._asking[link]
            outgoing.answer(self.records)
            self._due[link] = None
        return again_s

    def hear(self, link: L, announcement: Announcement) -> Heard | None:
        """Take an announcement of another hub; return what it has changed, None if it was known, or one is missing.

        Raises:
            RejectedError: There would be too many hubs, or links of one hub.
        """
        hub, seq = announcement.hub, announcement.seq
        outgoing = self._links[link]
        record = self.records.get(hub)
        if record is None or announcement.base > record.seq:
            if announcement.base:
                self._check_room(outgoing.wanted if record is None else 0)
                outgoing.want(hub)
                self._due[link] = None
                return None
            self._check_room()
            self._check_neighbours(announcement, 0)
            record = self.records[hub] = Record(hub)
        outgoing.heard(announcement, record)
        is_news = seq > record.seq
        if seq == record.seq and contradicts(announcement, record):
            is_news = sorted(announcement.neighbours or ()) > sorted(record.neighbours.items())
            if not is_news:
                self._tell_newer(link, hub)  # what is known here stands
                return None
        if not is_news and not self._completes(link, announcement, record):
            return None
        if announcement.is_whole and announcement.base > record.topics_seq:
            if record.is_cut:
                self.left_out_total += record.count(announcement)
            if not record.is_cut or self._fits(record):
                outgoing.want(hub)
                self._due[link] = None
            if not is_news:
                return None
        return self._take(link, record, announcement, is_news=is_news)

    def _completes(self, link: L, announcement: Announcement, record: Record) -> bool:
        """Return whether an announcement that is no news tells topics that are not known; else tell what is newer."""
        is_less = announcement.seq < record.seq or (record.is_whole and not announcement.is_whole)
        if is_less and not announcement.base:
            self._tell_newer(link, announcement.hub)
        return announcement.is_whole and announcement.seq > record.topics_seq

    def _take(self, link: L, record: Record, announcement: Announcement, *, is_news: bool) -> Heard:
        told_neighbours = is_news and announcement.neighbours is not None
        neighbours = len(record.neighbours)
        if told_neighbours:
            self._check_neighbours(announcement, neighbours)
        # Whoever knows what is contradicted takes what continues the announcement before it.
        base = min(record.seq, announcement.seq - 1) if is_news else record.seq
        since, left_out, was_whole = min(base, record.topics_seq), record.left_out, record.is_whole
        held = len(record.wants)
        change = record.take(announcement, self._room(record), is_news=is_news)
        self.prefixes += len(record.wants) - held
        self.neighbours += len(record.neighbours) - neighbours
        self.taken_total += 1
        self.left_out_total += max(0, record.left_out - left_out)
        self._links[link].heard(announcement, record)
        since = min(since, record.topics_seq)
        touched = (*change.added, *change.removed, *(() if was_whole and record.is_whole else (EVERYTHING,)))
        # A far side may know a state in between, with interests that were never known here.
        if announcement.base:
            touched = (*touched, *announcement.added, *announcement.removed)
        else:  # it does not say which those are: a full copy does
            base, since = (known if announcement.seq <= known + 1 else 0 for known in (base, since))
        self._spread(link, record, (base, since), touched, neighbours=told_neighbours)
        if not record.is_cut:
            self._cut.pop(record.hub, None)
        elif not announcement.base and announcement.is_whole:
            self._cut[record.hub] = False
        else:
            self._cut.setdefault(record.hub, False)
        self._ask_for_the_cut()
        return Heard(record.hub, change, told_neighbours)

    def _room(self, record: Record) -> int:
        """Return how much may be kept of what a hub wants."""
        return min(self._limits.prefixes, self._limits.prefixes_total - self.prefixes + len(record.wants))

    def _fits(self, record: Record) -> bool:
        return len(record.wants) + record.left_out <= self._room(record)

    def _ask_for_the_cut(self) -> None:
        """Ask everybody for hubs whose topics were not kept and for which there is room now: somebody knows them."""
        for hub, is_asked in self._cut.items():
            if not is_asked and self._fits(self.records[hub]):
                self._cut[hub] = True
                for link, outgoing in self._links.items():
                    outgoing.want(hub)
                    self._due[link] = None

    def _tell_newer(self, link: L, hub: bytes) -> None:
        """The far side has told all of a hub, and less than is known here: it does not know that, whatever it was told.

        It had forgotten the hub, as it could not reach it, and has heard of it anew from somebody who was behind.
        """
        self._links[link].ask_copy(hub)
        self._asking[link] = None

    def forget(self, hub: bytes) -> Interests:
        """Forget a hub; return what it wanted."""
        record = self.records.pop(hub)
        self._cut.pop(hub, None)
        self.prefixes -= len(record.wants)
        self.neighbours -= len(record.neighbours)
        for outgoing in self._links.values():
            outgoing.forget(hub)
        self._ask_for_the_cut()
        return Interests(removed=record.believed)

    def _spread(
        self, but: L | None, record: Record, bases: tuple[int, int], touched: Iterable[Interest], *, neighbours: bool
    ) -> None:
        for link, outgoing in self._links.items():
            if link is not but:
                outgoing.change(record, bases, touched, neighbours=neighbours)
                self._due[link] = None

    def _check_room(self, wanted: int = 0) -> None:
        if len(self.records) + wanted >= self._limits.hubs:
            self.refused_total += 1
            text = f"{len(self.records)} hubs are known here, the limit is {self._limits.hubs}"
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)

    def _check_neighbours(self, announcement: Announcement, before: int) -> None:
        told = announcement.neighbours
        if told is None:
            return
        hub, limits = announcement.hub.hex(), self._limits
        if len(told) > limits.neighbours:
            self.refused_total += 1
            raise RejectedError(CloseCode.BAD_DATA, f"hub {hub}: {len(told)} links, the limit is {limits.neighbours}")
        total = self.neighbours - before + len(told)
        if total > limits.neighbours_total:
            self.refused_total += 1
            text = f"hub {hub}: all hubs together would have {total} links, the limit is {limits.neighbours_total}"
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)
