"""`FarHub`: another hub of the mesh, as one of those who want something.

It stands in the multimap beside handlers. What it wants goes on the links that lead to it, and which these are depends
on where a message has entered the mesh: see `hub.routes`.

Owner: `hub.far_hubs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hub.delivery import Delivery, Role
from hub.policy.policy import Rights
from hub.quotas.quotas import Share
from hub.tags.rules import Rule

if TYPE_CHECKING:
    from hub.handler import Handler
    from hub.names.claim import Announced


class FarHub:
    """One hub.

    Args:
        hub: Its id.
    """

    __slots__ = ("delivery", "hub", "is_lost", "leaves", "link", "names", "prefixes", "rules", "served")

    closed: ClassVar[bool] = False  # As a handler would say it: it takes what is for it until it is forgotten

    is_link: ClassVar[bool] = True  # As a handler would say it: it is no client of this hub

    name: ClassVar[str] = ""
    share: ClassVar[Share | None] = None  # Nobody here is charged for what is of another hub

    def __init__(self, hub: bytes) -> None:
        self.hub = hub
        # Links are not asked for what it wants, as it asks for that itself; leaves are.
        self.delivery = Delivery.of(Role.LINK)
        # What it wants, as far as it stands in the multimap, and in the index of rules.
        self.prefixes: dict[str, int] = {}
        self.rules: dict[Rule, None] = {}
        # The prefixes under which its clients answer requests, as far as they can be found here.
        self.served: dict[str, None] = {}
        # The names of its clients, as it has announced them last.
        self.names: dict[str, Announced] = {}
        # The endpoints of its leaves, each with the time since when it has it, as it has announced them last.
        self.leaves: dict[bytes, int] = {}
        # Whether nothing leads there now: then the names of its clients are nobody's, and neither are its leaves.
        self.is_lost = False
        # The link that has brought the last change of it, also when that is gone; None before the first.
        self.link: Handler | None = None

    @property
    def rights(self) -> Rights | None:
        """What the link may do that speaks for it: no names that it may not claim."""
        return None if self.link is None else self.link.rights

    @property
    def held(self) -> int:
        return len(self.prefixes) + len(self.rules) + len(self.served) + len(self.names) + len(self.leaves)

    def __repr__(self) -> str:
        return f"<FarHub {self.hub.hex()}>"
