"""`Accounts`: how many messages were lost with links that have ended, as exactly as the two hubs can find out.

A link carries messages without answers, so messages that are on their way when it is cut are gone. Each hub knows one
half of the account: one how many messages it has sent, the other how many have arrived. They tell each other once a
second while the link stands, after a goodbye, and of former links at the beginning of the next one.

```
while it stands    ACCOUNT arrived ─▶ what the other side may miss is never more than a second's messages
it ends            sent less arrived is in doubt: told at once as "at most"; what still waited here is lost for sure
next link, same hubs, each side tells what it had to send, and what arrived ─▶ settled: lost, missed exactly
nobody comes back within SETTLE_S                                       ─▶ settled: "at most" is all that will be known
```

A hub that is killed has another id when it is back, and a hub of an older version sends no accounts: in both cases "at
most" is all that will be known. Nobody knows on which topics the lost messages were, so subscribers are told by an
event of the hub, `$hub/links/lost`, and not within their streams.

Owner: the node. No I/O, no clock. Memory: at most `REMEMBERED` ended links, about 300 bytes each.
Not here: counting the messages of a link (`hub.handler`), frames (`peers.wire.account`), sending them
(`peers.links.link`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from peers.node.keepalive import Keepalive
from peers.wire.account import Account

SETTLE_S: Final = 60.0
"""How long a far side may take to come back and tell, seconds. That is ample: links are dialled every second or two."""

REMEMBERED: Final = 1024
"""Most ended links that are remembered; when one more ends, the oldest is settled and forgotten."""

TOLD_PER_LINK: Final = 16
"""Most former links that a far side is told of, which are the last ones. There are more only if links end again and
again before either side could tell."""


class Peer(NamedTuple):
    """The hub at the far side of a link."""

    hub: bytes
    """The id of the hub."""
    name: str
    """The name that it has given in HELLO."""
    address: str
    """The address of its end of the link."""


class EndedLink(NamedTuple):
    """A link at its end, as this hub knows it."""

    link: bytes
    """The id of the link, which both sides know; empty if the far side sends no accounts."""
    peer: Peer
    """The hub at its far side."""
    offered: int
    """How many messages this side had for it: written, dropped from its queue, or waiting there."""
    sent: int
    """How many of them were written."""
    arrived: int
    """How many messages have come over it."""
    missed: int
    """How many messages the far side has told that it has dropped."""
    waiting: int
    """How many messages were still queued for it, and so were never written."""
    confirmed: int
    """How many of the sent messages have arrived, as the far side has told last."""
    is_settled: bool
    """Whether `confirmed` is final: the far side has told it as its last word, or has left in order after a goodbye."""


class Loss(NamedTuple):
    """Messages that were lost with a link, for the log and for `$hub/links/lost`."""

    peer: Peer
    """The hub at the far side of the link."""
    is_outward: bool
    """True for messages that this hub had sent, False for messages that were sent to it."""
    messages: int
    """How many messages were lost, or may have been; 0 where messages in doubt have arrived after all."""
    exactly: bool
    """True if exactly so many were lost, False if at most so many were."""
    is_overtaken: bool = False
    """True for messages that have arrived, and were not taken: newer ones of their hub had come by another way."""
    is_stranded: bool = False
    """True for messages for that hub that have come here, and nothing leads on to it any more."""


class Remembered:
    """An ended link, for as long as it may be settled."""

    __slots__ = ("doubt", "ended", "is_heard", "until_s")

    def __init__(self, ended: EndedLink, doubt: int, until_s: float) -> None:
        self.ended = ended
        self.doubt = doubt
        """How many sent messages may or may not have arrived; 0 as soon as that is known."""
        self.is_heard = False
        """Becomes True when the far side tells of this link on a later one; what it tells again is not counted."""
        self.until_s = until_s
        """When this hub stops waiting for the far side to tell."""


class Accounts:
    """Losses with links, and the ended links that may still be settled.

    Args:
        keepalive: Where deadlines are watched.
        tell: Called with each loss, and with what has become of one that was told as "at most".
    """

    def __init__(self, keepalive: Keepalive, tell: Callable[[Loss], object]) -> None:
        self._keepalive = keepalive
        self._tell = tell
        self.due_s = -1
        """The slot in the wheel of deadlines, which alone sets it; -1 while no link is remembered."""
        self._ended: dict[tuple[bytes, bytes], Remembered] = {}
        """Ended links by hub and link, the oldest end first. `end` adds a link; it is removed after `SETTLE_S`, or when
        there are too many."""
        self.lost_messages = 0
        """How many messages of this hub are known not to have arrived, since the start."""
        self.possibly_lost_messages = 0
        """For how many messages of this hub nobody will ever know whether they arrived, since the start."""
        self.missed_messages = 0
        """How many messages of peers did not arrive here, as the peers have told, since the start."""
        self.refused = 0
        """How often a peer had no room for what this hub told it of itself, since the start; it is told that again."""

    @property
    def messages_in_doubt(self) -> int:
        """How many messages of ended links may still turn out to have arrived."""
        return sum(one.doubt for one in self._ended.values())

    def end(self, ended: EndedLink, now_s: float) -> Remembered:
        """Take note that a link is over; `conclude` must follow when its socket is closed."""
        doubt = ended.sent - ended.confirmed
        lost = ended.waiting
        if ended.is_settled:
            lost, doubt = lost + doubt, 0
        if lost:
            self._lose(ended.peer, lost)
        one = Remembered(ended, doubt, now_s + SETTLE_S)
        if ended.link:
            if len(self._ended) >= REMEMBERED:
                self._give_up(next(iter(self._ended)))
            self._ended[ended.peer.hub, ended.link] = one
            if len(self._ended) == 1:
                self._keepalive.watch(self, one.until_s)
        return one

    def conclude(self, one: Remembered, *, in_order: bool) -> None:
        """Tell of messages in doubt.

        Args:
            one: The link.
            in_order: Whether the stream has ended behind this side's CLOSE. A far side that tells no accounts is then
                believed to have read all; others would have told, and it may be the way between that has ended.
        """
        if one.doubt and (one.ended.link or not in_order):
            self._tell(Loss(one.ended.peer, is_outward=True, messages=one.doubt, exactly=False))
            if one.ended.link:
                return
            self.possibly_lost_messages += one.doubt  # the far side will never tell
        one.doubt = 0

    def former(self, hub: bytes) -> list[Account]:
        """Return the accounts of former links that a hub is sent at the beginning of a new link."""
        ended = [one.ended for (other, _), one in self._ended.items() if other == hub]
        return [Account(one.link, one.offered, one.arrived) for one in ended[-TOLD_PER_LINK:]]

    def hear(self, hub: bytes, account: Account) -> None:
        """Take what the far side tells of an ended link, unless it has told before, or the link is forgotten."""
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
        """Take note that a peer has told how many of its messages did not come, or will not come any more."""
        self.missed_messages += messages
        self._tell(Loss(peer, is_outward=False, messages=messages, exactly=True))

    def overtake(self, peer: Peer, messages: int) -> None:
        """Tell how many messages of a link were not taken, as a mesh has overtaken them: `hub.mesh` counts them."""
        self._tell(Loss(peer, is_outward=False, messages=messages, exactly=True, is_overtaken=True))

    def strand(self, peer: Peer, messages: int) -> None:
        """Tell how many messages for a hub, linked or not, have come here in vain: `hub.mesh` counts them."""
        self._tell(Loss(peer, is_outward=True, messages=messages, exactly=False, is_stranded=True))

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
