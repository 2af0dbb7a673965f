"""`Ending`: how one connection is ended from this side, so that the far side learns why.

```
drain ── queue written ─▶ conversation.drain ─▶ end ─▶ the last frame ─▶ linger ─▶ over
drain_publisher ─▶ the last frame, and what the far side sends before it reads that ─▶ linger ─▶ over

linger ──▶ all is read            ──2 s──▶ over    the far side has the last frame; it may still be sending
       └─▶ something is unread, and it gets less ─▶ go on, up to `limits.linger_s`
       └─▶ something is unread, and it does not  ──`limits.linger_unread_s`──▶ over
```

Purpose: a socket that is closed while bytes wait in it tears the frame that they belong to, and one that is closed with
unread input resets the connection: either way the far side never learns the reason. So this side stops sending, reads
on, and throws away what it reads (`Lingering`).

Owner: one `Connection`. Invariants: nothing is said behind the last word; every end that is awaited has a time at which
the connection is looked at (`check`); the far side leaves the hub with the last word, and not only with the socket.

Not here: what the last word is (`peers.connections.conversation`), which far side is ended because it is silent or
stuck (`peers.connections.watch`), what is given back once the socket is closed (`peers.connections.connection`).
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from hub.delivery import Role
from hub.errors import CloseCode, NotRecognisedError
from hub.settings.limits import Limits
from peers.connections.ended import ENDED
from peers.connections.unread import unread_bytes
from peers.transport.transport import end_writing

if TYPE_CHECKING:
    import asyncio

    from hub.handler import Handler
    from peers.connections.connection import Connection

__all__ = ["LINGER_S", "Ending", "Lingering"]

LINGER_S = 2.0
"""Between two looks, seconds; and how long a far side that has everything may take to close."""


class Lingering:
    """One end.

    Args:
        now_s: When it was said, of a monotonic clock.
        unread_bytes: What the far side has not taken yet, the last frame with it.
        limits: How long it may take to read that, or something of it.
    """

    __slots__ = ("_limit_s", "_read_s", "_unread_bytes", "_unread_s")

    def __init__(self, now_s: float, unread_bytes: int, limits: Limits) -> None:
        self._limit_s = now_s + limits.linger_s
        self._unread_s = limits.linger_unread_s
        self._read_s = now_s  # when the far side was last seen to have read
        self._unread_bytes = unread_bytes  # at the last look

    def check(self, now_s: float, unread_bytes: int) -> float:
        """Return when to look again, infinity if the connection is to be closed now."""
        if unread_bytes < self._unread_bytes:
            self._read_s = now_s
            self._unread_bytes = unread_bytes
        if not unread_bytes or now_s >= min(self._limit_s, self._read_s + self._unread_s):
            return math.inf
        return now_s + LINGER_S


class Ending:
    """Of one connection."""

    __slots__ = (
        "_drain_text",
        "_is_expected",
        "_lingering",
        "_turned_away",
        "connection",
        "far_side_closes",
        "is_last",
    )

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        """Whose it is; `OVER` once that is over."""
        self._drain_text = ""
        """What the far side is told once its queue has run out, because the hub stops; empty before that."""
        self.is_last = False
        """Whether this side has said its last word, and still takes what the far side has sent before it reads that."""
        self.far_side_closes = False
        """Whether the far side closes the socket first, as servers of WebSockets do.

        Zeek's cannot answer a Close that comes with the end of the stream, and takes it for an internal error.
        """
        self._lingering: Lingering | None = None
        """Set when this side has ended the connection and waits for the far side to read why."""
        self._is_expected = False
        """Whether the end was agreed on, or is awaited: the next look closes the socket."""
        self._turned_away: NotRecognisedError | None = None
        """What the far side, which was not recognised, is told once its answer is due; None for all others."""

    @property
    def is_lingering(self) -> bool:
        """Whether the last word was said, and what is read is thrown away."""
        return self._lingering is not None

    # The hub stops.

    def drain(self, text: str) -> None:
        """Write what is queued while the daemon waits, then tell the far side.

        What goes wrong ends this connection, and does not keep the hub from stopping.
        """
        self._drain_text = text
        self.connection.guard(self._drain)

    def drain_on(self) -> None:
        """The far side reads on: tell it what it was to be told behind its queue, if that has run out."""
        if self._drain_text:
            self._drain()

    def _drain(self) -> None:
        connection = self.connection
        if self.is_last:  # it was told, and has had its time
            self.is_last = False
            connection.go_on_with(ENDED.session)
            self.linger()
            return
        handler = connection.handler
        if handler is not None and not handler.closed:
            handler.write_pending()
        if (handler is None or handler.writable) and not connection.session.closed:
            connection.conversation.drain(self._drain_text)

    def drain_publisher(self, text: str, *, only: bool) -> asyncio.Future[None] | None:
        """Tell a client that has published, and take what it has sent before it reads that.

        Args:
            text: What it is told.
            only: Leave out one that subscribes to something, too.

        Returns:
            What is done when that is over; None if it is no such client, which is told nothing.
        """
        connection = self.connection
        handler = connection.handler
        if handler is None or handler.closed or connection.session.closed or not handler.published_messages:
            return None
        if handler.role is not Role.CLIENT or (
            only and (handler.prefixes or any(connection.node.core.rules.of(handler)))
        ):
            return None
        connection.guard(partial(self._drain_publisher, handler, text))
        return connection.lost if self.is_last else None

    def _drain_publisher(self, handler: Handler, text: str) -> None:
        connection = self.connection
        handler.write_pending()
        last = connection.conversation.drain_publisher(text) if handler.writable else None
        if last is None:
            return
        connection.reason = f"{text} ({int(CloseCode.GOING_AWAY)})"
        connection.writer.write_outgoing()
        handler.shut()
        end_writing(connection.transport)
        connection.go_on_with(last)
        self.is_last = True
        connection.lost = connection.lost or connection.node.loop.create_future()
        self.look_in(LINGER_S)

    # The last word.

    def end(self, code: int, text: str) -> None:
        """Close from this side, with a reason, and let the far side read it."""
        connection = self.connection
        if not connection.session.closed:
            connection.reason = connection.conversation.close(code, text)
            self.linger()

    def turn_away(self, error: NotRecognisedError) -> None:
        """The far side was not recognised: say so when its answer is due, and read nothing until then."""
        self._turned_away = error
        if error.delay_s > 0:
            self.connection.hold(error.delay_s)
        else:
            self.end(error.code, error.text)

    def linger(self) -> None:
        """Stop sending, but read on for a while and throw it away, so that the far side can read why."""
        connection = self.connection
        connection.writer.write_outgoing()
        self._depart()
        if connection.transport.is_closing():
            return
        if not self.far_side_closes and not end_writing(connection.transport):
            connection.transport.close()
            return
        connection.read_all()
        connection.holding.begin(connection.session.held_bytes)
        limits = connection.node.settings.limits
        self._lingering = Lingering(connection.node.loop.time(), unread_bytes(connection.transport), limits)
        connection.read_on()
        self.look_in(LINGER_S)

    def finish(self, reason: str) -> None:
        """Both sides know that it is over: close the socket once everything is written."""
        connection = self.connection
        connection.reason = connection.reason or reason
        connection.writer.write_outgoing()
        self._depart()
        connection.transport.close()
        self.look_in(LINGER_S)

    def expect(self, seconds: float) -> None:
        """Close the socket after so long, if the far side has not ended the conversation by then."""
        self._is_expected = True
        self.look_in(seconds)

    def abandon(self) -> None:
        """Whoever dialled has given up, perhaps in the moment in which the connection was made.

        uvloop then closes the socket without `connection_lost`, so the connection is given back here.
        """
        connection = self.connection
        if connection in connection.node.connections:
            connection.transport.abort()
            connection.connection_lost(None)

    # The far side leaves.

    def _depart(self) -> None:
        """Let the far side be no part of the hub any more: a client that takes nothing more may leave in a later turn.

        Thousands may say CLOSE at once. A peer leaves now: another link may be waiting for its place.
        """
        connection = self.connection
        handler = connection.handler
        if handler is None or handler.delivery.role is not Role.CLIENT:
            connection.leave()
        else:
            handler.shut()
            connection.node.core.depart(partial(connection.guard, connection.leave))

    # Time.

    def look_in(self, seconds: float) -> None:
        """Look after so long what has become of it."""
        self.connection.watch.look_in(seconds)

    def check(self, now_s: float) -> float:
        """Do what is due of an end; return when to look again, 0 if none has begun."""
        connection = self.connection
        if self._lingering is not None:
            unread = unread_bytes(connection.transport)
            next_s = self._lingering.check(now_s, unread)
            if next_s == math.inf:
                connection.node.cut_connections["unread"] += bool(unread)
                connection.transport.abort()
            return next_s
        if connection.session.closed or self._is_expected:
            connection.transport.abort()
            return math.inf
        if self._turned_away is not None:
            self.end(self._turned_away.code, self._turned_away.text)
            return now_s + LINGER_S
        return 0.0
