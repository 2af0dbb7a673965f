"""`Traffic`: what links have carried and lost, by the name of the hub at their other end.

```
Link: begin ─▶ standing, asked when somebody wants to know ─▶ end: its sums are kept under the name of its hub
                                                                 └─ no link for KEPT_S ─▶ added to those without a name
```

A hub that comes back after a restart has another id, and the same name: so figures go on. Hubs that have the same name
are shown together, and one that has none is shown by its id.

Owner: the node. No I/O, no clock: times are arguments, seconds. Invariants: no sum goes down, as long as its name is
there, nor do the sums over all names; at most `NAMES_KEPT` names are there. Memory: 1 KiB a name. Cost: nothing for a
message; a few µs a link when somebody asks.

Not here: counting (`hub.handler`, `hub.mesh.upstream`, `peers.links.lag`), which messages were lost with a link that
has ended (`peers.node.accounts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

from hub.handler import Handler
from peers.node.accounts import Loss, Peer

KEPT_S: Final = 3600.0
"""How long a name is kept whose last link has ended, seconds: by then it has gone for good, and not for a restart."""

NAMES_KEPT: Final = 256
"""Most names that are shown by themselves: each is a dozen lines of `/metrics`. Others are shown together."""


class Carried(NamedTuple):
    """What a link has carried since it is up, or several links together. All numbers only grow."""

    received_messages: int = 0
    received_bytes: int = 0
    """Everything that came behind HELLO."""
    sent_messages: int = 0
    sent_bytes: int = 0
    """Of messages, requests and replies; for a hub that is no part of the mesh what queues are charged for them."""
    queue_full: int = 0
    """How many messages for the far side were lost in the queue."""
    too_large: int = 0
    """How many were larger than the far side takes."""
    path_changes: int = 0
    """How often messages of some hub began to come by this link that had come by way of another hub before."""

    def plus(self, other: Carried) -> Carried:
        """Return the sums."""
        return Carried(*(one + another for one, another in zip(self, other, strict=True)))


class Moment(NamedTuple):
    """How a link stands at one moment."""

    queued_messages: int
    waiting_s: float
    """How long the oldest message in the queue has waited."""
    lag_s: float | None
    """How long a PING and its answer take; None if that is not known yet."""
    cost: int | None
    """What it costs in the mesh; None where it is no part of one."""


class Standing(Protocol):
    """A link that is up."""

    @property
    def peer(self) -> Peer:
        """The hub at its far side."""

    @property
    def handler(self) -> Handler:
        """What it is to the core."""

    def carried(self) -> Carried:
        """Return what it has carried."""

    def moment(self, now_s: float) -> Moment:
        """Return how it stands."""


class LinkTraffic(NamedTuple):
    """What links to the hubs of one name have carried and lost, and how those stand that are up."""

    hub: str
    """The name, or the id of one that has none; empty for those that are shown together."""
    links: int
    """How many are up."""
    carried: Carried
    dropped: dict[str, int]
    """How many messages were lost, by reason."""
    queued_messages: int
    waiting_s: float
    """The longest of them; so are lag and cost, None if no link that is up has any."""
    lag_s: float | None
    cost: int | None

    def fields(self) -> dict[str, Any]:
        """Return all of it, as `$hub/statistics` says it."""
        fields = self._asdict()
        carried = fields.pop("carried")._asdict()
        for reason in ("queue_full", "too_large"):
            carried.pop(reason)
        return {**fields, **carried}


class _Name:
    """The links to hubs of one name."""

    __slots__ = ("ended", "ended_s", "lost", "standing")

    def __init__(self) -> None:
        self.standing: dict[Standing, None] = {}
        # The sums of links that have ended.
        self.ended = Carried()
        # When the last one has ended; without a meaning while one stands.
        self.ended_s = 0.0
        # How many messages were lost with links, by reason.
        self.lost = {"cut": 0, "missed": 0, "overtaken": 0}

    def fold(self, other: _Name) -> None:
        """Take over the sums of another name, which has no links."""
        self.ended = self.ended.plus(other.ended)
        for reason, messages in other.lost.items():
            self.lost[reason] += messages


class Traffic:
    """What links have carried."""

    __slots__ = ("_names", "_others")

    def __init__(self) -> None:
        # Name → its links; from the first `begin` until it is forgotten.
        self._names: dict[str, _Name] = {}
        # Those that are shown together.
        self._others = _Name()

    def begin(self, link: Standing, now_s: float) -> None:
        """A link is up."""
        shown = shown_name(link.peer)
        self._forget_the_gone(now_s)
        if shown not in self._names and self._has_room():
            self._names[shown] = _Name()
        self._of(link.peer).standing[link] = None

    def end(self, link: Standing, now_s: float) -> None:
        """A link is over: what it has carried is kept."""
        for name in (self._of(link.peer), self._others):  # there may have been no room for its name when it came up
            if link in name.standing:
                del name.standing[link]
                name.ended = name.ended.plus(link.carried())
                name.ended_s = now_s

    def lose(self, loss: Loss) -> None:
        """Messages were lost with a link; what may have arrived after all is not counted."""
        if loss.exactly:
            reason = "overtaken" if loss.is_overtaken else "cut" if loss.is_outward else "missed"
            self._of(loss.peer).lost[reason] += loss.messages

    def statistics(self, now_s: float) -> list[LinkTraffic]:
        """Return what there is to tell, by name; the last one is of all that are shown together, if there are any."""
        self._forget_the_gone(now_s)
        found = [_told(shown, name, now_s) for shown, name in sorted(self._names.items())]
        others = _told("", self._others, now_s)
        if others.links or any(others.carried) or any(others.dropped.values()):
            found.append(others)
        return found

    def standing(self) -> Iterator[Standing]:
        """Return the links that are up."""
        for name in (*self._names.values(), self._others):
            yield from name.standing

    def _of(self, peer: Peer) -> _Name:
        return self._names.get(shown_name(peer), self._others)

    def _has_room(self) -> bool:
        """See that there is room for one more name, if need be instead of the one that has gone for the longest."""
        if len(self._names) < NAMES_KEPT:
            return True
        gone = [(name.ended_s, shown) for shown, name in self._names.items() if not name.standing]
        if not gone:
            return False
        self._forget(min(gone)[1])
        return True

    def _forget_the_gone(self, now_s: float) -> None:
        names = self._names
        for shown in [one for one, name in names.items() if not name.standing and name.ended_s + KEPT_S <= now_s]:
            self._forget(shown)

    def _forget(self, shown: str) -> None:
        self._others.fold(self._names.pop(shown))


def _told(shown: str, name: _Name, now_s: float) -> LinkTraffic:
    carried = name.ended
    moments = []
    for link in name.standing:
        carried = carried.plus(link.carried())
        moments.append(link.moment(now_s))
    lags_s = [moment.lag_s for moment in moments if moment.lag_s is not None]
    return LinkTraffic(
        hub=shown,
        links=len(moments),
        carried=carried,
        dropped={"queue_full": carried.queue_full, "too_large": carried.too_large, **name.lost},
        queued_messages=sum(moment.queued_messages for moment in moments),
        waiting_s=max((moment.waiting_s for moment in moments), default=0.0),
        lag_s=max(lags_s, default=None),
        cost=max((moment.cost for moment in moments if moment.cost is not None), default=None),
    )


def shown_name(peer: Peer) -> str:
    """Return what a hub is shown as."""
    return peer.name or peer.hub.hex()
