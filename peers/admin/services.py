"""`add_services`: the table of services of every hub; settings, journal, nodes and served prefixes.

Where the hub is several processes, the core answers for all of them (`peers.workers.gathering`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Any, Final

import msgspec

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.requests.hub_services import Later
from hub.settings.keys import KEYS, told
from hub.statistics.events import AUDIT_TOPIC
from hub.topics import RESERVED
from peers.admin.access import audited, kick, policy_test, rights, users
from peers.admin.graph import graph, trace
from peers.admin.state import history, losses, state, who
from peers.admin.steps import Service, Work, in_steps, parts_of, service
from peers.admin.topics import topics
from peers.journal.recorder import JOURNAL_TOPIC
from peers.server.server import Server


@service("null")
def settings(server: Server, _: Handler, __: None) -> list[dict[str, Any]]:
    """Answer null with a list of maps: `told`, `live`, whether a reload changes it, and `description`."""
    return [
        row | {"live": KEYS[row["setting"]].live, "description": KEYS[row["setting"]].description}
        for row in told(server.settings, server.origins)
    ]


@service("null")
def journal(server: Server, _: Handler, __: None) -> dict[str, Any] | None:
    """Answer null with a map; with null where this hub records nothing."""
    statistics = server.journal.statistics()
    if statistics is None:
        return None
    settings, tier = server.settings.journal, statistics.tier
    recorder = statistics.recorder
    return {
        "id": server.journal.id.hex(),
        "epoch": statistics.epoch,
        "at_s": server.loop.time(),
        "topics": list(settings.topics),
        "keep_bytes": settings.keep_bytes,
        "keep_s": settings.keep_s,
        "buffer_bytes": settings.buffer_bytes,
        "first": recorder.at.first,
        "committed": recorder.committed,
        "size_bytes": recorder.at.size_bytes,
        "recorded_messages_total": recorder.recorded_messages_total,
        "lost_messages_total": recorder.lost_messages_total,
        "waiting_bytes": recorder.waiting_bytes,
        "pauses_total": recorder.pauses_total,
        "error": str(recorder.error or ""),
        "cut_total": statistics.cuts_total,
        "readers": statistics.readers,
        "fetches": statistics.fetches,
        "staged_transactions": len(statistics.staging),
        "staged_bytes": statistics.staging.size_bytes,
        "tier": None
        if tier is None
        else tier.progress._asdict()
        | {"failures_total": tier.failures_total, "restarts_total": tier.restarts_total, "error": tier.error},
    }


NODES_TOPIC: Final = RESERVED + "nodes"
NODES: Final = 500  # Most nodes in an answer; fewer say that there are no more


class _NodesPage(msgspec.Struct, forbid_unknown_fields=True):
    after: str = ""


@service("null, or a map with `after`, the id of a node", _NodesPage)
def nodes(server: Server, _: Handler, page: _NodesPage) -> list[dict[str, Any]]:
    """Answer null, or a map with `after`, the id of a node, with a list of maps, by id."""
    found = (
        {"id": node_id, "name": name, "cluster": cluster}
        for cluster, discovery in server.zeek.clusters.items()
        for node_id, name in discovery.nodes.items()
        if node_id > page.after
    )
    return nsmallest(NODES, found, key=lambda one: one["id"])


SERVED_TOPIC: Final = RESERVED + "services"
PAGE: Final = 500  # Most prefixes in an answer; fewer say that there are no more
SHOWN: Final = 16  # Connections, and hubs, that are shown for a prefix; of the others the number
_PREFIXES_PER_STEP: Final = 2_000


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    after: str = ""


@service("null, or a map with `after`, a prefix", _Page)
def served(server: Server, _: Handler, page: _Page) -> Later:
    """Answer null, or a map with `after`, a prefix, with a list of maps, by prefix."""

    def answer() -> Work[list[dict[str, Any]]]:
        return together((yield from parts_of(server, "services", page.after, lambda: served_here(server, page.after))))

    return in_steps(server, answer())


def served_here(server: Server, after: str) -> Work[dict[str, Any]]:
    """Return what one process knows: `rows` of the first prefixes behind one, and which hub it is itself."""
    requests = server.core.requests
    first: list[str] = []
    prefixes = requests.services.prefixes()
    for start in range(0, len(prefixes), _PREFIXES_PER_STEP):
        some = prefixes[start : start + _PREFIXES_PER_STEP]
        first = nsmallest(PAGE, [*first, *(prefix for prefix in some if prefix > after)])
        yield None
    return {"hub": server.id.hex(), "rows": [_row(server, prefix) for prefix in first]}


def _row(server: Server, prefix: str) -> dict[str, Any]:
    serving = server.core.requests.services.who_serves(prefix)
    return {
        "prefix": prefix,
        "connections": [
            {"id": None if one.role is Role.LOCAL else one.id, "name": one.name or one.address, "pending": pending}
            for one, pending in serving.handlers[:SHOWN]
        ],
        "connections_total": len(serving.handlers),
        "pending": sum(pending for _, pending in serving.handlers),
        "hubs": [hub.hex() for hub in serving.hubs],
    }


def together(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the page of a hub, from what each of its processes knows."""
    parts = list(parts)
    own = {part["hub"] for part in parts}
    rows: dict[str, dict[str, Any]] = {}
    for part in parts:
        for seen in part["rows"]:
            row = rows.setdefault(
                seen["prefix"],
                {"prefix": seen["prefix"], "connections": [], "connections_total": 0, "pending": 0, "hubs": []},
            )
            row["connections"] = [*row["connections"], *seen["connections"]][:SHOWN]
            row["connections_total"] += seen["connections_total"]
            row["pending"] += seen["pending"]
            row["hubs"] = sorted({*row["hubs"], *seen["hubs"]} - own)
    for row in rows.values():
        row["hubs_total"] = len(row["hubs"])
        del row["hubs"][SHOWN:]
    served = (row for row in rows.values() if row["connections_total"] or row["hubs_total"])
    return sorted(served, key=lambda row: str(row["prefix"]))[:PAGE]


# For users with a grant
_BY_GRANT: Mapping[str, Service] = {
    RESERVED + "history": history,
    RESERVED + "state": state,
    RESERVED + "losses": losses,
    RESERVED + "mesh/graph": graph,
    NODES_TOPIC: nodes,
    SERVED_TOPIC: served,
    JOURNAL_TOPIC: journal,
}
FOR_ADMINS: Mapping[str, Service] = {
    RESERVED + "who": who,
    RESERVED + "users": users,
    RESERVED + "kick": kick,
    AUDIT_TOPIC: audited,
    RESERVED + "policy/test": policy_test,
    RESERVED + "settings": settings,
    RESERVED + "mesh/trace": trace,
}

# About what they may see or do themselves
EVERYONE: Mapping[str, Service] = {RESERVED + "topics": topics, RESERVED + "rights": rights}


def add_services(server: Server) -> None:
    services = server.core.requests.hub_services
    for topic, made in _BY_GRANT.items():
        services.add(topic, made(server))
    for topic, made in FOR_ADMINS.items():
        services.add(topic, made(server), for_admins=True)
    for topic, made in EVERYONE.items():
        services.add(topic, made(server), judges_itself=True)
