"""`who`: the connections of a hub, a page at a time: who each is, how that is known, and what it has done.

Asked as `$hub/who`. Owner: nobody. Cost: about 5 µs a connection, at most `PAGE` of them an answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from hub.delivery import Role
from hub.errors import UsageError
from hub.handler import Handler
from hub.requests.hub_services import Function
from peers.node.node import Node, connection_of

__all__ = ["PAGE", "who"]

PAGE: Final = 64
"""Most connections in an answer; fewer say that there are no more. Sixteen answers are the most of a turn: 5 ms."""


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    after: int = 0
    user: str | None = None


def who(node: Node) -> Function:
    """Return the service.

    It takes null, or a map with `after`, the id behind which to go on, and `user`, for the connections of one user. It
    gives a list of maps, by id.
    """

    def answer(_: Handler, value: Any) -> list[dict[str, Any]]:
        try:
            page = msgspec.convert({} if value is None else value, _Page)
        except msgspec.ValidationError as error:
            raise UsageError(f"expected null, or a map with `after` and `user`: {error}") from error
        handlers = node.core.handlers
        ids = list(handlers)  # in their order, since numbers only grow
        found = (handlers[number] for number in islice(ids, bisect_right(ids, page.after), None))
        shown = (one for one in found if one.role is not Role.LOCAL and _is_of(one, page.user))
        return [_described(node, one) for one in islice(shown, PAGE)]

    return answer


def _is_of(handler: Handler, user: str | None) -> bool:
    return user is None or (handler.rights is not None and handler.rights.user.name == user)


def _described(node: Node, handler: Handler) -> dict[str, Any]:
    connection = connection_of(handler)
    rights = handler.rights
    counted: Mapping[str, Any] = handler.statistics()._asdict()
    return dict(counted) | {
        "user": rights.user.name if rights is not None else "",
        "how": connection.how,
        "protocol": connection.protocol,
        "since": round(node.wall_us() / 1e6 - (node.loop.time() - connection.since_s), 3),
        "rules": sum(1 for _ in node.core.rules.of(handler)),
    }
