"""`find_events`: from events of Zeek nodes, as they stand on the wire, to the hub's frames and their runs.

`_zmtp.pyx` is the compiled twin of this module. What an event looks like, and what a head is, is told in
`peers.zeek.zmtp.events`.

No state, no I/O. Cost, of an event of 100 bytes: 8 µs, most of it to see that the payload is an event; compiled,
0.03 µs while the head repeats, 0.2 µs when heads alternate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, TypeVar

from hub.runs import RUNS_LIMIT
from peers.zeek.zmtp.frames import LONG, MORE

HEAD_PARTS: Final = 3
"""Parts of an event in front of its payload."""

_LENGTH = Struct(">I")
_LONG_LENGTH = Struct(">Q")
_SHORT_HEADER_BYTES: Final = 2
_LONG_HEADER_BYTES: Final = 9

R = TypeVar("R")


def find_events(  # noqa: PLR0913, PLR0917 -- as the compiled twin takes them
    data: bytearray,
    position: int,
    heads: Mapping[bytes, bytes],
    table: Mapping[bytes, R],
    limit_bytes: int,
    beginning: bytes,
    is_event: Callable[[bytes], bool],
) -> tuple[bytes, tuple[list[R], list[int], list[int]], int]:
    """Walk over whole events from `position` on whose heads and routes are known.

    Args:
        data: What was read.
        position: Where an event begins.
        heads: The head of an event, as it stands on the wire → its routing key.
        table: Routing key → route.
        limit_bytes: The longest event.
        beginning: What every payload begins with; others are not walked over.
        is_event: Whether a payload that begins so is an event to its end; others are not walked over either.

    Returns:
        The same messages as the hub's frames; of each run, its route, where it ends in these frames, and its number of
        messages; and where the last event ends. At most `RUNS_LIMIT` runs.
    """
    end = len(data)
    parts: list[bytes] = []
    routes: list[R] = []
    ends: list[int] = []
    counts: list[int] = []
    while position < end:
        head = bytes(data[position : _head_end(data, position)])
        routing_key = heads.get(head)
        found = None if routing_key is None else table.get(routing_key)
        if routing_key is None or found is None:
            break
        is_new = not routes or found is not routes[-1]
        if is_new and len(routes) == RUNS_LIMIT:
            break
        known = head, routing_key, beginning
        behind, messages, size_bytes = _take_one_head(data, position, known, limit_bytes, is_event, parts)
        if not messages:
            break
        if is_new:
            routes.append(found)
            ends.append(ends[-1] if ends else 0)
            counts.append(0)
        ends[-1] += size_bytes
        counts[-1] += messages
        position = behind
    return b"".join(parts), (routes, ends, counts), position


def _head_end(data: bytearray, position: int) -> int:
    """Return where three short frames end that stand at `position`, and are not the last of their message; or that."""
    end, at = len(data), position
    for _ in range(HEAD_PARTS):
        if at + 1 >= end or data[at] != MORE:
            return position
        at += _SHORT_HEADER_BYTES + data[at + 1]
    return at if at <= end else position


def _take_one_head(  # noqa: PLR0913, PLR0917 -- what `find_events` was given
    data: bytearray,
    position: int,
    known: tuple[bytes, bytes, bytes],
    limit_bytes: int,
    is_event: Callable[[bytes], bool],
    parts: list[bytes],
) -> tuple[int, int, int]:
    """Put events from `position` on that have the same head into `parts` as frames, two parts an event.

    Args:
        data: What was read.
        position: Where an event begins.
        known: The head, its routing key, and what payloads begin with.
        limit_bytes: The longest event.
        is_event: Whether a payload is one.
        parts: Takes them.

    Returns:
        Where the last of them ends, how many they are, and how many bytes were put there.
    """
    # Local names, and no calls that can be spared: this is paid for every message.
    head, routing_key, beginning = known
    starts_with, add, pack, head_bytes = data.startswith, parts.append, _LENGTH.pack, len(head)
    end, first, overhead = len(data), len(parts), _LENGTH.size + len(routing_key)
    start, start_length, size_bytes = b"", -1, 0
    while starts_with(head, position):
        at = position + head_bytes
        if at + _SHORT_HEADER_BYTES > end:
            break
        flags = data[at]
        if not flags:
            body = at + _SHORT_HEADER_BYTES
            length = data[at + 1]
        elif flags == LONG and at + _LONG_HEADER_BYTES <= end:
            body = at + _LONG_HEADER_BYTES
            (length,) = _LONG_LENGTH.unpack_from(data, at + 1)
        else:
            break
        behind = body + length
        if behind > end or behind - position > limit_bytes or not starts_with(beginning, body, behind):
            break
        payload = bytes(data[body:behind])
        if not is_event(payload):
            break
        if length != start_length:
            start = pack(length) + routing_key
            start_length = length
        add(start)
        add(payload)
        size_bytes += overhead + length
        position = behind
    return position, (len(parts) - first) // 2, size_bytes
