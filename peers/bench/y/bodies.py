"""How arrays of records become values of requests and replies: as bytes, or as blocks of shared memory (`--shared`).

```
               as bytes                              as blocks
sent           a view, copied by the client          `Client.allocate`: written where the far side reads it
received       bytes                                 a view of the far side's block, which must be left to be believed
```

Blocks come from a ring that is not much larger than what is outstanding, so that its memory stays in the processors'
caches.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from peers.client.settings import Options
from peers.shm.ring import Block
from peers.shm.views import View

__all__ = ["Allocates", "opened", "options", "ring_bytes_for"]

_LEAST_RING_BYTES = 1024 * 1024
_SPARE = 2
"""Blocks are taken back in the order of the ring: one that is late keeps the room of those behind it."""

_LEASE_S = 30.0
"""As long as a request may take."""


class Allocates(Protocol):
    """A `peers.client.Client`, or what stands in for one."""

    def allocate(self, size_bytes: int) -> Awaitable[Block]:
        """Return a block when there is room."""


def ring_bytes_for(outstanding_bytes: int) -> int:
    """Return how large a ring is wanted for so much that is not answered."""
    return max(_LEAST_RING_BYTES, _SPARE * outstanding_bytes)


def options(name: str, *, shared: bool, ring_bytes: int) -> Options:
    """Return the options of a client that sends and receives so."""
    chosen: Options = {"name": name, "reconnect": False, "shared_memory": shared}
    if shared:
        chosen |= {"views": True, "ring_bytes": ring_bytes, "lease_s": _LEASE_S}
    return chosen


def opened(value: bytes | View) -> AbstractContextManager[bytes | memoryview]:
    """Return what came, for a `with` statement; its end raises `BlockGoneError` if that may have changed meanwhile."""
    return value if isinstance(value, View) else nullcontext(value)
