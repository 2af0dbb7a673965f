"""`Policy`: roles and users; `Rights`: what one user may do.

A policy never changes once it is built: the hub swaps it whole. A handler with `Rights` of an old one goes on with that
until it gets new ones. As long as one is in use, the rights of one user with the same roles are the same object, so
that what was decided for one connection is known to all.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import TypeVar
from weakref import WeakValueDictionary

from hub.errors import InvalidNameError
from hub.policy.grants import EVERYTHING, NAMES, OWN, TOPICS, Domain, Grant, Grants, Path, User
from hub.quotas.quotas import NO_LIMITS, QuotaLimits
from hub.topics import printable

_SHOWN_PATHS = 8  # How many granted paths the text of a refusal lists

ANONYMOUS = "anonymous"  # The user of a client without credentials; `access.anonymous` says what it may do

LOCAL = "local"  # The user with the hub's own account on this machine: an admin

ZEEK = "zeek"  # The user that Zeeks are where the settings give them a role

RESERVED_USERS = frozenset({ANONYMOUS, LOCAL, ZEEK})  # Users that no policy and no token can name

# How many domains and targets are remembered for one user as allowed, of each kind, 100 bytes each. When there are
# more, all are forgotten and decided again, 1 µs each (`Policy.forgotten_total`). Refusals are not remembered.
DECIDED_LIMIT = 1_024

T = TypeVar("T", bound=Hashable)

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
        return NAMES if self is Action.CLAIM else TOPICS


def check_user(name: str) -> str:
    """Return `name` if it is a valid user: it can stand as a component of a topic.

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
    """The permissions of one role, as written: for each action the paths, and whether each is allowed."""

    __slots__ = ("grants", "is_admin")

    def __init__(self, grants: Mapping[Action, Iterable[tuple[Path, bool]]], *, is_admin: bool = False) -> None:
        self.grants = {action: tuple(paths) for action, paths in grants.items()}
        self.is_admin = is_admin


class Domains:
    """Nodes of the grants for publishing that topics meet: one object for all topics that meet the same.

    A route has it, so that a publisher is asked for it and not for the topic.
    """

    __slots__ = ("__weakref__", "bring", "policy", "publish")

    def __init__(self, policy: Policy, publish: Domain, bring: Domain) -> None:
        self.policy = policy
        self.publish = publish  # What decides who may publish there
        self.bring = bring  # What decides which peer hub, or Zeek, may bring it


class Policy:
    """Roles and users, compiled."""

    __slots__ = (
        "__weakref__",
        "_domains",
        "_grants",
        "_rights",
        "_users",
        "admin_roles",
        "forgotten_total",
        "limits",
        "roles",
    )

    def __init__(
        self, roles: Mapping[str, RolePermissions], users: Mapping[str, frozenset[str]], limits: QuotaLimits = NO_LIMITS
    ) -> None:
        self.roles = frozenset(roles)
        self.limits = limits
        # How often what was decided for a user was forgotten, since it was too much (`DECIDED_LIMIT`).
        self.forgotten_total = 0
        self._users = users
        self.admin_roles = frozenset(name for name, role in roles.items() if role.is_admin)
        self._grants = {action: Grants(action.separator) for action in Action}
        for name, role in roles.items():
            for action, paths in role.grants.items():
                for path, allowed in paths:
                    self._grants[action].add(name, path, allowed=allowed)
        # What publishing meets → the one object for it, and user with roles → his rights, as long as somebody holds it.
        self._domains: WeakValueDictionary[tuple[Domain, Domain], Domains] = WeakValueDictionary()
        self._rights: WeakValueDictionary[User, Rights] = WeakValueDictionary()

    def __contains__(self, user: object) -> bool:
        return user in self._users

    def domain(self, action: Action, topic: str) -> Domain:
        """Return what decides who may do something to a topic: the same for all users."""
        return self._grants[action].domain(topic)

    def domains(self, topic: str) -> Domains:
        """Return what decides who may publish under a topic, for its route to remember."""
        grants = self._grants
        met = grants[Action.PUBLISH].domain(topic), grants[Action.BRING].domain(topic)
        domains = self._domains.get(met)
        if domains is None:
            domains = self._domains[met] = Domains(self, *met)
        return domains

    def pieces(self) -> Iterator[object]:
        """Yield what it is made of, from the top.

        To free 300,000 nodes at once takes 0.1 s. Whoever keeps the pieces of an old policy and drops one after the
        other, in this order, frees it in steps.
        """
        for grants in self._grants.values():
            yield from grants.nodes()

    @property
    def users(self) -> Mapping[str, frozenset[str]]:
        return self._users

    def rights(self, user: str, roles: Iterable[str] = ()) -> Rights:
        """Return the rights of a user.

        Args:
            user: The name; one that the policy does not name has no roles but those given.
            roles: Further roles, vouched for by a credential; those that do not exist are passed over.
        """
        held = self._users.get(user, frozenset()) | self.roles.intersection(roles)
        who = User(user, held)
        rights = self._rights.get(who)
        if rights is None:
            is_admin = not held.isdisjoint(self.admin_roles)
            rights = self._rights[who] = Rights(who, self, self._grants, is_admin=is_admin)
        return rights


class Rights:
    """What one user may do."""

    __slots__ = (
        "__weakref__",
        "_grants",
        "asks",
        "brings_in",
        "brings_to",
        "is_admin",
        "policy",
        "publishes_in",
        "user",
    )

    def __init__(self, user: User, policy: Policy, grants: Mapping[Action, Grants], *, is_admin: bool) -> None:
        self.user = user
        self.policy = policy
        self.is_admin = is_admin
        self._grants = grants
        # Domains in which he may publish, and those in which he may bring something as a peer: those that were decided
        # already (`may_in`). What is not in there is refused, or not known.
        self.publishes_in: set[Domains] = set()
        self.brings_in: set[Domains] = set()
        # Targets that he may ask, and that he may bring requests for, as they stand on the wire, likewise (`may_ask`).
        self.asks: set[bytes] = set()
        self.brings_to: set[bytes] = set()

    def may(self, action: Action, topic: str) -> bool:
        """Return whether an action is allowed for a topic (a name, for `CLAIM`)."""
        grants = self._grants[action]
        return grants.allows(grants.domain(topic), self.user)

    def may_by(self, action: Action, domain: Domain) -> bool:
        """Return whether an action is allowed for the topics of a domain, as `Policy.domain` returns it."""
        return self._grants[action].allows(domain, self.user)

    def may_in(self, action: Action, domains: Domains) -> bool:
        """Return whether PUBLISH or BRING is allowed for domains of the same policy; remember it if it is."""
        brings = action is Action.BRING
        if not self.may_by(action, domains.bring if brings else domains.publish):
            return False
        self._remember(self.brings_in if brings else self.publishes_in, domains)
        return True

    def may_ask(self, target: bytes, *, as_peer: bool) -> bool:
        """Return whether a target may be asked, as it stands on the wire; remember it if it may.

        Args:
            target: A topic, or a service name, which is judged as a topic of one component.
            as_peer: Whether a peer hub brings the request.
        """
        targets = self.brings_to if as_peer else self.asks
        if target in targets:
            return True
        try:
            topic = target.decode()
        except UnicodeDecodeError:
            return False
        if not self.may(Action.BRING if as_peer else Action.REQUEST, topic):
            return False
        self._remember(targets, target)
        return True

    def _remember(self, decided: set[T], one: T) -> None:
        if len(decided) >= DECIDED_LIMIT:
            decided.clear()
            self.policy.forgotten_total += 1
        decided.add(one)

    @property
    def may_link(self) -> bool:
        """Whether the user may be a peer hub: some role lets it bring or take something."""
        return self.may_any(Action.BRING) or self.may_any(Action.TAKE)

    def may_all(self, action: Action, prefix: str) -> bool:
        """Return whether an action is allowed for every topic that begins with a prefix."""
        return self._grants[action].covers(prefix, self.user)

    def may_any(self, action: Action) -> bool:
        return self._grants[action].concerns(self.user)

    def paths(self, action: Action, limit: int) -> list[tuple[str, bool]] | None:
        """Return all that is granted and denied, see `Grants.paths`; None if that is over `limit`."""
        return self._grants[action].paths(self.user, limit)

    def grant(self, action: Action, topic: str) -> Grant | None:
        """Return the grant that decides about a topic; None where there is none, and it is not allowed."""
        grants = self._grants[action]
        return grants.decisive(grants.domain(topic), self.user)

    def denial(self, action: Action, prefix: str) -> Grant | None:
        """Return a grant that denies an action for some topic that begins with a prefix, or None."""
        return self._grants[action].denial_beneath(prefix, self.user)

    def granted(self, action: Action, prefix: str, limit: int = _SHOWN_PATHS) -> list[str]:
        """Return at most `limit` paths beneath a prefix for which an action is allowed."""
        return self._grants[action].granted_beneath(prefix, self.user, limit)


ADMIN = "admin"  # The role of the hub's own account on this machine

_READS = (Action.SUBSCRIBE, Action.JOURNAL)

_WRITES = (Action.PUBLISH, Action.REQUEST, Action.SERVE, Action.CLAIM)

_ALL_TOPICS = (Path((), EVERYTHING), True)

_OWN_TOPICS = (Path((OWN,), OWN), True)

# Roles that a policy may define otherwise. Only an admin's reaches topics under `$hub/`
BUILT_IN: Mapping[str, RolePermissions] = {
    ADMIN: RolePermissions({action: [_ALL_TOPICS, _OWN_TOPICS] for action in Action}, is_admin=True),
    "member": RolePermissions({action: [_ALL_TOPICS] for action in (*_READS, *_WRITES)}),
    "reader": RolePermissions({action: [_ALL_TOPICS] for action in _READS}),
    "peer": RolePermissions({action: [_ALL_TOPICS] for action in (Action.BRING, Action.TAKE)}),
}
