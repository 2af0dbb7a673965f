"""`Stream`: what a connection sends or must receive, written out beforehand.

```
unit      the bytes of one message (for batches: of one frame), all of a stream equally long
payload   sequence number, 8 hexadecimal digits │ publisher, 4 │ filler ...
stream    unit 0, unit 1 ... unit P-1, and from the start again
```

Numbers repeat after P messages; the window of a run is smaller than P, so no loss, repetition or exchange within it
can pass for the right thing, and the total is counted. As everything is fixed, a receiver need not parse: what it
reads is compared, as a whole, to what must come (`memcmp`, about 10 GB/s). So every byte of every message is verified.

Frozen once made, shared by all connections that get the same. Cost: a stream holds its period once, plus two reads.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["READ_BYTES", "WRITE_BYTES", "Stream", "payload", "payload_number"]

WRITE_BYTES = 64 * 1024
"""What a publisher writes at once at full speed, bytes, which is the write buffer of a client library."""

READ_BYTES = 256 * 1024
"""The most that is read at once, bytes."""

_NUMBER_DIGITS = 8
_PUBLISHER_DIGITS = 4


def payload(number: int, publisher: int, size_bytes: int) -> bytes:
    """Return a payload; ASCII, so that it is also a text for protocols that want one.

    Args:
        number: Place in the period.
        publisher: Number of the publisher.
        size_bytes: At least 12.
    """
    return (b"%08x%04x" % (number, publisher)).ljust(size_bytes, b".")


def payload_number(data: bytes, offset: int) -> int | None:
    """Return the sequence number of a payload that begins at `offset`, None if there is none."""
    digits = data[offset : offset + _NUMBER_DIGITS]
    try:
        return int(digits, 16) if len(digits) == _NUMBER_DIGITS else None
    except ValueError:
        return None


class Stream:
    """Units of one length, repeated without end.

    Args:
        units: Of one period.
        unit_messages: Messages in each.
        payload_offset: Where the first payload begins in a unit.
    """

    __slots__ = ("_repeated", "chunks", "payload_offset", "period_bytes", "unit_bytes", "unit_messages")

    def __init__(self, units: Sequence[bytes], unit_messages: int, payload_offset: int) -> None:
        self.unit_bytes = len(units[0])
        if any(len(unit) != self.unit_bytes for unit in units):
            raise ValueError("the units of a stream must be equally long")
        self.unit_messages = unit_messages
        self.payload_offset = payload_offset
        period = b"".join(units)
        self.period_bytes = len(period)
        behind_bytes = 2 * READ_BYTES  # a read, and what was kept of the one before
        repeats = 1 + -(-behind_bytes // self.period_bytes)
        self._repeated = (period * repeats)[: self.period_bytes + behind_bytes]
        self.chunks: tuple[memoryview, ...] = ()

    def cut(self, multiple_units: int, most_bytes: int = WRITE_BYTES) -> None:
        """Cut the period into what is written at once: whole units, up to `most_bytes`.

        Args:
            multiple_units: Each chunk has a multiple of so many units; the period must, too.
            most_bytes: Of a chunk, unless a multiple takes more.
        """
        multiple_bytes = multiple_units * self.unit_bytes
        if self.period_bytes % multiple_bytes:
            raise ValueError("a period must be a whole number of multiples")
        step = max(most_bytes // multiple_bytes, 1) * multiple_bytes
        whole = memoryview(self._repeated)[: self.period_bytes]
        self.chunks = tuple(whole[start : start + step] for start in range(0, self.period_bytes, step))

    def matches(self, data: memoryview | bytes, position: int) -> bool:
        """Return whether `data`, up to `READ_BYTES` of it, is what stands at `position`."""
        return self._repeated.startswith(data, position % self.period_bytes)

    def common_bytes(self, data: bytes, position: int) -> int:
        """Return how many bytes of `data` are what stands at `position`."""
        start = position % self.period_bytes
        right, wrong = 0, len(data) + 1
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._repeated.startswith(data[right:middle], start + right):
                right = middle
            else:
                wrong = middle
        return right

    def cut_out(self, position: int, size_bytes: int) -> bytes:
        """Return the bytes at `position`."""
        start = position % self.period_bytes
        return self._repeated[start : start + size_bytes]

    def messages(self, position: int) -> int:
        """Return how many messages are complete in the first `position` bytes."""
        return position // self.unit_bytes * self.unit_messages
