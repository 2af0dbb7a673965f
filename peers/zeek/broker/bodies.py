"""`bodies_of`: the values of one frame of the hub, each in Broker's binary format.

A body in that format is taken as it is, unless it is empty or nests deeper than Broker can read. A msgpack value goes
through a conversion that is passed in; of a BATCH, each value is one body. What has no such form is counted.

No state, no I/O. Not here: what stands around a body (`peers.zeek.broker.writing`, `peers.zeek.zmtp.event_writing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hub.batch import value_ends
from hub.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH, FLAG_TAGGED, Encoding, Frame
from peers.zeek.broker.nesting import nests_too_deep

__all__ = ["Convert", "bodies_of"]

Convert = Callable[[bytes], bytes]
"""Converts a msgpack value to Broker's binary format; raises ValueError for a value that it cannot convert."""


def bodies_of(frame: Frame, convert: Convert) -> tuple[list[bytes], int]:
    """Return the values of a frame, none of them empty, and how many others it has.

    Args:
        frame: A MESSAGES frame; labels and names are not looked at, since a Zeek knows nothing of them.
        convert: Converts msgpack values.
    """
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
