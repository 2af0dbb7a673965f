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
from hub.policy.grants import User
from hub.requests.hub_services import Function
from peers.admin.steps import in_steps
from peers.node.node import Node

__all__ = ["PAGE", "users"]

PAGE: Final = 1000
"""Most users in an answer; fewer say that there are no more."""

_STEP = 2000
"""How many connections are looked at in a turn: about 2 ms."""

_DESCRIBED = 100
"""How many users are described in a turn, about 0.2 ms."""


_NOBODY = User("", frozenset())
"""Stands for all who have no rights of their own."""


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    after: str | None = None


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


def _counted(node: Node, after: str | None) -> Generator[None, None, list[dict[str, Any]]]:
    policy = node.access.policy
    named = {} if policy is None else policy.users
    found = {name: _Seen(roles) for name, roles in named.items() if after is None or name > after}
    for place, handler in enumerate(list(node.core.handlers.values()), 1):
        user = handler.rights.user if handler.rights is not None else _NOBODY
        if handler.role is not Role.LOCAL and (after is None or user.name > after):
            if user.name not in found:
                found[user.name] = _Seen(user.roles)
            found[user.name].add(handler)
        if not place % _STEP:
            yield
    page = []
    for place, name in enumerate(sorted(found)[:PAGE], 1):
        page.append(_described(name, found[name]))
        if not place % _DESCRIBED:
            yield
    return page


def _described(name: str, seen: _Seen) -> dict[str, Any]:
    return {
        "user": name,
        "roles": sorted(seen.roles),
        "connections": seen.connections,
        "queued_bytes": seen.queued_bytes,
        "published_messages": seen.published,
        "dropped_messages": seen.dropped,
    }
