"""`Delivery`: which of the matching handlers receive a message. `RemoteHub`: another hub among them.

| published by | a client, this process | another leaf (a Zeek) | another link (a peer hub) | the publisher itself |
|---|---|---|---|---|
| a client | yes | yes, unless `reaches_leaves` is off | yes | yes, unless `hears_itself` is off |
| a leaf | yes | yes, unless `reaches_leaves` is off | yes | no, unless `hears_itself` is on |
| a link | yes | yes | as far as its origin leads on (`hub.mesh`) | no |
| this hub (topics under `$hub/`) | if it asks for `$hub/`, or `hears_hub` is on | no | no | |

Topics under `$store/` go only to handlers that ask for these: a prefix such as "" does not bring them
(`hub.routing.routes`). Links are asked for the prefixes of clients and leaves; leaves, where the settings allow it, for
those of clients, links and other hubs; never for topics under `$hub/`, nor leaves for those under `$store/`. Messages
of a leaf that is left to another hub (`hub.links`) are dropped. Values in shared memory go as they are to
handlers that take them (`takes_shared`); memory with other messages in it, to those that may see all
(`takes_blocks`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeVar

from hub.topics import RESERVED, STORES

if TYPE_CHECKING:
    from hub.handlers.handler import Handler
    from hub.labels.rules import Rule
    from hub.names.claim import Announced
    from hub.policy.policy import Rights
    from hub.quotas import Share


class Role(Enum):
    """The kind of far side of a handler."""

    CLIENT = "client"
    LINK = "link"  # A peer hub
    # An endpoint of a foreign network (Zeek). It exchanges filters like a link, and hears links like a client
    LEAF = "leaf"
    LOCAL = "local"  # A subscriber in this process: the journal


_LINK, _LEAF = Role.LINK, Role.LEAF  # `Role.LEAF` itself takes 70 ns


class Delivery(NamedTuple):
    """Which matching messages one handler receives, and which handlers receive its messages."""

    role: Role
    hears_itself: bool  # Whether it receives its own messages
    hears_hub: bool = True  # Whether a prefix that covers more than the hub's own topics brings it these, too
    reaches_leaves: bool = True  # Whether leaves receive its messages
    is_left: bool = False  # Whether it is a leaf that is left to another hub
    takes_shared: bool = False  # Whether it takes values in shared memory
    takes_blocks: bool = False  # Whether it takes them where other messages stand in the same memory, too

    @classmethod
    def of(cls, role: Role) -> Delivery:
        return cls(role, hears_itself=role is not _LEAF)

    @property
    def is_link(self) -> bool:
        return self.role is _LINK

    @property
    def is_peer(self) -> bool:
        """Whether others stand behind it: a peer hub, or a Zeek."""
        return self.role is _LINK or self.role is _LEAF

    @property
    def is_plain(self) -> bool:
        """Whether all matching handlers receive its messages."""
        return self.hears_itself and self.reaches_leaves and not (self.is_link or self.is_left)

    def hears_of_hub(self, prefixes: Iterable[str]) -> bool:
        """Return whether it gets topics under `$hub/`, with one of these prefixes that covers them."""
        if self.role is _LINK or self.role is _LEAF:
            return False
        return self.hears_hub or any(prefix.startswith(RESERVED) for prefix in prefixes)

    def asks_links(self, prefix: str) -> bool:
        return self.role is not _LINK and not prefix.startswith(RESERVED)

    def asks_leaves(self, prefix: str) -> bool:
        """Return whether its prefix is passed on to leaves, where the settings allow it."""
        return self.role is not _LEAF and not prefix.startswith((RESERVED, STORES))


class RemoteHub:
    """A hub of the mesh, in the multimap beside handlers; the class attributes are those of a handler.

    The links that lead to it depend on the origin of a message.
    """

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


class _Party(Protocol):
    @property
    def delivery(self) -> Delivery: ...


P = TypeVar("P", bound=_Party)


def without_links(wanting: tuple[P, ...]) -> tuple[P, ...]:
    """Return those of a route's handlers that are no links."""
    near = tuple([one for one in wanting if one.delivery.role is not _LINK])
    return wanting if len(near) == len(wanting) else near


def receivers(source: P, wanting: tuple[P, ...]) -> tuple[P, ...]:
    """Return the matching handlers that receive a message of a client or a leaf that is not `is_plain`."""
    delivery = source.delivery
    if delivery.is_left:
        return ()
    if not delivery.hears_itself:
        wanting = tuple([one for one in wanting if one is not source])
    if not delivery.reaches_leaves:
        wanting = tuple([one for one in wanting if one.delivery.role is not _LEAF])
    return wanting
