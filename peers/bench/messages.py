"""The messages of a benchmark: what they look like (`Layout`), ready ones (`Template`), and their numbers.

```
value     msgpack bin of --size bytes:   publisher u32 │ sequence u32 │ intended time u64 │ filler ...
topic     /bench/<run>/<number, 5 digits>                              all topics are equally long,
frame     header, topic, value (--batch N: count and N values)         so all frames are equally long
```

Message `i` of a publisher has sequence number `i` and goes to topic `i / batch % topics`. Its intended time is when the
schedule of `--rate` wanted it to be sent, in ns of the monotonic clock; at full speed it is 0. Numbers are written and
compared a column of bytes at a time, four slices for a whole block, so that the load costs a few ns a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from struct import Struct
from typing import NamedTuple

import msgspec

from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, HEADER_BYTES, KIND_MESSAGES, encode_frame

STAMP = Struct(">IIQ")
"""The head of a value: publisher, sequence number, intended time in ns."""

SEQUENCE_OFFSET, TIME_OFFSET = 4, 8
"""Where the sequence number and the time stand in it."""

SIZE_LEAST_BYTES = STAMP.size
SEQUENCE_LIMIT = 1 << 32
PUBLISHERS_LIMIT = 256
"""The lowest byte of the publisher's number is checked in strides, the others are 0."""

TOPIC_DIGITS = 5
TOPICS_LIMIT = 10**TOPIC_DIGITS


class Layout(msgspec.Struct, frozen=True, dict=True):
    """Sizes and offsets of one benchmark's messages, bytes."""

    prefix: str
    """Of all topics; subscribers subscribe to it."""
    topics: int
    size_bytes: int
    """Of a value's content."""
    batch: int
    """Values in a frame."""

    @cached_property
    def prefix_bytes(self) -> bytes:
        """The prefix in UTF-8."""
        return self.prefix.encode()

    @cached_property
    def value_head(self) -> bytes:
        """The msgpack header of the content."""
        return msgspec.msgpack.encode(bytes(self.size_bytes))[: -self.size_bytes]

    @cached_property
    def value_bytes(self) -> int:
        """Size of a whole value."""
        return len(self.value_head) + self.size_bytes

    @cached_property
    def first_value(self) -> int:
        """Offset of the first value in a frame."""
        key_bytes = len(self.prefix_bytes) + TOPIC_DIGITS
        return HEADER_BYTES + key_bytes + (BATCH_COUNT.size if self.batch > 1 else 0)

    @cached_property
    def frame_bytes(self) -> int:
        """Size of a whole frame."""
        return self.first_value + self.batch * self.value_bytes

    def topic(self, number: int) -> str:
        """Return the topic with that number."""
        return f"{self.prefix}{number:0{TOPIC_DIGITS}}"

    def topic_of(self, sequence: int) -> int:
        """Return the number of the topic of message `sequence`."""
        return sequence // self.batch % self.topics

    def frame(self, topic: int, publisher: int) -> bytes:
        """Return a frame with sequence numbers and times 0."""
        content = STAMP.pack(publisher, 0, 0).ljust(self.size_bytes, b".")
        body = (self.value_head + content) * self.batch
        key = self.topic(topic).encode()
        if self.batch == 1:
            return encode_frame(KIND_MESSAGES, body, key=key)
        return encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(self.batch) + body, key=key, flags=FLAG_BATCH)


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
    """Return whether the numbers in the places of the grid are `start`, `start` + 1, ..., all of that publisher."""
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


BLOCK_BYTES = 64 * 1024
"""What is written at once at full speed, as a client library would."""


class Template:
    """Frames of one publisher, at most `block_frames` at a time."""

    __slots__ = ("_buffer", "_frames", "_layout", "_publisher", "_view", "block_frames")

    def __init__(self, layout: Layout, publisher: int) -> None:
        self._layout = layout
        self._publisher = publisher
        block = max(1, min(BLOCK_BYTES // layout.frame_bytes, MESSAGES_LIMIT // layout.batch))
        rounds = max(1, block // layout.topics)
        self._buffer = bytearray(b"".join(layout.frame(topic, publisher) for topic in range(layout.topics)) * rounds)
        self._view = memoryview(self._buffer)
        self._frames = rounds * layout.topics
        self.block_frames = min(block, self._frames)

    def block(self, first: int, frames: int, time_ns: int = 0) -> memoryview:
        """Return frames with their sequence numbers, ready to be sent; they are valid until the next call.

        Args:
            first: Number of the first frame, counted from the start of the publisher.
            frames: Most frames; there are fewer at the end of the template.
            time_ns: Intended time of all of them; 0 only for templates that never had another.
        """
        layout = self._layout
        index = first % self._frames
        count = min(frames, self.block_frames, self._frames - index)
        start = index * layout.frame_bytes
        stop = start + count * layout.frame_bytes
        place = start + layout.first_value + len(layout.value_head)
        if count * layout.batch == 1:
            STAMP.pack_into(self._buffer, place, self._publisher, first, time_ns)
            return self._view[start:stop]
        grid = Grid(place + SEQUENCE_OFFSET, count, layout.frame_bytes, layout.batch, layout.value_bytes)
        write_sequence(self._buffer, grid, first * layout.batch)
        if time_ns:
            time = time_ns.to_bytes(8, "big")
            for frame in range(place + TIME_OFFSET, stop, layout.frame_bytes):
                for value in range(frame, frame + layout.batch * layout.value_bytes, layout.value_bytes):
                    self._buffer[value : value + 8] = time
        return self._view[start:stop]
