"""The innermost loops of the hub: find runs of frames with one route (`find_runs`), put runs together (`join_runs`).

```
read: [/a][/a][/b][/c][/a] ... ── find_runs ──▶ routes  R1   R1'...     a run: consecutive frames with one route
                                                ends    80   120 ...
                                                messages 3    1  ...
```

Per frame one `startswith` while headers repeat (same topic, same size), else the header is unpacked and the routing key
looked up. Anything that is not a plain hit is left to the caller: a control frame, an unknown key, a frame that is not
complete, over a limit, or with an impossible number of values.

`hub/messages/_runs.pyx` is the compiled twin of this module; `hub.messages.stretch` chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from hub.messages.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, FLAG_BATCH, HEADER, HEADER_BYTES

RUNS_LIMIT = 4_096  # Most runs that one call finds: about 2 ms in this module

R = TypeVar("R")


def batch_count(data: bytes, body_start: int, body_length: int) -> int:
    """Return how many values a BATCH body says it holds; 0 if it cannot be: each value takes at least one byte."""
    if body_length <= BATCH_COUNT.size:
        return 0
    count: int = BATCH_COUNT.unpack_from(data, body_start)[0]
    return count if count <= min(body_length - BATCH_COUNT.size, BATCH_LIMIT_MESSAGES) else 0


def find_runs(
    data: bytes, position: int, table: Mapping[bytes, R], limit_bytes: int
) -> tuple[list[R], list[int], list[int]]:
    """Walk over complete frames from `position` on whose keys are in `table`.

    Args:
        data: The bytes that were read.
        position: Where a frame begins.
        table: Routing key → route.
        limit_bytes: Largest body.

    Returns:
        Of each run its route, where it ends, and how many messages it holds; neighbours have different routes. At most
        `RUNS_LIMIT`; empty if not even one message stands at `position`.
    """
    # Local names, and no calls that can be spared: this is paid for every message.
    find = table.get
    unpack = HEADER.unpack_from
    starts_with = data.startswith
    end = len(data)
    last_header = end - HEADER_BYTES
    routes: list[R] = []
    starts: list[int] = []
    counts: list[int] = []  # each behind that of the run before it: of the last run, it is still in `messages`
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
        again = key == last_key
        if again and not flags & FLAG_BATCH:
            # The same topic again: while whole headers repeat, sizes repeat too.
            header = data[position:body_start]
            size = frame_end - position
            last_start = end - size
            while position <= last_start and starts_with(header, position):
                position += size
                messages += 1
            continue
        found = route if again else find(key)
        count = batch_count(data, body_start, body_length) if flags & FLAG_BATCH else 1
        if found is None or not count:
            break
        if found is not route:
            if len(routes) == RUNS_LIMIT:
                break
            routes.append(found)
            starts.append(position)
            counts.append(messages)
            messages = 0
            route = found
        last_key = key
        messages += count
        position = frame_end
    if not routes:
        return [], [], []
    return routes, [*starts[1:], position], [*counts[1:], messages]


def join_runs(
    data: bytes, start: int, ends: Sequence[int], messages: Sequence[int], chosen: Sequence[int]
) -> tuple[bytes, int]:
    """Put the chosen runs (numbers, ascending) one behind the other; return their bytes and messages."""
    starts = [start, *ends]
    parts = [data[starts[number] : ends[number]] for number in chosen]
    return b"".join(parts), sum([messages[number] for number in chosen])
