"""The messages of `hub.v1.json` and `hub.v1.msgpack`, see docs/websocket.md, as typed values.

Values only; their two encodings are in `peers.websocket.codec`. What is published is a frame of the hub's own already.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from hub.batch import Batch
from hub.errors import RejectedError
from hub.overflow import QueueLimits
from peers.wire.hello import SOFTWARE, QueueWish

__all__ = [
    "ClientMessage",
    "Confirmed",
    "Dropped",
    "Error",
    "Hello",
    "HubMessage",
    "Ping",
    "Pong",
    "Publication",
    "RefusedError",
    "RequestNumber",
    "Subscribe",
    "Unsubscribe",
    "Welcome",
]

RequestNumber = Annotated[int, msgspec.Meta(ge=0)]
"""A number of the client's choice, 0 for none."""


# Client to hub.


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Who speaks, and the queue it wishes for."""

    name: str = ""
    queue: QueueWish | None = None


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe"):
    """From now on, messages under these prefixes."""

    prefixes: list[str]
    request: RequestNumber = 0


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe"):
    """The opposite."""

    prefixes: list[str]
    request: RequestNumber = 0


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Are you there?"""

    request: RequestNumber = 0


class Publication(NamedTuple):
    """Messages to publish, as one MESSAGES frame."""

    frame: bytes
    routing_key: bytes
    messages: int
    request: int

    @property
    def batch(self) -> Batch:
        """The same as a batch."""
        return Batch(self.frame, self.messages)


ClientMessage = Hello | Subscribe | Unsubscribe | Ping | Publication


# Hub to client.


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Who answers, and what is granted."""

    hub: str
    name: str
    queue: QueueLimits
    frame: int
    software: str = SOFTWARE


class Confirmed(msgspec.Struct, frozen=True, tag="confirmed"):
    """A request was carried out."""

    request: int


class Dropped(msgspec.Struct, frozen=True, tag="dropped"):
    """So many messages are missing here."""

    count: int


class Error(msgspec.Struct, frozen=True, tag="error", omit_defaults=True):
    """A message of the client's was refused."""

    code: int
    text: str
    request: int = 0


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """Answer to a ping."""

    request: int


HubMessage = Welcome | Confirmed | Dropped | Error | Pong


class RefusedError(RejectedError):
    """One message is refused.

    Attributes:
        request: The number that it bore, 0 for none.
        messages: How many values it wanted to publish, 0 if that is not known.
    """

    def __init__(self, code: int, text: str, request: int = 0, messages: int = 0) -> None:
        super().__init__(code, text)
        self.request = request
        self.messages = messages
