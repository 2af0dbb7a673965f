"""How deep the containers of a value nest: C++ Broker reads values by recursion, and a deep value ends its process.

Broker survives 20,000 levels, but not 500,000. The hub forwards the values of Zeeks unread, so it must look at those
that may be deep. A level takes two bytes, so a body of up to `UNREAD_BYTES` cannot be too deep; nor can a body with few
bytes that could begin a container. Both are found out without reading the body. All others are read step by step,
without recursion, for as long as they could still become too deep.

Cost: nothing for a body up to `UNREAD_BYTES`; otherwise 0.2 ms a megabyte, and 0.2 µs a step for a body with many
containers. A body that is not decided after `STEPS_LIMIT` steps counts as too deep, so that none takes longer than
50 ms.

No state, no I/O. Not here: whether a body is a value at all. Where it cannot be read the search ends, as Broker's
reading would.
"""

from __future__ import annotations

from typing import Final

from peers.zeek.broker.filters import read_varbyte

__all__ = ["LEVELS_LIMIT", "STEPS_LIMIT", "UNREAD_BYTES", "nests_too_deep"]

UNREAD_BYTES: Final = 32 * 1024
"""Largest body that is forwarded without a look at it, bytes."""

LEVELS_LIMIT: Final = UNREAD_BYTES // 2
"""Deepest nesting that is forwarded: as deep as a body of `UNREAD_BYTES` can nest."""

STEPS_LIMIT: Final = 200_000
"""Most values of one body that are looked at."""

_STRINGS = frozenset({5, 11})  # tags of strings and enum values: a length follows, and so many bytes
_CONTAINERS = {12: 1, 13: 2, 14: 1}  # tags of sets, tables and vectors, with the number of values in an element
_SIZES = {0: 0, 1: 1, 2: 8, 3: 8, 4: 8, 6: 16, 7: 17, 8: 3, 9: 8, 10: 8}  # all other tags, with the bytes that follow


def nests_too_deep(body: bytes) -> bool:
    """Return whether a value in Broker's binary format has, or may have, more than `LEVELS_LIMIT` levels."""
    return len(body) > UNREAD_BYTES and _openers(body) > LEVELS_LIMIT and _reaches(body, LEVELS_LIMIT)


def _openers(body: bytes) -> int:
    """Return how many bytes could begin a container; no value has more levels than that."""
    return sum(body.count(tag) for tag in _CONTAINERS)


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
