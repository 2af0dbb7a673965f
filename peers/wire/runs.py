"""`next_run`: how far do frames go the same way? The innermost loop of the hub.

One call walks over a whole run of frames in what a read brought. Per frame it does one `startswith` while headers
repeat (same topic, same size), else it unpacks the header, cuts the routing key out and looks it up.

It reads what stands there and changes nothing. Anything that is not a plain hit, it leaves to the scanner: a control
frame, an unknown key, a frame that is not complete, over a limit, or that says it holds an impossible number of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from hub.frame import (
    BATCH_COUNT,
    BATCH_LIMIT_MESSAGES,
    FLAG_BATCH,
    HEADER,
    HEADER_BYTES,
)

__all__ = ["batch_count", "next_run"]

R = TypeVar("R")


def batch_count(data: bytes, body_start: int, body_length: int) -> int:
    """How many values a BATCH body says it holds; 0 if it cannot be: each value takes at least one byte."""
    if body_length <= BATCH_COUNT.size:
        return 0
    count: int = BATCH_COUNT.unpack_from(data, body_start)[0]
    return count if count <= min(body_length - BATCH_COUNT.size, BATCH_LIMIT_MESSAGES) else 0


def next_run(data: bytes, position: int, table: Mapping[bytes, R], limit_bytes: int) -> tuple[R | None, int, int]:
    """Walk over complete frames from `position` on whose keys are in `table` with one and the same route.

    Args:
        data: What was read.
        position: Where a frame begins.
        table: Routing key → route.
        limit_bytes: Largest body.

    Returns:
        The route, where the run ends, and how many messages it holds; (None, position, 0) if there is none.
    """
    # Local names, and no calls that can be spared: this is paid for every message.
    find = table.get
    unpack = HEADER.unpack_from
    starts_with = data.startswith
    end = len(data)
    last_header = end - HEADER_BYTES
    messages = 0
    route: R | None = None
    last_key = b""
    while position <= last_header:
        body_length, _, flags, key_length = unpack(data, position)
        body_start = position + HEADER_BYTES + key_length
        frame_end = body_start + body_length
        if frame_end > end or body_length > limit_bytes:
            break
        key = data[position + 4 : body_start]
        if key != last_key:
            found = find(key)
            if found is not route or found is None:
                if messages or found is None:
                    break
                route = found
            last_key = key
        elif not flags & FLAG_BATCH:
            # The same topic again: while whole headers repeat, sizes repeat too.
            header = data[position:body_start]
            size = frame_end - position
            last_start = end - size
            while position <= last_start and starts_with(header, position):
                position += size
                messages += 1
            continue
        if flags & FLAG_BATCH:
            count = batch_count(data, body_start, body_length)
            if not count:
                break
            messages += count
        else:
            messages += 1
        position = frame_end
    return (route, position, messages) if messages else (None, position, 0)
