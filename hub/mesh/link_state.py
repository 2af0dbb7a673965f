"""`LinkState`: the record of every hub of the mesh, and which change to send over which link.

```
hear(link, announcement) ─ newer ──▶ record ─▶ due on every other link
                          ├ the same or older: ignored
                          └ one before it is missing: a full copy is asked for
```

Each record has the newest announcement that has come; it was sent on every link, or is due there, but not back to the
link that it came over. A hub whose topics are not known here is announced as such, so that a hub that knows them sends
them. `OwnNews` announces this hub itself; `Reach` knows which hubs can be reached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from hub.errors import CloseCode, RejectedError
from hub.limits import MeshLimits
from hub.mesh.announcement import (
    EVERYTHING,
    SEQ_LIMIT,
    Announcement,
    Digest,
    Interest,
    Interests,
    Record,
    Told,
    Wanted,
    is_topic,
)
from hub.mesh.graph import Graph
from hub.prefixes import Change

_ANSWERS_AT_ONCE: Final = 8
_ANSWER_EVERY_S: Final = 1.0
"""How often a far side gets an answer: so many times at once, and as often in the long run. Otherwise two small
frames would bring it all that is known, as often as it likes."""

_TOUCHED_LIMIT: Final = 1_000  # With more touched interests than this, and than the hub has, a full copy is less


class Pace:
    """A limit of a rate: `burst` at once, after a quiet time, and one in `every_s` in the long run."""

    __slots__ = ("_burst", "_every_s", "_full_s")

    def __init__(self, burst: int, every_s: float) -> None:
        self._burst = burst
        self._every_s = every_s
        # When the whole burst is available again; each use delays it.
        self._full_s = 0.0

    def ready_s(self, now_s: float) -> float:
        """Return when it may be used next: now, or later."""
        return max(now_s, self._full_s - (self._burst - 1) * self._every_s)

    def use(self, now_s: float) -> None:
        self._full_s = max(self._full_s, now_s) + self._every_s


class _Due:
    """The changes of one hub that are to be sent."""

    __slots__ = ("base", "neighbours", "since", "touched")

    def __init__(self, base: int, since: int) -> None:
        # The number up to which the far side knows the hub, and that up to which it knows its topics, which is not
        # above the other; 0: a full copy is due.
        self.base, self.since = base, since
        # Whether its neighbours have changed.
        self.neighbours = False
        # The interests that have come or gone since.
        self.touched: dict[Interest, None] = {}

    def keep(self, seq: int) -> None:
        """The far side knows the hub up to this number, but for its topics."""
        self.base, self.neighbours = seq, False
        self.touched = dict.fromkeys(filter(is_topic, self.touched)) if self.since else {}


class FloodQueue:
    """The changes that are due on one link, whose far side is sent `digest` first.

    ```
    hub A: announcements 7, 8, 9 come ─▶ due: base 6, interests touched {/a, /b}, neighbours? no
    take() ─▶ Announcement(A, base 6, seq 9, added: those of the touched that A wants now, removed: the others)
    ```

    There are no texts here, only changes that the far side does not have yet. So changes merge while a far side does
    not read, and a link never holds more than the mesh has. The far side knows of each hub at least the state at the
    `base` of what is due, and its topics of `since`. Topics that are not known here are owed, and sent once they are
    known.
    """

    __slots__ = ("_asked_hubs", "_compared", "_due", "_owed", "_wanted", "answers", "digest", "is_told")

    def __init__(self, digest: Digest) -> None:
        # The known hubs, if they are still to be sent: the far side answers with newer announcements.
        self.digest: Digest | None = digest
        # False until the digest of the far side has come: before, it is unknown which announcements it needs.
        self.is_told = False
        # Hub → the changes to be sent, in the order in which they came.
        self._due: dict[bytes, _Due] = {}
        # The same of hubs whose topics are not known here; they are sent once they are known.
        self._owed: dict[bytes, _Due] = {}
        # Hubs of which a full copy is to be asked for.
        self._wanted: dict[bytes, None] = {}
        # Requested by the far side since the last `answer`: hubs, and all announcements beyond its last digest.
        self._asked_hubs: dict[bytes, None] = {}
        self._compared: Digest | None = None
        self.answers = Pace(_ANSWERS_AT_ONCE, _ANSWER_EVERY_S)

    def __bool__(self) -> bool:
        return bool(self.digest is not None or self._due or self._wanted)

    def copy(self, hub: bytes) -> None:
        self._owed.pop(hub, None)
        self._due[hub] = _Due(0, 0)

    def change(self, record: Record, bases: tuple[int, int], touched: Iterable[Interest], *, neighbours: bool) -> None:
        """Note a change of a hub.

        Args:
            record: Of the hub.
            bases: The number up to which the far side knows the hub, and that for its topics; 0: it needs a full copy.
            touched: The interests that have come or gone.
            neighbours: Whether its links may have changed.
        """
        if not self.is_told:
            return  # the digest of the far side will be compared with the records of then
        hub, (base, since) = record.hub, bases
        due = self._due.get(hub)
        if due is None:
            due = self._owed.pop(hub, None) or _Due(base, since)
            # The far side cannot use topics that are not known up to now.
            where = self._due if record.is_whole or base < record.seq else self._owed
            where[hub] = due
        due.neighbours = due.neighbours or neighbours
        due.base, due.since = base and due.base, since and due.since
        if not due.base:
            return
        due.touched.update(dict.fromkeys(touched))
        if not due.since:
            due.touched = {one: None for one in due.touched if not is_topic(one)}
        if len(due.touched) > max(_TOUCHED_LIMIT, len(record.wants)):
            if hub in self._due:
                self.copy(hub)
            else:
                due.since = 0
                due.touched.clear()

    # Requests of the far side.

    def ask_copy(self, hub: bytes) -> None:
        self._asked_hubs[hub] = None

    def ask_newer(self, digest: Digest) -> None:
        self.is_told = True
        self._compared = digest

    def answer(self, records: dict[bytes, Record]) -> None:
        """Queue the copies that the far side has asked for.

        Lost hubs are left out where the far side does not know them: hubs that have forgotten one would hear of it from
        those that have not yet, and it would go around among them for ever.
        """
        for hub in self._asked_hubs:
            if hub in records:
                self.copy(hub)
        self._asked_hubs.clear()
        if self._compared is not None:
            known = dict(self._compared.known)
            self._compared = None
            for hub, record in records.items():
                seq = known.get(hub, 0)
                if record.seq > seq and (seq or not record.is_lost):
                    self.copy(hub)

    def heard(self, announcement: Announcement, record: Record) -> None:
        """The far side has announced a hub itself, with this record here."""
        hub = announcement.hub
        if announcement.seq < record.seq or record.is_whole > announcement.is_whole:
            return
        due = self._due.pop(hub, None)
        if announcement.is_whole:
            self._owed.pop(hub, None)
        elif due is not None:
            due.keep(record.seq)
            self._owed[hub] = due

    @property
    def wanted(self) -> int:
        return len(self._wanted)

    def want(self, hub: bytes) -> None:
        self._wanted[hub] = None

    def forget(self, hub: bytes) -> None:
        self._due.pop(hub, None)
        self._owed.pop(hub, None)

    def take(self, records: dict[bytes, Record]) -> list[Told]:
        told: list[Told] = []
        if self.digest is not None:
            told.append(self.digest)
            self.digest = None
        told.extend(Wanted(hub) for hub in self._wanted)
        self._wanted.clear()
        for hub, due in self._due.items():
            record = records[hub]
            told.append(_announcement(record, due))
            if not record.is_whole:
                due.keep(record.seq)
                self._owed[hub] = due
        self._due.clear()
        return told


def _announcement(record: Record, due: _Due) -> Announcement:
    wants, is_whole = record.wants, record.is_whole
    base = due.since if is_whole else due.base
    touched: Iterable[Interest] = due.touched if base else wants
    if not is_whole:
        touched = [one for one in touched if not is_topic(one)]
    return Announcement(
        record.hub,
        base,
        record.seq,
        "" if base else record.name,
        tuple(record.neighbours.items()) if due.neighbours or not base else None,
        tuple(one for one in touched if one in wants),
        tuple(one for one in touched if one not in wants),
        is_whole=is_whole,
    )


L = TypeVar("L")

FORGET_S: Final = 60.0  # How long a hub is remembered that cannot be reached, seconds

LOOK_S: Final = 1.0  # How long after a change `Reach` looks for hubs that cannot be reached, at the latest

OUTBID_LIMIT: Final = SEQ_LIMIT // 2
"""The highest number used by another hub in the name of this one that this one goes above, so that there is room for
later announcements. With a higher one it is not heard until it starts again."""

EVERY_S: Final = 1.0  # How often a hub announces its changes in the long run, seconds

BURST: Final = 8  # How many announcements it may make at once after a quiet time: a single change is heard at once

GONE_S: Final = 0.1
"""How long a link that is gone may take to come back before that is announced, where much was announced lately,
seconds. Messages sent there meanwhile are lost. Since a link must have been announced before, that cannot be often."""


class Heard(NamedTuple):
    """The change that an announcement has made here."""

    hub: bytes
    interest: Interests
    neighbours: bool  # Whether it lists the hub's links; they may be the same as before


def contradicts(announcement: Announcement, record: Record) -> bool:
    """Return whether an announcement has other links than the known one of the same number.

    A hub uses no number twice: so there are two such hubs, or another one lies. Each hub that hears both believes the
    one with the higher list of links, and passes it on; so the other one of the two hears of it.
    """
    told = announcement.neighbours
    return told is not None and announcement.seq == record.seq and dict(told) != record.neighbours


class LinkState(Generic[L]):
    """Every hub that is known."""

    def __init__(self, own: Record, limits: MeshLimits) -> None:
        self._limits = limits
        self.own = own
        # Hub → its record, from its first announcement until `forget`; that of this hub is always there.
        self.records: dict[bytes, Record] = {own.hub: own}
        # Link → its queue, from `add` to `discard`.
        self._links: dict[L, FloodQueue] = {}
        # The links that may have something to send since `take`.
        self._due: dict[L, None] = {}
        # Links with a question that is not answered yet.
        self._asking: dict[L, None] = {}
        # Hub → whether it was asked for, of those whose topics are not kept for lack of room.
        self._cut: dict[bytes, bool] = {}
        # How many interests of other hubs are kept, and how many links they have together.
        self.prefixes = self.neighbours = 0
        # Announcements with news; announcements over a limit; and interests that were not kept.
        self.taken_total = self.refused_total = self.left_out_total = 0

    # Links.

    def add(self, link: L) -> None:
        """A link is up: send a digest."""
        outgoing = self._links[link] = FloodQueue(self._digest())
        self._due[link] = None
        for hub in self._cut:
            if self._fits(self.records[hub]):
                outgoing.want(hub)

    def discard(self, link: L) -> None:
        del self._links[link]
        self._due.pop(link, None)
        self._asking.pop(link, None)

    def __contains__(self, link: L) -> bool:
        return link in self._links

    def due(self) -> Iterable[L]:
        return [link for link in self._due if self._links[link]]

    def compare(self) -> None:
        """Send all far sides a digest again, so that they send missing announcements."""
        digest = self._digest()
        for link, outgoing in self._links.items():
            outgoing.digest = digest
            self._due[link] = None

    def _digest(self) -> Digest:
        known = {hub: record.seq if record.is_cut else record.topics_seq for hub, record in self.records.items()}
        return Digest(tuple((hub, seq) for hub, seq in known.items() if seq))

    def take(self, link: L) -> list[Told]:
        """Return the announcements to send on a link now, and forget them; none for a link that is gone."""
        outgoing = self._links.get(link)
        self._due.pop(link, None)
        return outgoing.take(self.records) if outgoing is not None else []

    # Announcements of this hub.

    def announce(self, change: Interests, *, neighbours: bool) -> None:
        """Announce a change of this hub, whose record has been changed already, but for `seq`."""
        base = self.own.seq
        self.own.seq = base + 1
        self._spread(None, self.own, (base, base), (*change.added, *change.removed), neighbours=neighbours)

    def outbid(self, seq: int) -> None:
        """Announce this hub under a number above `seq`, which another hub has used in its name."""
        self.own.seq = max(self.own.seq, seq) + 1
        for link, outgoing in self._links.items():
            if outgoing.is_told:
                outgoing.copy(self.own.hub)
                self._due[link] = None

    # Announcements of others.

    def hear_digest(self, link: L, digest: Digest) -> None:
        """Send all that is newer here than the digest of the far side: at once where it is its first."""
        outgoing = self._links[link]
        is_first = not outgoing.is_told
        outgoing.ask_newer(digest)
        if is_first:
            outgoing.answer(self.records)
            self._due[link] = None
        else:
            self._asking[link] = None

    def hear_wanted(self, link: L, wanted: Wanted) -> None:
        if wanted.hub in self.records:
            self._links[link].ask_copy(wanted.hub)
            self._asking[link] = None

    def answer(self, now_s: float) -> float:
        """Queue answers to far sides, as often as each may have one; return when to call again, or inf."""
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
        """Take an announcement of another hub; return the change, None if it was known, or one before it is missing.

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
                self._tell_newer(link, hub)
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
        """Return whether an announcement that is no news has unknown topics; else send what is newer."""
        is_less = announcement.seq < record.seq or (record.is_whole and not announcement.is_whole)
        if is_less and not announcement.base:
            self._tell_newer(link, announcement.hub)
        return announcement.is_whole and announcement.seq > record.topics_seq

    def _take(self, link: L, record: Record, announcement: Announcement, *, is_news: bool) -> Heard:
        told_neighbours = is_news and announcement.neighbours is not None
        neighbours = len(record.neighbours)
        if told_neighbours:
            self._check_neighbours(announcement, neighbours)
        # A hub that knows a contradicted announcement takes the one that continues the one before it.
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
        return min(self._limits.prefixes, self._limits.prefixes_total - self.prefixes + len(record.wants))

    def _fits(self, record: Record) -> bool:
        return len(record.wants) + record.left_out <= self._room(record)

    def _ask_for_the_cut(self) -> None:
        """Ask for topics of hubs that were not kept, and for which there is room now."""
        for hub, is_asked in self._cut.items():
            if not is_asked and self._fits(self.records[hub]):
                self._cut[hub] = True
                for link, outgoing in self._links.items():
                    outgoing.want(hub)
                    self._due[link] = None

    def _tell_newer(self, link: L, hub: bytes) -> None:
        """The far side has sent a full copy that is older than the record, so it lacks that, although it was sent.

        It had forgotten the hub, as it could not reach it, and has heard of it again from a hub that was behind.
        """
        self._links[link].ask_copy(hub)
        self._asking[link] = None

    def forget(self, hub: bytes) -> Interests:
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


class OwnNews(Generic[L]):
    """The unannounced changes of this hub, each with a pace: interests, links, and links that are gone."""

    def __init__(self, knowledge: LinkState[L], links: Mapping[bytes, L]) -> None:
        self._link_state, self._links = knowledge, links
        # The id of a neighbour → the cost of the link, as it is announced next. Until then messages go by what is
        # announced.
        self.costs: dict[bytes, int] = {}
        # Whether there are links that are not announced, or are announced and gone.
        self.link_changes = False
        # Interest → whether it is wanted now, of those that are not announced.
        self._changes: dict[Interest, bool] = {}
        # The number that the next announcement must be above, where another hub speaks in the name of this one.
        self._outbid = 0
        self._interest_pace, self._link_pace = Pace(BURST, EVERY_S), Pace(BURST, EVERY_S)
        # When links that are gone are announced, even if announced before; infinite while there are none.
        self._gone_s = math.inf

    def change(self, change: Change | Interests) -> None:
        """The interests of this hub have changed; a change that is taken back in time is not announced."""
        wants, changes = self._link_state.own.wants, self._changes
        for some, is_wanted in ((change.removed, False), (change.added, True)):
            for one in some:
                if (one in wants) is is_wanted:
                    changes.pop(one, None)
                else:
                    changes[one] = is_wanted

    def outbid(self, seq: int) -> None:
        """Another hub has used this number in the name of this one, which goes above it if it can."""
        if seq <= OUTBID_LIMIT:
            self._outbid = max(self._outbid, seq)

    def may_tell_of_links(self, now_s: float) -> bool:
        return not self._outbid and self._link_pace.ready_s(now_s) <= now_s

    def tell_of_links(self, now_s: float) -> bool:
        """Announce the links of this hub; return whether they have changed."""
        return self._announce_links(now_s, Interests())

    def tell_of_ends(self, now_s: float) -> None:
        """Announce which links are gone; new ones are announced when it is time for that."""
        self._link_pace.use(now_s)
        self._gone_s = math.inf
        own = self._link_state.own
        own.neighbours = {hub: cost for hub, cost in own.neighbours.items() if hub in self._links}
        self._link_state.announce(Interests(), neighbours=True)

    def tell_what_is_due(self, now_s: float) -> bool:
        """Announce all that is due; return whether the announced links have changed."""
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
        self._link_state.announce(change, neighbours=False)
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
        if self._links.keys() >= self._link_state.own.neighbours.keys():
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
        own = self._link_state.own
        is_changed = own.neighbours != self.costs
        own.neighbours = dict(self.costs)
        if self._outbid:
            self._link_state.outbid(self._outbid)
            self._outbid = 0
        else:
            self._link_state.announce(change, neighbours=True)
        return is_changed

    def _take_changes(self) -> Interests:
        wants, changes = self._link_state.own.wants, self._changes
        added = tuple(one for one, is_wanted in changes.items() if is_wanted)
        removed = tuple(one for one, is_wanted in changes.items() if not is_wanted)
        for one in removed:
            del wants[one]
        wants.update(dict.fromkeys(added))
        changes.clear()
        return Interests(added, removed)


class Reach:
    """Which hubs can be reached; a hub that cannot is remembered for `FORGET_S`, as it may come back.

    One look goes over all hubs, after many changes of the graph. The time at which a hub was lost is in its record.
    """

    def __init__(self, graph: Graph, records: dict[bytes, Record], on_reach: Callable[[bytes, bool], object]) -> None:
        self._graph, self._records, self._on_reach = graph, records, on_reach
        # When the graph has changed last, when to look next, and when to forget the next hub; infinite for never.
        self._changed_s, self._look_s, self._forget_s = 0.0, math.inf, math.inf

    def change(self, now_s: float) -> None:
        self._changed_s = now_s
        self._look_s = min(self._look_s, now_s + LOOK_S)

    def look(self, now_s: float) -> None:
        if self._look_s > now_s:
            return
        self._look_s = math.inf
        reached = self._graph.reached
        for hub, record in self._records.items():
            was_lost, is_lost = record.is_lost, hub not in reached
            record.lost_s = min(record.lost_s, self._changed_s) if is_lost else math.inf
            if is_lost is not was_lost:
                self._on_reach(hub, not is_lost)
        self._wait_to_forget()

    def find_the_lost(self) -> None:
        """Lost hubs may be reached again: then others are to hear of them at once."""
        if self._forget_s < math.inf:
            reached = self._graph.reached
            for hub, record in self._records.items():
                if record.is_lost and hub in reached:
                    record.lost_s = math.inf
                    self._on_reach(hub, True)

    def forget(self, now_s: float, forget: Callable[[Iterable[Record]], None]) -> None:
        """Call `forget`, which takes hubs out of the records, with those that could not be reached for long."""
        if self._forget_s <= now_s:
            forget([record for record in self._records.values() if record.lost_s + FORGET_S <= now_s])
            self._wait_to_forget()

    def _wait_to_forget(self) -> None:
        self._forget_s = FORGET_S + min(record.lost_s for record in self._records.values())

    @property
    def due_s(self) -> float:
        """When to `look` or to `forget`; infinite for never."""
        return min(self._look_s, self._forget_s)
