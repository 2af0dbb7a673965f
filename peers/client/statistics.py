"""`ClientStatistics`: a client at one moment."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ClientStatistics"]


class ClientStatistics(NamedTuple):
    """A client at one moment. Counts are from its beginning."""

    connected: bool
    connections: int
    """How often a connection was made."""
    published_messages: int
    """Taken by `publish` and `publish_nowait`."""
    buffered_bytes: int
    """Of these, what waits to be sent."""
    unsent_messages: int
    """Of these, left over when the client ended."""
    received_messages: int
    received_bytes: int
    dropped_messages: int
    """Lost for this client in the hub, as told by it."""
    rejected_messages: int
    """Published here and refused by the hub, or too large for the hub that is connected now."""
    bad_messages: int
    """Received and not msgpack; once for each subscription that got them."""
    prefixes: int
    """Different ones, subscribed."""
    paused: bool
    """Whether a full stream keeps the client from reading."""
    pending_requests: int
    """Asked here and not answered yet."""
    late_replies: int
    """Came when nobody waited for them any more."""
    served_requests: int
    """Answered here, or on the way to it."""
