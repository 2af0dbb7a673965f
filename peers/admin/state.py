"""`state` and `losses`: how the hub does, in figures and in one sentence; and what was lost last, by whom.

Asked as `$hub/state` and `$hub/losses`, by whom the policy grants that: they tell what clients call themselves. Owner:
nobody; the node's pulse keeps it, as of the last second. Cost: some 10 µs; up to 0.5 ms for all losses.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec

from hub.errors import UsageError
from hub.handler import Handler
from hub.losses import KEPT
from hub.quotas.quotas import USERS_SHOWN
from hub.requests.hub_services import Function, Later
from peers.admin.steps import in_steps
from peers.node.node import Node


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    id: int | None = None
    limit: int = KEPT


def state(node: Node) -> Function:
    """Return the service: it takes null, and gives the fields of `hub.losses.State`, and `text`, the sentence."""

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


# What `$hub/statistics` tells: each handler with its counters, and what the process takes.


HANDLERS_PER_STEP: Final = 256
"""So many handlers are told in a message, and looked at in a turn: about 64 KiB, and 3 ms."""


def totals(node: Node) -> dict[str, Any]:
    """Return what is told of a process as a whole."""
    memory = node.memory.statistics()
    return {
        "hub": node.name,
        "at_s": node.loop.time(),
        "handlers": len(node.core.handlers),
        "memory_bytes": memory.resident_bytes,
        "memory_limit_bytes": memory.limit_bytes,
        "dropped_log_lines": node.log_statistics().dropped_lines_total,
        "users": [share._asdict() for share in node.core.quotas.largest(USERS_SHOWN)],
        "state": node.pulse.state.fields(),
        "links": [link.fields() for link in node.traffic.statistics(node.loop.time())],
    }


def rows(handlers: Sequence[Handler]) -> list[dict[str, Any]]:
    """Return what is told of handlers."""
    return [handler.statistics()._asdict() for handler in handlers]


def statistics(node: Node) -> Later:
    """Return the totals of a process, with `some`: all of its handlers."""

    def collected() -> Generator[None, None, dict[str, Any]]:
        handlers = list(node.core.handlers.values())
        found = totals(node) | {"handlers": len(handlers), "some": []}
        for first in range(0, len(handlers), HANDLERS_PER_STEP):
            found["some"] += rows(handlers[first : first + HANDLERS_PER_STEP])
            yield
        return found

    return in_steps(node, collected())


# What the hub as a whole has done over the last ten minutes.


class _HistoryQuestion(msgspec.Struct, forbid_unknown_fields=True):
    after: int | None = None


def history(node: Node) -> Function:
    """Return the service.

    It takes null, or a map with `after`, the number of the point behind which to go on. It gives what
    `hub.history.Ring.behind` does, and `now_s`, the time at the hub in seconds since 1970, and
    `clock_s`, the same moment by the clock that numbers the points.
    """

    def answer(_: Handler, value: Any) -> dict[str, Any]:
        try:
            question = msgspec.convert({} if value is None else value, _HistoryQuestion)
        except msgspec.ValidationError as error:
            raise UsageError(f"expected null, or a map with `after`: {error}") from error
        return node.pulse.history.behind(question.after) | clock_of(node)

    return answer


def clock_of(node: Node) -> dict[str, float]:
    """Return one moment, since 1970 and by the clock that numbers points."""
    return {"now_s": node.wall_us() / 1e6, "clock_s": node.loop.time()}
