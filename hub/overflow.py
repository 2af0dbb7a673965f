"""What happens when a handler's queue is full: the three policies and the limits they guard.

Owner of the state: nobody, these are values. The queue that obeys them is in `hub.queue`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = ["Overflow", "QueueLimits"]


class Overflow(StrEnum):
    """Policy of a full queue. The texts are those of Zeek's Broker, with hyphens."""

    DISCONNECT = "disconnect"
    """Throw the queue away and close the connection, with a code and a text that say why."""

    DROP_OLDEST = "drop-oldest"
    """The oldest messages go until the new one fits."""

    DROP_NEWEST = "drop-newest"
    """The new message goes."""


class QueueLimits(msgspec.Struct, frozen=True):
    """Bounds of one handler's queue, both in force at once.

    The default of 8192 messages and drop-oldest is what Zeek settled on after its first default (2048 and
    disconnect) proved too aggressive; 64 MiB is nats-server's bound of pending bytes.
    """

    messages: int = 8192
    """Most messages held, 1 or more."""

    bytes: int = 64 * 1024 * 1024
    """Most memory held, bytes, as `Batch.size_bytes` says, 1 or more."""

    overflow: Overflow = Overflow.DROP_OLDEST
    """What goes when either bound is reached."""
