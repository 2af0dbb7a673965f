"""`Mesh`: many hubs that act as one, whatever shape their links have.

```
links come and go, own interest ─▶ OwnNews: announcements of this hub ─┐
announcements of others ─▶ Knowledge ─┬─▶ told on the other links ─▶ FarViews: what is known at their far sides
                                      ├─▶ on_interest: what a hub wants, for the routes
                                      └─▶ Graph ─▶ on_trees; Traffic: which messages are taken, where they go on
```

Each hub tells all others, by its links, which links it has and what is wanted there. So every hub can tell on which
tree the messages of each hub travel, and sends each of them only where it leads to somebody who wants it.

**Safe whatever is believed**: see `hub.mesh.upstream`. **Arriving once all believe the same**: an origin begins a new
epoch whenever it hears of a change of links, and again at `SETTLE_S` after the last one, when everybody else must have
heard, too. So the upstream that each hub has by then is the one in the tree.

What comes is taken at once (`hear`, `change`, `link_up`, `link_down`); what follows from all of it together is done by
`check`, which the owner calls at the end of each turn in which something came, and when it said.

Owner: the core. Invariants: those of the parts. No I/O, no clock: times are arguments, seconds of any clock that does
not go back. `L` is whatever stands for a link. Cost: `check` goes over all links of the mesh once where hubs have told
of theirs, about 5 ms for 1,000 hubs with 3,000 links.

Not here: the bytes (`peers.wire`), who gets a message at this hub (`hub.routes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Generic, TypeVar

from hub.errors import CloseCode, RejectedError
from hub.filter import Change
from hub.limits import LINK_COST, MeshLimits
from hub.mesh.announcement import Announcement, Digest, Interests, Told, Wanted
from hub.mesh.far_views import FarViews
from hub.mesh.graph import Graph
from hub.mesh.graph_change import GraphChange
from hub.mesh.knowledge import Knowledge, contradicts
from hub.mesh.own_news import OUTBID_LIMIT, OwnNews
from hub.mesh.reach import Reach
from hub.mesh.record import Record
from hub.mesh.statistics import MeshStatistics
from hub.mesh.traffic import Traffic
from hub.mesh.upstream import FAR_EPOCH
from hub.origin import EPOCH_LIMIT, Origin

__all__ = ["SETTLE_S", "Mesh"]

L = TypeVar("L")

SETTLE_S: Final = (0.25, 1.0, 2.0)
"""When a new epoch begins after the last change of links, seconds: announcements cross a mesh in far less, but for the
last of these, which is for links that are slow."""


class Mesh(Generic[L]):
    """One hub's part of the mesh.

    Args:
        hub: The id of this hub.
        name: What it is called, for people.
        on_trees: Called when messages may take other ways than before: what was remembered of `onward` holds no more.
        on_interest: Called with a hub, how what is wanted there has changed, and the link that has brought it; None if
            the hub is forgotten.
        on_due: Called with a link that is to be told something: `take` has it.
        on_reach: Called with a hub, and whether it can be reached again, or no longer; up to a second late.
        on_clash: Called with the number of an announcement, or epoch, that somebody else said in the name of this hub.
        on_change: Called with what has become of the graph, and the names of all hubs in that, for people who watch.
        on_check: Called when `check` is to be called at the end of this turn; more than once, where more has come.
        on_stranded: Called once a second at most with hubs, and how many messages for each have come here from where
            nothing leads to it any more.
        limits: How much is kept.
    """

    __slots__ = (
        "_ahead",
        "_checked_s",
        "_coming",
        "_graph",
        "_has_new_links",
        "_knowledge",
        "_links",
        "_news",
        "_on_change",
        "_on_check",
        "_on_clash",
        "_on_due",
        "_on_interest",
        "_reach",
        "_settle_s",
        "_views",
        "clashes",
        "hub",
        "origin",
        "traffic",
    )

    def __init__(  # noqa: PLR0913 -- what it is told of the outside
        self,
        hub: bytes,
        name: str = "",
        *,
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
        own.name = name
        own.seq = 1
        self.hub = hub
        # What is said of whatever enters the mesh here now; its epoch only grows.
        self.origin = Origin(hub, 1)
        self._on_interest, self._on_due, self._on_clash = on_interest, on_due, on_clash
        self._on_change = on_change
        self._on_check = on_check
        self._knowledge: Knowledge[L] = Knowledge(own, limits)
        self._graph = Graph(hub)
        # The id of a neighbour → the link to it, from the moment in which its far side has said what it knows.
        self._links: dict[bytes, L] = {}
        # Link → the hub at its far side, and the cost, of those whose far side has not said yet what it knows.
        self._coming: dict[L, tuple[bytes, int]] = {}
        # What the far sides of links know.
        self._views: FarViews[L] = FarViews()
        self._news: OwnNews[L] = OwnNews(self._knowledge, self._links)
        self._reach = Reach(self._graph, self._knowledge.records, on_reach)
        self.traffic: Traffic[L] = Traffic(
            self._links,
            self._graph,
            self._knowledge,
            self._views,
            on_trees=on_trees,
            on_check=on_check,
            on_stranded=on_stranded,
            on_ahead=self._tell_ahead,
        )
        # Link → the epoch of its far side that others have said, and of which that is to be told.
        self._ahead: dict[L, Origin] = {}
        # When new epochs begin, ascending.
        self._settle_s: list[float] = []
        # Whether hubs have told of their links since the last `check`.
        self._has_new_links = False
        # When `check` was called last.
        self._checked_s = 0.0
        # How often somebody else has told of this hub since the start, as if it were this hub.
        self.clashes = 0

    # Links of this hub.

    def link_up(self, link: L, far: bytes, *, cost: int = LINK_COST) -> None:
        """A link to another hub is up.

        Args:
            link: Which; hashable.
            far: The id of the hub at its other end, to which there is no other link.
            cost: How far away it is; at least 1.
        """
        self._knowledge.add(link)
        self.traffic.upstreams.come(link, far)
        self._coming[link] = far, cost
        self._on_due(link)
        self._on_check()

    def _open(self, link: L, known: Iterable[tuple[bytes, int]]) -> None:
        """The far side of a new link says what it knows: so it can be told all else before any message."""
        far, cost = self._coming.pop(link)
        self._links[far], self._news.costs[far] = link, cost
        self._views.add(link, far, known)
        self._relink_here()
        # The far side is told of it with all else, so that it knows no later by which way to send what is wanted here.
        if self._news.may_tell_of_links(self._checked_s) and self._news.tell_of_links(self._checked_s):
            self._relink(self.hub)

    def link_down(self, link: L) -> None:
        """A link is gone; it does no harm if it was none."""
        if link not in self._knowledge:
            return
        self._knowledge.discard(link)
        self._coming.pop(link, None)
        self._views.discard(link)
        self._ahead.pop(link, None)
        far = self._far_of(link)
        self.traffic.leave(link)
        if far is not None:  # otherwise another link has taken its place, or its far side has said nothing
            del self._links[far], self._news.costs[far]
        self._relink_here()
        if far is not None:
            self._announce_gone(far)
        self._on_check()

    def _announce_gone(self, far: bytes) -> None:
        """Tell others, in front of the messages that are routed in this turn, unless there was much to tell lately."""
        if far in self._knowledge.own.neighbours and self._news.may_tell_of_links(self._checked_s):
            self._news.tell_of_ends(self._checked_s)
            self._relink(self.hub)
            self._tell()

    def _relink_here(self) -> None:
        """Links of this hub have come or gone: it begins an epoch, and will tell others."""
        self._begin_epoch()
        self._has_new_links = self._news.link_changes = True
        self.traffic.upstreams.turnover += 1
        self.traffic.tell_of_trees()

    # What is wanted here.

    def change(self, change: Change | Interests) -> None:
        """What this hub wants of others has changed."""
        self._news.change(change)
        self._on_check()

    # What others say.

    def hear(self, link: L, told: Told) -> None:
        """Take what the far side of a link tells of the mesh.

        Raises:
            RejectedError: It is over a limit here; nothing of it was taken.
        """
        if link not in self._knowledge:
            return
        if isinstance(told, Origin):
            self._hear_ahead(told)
            return
        if link in self._coming:
            self._open(link, told.known if isinstance(told, Digest) else ())
        match told:
            case Digest():
                self._reach.find_the_lost()
                self._knowledge.hear_digest(link, told)
            case Wanted():
                self._knowledge.hear_wanted(link, told)
            case Announcement():
                self._hear(link, told)
                neighbours = None if told.neighbours is None else dict(told.neighbours)
                if self._views.hear(link, told.hub, told.seq, neighbours):
                    self._forget_views()
        self._tell()
        self._on_check()

    def _hear(self, link: L, announcement: Announcement) -> None:
        if announcement.hub == self.hub:
            own = self._knowledge.own
            if announcement.seq > own.seq or contradicts(announcement, own):
                self.clashes += 1
                self._on_clash(announcement.seq)
                self._news.outbid(announcement.seq)
            return
        if announcement.seq > OUTBID_LIMIT + 1 and self._links.get(announcement.hub, link) is not link:
            text = (
                f"announcement {announcement.seq} of hub {announcement.hub.hex()}, which is linked here, by another hub"
            )
            raise RejectedError(CloseCode.NOT_ALLOWED, text)
        heard = self._knowledge.hear(link, announcement)
        if heard is not None and heard.neighbours:
            self._relink(heard.hub)
        if heard is None:
            return
        if heard.interest.added or heard.interest.removed:
            self._on_interest(heard.hub, heard.interest, link)

    def _hear_ahead(self, said: Origin) -> None:
        """Go above an epoch of this hub that others have said, so that it is heard again."""
        if said.hub == self.hub and self.origin.epoch < said.epoch <= FAR_EPOCH:
            self.clashes += 1
            self._on_clash(said.epoch)
            self.origin = Origin(self.hub, said.epoch + 1)

    def _tell_ahead(self, link: L, said: Origin) -> None:
        self._ahead[link] = said
        self._on_due(link)

    def take(self, link: L) -> list[Told]:
        """Return what a link is to be told now, in this order, and before any message that is routed later."""
        ahead = self._ahead.pop(link, None)
        return [*self._knowledge.take(link), *(() if ahead is None else (ahead,))]

    def asks(self, link: L) -> int:
        """Return which generation of links is known at a far side once it has taken what `take` has returned.

        It is to be confirmed to `confirm`; 0 for nothing that is to be confirmed.
        """
        return 0 if self._views.has_confirmed(link) else self._views.generation

    def confirm(self, link: L, generation: int) -> None:
        """The far side of a link has taken all that it was told when `asks` said this."""
        if self._views.confirm(link, generation):
            self.traffic.upstreams.turnover += 1

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
                    self._news.link_changes = True  # which it says once more, under another number
        if self._news.tell_what_is_due(now_s):
            self._relink(self.hub)
        self._settle(now_s)
        self._reach.look(now_s)
        self._reach.forget(now_s, self._forget)
        self.traffic.tell_stranded(now_s)
        answer_s = self._knowledge.answer(now_s)
        self._tell()
        return min(
            answer_s,
            self._reach.due_s,
            self._news.due_s(now_s),
            self.traffic.due_s(now_s),
            *self._settle_s[:1],
        )

    def _tell(self) -> None:
        for link in self._knowledge.due():
            self._on_due(link)

    # The graph.

    def _begin_epoch(self) -> None:
        self.origin = Origin(self.hub, min(self.origin.epoch + 1, EPOCH_LIMIT))

    def _far_of(self, link: L) -> bytes | None:
        """Return the hub at the other end of a link; none if it is not open, is gone, or another has its place."""
        far = self.traffic.upstreams.far_of(link)
        return far if far is not None and self._links.get(far) is link else None

    def _relink(self, hub: bytes) -> None:
        """A hub has told of its links: perhaps the same as before, but others may have believed otherwise meanwhile.

        All that follows for messages follows at once: the next one may be in the same read.
        """
        self._begin_epoch()
        self._has_new_links = True
        record = self._knowledge.records[hub]
        if self._views.change(hub, record.seq, record.neighbours):
            self._forget_views()
        if self._graph.update(hub, self._knowledge.records):
            self.traffic.tell_of_trees()

    def _forget_views(self) -> None:
        """What far sides know is something else than what is known here, until they confirm that."""
        self.traffic.forget_views()
        for one in self._links.values():
            self._on_due(one)

    def _settle(self, now_s: float) -> None:
        """The graph may be another one since now, if hubs have told of their links."""
        if not self._has_new_links:
            return
        self._has_new_links = False
        self._settle_s = [now_s + settle_s for settle_s in SETTLE_S]
        self._reach.change(now_s)
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

    def _forget(self, lost: Iterable[Record]) -> None:
        """Forget hubs that could not be reached for long. No tree changes by that: nothing led there."""
        known = dict(self._knowledge.records)
        for record in lost:
            self.traffic.upstreams.forget(record.hub)
            change = self._knowledge.forget(record.hub)
            self._graph.update(record.hub, self._knowledge.records)
            self._views.forget(record.hub)
            if change.removed:
                self._on_interest(record.hub, change, None)
        self._tell_change(known)

    def _tell_change(self, records: Mapping[bytes, Record]) -> None:
        change = self._graph.take_change()
        if change is not None:
            self._on_change(change, {hub: records[hub].name for hub in change.hubs})

    # Looking at it.

    def statistics(self) -> MeshStatistics:
        """Return what is known, and what was not taken."""
        knowledge, traffic = self._knowledge, self.traffic
        return MeshStatistics(
            hubs=len(knowledge.records),
            links=len(self._links),
            prefixes=knowledge.prefixes,
            epoch=self.epoch,
            incomplete=sum(not record.is_whole for record in knowledge.records.values()),
            left_out_total=knowledge.left_out_total,
            announcements_total=knowledge.taken_total,
            refused_total=knowledge.refused_total,
            overtaken_messages_total=traffic.overtaken_messages,
            repeated_messages_total=traffic.repeated_messages,
            stranded_messages_total=traffic.stranded_messages,
            unreached_messages_total=traffic.unreached_messages,
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
        return not (self._news.link_changes or self._has_new_links or self._settle_s)

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
