"""`kick`: close the connections of somebody, with 4403 and a text that he reads.

Asked as `$hub/kick`. Owner: nobody. Cost: about 50 µs a connection, `_STEP` of them a turn. A user who may connect can
come back at once: who must not is taken out of the policy, or his token is withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import msgspec

from hub.delivery import Role
from hub.errors import CloseCode, UsageError
from hub.handler import Handler
from peers.admin.steps import in_steps
from peers.node.audit import By
from peers.node.node import Node

__all__ = ["kick"]

_STEP = 50
"""How many connections are closed in a turn: about 3 ms."""

_TEXT = "closed by an admin"


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    id: int | None = None
    user: str | None = None
    text: str = _TEXT


def kick(node: Node) -> Callable[[By, Any], Any]:
    """Return the service.

    It takes a map with `id` or `user`, and perhaps `text`. It gives a map with `kicked`, how many were closed, and
    fails if there is nobody of that kind. Whoever asks for a user is not closed himself: he could not be answered.
    """

    def answer(by: By, value: Any) -> Any:
        try:
            order = msgspec.convert(value, _Order)
        except msgspec.ValidationError as error:
            raise UsageError(f"expected a map with `id` or `user`, and `text`: {error}") from error
        if (order.id is None) is (order.user is None):
            raise UsageError("expected a map with either `id` or `user`, and `text`")
        return in_steps(node, _closed(node, by, order))

    return answer


def _closed(node: Node, by: By, order: _Order) -> Generator[None, None, dict[str, int]]:
    wanted = [one for one in _wanted(node, order) if one.role is not Role.LOCAL and not one.closed]
    if order.user is not None:
        wanted = [one for one in wanted if one is not by]
    if not wanted:
        who = f"with id {order.id}" if order.user is None else f"of user {order.user!r}"
        raise UsageError(f"there is no connection {who}")
    node.audit.did(by, "kick", of={"id": order.id, "user": order.user}, text=order.text, connections=len(wanted))
    node.log.info("connections closed by an admin", of_id=order.id, of_user=order.user, connections=len(wanted))
    for place, one in enumerate(wanted, 1):
        one.close(CloseCode.FORBIDDEN, order.text or _TEXT)
        if not place % _STEP:
            yield
    return {"kicked": len(wanted)}


def _wanted(node: Node, order: _Order) -> list[Handler]:
    handlers = node.core.handlers
    if order.user is None:
        one = handlers.get(order.id or 0)
        return [one] if one is not None else []
    return [one for one in handlers.values() if one.rights is not None and one.rights.user.name == order.user]
