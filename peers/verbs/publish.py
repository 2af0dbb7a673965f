"""Publishing for WebSocket clients, and for publishers who want to know the offsets of their messages in the journal.

Ordinary MESSAGES frames never come here: a connection hands whole runs of them to `Core.publish`, which is what makes
them cheap. No state. Cost: one dictionary lookup, and one offer for each subscriber.
"""

from __future__ import annotations

from typing import NamedTuple

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import Frame, encode_frame
from hub.handler import Handler
from hub.routes import Route
from peers.node.node import Node

__all__ = ["Publication", "publish", "to_be_confirmed", "way"]

_LENGTH_BYTES = 4
"""Size of the length field, which stands in a frame before its routing key; see `hub.frame`."""


class Publication(NamedTuple):
    """Messages to publish, as one MESSAGES frame."""

    frame: bytes
    """The whole frame, with its length field and routing key."""
    routing_key: bytes
    """The routing key of the frame, on which the core decides who gets it."""
    messages: int
    """How many messages the frame holds."""
    request: int = 0
    """The publisher's number for the frame, 0 if it gave none."""
    confirm: bool = False
    """Whether the publisher wants to know the offset of these messages in the journal."""

    @property
    def batch(self) -> Batch:
        """The frame as the core takes it."""
        return Batch(self.frame, self.messages)

    @property
    def body_bytes(self) -> int:
        """Length of the frame's body, which is the length that limits refer to."""
        return len(self.frame) - _LENGTH_BYTES - len(self.routing_key)


def to_be_confirmed(frame: Frame) -> Publication:
    """Make a `Publication` of a MESSAGES frame that came with CONFIRM. The session has taken that flag off already."""
    raw = encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags)
    return Publication(raw, frame.routing_key, frame.messages, confirm=True)


def publish(node: Node, handler: Handler, publication: Publication) -> None:
    """Publish for a client.

    Raises:
        RejectedError: As `way`.
    """
    route = way(node, handler, publication)
    node.core.publish(handler, route, publication.batch)


def way(node: Node, handler: Handler, publication: Publication) -> Route:
    """Return the route that messages of a client take, if it may publish them.

    Raises:
        RejectedError: The messages are too large, or the client may not publish on this route; the text says why.
    """
    size_bytes, limit_bytes = publication.body_bytes, node.settings.limits.frame_bytes
    if size_bytes > limit_bytes:
        raise RejectedError(CloseCode.TOO_BIG, f"publish: {size_bytes} bytes as msgpack, the limit is {limit_bytes}")
    route = node.core.routes.of(publication.routing_key)
    node.core.refusals.check(handler, route, publication.batch)
    return route
