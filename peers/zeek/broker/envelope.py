"""`Envelope`: a frame of the operation phase.

```
 0  u32  length of all that follows      all integers big-endian
 4  16   sender     the hop that it came over; the id of the handshake
20  16   receiver   nil: everybody
36  u8   type       1 data, 2 command, 3 routing_update, 4 ping, 5 pong
37  u16  ttl        written as 16; nobody counts it down
39  u16  topic length T
41  T    topic
41+T     payload    what the type says, up to the end
```

From offset 39 on, a data envelope is the same as a MESSAGES frame of the hub from its offset 6 on. So one becomes the
other when the bytes in front are exchanged, see `peers.zeek.broker.reading` and `peers.zeek.broker.writing`.

No state, no I/O.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from peers.zeek.broker.filters import encode_filter
from peers.zeek.broker.handshake_messages import NIL_ID

__all__ = [
    "CONTROL_TOPIC",
    "FIXED_BYTES",
    "TOPIC_OFFSET",
    "TTL",
    "Envelope",
    "EnvelopeType",
    "data_header",
    "decode_envelope",
    "encode_envelope",
    "encode_ping",
    "encode_pong",
    "encode_routing_update",
]

TTL = 16
"""The ttl that Broker writes; nobody counts it down."""

CONTROL_TOPIC = b"<$>"
"""The topic of routing updates, pings and pongs."""

FIXED_BYTES = 41
"""Offset of the topic in an envelope, which begins with its length."""

TOPIC_OFFSET = 39
"""Offset of the topic's length in an envelope, which begins with its own length."""

_LAYOUT = Struct(">16s16sBHH")
_HEADER = Struct(">I16s16sBHH")
_DATA_HEADER = Struct(">16s16sBH")


class EnvelopeType(IntEnum):
    """What an envelope holds."""

    DATA = 1
    COMMAND = 2
    ROUTING_UPDATE = 3
    PING = 4
    PONG = 5


_TYPES = {int(kind): kind for kind in EnvelopeType}


class Envelope(NamedTuple):
    """One frame of the operation phase, taken apart."""

    sender: bytes
    receiver: bytes
    type: EnvelopeType
    topic: bytes
    payload: bytes
    ttl: int = TTL


def encode_envelope(envelope: Envelope) -> bytes:
    """Return an envelope as a frame."""
    sender, receiver, kind, topic, payload, ttl = envelope
    size = _LAYOUT.size + len(topic) + len(payload)
    return _HEADER.pack(size, sender, receiver, kind, ttl, len(topic)) + topic + payload


def decode_envelope(frame: bytes) -> Envelope:
    """Take a frame apart.

    Args:
        frame: The frame without its length.

    Raises:
        ValueError: The frame is too short, of an unknown type, or lacks a topic or payload; the text says which.
    """
    if len(frame) < _LAYOUT.size:
        raise ValueError(f"envelope of {len(frame)} bytes, the shortest has {_LAYOUT.size}")
    sender, receiver, number, ttl, topic_length = _LAYOUT.unpack_from(frame)
    kind = _TYPES.get(number)
    if kind is None:
        raise ValueError(f"envelope of the unknown type {number}")
    payload_start = _LAYOUT.size + topic_length
    if payload_start >= len(frame):
        raise ValueError(f"envelope of {len(frame)} bytes with a topic of {topic_length} has no payload")
    return Envelope(sender, receiver, kind, frame[_LAYOUT.size : payload_start], frame[payload_start:], ttl)


def data_header(sender: bytes) -> bytes:
    """Return the fields between the length and the topic length of a data envelope for everybody."""
    return _DATA_HEADER.pack(sender, NIL_ID, EnvelopeType.DATA, TTL)


def encode_routing_update(sender: bytes, receiver: bytes, prefixes: tuple[str, ...]) -> bytes:
    """Return the frame that replaces what the receiver knows of the sender's subscriptions."""
    payload = encode_filter(prefixes)
    return encode_envelope(Envelope(sender, receiver, EnvelopeType.ROUTING_UPDATE, CONTROL_TOPIC, payload))


def encode_ping(sender: bytes, receiver: bytes, payload: bytes) -> bytes:
    """Return a ping as a frame. Its payload must not be empty: Broker before 2.8 takes no such envelope."""
    return encode_envelope(Envelope(sender, receiver, EnvelopeType.PING, CONTROL_TOPIC, payload))


def encode_pong(sender: bytes, receiver: bytes, payload: bytes) -> bytes:
    """Return the answer to a ping with this payload as a frame."""
    return encode_envelope(Envelope(sender, receiver, EnvelopeType.PONG, CONTROL_TOPIC, payload))
