"""`queue`: give a connection more, or less, room for what waits for it, or another overflow policy.

Asked as `$hub/queue`. Owner: nobody. Cost: some µs. It holds for as long as the connection does: who comes back has
what he wishes for, and is granted. The far side is not told: what it was granted at first stands in its HELLO. While
messages wait, the policy stays, and so does room for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hub.delivery import Role
from hub.errors import UsageError
from hub.overflow import Overflow, QueueLimits
from peers.node.audit import By
from peers.node.node import Node

__all__ = ["queue"]


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    id: int
    messages: int | None = None
    bytes: int | None = None
    overflow: Overflow | None = None


def queue(node: Node) -> Callable[[By, Any], dict[str, Any]]:
    """Return the service.

    It takes a map with `id`, and `messages`, `bytes` and `overflow`, of which those that are left out stay. It gives a
    map of these three, as they are now, and fails if there is nobody, or it cannot be now.
    """

    def answer(by: By, value: Any) -> dict[str, Any]:
        try:
            order = msgspec.convert(value, _Order)
        except msgspec.ValidationError as error:
            raise UsageError(f"expected a map with `id`, `messages`, `bytes` and `overflow`: {error}") from error
        one = node.core.handlers.get(order.id)
        if one is None or one.role is Role.LOCAL or one.closed:
            raise UsageError(f"there is no connection with id {order.id}")
        wanted = QueueLimits(
            _within("messages", order.messages, one.limits.messages, node.settings.queue_max.messages),
            _within("bytes", order.bytes, one.limits.bytes, node.settings.queue_max.bytes),
            order.overflow or one.limits.overflow,
        )
        reason = one.change_limits(wanted)
        if reason:
            raise UsageError(reason)
        told = {"messages": wanted.messages, "bytes": wanted.bytes, "overflow": wanted.overflow.value}
        node.audit.did(by, "queue", of={"id": order.id}, **told)
        return told

    return answer


def _within(unit: str, wanted: int | None, now: int, most: int) -> int:
    if wanted is None:
        return now
    if not 1 <= wanted <= max(most, now):
        raise UsageError(f"{wanted} {unit}: expected 1 to {most}, which is queue_max.{unit}")
    return wanted
