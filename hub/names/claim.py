"""`Claim`: one handler's claim to one name.

Claims have an order that all hubs agree on: by time, then by the id of the hub where they were made. The first is the
owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:  # a client that speaks of names needs no core
    from hub.handlers.handler import Handler
    from hub.handlers.remote_hub import RemoteHub


# The latest time of a claim that is taken; it leaves room above it, so that a later time still fits into 64 bits
LATEST_US = 2**62


class Standing(Enum):
    """State of a claim."""

    OWNED = "owned"
    QUEUED = "queued"  # Another client owns the name; this claim waits
    LOST = "lost"  # A peer hub had an earlier claim, or the name is no longer granted


class Change(NamedTuple):
    """How a claim stands now, where that differs from what its client knows."""

    name: str
    standing: Standing
    text: str = ""  # The cause, for people


Tell = Callable[[Change], object]


def untold(_: Change) -> None:
    """Stand in for a callback."""


class Wish(NamedTuple):
    """The name that a client asks for, and how."""

    name: str
    labels: Iterable[str] = ()  # Labels that are announced with the name
    queue: bool = False  # Whether the client waits if the name has an owner


class Announced(NamedTuple):
    """A name that a peer hub announces: one of its own clients owns it there."""

    name: str
    labels: tuple[str, ...]
    time_us: int
    owner: int


# Owner of a name, as far as this hub knows: a client, or its hub
Owner: TypeAlias = "Handler | RemoteHub"


class Claim(NamedTuple):
    """One claim of one client to one name, here or at another hub."""

    name: str
    handler: Owner
    labels: tuple[str, ...]  # Sorted, without duplicates
    time_us: int  # When it was made, µs since 1970 by the clock of its hub; later than any claim that its hub knew of
    hub: bytes  # Id of the hub where the claim was made
    owner: int  # Id of the client at that hub
    queue: bool = False  # Whether the claim waits while somebody else owns the name
    tell: Tell = untold

    @property
    def rank(self) -> tuple[int, bytes]:
        """Order of claims: the least owns the name."""
        return self.time_us, self.hub

    @property
    def announced(self) -> Announced:
        """What peer hubs get of it."""
        return Announced(self.name, self.labels, self.time_us, self.owner)

    @property
    def description(self) -> dict[str, Any]:
        """What `$hub/names/` topics and lists say of it."""
        return {"name": self.name, "labels": list(self.labels), "owner": self.owner, "hub": self.hub.hex()}

    def is_same_to_others(self, other: Claim | None) -> bool:
        """Return whether subscribers of `$hub/names/` cannot tell the two apart."""
        return other is not None and (self.labels, self.rank, self.owner) == (other.labels, other.rank, other.owner)

    def __str__(self) -> str:
        where = f" of peer hub {self.hub.hex()}" if self.handler.is_link else ""
        who = f" {self.handler.name!r}" if self.handler.name and not self.handler.is_link else ""
        return f"client {self.owner}{who}{where}"
