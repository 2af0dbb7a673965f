"""`data_envelopes` turns the hub's MESSAGES frames into Broker's data envelopes.

```
frame:               P  kind  flags         │ topic length  topic  body
envelope:  length  sender receiver type ttl │ topic length  topic  payload
```

A body in Broker's binary format is copied unread, with its topic, unless it is so large that it could nest deeper than
Broker can read: C++ Broker reads values by recursion, and a deep value ends its process. A msgpack body is converted;
each value of a BATCH becomes an envelope. Messages that cannot become envelopes are lost and counted: values without a
Broker form, that nest too deep, or are empty (Broker before 2.8 takes no empty payload), and a malformed BATCH.

The result is the same for all Broker peers. Cost: 0.3 µs a message while the topic repeats and nothing is converted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

from hub.messages.batch import Batch, value_ends
from hub.messages.frame import (
    BATCH_COUNT,
    BROKER_FLAGS,
    FLAG_BATCH,
    FLAG_TAGGED,
    HEADER,
    HEADER_BYTES,
    KIND_MESSAGES,
    Encoding,
    Frame,
)
from peers.zeek.broker.messages import LENGTH, data_header, read_varbyte

UNREAD_BYTES: Final = 32 * 1024  # Largest body that is forwarded unread

LEVELS_LIMIT: Final = UNREAD_BYTES // 2
"""Deepest nesting that is forwarded: as deep as a body of `UNREAD_BYTES` can nest."""

STEPS_LIMIT: Final = 200_000  # most values of one body that are looked at

_STRINGS = frozenset({5, 11})  # tags of strings and enum values: a length follows, and so many bytes
_CONTAINERS = {12: 1, 13: 2, 14: 1}  # tags of sets, tables and vectors, with the number of values in an element
_SIZES = {0: 0, 1: 1, 2: 8, 3: 8, 4: 8, 6: 16, 7: 17, 8: 3, 9: 8, 10: 8}  # all other tags, with the bytes that follow


def nests_too_deep(body: bytes) -> bool:
    """Return whether a value in Broker's binary format has, or may have, more than `LEVELS_LIMIT` levels."""
    return (
        len(body) > UNREAD_BYTES and sum(map(body.count, _CONTAINERS)) > LEVELS_LIMIT and _reaches(body, LEVELS_LIMIT)
    )


def _reaches(body: bytes, limit: int) -> bool:
    """Return whether the value nests deeper than `limit` levels, or whether finding that out takes too long."""
    left: list[int] = []  # for each open container, how many of its values are still to come
    position = 0
    try:
        for _ in range(STEPS_LIMIT):
            tag = body[position]
            position += 1
            if tag in _CONTAINERS:
                count, position = read_varbyte(body, position)
                if count:
                    left.append(count * _CONTAINERS[tag])
                    if len(left) > limit:
                        return True
                    continue  # no value is complete: its first one comes next
            elif tag in _STRINGS:
                size, position = read_varbyte(body, position)
                position += size
            else:
                position += _SIZES[tag]
            while left and left[-1] == 1:  # the last value of its container is complete, and so is the container
                left.pop()
            if not left:
                return False
            left[-1] -= 1
    except (IndexError, KeyError, ValueError):  # it is no value, and Broker's reader stops here, too
        return False
    return True


Convert = Callable[[bytes], bytes]
"""Converts a msgpack value to Broker's binary format; raises ValueError for a value that it cannot convert."""


def bodies_of(frame: Frame, convert: Convert) -> tuple[list[bytes], int]:
    """Return the non-empty values of a MESSAGES frame, and how many others it has. Zeeks know no labels and names."""
    if frame.flags & ~FLAG_TAGGED == BROKER_FLAGS and frame.body:
        return ([], 1) if nests_too_deep(frame.body) else ([frame.body], 0)
    if frame.encoding != Encoding.MSGPACK:
        return [], frame.messages
    values: Iterable[bytes] = (frame.body,)
    if frame.flags & FLAG_BATCH:
        ends = value_ends(frame)
        if ends is None:
            return [], frame.messages
        values = (frame.body[start:end] for start, end in zip([BATCH_COUNT.size, *ends], ends, strict=False))
    bodies = []
    lost = 0
    for value in values:
        try:
            body = convert(value)
        except ValueError:
            body = b""
        if body:
            bodies.append(body)
        else:
            lost += 1
    return bodies, lost


_BROKER_KEY_START = bytes((KIND_MESSAGES, BROKER_FLAGS))
_KEY_LENGTH_OFFSET = 6  # from this offset on, a frame is the same as an envelope behind its ttl
_KEY_LENGTH = Struct(">H")


def data_envelopes(batch: Batch, own_id: bytes, convert: Convert) -> tuple[bytes, int]:
    """Return the messages of a batch as data envelopes to all, in order, and how many are lost."""
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
        head = header + _KEY_LENGTH.pack(len(frame.topic)) + frame.topic
        for payload in payloads:
            parts += (LENGTH.pack(len(head) + len(payload)), head, payload)
        lost += lost_here
        position = key_end + body_length
    return b"".join(parts), lost


def _copy_one_topic(frames: bytes, position: int, header: bytes, parts: list[bytes]) -> int:
    """Add the frames from `position` on that repeat a routing key and can be copied unread; return where they end."""
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
