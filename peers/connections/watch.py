"""`Watch`: what one connection is looked at for, now and then: whether it may stay.

```
keepalive, when it is due ─▶ check ─┬─ an end has begun          ─▶ Ending.check
                                    ├─ no handshake in time      ─▶ conversation.time_out
                                    ├─ its proof has ended       ┐
                                    ├─ silent, and not our fault ├─▶ the end, with the reason
                                    ├─ a frame does not get on   ┘
                                    └─ silent for a while        ─▶ conversation.ping
```

Owner: one `Connection`, whose reads are the signs of life. Invariants: it is looked at for as long as its socket is
open, at the time that the last look has given; whoever this side does not read is not silent.

Cost: a look costs some µs; a read stores the time. Not here: when it is looked at (`peers.node.keepalive`), the rules
for silence (`peers.transport.liveness`) and for slow frames (`peers.connections.progress`), how an end goes on
(`peers.connections.ending`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hub.errors import CloseCode
from peers.connections.ending import LINGER_S
from peers.connections.progress import Progress
from peers.connections.reading import UNHEARD
from peers.transport.liveness import NO_ANSWER, Act, Liveness

if TYPE_CHECKING:
    from peers.connections.connection import Connection

__all__ = ["Watch"]

_PROOF_ENDED = "what was shown for who this is has ended and was not renewed; connect again with a fresh token"


class Watch:
    """Of one connection. See `peers.node.keepalive.Watched`."""

    __slots__ = ("_now_s", "_progress", "connection", "due_s", "liveness")

    def __init__(self, connection: Connection) -> None:
        limits = connection.node.settings.limits
        self.connection = connection
        """Whose it is; `OVER` once that is over."""
        self.due_s = -1
        self._now_s = connection.node.loop.time
        self.liveness = Liveness(0.0, limits.ping_after_s, limits.ping_timeout_s)
        """Its signs of life."""
        self._progress = Progress()

    def begin(self) -> float:
        """The socket is open: expect the handshake. Return the time."""
        self.hear()
        self.look_in(self.connection.node.settings.limits.handshake_s)
        return self.liveness.heard_s

    def hear(self) -> None:
        """The far side has shown that it is there, or could not show it, as it was not read."""
        self.liveness.heard_s = self._now_s()

    def opened(self) -> None:
        """The far side has said who it is: from now on it must give signs of life, and its proof must last."""
        due_s = self.liveness.heard_s + self.connection.node.settings.limits.ping_after_s
        self.look_in(min(due_s - self._now_s(), self.proof_left_s()))

    def proof_left_s(self) -> float:
        """Return how many seconds are left before what the far side has shown for who it is ends; inf for never."""
        identity = self.connection.identity
        if identity is None or identity.until_s == math.inf:
            return math.inf
        return identity.until_s - self.connection.node.wall_us() / 1e6

    def look_in(self, seconds: float) -> None:
        """Look at the connection after so long, unless its socket is closed by then."""
        connection = self.connection
        if not connection.is_lost:
            connection.node.keepalive.watch(self, connection.node.loop.time() + seconds)

    def check(self, now_s: float) -> float:
        """Keep the time limits; return when to look again."""
        try:
            return self.connection.ending.check(now_s) or self._look(now_s)
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            self.connection.fail(error)
            return now_s + LINGER_S

    def _look(self, now_s: float) -> float:
        conversation = self.connection.conversation
        if not conversation.is_open:
            conversation.time_out()
            return now_s + LINGER_S
        left_s = self.proof_left_s()
        if left_s <= 0:
            self.connection.end(CloseCode.NOT_RECOGNISED, _PROOF_ENDED)
            return now_s + LINGER_S
        return self._look_for_life(now_s, left_s)

    def _look_for_life(self, now_s: float, left_s: float) -> float:
        connection, limits = self.connection, self.connection.node.settings.limits
        step = self.liveness.check(now_s, reading=not connection.unread_for & UNHEARD)
        if step.act is Act.LOST:
            connection.end(CloseCode.PROTOCOL_ERROR, f"{NO_ANSWER} within {limits.ping_timeout_s:g} s")
            return now_s + LINGER_S
        if self._is_stuck(now_s):
            connection.node.cut_connections["incomplete"] += 1
            text = f"a frame has been incomplete for more than {limits.frame_s:g} s"
            connection.end(CloseCode.PROTOCOL_ERROR, text)
            return now_s + LINGER_S
        if step.act is Act.PING:
            connection.conversation.ping()
            connection.writer.write_outgoing()
        return min(step.next_s, now_s + left_s)

    def _is_stuck(self, now_s: float) -> bool:
        session, limits = self.connection.session, self.connection.node.settings.limits
        unfinished = session.unfinished
        if self.connection.unread_for:
            self._progress.forget()
        elif self.connection.has_acted:
            self._progress.go_on(unfinished)
        self.connection.has_acted = False
        return self._progress.is_stuck(now_s, session.held_bytes, limits, unfinished)
