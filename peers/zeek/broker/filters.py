"""Filters: the topic prefixes that an endpoint subscribes to, as they stand in the handshake and in routing updates.

```
varbyte n, then n times: varbyte length, that many bytes          [/a, /b] = 02  02 2f61  02 2f62
```

A varbyte is an unsigned LEB128: it has 7 bits in each byte, least significant first, and bit 7 says that more follow.

A prefix that the hub cannot take (control characters, over 1024 bytes, not UTF-8) is left out and counted: it could
only match topics that the hub refuses as well. The other prefixes are sorted, and those that another one covers are
removed, as in the filters that Broker writes.

No state, no I/O. Cost: about 1 µs a prefix for reading, 0.4 µs for writing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hub.topics import decode_prefixes

__all__ = [
    "FILTER_LIMIT_BYTES",
    "FILTER_LIMIT_PREFIXES",
    "Filter",
    "decode_filter",
    "encode_filter",
    "encode_varbyte",
    "minimal_prefixes",
    "read_varbyte",
]

FILTER_LIMIT_PREFIXES = 100_000
"""Default of the most prefixes in one filter; reading that many takes about 40 ms."""

FILTER_LIMIT_BYTES = 16 * 1024 * 1024
"""Default of the largest filter of the handshake, bytes: as large as a frame of the operation phase may be."""

_VARBYTE_LIMIT_BYTES = 10
_MORE = 0x80


class Filter(NamedTuple):
    """A filter as far as the hub can take it."""

    prefixes: tuple[str, ...]
    """Sorted prefixes, none of which covers another."""

    left_out: int = 0
    """How many more prefixes there were that the hub cannot take."""


def minimal_prefixes(prefixes: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes sorted, without those that another one covers."""
    kept: list[str] = []
    for prefix in sorted(prefixes):
        if not kept or not prefix.startswith(kept[-1]):  # a prefix stands directly before those that it covers
            kept.append(prefix)
    return tuple(kept)


def encode_varbyte(number: int) -> bytes:
    """Return `number`, 0 or more, as a varbyte."""
    encoded = bytearray()
    while number >= _MORE:
        encoded.append(number & 0x7F | _MORE)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_varbyte(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position` and where it ends.

    Raises:
        ValueError: The number is not complete, or longer than 10 bytes.
    """
    number = 0
    for index, byte in enumerate(data[position : position + _VARBYTE_LIMIT_BYTES]):
        number |= (byte & 0x7F) << 7 * index
        if byte < _MORE:
            return number, position + index + 1
    raise ValueError(f"varbyte at byte {position} has no end")


def encode_filter(prefixes: Iterable[str]) -> bytes:
    """Return the prefixes as a filter, in the order given."""
    raw = [prefix.encode() for prefix in prefixes]
    parts = [encode_varbyte(len(raw))]
    for prefix in raw:
        parts += (encode_varbyte(len(prefix)), prefix)
    return b"".join(parts)


def decode_filter(data: bytes, position: int, limit_prefixes: int) -> tuple[Filter, int]:
    """Return the filter at `position` and where it ends.

    Raises:
        ValueError: The filter is not complete, or has more than `limit_prefixes` prefixes; the text says which.
    """
    count, position = read_varbyte(data, position)
    if count > limit_prefixes:
        raise ValueError(f"filter of {count} prefixes, the limit is {limit_prefixes}")
    raw: list[bytes] = []
    for number in range(count):
        # Nearly all lengths take one byte, and a call for each would cost more than everything else.
        if position < len(data) and data[position] < _MORE:
            size, start = data[position], position + 1
        else:
            size, start = read_varbyte(data, position)
        position = start + size
        if position > len(data):
            raise ValueError(f"prefix {number} of the filter says {size} bytes, there are {len(data) - start}")
        raw.append(data[start:position])
    taken = decode_prefixes(raw)  # it leaves out those that the hub cannot take
    return Filter(minimal_prefixes(taken), count - len(taken)), position
