"""`SharedPieces`: one answer for all who ask the journal the same while it is being read.

```
stream, stream, stream ── the same order ──▶ one reader ──▶ one answer ──▶ stream, stream, stream
```

Purpose: ten thousand streams of events that wait at the end of the journal ask for the same piece at the same commit.

Owner: one `Journal`, or what stands for that of another hub. Invariant: each `fetch` is answered once. An answer may be
as old as the first who asked for it: for those who go on from what they have got that is no matter, and for others this
is not the place.

Cost: one dictionary hit each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from hub.errors import RejectedError
from peers.journal.readers import Deliver

__all__ = ["SharedPieces"]


Piece = TypeVar("Piece", bound=Hashable)
"""An order."""


class SharedPieces(Generic[Piece]):
    """What several ask for.

    Args:
        read: Has an order answered.
    """

    def __init__(self, read: Callable[[Piece, Deliver], object]) -> None:
        self._read = read
        # Those who wait, by their order; an entry goes as the answer comes.
        self._waiting: dict[Piece, list[Deliver]] = {}

    def fetch(self, order: Piece, deliver: Deliver) -> None:
        """Have an order answered, together with all others that are the same."""
        waiting = self._waiting.get(order)
        if waiting is not None:
            waiting.append(deliver)
            return
        self._waiting[order] = [deliver]
        self._read(order, lambda answer: self._answer(order, answer))

    def _answer(self, order: Piece, answer: bytes | bytearray | RejectedError) -> None:
        for deliver in self._waiting.pop(order):
            deliver(answer)
