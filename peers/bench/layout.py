"""`Layout`: what the messages of a benchmark look like, so that a block of them can be written and checked in strides.

```
value     msgpack bin of --size bytes:   publisher u32 │ sequence u32 │ intended time u64 │ filler ...
topic     /bench/<run>/<number, 5 digits>                              all topics are equally long,
frame     header, topic, value (--batch N: count and N values)         so all frames are equally long
```

Message `i` of a publisher has sequence number `i` and goes to topic `i / batch % topics`. Its intended time is when the
schedule of `--rate` wanted it to be sent, in ns of the machine's monotonic clock, which all processes share; at full
speed it is 0. Sequence numbers are 32 bits wide, so a publisher can send 4.3 thousand million messages.

A layout is a frozen value; each size is worked out once.
"""

from __future__ import annotations

from functools import cached_property
from struct import Struct

import msgspec

from hub.frame import BATCH_COUNT, FLAG_BATCH, HEADER_BYTES, KIND_MESSAGES, encode_frame

__all__ = [
    "PUBLISHERS_LIMIT",
    "SEQUENCE_LIMIT",
    "SEQUENCE_OFFSET",
    "SIZE_LEAST_BYTES",
    "STAMP",
    "TIME_OFFSET",
    "TOPICS_LIMIT",
    "Layout",
]

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
    """What all topics begin with; subscribers subscribe to it."""
    topics: int
    size_bytes: int
    """Size of a value's content."""
    batch: int
    """How many values a frame holds."""

    @cached_property
    def prefix_bytes(self) -> bytes:
        """The prefix as it stands in a frame."""
        return self.prefix.encode()

    @cached_property
    def value_head(self) -> bytes:
        """What msgpack puts in front of the content."""
        return msgspec.msgpack.encode(bytes(self.size_bytes))[: -self.size_bytes]

    @cached_property
    def value_bytes(self) -> int:
        """The size of a whole value."""
        return len(self.value_head) + self.size_bytes

    @cached_property
    def first_value(self) -> int:
        """The distance from the start of a frame to its first value."""
        key_bytes = len(self.prefix_bytes) + TOPIC_DIGITS
        return HEADER_BYTES + key_bytes + (BATCH_COUNT.size if self.batch > 1 else 0)

    @cached_property
    def frame_bytes(self) -> int:
        """The size of a whole frame."""
        return self.first_value + self.batch * self.value_bytes

    def topic(self, number: int) -> str:
        """Return the topic with that number."""
        return f"{self.prefix}{number:0{TOPIC_DIGITS}}"

    def topic_of(self, sequence: int) -> int:
        """Return the number of the topic that message `sequence` goes to."""
        return sequence // self.batch % self.topics

    def frame(self, topic: int, publisher: int) -> bytes:
        """Return a frame with sequence numbers and times 0."""
        content = STAMP.pack(publisher, 0, 0).ljust(self.size_bytes, b".")
        body = (self.value_head + content) * self.batch
        key = self.topic(topic).encode()
        if self.batch == 1:
            return encode_frame(KIND_MESSAGES, body, key=key)
        return encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(self.batch) + body, key=key, flags=FLAG_BATCH)
