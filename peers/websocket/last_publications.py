"""`LastPublications`: what a client over a WebSocket had published before it read this side's Close.

As `peers.wire.last_messages`, for the same reason: publications are taken, and what would have to be answered is not.
Whatever the session has to say to that stays unsaid, since nobody takes it.

Owner: one connection, which has it in place of the session (`peers.connections.conversation.Session`). No I/O.
"""

from __future__ import annotations

from peers.verbs.publish import Publication
from peers.websocket.session import Piece, Session
from peers.wire.events import Closing
from peers.wire.scanner import NEED_DATA, NeedData

__all__ = ["LastPublications"]


class LastPublications:
    """A conversation in which this side has said Close, and the other one perhaps has not.

    Args:
        session: It has said so (`Session.close_but_hear`).
    """

    __slots__ = ("_session", "feed")

    closed = has_more = True
    has_outgoing = False
    rejected_messages = 0

    def __init__(self, session: Session) -> None:
        self._session = session
        self.feed = session.feed

    @property
    def held_bytes(self) -> int:
        """How many bytes were read and not acted on."""
        return self._session.held_bytes

    @property
    def unfinished(self) -> int:
        """The number of the message of which fragments have come, but not the last one; 0 if there is none."""
        return self._session.unfinished

    def next_event(self) -> Piece | Publication | Closing | NeedData | None:
        """Return what there is to be read, the next publication, or the end; None for what is thrown away."""
        event = self._session.next_event()
        if event is NEED_DATA or isinstance(event, (Piece, Closing)):
            return event
        return event if isinstance(event, Publication) and not (event.confirm or event.request) else None

    def take_outgoing(self) -> bytes:
        """Return nothing: Close was the last word."""
        return b""
