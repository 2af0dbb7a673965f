"""`graph`: the mesh as this hub knows it, a page at a time; `trace`: the hubs that want a topic, and the way there.

`$hub/mesh/graph` has ids and names of hubs, numbers of prefixes, Zeeks, and figures of this hub's links, but no topics
and no users. About 1 µs for each hub, link and Zeek of the answer. Where the hub is several processes, each is a hub of
the mesh, and figures of a link come from the process that has it. The mesh may change between two pages.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec

from hub.errors import UsageError
from hub.handlers.handler import Handler
from hub.mesh.announcement import Record
from hub.mesh.graph import passed
from hub.topics import RESERVED, check_topic
from peers.admin.steps import Work, in_steps, service
from peers.server.link import Link
from peers.server.server import Server, connection_of
from peers.server.ticker import counters_of

Links = dict[str, dict[str, Any]]  # Figures of links, by the id of the hub at the far end

# Hubs, links and Zeeks in an answer, about: the last hub has all of its links (`mesh.links`) and Zeeks
PAGE: Final = 1000


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    after: str = ""


@service("null, or a map with `after`, the id of a hub", _Page)
def graph(server: Server, _: Handler, page: _Page) -> Any:
    """Answer null, or a map with `after`, the id of a hub, with a list of maps, by id; an empty list is the last."""
    after = bytes.fromhex(page.after)

    def answer() -> Work[list[dict[str, Any]]]:
        links: Links = {}
        for part in (yield server.whole.ask("links")) if server.whole is not None else ():
            links = part | links
        return _page(server, after, links | links_here(server))

    return _page(server, after, links_here(server)) if server.whole is None else in_steps(server, answer())


def links_here(server: Server) -> Links:
    """Return the figures of the links of this process, by the id of the hub at the far end."""
    now_s, here = server.loop.time(), server.id.hex()
    return {link.peer.hub.hex(): _measured(server, link, now_s) | {"at": here} for link in server.traffic.standing()}


def _page(server: Server, after: bytes, links: Links) -> list[dict[str, Any]]:
    mesh = server.core.mesh
    page: list[dict[str, Any]] = []
    left = PAGE
    for hub in sorted(hub for hub in mesh.records if hub > after):
        link = None if hub == server.id else links.get(hub.hex())
        page.append(_described(server, mesh.records[hub], link))
        left -= 1 + len(page[-1]["links"]) + len(page[-1]["zeeks"])
        if left <= 0:
            break
    return page


def _described(server: Server, record: Record, link: dict[str, Any] | None) -> dict[str, Any]:
    graph, core, now_s = server.core.mesh.graph, server.core, server.loop.time()
    lost_s = now_s - min(record.lost_s, now_s)
    zeeks = core.leaves.own if record.hub == server.id else core.remote_hubs.leaves_of(record.hub)
    return {
        "hub": record.hub.hex(),
        "name": record.name,
        "own": record.hub == server.id,
        "prefixes": len(record.wants),
        "left_out": record.left_out,
        "incomplete": not record.is_whole,
        "lost": None if record.hub in graph.reached else round(server.wall_us() / 1e6 - lost_s, 3),  # s since 1970
        "links": {other.hex(): cost for other, cost in sorted(graph.links.get(record.hub, {}).items())},
        # Each with whether this hub is its gateway, as far as is known here.
        "zeeks": {str(UUID(bytes=one)): core.leaves.gateway_of(one) == record.hub for one in sorted(zeeks)},
        "link": link,
    }


def _measured(server: Server, link: Link, now_s: float) -> dict[str, Any]:
    carried, moment, handler = link.carried()._asdict(), link.moment(now_s)._asdict(), link.handler
    dropped = carried.pop("queue_full") + carried.pop("too_large")
    rates = server.ticker.recent.rates(handler.id, connection_of(handler).since_s, counters_of(handler), now_s)
    return {**carried, **moment, "dropped_messages": dropped, "rates": rates}


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    topic: str
    after: str = ""


@service("a map with `topic`, and `after`, the id of a hub", _Question)
def trace(server: Server, _: Handler, question: _Question) -> list[dict[str, Any]]:
    """Answer a map with `topic`, and `after`, the id of a hub, with a list of maps, by id; an empty list is the last.

    They are of the hubs that want the topic, and of those on the way there.
    """
    after = bytes.fromhex(question.after)
    if question.topic.startswith(RESERVED):
        raise UsageError(f"topics under {RESERVED} are each hub's own: they do not cross links")
    return _rows(server, check_topic(question.topic), after)


def _rows(server: Server, topic: str, after: bytes) -> list[dict[str, Any]]:
    mesh = server.core.mesh
    tree, links, records = mesh.graph.tree, mesh.graph.links, mesh.records
    route = server.core.routes.find(topic)
    wanting = set(route.far)
    if route.near:
        wanting.add(server.id)
    on_way = passed(tree, wanting)
    cost = {server.id: 0}
    for hub, before in tree.items():  # nearest first
        if hub in on_way and hub != server.id:
            cost[hub] = cost[before] + links[before][hub]
    first = (hub for hub in on_way if hub != server.id and tree[hub] == server.id)
    barred = {hub for hub in first if not route.barred.isdisjoint(mesh.onward(server.id, (hub,)))}
    known = sorted(hub for hub in (on_way | wanting) & records.keys() if hub > after)
    return [
        {
            "hub": hub.hex(),
            "name": records[hub].name,
            "own": hub == server.id,
            "wants": hub in wanting,
            "before": tree[hub].hex() if hub in on_way and hub != server.id else None,
            "cost": cost.get(hub) if hub in on_way else None,
            "barred": hub in barred,
        }
        for hub in known[:PAGE]
    ]
