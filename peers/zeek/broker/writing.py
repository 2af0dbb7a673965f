"""`data_envelopes` turns the hub's MESSAGES frames into Broker's data envelopes.

```
frame:               P  kind  flags         │ topic length  topic  body
envelope:  length  sender receiver type ttl │ topic length  topic  payload
```

A body in Broker's binary format is copied unread, in one slice with its topic, unless it is so large that it could nest
deeper than Broker can read. A msgpack body goes through a conversion that is passed in, and each value of a BATCH
becomes an envelope of its own. Messages that cannot become envelopes are lost and counted: bodies that the conversion
refuses, bodies that nest too deep, empty bodies (Broker before 2.8 takes no empty payload), and a BATCH whose values
cannot be told apart.

The sender is always this hub and the receiver everybody, so the result is the same for all Broker peers and can be
shared among them.

Cost: 0.3 µs a message while the topic repeats and nothing is converted. No state, no I/O.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from hub.batch import Batch
from hub.frame import BROKER_FLAGS, HEADER, HEADER_BYTES, KIND_MESSAGES, Frame
from peers.zeek.broker.bodies import Convert, bodies_of
from peers.zeek.broker.envelope import data_header
from peers.zeek.broker.handshake_messages import LENGTH
from peers.zeek.broker.nesting import UNREAD_BYTES

__all__ = ["DataEnvelopes", "data_envelopes"]

_BROKER_KEY_START = bytes((KIND_MESSAGES, BROKER_FLAGS))
_KEY_LENGTH_OFFSET = 6  # from this offset on, a frame is the same as an envelope behind its ttl
_KEY_LENGTH = Struct(">H")


class DataEnvelopes(NamedTuple):
    """A batch as data envelopes."""

    envelopes: bytes
    """Whole frames, ready for the wire."""

    lost_messages: int
    """How many messages of the batch could not become envelopes."""


def data_envelopes(batch: Batch, own_id: bytes, convert: Convert) -> DataEnvelopes:
    """Return the messages of a batch as data envelopes for everybody, in order.

    Args:
        batch: Messages of any encodings and topics.
        own_id: The id of this hub.
        convert: Converts msgpack values.
    """
    header = data_header(own_id)
    frames = batch.frames
    parts: list[bytes] = []
    position = lost = 0
    while position < len(frames):
        behind = _copy_one_topic(frames, position, header, parts)
        if behind > position:
            position = behind
            continue
        body_length, kind, flags, key_length = HEADER.unpack_from(frames, position)
        key_end = position + HEADER_BYTES + key_length
        frame = Frame(kind, flags, frames[position + HEADER_BYTES : key_end], frames[key_end : key_end + body_length])
        payloads, lost_here = bodies_of(frame, convert)
        parts += _enveloped(header, frame.topic, payloads)
        lost += lost_here
        position = key_end + body_length
    return DataEnvelopes(b"".join(parts), lost)


def _copy_one_topic(frames: bytes, position: int, header: bytes, parts: list[bytes]) -> int:
    """Put those frames from `position` on that repeat one routing key, and can be copied unread, into `parts`.

    Returns:
        Where the last of these frames ends; `position` if there is none.
    """
    if not frames.startswith(_BROKER_KEY_START, position + 4):
        return position
    # Local names, and no calls that can be spared: this is paid for every message.
    unpack_length, pack_length, starts_with, add = LENGTH.unpack_from, LENGTH.pack, frames.startswith, parts.append
    key = frames[position + 4 : position + HEADER_BYTES + _KEY_LENGTH.unpack_from(frames, position + 6)[0]]
    key_end = 4 + len(key)
    overhead = len(header) + len(key) - len(_BROKER_KEY_START)
    start, start_length = b"", -1
    while starts_with(key, position + 4):
        (length,) = unpack_length(frames, position)
        if length != start_length:
            if not length or length > UNREAD_BYTES:
                break  # an empty body is lost, and a large one must be looked at, see `bodies_of`
            start = pack_length(overhead + length) + header
            start_length = length
        end = position + key_end + length
        add(start)
        add(frames[position + _KEY_LENGTH_OFFSET : end])
        position = end
    return position


def _enveloped(header: bytes, topic: bytes, payloads: list[bytes]) -> list[bytes]:
    """Return the parts of the envelopes of these payloads, one envelope for each."""
    behind = header + _KEY_LENGTH.pack(len(topic)) + topic
    parts: list[bytes] = []
    for payload in payloads:
        parts += (LENGTH.pack(len(behind) + len(payload)), behind, payload)
    return parts
