"""What to do for a far side that takes smaller frames than this hub does."""

from __future__ import annotations

from hub.batch import Batch
from hub.frame import HEADER_BYTES

__all__ = ["fitting"]


def fitting(batches: list[Batch], limit_bytes: int) -> tuple[list[Batch], int]:
    """Return the batches without frames whose body is over the limit, and how many messages that costs.

    Frames of several values are split first; only a single value that is too large alone is lost.
    """
    fit: list[Batch] = []
    lost = 0
    for batch in batches:
        if len(batch.frames) - HEADER_BYTES <= limit_bytes:
            fit.append(batch)
            continue
        rest: Batch | None = batch
        while rest is not None:
            head, rest = rest.split(max(1, rest.messages // 2)) if _is_over(rest, limit_bytes) else (rest, None)
            if not _is_over(head, limit_bytes):
                fit.append(head)
            elif rest is None or head.messages == 1:
                lost += head.messages
            else:
                smaller, smaller_lost = fitting([head], limit_bytes)
                fit.extend(smaller)
                lost += smaller_lost
    return fit, lost


def _is_over(batch: Batch, limit_bytes: int) -> bool:
    return any(len(frame.body) > limit_bytes for frame in batch.parts())
