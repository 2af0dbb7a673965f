"""`Traffic`: what links have carried and lost, by the name of the hub at their other end.

```
Link: begin ─▶ standing, asked on demand ─▶ end: its sums are kept under the name of its hub
                                              └─ no link for KEPT_S ─▶ added to those without a name
```

A hub that comes back after a restart has another id, and the same name: so figures go on. Hubs with the same name are
shown together, one without a name by its id. No sum goes down as long as its name is there, nor do the sums over all
names; 1 KiB a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

from hub.handlers.handler import Handler
from peers.server.accounts import Loss, Peer

KEPT_S: Final = 3600.0  # How long a name is kept whose last link has ended: by then it has gone for good

# Most names that are shown one by one, a dozen lines of `/metrics` each. Others are shown together
NAMES_KEPT: Final = 256


class Carried(NamedTuple):
    """Sums of a link since it is up, or of several links together."""

    received_messages: int = 0
    received_bytes: int = 0  # Everything behind HELLO
    sent_messages: int = 0
    # Of messages, requests and replies
    sent_bytes: int = 0
    queue_full: int = 0  # Messages for the far side that were lost in the queue
    too_large: int = 0  # Messages larger than the far side takes
    # How often messages of some hub began to come by this link that had come by way of another hub before
    path_changes: int = 0

    def plus(self, other: Carried) -> Carried:
        return Carried(*(one + another for one, another in zip(self, other, strict=True)))


class Moment(NamedTuple):
    """The state of a link at one moment."""

    queued_messages: int
    waiting_s: float  # Of the oldest message in the queue
    lag_s: float | None  # Of a PING and its answer; None if that is not known yet
    cost: int | None  # In the mesh; None outside of one


class Standing(Protocol):
    """A link that is up."""

    @property
    def peer(self) -> Peer: ...

    @property
    def handler(self) -> Handler: ...

    def carried(self) -> Carried: ...

    def moment(self, now_s: float) -> Moment: ...


class LinkTraffic(NamedTuple):
    """What links to the hubs of one name have carried and lost, and the state of those that are up."""

    hub: str  # The name, or the id of one that has none; empty for those that are shown together
    links: int  # That are up
    carried: Carried
    dropped: dict[str, int]  # By reason
    queued_messages: int
    waiting_s: float  # The longest of them; so are lag and cost, None if no link that is up has any
    lag_s: float | None
    cost: int | None

    def fields(self) -> dict[str, Any]:
        fields = self._asdict()
        carried = fields.pop("carried")._asdict()
        for reason in ("queue_full", "too_large"):
            carried.pop(reason)
        return {**fields, **carried}


class _Name:
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
        shown = shown_name(link.peer)
        self._forget_the_gone(now_s)
        if shown not in self._names and self._has_room():
            self._names[shown] = _Name()
        self._of(link.peer).standing[link] = None

    def end(self, link: Standing, now_s: float) -> None:
        """Keep the sums of a link that is over."""
        for name in (self._of(link.peer), self._others):  # there may have been no room for its name when it came up
            if link in name.standing:
                del name.standing[link]
                name.ended = name.ended.plus(link.carried())
                name.ended_s = now_s

    def lose(self, loss: Loss) -> None:
        """Count messages that were lost with a link, if it is certain."""
        if loss.exactly:
            reason = "overtaken" if loss.is_overtaken else "cut" if loss.is_outward else "missed"
            self._of(loss.peer).lost[reason] += loss.messages

    def statistics(self, now_s: float) -> list[LinkTraffic]:
        """Return figures by name; the last ones are of all that are shown together, if there are any."""
        self._forget_the_gone(now_s)
        found = [_told(shown, name, now_s) for shown, name in sorted(self._names.items())]
        others = _told("", self._others, now_s)
        if others.links or any(others.carried) or any(others.dropped.values()):
            found.append(others)
        return found

    def standing(self) -> Iterator[Standing]:
        for name in (*self._names.values(), self._others):
            yield from name.standing

    def _of(self, peer: Peer) -> _Name:
        return self._names.get(shown_name(peer), self._others)

    def _has_room(self) -> bool:
        """Make room for one more name, if need be instead of the one that has gone for the longest."""
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
    return peer.name or peer.hub.hex()
