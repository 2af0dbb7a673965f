"""`PolicyTests`: what a policy would decide, the one in force or one that is sent, which is never put in force.

And what the one that is sent would change for those who are connected now. Asked as `$hub/policy/test`, by admins.

```
question ─▶ line (at most WAITING) ─▶ the text is read and compiled, in a thread ─┬─▶ the question
                                                                                 └─▶ all who are connected, some a turn
```

Owner: the service has the line; `Access.tested` counts. Invariants: one question is worked on at a time, so that nobody
waits for it but those who ask the same; nothing of what it finds stays. Cost: a text of 1 MiB takes about a second of a
thread, in which the loop has its turns. Not here: reloading (`peers.daemon.reloading`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, NamedTuple

import msgspec

from hub.errors import BusyError, HubError, InternalError, UsageError
from hub.policy.places import KEPT_CHARACTERS
from hub.policy.policy import Action, Policy
from hub.policy.verdict import DEEDS, Verdict, withheld
from hub.requests.directed import AT
from hub.requests.later import Later
from hub.topics import RESERVED, printable
from peers.admin.policy_change import change
from peers.node.audit import By
from peers.node.node import Node
from peers.node.undisturbed import undisturbed
from peers.users.access import Access
from peers.users.question import Question, asked_deed, decide, is_stranger, own_roles, told

__all__ = ["LARGEST_TEXT", "POLICY_TOPIC", "WAITING", "PolicyTests"]

POLICY_TOPIC: Final = RESERVED + "policy/test"

LARGEST_TEXT: Final = KEPT_CHARACTERS
"""Most characters of a policy that is sent."""

WAITING: Final = 16
"""Most questions that wait for one another; further ones are told to ask again."""

_EXPECTED = "expected a map with `action`, `topic`, `user` and `roles`, or `policy`, a text, and `connected`, or both"


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    policy: str | None = None
    connected: bool = False
    action: str | None = None
    topic: str = ""
    user: str = ""
    roles: tuple[str, ...] = ()


class _Waiting(NamedTuple):
    asked: _Asked
    by: By
    later: Later


class PolicyTests:
    """The questions of one node.

    Args:
        node: Which.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._line: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None
        """What works on the first of the line; None while there is none."""

    def answer(self, by: By, value: Any) -> Later:
        """Answer one question, see docs/observability.md.

        Raises:
            UsageError: It makes no sense, or the text is too large.
            BusyError: Too many wait.
        """
        tested = self._node.access.tested
        try:
            asked = msgspec.convert(value, _Asked)
        except msgspec.ValidationError as error:
            raise UsageError(f"{_EXPECTED}: {error}") from error
        if asked.policy is None and (asked.action is None or asked.connected):
            raise UsageError(_EXPECTED)
        if asked.policy is not None and len(asked.policy) > LARGEST_TEXT:
            tested["too_large"] += 1
            raise UsageError(f"the policy has {len(asked.policy)} characters, at most {LARGEST_TEXT} are tried")
        if len(self._line) >= WAITING:
            tested["busy"] += 1
            raise BusyError(f"{WAITING} questions about policies wait already: ask again")
        later = Later()
        self._line.append(_Waiting(asked, by, later))
        if self._task is None:
            self._task = self._node.loop.create_task(self._work(), name="test policies")
        return later

    async def _work(self) -> None:
        """Answer those who wait, one after the other."""
        while self._line:
            asked, by, later = self._line.popleft()
            try:
                later.give(await self._answered(asked, by))
            except HubError as error:
                later.fail(error)
            except Exception as error:
                self._node.log.exception("a request to the hub failed by a bug, please report it", error=repr(error))
                later.fail(InternalError("a bug of the hub, please report it; its log has more"))
        self._task = None

    async def _answered(self, asked: _Asked, by: By) -> dict[str, Any]:
        node = self._node
        if asked.policy is None:
            node.access.tested["asked"] += 1
            return {"verdict": await self._verdict(asked, node.access.policy), "policy": None, "change": None}
        settings = node.settings
        try:
            with undisturbed():
                access = await asyncio.to_thread(node.access.tried, asked.policy, settings.access, settings.zeek)
        except UsageError:
            node.access.tested["wrong"] += 1
            raise
        node.access.tested["tried"] += 1
        try:
            return await self._tried(asked, access, by)
        finally:
            remains = _Remains(access)
            del access
            await asyncio.to_thread(remains.let_go)

    async def _tried(self, asked: _Asked, access: Access, by: By) -> dict[str, Any]:
        policy = access.policy or _NO_POLICY
        return {
            "verdict": None if asked.action is None else await self._verdict(asked, policy),
            "policy": {"roles": len(policy.roles), "users": len(policy.users)},
            "change": await change(self._node, access, by) if asked.connected else None,
        }

    async def _verdict(self, asked: _Asked, policy: Policy | None) -> dict[str, Any]:
        question = Question(asked.user, asked.roles, asked.action or "", asked.topic)
        if policy is None:
            policy = _NO_POLICY
            why = withheld(asked_deed(question), asked.topic)
            found = Verdict(not why, why or "this hub has no users: everybody may do everything")
        else:
            own = own_roles(self._node.settings)
            found = decide(policy, question, own)
            if not is_stranger(policy, question, own):
                found = self._of_hub(question, found)
        return await asyncio.to_thread(told, policy, question, found)

    def _of_hub(self, question: Question, found: Verdict) -> Verdict:
        """Return what the hub says where it is asked itself: some it answers to everybody, some to admins only."""
        services = self._node.core.requests.hub_services
        target = question.topic
        if DEEDS[question.action].action is not Action.REQUEST or not target.startswith(RESERVED):
            return found
        if target.startswith(AT):
            return Verdict(False, f"request {printable(target)}: hubs alone ask in this way")
        if services.judges_itself(target.encode()):
            return Verdict(True, f"{target} answers everybody, of what he may see or do himself")
        if found.rule is not None and found.allowed and services.is_for_admins(target):  # an admin needs no rule
            return Verdict(False, f"{target} is for admins; {found.text}", found.rule, found.place)
        return found


_NO_POLICY = Policy({}, {})
"""Stands where there is none."""


class _Remains:
    """What a policy was made of that was tried: to free it all at once would stop everything (`Policy.pieces`).

    Args:
        access: That has the policy, and that nobody else holds.
    """

    def __init__(self, access: Access) -> None:
        self._access: Access | None = access

    def let_go(self) -> None:
        """Free it, piece by piece; called in a thread."""
        policy = None if self._access is None else self._access.policy
        pieces = [] if policy is None else list(policy.pieces())
        pieces.reverse()
        self._access = policy = None
        while pieces:
            pieces.pop()
