"""`rights`: what whoever asks may do at this hub, so that a page, or a program, need not offer what would be refused.

Asked as `$hub/rights`, by everybody, of himself: what is told is what he could find out by trying, without a refusal
that is logged and told to admins. Owner: nobody; it is as things stand now, and a reload of the policy may change it.
Cost: a look at the policy for each service of the hub, some 10 µs in all. Not here: what others may do (`hub policy`).
"""

from __future__ import annotations

from typing import Any, Final

from hub.errors import UsageError
from hub.events import AUDIT_TOPIC, STATISTICS_TOPIC
from hub.handler import Handler
from hub.policy.policy import Action
from hub.requests.hub_services import Function
from peers.node.node import Node

__all__ = ["rights"]

_FOR_CLIENTS: Final = (
    Action.PUBLISH,
    Action.SUBSCRIBE,
    Action.REQUEST,
    Action.SERVE,
    Action.CLAIM,
    Action.JOURNAL,
)
"""What clients do; the others are for peer hubs."""

_TOLD: Final = (STATISTICS_TOPIC, AUDIT_TOPIC)
"""Topics of the hub's own that a grant is needed for, and that programs wait for in vain without one."""


def rights(node: Node) -> Function:
    """Return the service.

    It takes null, and gives a map: `user`, `roles`, `admin`; `may`, the actions that are granted to him for anything at
    all; `asks`, what the hub itself would answer him; `hears`, of the topics of the hub's own those that he may hear.
    """
    services = node.core.requests.hub_services

    def answer(handler: Handler, value: Any) -> dict[str, Any]:
        if value is not None:
            raise UsageError("expected null")
        held = handler.rights
        return {
            "user": "" if held is None else held.user.name,
            "roles": [] if held is None else sorted(held.user.roles),
            "admin": held is None or held.is_admin,
            "may": [action.value for action in _FOR_CLIENTS if held is None or held.may_any(action)],
            "asks": services.open_to(handler),
            "hears": [topic for topic in _TOLD if held is None or held.may(Action.SUBSCRIBE, topic)],
        }

    return answer
