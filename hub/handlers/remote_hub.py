"""`RemoteHub`: a hub of the mesh, in the multimap beside handlers. The links that lead to it depend on the origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hub.handlers.delivery import Delivery, Role
from hub.policy.policy import Rights
from hub.quotas import Share

if TYPE_CHECKING:
    from hub.handlers.handler import Handler
    from hub.labels.rules import Rule
    from hub.names.claim import Announced


class RemoteHub:
    """One hub, by its id; the class attributes are those of a handler."""

    __slots__ = ("delivery", "hub", "is_lost", "leaves", "link", "names", "prefixes", "rules", "served")

    closed: ClassVar[bool] = False
    is_link: ClassVar[bool] = True
    name: ClassVar[str] = ""
    share: ClassVar[Share | None] = None

    def __init__(self, hub: bytes) -> None:
        self.hub = hub
        self.delivery = Delivery.of(Role.LINK)
        # Its interests, as far as they are in the multimap and in the index of rules.
        self.prefixes: dict[str, int] = {}
        self.rules: dict[Rule, None] = {}
        # The prefixes under which its clients answer requests.
        self.served: dict[str, None] = {}
        # The names of its clients, and its leaves with the time since when it has them, as announced last.
        self.names: dict[str, Announced] = {}
        self.leaves: dict[bytes, int] = {}
        # Whether no link leads to it: then the names of its clients have no owner, and others have its leaves.
        self.is_lost = False
        # The link that brought its last change, also when that is gone; None before the first.
        self.link: Handler | None = None

    @property
    def rights(self) -> Rights | None:
        """The rights of the link that speaks for it."""
        return None if self.link is None else self.link.rights

    @property
    def held(self) -> int:
        return len(self.prefixes) + len(self.rules) + len(self.served) + len(self.names) + len(self.leaves)

    def __repr__(self) -> str:
        return f"<RemoteHub {self.hub.hex()}>"
