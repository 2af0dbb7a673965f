"""`Claim`: one handler's claim to one name; and what is told of it.

Claims have an order that all hubs agree on: by time, then by the id of the hub where they were made. The first is the
owner. Frozen values; no state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:  # a client that speaks of names needs no core
    from hub.far_hub import FarHub
    from hub.handler import Handler

__all__ = ["LATEST_US", "Announced", "Change", "Claim", "Owner", "Standing", "Tell", "Wish", "untold"]


LATEST_US = 2**62
"""The latest time of a claim that is taken. It leaves room above it, so that a later time still fits into 64 bits."""


class Standing(Enum):
    """Where a claim stands."""

    OWNED = "owned"
    QUEUED = "queued"
    """Somebody else owns the name; this claim waits."""
    LOST = "lost"
    """A peer hub had an earlier claim, or the name is no longer granted."""


class Change(NamedTuple):
    """How a claim stands now, where that differs from what its client was told."""

    name: str
    standing: Standing
    text: str = ""
    """The cause, for people."""


Tell = Callable[[Change], object]


def untold(_: Change) -> None:
    """Stand in for a function where nobody wants to know of a change."""


class Wish(NamedTuple):
    """The name that a client asks for, and how."""

    name: str
    labels: Iterable[str] = ()
    """Labels that are announced with the name."""
    queue: bool = False
    """Whether the client waits where somebody else owns the name."""


class Announced(NamedTuple):
    """A name that a peer hub announces: one of its own clients owns it there."""

    name: str
    labels: tuple[str, ...]
    time_us: int
    owner: int


Owner: TypeAlias = "Handler | FarHub"
"""Whose a name is, as far as this hub knows: a client, a hub whose client it is, or the link to one without a mesh."""


class Claim(NamedTuple):
    """One claim of one client to one name, here or at another hub."""

    name: str
    handler: Owner
    labels: tuple[str, ...]
    """Sorted, without duplicates."""
    time_us: int
    """When it was made, µs since 1970 by the clock of its hub; later than any claim that its hub knew of."""
    hub: bytes
    """Id of the hub where the claim was made."""
    owner: int
    """Id of the client at that hub."""
    queue: bool = False
    """Whether the claim waits while somebody else owns the name."""
    tell: Tell = untold

    @property
    def rank(self) -> tuple[int, bytes]:
        """What claims are ordered by: the least owns the name."""
        return self.time_us, self.hub

    @property
    def announced(self) -> Announced:
        """What peer hubs are told of it."""
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
