"""`Complaints`: what a Zeek node has sent that was not taken, in the log: a few lines a second, and how much it was.

Owner: one connection. Invariant: each is in the number of some line, at the latest in that of `end`. Not here: the
counters in `/metrics`, which know all of it at once.
"""

from __future__ import annotations

from typing import Final

from peers.connections.connection import Connection

__all__ = ["LINES_PER_SECOND", "Complaints"]

LINES_PER_SECOND: Final = 8
"""How many lines a second tell what is wrong with one node: enough to see it."""

_SECOND_S: Final = 1.0


class Complaints:
    """About one thing that a node sends.

    Args:
        connection: To the node.
        text: What has happened.
    """

    __slots__ = ("_again_s", "_connection", "_count", "_lines_left", "_reason", "_text")

    def __init__(self, connection: Connection, text: str) -> None:
        self._connection = connection
        self._text = text
        # What is not told yet: how many, and why the last of them was not taken.
        self._count, self._reason = 0, ""
        # How many lines more may be told until when, of the loop's clock.
        self._lines_left, self._again_s = 0, 0.0

    def add(self, reason: str) -> None:
        """Something was not taken."""
        self._count += 1
        self._reason = reason
        now_s = self._connection.node.loop.time()
        if now_s >= self._again_s:
            self._again_s = now_s + _SECOND_S
            self._lines_left = LINES_PER_SECOND
        if self._lines_left:
            self._lines_left -= 1
            self._tell()

    def end(self) -> None:
        """The connection is over: tell what is left; once or more."""
        if self._count:
            self._tell()

    def _tell(self) -> None:
        connection, count = self._connection, self._count
        self._count = 0
        name, address = connection.far_name, connection.address
        connection.node.log.warning(self._text, address=address, name=name, reason=self._reason, messages=count)
