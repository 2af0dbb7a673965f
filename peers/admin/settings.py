"""`settings`: the settings in force, and where each came from, as `hub check-config` shows them before a start.

Asked as `$hub/settings`, by admins. Owner: nobody; a reload changes them. Cost: 0.2 ms. Where the hub is several
processes, the core answers.
"""

from __future__ import annotations

from typing import Any

from hub.config import told
from hub.errors import UsageError
from hub.handler import Handler
from hub.keys import KEYS
from hub.requests.hub_services import Function
from peers.node.node import Node

__all__ = ["settings"]


def settings(node: Node) -> Function:
    """Return the service.

    It takes null, and gives a list of maps: the fields of `hub.config.told`; `live`, whether a reload changes it, and
    `description`.
    """

    def answer(_: Handler, value: Any) -> list[dict[str, Any]]:
        if value is not None:
            raise UsageError("expected null")
        return [
            row | {"live": KEYS[row["setting"]].live, "description": KEYS[row["setting"]].description}
            for row in told(node.settings, node.origins)
        ]

    return answer
