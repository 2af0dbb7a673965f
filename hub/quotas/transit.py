"""`Transit`: what the connections of one user have in transit, and how much more each of them may take.

```
his part  [ charged: more than free ████ | free: 2 x connections x free_bytes ░░░░ | reserve | room ]
                                                                                                └─ less than a write?
carriers  ◀── carry(free_bytes, is_tight) ── each write asks for room ◀── tight ◀─────────────────┘
```

What a transport was handed cannot be taken back, and a frame that has begun stands in no queue. So each connection has
some bytes free in either direction, which nobody counts, and what is more than that is charged, after it was taken. A
user's connections are told two things before they take more than his part:

* How much is free: 64 KiB, and less where he has so many connections that this would be more than half of his part.
* That it is tight: one more write of the usual size might be too much. Then each write asks first; messages that are
  too large for the room that is left go by the overflow policy. What is no more than free is always written, so that
  nobody who reads is stopped by those who do not.

Owner: the user's share. Invariants: unless he has more than a connection for each 4 KiB of his part, what is charged
and all that is free together are at most the part that he had as he took the last of it, but for what is written
without asking: answers, what has waited in a queue for requests, and what a form adds to the bytes of a message. What
TLS adds to the write that takes the last has a reserve; to one that is no more than free, it is not asked for. Cost:
nothing while it is not tight; then two microseconds a write. Becoming tight, and less free, costs a call for each
connection; the way back is taken once a second at most, so that nobody can make it happen all the time.

Not here: what a connection holds (`peers.connections.holding`), what waits then (`hub.handler`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hub.errors import CloseCode, RejectedError
from hub.quotas.usage import Usage

__all__ = ["FREE_BYTES", "RESERVE_BYTES", "USUAL_WRITE_BYTES", "Carrier", "Transit"]

FREE_BYTES = 64 * 1024
"""What a connection may hold in each direction without being charged: what a transport takes before it pauses, and a
quarter of what a read brings."""

_LEAST_FREE_BYTES = 1024
"""What is free however many connections there are: most messages are smaller, so that those who read get on."""

_FREE_PARTS = 4
"""All that is free, in both directions, is at most two of so many parts of what the user may have."""

USUAL_WRITE_BYTES = 256 * 1024
"""No write is larger without asking for room: what one read brings at most."""

RESERVE_BYTES = 64 * 1024
"""Left free of a user's part, for what TLS adds to a write for which there was just enough room: what OpenSSL keeps,
43 KiB at most, and 22 bytes for each 16 KiB. It is charged with the write, which alone was asked for."""


class Carrier(Protocol):
    """A connection of the user."""

    def carry(self, free_bytes: int, *, is_tight: bool) -> None:
        """Take this much in each direction without telling, from now on; ask before each write if it is tight."""


class Transit:
    """What one user has in transit.

    Args:
        usage: What is charged to him.
        on_change: Called when it becomes tight, or less is free: `look` is then to be called once a second.
    """

    __slots__ = ("_carriers", "_on_change", "free_bytes", "is_tight", "usage")

    def __init__(self, usage: Usage, on_change: Callable[[Transit], object]) -> None:
        self.usage = usage
        self._on_change = on_change
        # His connections, from when they are charged to him until they are lost.
        self._carriers: dict[Carrier, None] = {}
        # What each of them may hold in either direction without being charged.
        self.free_bytes = FREE_BYTES
        # Whether each write asks for room.
        self.is_tight = False

    @property
    def room(self) -> int:
        """How much more may be charged, if all takes what is free for it."""
        return max(0, self.usage.room - self._all_free_bytes - RESERVE_BYTES)

    @property
    def _all_free_bytes(self) -> int:
        """What all his connections may hold without being charged, in both directions."""
        return 2 * len(self._carriers) * self.free_bytes

    @property
    def allowance(self) -> int:
        """How much one write may be now."""
        return max(self.free_bytes, self.room)

    def fits(self, size_bytes: int) -> bool:
        """Tell whether a write may be as large as this; count a refusal, and let others ask as well, if not."""
        if size_bytes <= self.allowance:
            return True
        self.usage.refuse()
        self._tighten()
        return False

    def enter(self, carrier: Carrier, held_bytes: int) -> None:
        """A connection is his from now on, with what it holds already that is charged."""
        self._carriers[carrier] = None
        self.usage.add(held_bytes)
        free = self._fair_free_bytes()
        if free < self.free_bytes:
            self.free_bytes = free
            self._on_change(self)
            self._tell()
        elif free < FREE_BYTES or self.is_tight:
            carrier.carry(self.free_bytes, is_tight=self.is_tight)
        self._look_for_room()

    def leave(self, carrier: Carrier) -> None:
        """A connection is lost, and holds nothing more. It does no harm if it was never his."""
        self._carriers.pop(carrier, None)

    def take(self, amount: int) -> bool:
        """Charge so much more, if there is room for it; return whether it was charged. A refusal is counted."""
        if amount > self.room:
            self.usage.refuse()
            return False
        self.usage.add(amount)
        return True

    def rejection(self, amount: int) -> RejectedError:
        """Return why so much more was refused."""
        usage = self.usage
        if usage.held + amount > usage.most:
            return usage.rejection(amount)
        text = (
            f"user {usage.user} has {usage.held} {usage.whole.resource.text}, {amount} more are too many: "
            f"of {usage.most}, {self._all_free_bytes + RESERVE_BYTES} are for what is not charged to his connections, "
            "and for what TLS adds"
        )
        return RejectedError(CloseCode.TRY_AGAIN_LATER, text)

    def add(self, amount: int) -> None:
        """Charge so much more that was written: it is held, whether he may hold it or not."""
        self.usage.add(amount)
        self._look_for_room()

    def look(self) -> bool:
        """See whether there is more room again; return whether this has to be looked at again in a second."""
        free = self._fair_free_bytes()
        is_tight = self.is_tight and self.room < 2 * USUAL_WRITE_BYTES
        if is_tight is not self.is_tight or free > self.free_bytes:
            self.is_tight = is_tight
            self.free_bytes = max(free, self.free_bytes)
            self._tell()
            self._look_for_room()
        return self.is_tight or self.free_bytes < FREE_BYTES

    def _fair_free_bytes(self) -> int:
        """Return what may be free for each: a power of two, so that it rarely changes."""
        fair = self.usage.most // (_FREE_PARTS * max(1, len(self._carriers)))
        free = FREE_BYTES
        while free > fair and free > _LEAST_FREE_BYTES:
            free //= 2
        return free

    def _look_for_room(self) -> None:
        if not self.is_tight and self.room < USUAL_WRITE_BYTES:
            self._tighten()

    def _tighten(self) -> None:
        if not self.is_tight:
            self.is_tight = True
            self._on_change(self)
            self._tell()

    def _tell(self) -> None:
        """Tell all connections. What one of them does then may change what the others are told, and end some."""
        for carrier in tuple(self._carriers):
            if carrier in self._carriers:
                carrier.carry(self.free_bytes, is_tight=self.is_tight)
