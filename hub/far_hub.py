"""`FarHub`: another hub of the mesh, as one of those who want something.

It stands in the multimap beside handlers. What it wants goes on the links that lead to it, and which these are depends
on where a message has entered the mesh: see `hub.routes`.

Owner: `hub.far_hubs`.
"""

from __future__ import annotations

from hub.delivery import Delivery, Role
from hub.tags.rule import Rule

__all__ = ["FarHub"]


class FarHub:
    """One hub.

    Args:
        hub: Its id.
    """

    __slots__ = ("delivery", "hub", "prefixes", "rules", "served")

    def __init__(self, hub: bytes) -> None:
        self.hub = hub
        # Links are not asked for what it wants, as it asks for that itself; leaves are.
        self.delivery = Delivery.of(Role.LINK)
        # What it wants, as far as it stands in the multimap, and in the index of rules.
        self.prefixes: dict[str, int] = {}
        self.rules: dict[Rule, None] = {}
        # The prefixes under which its clients answer requests, as far as they can be found here.
        self.served: dict[str, None] = {}

    @property
    def held(self) -> int:
        """How much it wants."""
        return len(self.prefixes) + len(self.rules) + len(self.served)

    def __repr__(self) -> str:
        return f"<FarHub {self.hub.hex()}>"
