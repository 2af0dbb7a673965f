"""`users`: which users a hub knows, what roles they have, and how often each is connected.

Asked as `$hub/users`. Owner: nobody. Cost: a look at each connection and each user, `_STEP` a turn.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec

from hub.delivery import Role
from hub.errors import UsageError
from hub.handler import Handler
from hub.requests.hub_services import Function
from peers.admin.steps import in_steps
from peers.node.node import Node

__all__ = ["PAGE", "users"]

PAGE: Final = 1000
"""Most users in an answer; fewer say that there are no more."""

_STEP = 2000
"""How many connections are looked at in a turn: about 2 ms."""


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    after: str = ""


class _Seen:
    """A user, as far as he was looked at."""

    __slots__ = ("connections", "dropped", "published", "queued_bytes", "roles")

    def __init__(self, roles: frozenset[str]) -> None:
        self.roles = roles
        self.connections = self.queued_bytes = self.published = self.dropped = 0

    def add(self, handler: Handler) -> None:
        """Count one connection."""
        sums = handler.sums()
        self.connections += 1
        self.queued_bytes += sums.queued_bytes
        self.published += handler.published_messages
        self.dropped += sums.dropped_messages


def users(node: Node) -> Function:
    """Return the service.

    It takes null, or a map with `after`, the user behind whom to go on. It gives a list of maps, by name: those whom
    the policy names, and those who are connected. The user is empty for all who have no rights of their own.
    """

    def answer(_: Handler, value: Any) -> Any:
        try:
            page = msgspec.convert({} if value is None else value, _Page)
        except msgspec.ValidationError as error:
            raise UsageError(f"expected null, or a map with `after`: {error}") from error
        return in_steps(node, _counted(node, page.after))

    return answer


def _counted(node: Node, after: str) -> Generator[None, None, list[dict[str, Any]]]:
    policy = node.access.policy
    found = {} if policy is None else {name: _Seen(roles) for name, roles in policy.users.items() if name > after}
    for place, handler in enumerate(list(node.core.handlers.values()), 1):
        if handler.role is not Role.LOCAL:
            user = handler.rights.user if handler.rights is not None else None
            name = "" if user is None else user.name
            if name > after or (not name and not after):
                if name not in found:
                    found[name] = _Seen(frozenset() if user is None else user.roles)
                found[name].add(handler)
        if not place % _STEP:
            yield
    return [_described(name, found[name]) for name in sorted(found)[:PAGE]]


def _described(name: str, seen: _Seen) -> dict[str, Any]:
    return {
        "user": name,
        "roles": sorted(seen.roles),
        "connections": seen.connections,
        "queued_bytes": seen.queued_bytes,
        "published_messages": seen.published,
        "dropped_messages": seen.dropped,
    }
