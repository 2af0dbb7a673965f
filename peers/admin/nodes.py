"""`nodes`: the nodes of Zeek clusters that are up, where this hub is one of them, a page at a time.

Asked as `$hub/nodes`, by whom the policy grants that. Owner: nobody. Cost: 1 µs for each node that is known, at most
`PAGE` of them an answer. Not here: how it is found out (`peers.zeek.zmtp.discovery`), and told (`$hub/nodes/up`).
"""

from __future__ import annotations

from heapq import nsmallest
from typing import Any, Final

import msgspec

from hub.errors import UsageError
from hub.handler import Handler
from hub.requests.hub_services import Function
from hub.topics import RESERVED
from peers.node.node import Node

__all__ = ["NODES_TOPIC", "PAGE", "nodes"]

NODES_TOPIC: Final = RESERVED + "nodes"

PAGE: Final = 500
"""Most nodes in an answer; fewer say that there are no more."""


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    after: str = ""


def nodes(node: Node) -> Function:
    """Return the service.

    It takes null, or a map with `after`, the id of the node behind which to go on. It gives a list of maps, by id.
    """

    def answer(_: Handler, value: Any) -> list[dict[str, Any]]:
        try:
            after = msgspec.convert({} if value is None else value, _Page).after
        except msgspec.ValidationError as error:
            raise UsageError(f"expected null, or a map with `after`, the id of a node: {error}") from error
        found = (
            {"id": node_id, "name": name, "cluster": cluster}
            for cluster, discovery in node.zeek_clusters.items()
            for node_id, name in discovery.nodes.items()
            if node_id > after
        )
        return nsmallest(PAGE, found, key=lambda one: one["id"])

    return answer
