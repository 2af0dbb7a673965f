"""`Delivery`: who gets what, of all that is wanted.

A subscription says what a handler wants, and `hub.routes` finds everybody who wants a message. Not all of them get it:
that depends on what stands behind the publisher, and behind the one that wants it. Here are all rules of that kind.

Does it get what it wants?

| published by | a client, this process | another leaf (a Zeek) | another link (a peer hub) | the publisher itself |
|---|---|---|---|---|
| a client | yes | yes, unless `reaches_leaves` is off | yes | yes, unless `hears_itself` is off |
| a leaf | yes | yes, unless `reaches_leaves` is off | yes | no, unless `hears_itself` is on |
| a link | yes | yes | as far as it leads on: see below | no |
| this hub (topics under `$hub/`) | if it asks for `$hub/`, or `hears_hub` is on | no | no | |

Topics under `$store/` go to those only who ask for these: a prefix such as "" does not bring them (`hub.routes`).

Whom does the hub ask for what is wanted here? It never asks for topics under `$hub/`, which stay in each hub; nor
leaves for those under `$store/`, of which they know nothing.

| wanted by | asked of links | asked of leaves |
|---|---|---|
| a client, this process | yes | yes, where the settings allow it |
| a leaf | yes | no |
| a link, or another hub | no: it asks for that itself | yes, where the settings allow it |

Of a leaf that is left to another hub of the mesh, which has it as well, nobody gets anything (`hub.leaves`).

What came over a link says where it has entered the mesh, and that decides which links it goes on: `hub.routes`,
`hub.mesh`. From a hub that does not say so, it goes to no link (one hop).

In which form? Values in shared memory go as they are to those that take them (`takes_shared`), and as bytes to all
others. Where other messages stand in the same memory, only those take it who may see everything (`takes_blocks`).

Owner: each `hub.handler.Handler` has one `Delivery`, which is a value: whoever changes something puts another in its
place. Cost: where everybody gets what is wanted (`is_plain`), which is asked once for each batch, nothing of this runs.

Not here: who wants what (`hub.routes`), whether a publisher may use a name (`hub.routes`), and requests
(`hub.requests.services`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from hub.topics import RESERVED, STORES

__all__ = ["Delivery", "Role", "receivers", "without_links"]


class Role(Enum):
    """What stands behind a handler."""

    CLIENT = "client"
    LINK = "link"
    """A peer hub. Whether what came from one link goes to another depends on where it has entered the mesh."""
    LEAF = "leaf"
    """An endpoint of a foreign network (Zeek). It is told what this hub wants, and says what it wants, like a link;
    but it hears what comes over links, and what comes from it goes over links, like a client."""
    LOCAL = "local"
    """A subscriber in this process: the journal."""


_LINK, _LEAF = Role.LINK, Role.LEAF  # `Role.LEAF` itself takes 70 ns


class Delivery(NamedTuple):
    """What one handler gets of what it wants, and who gets what it publishes."""

    role: Role
    hears_itself: bool
    """Whether it gets what it publishes, if it wants that."""
    hears_hub: bool = True
    """Whether a prefix that covers more than the hub's own topics brings it these, too."""
    reaches_leaves: bool = True
    """Whether leaves get what it publishes."""
    is_left: bool = False
    """Whether it is a leaf that is left to another hub (`hub.leaves`): nobody gets what it publishes."""
    takes_shared: bool = False
    """Whether it takes values in shared memory."""
    takes_blocks: bool = False
    """Whether it takes them where other messages stand in the same memory, too."""

    @classmethod
    def of(cls, role: Role) -> Delivery:
        """Return what holds for a handler of this role unless something else is said of it."""
        return cls(role, hears_itself=role is not _LEAF)

    @property
    def is_link(self) -> bool:
        """Whether it is a link: it gets nothing that came over a link."""
        return self.role is _LINK

    @property
    def is_peer(self) -> bool:
        """Whether others stand behind it: a peer hub, or a Zeek."""
        return self.role is _LINK or self.role is _LEAF

    @property
    def is_plain(self) -> bool:
        """Whether everybody who wants what it publishes gets it."""
        return self.hears_itself and self.reaches_leaves and not (self.is_link or self.is_left)

    def hears_of_hub(self, prefixes: Iterable[str]) -> bool:
        """Return whether it gets topics under `$hub/`, with one of these prefixes that covers them."""
        if self.role is _LINK or self.role is _LEAF:
            return False
        return self.hears_hub or any(prefix.startswith(RESERVED) for prefix in prefixes)

    def asks_links(self, prefix: str) -> bool:
        """Return whether links are asked for what it wants under this prefix."""
        return self.role is not _LINK and not prefix.startswith(RESERVED)

    def asks_leaves(self, prefix: str) -> bool:
        """Return whether leaves are asked for what it wants under this prefix, where the settings allow it."""
        return self.role is not _LEAF and not prefix.startswith((RESERVED, STORES))


class _Party(Protocol):
    """What the rules must know of a handler."""

    @property
    def delivery(self) -> Delivery: ...


P = TypeVar("P", bound=_Party)


def without_links(wanting: tuple[P, ...]) -> tuple[P, ...]:
    """Return those of a route's handlers that are no links."""
    near = tuple([one for one in wanting if one.delivery.role is not _LINK])
    return wanting if len(near) == len(wanting) else near


def receivers(source: P, wanting: tuple[P, ...]) -> tuple[P, ...]:
    """Return who gets what a client or a leaf publishes, where that is not simply everybody who wants it.

    Args:
        source: The handler that publishes it. Where it `is_plain`, there is no need to ask.
        wanting: All handlers that want it.
    """
    delivery = source.delivery
    if delivery.is_left:
        return ()
    if not delivery.hears_itself:
        wanting = tuple([one for one in wanting if one is not source])
    if not delivery.reaches_leaves:
        wanting = tuple([one for one in wanting if one.delivery.role is not _LEAF])
    return wanting
