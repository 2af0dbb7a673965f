"""Dialogues: they carry out what a client's messages ask of the hub, once the WebSocket is open.

```
path            codec                        dialogue
/v1/hub         hub.v1.json, hub.v1.msgpack   HubDialogue (here)
another path    its own                       one of the same shape, such as that of `peers.websocket.zeek`
```

Owner: one `peers.connections.websocket.WebSocketConversation`, which makes it when it has accepted the handshake and
brings it every message of the client. All of it is synchronous. Invariant: a client becomes a handler with its first
message. Before that it can receive nothing; and as `hello` comes first, its name is known when it is announced.

Not here: frames (`peers.websocket.session`), the socket and its ends (`peers.connections.websocket`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import UNSET

from hub.errors import RejectedError
from hub.handler import Handler
from hub.outlet import Poster as HandlerPoster
from hub.overflow import QueueLimits
from peers.node.node import Node
from peers.verbs.verbs import Verbs
from peers.websocket.far_side import WebSocketFarSide
from peers.websocket.messages import ClientMessage, Confirmed, Hello, Ping, RefusedError, Welcome
from peers.websocket.poster import Poster
from peers.websocket.session import Session
from peers.wire.hello import grant
from peers.wire.token import Renewal

__all__ = ["Carrier", "Dialogue", "HubDialogue"]


_TOKEN_EVENTS = 10
"""What a fresh token costs of a turn's share, beyond reading it: a signature may have to be checked, 100 µs."""


class Carrier(Protocol):
    """The connection, as far as a conversation needs it."""

    @property
    def proof_left_s(self) -> float:
        """How many seconds are left before what the client has shown for who it is ends; inf for never."""

    @property
    def user(self) -> str:
        """Who the client is; empty before that is known, and where nobody is asked."""

    def let_in(self, token: str) -> bool:
        """Return whether the client may come in, by this token or what it has shown before; else it is turned away."""

    def renew(self, token: str) -> None:
        """Take a fresh token; raises `RejectedError` if it is not known, or another user's."""

    def join(self, name: str, limits: QueueLimits, poster: HandlerPoster | None = None) -> Handler:
        """Make the client a handler of the core, with that name and queue; a poster lets it send requests and serve."""

    def write(self, frames: list[bytes]) -> None:
        """Write ready frames, after what the session has to say."""

    def owe(self) -> None:
        """Take note that the client is owed answers: nothing is read from it while it does not read."""

    def write_later(self) -> None:
        """Write soon what the session has to say, as it was given an answer outside of a read."""

    def when_writable(self, act: Callable[[], None]) -> None:
        """Call `act` whenever the client reads again."""

    def when_gone(self, act: Callable[[], None]) -> None:
        """Call `act` when nobody is there to be answered any more."""

    def end(self, code: int, text: str) -> None:
        """Close the connection, with a code and a text that says why."""


class Dialogue(Protocol):
    """What differs, apart from the codec, between the protocols that are spoken over a WebSocket."""

    def begin(self) -> None:
        """Begin, as the handshake is over."""

    def act(self, message: ClientMessage) -> int:
        """Do what the client asks for, and answer it; return how much work that was, beyond reading it."""

    def end(self, code: int, text: str) -> tuple[int, str]:
        """Translate the code and the text with which the hub ends the connection into those of the Close."""


class HubDialogue:
    """The dialogue in the hub's own protocol.

    Args:
        node: The hub.
        session: The session by which the client is answered.
        queue: The queue of the client if it has no wish.
        carrier: The connection.
    """

    __slots__ = ("_carrier", "_node", "_queue", "_session", "_verbs")

    _verbs: Verbs | None
    """None until the first message of the client, which makes it a handler."""

    def __init__(self, node: Node, session: Session, queue: QueueLimits, carrier: Carrier) -> None:
        self._node = node
        self._session = session
        self._queue = queue
        self._carrier = carrier
        self._verbs = None

    def begin(self) -> None:
        """Welcome the client."""
        self._welcome(self._queue)

    def act(self, message: ClientMessage) -> int:
        """Do what the client asks for."""
        match message:
            case Hello():
                self._greet(message)
            case Ping():
                pass  # the session has answered it
            case Renewal():
                self._renew(message)
                return _TOKEN_EVENTS
            case _:
                verbs = self._verbs
                if verbs is None:
                    if not self._carrier.let_in(""):
                        return 0
                    verbs = self._take_in("", self._queue)
                return verbs.act(message)
        return 0

    def end(self, code: int, text: str) -> tuple[int, str]:
        """Return both as they are: this protocol has the hub's own codes."""
        return code, text

    def _greet(self, hello: Hello) -> None:
        """Take the name and the wish of the client, and welcome it again with what it is granted."""
        if not self._carrier.let_in(hello.token):
            return
        most = self._node.settings.queue_max
        limits = grant(hello.queue, self._queue, most.messages, most.bytes)
        self._take_in(hello.name, limits, narrow=hello.narrow)
        self._welcome(limits)

    def _renew(self, renewal: Renewal) -> None:
        """Take a fresh token of a client that was let in."""
        if self._verbs is None and not self._carrier.let_in(""):
            return
        try:
            self._carrier.renew(renewal.token)
        except RejectedError as error:
            self._session.reject(RefusedError(error.code, error.text, renewal.request))
            return
        if renewal.request:
            left_s = self._carrier.proof_left_s
            self._session.send(Confirmed(renewal.request, until=None if left_s == math.inf else max(0.0, left_s)))

    def _take_in(self, name: str, limits: QueueLimits, *, narrow: bool = False) -> Verbs:
        """Make the client a handler, as it asks for something or has said its name."""
        node = self._node
        poster = Poster(node, self._session, self._carrier)
        handler = poster.handler = self._carrier.join(name, limits, poster)
        handler.narrows = narrow
        far = WebSocketFarSide(self._session, self._carrier, node.settings.limits.frame_bytes)
        verbs = self._verbs = Verbs(node, handler, far)
        far.act = verbs.act
        self._carrier.when_writable(verbs.write_more)
        self._carrier.when_gone(partial(_let_go, verbs, far))
        return verbs

    def _welcome(self, limits: QueueLimits) -> None:
        node = self._node
        frame_bytes = node.settings.limits.frame_bytes
        journal = node.journal.id.hex() or UNSET
        left_s = self._carrier.proof_left_s
        welcome = Welcome(
            node.id.hex(),
            node.name,
            limits,
            frame_bytes,
            journal=journal,
            until=UNSET if left_s == math.inf else max(0.0, left_s),
            user=self._carrier.user or UNSET,
            strangers=node.access.anonymous or UNSET,
        )
        self._session.send(welcome)


def _let_go(verbs: Verbs, far: WebSocketFarSide) -> None:
    """The client has gone: nothing more is done for it, and what knows each other lets go."""
    verbs.close()
    far.act = _ignore


def _ignore(_: object) -> None:
    """Stand in for the verbs of a client that has gone."""
