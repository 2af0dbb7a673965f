"""What waits for a slow client, and what waits for an answer: how much at the most, and how long.

`QueueLimits` and `RequestLimits` are values of the core and carry no ranges; `RANGED` has those for what people set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hub.overflow import Overflow
from hub.settings.ranges import LIVE, MIB, SMALLEST_QUEUE_BYTES, TIB, between

__all__ = ["RANGED", "QueueMaximum"]

# A billion messages or a tebibyte is no bound that anybody means: above it is a slip of the keyboard.
_QueueMessages = Annotated[int, between("messages", 1, 10**9, "Most messages that a queue holds."), LIVE]

_QueueBytes = Annotated[
    int, between("bytes", SMALLEST_QUEUE_BYTES, TIB, "Most memory that the messages in a queue take."), LIVE
]

_QueueOverflow = Annotated[
    Overflow,
    Meta(
        description="What goes when the queue is full: "
        "everything and the connection, the oldest, or the newest message."
    ),
    LIVE,
]

_LONGEST_TIMEOUT_S = 86_400.0

_REQUESTS_RANGED: Mapping[str, Any] = {
    "requests.pending": Annotated[
        int, between("requests", 1, 10**9, "Requests of one client without an answer yet; one more overflows.")
    ],
    "requests.pending_total": Annotated[
        int, between("requests", 1, 10**9, "Requests of all without an answer yet; one more overflows.")
    ],
    "requests.timeout_s": Annotated[
        float, between("seconds", 0.01, _LONGEST_TIMEOUT_S, "Time for an answer where a request does not say it.")
    ],
    "requests.timeout_max_s": Annotated[
        float,
        between("seconds", 0.01, _LONGEST_TIMEOUT_S, "Longest time that a request may ask for; more is cut to it."),
    ],
}


class QueueMaximum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The largest queue that a client may wish for; a larger wish is granted this much."""

    messages: Annotated[
        int, between("messages", 1, 10**9, "Most messages that a client or a listener's URL may ask for."), LIVE
    ] = 1_000_000
    bytes: Annotated[
        int,
        between("bytes", SMALLEST_QUEUE_BYTES, TIB, "Most memory that a client or a listener's URL may ask for."),
        LIVE,
    ] = 256 * MIB


RANGED: Mapping[str, Any] = {
    "queue.messages": _QueueMessages,
    "queue.bytes": _QueueBytes,
    "queue.overflow": _QueueOverflow,
    **_REQUESTS_RANGED,
}
"""The annotations of keys by their paths."""
