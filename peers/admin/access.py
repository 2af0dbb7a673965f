"""Services of the hub about users, their rights, the policy, closing and the audit log.

`$hub/rights` answers every client about itself, without a logged refusal. All others are for admins. A user who is
kicked and may connect can come back at once.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, Final

import msgspec

from hub.errors import CloseCode, UsageError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.policy.grants import User
from hub.policy.policy import DEEDS, Action, Verdict, withheld
from hub.requests.hub_services import AT
from hub.statistics.events import AUDIT_TOPIC, STATISTICS_TOPIC
from hub.topics import RESERVED, printable
from peers.admin.steps import in_steps, service
from peers.server.audit import By
from peers.server.server import Server
from peers.users.users import Question, asked_deed, decide, is_stranger, own_roles, told

# The others are for peer hubs
_FOR_CLIENTS: Final = (Action.PUBLISH, Action.SUBSCRIBE, Action.REQUEST, Action.SERVE, Action.CLAIM, Action.JOURNAL)

# The hub's own topics that need a grant, and that programs wait for in vain without one
_OWN_TOPICS: Final = (STATISTICS_TOPIC, AUDIT_TOPIC)


@service("null")
def rights(server: Server, handler: Handler, _: None) -> dict[str, Any]:
    """Answer null with a map about the asker: `user`, `roles`, `admin`.

    Beside these `may`, the actions that are granted for any topic; `asks`, the services of the hub that would answer;
    and `hears`, the hub's own topics that the asker may subscribe to.
    """
    held = handler.rights
    return {
        "user": "" if held is None else held.user.name,
        "roles": [] if held is None else sorted(held.user.roles),
        "admin": held is None or held.is_admin,
        "may": [action.value for action in _FOR_CLIENTS if held is None or held.may_any(action)],
        "asks": server.core.requests.hub_services.open_to(handler),
        "hears": [topic for topic in _OWN_TOPICS if held is None or held.may(Action.SUBSCRIBE, topic)],
    }


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    action: str
    topic: str
    user: str = ""
    roles: tuple[str, ...] = ()


@service("a map with `action`, `topic`, `user` and `roles`", _Asked)
def policy_test(server: Server, _: Handler, asked: _Asked) -> dict[str, Any]:
    """Answer what the policy says; the fields are in docs/reference/hub-topics.md."""
    question = Question(asked.user, asked.roles, asked.action, asked.topic)
    policy, own = server.access.policy, own_roles(server.settings)
    if policy is None:
        why = withheld(asked_deed(question), question.topic)
        found = Verdict(not why, why or "this hub has no users: every client may do everything")
    else:
        found = decide(policy, question, own)
        if not is_stranger(policy, question, own):
            found = _of_hub(server, question, found)
    server.access.tested["allowed" if found.allowed else "refused"] += 1
    return {"verdict": told(question, found)}


def _of_hub(server: Server, question: Question, found: Verdict) -> Verdict:
    """Return the verdict for services of the hub itself: some answer everybody, some admins only."""
    services = server.core.requests.hub_services
    target = question.topic
    if DEEDS[question.action].action is not Action.REQUEST or not target.startswith(RESERVED):
        return found
    if target.startswith(AT):
        return Verdict(False, f"request {printable(target)}: hubs alone ask in this way")
    if services.judges_itself(target.encode()):
        return Verdict(True, f"{target} answers every user, about their own rights")
    if found.rule is not None and found.allowed and services.is_for_admins(target):  # an admin needs no rule
        return Verdict(False, f"{target} is for admins; {found.text}", found.rule)
    return found


USERS: Final = 1000  # Most users in an answer; fewer say that there are no more
_SEEN_PER_STEP = 2000  # Connections in a turn: about 2 ms
_NOBODY = User("", frozenset())  # Stands for all without rights of their own


class _UsersPage(msgspec.Struct, forbid_unknown_fields=True):
    after: str | None = None


@service("null, or a map with `after`", _UsersPage)
def users(server: Server, _: Handler, page: _UsersPage) -> Any:
    """Answer null, or a map with `after`, a user, with a list of users of the policy and of connections, by name.

    The name is empty for all without rights of their own.
    """
    return in_steps(server, _users(server, page.after))


def _users(server: Server, after: str | None) -> Generator[None, None, list[dict[str, Any]]]:
    policy = server.access.policy
    named = {} if policy is None else policy.users
    found = {name: _user_row(name, roles) for name, roles in named.items() if after is None or name > after}
    for place, handler in enumerate(list(server.core.handlers.values()), 1):
        user = handler.rights.user if handler.rights is not None else _NOBODY
        if handler.role is not Role.LOCAL and (after is None or user.name > after):
            row = found.setdefault(user.name, _user_row(user.name, user.roles))
            row["connections"] += 1
            row["queued_bytes"] += handler.queued_bytes
            row["published_messages"] += handler.published_messages
            row["dropped_messages"] += handler.dropped_messages
        if not place % _SEEN_PER_STEP:
            yield
    return [found[name] for name in sorted(found)[:USERS]]


def _user_row(name: str, roles: frozenset[str]) -> dict[str, Any]:
    counters = {"connections": 0, "queued_bytes": 0, "published_messages": 0, "dropped_messages": 0}
    return {"user": name, "roles": sorted(roles), **counters}


_CLOSED_PER_STEP = 50  # Connections in a turn: about 3 ms
_TEXT = "closed by an admin"


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    id: int | None = None
    user: str | None = None
    text: str = _TEXT


@service("a map with `id` or `user`, and `text`", _Order)
def kick(server: Server, by: By, order: _Order) -> Any:
    """Answer a map with `id` or `user`, and perhaps `text`, with `kicked`, the number of closed connections.

    It fails if there is no such connection. The asker's own one stays open where a user is kicked, for the answer.
    """
    if (order.id is None) is (order.user is None):
        raise UsageError("expected a map with either `id` or `user`, and `text`")
    return in_steps(server, _closed(server, by, order))


def _closed(server: Server, by: By, order: _Order) -> Generator[None, None, dict[str, int]]:
    wanted = [
        one
        for one in server.core.handlers.values()
        if one.role is not Role.LOCAL
        and not one.closed
        and (
            one.id == order.id
            if order.user is None
            else one is not by and one.rights is not None and one.rights.user.name == order.user
        )
    ]
    if not wanted:
        who = f"with id {order.id}" if order.user is None else f"of user {order.user!r}"
        raise UsageError(f"there is no connection {who}")
    server.audit.did(by, "kick", of={"id": order.id, "user": order.user}, text=order.text, connections=len(wanted))
    server.log.info("connections closed by an admin", of_id=order.id, of_user=order.user, connections=len(wanted))
    for place, one in enumerate(wanted, 1):
        one.close(CloseCode.FORBIDDEN, order.text or _TEXT)
        if not place % _CLOSED_PER_STEP:
            yield
    return {"kicked": len(wanted)}


EVENTS: Final = 200  # Most events in an answer, beside those of the same moment as the last one


class _EventsPage(msgspec.Struct, forbid_unknown_fields=True):
    before: float = math.inf
    limit: int = EVENTS


@service("null, or a map with `before` and `limit`", _EventsPage)
def audited(server: Server, _: Any, page: _EventsPage) -> list[dict[str, Any]]:
    """Answer null, or a map with `before` (s since 1970) and `limit`, with a list of events, the newest first.

    Fewer than the limit say that nothing older is kept.
    """
    return server.audit.before(page.before, min(max(1, page.limit), EVENTS))


def events_limit(value: Any) -> int:
    asked = value.get("limit", EVENTS) if isinstance(value, dict) else EVENTS
    return min(max(1, asked), EVENTS) if isinstance(asked, int) else EVENTS
