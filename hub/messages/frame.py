"""The layout of a frame, as far as the core must know it: the header, and the MESSAGES kind.

```
 0  u32  body length B          all integers big-endian
 4  u8   kind
 5  u8   flags
 6  u16  key length K
 8  K    routing key            MESSAGES: the topic; with TAGGED an envelope around it (`hub.labels.envelope`)
8+K B    body                   one value; with BATCH set: u32 count, then the values back to back
```

Bytes 4 to 8 + K are the key of the route cache. The hub keeps messages in this form from the read that brought them to
the write that sends them on. The other kinds are in `peers.wire`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

HEADER = Struct(">IBBH")  # Body length, kind, flags, key length

HEADER_BYTES = HEADER.size

_TOPIC_LENGTH = Struct(">H")  # In front of the topic in an envelope

KEY_LIMIT_BYTES = 6144  # Longest routing key: room for the longest topic, two names and 32 labels

KIND_MESSAGES = 2  # The only kind that is routed as it came

FLAG_BATCH = 0b1  # The body is a count and several values

# Of MESSAGES, REQUEST and REPLY: a handle of shared memory stands for the values, `peers.wire.shared`
FLAG_SHARED = 0b10000

FLAG_TAGGED = 0b1000  # The key is an envelope: a topic, and labels and names beside it

# The publisher wants the offset in the journal. The hub takes the flag off before it sends messages on
FLAG_CONFIRM = 0b100000

BATCH_COUNT = Struct(">I")  # Number of values in front of a BATCH body

# Most values in one frame. Publishers stop at 64 KiB of body; to find the boundaries of so many takes about 10 ms, well
# below the 50 ms that the loop may be blocked.
BATCH_LIMIT_MESSAGES = 65_536


class Encoding(IntEnum):
    """Encoding of values, bits 1 and 2 of the flags of MESSAGES."""

    MSGPACK = 0
    BROKER = 1


# Flags of MESSAGES with one value as Broker spells it. Several in one frame could not be separated
BROKER_FLAGS = Encoding.BROKER << 1


class Frame(NamedTuple):
    """One frame, taken apart."""

    kind: int
    flags: int
    key: bytes
    body: bytes

    @property
    def encoding(self) -> int:
        """Encoding of the values. A number that has no name in `Encoding` is passed on unread."""
        return self.flags >> 1 & 0b11

    @property
    def routing_key(self) -> bytes:
        return HEADER.pack(0, self.kind, self.flags, len(self.key))[4:] + self.key

    @property
    def topic(self) -> bytes:
        return topic_of(self.flags, self.key)

    @property
    def messages(self) -> int:
        """How many values a MESSAGES frame says it holds."""
        return BATCH_COUNT.unpack_from(self.body)[0] if self.flags & FLAG_BATCH else 1


def topic_of(flags: int, key: bytes) -> bytes:
    if not flags & FLAG_TAGGED:
        return key
    return key[_TOPIC_LENGTH.size : _TOPIC_LENGTH.size + _TOPIC_LENGTH.unpack_from(key)[0]]


def encode_frame(kind: int, body: bytes, *, key: bytes = b"", flags: int = 0) -> bytes:
    return HEADER.pack(len(body), kind, flags, len(key)) + key + body


def iterate_frames(frames: bytes) -> Iterator[Frame]:
    """Take apart whole frames that stand back to back."""
    position = 0
    end = len(frames)
    while position < end:
        body_length, kind, flags, key_length = HEADER.unpack_from(frames, position)
        key_start = position + HEADER_BYTES
        body_start = key_start + key_length
        position = body_start + body_length
        yield Frame(kind, flags, frames[key_start:body_start], frames[body_start:position])


EPOCH_LIMIT = 2**32 - 1  # The last epoch. A hub comes there after days of peers that change their links all the time


class Origin(NamedTuple):
    """Where, and when, messages have entered the mesh (`hub.mesh.upstream`, `peers.wire.control`)."""

    hub: bytes  # The id of the hub, 16 bytes
    epoch: int  # 0 to `EPOCH_LIMIT`
    mark: int = 0  # By which that hub knows the one batch that it holds for, 1 to 2⁶⁴ - 1; 0 for none
