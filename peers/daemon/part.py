"""`Part`: which part of a hub a process is, and so which of its listeners are open there.

```
                     tcp, tls, ws, wss          unix, zeek, zeek+tcp      peers, journal
WHOLE                open                       open                      here
CORE                 port kept for workers      open                      here
WORKER               open, port shared          -                         -
```

Owner: nobody; a daemon is one of them for all its life. Not here: what starts workers (`peers.workers`).
"""

from __future__ import annotations

import enum

from peers.transport.endpoints import Endpoint

__all__ = ["Part"]


class Part(enum.Enum):
    """Part of a hub."""

    WHOLE = enum.auto()
    """All of it: a hub of one process."""
    CORE = enum.auto()
    """What all workers are linked with; its clients are those that no network brings."""
    WORKER = enum.auto()
    """One of several that share the ports."""

    def is_kept(self, endpoint: Endpoint) -> bool:
        """Return whether this process keeps the port of a listener for others, and accepts nobody there."""
        return self is Part.CORE and endpoint.scheme.is_for_clients

    def is_open(self, endpoint: Endpoint) -> bool:
        """Return whether this process listens there, or keeps the port."""
        return self is not Part.WORKER or endpoint.scheme.is_for_clients
