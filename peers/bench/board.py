"""`Board`: counters in shared memory, each written by one process and read by all.

```
sent[publisher]                 messages handed to the kernel         first_ns[publisher]   when the first one was
next[publisher][subscriber]     sequence number expected next         last_ns[subscriber]   when the last read ended
accounted[subscriber]           messages received, or told as lost
```

It is the window's feedback (a publisher looks at its row of `next`), the progress bar, and how the command knows that
all is over; no bytes of it pass through the hub. Every counter is one aligned 64-bit word, so that none is ever seen
half written, and only grows.

Owner of the state: the command makes it, the workers map it.
"""

from __future__ import annotations

import mmap
import os

__all__ = ["Board"]

_WORD_BYTES = 8


class Board:
    """Counters of a benchmark.

    Args:
        descriptor: Of shared memory, as `make` returns; kept by the caller.
        publishers: How many.
        subscribers: How many of those that are waited for.
    """

    def __init__(self, descriptor: int, publishers: int, subscribers: int) -> None:
        self.publishers = publishers
        self.subscribers = subscribers
        words = _words(publishers, subscribers)
        self._view = memoryview(mmap.mmap(descriptor, words * _WORD_BYTES)).cast("Q")
        parts = iter(_parts(self._view, (publishers, publishers, publishers * subscribers, subscribers, subscribers)))
        self.sent = next(parts)
        self.first_ns = next(parts)
        self.next = next(parts)
        self.accounted = next(parts)
        self.last_ns = next(parts)

    @staticmethod
    def make(publishers: int, subscribers: int) -> int:
        """Make shared memory for so many; return its descriptor."""
        descriptor = os.memfd_create("hub-bench")
        os.ftruncate(descriptor, _words(publishers, subscribers) * _WORD_BYTES)
        return descriptor

    def row(self, publisher: int) -> memoryview:
        """What each subscriber expects next of one publisher."""
        return self.next[publisher * self.subscribers : (publisher + 1) * self.subscribers]

    @property
    def published(self) -> int:
        """Messages sent so far, by all."""
        return sum(self.sent)

    @property
    def delivered(self) -> int:
        """Messages received or told as lost so far, by all subscribers."""
        return sum(self.accounted)


def _words(publishers: int, subscribers: int) -> int:
    return 2 * publishers + publishers * subscribers + 2 * subscribers + 1  # a mapping is never empty


def _parts(view: memoryview, lengths: tuple[int, ...]) -> list[memoryview]:
    parts = []
    start = 0
    for length in lengths:
        parts.append(view[start : start + length])
        start += length
    return parts
