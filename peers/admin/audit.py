"""`audited`: what was told on `$hub/audit` before one looked: refusals, and what admins did; not who was recognised.

Asked as `$hub/audit`, by admins, as its events are heard. Owner: nobody; the node's audit keeps its last events. Cost:
about 0.3 ms. Not here: the journal, which has all of them where it records them.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from hub.errors import UsageError
from hub.requests.hub_services import Function
from peers.node.node import Node

__all__ = ["PAGE", "audited", "limit_of"]

PAGE: Final = 200
"""Most events in an answer, beside those of the same moment as the last one."""


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    before: float = math.inf
    limit: int = PAGE


def audited(node: Node) -> Function:
    """Return the service.

    It takes null, or a map with `before` (s since 1970) and `limit`. It gives a list of events, the newest first: fewer
    than the limit say that nothing older is kept.
    """

    def answer(_: Any, value: Any) -> list[dict[str, Any]]:
        try:
            page = msgspec.convert({} if value is None else value, _Page)
        except msgspec.ValidationError as error:
            raise UsageError(f"expected null, or a map with `before` and `limit`: {error}") from error
        return node.audit.before(page.before, limit_of(value))

    return answer


def limit_of(value: Any) -> int:
    """Return how many events are asked for at most."""
    asked = value.get("limit", PAGE) if isinstance(value, dict) else PAGE
    return min(max(1, asked), PAGE) if isinstance(asked, int) else PAGE
