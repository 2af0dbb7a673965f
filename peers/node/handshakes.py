"""`Handshakes`: the TLS handshakes that go on at one time, at all listeners of a hub.

```
accepted ─ begin ─▶ waits for the far side's word ─ is_due ─▶ its turn: shake ─▶ end: a connection, or none
                         │ limits.tls_handshake_s: too late
                         └ limits.tls_handshakes: the oldest gives way, or one of the next one's own address
```

They are no connections yet: only here are they limited. A step costs 0.3 to 1 ms of arithmetic, so that a turn has a
share of it, and whoever comes beyond waits in a line for the next turn, and is not read meanwhile.

Owner: the event loop. Invariants: at most `limit` go on; of one address at most a quarter while others come; a turn
takes at most `STEPS_PER_TURN` steps. Cost: O(1) for each, and a timer.
"""

from __future__ import annotations

import asyncio
from itertools import islice

from hub.settings.limits import Limits
from peers.node.newcomers import Newcomers
from peers.transport.host import host_of
from peers.transport.tls_transport import TlsTransport

__all__ = ["STEPS_PER_TURN", "Handshakes"]

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
