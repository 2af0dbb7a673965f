"""`order_of`: which messages of a consumer keep their order, as a function that names the key of each.

```
"topic"              those of one topic
"all"                all of them
"none"               each by itself
"field:uid"          those whose value is a map with the same `uid`, of all topics
"field:id.orig_h"    the same, by the field of that name, or by `orig_h` in the map `id`
```

A message without the field is of the key of its topic. So is one whose value is no map with texts for its keys: a
number, a list, an event, what Broker has spelled. Two values of a field are the same if their msgpack is: 5 and "5" are
two, and 5 and 5.0.

Plain functions; no state. Cost: 0.7 µs for a field, whatever else the message holds: it is passed over, not made.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from hub.frame import Encoding
from hub.journal.block import Record

__all__ = ["FIELD", "order_of"]

FIELD = "field:"
"""What the name of a field follows."""

_OF_A_FIELD = "\0"
"""Begins the key of a value, and no topic."""

_NAMED_BYTES = 64
"""A value that is longer has its digest as its key."""

_NULL = msgspec.Raw(b"\xc0")
"""A field without a value is as one that is not there."""

Read = Callable[[bytes | msgspec.Raw], msgspec.Raw | None]


def order_of(key: str) -> Callable[[Record], str]:
    """Return what names the key of a message: those of one key are delivered in their order, to one member at a time.

    Args:
        key: As `hub.consumers.terms.Terms` has it.
    """
    match key:
        case "topic":
            return lambda record: record.topic
        case "all":
            return lambda _: ""
        case "none":
            return lambda record: str(record.offset)
        case _:
            return _by_field(key.removeprefix(FIELD))


def _by_field(name: str) -> Callable[[Record], str]:
    read = _reader(name)

    def key_of(record: Record) -> str:
        value = read(record.body) if record.encoding == Encoding.MSGPACK else None
        return record.topic if value is None else _OF_A_FIELD + _named(bytes(value))

    return key_of


def _named(value: bytes) -> str:
    return (value if len(value) <= _NAMED_BYTES else sha256(value).digest()).decode("latin-1")


def _reader(name: str) -> Read:
    """Return what finds a field: under its whole name, or else within the field that the name begins with."""
    outer, dot, inner = name.partition(".")
    whole = _field_reader(name)
    if not (dot and outer and inner):
        return whole
    first, rest = _field_reader(outer), _reader(inner)

    def read(data: bytes | msgspec.Raw) -> msgspec.Raw | None:
        if (found := whole(data)) is not None:
            return found
        within = first(data)
        return None if within is None else rest(within)

    return read


def _field_reader(name: str) -> Read:
    map_with: Any = msgspec.defstruct("MapWithField", [("value", msgspec.Raw, _NULL)], rename={"value": name})
    decode = msgspec.msgpack.Decoder(map_with).decode

    def read(data: bytes | msgspec.Raw) -> msgspec.Raw | None:
        try:
            found: msgspec.Raw = decode(data).value
        except msgspec.DecodeError:
            return None
        return None if found == _NULL else found

    return read
