"""`history`: what the hub as a whole has done over the last ten minutes.

Asked as `$hub/history`, by whom the policy grants that: it tells no names and no topics. Owner: nobody; the node's
pulse keeps it. Cost: about 1 ms for all; next to nothing for the points behind those that one has. Where the hub is
several processes, all are asked, and what they have done is added up (`peers.workers`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from hub.errors import UsageError
from hub.handler import Handler
from hub.requests.hub_services import Function
from peers.node.node import Node

__all__ = ["clock_of", "history"]


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    after: int | None = None


def history(node: Node) -> Function:
    """Return the service.

    It takes null, or a map with `after`, the number of the point behind which to go on. It gives what
    `hub.history.Ring.behind` does, and `now_s`, the time at the hub in seconds since 1970, and
    `clock_s`, the same moment by the clock that numbers the points.
    """

    def answer(_: Handler, value: Any) -> dict[str, Any]:
        try:
            question = msgspec.convert({} if value is None else value, _Question)
        except msgspec.ValidationError as error:
            raise UsageError(f"expected null, or a map with `after`: {error}") from error
        return node.pulse.history.behind(question.after) | clock_of(node)

    return answer


def clock_of(node: Node) -> dict[str, float]:
    """Return one moment, since 1970 and by the clock that numbers points."""
    return {"now_s": node.wall_us() / 1e6, "clock_s": node.loop.time()}
