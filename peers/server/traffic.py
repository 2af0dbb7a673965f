"""Links to peer hubs: the messages that they have carried (`Traffic`) and lost (`Accounts`).

Messages that are on their way when a link is cut are lost. One hub knows how many messages it has sent, the other how
many have arrived. They exchange that once a second, before CLOSE, and of former links at the beginning of the next one:

```
while it stands    ACCOUNT arrived ─▶ at most the last second's messages are in doubt
it ends            sent less arrived is in doubt: reported at once as "at most"; queued messages are lost for sure
next link of these hubs: both send accounts of former links ─▶ settled: the exact numbers
no link within SETTLE_S, or a hub has restarted with another id ─▶ "at most" remains
```

The topics of lost messages are unknown, so subscribers get an event, `$hub/links/lost`, and not a gap in their streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from peers.server.keepalive import Keepalive
from peers.wire.control import Account

if TYPE_CHECKING:
    from peers.server.link import Link

SETTLE_S: Final = 60.0  # Time for the next link: ample, as links are dialled every second or two
REMEMBERED: Final = 1024  # Most ended links, 300 bytes each; the oldest is settled and forgotten
TOLD_PER_LINK: Final = 16  # Most former links reported on a link. More have ended only if no account came through
KEPT_S: Final = 3600.0  # How long a name is kept after its last link has ended
NAMES_KEPT: Final = 256  # Most names shown one by one, a dozen lines of `/metrics` each; the others are one row


class Peer(NamedTuple):
    """The hub at the far side of a link."""

    hub: bytes
    name: str  # As in HELLO
    address: str  # Of its end of the link


class EndedLink(NamedTuple):
    """Counters of a link at its end."""

    link: bytes  # Id that both sides know
    peer: Peer
    offered: int  # Messages for the peer: written, dropped from its queue, or waiting there
    sent: int  # Of these, written
    arrived: int
    missed: int  # Messages that the peer has dropped, as it has reported
    waiting: int  # Messages still queued for the peer, and so never written
    confirmed: int  # Sent messages that have arrived, by the peer's last account
    is_settled: bool  # Whether `confirmed` is final


class Loss(NamedTuple):
    """Messages that were lost with a link, for the log and for `$hub/links/lost`."""

    peer: Peer
    is_outward: bool  # Whether this hub had sent them
    messages: int  # 0 where messages in doubt have arrived after all
    exactly: bool  # False if `messages` is an upper bound
    is_overtaken: bool = False  # They arrived and were not taken: newer ones of their hub had come by another way


class Remembered:
    """An ended link that may still be settled."""

    def __init__(self, ended: EndedLink, doubt: int, until_s: float) -> None:
        self.ended = ended
        self.doubt = doubt  # Sent messages that may or may not have arrived; 0 as soon as that is known
        self.is_heard = False  # The peer's account of this link has come on a later one; another is not counted
        self.until_s = until_s


class Accounts:
    """Losses with links, and the ended links that may still be settled."""

    def __init__(self, keepalive: Keepalive, report: Callable[[Loss], object]) -> None:
        self._keepalive = keepalive
        self._report = report
        self.due_s = -1  # The slot in the wheel of deadlines, which alone sets it
        self._ended: dict[tuple[bytes, bytes], Remembered] = {}  # By hub and link, the oldest end first
        self.lost_messages = 0  # Of this hub, known not to have arrived
        self.possibly_lost_messages = 0  # Of this hub; whether they arrived will never be known
        self.missed_messages = 0  # Of peers; they did not arrive here, as the peers have reported

    @property
    def messages_in_doubt(self) -> int:
        return sum(one.doubt for one in self._ended.values())

    def end(self, ended: EndedLink, now_s: float) -> Remembered:
        """Note that a link is over; `conclude` must follow when its socket is closed."""
        doubt = ended.sent - ended.confirmed
        lost = ended.waiting
        if ended.is_settled:
            lost, doubt = lost + doubt, 0
        if lost:
            self._lose(ended.peer, lost)
        one = Remembered(ended, doubt, now_s + SETTLE_S)
        key, is_watched = (ended.peer.hub, ended.link), bool(self._ended)
        if key in self._ended:  # a peer that uses an id twice
            self._give_up(key)
        elif len(self._ended) >= REMEMBERED:
            self._give_up(next(iter(self._ended)))
        self._ended[key] = one
        if not is_watched:
            self._keepalive.watch(self, one.until_s)
        return one

    def conclude(self, one: Remembered) -> None:
        """Report messages in doubt, as the socket of their link is closed."""
        if one.doubt:
            self._report(Loss(one.ended.peer, is_outward=True, messages=one.doubt, exactly=False))

    def former(self, hub: bytes) -> list[Account]:
        """Return the accounts of former links that a hub gets at the beginning of a new link."""
        ended = [one.ended for (other, _), one in self._ended.items() if other == hub]
        return [Account(one.link, one.offered, one.arrived) for one in ended[-TOLD_PER_LINK:]]

    def hear(self, hub: bytes, account: Account) -> None:
        """Take the first account of an ended link; ignore others."""
        one = self._ended.get((hub, account.link))
        if one is None or one.is_heard:
            return
        one.is_heard = True
        ended = one.ended
        if one.doubt:
            lost = min(max(ended.sent - account.arrived, 0), one.doubt)
            one.doubt = 0
            self._lose(ended.peer, lost)
        missed = account.sent - ended.arrived - ended.missed
        if missed > 0:
            self.miss(ended.peer, missed)

    def miss(self, peer: Peer, messages: int) -> None:
        """Count messages of a peer that did not arrive and never will."""
        self.missed_messages += messages
        self._report(Loss(peer, is_outward=False, messages=messages, exactly=True))

    def overtake(self, peer: Peer, messages: int) -> None:
        """Report messages that were not taken, as a mesh has overtaken them: `hub.mesh` counts them."""
        self._report(Loss(peer, is_outward=False, messages=messages, exactly=True, is_overtaken=True))

    def check(self, now_s: float) -> float:
        """Forget links that were not settled in time; return when to look again."""
        while self._ended:
            key, one = next(iter(self._ended.items()))
            if one.until_s > now_s:
                return one.until_s
            self._give_up(key)
        return math.inf

    def _lose(self, peer: Peer, messages: int) -> None:
        self.lost_messages += messages
        self._report(Loss(peer, is_outward=True, messages=messages, exactly=True))

    def _give_up(self, key: tuple[bytes, bytes]) -> None:
        self.possibly_lost_messages += self._ended.pop(key).doubt


class Carried(NamedTuple):
    """Sums of a link since it is up, or of several links together."""

    received_messages: int = 0
    received_bytes: int = 0  # Everything behind HELLO
    sent_messages: int = 0
    sent_bytes: int = 0  # Of messages, requests and replies
    queue_full: int = 0  # Messages for the peer that were lost in the queue
    too_large: int = 0  # Messages larger than the peer takes
    path_changes: int = 0  # How often the messages of a hub moved to this link from another one

    def plus(self, other: Carried) -> Carried:
        return Carried(*(one + another for one, another in zip(self, other, strict=True)))


class Moment(NamedTuple):
    """The state of a link at one moment."""

    queued_messages: int
    waiting_s: float  # Of the oldest message in the queue
    lag_s: float | None  # Of a PING and its answer; None if that is not known yet
    cost: int | None  # In the mesh; None outside of one


class LinkTraffic(NamedTuple):
    """Figures of the links to the hubs of one name."""

    hub: str  # The name, or the id of a hub without one; empty for those that are shown together
    links: int  # That are up
    carried: Carried
    dropped: dict[str, int]  # By reason
    queued_messages: int
    waiting_s: float  # The longest, as are lag and cost, which are None if no link that is up has any
    lag_s: float | None
    cost: int | None

    def fields(self) -> dict[str, Any]:
        fields = self._asdict()
        carried = fields.pop("carried")._asdict()
        for reason in ("queue_full", "too_large"):
            carried.pop(reason)
        return {**fields, **carried}


class _Name:
    def __init__(self) -> None:
        self.standing: dict[Link, None] = {}
        self.ended = Carried()  # The sums of links that have ended
        self.ended_s = 0.0  # When the last one has ended; without a meaning while one stands
        self.lost = {"cut": 0, "missed": 0, "overtaken": 0}  # Messages lost with links, by reason


class Traffic:
    """Figures of links by the name of the hub at their other end.

    A hub that comes back after a restart has another id and the same name: so its figures go on. No sum goes down while
    its name is kept, nor do the sums over all names. 1 KiB a name.
    """

    def __init__(self) -> None:
        self._names: dict[str, _Name] = {}
        self._others = _Name()  # Those that are shown together

    def begin(self, link: Link, now_s: float) -> None:
        shown = shown_name(link.peer)
        self._forget_the_gone(now_s)
        if shown not in self._names and self._has_room():
            self._names[shown] = _Name()
        self._of(link.peer).standing[link] = None

    def end(self, link: Link, now_s: float) -> None:
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
        """Return figures by name; the last row is of all that are shown together, if there are any."""
        self._forget_the_gone(now_s)
        found = [_figures(shown, name, now_s) for shown, name in sorted(self._names.items())]
        others = _figures("", self._others, now_s)
        if others.links or any(others.carried) or any(others.dropped.values()):
            found.append(others)
        return found

    def standing(self) -> Iterator[Link]:
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
        gone, others = self._names.pop(shown), self._others
        others.ended = others.ended.plus(gone.ended)
        for reason, messages in gone.lost.items():
            others.lost[reason] += messages


def _figures(shown: str, name: _Name, now_s: float) -> LinkTraffic:
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
