"""`Keepalive`: a wheel of deadlines with a slot for each second, and one timer for all connections.

Each connection returns when to check it next, so that a busy connection costs one check for each ping interval, and not
one for each message.
"""

from __future__ import annotations

import math
from typing import Protocol


class Watched(Protocol):
    """A connection with deadlines."""

    due_s: int  # The slot of the connection, -1 while it is not watched. Only the wheel sets it

    def check(self, now_s: float) -> float:
        """Do what is due at `now_s`; return when to look again, which may be never (inf)."""


class Keepalive:
    """A wheel of deadlines, in whole seconds of a monotonic clock."""

    def __init__(self, now_s: float) -> None:
        # By second, the connections to be looked at then, in the order of `watch`; there are no empty slots
        self._slots: dict[int, dict[Watched, None]] = {}
        self._last_s = math.floor(now_s)  # The last second whose slot was looked at; every slot that exists is later

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))

    def watch(self, connection: Watched, at_s: float) -> None:
        """Look at `connection` at the first tick that is not before `at_s`."""
        self.forget(connection)
        if math.isinf(at_s):
            return
        slot = max(math.ceil(at_s), self._last_s + 1)
        connection.due_s = slot
        self._slots.setdefault(slot, {})[connection] = None

    def forget(self, connection: Watched) -> None:
        slot = self._slots.get(connection.due_s)
        if slot is not None:
            slot.pop(connection, None)
            if not slot:
                del self._slots[connection.due_s]
        connection.due_s = -1

    def tick(self, now_s: float) -> None:
        """Check all connections that are due; failures by bugs are raised as a group at the end."""
        failed: list[Exception] = []
        now = math.floor(now_s)
        for second in range(self._last_s + 1, now + 1):
            self._last_s = second
            for connection in self._slots.pop(second, ()):
                if connection.due_s == second:  # otherwise an earlier check of this tick has ended or moved it
                    connection.due_s = -1
                    try:
                        self.watch(connection, connection.check(now_s))
                    except Exception as error:  # noqa: BLE001 -- the others are checked all the same
                        failed.append(error)
        self._last_s = max(self._last_s, now)
        if failed:
            raise ExceptionGroup("checks that have failed", failed)
