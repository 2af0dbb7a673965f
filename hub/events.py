"""The hub's own messages: topics under `$hub/` and what stands in them.

| topic | when | fields |
|---|---|---|
| `$hub/client/joined`, `$hub/client/left` | a client came or went | `id`, `name`, `address`, and `reason` |
| `$hub/peer/joined`, `$hub/peer/left` | the same for a link to a peer hub, or a Zeek | the same |
| `$hub/peers/added`, `/removed`, `/lost`, `/unavailable` | how a peering with a Zeek stands | see `peer_status` |
| `$hub/names/appeared`, `/gone` | a service name has got an owner, or lost it | `name`, `labels`, `owner`, `hub` |
| `$hub/overflow` | a handler lost messages, once a second at most | and `lost`, `total`, `overflow`, `queued` |
| `$hub/statistics` | once a second, while somebody subscribes | see `peers.daemon` |

They go to subscribers of this hub only, never over a link.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hub.handler import Handler
from hub.names.claim import Claim
from hub.topics import RESERVED

__all__ = [
    "STATISTICS_TOPIC",
    "Event",
    "PeerCodes",
    "client_joined",
    "client_left",
    "name_event",
    "overflow",
    "peer_joined",
    "peer_left",
    "peer_status",
]

STATISTICS_TOPIC = RESERVED + "statistics"


class Event(NamedTuple):
    """One message of the hub's own."""

    topic: str
    value: dict[str, Any]


class PeerCodes(NamedTuple):
    """The hub's code and Broker's, side by side."""

    code: int
    """As in CLOSE."""
    broker: str
    """What Broker calls it: `peer_added`, `peer_removed`, `peer_lost`, `peer_unavailable`."""
    broker_code: int
    """Number of that status, or of the error in case of `peer_unavailable`."""


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


def peer_status(what: str, endpoint: str, address: str, reason: str, codes: PeerCodes) -> Event:
    """How a peering with a Zeek stands.

    Args:
        what: "added", "removed", "lost" or "unavailable".
        endpoint: Id of the far side as a UUID, empty if it is not known.
        address: Where it is.
        reason: Why, for people.
        codes: For programs.
    """
    return Event(
        f"{RESERVED}peers/{what}", {"endpoint": endpoint, "address": address, "reason": reason} | codes._asdict()
    )


def name_event(what: str, claim: Claim) -> Event:
    """How a service name stands.

    Args:
        what: "appeared" or "gone".
        claim: Of its owner, or of the one that it had.
    """
    return Event(f"{RESERVED}names/{what}", claim.description)


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
