"""What happens when a handler's queue is full: the three policies and the limits of the queue."""

from __future__ import annotations

from enum import StrEnum

import msgspec

_ADVICE = ": read faster or choose a drop policy"  # Left out where the name of a user leaves no room for it

_CLOSE_CHARACTERS = 123  # The text of a close is no longer than this (RFC 6455, section 5.5)


class Overflow(StrEnum):
    """Policy of a full queue. The texts are those of Zeek's Broker, with hyphens."""

    DISCONNECT = "disconnect"  # Throw the queue away and close the connection, with a code and a text that say why

    DROP_OLDEST = "drop-oldest"  # The oldest messages go until the new one fits

    DROP_NEWEST = "drop-newest"  # The new message goes


class QueueLimits(msgspec.Struct, frozen=True):
    """Bounds of one handler's queue, both in force at once.

    8192 messages and drop-oldest is what Zeek settled on after its first default (2048 and disconnect) proved too
    aggressive; 64 MiB is nats-server's bound of pending bytes.
    """

    messages: int = 8192  # 1 or more

    bytes: int = 64 * 1024 * 1024  # As `Batch.size_bytes` says, 1 or more

    overflow: Overflow = Overflow.DROP_OLDEST


def overrun_text(why: str, lost_messages: int) -> str:
    text = f"{why}, {lost_messages} messages lost"
    return text + _ADVICE if len(text + _ADVICE) <= _CLOSE_CHARACTERS else text
