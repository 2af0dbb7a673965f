"""`NameRequests` and `LinkNames`: service names over one connection, of a client or of a link.

```
client: CLAIM, RELEASE ─▶ core.names ─▶ confirmed, error; later NOTICE owned, queued, lost
link:   NAMES ─▶ core.names.hear;  core.names ─▶ changes, merged per turn ─▶ NAMES
```

Owner: one connection. Invariant: what is to be told while the far side does not read is merged, one change a name.
Not here: whose a name is (`hub.names`), claims (`peers.names`).
"""

from __future__ import annotations

from typing import Protocol

from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.names.claim import Announced, Change, Standing
from hub.routes import Route
from peers.names import NameClaims
from peers.node import Node
from peers.wire.control import Notice, encode_notice
from peers.wire.names import (
    NAMES_PER_FRAME,
    NameClaim,
    NameRelease,
    NamesHeard,
    encode_names,
)
from peers.wire.session import Session

__all__ = ["LinkNames", "NameEvent", "NameRequests"]

NameEvent = NameClaim | NameRelease | NamesHeard

_FRAMES_PER_TURN = 4
"""NAMES frames written in one turn, so that a link that comes up does not hold up the rest: 2,000 names, 10 ms."""

_AROUND_BYTES = 16
"""What NAMES has beside its names."""

_BESIDE_BYTES = 32
"""What a name has beside its text and its labels: heads, time, owner."""

_BESIDE_LABEL_BYTES = 2


class Asker(Protocol):
    """The connection."""

    def answer(self, frame: bytes) -> None:
        """Say something, if there is still somebody to hear it."""


class NameRequests:
    """What one client does with names.

    Args:
        node: The hub.
        handler: Of the client.
        session: Where it is answered at once.
        asker: Where it is told of later changes.
    """

    __slots__ = ("_asker", "_claims", "_session")

    def __init__(self, node: Node, handler: Handler, session: Session[Route], asker: Asker) -> None:
        self._session = session
        self._asker = asker
        self._claims = NameClaims(node, handler, self)

    def act(self, event: NameEvent) -> int:
        """Claim or release; return its share of a turn beside the frame's own."""
        match event:
            case NameClaim():
                self._claims.claim(event.request, event.wish)
            case NameRelease():
                self._claims.release(event.request, event.name)
        return 0

    def write_more(self) -> None:
        """The client reads again."""
        self._claims.write_more()

    def confirm(self, request: int, text: str) -> None:
        """Answer."""
        self._session.send(encode_notice(Notice("confirmed", request=request, text=text)))

    def refuse(self, error: RejectedError, request: int) -> None:
        """Answer."""
        self._session.reject(error, request)

    def tell(self, change: Change) -> None:
        """Tell of a later change."""
        code = 0 if change.standing is Standing.OWNED else CloseCode.NOT_ALLOWED
        notice = Notice(change.standing.value, name=change.name, code=code, text=change.text)
        self._asker.answer(encode_notice(notice))


class LinkNames:
    """What this hub and a peer tell each other of names.

    Args:
        node: The hub.
        handler: Of the link, attached.
        session: Of the link.
        asker: Where it is told.
        limit_bytes: Largest body that the peer takes.
    """

    __slots__ = ("_asker", "_changes", "_handler", "_limit_bytes", "_node", "_session")

    def __init__(self, node: Node, handler: Handler, session: Session[Route], asker: Asker, limit_bytes: int) -> None:
        self._node = node
        self._handler = handler
        self._session = session
        self._asker = asker
        self._limit_bytes = limit_bytes
        self._changes: dict[str, Announced | None] = {}  # not told yet
        if session.far is not None:
            node.core.names.link(handler, session.far.id, self._change)

    def act(self, event: NameEvent) -> int:
        """Take what the peer announces; return its share of a turn beside the frame's own."""
        if not isinstance(event, NamesHeard):
            return 0
        try:
            self._node.core.names.hear(self._handler, event.held, event.released)
        except RejectedError as error:
            self._session.reject(error)
        return len(event.held) + len(event.released)

    def _change(self, name: str, announced: Announced | None) -> None:
        if not self._changes:
            self._node.after_turn(self.write_more)
        self._changes[name] = announced

    def write_more(self) -> None:
        """Tell what there is to tell, while the peer reads; a turn's share, the rest in the next."""
        for _ in range(_FRAMES_PER_TURN):
            if not self._changes or not self._handler.writable:
                return
            self._asker.answer(self._take())
        if self._changes:
            self._node.after_turn(self.write_more)

    def _take(self) -> bytes:
        """Return the next frame, as large as the peer takes it."""
        held: list[Announced] = []
        released: list[str] = []
        size_bytes = _AROUND_BYTES
        while self._changes and len(held) < NAMES_PER_FRAME and len(released) < NAMES_PER_FRAME:
            name = next(iter(self._changes))
            announced = self._changes[name]
            cost = _BESIDE_BYTES + len(name)
            if announced is not None:
                cost += sum(len(label.encode()) + _BESIDE_LABEL_BYTES for label in announced.labels)
            if size_bytes + cost > self._limit_bytes:
                if held or released:
                    break
                self._node.log.warning("name is too large for the frames of a peer", name=name, limit=self._limit_bytes)
                announced = None  # as far as the peer is told
            del self._changes[name]
            size_bytes += cost
            if announced is None:
                released.append(name)
            else:
                held.append(announced)
        return encode_names(held, released)
