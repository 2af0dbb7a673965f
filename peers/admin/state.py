"""`state` and `losses`: how the hub does, in figures and in one sentence; and what was lost last, by whom.

Asked as `$hub/state` and `$hub/losses`, by whom the policy grants that: they tell what clients call themselves. Owner:
nobody; the node's pulse keeps it, as of the last second. Cost: some 10 µs; up to 0.5 ms for all losses.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hub.errors import UsageError
from hub.handler import Handler
from hub.losses import KEPT
from hub.requests.hub_services import Function
from peers.node.node import Node

__all__ = ["losses", "state"]


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    id: int | None = None
    limit: int = KEPT


def state(node: Node) -> Function:
    """Return the service: it takes null, and gives the fields of `hub.state.State`, and `text`, the sentence."""

    def answer(_: Handler, value: Any) -> dict[str, Any]:
        if value is not None:
            raise UsageError("expected null")
        return node.pulse.state.fields()

    return answer


def losses(node: Node) -> Function:
    """Return the service.

    It takes null, or a map with `id`, of the handler that is asked for, and `limit`, how many. It gives a list of maps,
    the newest first: what one handler has lost in one second: `at` (s since 1970), `id`, `label`, `messages`, `why`.
    """

    def answer(_: Handler, value: Any) -> list[dict[str, Any]]:
        try:
            question = msgspec.convert({} if value is None else value, _Question)
        except msgspec.ValidationError as error:
            raise UsageError(f"expected null, or a map with `id` and `limit`: {error}") from error
        began_s = node.wall_us() / 1e6 - node.loop.time()
        return [
            {
                "at": round(began_s + one.second, 3),
                "id": one.id,
                "label": one.label,
                "messages": one.messages,
                "why": one.why,
            }
            for one in node.pulse.losses.last(question.id, max(0, question.limit))
        ]

    return answer
