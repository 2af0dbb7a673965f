"""Publishing by WebSocket and HTTP clients, and with confirmation. Other MESSAGES go to `Core.publish` as runs."""

from __future__ import annotations

from typing import NamedTuple

from hub.errors import CloseCode, RejectedError
from hub.handlers.handler import Handler
from hub.messages.batch import Batch
from hub.messages.frame import Frame, encode_frame
from hub.routing.routes import Route
from peers.server.server import Server

_LENGTH_BYTES = 4
"""The length field in front of the routing key; see `hub.messages.frame`."""


class Publication(NamedTuple):
    """Messages to publish, as one MESSAGES frame."""

    frame: bytes
    """The whole frame."""
    routing_key: bytes
    messages: int
    """Number of messages."""
    request: int = 0
    """The publisher's number for the frame, or 0."""
    confirm: bool = False
    """Whether the publisher asks for the offset in the journal."""

    @property
    def batch(self) -> Batch:
        """The frame for the core."""
        return Batch(self.frame, self.messages)

    @property
    def body_bytes(self) -> int:
        """Length of the body, which limits refer to."""
        return len(self.frame) - _LENGTH_BYTES - len(self.routing_key)


def to_be_confirmed(frame: Frame) -> Publication:
    """Make a `Publication` of a frame with CONFIRM, a flag that the session has removed."""
    raw = encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags)
    return Publication(raw, frame.routing_key, frame.messages, confirm=True)


def publish(server: Server, handler: Handler, publication: Publication) -> None:
    """Publish for a client; raises as `way`."""
    route = way(server, handler, publication)
    server.core.publish(handler, route, publication.batch)


def way(server: Server, handler: Handler, publication: Publication) -> Route:
    """Return the route of messages of a client.

    Raises:
        RejectedError: The messages are too large, or the client may not publish them.
    """
    size_bytes, limit_bytes = publication.body_bytes, server.settings.limits.frame_bytes
    if size_bytes > limit_bytes:
        raise RejectedError(CloseCode.TOO_BIG, f"publish: {size_bytes} bytes as msgpack, the limit is {limit_bytes}")
    route = server.core.routes.of(publication.routing_key)
    server.core.authority.check(handler, route, publication.batch)
    return route
