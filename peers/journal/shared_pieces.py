"""`SharedPieces`: one answer for all who ask the journal the same while it is being read.

```
stream, stream, stream ── the same order ──▶ one reader ──▶ one answer ──▶ stream, stream, stream
```

Purpose: ten thousand streams of events that wait at the end of the journal ask for the same piece at the same commit.

Owner: one `Journal`, or what stands for that of another hub. Invariant: each `fetch` is answered once. An answer may be
as old as the first who asked for it: for those who go on from what they have got that is no matter, and for others this
is not the place.

Whoever is answered writes, so very many are answered over several turns.

Cost: one dictionary hit each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from hub.errors import RejectedError
from hub.quotas.usage import Usage
from peers.journal.readers import Deliver

__all__ = ["ANSWERED_PER_TURN", "SharedPieces"]

ANSWERED_PER_TURN: Final = 250
"""How many are given an answer in one turn: as many as write in one at the end of reads (`hub.writers`)."""


Piece = TypeVar("Piece", bound=Hashable)
"""An order."""


class SharedPieces(Generic[Piece]):
    """What several ask for.

    Args:
        read: Has an order answered.
    """

    def __init__(self, read: Callable[[Piece, Deliver, Usage | None], object]) -> None:
        self._read = read
        # Those who wait, by their order; an entry goes as the answer comes.
        self._waiting: dict[Piece, deque[Deliver]] = {}

    def fetch(self, order: Piece, deliver: Deliver, usage: Usage | None = None) -> None:
        """Have an order answered, together with all others that are the same; who asks first is charged."""
        waiting = self._waiting.get(order)
        if waiting is not None:
            waiting.append(deliver)
            return
        self._waiting[order] = deque([deliver])
        self._read(order, lambda answer: self._answer(order, answer), usage)

    def _answer(self, order: Piece, answer: bytes | bytearray | RejectedError) -> None:
        self._hand_on(self._waiting.pop(order), answer)

    def _hand_on(self, waiting: deque[Deliver], answer: bytes | bytearray | RejectedError) -> None:
        for _ in range(min(ANSWERED_PER_TURN, len(waiting))):
            waiting.popleft()(answer)
        if waiting:
            asyncio.get_running_loop().call_soon(self._hand_on, waiting, answer)
