"""`Admission`: limits of connections, and which silent one must give way when there are too many.

A stranger can open thousands of silent connections a second. Until its HELLO or handshake (`settle`), a connection is a
newcomer: newcomers have a limit of their own, at which the oldest one gives way to the next. Settled connections are
never evicted; when they hold all places, one more is refused. A refused connection counts as a newcomer for as long as
it takes to send the reason.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from hub.settings.settings import Limits
from peers.transport.endpoints import host_of
from peers.transport.tls_transport import TlsTransport

if TYPE_CHECKING:
    from peers.server.server import Connected


class Admission:
    """The places of one hub."""

    def __init__(self, limits: Limits) -> None:
        # Most admitted connections. The daemon lowers it where the process may open too few descriptors
        self.limit = limits.connections
        self.address_limit = limits.connections_per_address  # Most admitted connections from one address
        self.accepted = 0
        self.refused = 0
        self.evicted = 0
        self.shed = 0  # Closed unseen, because no descriptor was left for them
        # Admitted ones, until released, with the host (`host_of`) that each counts for; empty for none
        self.connections: dict[Connected, str] = {}
        # Newcomers, refused ones included; the daemon lowers their limit where the process may open too few descriptors
        self.places: Newcomers[Connected] = Newcomers(limits.newcomers)
        self._connections_of: Counter[str] = Counter()  # By host

    @property
    def newcomers(self) -> int:
        return len(self.places)

    def admit(self, connection: Connected, address: str) -> str:
        """Give a new connection a place, or return why it gets none.

        Even without a place it counts as a newcomer until it is released, for it takes a moment to send the reason.
        """
        host = host_of(address)
        oldest = self.places.giving_way(host)
        if oldest is not None:
            self._evict(oldest)
        self.places.add(connection, host)
        refusal = self._refusal(host)
        if refusal:
            self.refused += 1
            return refusal
        self.enter(connection, host)
        return ""

    def enter(self, connection: Connected, host: str = "") -> None:
        """Give a place to a connection, without a limit if this hub has opened it."""
        self.accepted += 1
        self.connections[connection] = host
        if host:
            self._connections_of[host] += 1

    def settle(self, connection: Connected) -> None:
        """The far side has sent HELLO: no other connection gets its place."""
        self.places.remove(connection)

    def release(self, connection: Connected) -> None:
        self.settle(connection)
        host = self.connections.pop(connection, "")
        if host:
            self._connections_of[host] -= 1
            if not self._connections_of[host]:
                del self._connections_of[host]

    def _refusal(self, host: str) -> str:
        if host and self._connections_of[host] >= self.address_limit:
            return f"{self.address_limit} connections from this address are open, which is the limit"
        if len(self.connections) < self.limit:
            return ""
        oldest = next((one for one in self.places if one in self.connections), None)
        if oldest is None:
            return f"{self.limit} connections are open, which is the limit"
        self._evict(oldest)
        return ""

    def _evict(self, connection: Connected) -> None:
        self.evicted += 1
        self.release(connection)  # the end of the connection would release it too late: its place is needed now
        connection.abort()


_SHARE = 4  # An address with more than this part of the places must give way itself; there are at most three such
One = TypeVar("One")


class Newcomers(Generic[One]):
    """Places of one kind, and which of them gives way to one more."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._hosts: dict[One, str] = {}  # Each newcomer with the host it counts for; oldest first
        self._of: dict[str, dict[One, None]] = {}  # The same newcomers by their host, oldest first
        self._crowding: dict[str, None] = {}  # The hosts that hold a large part

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[One]:
        return iter(self._hosts)

    def giving_way(self, host: str) -> One | None:
        """Return the newcomer that must go so that there is room for one more from a host, or None."""
        if len(self._hosts) < self.limit:
            return None
        crowding = host if host in self._crowding else next(iter(self._crowding), None)
        return next(iter(self._hosts if crowding is None else self._of[crowding]))

    def add(self, one: One, host: str) -> None:
        self._hosts[one] = host
        theirs = self._of.setdefault(host, {})
        theirs[one] = None
        if len(theirs) > self.limit // _SHARE:
            self._crowding[host] = None

    def remove(self, one: One) -> None:
        host = self._hosts.pop(one, None)
        if host is not None:
            theirs = self._of[host]
            del theirs[one]
            if len(theirs) <= self.limit // _SHARE:
                self._crowding.pop(host, None)
            if not theirs:
                del self._of[host]


STEPS_PER_TURN = 8  # Steps of TLS handshakes in one turn: about 4 ms with a key of RSA, 2 with one of an elliptic curve


class Handshakes:
    """The TLS handshakes in progress, at all listeners of a hub."""

    def __init__(self, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.places: Newcomers[TlsTransport] = Newcomers(limits.tls_handshakes)
        self.limit_s = limits.tls_handshake_s
        self.evicted = 0
        self._timers: dict[TlsTransport, asyncio.TimerHandle] = {}
        self._line: dict[TlsTransport, None] = {}  # Those with a next step, first come first served
        self._is_woken = False  # Whether steps will be taken in the next turn
        self._is_closed = False

    def __len__(self) -> int:
        return len(self.places)

    def begin(self, one: TlsTransport) -> None:
        host = host_of(one.address)
        if self._is_closed:  # it was accepted in the moment in which the hub began to stop
            one.abort()
            return
        oldest = self.places.giving_way(host)
        if oldest is not None:
            self.evicted += 1
            self.end(oldest)
            oldest.abort()
        self.places.add(one, host)
        self._timers[one] = self._loop.call_later(self.limit_s, one.time_out)

    def is_due(self, one: TlsTransport) -> None:
        self._line[one] = None
        self._wake()

    def end(self, one: TlsTransport) -> None:
        self.places.remove(one)
        self._line.pop(one, None)
        timer = self._timers.pop(one, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        self._is_closed = True
        for one in list(self.places):
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
