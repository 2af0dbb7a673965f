"""`LinkNames`: the service names of this hub's clients, on their way to a peer hub.

```
core.names ─▶ changes, merged per turn, the last of each name ─▶ NAMES
```

Owner: one connection. Invariant: what is to be told while the far side does not read is merged, one change a name.
Not here: whose a name is (`hub.names`), what peers and clients say of names (`peers.verbs.names`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import structlog

from hub.names.claim import Announced
from peers.wire.names import NAMES_PER_FRAME, encode_names

__all__ = ["LinkNames"]

_AROUND_BYTES = 16
"""What NAMES has beside its names."""

_BESIDE_BYTES = 32
"""What a name has beside its text and its labels: heads, time, owner."""

_BESIDE_LABEL_BYTES = 2


class LinkNames:
    """What a peer hub is told of names.

    Args:
        due: Called with this object when there is something to tell.
        limit_bytes: Largest body that the peer takes.
        log: Where a name is told that is too large for it.
    """

    __slots__ = ("_changes", "_due", "_limit_bytes", "_log")

    _changes: OrderedDict[str, Announced | None]
    """How names stand that the peer was not told of yet; None for one that nobody here holds any more."""

    def __init__(self, due: Callable[[LinkNames], None], limit_bytes: int, log: structlog.stdlib.BoundLogger) -> None:
        self._log = log
        self._due = due
        self._limit_bytes = limit_bytes
        self._changes = OrderedDict()  # a plain one walks over all that was taken before the first

    def change(self, name: str, announced: Announced | None) -> None:
        """Note how a name stands now; None if nobody here holds it any more."""
        self._changes[name] = announced
        self._due(self)

    def take(self) -> bytes:
        """Return the next frame, as large as the peer takes it."""
        held: list[Announced] = []
        released: list[str] = []
        size_bytes = _AROUND_BYTES
        while self._changes and len(held) < NAMES_PER_FRAME and len(released) < NAMES_PER_FRAME:
            name = next(iter(self._changes))
            announced = self._changes[name]
            cost = _BESIDE_BYTES + len(name)
            if announced is not None:
                cost += sum(len(label.encode()) + _BESIDE_LABEL_BYTES for label in announced.labels)
            if size_bytes + cost > self._limit_bytes:
                if held or released:
                    break
                self._log.warning("name is too large for the frames of a peer", name=name, limit=self._limit_bytes)
                announced = None  # as far as the peer is told
            del self._changes[name]
            size_bytes += cost
            if announced is None:
                released.append(name)
            else:
                held.append(announced)
        if self._changes:
            self._due(self)
        return encode_names(held, released)
