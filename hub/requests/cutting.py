"""Cutting the values of a reply for the requesters that they belong to."""

from __future__ import annotations

from hub.batch import value_ends
from hub.frame import BATCH_COUNT, FLAG_BATCH, KIND_MESSAGES, Frame
from hub.requests.layout import Reply, Status

__all__ = ["cut_values"]


def cut_values(reply: Reply, pieces: list[tuple[int, int]]) -> list[tuple[bytes, int]] | None:
    """Return values and flags for each piece of a reply.

    Args:
        reply: With or without BATCH.
        pieces: Place of the first value of each, and how many.

    Returns:
        None if the values cannot be told apart.
    """
    if not reply.flags & FLAG_BATCH:
        return [(reply.values, reply.flags) for _ in pieces]
    plain = reply.flags & ~FLAG_BATCH
    if reply.status != Status.OK:  # one value for all
        reason = reply.values[BATCH_COUNT.size :]
        return [
            (reason, plain) if count == 1 else (BATCH_COUNT.pack(count) + reason, reply.flags) for _, count in pieces
        ]
    ends = value_ends(Frame(KIND_MESSAGES, reply.flags, b"", reply.values)) if pieces else []
    if ends is None:
        return None
    ends.append(BATCH_COUNT.size)  # where the first begins: behind the end of the "last before it"
    return [
        (reply.values[ends[place - 1] : ends[place]], plain)
        if count == 1
        else (BATCH_COUNT.pack(count) + reply.values[ends[place - 1] : ends[place + count - 1]], reply.flags)
        for place, count in pieces
    ]
