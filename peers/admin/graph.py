"""`graph`: the mesh as this hub knows it, a page at a time: its hubs, and the links of each.

Asked as `$hub/mesh/graph`, by whom the policy grants that: it tells ids and names of hubs, how many prefixes are wanted
there, and the addresses that they tell everybody; no topics, no users. Owner: nobody. Cost: about 0.5 µs for each hub
of the mesh, and 1 µs for each hub and link of the answer, which has about `PAGE` of them.

Pages are looked at one after the other, and the mesh may change between them; each is as things stand at that time.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hub.errors import UsageError
from hub.handler import Handler
from hub.mesh.record import Record
from hub.requests.hub_services import Function
from peers.node.node import Node

__all__ = ["PAGE", "graph"]

PAGE: Final = 1000
"""About how many hubs and links are in an answer: the hub with which there are so many is the last one, with all of its
links (`mesh.links`). 100 KB at most, where that has its default."""


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    after: str = ""


def graph(node: Node) -> Function:
    """Return the service.

    It takes null, or a map with `after`, the id of the hub behind which to go on. It gives a list of maps, by id; an
    empty one says that there are no more.
    """

    def answer(_: Handler, value: Any) -> list[dict[str, Any]]:
        try:
            after = bytes.fromhex(msgspec.convert({} if value is None else value, _Page).after)
        except (msgspec.ValidationError, ValueError) as error:
            raise UsageError(f"expected null, or a map with `after`, the id of a hub: {error}") from error
        mesh = node.core.mesh
        page: list[dict[str, Any]] = []
        left = PAGE
        for hub in sorted(hub for hub in mesh.records if hub > after):
            page.append(_described(node, mesh.records[hub]))
            left -= 1 + len(page[-1]["links"])
            if left <= 0:
                break
        return page

    return answer


def _described(node: Node, record: Record) -> dict[str, Any]:
    graph = node.core.mesh.graph
    return {
        "hub": record.hub.hex(),
        "name": record.name,
        "own": record.hub == node.id,
        "prefixes": len(record.wants),
        "left_out": record.left_out,
        "addresses": list(record.addresses),
        "lost": None if record.hub in graph.reached else _lost_at(node, record),
        "links": {other.hex(): cost for other, cost in sorted(graph.links.get(record.hub, {}).items())},
    }


def _lost_at(node: Node, record: Record) -> float:
    """Return since when a hub cannot be reached, s since 1970; as far as was looked, which is once a second."""
    now_s = node.loop.time()
    return round(node.wall_us() / 1e6 - (now_s - min(record.lost_s, now_s)), 3)
