"""The hub's own messages: topics under `$hub/` and their fields.

| topic | when | fields |
|---|---|---|
| `$hub/client/joined`, `$hub/client/left` | a client came or went | `id`, `name`, `address`, and `reason` |
| `$hub/peer/joined`, `$hub/peer/left` | the same for a link to a peer hub, or a Zeek | the same |
| `$hub/peers/added`, `/removed`, `/lost`, `/unavailable` | how a peering with a Zeek stands | see `peer_status` |
| `$hub/nodes/up`, `/down` | another node of a Zeek cluster came or went, where the hub is one | see `zeek_node` |
| `$hub/links/lost` | messages were lost with a link to a peer hub, or turned out not to be | see `messages_lost` |
| `$hub/mesh` | hubs or links of the mesh have come or gone | see `mesh_changed` |
| `$hub/names/appeared`, `/gone` | a service name has got an owner, or lost it | `name`, `labels`, `owner`, `hub` |
| `$hub/overflow` | a handler's queue lost messages, once a second at most | and `lost`, `total`, `overflow`, `queued` |
| `$hub/unreadable` | a handler's encoding cannot express a message, once a second at most | and `lost`, `total` |
| `$hub/audit` | a user changed the hub, or was rejected | see `peers.server.audit` |
| `$hub/statistics` | once a second, while it has a subscriber | see `peers.daemon` |

They go to subscribers of this hub only, never over a link; `$hub/audit` to admins only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.mesh.graph import GraphChange
from hub.messages.batch import Batch
from hub.names.claim import Claim
from hub.requests.hub_services import is_admin
from hub.routing.routes import Routes
from hub.topics import RESERVED


class SystemEvents:
    """Events of one hub, for subscribers of it, and for no other hub."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self.announcing: Callable[[Event], object] = self.tell_here
        """Receives each event. A hub of several processes replaces it, to reach subscribers of all of them."""

    def announce(self, event: Event) -> None:
        """Publish a message under one of the hub's own `$hub/` topics, to subscribers of this hub only."""
        self.announcing(event)

    def tell_here(self, event: Event) -> None:
        here = self._subscribers(event.topic)
        if here:
            batch = Batch.of(event.topic, (event.value,))
            for handler in here:
                handler.offer(batch)

    def is_wanted(self, topic: str) -> bool:
        """Return whether a subscriber here would get a message of the hub's own under this topic."""
        return bool(self._subscribers(topic))

    def _subscribers(self, topic: str) -> list[Handler]:
        wanting = self._routes.find(topic).handlers
        here = [handler for handler in wanting if handler.delivery.hears_of_hub(handler.prefixes)]
        return here if topic != AUDIT_TOPIC else [handler for handler in here if is_admin(handler)]


AUDIT_TOPIC = RESERVED + "audit"
STATISTICS_TOPIC = RESERVED + "statistics"

MESH_SHOWN = 100  # Most hubs and links of each kind in one `$hub/mesh`: a partition can take a thousand away at once


class Event(NamedTuple):
    """One message that the hub itself publishes."""

    topic: str
    value: dict[str, Any]


class PeerCodes(NamedTuple):
    """The code of the hub and the code of Broker for one event."""

    code: int  # Of a CLOSE
    broker: str  # `peer_added`, `peer_removed`, `peer_lost`, `peer_unavailable`
    broker_code: int  # Number of that status, or of the error in case of `peer_unavailable`


def _who(handler: Handler) -> dict[str, Any]:
    return {"id": handler.id, "name": handler.name, "address": handler.address, "role": handler.role.value}


def joined(handler: Handler) -> Event:
    """Return the event: a client has finished its handshake, or a link to a peer hub or a Zeek is up."""
    return Event(RESERVED + ("client/joined" if handler.role is Role.CLIENT else "peer/joined"), _who(handler))


def left(handler: Handler, reason: str) -> Event:
    """Return the event: a client, or a link, is gone, for a reason."""
    topic = RESERVED + ("client/left" if handler.role is Role.CLIENT else "peer/left")
    return Event(topic, _who(handler) | {"reason": reason})


def peer_status(what: str, endpoint: str, address: str, reason: str, codes: PeerCodes) -> Event:
    """Return the event: a peering with a Zeek was "added", "removed", "lost" or is "unavailable"."""
    return Event(
        f"{RESERVED}peers/{what}", {"endpoint": endpoint, "address": address, "reason": reason} | codes._asdict()
    )


def zeek_node(what: str, cluster: str, node_id: str, name: str, reason: str = "") -> Event:
    """Return the event: a node of a Zeek cluster is "up", or "down"."""
    value = {"cluster": cluster, "id": node_id, "name": name}
    return Event(f"{RESERVED}nodes/{what}", value | ({"reason": reason} if reason else {}))


def messages_lost(hub: str, name: str, address: str, fields: dict[str, Any]) -> Event:
    """Return the event: messages were lost with a link to a peer hub.

    Args:
        hub: Id of the peer hub.
        name: Its name, for people.
        address: Where it was.
        fields: `lost`, how many messages; `exactly`, whether so many, else at most; `sent`, whether by this hub;
            `overtaken`, whether they came, and newer ones had come by another way of the mesh before.
    """
    return Event(f"{RESERVED}links/lost", {"hub": hub, "name": name, "address": address} | fields)


def mesh_changed(change: GraphChange, names: Mapping[bytes, str]) -> Event:
    """Return the event: hubs or links of the mesh have come or gone, as far as this hub knows.

    Its fields `appeared` and `forgotten` list hubs, `linked` (with the cost) and `cut` list links, at most `MESH_SHOWN`
    each; `left_out` is how many more there are. `names` are those of the hubs, for people.
    """

    def one(hub: bytes) -> dict[str, Any]:
        return {"hub": hub.hex(), "name": names.get(hub, "")}

    def link(hub: bytes, other: bytes) -> dict[str, Any]:
        return {"between": [one(hub), one(other)]}

    return Event(
        RESERVED + "mesh",
        {
            "appeared": [one(hub) for hub in change.appeared[:MESH_SHOWN]],
            "forgotten": [one(hub) for hub in change.forgotten[:MESH_SHOWN]],
            "linked": [link(hub, other) | {"cost": cost} for hub, other, cost in change.linked[:MESH_SHOWN]],
            "cut": [link(hub, other) for hub, other in change.cut[:MESH_SHOWN]],
            "left_out": sum(max(0, len(some) - MESH_SHOWN) for some in change),
        },
    )


def name_event(what: str, claim: Claim) -> Event:
    """Return the event: a service name has "appeared" or is "gone", by the claim of its owner."""
    return Event(f"{RESERVED}names/{what}", claim.description)


def overflow(handler: Handler, lost: int) -> Event:
    """Return the event: the queue of `handler` has lost so many messages since the last such event."""
    statistics = handler.statistics()
    return Event(
        RESERVED + "overflow",
        _who(handler)
        | {
            "lost": lost,
            "total": statistics.dropped_messages - handler.unreadable_messages,
            "overflow": statistics.overflow,
            "queued": statistics.queued_messages,
            "prefixes": list(statistics.sample),
        },
    )


def unreadable(handler: Handler, lost: int) -> Event:
    """Return the event: so many messages could not be encoded for `handler`, or were larger than it takes."""
    prefixes = list(handler.statistics().sample)
    return Event(
        RESERVED + "unreadable",
        _who(handler) | {"lost": lost, "total": handler.unreadable_messages, "prefixes": prefixes},
    )
