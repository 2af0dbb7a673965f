"""Splitting of frames for a far side that accepts smaller frames than this hub.

A frame of several values is split. Only a single value that is too large by itself is lost, and the far side is told so
in its place. A frame whose values cannot be separated is lost as a whole.

No state. Cost: only batches over the limit are looked into, by one walk over their frames and values.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from hub.messages.batch import Batch, value_ends
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, HEADER_BYTES, KIND_MESSAGES, Frame, encode_frame


def fitting(batches: list[Batch], limit_bytes: int) -> list[Batch | int]:
    """Return the same messages in frames within the limit; a number says how many messages are lost in its place."""
    fit: list[Batch | int] = []
    for batch in batches:
        if len(batch.frames) - HEADER_BYTES <= limit_bytes:  # then no body in it can be over the limit
            fit.append(batch)
            continue
        for piece in _frames(batch, limit_bytes):
            if isinstance(piece, Batch):
                piece.origin = batch.origin
            if fit and isinstance(piece, int) and isinstance(fit[-1], int):
                fit[-1] += piece
            else:
                fit.append(piece)
    return fit


def _frames(batch: Batch, limit_bytes: int) -> Iterator[Batch | int]:
    """Leave neighbouring frames that fit as they are, and split the others."""
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
    """Return one value as a frame of its own, which spares it the count, or 1 if even that is over the limit."""
    if len(value) > limit_bytes:
        return 1
    return Batch(encode_frame(KIND_MESSAGES, value, key=frame.key, flags=frame.flags & ~FLAG_BATCH), 1)
