"""`Registry`: which Broker endpoints are peered, and which of several connections to one of them stays.

Two endpoints may dial each other at once. The one with the smaller id leads every handshake between the two, so only it
decides, and both keep the same connection:

| another connection to that endpoint | the new one |
|---|---|
| is peered | is redundant: dropped with code 39 |
| is in its handshake | waits; redundant once the other is peered, goes on once the other has failed |
| none | goes on |

Owner: the hub's peerings, one event loop. No I/O.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

__all__ = ["Claimant", "Registry", "Verdict"]


class Verdict(Enum):
    """What becomes of a connection whose far side has said who it is."""

    PROCEED = "go on with the handshake"
    WAIT = "another connection to that endpoint is in its handshake"
    REDUNDANT = "that endpoint is peered already"


class Claimant(Protocol):
    """A connection that would be the peering with an endpoint."""

    def proceed(self) -> None:
        """Go on with the handshake: the connection it waited for has failed."""

    def give_way(self) -> None:
        """End: the connection it waited for is peered."""


class _Place:
    """What there is for one endpoint."""

    __slots__ = ("holder", "peered", "waiting")

    def __init__(self, holder: Claimant) -> None:
        self.holder = holder
        self.peered = False
        self.waiting: list[Claimant] = []


class Registry:
    """Connections by the id of the far endpoint."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[bytes, _Place] = {}

    def __len__(self) -> int:
        return sum(place.peered for place in self._places.values())

    def __contains__(self, endpoint_id: bytes) -> bool:
        """Whether a connection to that endpoint is peered."""
        place = self._places.get(endpoint_id)
        return place is not None and place.peered

    def claim(self, endpoint_id: bytes, claimant: Claimant) -> Verdict:
        """Ask for the place of an endpoint; every claimant must be given to `release` in the end."""
        place = self._places.get(endpoint_id)
        if place is None:
            self._places[endpoint_id] = _Place(claimant)
            return Verdict.PROCEED
        if place.holder is claimant:
            return Verdict.PROCEED
        if place.peered:
            return Verdict.REDUNDANT
        place.waiting.append(claimant)
        return Verdict.WAIT

    def settle(self, endpoint_id: bytes) -> None:
        """The handshake of the one that holds the place is done: those that wait give way."""
        place = self._places[endpoint_id]
        place.peered = True
        waiting, place.waiting = place.waiting, []
        for other in waiting:
            other.give_way()

    def release(self, endpoint_id: bytes, claimant: Claimant) -> None:
        """A connection is over; harmless if it held or waited for nothing."""
        place = self._places.get(endpoint_id)
        if place is None:
            return
        if place.holder is not claimant:
            if claimant in place.waiting:
                place.waiting.remove(claimant)
            return
        if not place.waiting:
            del self._places[endpoint_id]
            return
        place.holder = place.waiting.pop(0)
        place.peered = False
        place.holder.proceed()
