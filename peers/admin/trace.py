"""`trace`: which hubs of the mesh want a topic, and the way there from this hub, by what this hub knows.

```
this hub ── A ── B*        B wants it: rows of this hub, A (before it: this hub) and B (before it: A)
         └─ C              C is on nobody's way, and wants nothing: no row
```

Asked as `$hub/mesh/trace`, by admins: it tells whether anybody anywhere wants a topic. Nothing is sent to find out, so
that nothing is said of what other hubs believe, nor of their policies. Cost: that of a topic that is looked up, and
about 1 µs for each hub of the mesh; an answer has at most `PAGE` hubs.

Not here: subscriptions by labels, names, requests.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hub.errors import UsageError
from hub.handler import Handler
from hub.mesh.tree import passed
from hub.requests.hub_services import Function
from hub.topics import RESERVED, check_topic
from peers.node.node import Node

__all__ = ["PAGE", "trace"]

PAGE: Final = 1000
"""Most hubs in an answer."""


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    topic: str
    after: str = ""


def trace(node: Node) -> Function:
    """Return the service.

    It takes a map with `topic`, and perhaps `after`, the id of the hub behind which to go on. It gives a list of maps,
    by id: of the hubs that want the topic, and of those on the way there; an empty one says that there are no more.
    """

    def answer(_: Handler, value: Any) -> list[dict[str, Any]]:
        try:
            question = msgspec.convert(value, _Question)
            after = bytes.fromhex(question.after)
        except (msgspec.ValidationError, ValueError) as error:
            raise UsageError(f"expected a map with `topic`, and `after`, the id of a hub: {error}") from error
        if question.topic.startswith(RESERVED):
            raise UsageError(f"topics under {RESERVED} are each hub's own: they do not cross links")
        return _rows(node, check_topic(question.topic), after)

    return answer


def _rows(node: Node, topic: str, after: bytes) -> list[dict[str, Any]]:
    mesh = node.core.mesh
    tree, links, records = mesh.graph.tree, mesh.graph.links, mesh.records
    route = node.core.routes.find(topic)
    wanting = set(route.far)
    if route.near:
        wanting.add(node.id)
    on_way = passed(tree, wanting)
    cost = {node.id: 0}
    for hub, before in tree.items():  # nearest first
        if hub in on_way and hub != node.id:
            cost[hub] = cost[before] + links[before][hub]
    first = (hub for hub in on_way if hub != node.id and tree[hub] == node.id)
    barred = {hub for hub in first if not route.barred.isdisjoint(mesh.traffic.onward(node.id, (hub,)))}
    known = sorted(hub for hub in (on_way | wanting) & records.keys() if hub > after)
    return [
        {
            "hub": hub.hex(),
            "name": records[hub].name,
            "own": hub == node.id,
            "wants": hub in wanting,
            "before": tree[hub].hex() if hub in on_way and hub != node.id else None,
            "cost": cost.get(hub) if hub in on_way else None,
            "barred": hub in barred,
        }
        for hub in known[:PAGE]
    ]
