"""`Mesh`: many hubs that act as one, whatever shape their links have.

```
links come and go, own interests ─▶ OwnNews: announcements of this hub ─┐
announcements of others ─▶ LinkState ─┬─▶ sent on the other links ◀─────┘
                                      ├─▶ on_interest: interests of a hub, for the routes
                                      └─▶ Graph ─▶ on_trees: messages may take other ways
a message of an origin and epoch ─▶ accepts? ─┬─ yes ─▶ onward(origin, hubs that want it); misses: unreached
                                              └─ no ──▶ refuse: overtaken, or repeated
```

Each hub announces its links and interests to all others, so that each can compute the tree on which messages of a hub
travel. **Safe whatever is believed**: see `hub.mesh.upstream`. **Arriving once all believe the same**: an origin begins
a new epoch whenever it hears of a change of links, and again at `SETTLE_S` after the last one, when all others have
heard of it. So the upstream that each hub has by then is the one in the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from hub.errors import CloseCode, RejectedError
from hub.limits import LINK_COST, MeshLimits
from hub.mesh.announcement import Announcement, Digest, Interests, Record, Told, Wanted
from hub.mesh.graph import Graph, GraphChange
from hub.mesh.link_state import OUTBID_LIMIT, LinkState, OwnNews, Reach, contradicts
from hub.mesh.upstream import FAR_EPOCH, Upstreams
from hub.messages.frame import EPOCH_LIMIT, Origin
from hub.prefixes import Change

L = TypeVar("L")

# When a new epoch begins after the last change of links: announcements cross a mesh in far less; the last one is for
# slow links
SETTLE_S: Final = (0.25, 1.0, 2.0)


class MeshStatistics(NamedTuple):
    """Numbers of the mesh; those with `_total` count from the start."""

    hubs: int  # Known hubs, this one included
    links: int  # Of this hub
    prefixes: int  # Interests of other hubs that are kept
    epoch: int  # Of messages that enter the mesh here now
    incomplete: int  # Hubs that are assumed to want everything, as their topics are not known here
    left_out_total: int  # Interests that were not kept for lack of room
    announcements_total: int  # Announcements of other hubs with news
    refused_total: int  # Announcements over a limit of hubs or links
    overtaken_messages_total: int  # A newer epoch had overtaken them: they are lost here
    repeated_messages_total: int  # They came by another way than those of their epoch before
    unreached_messages_total: int  # No link leads from here to a hub that wants them
    clashes_total: int  # How often another hub has spoken in the name of this one


class Mesh(Generic[L]):
    """One hub's part of the mesh; `L` is the type of its links.

    `hear`, `change`, `link_up` and `link_down` take effect at once. `check` handles their joint effects: it is
    to be called at the end of each turn in which one was called, and at the time that it returns. Callers remember the
    answers of `accepts` until `upstreams.turnover` changes, those of `onward` and `misses` until `on_trees`.

    Args:
        hub: The id of this hub.
        name: For people.
        on_trees: Called when messages may take other ways than before.
        on_interest: Called with a hub, the change of its interests, and the link that brought it; None if the hub is
            forgotten.
        on_due: Called with a link that has something to send: see `take`.
        on_reach: Called with a hub, and whether it can be reached again, or no longer; up to a second late.
        on_clash: Called with the number of an announcement, or epoch, that another hub has used in the name of this
            one.
        on_change: Called with a change of the graph, and the names of all hubs in it.
        on_check: Called when `check` is to be called at the end of this turn; perhaps more than once.
        limits: Of hubs, links and interests that are kept.
    """

    def __init__(  # noqa: PLR0913 -- all events of the mesh
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
        limits: MeshLimits = MeshLimits(),  # noqa: B008 -- frozen
    ) -> None:
        own = Record(hub)
        own.name = name
        own.seq = 1
        self.hub = hub
        # The origin of the messages that enter the mesh here now; its epoch only grows.
        self.origin = Origin(hub, 1)
        self._on_interest, self._on_due, self._on_clash = on_interest, on_due, on_clash
        self._on_change, self._on_check, self._on_trees = on_change, on_check, on_trees
        self._link_state: LinkState[L] = LinkState(own, limits)
        self.graph = Graph(hub)
        # The id of a neighbour → the link to it, from the digest of its far side on.
        self._links: dict[bytes, L] = {}
        # Link → the hub at its far side, and the cost, before that digest.
        self._coming: dict[L, tuple[bytes, int]] = {}
        self._news: OwnNews[L] = OwnNews(self._link_state, self._links)
        self._reach = Reach(self.graph, self._link_state.records, on_reach)
        # Link → the epoch of its far side that others have said, and that it is to hear of; and that it was sent last.
        self._ahead: dict[L, Origin] = {}
        self._sent_ahead: dict[L, Origin] = {}
        # When new epochs begin, ascending.
        self._settle_s: list[float] = []
        # Whether hubs have announced links since the last `check`, and when that was.
        self._has_new_links = False
        self._checked_s = 0.0
        self.clashes = 0
        self.upstreams: Upstreams[L] = Upstreams()
        # Whether an answer of `onward` may be remembered.
        self._is_asked = False
        # Messages that were not taken: those that a newer epoch has overtaken are lost here; the repeated ones may have
        # come by another link.
        self.overtaken_messages = self.repeated_messages = 0
        # Messages for a hub to which no link leads from here.
        self.unreached_messages = 0
        # Link → how many overtaken messages it has brought since `take_overtaken`.
        self._overtaken: dict[L, int] = {}

    # Links of this hub.

    def link_up(self, link: L, far: bytes, *, cost: int = LINK_COST) -> None:
        """A link is up to the hub `far`, to which there is no other link; its cost is at least 1."""
        self._link_state.add(link)
        self.upstreams.come(link, far)
        self._coming[link] = far, cost
        self._on_due(link)
        self._on_check()

    def _open(self, link: L) -> None:
        """The digest of a new link has come: the far side can be sent all else before any message."""
        far, cost = self._coming.pop(link)
        self._links[far], self._news.costs[far] = link, cost
        self._relink_here()
        # Announced with all else, so that the far side knows the way for interests of this hub no later.
        if self._news.may_tell_of_links(self._checked_s) and self._news.tell_of_links(self._checked_s):
            self._relink(self.hub)

    def link_down(self, link: L) -> None:
        """A link is gone; it does no harm if it was none."""
        if link not in self._link_state:
            return
        self._link_state.discard(link)
        self._coming.pop(link, None)
        self._ahead.pop(link, None)
        far = self.upstreams.far_of(link)
        is_open = far is not None and self._links.get(far) is link  # else its digest has not come, or it was replaced
        self.upstreams.leave(link)
        self._overtaken.pop(link, None)
        self._sent_ahead.pop(link, None)
        if is_open and far is not None:
            del self._links[far], self._news.costs[far]
        self._relink_here()
        if is_open and far in self._link_state.own.neighbours and self._news.may_tell_of_links(self._checked_s):
            # In front of the messages that are routed in this turn, unless there was much to announce lately.
            self._news.tell_of_ends(self._checked_s)
            self._relink(self.hub)
            self._tell()
        self._on_check()

    def _relink_here(self) -> None:
        self._begin_epoch()
        self._has_new_links = self._news.link_changes = True
        self.upstreams.turnover += 1
        self._tell_of_trees()

    def change(self, change: Change | Interests) -> None:
        self._news.change(change)
        self._on_check()

    # Announcements of others.

    def hear(self, link: L, told: Told) -> None:
        """Take an announcement of the far side of a link.

        Raises:
            RejectedError: It is over a limit here; nothing of it was taken.
        """
        if link not in self._link_state:
            return
        if isinstance(told, Origin):
            self._hear_ahead(told)
            return
        if link in self._coming:
            self._open(link)
        match told:
            case Digest():
                self._reach.find_the_lost()
                self._link_state.hear_digest(link, told)
            case Wanted():
                self._link_state.hear_wanted(link, told)
            case Announcement():
                self._hear(link, told)
        self._tell()
        self._on_check()

    def _hear(self, link: L, announcement: Announcement) -> None:
        if announcement.hub == self.hub:
            own = self._link_state.own
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
        heard = self._link_state.hear(link, announcement)
        if heard is None:
            return
        if heard.neighbours:
            self._relink(heard.hub)
        if heard.interest.added or heard.interest.removed:
            self._on_interest(heard.hub, heard.interest, link)

    def _hear_ahead(self, said: Origin) -> None:
        """Go above an epoch of this hub that others have said, so that it is heard again."""
        if said.hub == self.hub and self.origin.epoch < said.epoch <= FAR_EPOCH:
            self.clashes += 1
            self._on_clash(said.epoch)
            self.origin = Origin(self.hub, said.epoch + 1)

    def take(self, link: L) -> list[Told]:
        """Return the announcements to send on a link now, in this order, before any message that is routed later."""
        ahead = self._ahead.pop(link, None)
        return [*self._link_state.take(link), *(() if ahead is None else (ahead,))]

    # Time.

    def check(self, now_s: float) -> float:
        """Handle all changes since the last call, and all that is due by now; return when to call again, or inf."""
        self._checked_s = now_s
        self._settle(now_s)
        while self._settle_s and self._settle_s[0] <= now_s:
            del self._settle_s[0]
            self._begin_epoch()
            self._ask_for_the_unknown()
            if not self._settle_s and self._is_linked_elsewhere:
                self._news.link_changes = True  # which it announces again, under another number
        if self._news.tell_what_is_due(now_s):
            self._relink(self.hub)
        self._settle(now_s)
        self._reach.look(now_s)
        self._reach.forget(now_s, self._forget)
        answer_s = self._link_state.answer(now_s)
        self._tell()
        return min(answer_s, self._reach.due_s, self._news.due_s(now_s), *self._settle_s[:1])

    def _tell(self) -> None:
        for link in self._link_state.due():
            self._on_due(link)

    # The graph.

    def _begin_epoch(self) -> None:
        self.origin = Origin(self.hub, min(self.origin.epoch + 1, EPOCH_LIMIT))

    def _relink(self, hub: bytes) -> None:
        """A hub has announced its links: perhaps the same as before, but others may have believed otherwise meanwhile.

        All that follows for messages follows at once: the next one may be in the same read.
        """
        self._begin_epoch()
        self._has_new_links = True
        if self.graph.update(hub, self._link_state.records):
            self._tell_of_trees()

    def _settle(self, now_s: float) -> None:
        """Plan new epochs if hubs have announced links since the last call."""
        if not self._has_new_links:
            return
        self._has_new_links = False
        self._settle_s = [now_s + settle_s for settle_s in SETTLE_S]
        self._reach.change(now_s)
        self._tell_change(self._link_state.records)

    def _ask_for_the_unknown(self) -> None:
        """Ask for hubs that are forgotten here and can be reached: others may have remembered them all the time.

        One is named by a neighbour, further ones only when that one is known; so all are asked for at once.
        """
        records = self._link_state.records
        naming = [hub for hub, record in records.items() if not record.neighbours.keys() <= records.keys()]
        if naming and not self.graph.reached.isdisjoint(naming):
            self._link_state.compare()

    @property
    def _is_linked_elsewhere(self) -> bool:
        """Whether another hub announces a link to this one that it does not have.

        That hub has not noticed its end, or there is another hub with this id and the same number: each of the two
        hears of the other as soon as one of them announces something more.
        """
        own, links = self.hub, self._links
        return any(own in record.neighbours and hub not in links for hub, record in self._link_state.records.items())

    def _forget(self, lost: Iterable[Record]) -> None:
        """Forget hubs that could not be reached for long. No tree changes by that: nothing led there."""
        known = dict(self._link_state.records)
        for record in lost:
            self.upstreams.forget(record.hub)
            change = self._link_state.forget(record.hub)
            self.graph.update(record.hub, self._link_state.records)
            if change.removed:
                self._on_interest(record.hub, change, None)
        self._tell_change(known)

    def _tell_change(self, records: Mapping[bytes, Record]) -> None:
        change = self.graph.take_change()
        if change is not None:
            self._on_change(change, {hub: records[hub].name for hub in change.hubs})

    def _tell_of_trees(self) -> None:
        if self._is_asked:
            self._is_asked = False
            self._on_trees()

    # Messages that links bring.

    def accepts(self, link: L, origin: bytes, epoch: int) -> bool:
        if origin == self.hub or origin not in self._link_state.records:
            return False
        return self.upstreams.accepts(link, origin, epoch, self._links.get(origin))

    def refuse(self, link: L, origin: Origin, messages: int) -> None:
        """Count messages that were not taken; a hub that brings its own ones hears of its epochs at others."""
        ahead = self.upstreams.ahead(origin) if self._links.get(origin.hub) is link else None
        if ahead is not None and self._sent_ahead.get(link) != ahead:
            self._sent_ahead[link] = self._ahead[link] = ahead
            self._on_due(link)
        if self.upstreams.is_lost(link, origin.hub, origin.epoch):
            self.overtaken_messages += messages
            self._overtaken[link] = self._overtaken.get(link, 0) + messages
        else:
            self.repeated_messages += messages

    def take_overtaken(self, link: L) -> int:
        return self._overtaken.pop(link, 0)

    # Messages that go on.

    def onward(self, origin: bytes, wanting: Iterable[bytes]) -> tuple[L, ...]:
        """Return the links on which a message of `origin` goes on, so that it reaches the hubs that want it."""
        self._is_asked = True
        beneath, links = self.graph.beneath(origin), self._links
        return tuple(links[hop] for hop in sorted({beneath[hub] for hub in wanting if hub in beneath}) if hop in links)

    def misses(self, origin: bytes, wanting: Iterable[bytes]) -> bool:
        """Return whether a message of `origin` misses a hub that wants it, since no link leads there.

        A message that entered at another hub goes on to the hubs beneath this one only.
        """
        beneath, links = self.graph.beneath(origin), self._links
        if origin == self.hub:
            return any(beneath.get(hub) not in links for hub in wanting)
        return any(hub in beneath and beneath[hub] not in links for hub in wanting)

    def way_to(self, hub: bytes) -> tuple[int, L] | None:
        """Return how far away another hub is, and the link that leads there; None if it cannot be reached."""
        tree, links = self.graph.tree, self.graph.links
        far, first, at = 0, hub, hub
        while at != self.hub:
            before = tree.get(at)
            if before is None:
                return None
            far, first, at = far + links[before][at], at, before
        link = self._links.get(first)
        return None if link is None else (far, link)

    # Statistics.

    def statistics(self) -> MeshStatistics:
        known = self._link_state
        return MeshStatistics(
            hubs=len(known.records),
            links=len(self._links),
            prefixes=known.prefixes,
            epoch=self.origin.epoch,
            incomplete=sum(not record.is_whole for record in known.records.values()),
            left_out_total=known.left_out_total,
            announcements_total=known.taken_total,
            refused_total=known.refused_total,
            overtaken_messages_total=self.overtaken_messages,
            repeated_messages_total=self.repeated_messages,
            unreached_messages_total=self.unreached_messages,
            clashes_total=self.clashes,
        )

    @property
    def left_out(self) -> int:
        return self._link_state.left_out_total

    @property
    def is_settled(self) -> bool:
        """Whether all epochs have begun that the last change of links leads to."""
        return not (self._news.link_changes or self._has_new_links or self._settle_s)

    @property
    def links(self) -> Collection[L]:
        return self._links.values()

    @property
    def records(self) -> dict[bytes, Record]:
        """The record of each hub, this one included; not to be changed."""
        return self._link_state.records
