"""`Policy`: roles and users; `Rights`: what one user may do; `verdict`: which rule decides one action of a user.

A policy does not change: a reload replaces it whole, and a handler keeps `Rights` of the old one until it gets new
ones. While one is in use, the rights of one user with the same roles are the same object, so that decisions for one
connection are known to all. Refusals have one wording for all protocols:

```
publish '/a/b': not granted to user 'x'
subscribe '/a': not granted as a whole to user 'x'; granted below: '/a/b/', '/a/c/'
```
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from hub.errors import CloseCode, InvalidNameError, RejectedError
from hub.policy.grants import EVERYTHING, NAMES, OWN, TOPICS, USER, Domain, Grant, Grants, Path, User
from hub.quotas import NO_LIMITS, QuotaLimits, Resource
from hub.topics import RESERVED, STORES, printable, store_that_tells

_SHOWN_PATHS = 8  # How many granted paths the text of a refusal lists
ANONYMOUS = "anonymous"  # The user of a client without credentials; `access.anonymous` is its role
LOCAL = "local"  # The user with the hub's own account on this machine: an admin
ZEEK = "zeek"  # The user of Zeeks where the settings give them a role
RESERVED_USERS = frozenset({ANONYMOUS, LOCAL, ZEEK})  # Users that no policy and no token can name

# How many domains and targets are remembered for one user as allowed, of each kind, 100 bytes each. When there are
# more, all are forgotten and decided again, 1 µs each (`Policy.forgotten_total`). Refusals are not remembered.
DECIDED_LIMIT = 1_024
T = TypeVar("T", bound=Hashable)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")


class Action(Enum):
    """The kind of an action. The values are the keys of the language."""

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
    """Return `name` if a user or role may have it, as a component of a topic; else raise an `InvalidNameError`."""
    if _USER.fullmatch(name) is None:
        raise InvalidNameError(
            f"{printable(name)} is not a valid name of a user or role: 1 to 64 letters, digits, _ . @ + -,"
            " none of . @ + - first"
        )
    return name


class RolePermissions(NamedTuple):
    """The permissions of one role, as written: for each action the paths, and whether each is allowed."""

    grants: Mapping[Action, Iterable[tuple[Path, bool]]]
    is_admin: bool = False


class Domains:
    """The nodes of the grants for publishing that topics meet: one object for all topics that meet the same nodes.

    A route has it, so that a publisher is asked for it and not for the topic.
    """

    __slots__ = ("__weakref__", "bring", "policy", "publish")

    def __init__(self, policy: Policy, publish: Domain, bring: Domain) -> None:
        self.policy = policy
        self.publish = publish  # Decides about publishing there
        self.bring = bring  # Decides which peer hub, or Zeek, may bring messages there


class Policy:
    """Roles and users, compiled."""

    def __init__(
        self, roles: Mapping[str, RolePermissions], users: Mapping[str, frozenset[str]], limits: QuotaLimits = NO_LIMITS
    ) -> None:
        self.roles = frozenset(roles)
        self.users = users
        self.limits = limits
        self.forgotten_total = 0  # How often the decisions for a user were forgotten, as they were too many
        self.admin_roles = frozenset(name for name, role in roles.items() if role.is_admin)
        self.grants = {action: Grants(action.separator) for action in Action}
        for name, role in roles.items():
            for action, paths in role.grants.items():
                for path, allowed in paths:
                    self.grants[action].add(name, path, allowed=allowed)
        # One object for the same nodes, and for a user with the same roles, while it is in use.
        self._domains: WeakValueDictionary[tuple[Domain, Domain], Domains] = WeakValueDictionary()
        self._rights: WeakValueDictionary[User, Rights] = WeakValueDictionary()

    def __contains__(self, user: object) -> bool:
        return user in self.users

    def domain(self, action: Action, topic: str) -> Domain:
        """Return the nodes that decide about a topic: the same for all users."""
        return self.grants[action].domain(topic)

    def domains(self, topic: str) -> Domains:
        """Return the nodes that decide about publishing under a topic, for its route to remember."""
        met = self.domain(Action.PUBLISH, topic), self.domain(Action.BRING, topic)
        domains = self._domains.get(met)
        if domains is None:
            domains = self._domains[met] = Domains(self, *met)
        return domains

    def rights(self, user: str, roles: Iterable[str] = ()) -> Rights:
        """Return the rights of a user.

        Args:
            user: The name; one that the policy does not name has no roles but the given ones.
            roles: Further roles, vouched for by a credential; unknown ones are ignored.
        """
        key = User(user, self.users.get(user, frozenset()) | self.roles.intersection(roles))
        rights = self._rights.get(key)
        if rights is None:
            rights = self._rights[key] = Rights(key, self)
        return rights


class Rights:
    """The permissions of one user."""

    __slots__ = ("__weakref__", "asks", "brings_in", "brings_to", "is_admin", "policy", "publishes_in", "user")

    def __init__(self, user: User, policy: Policy) -> None:
        self.user = user
        self.policy = policy
        self.is_admin = not user.roles.isdisjoint(policy.admin_roles)
        # Domains that were found to be allowed (`may_in`), for publishers and for peers; others are refused or unknown.
        self.publishes_in: set[Domains] = set()
        self.brings_in: set[Domains] = set()
        # Targets of requests, likewise, as they stand on the wire (`may_ask`).
        self.asks: set[bytes] = set()
        self.brings_to: set[bytes] = set()

    def may(self, action: Action, topic: str) -> bool:
        """Return whether an action is allowed for a topic (a name, for `CLAIM`)."""
        grants = self.policy.grants[action]
        return grants.allows(grants.domain(topic), self.user)

    def may_by(self, action: Action, domain: Domain) -> bool:
        """Return whether an action is allowed for the topics of a domain, as `Policy.domain` returns it."""
        return self.policy.grants[action].allows(domain, self.user)

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
        return self.policy.grants[action].covers(prefix, self.user)

    def may_any(self, action: Action) -> bool:
        return self.policy.grants[action].concerns(self.user)

    def paths(self, action: Action, limit: int) -> list[tuple[str, bool]] | None:
        """Return everything that is granted and denied, see `Grants.paths`; None if that is over `limit`."""
        return self.policy.grants[action].paths(self.user, limit)

    def grant(self, action: Action, topic: str) -> Grant | None:
        """Return the grant that decides about a topic; None where there is none, and it is not allowed."""
        grants = self.policy.grants[action]
        return grants.decisive(grants.domain(topic), self.user)

    def denial(self, action: Action, prefix: str) -> Grant | None:
        return self.policy.grants[action].denial_beneath(prefix, self.user)

    def granted(self, action: Action, prefix: str, limit: int = _SHOWN_PATHS) -> list[str]:
        return self.policy.grants[action].granted_beneath(prefix, self.user, limit)


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


# Refusals.


def not_granted(rights: Rights, action: Action, topic: str) -> RejectedError:
    return RejectedError(
        CloseCode.NOT_ALLOWED, f"{action.value} {printable(topic)}: not granted to user {printable(rights.user.name)}"
    )


def prefix_not_granted(rights: Rights, action: Action, prefix: str) -> RejectedError:
    """Return the error for all topics that begin with a prefix.

    Prefixes are plain text, grants are for whole components: `/a` would cover `/ab`, too. So a path that is granted
    beneath is shown as the prefix that it covers, with a slash behind it.
    """
    user = printable(rights.user.name)
    wanted = f"{action.value} {printable(prefix)}"
    beneath = rights.granted(action, prefix)
    if beneath:
        shown = ", ".join(printable(path + TOPICS) for path in beneath)
        text = f"{wanted}: not granted as a whole to user {user}; granted below: {shown}"
    elif rights.may(action, prefix):
        text = f"{wanted}: not granted as a whole to user {user}: something below it is denied"
    else:
        text = f"{wanted}: not granted to user {user}"
    return RejectedError(CloseCode.NOT_ALLOWED, text)


def check_granted(rights: Rights | None, action: Action, topic: str) -> None:
    """Raise a `RejectedError` unless an action is granted for a topic, or for a name."""
    if rights is not None and not rights.may(action, topic):
        raise not_granted(rights, action, topic)


def check_prefixes_granted(rights: Rights | None, action: Action, prefixes: Iterable[str]) -> None:
    """Raise a `RejectedError`, with the paths granted beneath, for the first prefix that is not granted as a whole."""
    if rights is not None:
        for prefix in prefixes:
            if not rights.may_all(action, prefix):
                raise prefix_not_granted(rights, action, prefix)


# Verdicts: may a user do one thing, which rule decides, and which limits apply?

ANYBODY: Final = USER  # Name of a user of whom only the roles are known: paths are shown with the place of the name

# Topics of these actions are prefixes, of the others one topic; that of a claim is a name.
_OF_PREFIXES = frozenset({Action.SUBSCRIBE, Action.SERVE, Action.JOURNAL, Action.TAKE})
_RATES = ("messages_per_s", "bytes_per_s")
# Limits that apply to an action
_CHARGED: Mapping[Action, tuple[str, ...]] = {
    Action.PUBLISH: _RATES,
    Action.BRING: _RATES,
    Action.SUBSCRIBE: (Resource.PREFIXES.value, Resource.QUEUED_BYTES.value),
    Action.TAKE: (Resource.QUEUED_BYTES.value,),
    Action.REQUEST: (Resource.PENDING_REQUESTS.value,),
    Action.SERVE: (Resource.SERVICES.value,),
    Action.CLAIM: (Resource.NAMES.value,),
    Action.JOURNAL: (Resource.JOURNAL_READS.value,),
}


class Deed(NamedTuple):
    """An action of people, as the policy knows it."""

    action: Action
    topic: str = "{}"  # With `{}` for the given topic, prefix or name
    charged: tuple[str, ...] | None = None  # Limits; None: those of the action

    def to(self, given: str) -> str:
        return self.topic.replace("{}", given)


# By the word that may be asked about: each action, and words for those that take more than one right, or a topic that
# the hub makes
DEEDS: Final[Mapping[str, Deed]] = {
    **{action.value: Deed(action) for action in Action},
    "consume": Deed(Action.JOURNAL, charged=()),
    "label": Deed(Action.SUBSCRIBE, charged=(Resource.RULES.value, Resource.QUEUED_BYTES.value)),
    "read-store": Deed(Action.REQUEST, "$store/{}/read"),
    "write-store": Deed(Action.REQUEST, "$store/{}/write"),
    "watch-store": Deed(Action.SUBSCRIBE, "$store/{}/changes"),
}


class Bound(NamedTuple):
    """One limit."""

    key: str  # Of `[limits]`: a resource, or a rate
    most: int | None  # None: a fair part of a resource, and no limit of a rate


class Verdict(NamedTuple):
    """The decision, and why."""

    allowed: bool
    text: str
    rule: Grant | None = None  # The rule that decides; None where there is none, or for an admin
    bounds: tuple[Bound, ...] = ()  # Limits, if it is allowed


def withheld(deed: Deed, topic: str) -> str:
    """Return why no client may do something, in spite of any grant; empty where grants decide."""
    action, topic = deed.action, deed.to(topic)
    why = ""
    if action in {Action.PUBLISH, Action.SERVE} and topic.startswith(RESERVED):
        why = f"{RESERVED} is the hub's own"
    elif action is Action.SERVE and topic.startswith(STORES):
        why = "hubs alone have stores"
    elif action is Action.PUBLISH and store_that_tells(topic) is not None:
        why = "only a store publishes its changes there"
    return why and f"{action.value} {printable(topic)}: {why}"


def verdict(policy: Policy, user: str, roles: tuple[str, ...], deed: Deed, topic: str) -> Verdict:
    why = withheld(deed, topic)
    if why:
        return Verdict(False, why)
    rights = policy.rights(user, roles)
    action, topic = deed.action, deed.to(topic)
    is_prefix = action in _OF_PREFIXES
    held = f"roles of {user}: {', '.join(sorted(rights.user.roles)) or 'none'}"
    wanted = f"{action.value} {printable(topic)}"
    if action is Action.REQUEST and topic.startswith(RESERVED) and rights.is_admin:
        role = min(rights.user.roles & policy.admin_roles)
        return Verdict(True, f"{wanted}: role {role} is an admin's ({held})")
    if not (rights.may_all if is_prefix else rights.may)(action, topic):
        refusal = (prefix_not_granted if is_prefix else not_granted)(rights, action, topic)
        rule, why = rights.grant(action, topic), ""
        if is_prefix and (rule is None or rule.allowed):  # so a rule beneath denies it, or none allows all of it
            rule = rights.denial(action, topic)
            why = "" if rule else "no rule allows all of it"
        return Verdict(False, f"{refusal.text}; {why or _rule_text(rule)} ({held})", rule)
    # Of a prefix, the last component is a part of one that could be any.
    rule = rights.grant(action, topic.rpartition(action.separator)[0] if is_prefix else topic)
    limits = policy.limits.of(*rights.user)
    keys = _CHARGED[action] if deed.charged is None else deed.charged
    return Verdict(True, f"{wanted}: {_rule_text(rule)} ({held})", rule, tuple(Bound(k, limits.value(k)) for k in keys))


def _rule_text(rule: Grant | None) -> str:
    if rule is None:
        return "no rule is met"
    return f"role {rule.role} {'allows' if rule.allowed else 'denies'} {printable(rule.path)}"
