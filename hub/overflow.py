"""What happens when a handler's queue is full: the three policies and the limits they guard.

Owner of the state: nobody, these are values. The queue that obeys them is in `hub.queue`, what is done by them in
`hub.waiting`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = ["Overflow", "QueueLimits", "overrun_text"]

_ADVICE = ": read faster or choose a drop policy"
"""What a client can do about a full queue. It is left out where the name of a user leaves no room for it."""

_CLOSE_CHARACTERS = 123
"""The text of a close is no longer than this (RFC 6455, section 5.5)."""


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


def overrun_text(why: str, lost_messages: int) -> str:
    """Return what is said to whoever is disconnected: why, how many messages were lost, and what can be done."""
    text = f"{why}, {lost_messages} messages lost"
    return text + _ADVICE if len(text + _ADVICE) <= _CLOSE_CHARACTERS else text
