"""`Verdict`: what a policy says of one user who wants to do one thing, and why. A value; no I/O.

What is subscribed to, served, read from the journal or taken by a peer is a prefix: every topic that begins with it.
What is published, asked or brought is one topic; what is claimed, a name.
"""

from __future__ import annotations

from typing import NamedTuple

from hub.policy.grants import Grant
from hub.policy.policy import Action, Policy
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
        return Verdict(False, f"{refusal.text}{_why(rights.grant(action, topic), is_prefix=is_prefix)} ({held})")
    # Of a prefix, the last component is a part of one that could be any.
    decisive = rights.grant(action, topic.rpartition(action.separator)[0] if is_prefix else topic)
    return Verdict(True, f"{action.value} {printable(topic)}: {_rule(decisive)} ({held})")


def _why(decisive: Grant | None, *, is_prefix: bool) -> str:
    """Say which rule denies something, or that none is met; of a prefix, the refusal may have said it already."""
    if decisive is None:
        return "" if is_prefix else "; no rule is met"
    return "" if decisive.allowed else f"; {_rule(decisive)}"


def _rule(decisive: Grant | None) -> str:
    if decisive is None:
        return "no rule is met"
    return f"role {decisive.role} {'allows' if decisive.allowed else 'denies'} {printable(decisive.path)}"
