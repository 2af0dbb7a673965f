"""`Admission`: who may be connected, and which silent connection must give way when there are too many.

```
accepted ──admit──▶ newcomer ──settle (HELLO, handshake)──▶ settled ──release──▶ gone
              │        └── evicted: too many newcomers, the oldest goes
              └──refused──▶ a newcomer still, for as long as it takes to tell it why
```

A stranger can open thousands of connections a second and say nothing on them. Such connections must never keep others
out, so there is a limit for newcomers alone: at that limit, one of them gives way to the next (`peers.node.admission`).
Settled connections are never evicted; when they hold all places, one more is refused.

Owner: the event loop. Invariants: at most `limit` connections are admitted, newcomers included; at most
`newcomers_limit` are newcomers, those that were refused included; so at most the sum of both are open. Cost: O(1) for
each connection. Not here: time limits (`peers.node.keepalive`), how many are accepted in a turn
(`peers.connections.listener`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Generic, Protocol, TypeVar

from hub.settings.sections import Limits
from peers.transport.endpoints import host_of
from peers.transport.tls_transport import TlsTransport


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


# Those who have come and not said yet who they are, and who of them gives way to one more.


_SHARE = 4
"""An address that holds more than one in so many of the places must give way itself. There are at most three such."""

One = TypeVar("One")


class Newcomers(Generic[One]):
    """The places.

    Args:
        limit: How many there are.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._hosts: dict[One, str] = {}
        """Each newcomer with the host it counts for; oldest first."""
        self._of: dict[str, dict[One, None]] = {}
        """The same newcomers by their host, oldest first. A host without newcomers has no entry."""
        self._crowding: dict[str, None] = {}
        """The hosts that hold a large part."""

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._hosts)

    def __iter__(self) -> Iterator[One]:
        """Go through them, oldest first."""
        return iter(self._hosts)

    def __contains__(self, one: One) -> bool:
        """Return whether it is one of them."""
        return one in self._hosts

    def giving_way(self, host: str) -> One | None:
        """Return who must go so that there is room for one more from a host; None if there is room."""
        if len(self._hosts) < self.limit:
            return None
        crowding = host if host in self._crowding else next(iter(self._crowding), None)
        return next(iter(self._hosts if crowding is None else self._of[crowding]))

    def add(self, one: One, host: str) -> None:
        """Give one more a place."""
        self._hosts[one] = host
        theirs = self._of.setdefault(host, {})
        theirs[one] = None
        if len(theirs) > self.limit // _SHARE:
            self._crowding[host] = None

    def remove(self, one: One) -> None:
        """Free the place of one, if it has one."""
        host = self._hosts.pop(one, None)
        if host is not None:
            theirs = self._of[host]
            del theirs[one]
            if len(theirs) <= self.limit // _SHARE:
                self._crowding.pop(host, None)
            if not theirs:
                del self._of[host]


# The TLS handshakes that go on at one time, at all listeners of a hub.


STEPS_PER_TURN = 8
"""Steps of handshakes in one turn: about 4 ms with a key of RSA, 2 with one of an elliptic curve."""


class Handshakes:
    """All that go on.

    Args:
        limits: How many there may be, and how long one may take.
        loop: For timers, and for the next turn.
    """

    def __init__(self, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._newcomers: Newcomers[TlsTransport] = Newcomers(limits.tls_handshakes)
        self.limit_s = limits.tls_handshake_s
        """How long one may take, seconds."""
        self.evicted = 0
        """How many had to give way since the start."""
        self._timers: dict[TlsTransport, asyncio.TimerHandle] = {}
        self._line: dict[TlsTransport, None] = {}
        """Those whose next step can be taken, first come first served. Whoever has no place any more is not in it: a
        flood may come faster than steps are taken."""
        self._is_woken = False
        """Whether steps will be taken in the next turn."""
        self._is_closed = False
        """Becomes True when the hub begins to stop, and stays so."""

    def __len__(self) -> int:
        """Return how many go on."""
        return len(self._newcomers)

    @property
    def limit(self) -> int:
        """How many there may be."""
        return self._newcomers.limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._newcomers.limit = limit

    def begin(self, one: TlsTransport) -> None:
        """Give one a place, if need be that of another."""
        host = host_of(one.address)
        if self._is_closed:  # it was accepted in the moment in which the hub began to stop
            one.abort()
            return
        oldest = self._newcomers.giving_way(host)
        if oldest is not None:
            self.evicted += 1
            self.end(oldest)
            oldest.abort()
        self._newcomers.add(one, host)
        self._timers[one] = self._loop.call_later(self.limit_s, one.time_out)

    def is_due(self, one: TlsTransport) -> None:
        """Let one wait for its turn."""
        self._line[one] = None
        self._wake()

    def end(self, one: TlsTransport) -> None:
        """Free the place of one."""
        self._newcomers.remove(one)
        self._line.pop(one, None)
        timer = self._timers.pop(one, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """End all of them, because the hub stops."""
        self._is_closed = True
        for one in list(self._newcomers):
            self.end(one)
            one.abort()

    def _wake(self) -> None:
        if self._line and not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._take_steps)

    def _take_steps(self) -> None:
        self._is_woken = False
        for one in list(islice(self._line, STEPS_PER_TURN)):
            if one in self._line:  # a step before may have ended it
                del self._line[one]
                one.shake()
        self._wake()
