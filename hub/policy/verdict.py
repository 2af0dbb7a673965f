"""`Verdict`: may a user do one thing, which rule decides, and what limits it?

What is subscribed to, served, read from the journal or taken by a peer is a prefix: every topic that begins with it.
What is published, asked or brought is one topic; what is claimed, a name. Actions that take more than one right, or a
topic that the hub makes, have a word of their own (`DEEDS`):

| deed | is |
|---|---|
| `consume` | `journal` of a prefix, by a named consumer |
| `label` | `subscribe` to a prefix by labels |
| `read-store`, `write-store` | `request` of `$store/NAME/read` and `$store/NAME/write` |
| `watch-store` | `subscribe` to `$store/NAME/changes` |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hub.policy.grants import USER, Grant
from hub.policy.policy import Action, Policy, Rights
from hub.policy.refusal import not_granted, prefix_not_granted
from hub.quotas.resource import Resource
from hub.topics import RESERVED, STORES, printable, store_that_tells

# Name of a user of whom only the roles are known: paths are shown with the place of the name in them
ANYBODY: Final = USER

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


# By the word that may be asked about
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
    """Return why no client may do something, whatever is granted; empty where grants decide. Arguments as `verdict`."""
    action, topic = deed.action, deed.to(topic)
    why = ""
    if action in {Action.PUBLISH, Action.SERVE} and topic.startswith(RESERVED):
        why = f"{RESERVED} is the hub's own"
    elif action is Action.SERVE and topic.startswith(STORES):
        why = "hubs alone have stores"
    elif action is Action.PUBLISH and store_that_tells(topic) is not None:
        why = "a store tells its changes there, and nobody else does"
    return why and f"{action.value} {printable(topic)}: {why}"


def verdict(policy: Policy, user: str, roles: tuple[str, ...], deed: Deed, topic: str) -> Verdict:
    """Return what a policy says."""
    why = withheld(deed, topic)
    if why:
        return Verdict(False, why)
    rights = policy.rights(user, roles)
    action, topic = deed.action, deed.to(topic)
    is_prefix = action in _OF_PREFIXES
    held = f"roles of {user}: {', '.join(sorted(rights.user.roles)) or 'none'}"
    what = f"{action.value} {printable(topic)}"
    if action is Action.REQUEST and topic.startswith(RESERVED) and rights.is_admin:
        role = min(rights.user.roles & policy.admin_roles)
        return Verdict(True, f"{what}: role {role} is an admin's ({held})")
    if not (rights.may_all if is_prefix else rights.may)(action, topic):
        refusal = (prefix_not_granted if is_prefix else not_granted)(rights, action, topic)
        rule, why = _why(rights, action, topic, is_prefix=is_prefix)
        return Verdict(False, f"{refusal.text}; {why} ({held})", rule)
    # Of a prefix, the last component is a part of one that could be any.
    rule = rights.grant(action, topic.rpartition(action.separator)[0] if is_prefix else topic)
    bounds = _bounds(policy, rights, _CHARGED[action] if deed.charged is None else deed.charged)
    return Verdict(True, f"{what}: {_told(rule)} ({held})", rule, bounds)


def _why(rights: Rights, action: Action, topic: str, *, is_prefix: bool) -> tuple[Grant | None, str]:
    """Return which rule denies something, and what is said of it; or that none allows it."""
    decisive = rights.grant(action, topic)
    if is_prefix and (decisive is None or decisive.allowed):
        denial = rights.denial(action, topic)
        return denial, "no rule allows all of it" if denial is None else _told(denial)
    return decisive, _told(decisive)


def _told(rule: Grant | None) -> str:
    if rule is None:
        return "no rule is met"
    return f"role {rule.role} {'allows' if rule.allowed else 'denies'} {printable(rule.path)}"


def _bounds(policy: Policy, rights: Rights, keys: tuple[str, ...]) -> tuple[Bound, ...]:
    return tuple(_bound(policy, rights, key) for key in keys)


def _bound(policy: Policy, rights: Rights, key: str) -> Bound:
    name, roles = rights.user
    return Bound(key, policy.limits.of(name, roles).value(key))
