"""Sequence numbers of many messages at once, written and compared as columns of bytes.

```
... 0 0 1 254 ....................│... 0 0 1 255 ....................│... 0 0 2 0 ....................
          └ column 0 is every frame_stride-th byte: 254, 255, 0, ...: one slice of a ready pattern
        └── column 1: 1, 1, 2
```

Four slices write or check a whole block, so that what makes and checks the load costs a few ns a message and is not
what limits the benchmark. Nothing is sampled: every byte of every sequence number is written and compared. There is no
state; NumPy would do the same, but is no part of what is installed with the hub.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["MESSAGES_LIMIT", "Grid", "is_sequence", "write_sequence"]

MESSAGES_LIMIT = 65_536
"""Most messages in one grid, so that their numbers carry into the upper half at most once."""

_COLUMNS = 4
_PATTERNS = (
    bytes(range(256)) * 512,
    b"".join(bytes([high]) * 256 for high in range(256)) * 2,
)
"""The two lower bytes of 0, 1, 2 ... 131071."""


class Grid(NamedTuple):
    """Where the sequence numbers stand: frames of equal size, values of equal size in each."""

    first: int
    """Offset of the first number (its highest byte)."""
    frames: int
    frame_stride: int
    values: int
    """In each frame."""
    value_stride: int

    def lines(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the grid as few straight lines: offset, stride, count, number at the start, step of the numbers."""
        first, frames, frame_stride, values, value_stride = self
        if frames >= values:
            for value in range(values):
                yield first + value * value_stride, frame_stride, frames, value, values
        else:
            for frame in range(frames):
                yield first + frame * frame_stride, value_stride, values, frame * values, 1


def write_sequence(buffer: bytearray, grid: Grid, start: int) -> None:
    """Write the numbers `start`, `start` + 1, ... into the places of the grid."""
    for offset, stride, count, delta, step in grid.lines():
        end = offset + (count - 1) * stride + _COLUMNS
        for column in range(_COLUMNS):
            place = offset + _COLUMNS - 1 - column
            buffer[place:end:stride] = _column(column, start + delta, step, count)


def is_sequence(buffer: bytearray, grid: Grid, start: int, publisher: int) -> bool:
    """Return whether the numbers in the places of the grid are `start`, `start` + 1, ..., all of that publisher.

    Args:
        buffer: What was received.
        grid: Where the numbers are, at most `MESSAGES_LIMIT` of them.
        start: The first number.
        publisher: The number of the publisher, below 256.
    """
    for offset, stride, count, delta, step in grid.lines():
        end = offset + (count - 1) * stride + _COLUMNS
        for column in range(_COLUMNS):
            place = offset + _COLUMNS - 1 - column
            if buffer[place:end:stride] != _column(column, start + delta, step, count):
                return False
        if buffer[offset - 1 : end - _COLUMNS : stride] != bytes((publisher,)) * count:
            return False
    return True


def _column(column: int, start: int, step: int, count: int) -> bytes:
    """Return one byte (0 is the lowest) of each of the numbers `start`, `start` + `step`, ..."""
    low = start & 0xFFFF
    if column < len(_PATTERNS):
        return _PATTERNS[column][low : low + (count - 1) * step + 1 : step]
    before = min(count, -((low - 0x10000) // step))  # so many until the lower half overflows
    value = bytes((start >> 8 * column & 0xFF,)) * before
    if before == count:
        return value
    return value + bytes((start + 0x10000 >> 8 * column & 0xFF,)) * (count - before)
