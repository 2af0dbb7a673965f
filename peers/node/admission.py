"""`Admission`: who may be connected, and which silent connection must give way when there are too many.

```
accepted ──admit──▶ newcomer ──settle (HELLO, handshake)──▶ settled ──release──▶ gone
              │        └── evicted: too many newcomers, the oldest goes
              └──refused──▶ a newcomer still, for as long as it takes to tell it why
```

A stranger can open thousands of connections a second and say nothing on them. Such connections must never keep others
out, so there is a limit for newcomers alone: at that limit, one of them gives way to the next (`peers.node.newcomers`).
Settled connections are never evicted; when they hold all places, one more is refused.

Owner: the event loop. Invariants: at most `limit` connections are admitted, newcomers included; at most
`newcomers_limit` are newcomers, those that were refused included; so at most the sum of both are open. Cost: O(1) for
each connection. Not here: time limits (`peers.node.keepalive`), how many are accepted in a turn
(`peers.transport.acceptor`).
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from hub.settings.limits import Limits
from peers.node.newcomers import Newcomers
from peers.transport.host import host_of

__all__ = ["Admission", "Admitted"]


class Admitted(Protocol):
    """A connection, as far as admission needs it."""

    def abort(self) -> None:
        """End it now."""


class Admission:
    """The places of one hub.

    Args:
        limits: How many there are.
    """

    def __init__(self, limits: Limits) -> None:
        self.limit = limits.connections
        """Most connections that are admitted. The daemon lowers it where the process may open too few descriptors."""
        self.address_limit = limits.connections_per_address
        """Most admitted connections from one address."""
        self.accepted = 0
        """How many connections were admitted since the start."""
        self.refused = 0
        """How many connections were refused since the start, at any of the limits."""
        self.evicted = 0
        """How many newcomers had to give way since the start."""
        self.shed = 0
        """How many connections were closed unseen since the start, because no descriptor was left for them."""
        self.connections: dict[Admitted, str] = {}
        """Each admitted connection, until it is released, with the host that it counts for (see `host_of`), which is
        empty if it counts for none."""
        self._newcomers: Newcomers[Admitted] = Newcomers(limits.newcomers)
        """Each connection that is neither settled nor released, refused ones included."""
        self._connections_of: Counter[str] = Counter()
        """How many connections of each host are admitted. A host without connections has no entry."""

    @property
    def newcomers(self) -> int:
        """How many connections are not settled."""
        return len(self._newcomers)

    @property
    def newcomers_limit(self) -> int:
        """Most newcomers; the daemon lowers it where the process may open too few descriptors."""
        return self._newcomers.limit

    @newcomers_limit.setter
    def newcomers_limit(self, limit: int) -> None:
        self._newcomers.limit = limit

    def admit(self, connection: Admitted, address: str) -> str:
        """Give a new connection a place.

        Returns:
            Why it gets no place, or an empty text if it gets one. Even without a place it counts as a newcomer until
            it is released, for it takes a moment to tell it why.
        """
        host = host_of(address)
        oldest = self._newcomers.giving_way(host)
        if oldest is not None:
            self._evict(oldest)
        self._newcomers.add(connection, host)
        refusal = self._refusal(host)
        if refusal:
            self.refused += 1
            return refusal
        self._enter(connection, host)
        return ""

    def enter(self, connection: Admitted) -> None:
        """Give a place to a connection that this hub has opened. No limit applies: whoever set up the hub wants it."""
        self._enter(connection, "")

    def settle(self, connection: Admitted) -> None:
        """Take note that the far side has said who it is: from now on nobody else gets its place."""
        self._newcomers.remove(connection)

    def release(self, connection: Admitted) -> None:
        """Free the place of a connection that is over."""
        self.settle(connection)
        host = self.connections.pop(connection, "")
        if host:
            self._connections_of[host] -= 1
            if not self._connections_of[host]:
                del self._connections_of[host]

    def _enter(self, connection: Admitted, host: str) -> None:
        self.accepted += 1
        self.connections[connection] = host
        if host:
            self._connections_of[host] += 1

    def _refusal(self, host: str) -> str:
        if host and self._connections_of[host] >= self.address_limit:
            return f"{self.address_limit} connections from this address are open, which is the limit"
        if len(self.connections) < self.limit:
            return ""
        oldest = next((one for one in self._newcomers if one in self.connections), None)
        if oldest is None:
            return f"{self.limit} connections are open, which is the limit"
        self._evict(oldest)
        return ""

    def _evict(self, connection: Admitted) -> None:
        self.evicted += 1
        self.release(connection)  # the end of the connection would release it too late: its place is needed now
        connection.abort()
