"""The hub's own messages: topics under `$hub/` and what stands in them.

| topic | when | fields |
|---|---|---|
| `$hub/client/joined`, `$hub/client/left` | a client came or went | `id`, `name`, `address`, and `reason` |
| `$hub/peer/joined`, `$hub/peer/left` | the same for a link to a peer hub | the same |
| `$hub/overflow` | a handler lost messages, once a second at most | and `lost`, `total`, `overflow`, `queued` |
| `$hub/statistics` | once a second, while somebody subscribes | see `peers.daemon` |

They go to subscribers of this hub only, never over a link.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hub.handler import Handler
from hub.topics import RESERVED

__all__ = [
    "STATISTICS_TOPIC",
    "Event",
    "client_joined",
    "client_left",
    "overflow",
    "peer_joined",
    "peer_left",
]

STATISTICS_TOPIC = RESERVED + "statistics"


class Event(NamedTuple):
    """One message of the hub's own."""

    topic: str
    value: dict[str, Any]


def _who(handler: Handler) -> dict[str, Any]:
    return {"id": handler.id, "name": handler.name, "address": handler.address, "role": handler.role.value}


def client_joined(handler: Handler) -> Event:
    """A client has finished its handshake."""
    return Event(RESERVED + "client/joined", _who(handler))


def client_left(handler: Handler, reason: str) -> Event:
    """A client is gone; `reason` says why."""
    return Event(RESERVED + "client/left", _who(handler) | {"reason": reason})


def peer_joined(handler: Handler) -> Event:
    """A link to a peer hub is up."""
    return Event(RESERVED + "peer/joined", _who(handler))


def peer_left(handler: Handler, reason: str) -> Event:
    """A link to a peer hub is gone; `reason` says why."""
    return Event(RESERVED + "peer/left", _who(handler) | {"reason": reason})


def overflow(handler: Handler, lost: int) -> Event:
    """`handler` lost so many messages since the last such event."""
    statistics = handler.statistics()
    return Event(
        RESERVED + "overflow",
        _who(handler)
        | {
            "lost": lost,
            "total": statistics.dropped_messages,
            "overflow": statistics.overflow,
            "queued": statistics.queued_messages,
            "prefixes": list(statistics.sample),
        },
    )
