"""What to do for a far side that takes smaller frames than this hub does.

Frames of several values are split; only a single value that is too large alone is lost, and told where it would have
stood. A frame whose values cannot be told apart is lost as a whole.

Cost: nothing is looked into but frames over the limit; there one walk over the values.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from hub.batch import Batch, value_ends
from hub.frame import BATCH_COUNT, FLAG_BATCH, HEADER_BYTES, KIND_MESSAGES, Frame, encode_frame

__all__ = ["fitting"]


def fitting(batches: list[Batch], limit_bytes: int) -> list[Batch | int]:
    """Return the same messages in frames whose bodies are within the limit; a number says how many are lost there."""
    fit: list[Batch | int] = []
    for batch in batches:
        if len(batch.frames) - HEADER_BYTES <= limit_bytes:  # then no body in it is over
            fit.append(batch)
            continue
        for piece in _frames(batch, limit_bytes):
            if fit and isinstance(piece, int) and isinstance(fit[-1], int):
                fit[-1] += piece
            else:
                fit.append(piece)
    return fit


def _frames(batch: Batch, limit_bytes: int) -> Iterator[Batch | int]:
    """Leave frames that fit together as they are, split the others."""
    start = position = messages = 0
    for frame in batch.parts():
        end = position + HEADER_BYTES + len(frame.key) + len(frame.body)
        if len(frame.body) <= limit_bytes:
            messages += frame.messages
        else:
            if messages:
                yield Batch(batch.frames[start:position], messages)
            yield from _values(frame, limit_bytes)
            start, messages = end, 0
        position = end
    if messages:
        yield Batch(batch.frames[start:position], messages)


def _values(frame: Frame, limit_bytes: int) -> Iterator[Batch | int]:
    """Split a frame over the limit into frames of as many of its values as fit."""
    ends = value_ends(frame) if frame.flags & FLAG_BATCH else None
    if ends is None:
        yield frame.messages
        return
    start, first = BATCH_COUNT.size, 0
    while first < len(ends):
        behind = bisect_right(ends, start + limit_bytes - BATCH_COUNT.size, lo=first)
        if behind > first:
            body = BATCH_COUNT.pack(behind - first) + frame.body[start : ends[behind - 1]]
            yield Batch(encode_frame(KIND_MESSAGES, body, key=frame.key, flags=frame.flags), behind - first)
        else:
            behind = first + 1
            yield _single(frame, frame.body[start : ends[first]], limit_bytes)
        start, first = ends[behind - 1], behind


def _single(frame: Frame, value: bytes, limit_bytes: int) -> Batch | int:
    """One value as a frame of its own, which spares the count."""
    if len(value) > limit_bytes:
        return 1
    return Batch(encode_frame(KIND_MESSAGES, value, key=frame.key, flags=frame.flags & ~FLAG_BATCH), 1)
