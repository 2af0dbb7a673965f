"""The layout of a frame, as far as the core must know it: the header, and the MESSAGES kind.

```
 0  u32  body length B          all integers big-endian
 4  u8   kind
 5  u8   flags
 6  u16  key length K
 8  K    routing key            MESSAGES: the topic; with TAGGED an envelope around it (`hub.tags.envelope`)
8+K B    body                   one value; with BATCH set: u32 count, then the values back to back
```

The hub keeps messages in this form from the read that brought them to the write that sends them on, so the core
needs to know where frames and values begin, and nothing else of the wire. The other kinds and the rules of a
conversation are in `peers.wire`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

__all__ = [
    "BATCH_COUNT",
    "BATCH_LIMIT_MESSAGES",
    "BROKER_FLAGS",
    "FLAG_BATCH",
    "FLAG_CONFIRM",
    "FLAG_SHARED",
    "FLAG_TAGGED",
    "HEADER",
    "HEADER_BYTES",
    "KEY_LIMIT_BYTES",
    "KIND_MESSAGES",
    "Encoding",
    "Frame",
    "encode_frame",
    "iterate_frames",
    "topic_of",
]

HEADER = Struct(">IBBH")
"""Body length, kind, flags, key length."""

HEADER_BYTES = HEADER.size

_TOPIC_LENGTH = Struct(">H")
"""In front of the topic in an envelope."""

KEY_LIMIT_BYTES = 6144
"""Longest routing key, bytes: room for the longest topic, two names and 32 labels."""

KIND_MESSAGES = 2
"""The kind of frames that hold messages, which is the only kind that is routed as it came."""

FLAG_BATCH = 0b1
"""The body is a count and several values."""

FLAG_SHARED = 0b10000
"""Of MESSAGES, REQUEST and REPLY: in place of the values stands a handle of shared memory, `peers.wire.shared`."""

FLAG_TAGGED = 0b1000
"""The key is an envelope: a topic, and labels and names beside it."""

FLAG_CONFIRM = 0b100000
"""Whoever published wants to know the offset in the journal. The hub takes the flag off before it sends messages on."""

BATCH_COUNT = Struct(">I")
"""Number of values in front of a BATCH body."""

BATCH_LIMIT_MESSAGES = 65_536
"""Most values in one frame. Publishers stop at 64 KiB of body, so this is one byte a value; finding the value
boundaries of that many takes about 10 ms, well below the 50 ms that the loop may be blocked."""


class Encoding(IntEnum):
    """How values are spelled, bits 1 and 2 of the flags of MESSAGES."""

    MSGPACK = 0
    BROKER = 1


BROKER_FLAGS = Encoding.BROKER << 1
"""Flags of MESSAGES with one value as Broker spells it. Several in one frame could not be told apart."""


class Frame(NamedTuple):
    """One frame, taken apart."""

    kind: int
    flags: int
    key: bytes
    body: bytes

    @property
    def encoding(self) -> int:
        """How the values are spelled. A number that has no name in `Encoding` is passed on unread."""
        return self.flags >> 1 & 0b11

    @property
    def routing_key(self) -> bytes:
        """Bytes 4 to 8 + K of the frame, by which the route cache knows it."""
        return HEADER.pack(0, self.kind, self.flags, len(self.key))[4:] + self.key

    @property
    def topic(self) -> bytes:
        """The topic of a MESSAGES frame whose key was checked, for readers that have no use for labels and names."""
        return topic_of(self.flags, self.key)

    @property
    def messages(self) -> int:
        """How many values a MESSAGES frame says it holds."""
        return BATCH_COUNT.unpack_from(self.body)[0] if self.flags & FLAG_BATCH else 1


def topic_of(flags: int, key: bytes) -> bytes:
    """Return the topic that a key holds. Beside the envelope itself, this is the one place that knows where it is."""
    if not flags & FLAG_TAGGED:
        return key
    return key[_TOPIC_LENGTH.size : _TOPIC_LENGTH.size + _TOPIC_LENGTH.unpack_from(key)[0]]


def encode_frame(kind: int, body: bytes, *, key: bytes = b"", flags: int = 0) -> bytes:
    """Return one frame as bytes."""
    return HEADER.pack(len(body), kind, flags, len(key)) + key + body


def iterate_frames(frames: bytes) -> Iterator[Frame]:
    """Take apart whole frames that stand back to back, as the scanner of `peers.wire` found them."""
    position = 0
    end = len(frames)
    while position < end:
        body_length, kind, flags, key_length = HEADER.unpack_from(frames, position)
        key_start = position + HEADER_BYTES
        body_start = key_start + key_length
        position = body_start + body_length
        yield Frame(kind, flags, frames[key_start:body_start], frames[body_start:position])
