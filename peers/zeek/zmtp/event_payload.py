"""`check_event`: whether a payload in Broker's binary format is an event, which a node may be given.

```
vector [count 1, count 1, vector [name string, vector of arguments, perhaps metadata ...]]
└────────── EVENT_BEGINNING ───┘
```

Everything that a node publishes is looked at as a whole, since it is passed on to nodes as it came: a value that nests
deep ends C++ Broker's process, and what ends early, or is no event, has nobody here who could read it.

No state. Cost: 8 µs for an event of two arguments. `_zmtp.pyx` finds plain events sound by itself, in 0.02 µs, and
asks here about all others. Not here: payloads in JSON (`peers.zeek.zmtp.event_json`).
"""

from __future__ import annotations

from collections.abc import Callable

from hub.errors import CloseCode, RejectedError
from peers.values import InvalidDataError, check
from peers.values.layout import Tag, read_length
from peers.zeek.zmtp.event_head import EVENT_BEGINNING

__all__ = ["check_event", "is_event", "is_event_at"]

_SHOWN_BYTES = 20
_LEAST_PARTS = 2


def check_event(payload: bytes) -> None:
    """Accept a payload that is an event.

    Raises:
        RejectedError: It is another value.
        InvalidDataError: It is none.
    """
    if payload.startswith(EVENT_BEGINNING):
        check(payload)
        parts, position = read_length(payload, len(EVENT_BEGINNING))
        if parts >= _LEAST_PARTS and payload[position] == Tag.STRING:
            size, position = read_length(payload, position + 1)
            if payload[position + size] == Tag.VECTOR:
                return
    raise RejectedError(CloseCode.BAD_DATA, f"the payload is no event: {payload[:_SHOWN_BYTES].hex()}")


def is_event(payload: bytes) -> bool:
    """Return whether `check_event` accepts a payload."""
    try:
        check_event(payload)
    except (RejectedError, InvalidDataError):
        return False
    return True


def is_event_at(data: bytes, start: int, end: int, is_event: Callable[[bytes], bool]) -> bool:
    """Return whether an event stands in some bytes from `start` to `end`; `_zmtp.pyx` has a compiled twin."""
    return is_event(data[start:end])
