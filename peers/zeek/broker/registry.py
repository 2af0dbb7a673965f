"""`Registry`: which Broker endpoints are peered, and which of several connections to one of them stays.

Two endpoints may dial each other at once. The one with the smaller id leads every handshake between the two, so it
alone decides, and both keep the same connection:

| another connection to that endpoint | the new connection |
|---|---|
| is peered | is redundant, and dropped with code 39 |
| is in its handshake | waits: it is redundant when the other one is peered, and goes on when the other one has failed |
| does not exist | goes on |

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
    """A connection that is to become the peering with an endpoint."""

    def proceed(self) -> None:
        """Go on with the handshake, as the connection that it waited for has failed."""

    def give_way(self) -> None:
        """End, as the connection that it waited for is peered."""


class _Claims:
    """The connections to one endpoint."""

    __slots__ = ("holder", "peered", "waiting")

    def __init__(self, holder: Claimant) -> None:
        self.holder = holder
        """The connection that is peered, or goes through its handshake; when it is released, the next one follows."""
        self.peered = False
        """True from the end of the holder's handshake until the holder is released."""
        self.waiting: list[Claimant] = []
        """Connections that wait for the holder, in their order; empty once it is peered."""


class Registry:
    """Connections by the id of the far endpoint."""

    __slots__ = ("_claims",)

    def __init__(self) -> None:
        self._claims: dict[bytes, _Claims] = {}
        """The connections to each endpoint, by its id; an endpoint without connections has no entry."""

    def __len__(self) -> int:
        """Return how many endpoints are peered."""
        return sum(claims.peered for claims in self._claims.values())

    def __contains__(self, endpoint_id: bytes) -> bool:
        """Whether a connection to that endpoint is peered."""
        claims = self._claims.get(endpoint_id)
        return claims is not None and claims.peered

    def claim(self, endpoint_id: bytes, claimant: Claimant) -> Verdict:
        """Ask to become the peering with an endpoint; every claimant must be given to `release` in the end."""
        claims = self._claims.get(endpoint_id)
        if claims is None:
            self._claims[endpoint_id] = _Claims(claimant)
            return Verdict.PROCEED
        if claims.holder is claimant:
            return Verdict.PROCEED
        if claims.peered:
            return Verdict.REDUNDANT
        claims.waiting.append(claimant)
        return Verdict.WAIT

    def settle(self, endpoint_id: bytes) -> None:
        """Take note that the holder's handshake is done: connections that wait for it give way."""
        claims = self._claims[endpoint_id]
        claims.peered = True
        waiting, claims.waiting = claims.waiting, []
        for other in waiting:
            other.give_way()

    def release(self, endpoint_id: bytes, claimant: Claimant) -> None:
        """Forget a connection that is over; this is harmless if it neither was the holder nor waited."""
        claims = self._claims.get(endpoint_id)
        if claims is None:
            return
        if claims.holder is not claimant:
            if claimant in claims.waiting:
                claims.waiting.remove(claimant)
            return
        if not claims.waiting:
            del self._claims[endpoint_id]
            return
        claims.holder = claims.waiting.pop(0)
        claims.peered = False
        claims.holder.proceed()
