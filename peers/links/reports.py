"""`Reports`: what is told of probes, on its way back over one link, ahead of the messages that wait for it.

Owner: one connection. Invariant: at most `WAITING_LIMIT` wait. Not here: what is told (`peers.node.probes`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from hub.frame import HEADER_BYTES
from peers.wire.probe import ProbeReport, encode_probe

__all__ = ["WAITING_LIMIT", "Reports"]

WAITING_LIMIT: Final = 1_000
"""Most reports that wait for a far side which does not read; 9 MB, where each tells of as many links as it may."""

_FRAMES_PER_PORTION = 64


class Reports:
    """What is still to be told.

    Args:
        due: Called with this object when there is something to tell.
        limit_bytes: Largest body that the peer takes.
    """

    __slots__ = ("_due", "_limit_bytes", "_waiting")

    def __init__(self, due: Callable[[Reports], None], limit_bytes: int) -> None:
        self._due = due
        self._limit_bytes = limit_bytes
        # Frames, the oldest first.
        self._waiting: deque[bytes] = deque()

    def tell(self, report: ProbeReport) -> bool:
        """Tell the peer, as this turn ends or when it reads; return False if there is no room for it.

        A far side that takes small frames only may be told without the links.
        """
        frame = encode_probe(report)
        if len(frame) - HEADER_BYTES > self._limit_bytes:
            frame = encode_probe(msgspec.structs.replace(report, links=()))
        if len(self._waiting) >= WAITING_LIMIT or len(frame) - HEADER_BYTES > self._limit_bytes:
            return False
        self._waiting.append(frame)
        self._due(self)
        return True

    def take(self) -> bytes:
        """Return the next portion."""
        waiting = self._waiting
        portion = b"".join([waiting.popleft() for _ in range(min(len(waiting), _FRAMES_PER_PORTION))])
        if waiting:
            self._due(self)
        return portion
