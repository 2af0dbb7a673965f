"""`Verdict`: what a policy says of one user who wants to do one thing, and why. A value; no I/O.

What is subscribed to, served, read from the journal or taken by a peer is a prefix: every topic that begins with it.
What is published, asked or brought is one topic; what is claimed, a name.
"""

from __future__ import annotations

from typing import NamedTuple

from hub.policy.grants import Grant
from hub.policy.policy import Action, Policy, Rights
from hub.policy.refusal import not_granted, prefix_not_granted
from hub.topics import printable

__all__ = ["Verdict", "verdict"]

_OF_PREFIXES = frozenset({Action.SUBSCRIBE, Action.SERVE, Action.JOURNAL, Action.TAKE})


class Verdict(NamedTuple):
    """What is decided, and why."""

    allowed: bool
    text: str


def verdict(policy: Policy, user: str, roles: tuple[str, ...], action: Action, topic: str) -> Verdict:
    """Return what a policy says.

    Args:
        policy: The policy.
        user: Who.
        roles: Which his token vouches for, beside those that the policy gives him.
        action: What he wants to do.
        topic: To what: a topic, a prefix or a name.
    """
    rights = policy.rights(user, roles)
    is_prefix = action in _OF_PREFIXES
    held = f"roles of {user}: {', '.join(sorted(rights.user.roles)) or 'none'}"
    if not (rights.may_all if is_prefix else rights.may)(action, topic):
        refusal = (prefix_not_granted if is_prefix else not_granted)(rights, action, topic)
        return Verdict(False, f"{refusal.text}; {_why(rights, action, topic, is_prefix=is_prefix)} ({held})")
    # Of a prefix, the last component is a part of one that could be any.
    decisive = rights.grant(action, topic.rpartition(action.separator)[0] if is_prefix else topic)
    return Verdict(True, f"{action.value} {printable(topic)}: {_rule(decisive)} ({held})")


def _why(rights: Rights, action: Action, topic: str, *, is_prefix: bool) -> str:
    """Say which rule denies something, or that none allows it."""
    decisive = rights.grant(action, topic)
    if is_prefix and (decisive is None or decisive.allowed):
        denial = rights.denial(action, topic)
        return "no rule allows all of it" if denial is None else _rule(denial)
    return "no rule is met" if decisive is None else _rule(decisive)


def _rule(decisive: Grant | None) -> str:
    if decisive is None:
        return "no rule is met"
    return f"role {decisive.role} {'allows' if decisive.allowed else 'denies'} {printable(decisive.path)}"
