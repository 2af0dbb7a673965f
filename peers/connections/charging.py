"""`Charging`: what the user of one connection is charged for it: its place, what it holds, and how fast it is read.

```
recognised ─▶ take_place ─▶ a place of the user ─ hand_over ─▶ his handler's share ─▶ begin ─▶ Holding, Pacing
                                                └─ leave, if it never becomes a part of the hub
```

Owner: one `Connection`, from when its user is known. Invariants: a place is this connection's or its handler's, never
both, and is given back once; whoever may not publish yet is not read on.

Cost: per connection; two tests for each read, and 2 µs where the user has a rate. Not here: who the user is
(`peers.connections.door`), what he may have (`hub.quotas`), when a paced connection goes on
(`peers.connections.pacing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hub.policy.grants import User
from hub.quotas.quotas import Share
from peers.connections.pacing import Pacing
from peers.connections.reading import ENTERING, KEPT_OUT, PACED

if TYPE_CHECKING:
    from hub.handler import Handler
    from peers.connections.connection import Connection

__all__ = ["Charging"]


class Charging:
    """Of one connection."""

    __slots__ = ("_place", "connection")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        """Whose it is; `OVER` once that is over."""
        self._place: Share | None = None
        """What the connection is charged to, from when it is known who the far side is until its handler has that."""

    # Its place.

    @property
    def has_place(self) -> bool:
        """Whether the connection is charged to a user, and its handler is not yet."""
        return self._place is not None

    def take_place(self, user: User) -> None:
        """Charge the connection to a user; once it has become a part of the hub, its handler is what is charged.

        Raises:
            RejectedError: He has as many as he may have.
        """
        before, quotas = self._place, self.connection.node.core.quotas
        if before is None or before.user != user.name:
            self._place = quotas.join(user.name, user.roles)
            if before is not None:  # a browser has shown another token than its header had
                quotas.leave(before)

    def hand_over(self, handler: Handler) -> None:
        """The far side becomes a part of the hub: its handler is charged from now on."""
        handler.share, self._place = self._place, None

    def leave(self) -> None:
        """The far side is gone: give its place back, if its handler has not done so."""
        if self._place is not None:
            place, self._place = self._place, None
            self.connection.node.core.quotas.leave(place)

    # What it holds, and how fast it is.

    def begin(self) -> None:
        """The core has taken the far side in: charge its user for what this connection holds, and keep his rate."""
        connection = self.connection
        handler = connection.handler
        if handler is None or handler.rights is None:
            return
        if handler.share is None:  # one connection too many: the core closes it as the turn ends
            connection.stop_reading(ENTERING)
            return
        connection.holding.charge(handler.share.transit, connection.writer)
        pacing = connection.pacing = Pacing(handler.share.rate, handler, connection.node.loop, self._go_on)
        if pacing.rate.is_limited and pacing.spend(0):
            connection.stop_reading(ENTERING)

    def count(self, size_bytes: int) -> None:
        """Count what was read, and read no further if that was too much."""
        connection = self.connection
        pacing = connection.pacing
        if pacing is None or not pacing.rate.is_limited:
            return
        if pacing.spend(size_bytes) and not (connection.session.closed or connection.transport.is_closing()):
            connection.stop_reading(PACED)

    def _go_on(self) -> None:
        """The user of the far side may publish again."""
        self.connection.watch.hear()  # as where the journal had held it back
        self.connection.read_on(PACED)
        self.connection.let_in(ENTERING)

    def end(self) -> None:
        """Read what comes, however fast: it is not acted on any more."""
        connection = self.connection
        if connection.pacing is not None:
            connection.pacing.leave()
        connection.unread_for &= ~(PACED | KEPT_OUT)

    def conclude(self) -> None:
        """Count what was routed at the very end: it was put off until then."""
        pacing, self.connection.pacing = self.connection.pacing, None
        if pacing is not None and pacing.rate.is_limited:
            pacing.spend(0)
