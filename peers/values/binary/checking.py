"""Whether a binary body is sound, told without making its values, in about a third of the time. No state, no I/O.

`value_end` does the same for a value with something else behind it.
"""

from __future__ import annotations

from struct import error as StructError  # noqa: N812  an exception, named as one

from peers.values.errors import InvalidDataError
from peers.values.layout import (
    Budget,
    Tag,
    enter,
    need_distinct,
    read_length,
    read_network,
    read_port,
    refuse_tag,
    with_positions,
)

__all__ = ["check", "value_end"]

_SIZES = [0, 1, 8, 8, 8, -1, 16, 17, 3, 8, 8, -1]
"""Bytes behind the tag of values that are no containers; -1 for a length and as many bytes."""


def check(body: bytes) -> None:
    """Accept a body that is one value.

    Raises:
        InvalidDataError: As for `decode`.
    """
    with_positions(_check, body)


def value_end(data: bytes, position: int, budget: Budget | None = None) -> int:
    """Return where the value ends that begins at `position`; it is sound.

    Args:
        data: Among other things, the value.
        position: Where it begins.
        budget: How many elements there may be; several values may share one.

    Raises:
        InvalidDataError: As for `decode`, but something may follow the value.
    """
    try:
        end = _skip(data, position, 1, 0, budget or Budget())
    except (IndexError, StructError):
        end = len(data) + 1
    if end > len(data):
        raise InvalidDataError(f"the value at byte {position} is not complete where the data ends, at byte {len(data)}")
    return end


def _check(body: bytes) -> tuple[None, int]:
    return None, _skip(body, 0, 1, 0, Budget())


def _skip(body: bytes, position: int, count: int, depth: int, budget: Budget) -> int:
    """Return the position behind `count` values."""
    for _ in range(count):
        tag = body[position]
        if tag > Tag.ENUM:
            position = _skip_container(body, position, depth, budget)
            continue
        size = _SIZES[tag]
        if size < 0:
            size, position = read_length(body, position + 1)
            position += size
            continue
        if tag == _PORT:
            read_port(body, position + 1)
        elif tag == _SUBNET:
            read_network(body, position + 1)
        position += 1 + size
    return position


_PORT, _SUBNET = int(Tag.PORT), int(Tag.SUBNET)  # plain numbers compare faster


def _skip_container(body: bytes, position: int, depth: int, budget: Budget) -> int:
    tag = body[position]
    start = position + 1
    if tag > Tag.VECTOR:
        refuse_tag(body, start)
    values = 2 if tag == Tag.TABLE else 1
    count, position = enter(body, start, values, depth, budget)
    if tag == Tag.VECTOR or count * values < 2:
        return _skip(body, position, count, depth + 1, budget)
    encodings = set()
    for _ in range(count):
        end = _skip(body, position, 1, depth + 1, budget)
        encodings.add(body[position:end])
        position = end if values == 1 else _skip(body, end, 1, depth + 1, budget)
    need_distinct(encodings, count, start)
    return position
