"""`served`: which prefixes are served, and by whom, a page at a time.

`$hub/services` is for users with the grant: it tells what clients call themselves. Where the hub is several processes,
each tells of its own connections, and of hubs beyond the hub. 0.3 µs for each served prefix, in steps, and 2 µs for
each one of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Any, Final

import msgspec

from hub.delivery import Role
from hub.handler import Handler
from hub.requests.hub_services import Later
from hub.topics import RESERVED
from peers.admin.steps import Work, in_steps, service
from peers.node.node import Node

SERVED_TOPIC: Final = RESERVED + "services"

PAGE: Final = 500  # Most prefixes in an answer; fewer say that there are no more

SHOWN: Final = 16  # Connections, and hubs, that are shown for a prefix; of the others the number

_PREFIXES_PER_STEP: Final = 2_000


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    after: str = ""


@service("null, or a map with `after`, a prefix", _Page)
def served(node: Node, _: Handler, page: _Page) -> Later:
    """Answer null, or a map with `after`, a prefix, with a list of maps, by prefix."""
    return in_steps(node, _answered(node, page.after))


def _answered(node: Node, after: str) -> Work[list[dict[str, Any]]]:
    if node.whole is None:
        parts = [(yield from served_here(node, after))]
    else:
        parts = yield node.whole.ask("services", after)
    return together(parts)


def served_here(node: Node, after: str) -> Work[dict[str, Any]]:
    """Return what one process knows: `rows` of the first prefixes behind one, and which hub it is itself."""
    requests = node.core.requests
    first: list[str] = []
    prefixes = requests.prefixes_served()
    for start in range(0, len(prefixes), _PREFIXES_PER_STEP):
        some = prefixes[start : start + _PREFIXES_PER_STEP]
        first = nsmallest(PAGE, [*first, *(prefix for prefix in some if prefix > after)])
        yield None
    return {"hub": node.id.hex(), "rows": [_row(node, prefix) for prefix in first]}


def _row(node: Node, prefix: str) -> dict[str, Any]:
    serving = node.core.requests.who_serves(prefix)
    shown = [_connection(handler, pending) for handler, pending in serving.handlers[:SHOWN]]
    return {
        "prefix": prefix,
        "connections": shown,
        "connections_total": len(serving.handlers),
        "pending": sum(pending for _, pending in serving.handlers),
        "hubs": [hub.hex() for hub in serving.hubs],
    }


def _connection(handler: Handler, pending: int) -> dict[str, Any]:
    is_own = handler.role is Role.LOCAL
    return {"id": None if is_own else handler.id, "name": handler.name or handler.address, "pending": pending}


def together(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the page of a hub, from what each of its processes knows."""
    parts = list(parts)
    own = {part["hub"] for part in parts}
    rows: dict[str, dict[str, Any]] = {}
    for part in parts:
        for told in part["rows"]:
            row = rows.setdefault(
                told["prefix"],
                {"prefix": told["prefix"], "connections": [], "connections_total": 0, "pending": 0, "hubs": []},
            )
            row["connections"] = [*row["connections"], *told["connections"]][:SHOWN]
            row["connections_total"] += told["connections_total"]
            row["pending"] += told["pending"]
            row["hubs"] = sorted({*row["hubs"], *told["hubs"]} - own)
    for row in rows.values():
        row["hubs_total"] = len(row["hubs"])
        del row["hubs"][SHOWN:]
    return [rows[prefix] for prefix in sorted(rows) if _is_served(rows[prefix])][:PAGE]


def _is_served(row: Mapping[str, Any]) -> bool:
    return bool(row["connections_total"] or row["hubs_total"])
