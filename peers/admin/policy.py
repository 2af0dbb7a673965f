"""`$hub/policy/test`: may somebody do something, by the policy in force? For admins. Cost: some 10 µs."""

from __future__ import annotations

from typing import Any

import msgspec

from hub.errors import UsageError
from hub.handler import Handler
from hub.policy.policy import Action
from hub.policy.verdict import DEEDS, Verdict, withheld
from hub.requests.directed import AT
from hub.requests.hub_services import Function
from hub.topics import RESERVED, printable
from peers.node.node import Node
from peers.users.question import Question, asked_deed, decide, is_stranger, own_roles, told


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    action: str
    topic: str
    user: str = ""
    roles: tuple[str, ...] = ()


def policy_test(node: Node) -> Function:
    """Return the service; what it takes and gives is in docs/observability.md."""

    def answer(_: Handler, value: Any) -> dict[str, Any]:
        try:
            asked = msgspec.convert(value, _Asked)
        except msgspec.ValidationError as error:
            raise UsageError(f"expected a map with `action`, `topic`, `user` and `roles`: {error}") from error
        question = Question(asked.user, asked.roles, asked.action, asked.topic)
        found = _verdict(node, question)
        node.access.tested["allowed" if found.allowed else "refused"] += 1
        return {"verdict": told(question, found)}

    return answer


def _verdict(node: Node, question: Question) -> Verdict:
    policy = node.access.policy
    if policy is None:
        why = withheld(asked_deed(question), question.topic)
        return Verdict(not why, why or "this hub has no users: everybody may do everything")
    own = own_roles(node.settings)
    found = decide(policy, question, own)
    return found if is_stranger(policy, question, own) else _of_hub(node, question, found)


def _of_hub(node: Node, question: Question, found: Verdict) -> Verdict:
    """Return what the hub says where it is asked itself: some it answers to everybody, some to admins only."""
    services = node.core.requests.hub_services
    target = question.topic
    if DEEDS[question.action].action is not Action.REQUEST or not target.startswith(RESERVED):
        return found
    if target.startswith(AT):
        return Verdict(False, f"request {printable(target)}: hubs alone ask in this way")
    if services.judges_itself(target.encode()):
        return Verdict(True, f"{target} answers everybody, of what he may see or do himself")
    if found.rule is not None and found.allowed and services.is_for_admins(target):  # an admin needs no rule
        return Verdict(False, f"{target} is for admins; {found.text}", found.rule)
    return found
