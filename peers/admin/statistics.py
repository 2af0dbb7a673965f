"""`statistics`: what `$hub/statistics` tells: each handler with its counters, and what the process takes.

Owner: nobody. Cost: about 10 µs a handler. Not here: when, and in how many messages, it is told
(`peers.daemon.telling`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from hub.handler import Handler
from hub.quotas.quotas import USERS_SHOWN
from hub.requests.later import Later
from peers.admin.steps import in_steps
from peers.node.node import Node

__all__ = ["HANDLERS_PER_STEP", "rows", "statistics", "totals"]

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
