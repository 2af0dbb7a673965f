"""`Places`: where in the journal the reader of a stream stands, as far as that is known.

```
put, put, reached(120), put, reached(180), put ...          the stream is given batches, and is told what they were
                │ decode   decode │ taken                   the reader takes some of them
                ▼                 ▼
             position 0 ──▶ 120 ──▶ ...                     moves on with the next call, when they are done with
```

Owner: one stream, whose source puts; the reader's side is called by its inbox. Invariants: `position` never is behind
something that was not handed out; it only grows. Cost: O(1) a batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from hub.batch import Batch, Message

__all__ = ["Places"]


class Places:
    """What was put, and what was read of it.

    Args:
        decode: From a batch to messages.
    """

    __slots__ = ("_batches", "_decode", "_decoded", "_done", "_offsets", "_taken", "live", "position")

    position: int | None
    """Everything recorded before it was read."""
    live: bool
    """Whether all history was put."""

    def __init__(self, decode: Callable[[Batch], list[Message]]) -> None:
        self.position = None
        self.live = False
        self._decode = decode
        self._batches = 0  # put
        self._decoded = 0  # of these
        self._taken = 0  # of these, by calls that have returned
        self._done = 0  # of these, by calls before the last one
        self._offsets: deque[tuple[int, int]] = deque()  # behind so many batches, the offset

    # The source.

    def begin(self, offset: int) -> None:
        """What is put first is what is recorded from here on."""
        self.position = offset

    def put(self) -> None:
        """One more batch is put into the stream."""
        self._batches += 1

    def reached(self, offset: int) -> None:
        """All that is recorded before this offset was put."""
        self._offsets.append((self._batches, offset))
        self._advance()

    # The reader.

    def decode(self, batch: Batch) -> list[Message]:
        """Decode a batch that is taken."""
        self._decoded += 1
        return self._decode(batch)

    def taken(self) -> None:
        """A call has taken what was decoded; what the one before it has taken is done with."""
        self._done, self._taken = self._taken, self._decoded
        self._advance()

    def _advance(self) -> None:
        offsets = self._offsets
        while offsets and offsets[0][0] <= self._done:
            self.position = offsets.popleft()[1]
