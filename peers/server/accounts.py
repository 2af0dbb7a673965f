"""`Accounts`: how many messages were lost with links that have ended, as exactly as the two hubs can find out.

Messages that are on their way when a link is cut are gone. One hub knows how many messages it has sent, the other how
many have arrived. They exchange that once a second, after a goodbye, and of former links at the beginning of the next
one:

```
while it stands    ACCOUNT arrived ─▶ what the other side may miss is never more than a second's messages
it ends            sent less arrived is in doubt: told at once as "at most"; what still waited here is lost for sure
next link, same hubs, each side tells what it had to send, and what arrived ─▶ settled: lost, missed exactly
nobody comes back within SETTLE_S                                       ─▶ settled: "at most" is all that will be known
```

A hub that is killed has another id when it is back: then "at most" is all that will be known. The topics of the lost
messages are unknown, so subscribers get an event of the hub, `$hub/links/lost`, and not a gap in their streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from peers.server.keepalive import Keepalive
from peers.wire.control import Account

# How long a far side may take to come back and tell: ample, as links are dialled every second or two
SETTLE_S: Final = 60.0

REMEMBERED: Final = 1024  # Most ended links that are remembered, 300 bytes each; the oldest is settled and forgotten

# Most former links reported to a far side, the last ones. There are more only if links end again and again before
# either side could tell.
TOLD_PER_LINK: Final = 16


class Peer(NamedTuple):
    """The hub at the far side of a link."""

    hub: bytes
    name: str  # As in HELLO
    address: str  # Of its end of the link


class EndedLink(NamedTuple):
    """A link at its end, as this hub knows it."""

    link: bytes  # Id that both sides know
    peer: Peer
    offered: int  # Messages that this side had for it: written, dropped from its queue, or waiting there
    sent: int  # Of these, written
    arrived: int
    missed: int  # Messages that the far side has dropped, as it has told
    waiting: int  # Messages still queued for it, and so never written
    confirmed: int  # Sent messages that have arrived, as the far side has told last
    is_settled: bool  # Whether `confirmed` is final: its last word, or the far side has left in order after a goodbye


class Loss(NamedTuple):
    """Messages that were lost with a link, for the log and for `$hub/links/lost`."""

    peer: Peer
    is_outward: bool  # Whether this hub had sent them
    messages: int  # 0 where messages in doubt have arrived after all
    exactly: bool  # False if at most so many were lost
    is_overtaken: bool = False  # They have arrived, and were not taken: newer ones of their hub had come by another way


class Remembered:
    """An ended link, for as long as it may be settled."""

    __slots__ = ("doubt", "ended", "is_heard", "until_s")

    def __init__(self, ended: EndedLink, doubt: int, until_s: float) -> None:
        self.ended = ended
        self.doubt = doubt  # Sent messages that may or may not have arrived; 0 as soon as that is known
        self.is_heard = False  # The far side has told of this link on a later one; what it tells again is not counted
        self.until_s = until_s  # When this hub stops waiting for the far side to tell


class Accounts:
    """Losses with links, and the ended links that may still be settled."""

    def __init__(self, keepalive: Keepalive, tell: Callable[[Loss], object]) -> None:
        self._keepalive = keepalive
        self._tell = tell
        self.due_s = -1  # The slot in the wheel of deadlines, which alone sets it; -1 while no link is remembered
        # By hub and link, the oldest end first; until `SETTLE_S` is over, or there are too many
        self._ended: dict[tuple[bytes, bytes], Remembered] = {}
        self.lost_messages = 0  # Of this hub, known not to have arrived
        self.possibly_lost_messages = 0  # Of this hub; whether they arrived will never be known
        self.missed_messages = 0  # Of peers; they did not arrive here, as the peers have told

    @property
    def messages_in_doubt(self) -> int:
        """How many messages of ended links may still turn out to have arrived."""
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
        """Tell of messages in doubt, as the socket of their link is closed."""
        if one.doubt:
            self._tell(Loss(one.ended.peer, is_outward=True, messages=one.doubt, exactly=False))

    def former(self, hub: bytes) -> list[Account]:
        """Return the accounts of former links that a hub gets at the beginning of a new link."""
        ended = [one.ended for (other, _), one in self._ended.items() if other == hub]
        return [Account(one.link, one.offered, one.arrived) for one in ended[-TOLD_PER_LINK:]]

    def hear(self, hub: bytes, account: Account) -> None:
        """Take an account of an ended link, unless the far side has told before, or the link is forgotten."""
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
        """Count messages of a peer that did not come, or will not come any more, as it has told."""
        self.missed_messages += messages
        self._tell(Loss(peer, is_outward=False, messages=messages, exactly=True))

    def overtake(self, peer: Peer, messages: int) -> None:
        """Tell how many messages of a link were not taken, as a mesh has overtaken them: `hub.mesh` counts them."""
        self._tell(Loss(peer, is_outward=False, messages=messages, exactly=True, is_overtaken=True))

    def check(self, now_s: float) -> float:
        """Give up on far sides that have not come back in time; return when to look again."""
        while self._ended:
            key, one = next(iter(self._ended.items()))
            if one.until_s > now_s:
                return one.until_s
            self._give_up(key)
        return math.inf

    def _lose(self, peer: Peer, messages: int) -> None:
        self.lost_messages += messages
        self._tell(Loss(peer, is_outward=True, messages=messages, exactly=True))

    def _give_up(self, key: tuple[bytes, bytes]) -> None:
        self.possibly_lost_messages += self._ended.pop(key).doubt
