"""`Policy`: roles and users; `Rights`: what follows for one user.

Owner: the hub, which swaps a policy whole. Invariants: a policy never changes once it is built; whoever holds `Rights`
of an old one goes on with the old one until he is given new ones.

Cost: `Rights.may` as `Grants.domain` and `allows`. Not here: the language (`hub.policy.language`), how a user is
recognised, where a refusal is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum

from hub.errors import InvalidNameError
from hub.policy.grants import Domain, Grant, Grants, User
from hub.policy.path import NAMES, TOPICS, Path
from hub.quotas.limits import NO_LIMITS, QuotaLimits
from hub.topics import printable

__all__ = ["ANONYMOUS", "LOCAL", "RESERVED_USERS", "Action", "Policy", "Rights", "RolePermissions", "check_user"]

_SHOWN_PATHS = 8
"""How many granted paths the text of a refusal lists."""

ANONYMOUS = "anonymous"
"""The user who has shown nothing; `access.anonymous` says what he may do."""

LOCAL = "local"
"""The user who has the hub's own account on this machine: an admin."""

RESERVED_USERS = frozenset({ANONYMOUS, LOCAL})
"""Users whom no policy and no token can name: the hub itself says who they are."""

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")


class Action(Enum):
    """What a grant is for. The values are the keys of the language."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    REQUEST = "request"
    SERVE = "serve"
    CLAIM = "claim"
    JOURNAL = "journal"
    BRING = "bring"
    TAKE = "take"

    @property
    def separator(self) -> str:
        """What separates the components of that which it is done to."""
        return NAMES if self is Action.CLAIM else TOPICS


def check_user(name: str) -> str:
    """Return `name` if a user may be called so: it can stand as a component of a topic.

    Raises:
        InvalidNameError: It has other characters than letters, digits, `_.@+-`, begins with one of `.@+-`, or has not 1
            to 64 of them.
    """
    if _USER.fullmatch(name) is None:
        raise InvalidNameError(
            f"{printable(name)} is no name of a user or role: 1 to 64 letters, digits, _ . @ + -, none of . @ + - first"
        )
    return name


class RolePermissions:
    """What one role has, as it was written.

    Args:
        grants: For each action the paths, and whether each is allowed or denied.
        is_admin: Whether it may administer the hub.
    """

    __slots__ = ("grants", "is_admin")

    def __init__(self, grants: Mapping[Action, Iterable[tuple[Path, bool]]], *, is_admin: bool = False) -> None:
        self.grants = {action: tuple(paths) for action, paths in grants.items()}
        self.is_admin = is_admin


class Policy:
    """Roles and users, compiled.

    Args:
        roles: Permissions of each role, by its name.
        users: Roles of each user, by his name; each of these roles is among `roles`.
        limits: How much users may hold, and how fast they may publish.
    """

    __slots__ = ("_admins", "_grants", "_users", "limits", "roles")

    def __init__(
        self,
        roles: Mapping[str, RolePermissions],
        users: Mapping[str, frozenset[str]],
        limits: QuotaLimits = NO_LIMITS,
    ) -> None:
        self.roles = frozenset(roles)
        self.limits = limits
        self._users = users
        self._admins = frozenset(name for name, role in roles.items() if role.is_admin)
        self._grants = {action: Grants(action.separator) for action in Action}
        for name, role in roles.items():
            for action, paths in role.grants.items():
                for path, allowed in paths:
                    self._grants[action].add(name, path, allowed=allowed)

    def __contains__(self, user: object) -> bool:
        """Whether the policy names a user."""
        return user in self._users

    def domain(self, topic: str) -> Domain:
        """Return what decides who may publish under a topic: the same for all users, so that a route remembers it."""
        return self._grants[Action.PUBLISH].domain(topic)

    def rights(self, user: str, roles: Iterable[str] = ()) -> Rights:
        """Return the rights of a user.

        Args:
            user: His name; one that the policy does not name has no roles but those given.
            roles: Further roles, which whoever has recognised him vouches for; those that do not exist are passed over.
        """
        held = self._users.get(user, frozenset()) | self.roles.intersection(roles)
        return Rights(User(user, held), self._grants, is_admin=not held.isdisjoint(self._admins))


class Rights:
    """What one user may do.

    Args:
        user: Who.
        grants: Of the policy, by action.
        is_admin: Whether he may administer the hub.
    """

    __slots__ = ("_grants", "is_admin", "user")

    def __init__(self, user: User, grants: Mapping[Action, Grants], *, is_admin: bool) -> None:
        self.user = user
        self._grants = grants
        self.is_admin = is_admin

    def may(self, action: Action, topic: str) -> bool:
        """Return whether he may do it to a topic (a name, for `CLAIM`)."""
        grants = self._grants[action]
        return grants.allows(grants.domain(topic), self.user)

    def may_publish_in(self, domain: Domain) -> bool:
        """Return whether he may publish under the topics of a domain, which `Policy.domain` has given."""
        return self._grants[Action.PUBLISH].allows(domain, self.user)

    def may_all(self, action: Action, prefix: str) -> bool:
        """Return whether he may do it to every topic that begins with a prefix."""
        return self._grants[action].covers(prefix, self.user)

    def grant(self, action: Action, topic: str) -> Grant | None:
        """Return the grant that decides about a topic; None where there is none, and it is not allowed."""
        grants = self._grants[action]
        return grants.decisive(grants.domain(topic), self.user)

    def granted(self, action: Action, prefix: str, limit: int = _SHOWN_PATHS) -> list[str]:
        """Return paths beneath a prefix that he may do it to, at most `limit`."""
        return self._grants[action].granted_beneath(prefix, self.user, limit)
