"""`Mesh`: many hubs that act as one, whatever shape their links have.

```
links come and go, own interest ─▶ announcements of this hub ─┐
announcements of others ─▶ Knowledge ─┬─▶ told on the other links ─▶ FarViews: what is known at their far sides
                                      ├─▶ on_interest: what a hub wants, for the routes
                                      └─▶ Graph ─▶ on_trees; onward(origin, who wants it): links on which it goes on
a message of an origin and epoch      ─▶ Upstreams: is it taken from this link?
```

Each hub tells all others, by its links, which links it has and what is wanted there. So every hub can tell on which
tree the messages of each hub travel, and sends each of them only where it leads to somebody who wants it.

**Safe whatever is believed**: see `hub.mesh.upstream`. **Arriving once all believe the same**: an origin begins a new
epoch whenever it hears of a change of links, and again at `SETTLE_S` after the last one, when everybody else must have
heard, too. So the upstream that each hub has by then is the one in the tree.

**Messages go by what is announced**, of this hub's own links, too: so the far side of each link can know by which ways
a message was sent to it, and count it if it does not go on by them (`left_behind`).

What comes is taken at once (`hear`, `change`, `link_up`, `link_down`); what follows from all of it together is done by
`check`, which the owner calls at the end of each turn in which something came, and when it said.

Owner: the core. Invariants: those of the parts. No I/O, no clock: times are arguments, seconds of any clock that does
not go back. `L` is whatever stands for a link. Cost: `check` goes over all links of the mesh once where hubs have told
of theirs, about 5 ms for 1,000 hubs with 3,000 links.

Not here: the bytes (`peers.wire`), who gets a message at this hub (`hub.routes`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Generic, TypeVar

from hub.filter import Change
from hub.limits import LINK_COST, MeshLimits
from hub.mesh.announcement import SEQ_LIMIT, Announcement, Digest, Interest, Interests, Told, Wanted
from hub.mesh.far_views import FarViews
from hub.mesh.graph import Graph
from hub.mesh.graph_change import GraphChange
from hub.mesh.hops import Hops
from hub.mesh.knowledge import Knowledge, contradicts
from hub.mesh.pace import Pace
from hub.mesh.record import Record
from hub.mesh.statistics import MeshStatistics
from hub.mesh.upstream import Upstreams
from hub.origin import EPOCH_LIMIT, Origin, Way

__all__ = ["BURST", "EVERY_S", "FORGET_S", "GONE_S", "OUTBID_LIMIT", "SETTLE_S", "Mesh"]

L = TypeVar("L")

SETTLE_S: Final = (0.25, 1.0, 2.0)
"""When a new epoch begins after the last change of links, seconds: announcements cross a mesh in far less, but for the
last of these, which is for links that are slow."""

OUTBID_LIMIT: Final = SEQ_LIMIT // 2
"""The highest number given by somebody else in the name of this hub that this one goes above, so that there is room for
what it announces later. With a higher one, which no twin comes to, it is not heard until it starts anew."""

FORGET_S: Final = 60.0
"""How long a hub is remembered that cannot be reached, seconds."""

EVERY_S: Final = 1.0
"""How often a hub announces what has changed there, in the long run."""

BURST: Final = 8
"""How many announcements it may make at once, after it was quiet: so a change is heard at once, a stream of them once a
second."""

GONE_S: Final = 0.1
"""How long a link that is gone may take to come back, seconds, before others are told of it where they were told much
lately. What is sent by it meanwhile is lost. Since a link must have been announced before, that cannot be often."""


class Mesh(Generic[L]):
    """One hub's part of the mesh.

    Args:
        hub: The id of this hub.
        name: What it is called, for people.
        addresses: URLs at which other hubs may dial it.
        on_trees: Called when messages may take other ways than before: what was remembered of `onward` holds no more.
        on_interest: Called with a hub, how what is wanted there has changed, and the link that has brought it; None if
            the hub is forgotten.
        on_due: Called with a link that is to be told something: `take` has it.
        on_reach: Called with a hub, and whether it can be reached again, or no longer; up to a second late.
        on_clash: Called with the number of an announcement that somebody else made in the name of this hub.
        on_change: Called with what has become of the graph, and the names of all hubs in that, for people who watch.
        on_check: Called when `check` is to be called at the end of this turn; more than once, where more has come.
        on_stranded: Called once a second at most with hubs, and how many messages for each have come here from where
            nothing leads to it any more.
        limits: How much is kept.
    """

    __slots__ = (
        "_changed_s",
        "_changes",
        "_checked_s",
        "_coming",
        "_costs",
        "_far_hops",
        "_forget_s",
        "_gone_s",
        "_graph",
        "_has_new_links",
        "_interest_pace",
        "_is_asked",
        "_knowledge",
        "_link_changes",
        "_link_pace",
        "_links",
        "_look_s",
        "_on_change",
        "_on_check",
        "_on_clash",
        "_on_due",
        "_on_interest",
        "_on_reach",
        "_on_stranded",
        "_on_trees",
        "_outbid",
        "_overtaken",
        "_settle_s",
        "_stranded",
        "_stranded_pace",
        "_views",
        "clashes",
        "hub",
        "origin",
        "overtaken_messages",
        "repeated_messages",
        "stranded_messages",
        "unreached_messages",
        "upstreams",
    )

    def __init__(  # noqa: PLR0913 -- what it is told of the outside
        self,
        hub: bytes,
        name: str = "",
        *,
        addresses: tuple[str, ...] = (),
        on_trees: Callable[[], object],
        on_interest: Callable[[bytes, Interests, L | None], object],
        on_due: Callable[[L], object],
        on_reach: Callable[[bytes, bool], object] = lambda *_: None,
        on_clash: Callable[[int], object] = lambda _: None,
        on_change: Callable[[GraphChange, Mapping[bytes, str]], object] = lambda *_: None,
        on_check: Callable[[], object] = lambda: None,
        on_stranded: Callable[[Mapping[bytes, int]], object] = lambda _: None,
        limits: MeshLimits = MeshLimits(),  # noqa: B008 -- frozen
    ) -> None:
        own = Record(hub)
        own.name, own.addresses = name, addresses
        own.seq = 1
        self.hub = hub
        # What is said of whatever enters the mesh here now; its epoch only grows.
        self.origin = Origin(hub, 1)
        self._on_trees, self._on_interest, self._on_due, self._on_clash = on_trees, on_interest, on_due, on_clash
        self._on_change = on_change
        self._on_reach = on_reach
        self._on_check = on_check
        self._on_stranded = on_stranded
        self._knowledge: Knowledge[L] = Knowledge(own, limits)
        self._graph = Graph(hub)
        self.upstreams: Upstreams[L] = Upstreams()
        # The id of a neighbour → the link to it, from the moment in which its far side has said what it knows.
        self._links: dict[bytes, L] = {}
        # The same, with the cost: what this hub will announce next. Until then messages go by what is announced, so
        # that whoever gets them can know by which ways they were sent.
        self._costs: dict[bytes, int] = {}
        # Link → the hub at its far side, and the cost, of those whose far side has not said yet what it knows.
        self._coming: dict[L, tuple[bytes, int]] = {}
        # What the far sides of links know; and number of such a view → the ways by which messages are sent there.
        self._views: FarViews[L] = FarViews()
        self._far_hops: dict[int, Hops] = {}
        # Prefix or rule → whether it is wanted here now, of those that were not announced yet.
        self._changes: dict[Interest, bool] = {}
        # Whether there are links of this hub that were not announced yet, or are announced and gone.
        self._link_changes = False
        # The number that this hub's next announcement must be above, where somebody else speaks in its name.
        self._outbid = 0
        self._interest_pace, self._link_pace = Pace(BURST, EVERY_S), Pace(BURST, EVERY_S)
        # When others are told of links that are gone, whatever was told before; infinite while there are none.
        self._gone_s = math.inf
        # When new epochs begin, ascending.
        self._settle_s: list[float] = []
        # Whether hubs have told of their links since the last `check`.
        self._has_new_links = False
        # Whether `onward` was asked since `on_trees` was called last, so that somebody may remember what it said.
        self._is_asked = False
        # When the graph has changed last; when it is next looked which hubs can be reached, infinite if that is known.
        self._changed_s, self._look_s = 0.0, math.inf
        # When `check` was called last.
        self._checked_s = 0.0
        # How many messages were not taken since the start: some that a newer epoch has overtaken, so that they are lost
        # here; others of which nobody can tell, as they may have come by another link.
        self.overtaken_messages = self.repeated_messages = 0
        # How many messages have entered here for hubs that could not be reached, once for each such hub.
        self.unreached_messages = 0
        # How many messages have come for hubs to which nothing leads on from here any more, once for each such hub;
        # hub → how many of them nobody was told yet.
        self.stranded_messages = 0
        self._stranded: dict[bytes, int] = {}
        self._stranded_pace = Pace(1, EVERY_S)
        # Link → how many messages it has brought that were overtaken, of those that nobody has asked for yet.
        self._overtaken: dict[L, int] = {}
        # How often somebody else has told of this hub since the start, as if it were this hub.
        self.clashes = 0
        # When the next hub is to be forgotten; infinite while all can be reached.
        self._forget_s = math.inf

    # Links of this hub.

    def link_up(self, link: L, far: bytes, *, cost: int = LINK_COST) -> None:
        """A link to another hub is up.

        Args:
            link: Which; hashable.
            far: The id of the hub at its other end, to which there is no other link.
            cost: How far away it is; at least 1.
        """
        self._knowledge.add(link)
        self.upstreams.come(link, far)
        self._coming[link] = far, cost
        self._on_due(link)
        self._on_check()

    def _open(self, link: L, known: Iterable[tuple[bytes, int]]) -> None:
        """The far side of a new link says what it knows: so it can be told all else before any message."""
        far, cost = self._coming.pop(link)
        self._links[far], self._costs[far] = link, cost
        self._views.add(link, far, known)
        self._relink_here()
        # The far side is told of it with all else, so that it knows no later by which way to send what is wanted here.
        if not self._outbid and self._link_pace.ready_s(self._checked_s) <= self._checked_s:
            self._announce_links(self._checked_s, Interests())

    def link_down(self, link: L) -> None:
        """A link is gone; it does no harm if it was none."""
        if link not in self._knowledge:
            return
        self._knowledge.discard(link)
        self._coming.pop(link, None)
        self._views.discard(link)
        far = self._far_of(link)
        self.upstreams.leave(link)
        self._overtaken.pop(link, None)
        if far is not None:  # otherwise another link has taken its place, or its far side has said nothing
            del self._links[far], self._costs[far]
        self._relink_here()
        if far is not None:
            self._announce_gone(far)
        self._on_check()

    def _announce_gone(self, far: bytes) -> None:
        """Tell others, in front of the messages that are routed in this turn, unless there was much to tell lately."""
        now_s, own = self._checked_s, self._knowledge.own
        if far in own.neighbours and not self._outbid and self._link_pace.ready_s(now_s) <= now_s:
            self._announce_ends(now_s)
            self._tell()

    def _announce_ends(self, now_s: float) -> None:
        """Tell others which links are gone; of those that have come they hear when it is time for that."""
        self._link_pace.use(now_s)
        self._gone_s = math.inf
        own = self._knowledge.own
        own.neighbours = {hub: cost for hub, cost in own.neighbours.items() if hub in self._links}
        self._knowledge.announce(Interests(), neighbours=True)
        self._relink(self.hub)

    def set_cost(self, link: L, cost: int) -> None:
        """Let a link that is up cost something else: messages take other ways, or this one, once that is announced."""
        if link in self._coming:
            far, _ = self._coming[link]
            self._coming[link] = far, cost
            return
        hub = self._far_of(link)
        if hub is not None and self._costs[hub] != cost:
            self._costs[hub] = cost
            self._link_changes = True
            self._on_check()

    def _relink_here(self) -> None:
        """Links of this hub have come or gone: it begins an epoch, and will tell others."""
        self._begin_epoch()
        self._has_new_links = self._link_changes = True
        self.upstreams.turnover += 1
        self._tell_of_trees()

    # What is wanted here.

    def change(self, change: Change | Interests) -> None:
        """What this hub wants of others has changed."""
        wants, changes = self._knowledge.own.wants, self._changes
        for some, is_wanted in ((change.removed, False), (change.added, True)):
            for one in some:
                if (one in wants) is is_wanted:
                    changes.pop(one, None)  # it was taken back before anybody was told
                else:
                    changes[one] = is_wanted
        self._on_check()

    # What others say.

    def hear(self, link: L, told: Told) -> None:
        """Take what the far side of a link tells of the mesh.

        Raises:
            RejectedError: It is over a limit here; nothing of it was taken.
        """
        if link not in self._knowledge:
            return
        if link in self._coming:
            self._open(link, told.known if isinstance(told, Digest) else ())
        match told:
            case Digest():
                self._find_the_lost()
                self._knowledge.hear_digest(link, told)
            case Wanted():
                self._knowledge.hear_wanted(link, told)
            case Announcement():
                self._hear(link, told)
                neighbours = None if told.neighbours is None else dict(told.neighbours)
                self._views.hear(link, told.hub, told.seq, neighbours)
        self._tell()
        self._on_check()

    def _hear(self, link: L, announcement: Announcement) -> None:
        if announcement.hub == self.hub:
            own = self._knowledge.own
            if announcement.seq > own.seq or contradicts(announcement, own):
                self.clashes += 1
                self._on_clash(announcement.seq)
                if announcement.seq <= OUTBID_LIMIT:
                    self._outbid = max(self._outbid, announcement.seq)
            return
        heard = self._knowledge.hear(link, announcement)
        if heard is not None and heard.neighbours:
            self._relink(heard.hub)
        if heard is None:
            return
        if heard.interest.added or heard.interest.removed:
            self._on_interest(heard.hub, heard.interest, link)

    def take(self, link: L) -> list[Told]:
        """Return what a link is to be told now, in this order, and before any message that is routed later."""
        return self._knowledge.take(link)

    def asks(self, link: L) -> int:
        """Return which generation of links is known at a far side once it has taken what `take` has returned.

        It is to be confirmed to `confirm`; 0 for nothing that is to be confirmed.
        """
        return 0 if self._views.has_confirmed(link) else self._views.generation

    def confirm(self, link: L, generation: int) -> None:
        """The far side of a link has taken all that it was told when `asks` said this."""
        if self._views.confirm(link, generation):
            self.upstreams.turnover += 1

    # Time.

    def check(self, now_s: float) -> float:
        """Do what follows from what has come, and what is due by now; return when there will be more, at the latest.

        Infinite for never.
        """
        self._checked_s = now_s
        self._settle(now_s)
        while self._settle_s and self._settle_s[0] <= now_s:
            del self._settle_s[0]
            self._begin_epoch()
            self._ask_for_the_unknown()
            if not self._settle_s:
                self._views.settle()
                if self._is_linked_elsewhere:
                    self._link_changes = True  # which it says once more, under another number
        self._announce_what_is_due(now_s)
        self._settle(now_s)
        if self._look_s <= now_s:
            self._look()
        if self._forget_s <= now_s:
            self._forget(now_s)
        self._tell_stranded(now_s)
        answer_s = self._knowledge.answer(now_s)
        self._tell()
        due_s = [answer_s, self._forget_s, self._look_s, self._gone_s, *self._settle_s[:1]]
        if self._stranded:
            due_s.append(self._stranded_pace.ready_s(now_s))
        if self._changes:
            due_s.append(self._interest_pace.ready_s(now_s))
        if self._link_changes or self._outbid:
            due_s.append(self._link_pace.ready_s(now_s))
        return min(due_s)

    def _announce_what_is_due(self, now_s: float) -> None:
        self._announce_what_is_gone(now_s)
        links_due = (self._link_changes or bool(self._outbid)) and self._link_pace.ready_s(now_s) <= now_s
        wants_due = bool(self._changes) and self._interest_pace.ready_s(now_s) <= now_s
        if not (links_due or wants_due):
            return
        change = self._take_changes() if wants_due else Interests()
        if wants_due:
            self._interest_pace.use(now_s)
        if links_due:
            self._announce_links(now_s, change)
        else:
            self._knowledge.announce(change, neighbours=False)

    def _announce_what_is_gone(self, now_s: float) -> None:
        if self._links.keys() >= self._knowledge.own.neighbours.keys():
            self._gone_s = math.inf
        elif self._gone_s == math.inf:
            self._gone_s = now_s + GONE_S
        elif self._gone_s <= now_s:
            self._announce_ends(now_s)

    def _announce_links(self, now_s: float, change: Interests) -> None:
        self._link_pace.use(now_s)
        self._link_changes = False
        self._gone_s = math.inf
        own = self._knowledge.own
        is_changed = own.neighbours != self._costs
        own.neighbours = dict(self._costs)
        if self._outbid:
            self._knowledge.outbid(self._outbid)
            self._outbid = 0
        else:
            self._knowledge.announce(change, neighbours=True)
        if is_changed:
            self._relink(self.hub)

    def _take_changes(self) -> Interests:
        wants, changes = self._knowledge.own.wants, self._changes
        added = tuple(one for one, is_wanted in changes.items() if is_wanted)
        removed = tuple(one for one, is_wanted in changes.items() if not is_wanted)
        for one in removed:
            del wants[one]
        wants.update(dict.fromkeys(added))
        changes.clear()
        return Interests(added, removed)

    def _tell_stranded(self, now_s: float) -> None:
        if self._stranded and self._stranded_pace.ready_s(now_s) <= now_s:
            self._stranded_pace.use(now_s)
            stranded, self._stranded = self._stranded, {}
            self._on_stranded(stranded)

    def _tell(self) -> None:
        for link in self._knowledge.due():
            self._on_due(link)

    # The graph.

    def _begin_epoch(self) -> None:
        self.origin = Origin(self.hub, min(self.origin.epoch + 1, EPOCH_LIMIT))

    def _far_of(self, link: L) -> bytes | None:
        """Return the hub at the other end of a link; none if it is not open, is gone, or another has its place."""
        far = self.upstreams.far_of(link)
        return far if far is not None and self._links.get(far) is link else None

    def _relink(self, hub: bytes) -> None:
        """A hub has told of its links: perhaps the same as before, but others may have believed otherwise meanwhile.

        All that follows for messages follows at once: the next one may be in the same read.
        """
        self._begin_epoch()
        self._has_new_links = True
        record = self._knowledge.records[hub]
        if self._views.change(hub, record.seq, record.neighbours):
            self._far_hops.clear()
            self.upstreams.turnover += 1
            for one in self._links.values():
                self._on_due(one)
        if self._graph.update(hub, self._knowledge.records):
            self._tell_of_trees()

    def _tell_of_trees(self) -> None:
        """Answers of `onward` may be others now; who has asked for none since the last time need not know."""
        if self._is_asked:
            self._is_asked = False
            self._on_trees()

    def _settle(self, now_s: float) -> None:
        """The graph may be another one since now, if hubs have told of their links."""
        if not self._has_new_links:
            return
        self._has_new_links = False
        self._settle_s = [now_s + settle_s for settle_s in SETTLE_S]
        self._changed_s = now_s
        self._look_s = min(self._look_s, now_s + EVERY_S)
        self._tell_change(self._knowledge.records)

    def _ask_for_the_unknown(self) -> None:
        """Ask for hubs that are forgotten here, and can be reached: others may have remembered them all the time.

        One is named by a neighbour, further ones only when that one is known; so all are asked for at once.
        """
        records = self._knowledge.records
        naming = [hub for hub, record in records.items() if not record.neighbours.keys() <= records.keys()]
        if naming and not self._graph.reached.isdisjoint(naming):
            self._knowledge.compare()

    @property
    def _is_linked_elsewhere(self) -> bool:
        """Whether somebody tells of a link to this hub that it has not.

        That one has not noticed the end of it, or there is another hub with this id, which has the same number: each of
        the two hears of the other as soon as one of them says something more.
        """
        own, links = self.hub, self._links
        return any(own in record.neighbours and hub not in links for hub, record in self._knowledge.records.items())

    def _look(self) -> None:
        """Look which hubs can be reached: not at each change, as a mesh that is made has one for each link."""
        self._look_s = math.inf
        records, reached = self._knowledge.records, self._graph.reached
        for hub, record in records.items():
            was_lost, is_lost = record.is_lost, hub not in reached
            record.lost_s = min(record.lost_s, self._changed_s) if is_lost else math.inf
            if is_lost is not was_lost:
                self._on_reach(hub, not is_lost)
        self._forget_s = FORGET_S + min(record.lost_s for record in records.values())

    def _find_the_lost(self) -> None:
        """Hubs that were lost may be reached again: then others are to be told of them at once."""
        if self._forget_s < math.inf:
            reached = self._graph.reached
            for hub, record in self._knowledge.records.items():
                if record.is_lost and hub in reached:
                    record.lost_s = math.inf
                    self._on_reach(hub, True)

    def _forget(self, now_s: float) -> None:
        """Forget hubs that could not be reached for long. No tree changes by that: nothing led there."""
        known = dict(self._knowledge.records)
        for record in known.values():
            if record.lost_s + FORGET_S <= now_s:
                self.upstreams.forget(record.hub)
                change = self._knowledge.forget(record.hub)
                self._graph.update(record.hub, self._knowledge.records)
                self._views.forget(record.hub)
                if change.removed:
                    self._on_interest(record.hub, change, None)
        self._tell_change(known)
        self._forget_s = FORGET_S + min(record.lost_s for record in self._knowledge.records.values())

    def _tell_change(self, records: Mapping[bytes, Record]) -> None:
        change = self._graph.take_change()
        if change is not None:
            self._on_change(change, {hub: records[hub].name for hub in change.hubs})

    # Messages.

    def accepts(self, link: L, origin: bytes, epoch: int) -> bool:
        """Return whether a message that comes by a link is taken here, which its origin and epoch decide."""
        return origin != self.hub and origin in self._knowledge.records and self.upstreams.accepts(link, origin, epoch)

    def refuse(self, link: L, origin: Origin, messages: int) -> None:
        """Count messages that were not taken."""
        if self.is_lost(link, origin.hub, origin.epoch):
            self.overtaken_messages += messages
            self._overtaken[link] = self._overtaken.get(link, 0) + messages
        else:
            self.repeated_messages += messages

    def is_lost(self, link: L, origin: bytes, epoch: int) -> bool:
        """Return whether a message that was not taken is lost here for sure, as a newer epoch has overtaken it."""
        return self.upstreams.is_lost(link, origin, epoch)

    def take_overtaken(self, link: L) -> int:
        """Return how many messages that a link has brought were lost since the last call, as they were overtaken."""
        return self._overtaken.pop(link, 0)

    def onward(self, origin: bytes, wanting: Iterable[bytes]) -> tuple[L, ...]:
        """Return the links on which a message of `origin` goes on, so that it reaches the hubs that want it."""
        self._is_asked = True
        hops = self._graph.next_hops(origin, wanting)
        return tuple(self._links[hop] for hop in sorted(hops) if hop in self._links)

    def way(self, link: L, origin: bytes) -> Way:
        """Return what decides where messages of `origin` go on that a link brings; while it is the same, so is that."""
        number = self._views.number(link)
        return (origin, number) if number else origin

    def left_behind(self, way: Way, wanting: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return those of the hubs that want a message for which it was sent here, and to which it does not go on.

        Whoever has sent it did not know that, or the link that leads there is gone and nobody was told yet.
        """
        if isinstance(way, bytes):
            if self._links.keys() >= self._knowledge.own.neighbours.keys():
                return ()
            now = self._graph.beneath(way)
            return tuple(hub for hub in wanting if hub in now and now[hub] not in self._links)
        origin, number = way
        now, before = self._graph.beneath(origin), self._far_beneath(number, origin)
        return tuple(hub for hub in wanting if before.get(hub) == self.hub and now.get(hub) not in self._links)

    def _far_beneath(self, number: int, origin: bytes) -> Mapping[bytes, bytes]:
        """Return hub beneath a neighbour of this one, as that one knows the mesh → the hub by which it sends there."""
        view = self._views.view(number)
        if view is None:
            return {}
        hops = self._far_hops.get(number)
        if hops is None:
            hops = self._far_hops[number] = self._graph.hops_of(view, self._knowledge.records)
        return hops.beneath(origin)

    def unreached(self, wanting: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return those hubs to which nothing leads that enters here."""
        now = self._graph.beneath(self.hub)
        return tuple(hub for hub in wanting if now.get(hub) not in self._links)

    def strand(self, hub: bytes, messages: int) -> None:
        """Count messages that have come, and do not go on to a hub that wants them (`left_behind`)."""
        self.stranded_messages += messages
        if not self._stranded:
            self._on_check()
        self._stranded[hub] = self._stranded.get(hub, 0) + messages

    def leave_out(self, _: bytes, messages: int) -> None:
        """Count messages that have entered here, and do not go on to a hub that wants them (`unreached`)."""
        self.unreached_messages += messages

    def way_to(self, hub: bytes) -> tuple[int, L] | None:
        """Return how far away another hub is, and the link that leads there; None if it cannot be reached."""
        tree, links = self._graph.tree, self._graph.links
        far, first, at = 0, hub, hub
        while at != self.hub:
            before = tree.get(at)
            if before is None:
                return None
            far, first, at = far + links[before][at], at, before
        link = self._links.get(first)
        return None if link is None else (far, link)

    # Looking at it.

    def statistics(self) -> MeshStatistics:
        """Return what is known, and what was not taken."""
        knowledge = self._knowledge
        return MeshStatistics(
            hubs=len(knowledge.records),
            links=len(self._links),
            prefixes=knowledge.prefixes,
            epoch=self.epoch,
            left_out_total=knowledge.left_out_total,
            announcements_total=knowledge.taken_total,
            refused_total=knowledge.refused_total,
            overtaken_messages_total=self.overtaken_messages,
            repeated_messages_total=self.repeated_messages,
            stranded_messages_total=self.stranded_messages,
            unreached_messages_total=self.unreached_messages,
            clashes_total=self.clashes,
        )

    @property
    def epoch(self) -> int:
        """The epoch of what enters the mesh here now."""
        return self.origin.epoch

    @property
    def left_out(self) -> int:
        """How many prefixes of other hubs were not kept since the start."""
        return self._knowledge.left_out_total

    @property
    def is_settled(self) -> bool:
        """Whether all epochs have begun that the last change of links has led to."""
        return not (self._link_changes or self._has_new_links or self._settle_s)

    @property
    def links(self) -> Collection[L]:
        """The links of this hub."""
        return self._links.values()

    @property
    def records(self) -> dict[bytes, Record]:
        """What is known of each hub, this one with it; not to be changed."""
        return self._knowledge.records

    @property
    def graph(self) -> Graph:
        """Which hubs are linked."""
        return self._graph
