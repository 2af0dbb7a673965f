"""`Board`: counters in shared memory; one process writes each of them, and all read them.

The board is the feedback of the window (a publisher looks at its row of `next`), the progress bar, and how the command
knows that all is over; no bytes of it pass through the hub. Every counter is one aligned word of 64 bits, so that
nobody ever sees one half written, and only grows.

Owner of the state: the command makes the board; a process gets it when it is started, and only then.
"""

from __future__ import annotations

from multiprocessing.sharedctypes import RawArray

__all__ = ["Board"]

_WORD = "Q"


class Board:
    """Counters of a benchmark.

    Args:
        publishers: How many there are.
        subscribers: How many are waited for.

    Attributes:
        sent: For each publisher, how many messages it has handed to the kernel.
        first_ns: For each publisher, when the first one was.
        next: For each publisher, the sequence number that each subscriber expects next.
        accounted: For each subscriber, how many messages it has received, or was told that they are lost.
        last_ns: For each subscriber, when its last read ended.
    """

    def __init__(self, publishers: int, subscribers: int) -> None:
        self.subscribers = subscribers
        self.sent = RawArray(_WORD, publishers)
        self.first_ns = RawArray(_WORD, publishers)
        self.next = [RawArray(_WORD, subscribers) for _ in range(publishers)]
        self.accounted = RawArray(_WORD, subscribers)
        self.last_ns = RawArray(_WORD, subscribers)
