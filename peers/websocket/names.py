"""`NameRequests`: service names over one WebSocket: `claim`, `release`, and how claims stand.

Owner: one conversation. Not here: claims (`peers.names`), whose a name is (`hub.names`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hub.errors import RejectedError
from hub.handler import Handler
from hub.names.claim import Change, Wish
from peers.names import NameClaims
from peers.node import Node
from peers.websocket.messages import Claim, Confirmed, NameStanding, RefusedError, Release
from peers.websocket.session import Session

__all__ = ["NameRequests"]


class Asker(Protocol):
    """The connection."""

    def speak(self) -> None:
        """Write what the session has to say, soon."""

    def when_writable(self, act: Callable[[], None]) -> None:
        """Call `act` whenever the client reads again."""


class NameRequests:
    """What one client does with names.

    Args:
        node: The hub.
        handler: Of the client.
        session: Where it is answered.
        asker: Told when there is something to say outside of a read.
    """

    __slots__ = ("_asker", "_claims", "_session")

    def __init__(self, node: Node, handler: Handler, session: Session, asker: Asker) -> None:
        self._session = session
        self._asker = asker
        self._claims = NameClaims(node, handler, self)
        asker.when_writable(self._claims.write_more)

    def act(self, message: Claim | Release) -> None:
        """Claim or release."""
        if isinstance(message, Claim):
            self._claims.claim(message.request, Wish(message.name, message.labels, message.queue))
        else:
            self._claims.release(message.request, message.name)

    def confirm(self, request: int, text: str) -> None:
        """Answer."""
        self._session.send(Confirmed(request, text=text))

    def refuse(self, error: RejectedError, request: int) -> None:
        """Answer."""
        self._session.reject(RefusedError(error.code, error.text, request))

    def tell(self, change: Change) -> None:
        """Tell of a later change."""
        self._session.send(NameStanding(change.name, change.standing.value, change.text))
        self._asker.speak()
