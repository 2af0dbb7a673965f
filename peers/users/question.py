"""`Question`: may a user do something? `hub policy test` asks it of a file, `$hub/policy/test` of a hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hub.errors import UsageError
from hub.names.claim import check_name
from hub.policy.policy import (
    ADMIN,
    ANONYMOUS,
    ANYBODY,
    DEEDS,
    LOCAL,
    ZEEK,
    Action,
    Deed,
    Policy,
    Verdict,
    check_user,
    verdict,
)
from hub.settings.settings import Settings
from hub.topics import check_prefix, check_topic, printable

_SHOWN_ROLES = 8

# Of targets; all others are prefixes
_CHECKS = {
    Action.PUBLISH: check_topic,
    Action.REQUEST: check_topic,
    Action.BRING: check_topic,
    Action.CLAIM: check_name,
}


class Question(NamedTuple):
    """What is asked."""

    user: str  # Empty for any user with the roles
    roles: tuple[str, ...]  # That a token vouches for, beside those of the policy
    action: str  # One of `DEEDS`
    topic: str


def own_roles(settings: Settings) -> Mapping[str, str]:
    """Return the roles of those users to whom the hub itself gives one; empty for users that are not let in."""
    return {ANONYMOUS: settings.access.anonymous, LOCAL: ADMIN, ZEEK: settings.zeek.role}


def asked_deed(question: Question) -> Deed:
    """Return the action, or raise a `UsageError` where there is none, or it is not for such a topic."""
    if question.action not in DEEDS:
        raise UsageError(f"there is no action {printable(question.action)}; there are {', '.join(DEEDS)}")
    deed = DEEDS[question.action]
    _CHECKS.get(deed.action, check_prefix)(deed.to(question.topic))
    return deed


def is_stranger(policy: Policy, question: Question, own: Mapping[str, str]) -> bool:
    """Return whether a user would not be let in, as they have no role. The arguments are those of `decide`."""
    user = question.user
    return bool(user) and not question.roles and not own.get(user) and user not in policy


def decide(policy: Policy, question: Question, own: Mapping[str, str]) -> Verdict:
    """Return what a policy says, or raise a `UsageError` where there is no such role, action, user or topic."""
    user, roles, _, topic = question
    if user:
        check_user(user)
    elif not roles:
        raise UsageError("expected a user, or a role, or both")
    deed = asked_deed(question)
    if own.get(user):
        roles = (*roles, own[user])
    for name in roles:
        if name not in policy.roles:
            shown = ", ".join(sorted(policy.roles)[:_SHOWN_ROLES])
            raise UsageError(f"there is no role {printable(name)}; there are {shown}")
    if is_stranger(policy, question, own):
        return Verdict(False, f"there is no user {printable(user)}, and no role is given: he would not be let in")
    return verdict(policy, user or ANYBODY, roles, deed, topic)


def told(question: Question, found: Verdict) -> dict[str, Any]:
    return {
        "user": question.user,
        "roles": list(question.roles),
        "action": question.action,
        "topic": question.topic,
        "allowed": found.allowed,
        "text": found.text,
        "rule": None if found.rule is None else found.rule._asdict(),
        "limits": [bound._asdict() for bound in found.bounds],
    }
