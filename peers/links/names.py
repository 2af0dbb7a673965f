"""`LinkNames`: the service names of this hub's clients, on their way to a peer hub.

```
core.names ─▶ changes, merged per turn, the last of each name ─▶ NAMES
```

Owner: one connection. Invariant: what is to be told while the far side does not read is merged, one change a name, and
so is what the peer has refused for now (`peers.links.attempts`). To tell it of a name twice does no harm.
Not here: whose a name is (`hub.names`), what peers and clients say of names (`peers.verbs.verbs`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

import structlog

from hub.names.claim import Announced
from peers.links.attempts import Attempts
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
        numbers: Numbers frames that the peer answers.
        log: Where a name is told that is too large for it.
    """

    __slots__ = ("_changes", "_due", "_limit_bytes", "_log", "attempts")

    _changes: OrderedDict[str, Announced | None]
    """How names stand that the peer was not told of yet; None for one that nobody here holds any more."""

    def __init__(
        self,
        due: Callable[[LinkNames], None],
        limit_bytes: int,
        numbers: Iterator[int],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._log = log
        self.attempts: Attempts[str, Announced] = Attempts(numbers, NAMES_PER_FRAME)
        self._due = due
        self._limit_bytes = limit_bytes
        self._changes = OrderedDict()  # a plain one walks over all that was taken before the first

    def change(self, name: str, announced: Announced | None) -> None:
        """Note how a name stands now; None if nobody here holds it any more."""
        self.attempts.drop(name)
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
        for name in released:
            self.attempts.forget(name)
        number = self.attempts.ask({announced.name: announced for announced in held}) if held else 0
        return encode_names(held, released, number)

    def refuse(self, number: int, *, for_now: bool) -> bool:
        """The peer has refused a frame, or a part of it; return False if it is none of these."""
        refused = self.attempts.refuse(number, for_now=for_now)
        for name in refused or ():
            if name in self._changes:  # it is told otherwise anyway
                self.attempts.drop(name)
        return refused is not None

    def try_again(self) -> None:
        """Tell some of what the peer has refused."""
        for name, announced in self.attempts.some().items():
            self._changes[name] = announced
            self._due(self)
