"""Zeek's values: Broker's data model in Python, in Broker's binary format, in JSON and in msgpack.

See docs/data-model.md. No I/O.
"""

from __future__ import annotations

from peers.values.binary import DEPTH_LIMIT, ELEMENTS_LIMIT, InvalidDataError, InvalidInputError, check, decode, encode
from peers.values.json import (
    CONVERTED_ELEMENTS_LIMIT,
    CONVERTED_LIMIT_BYTES,
    decode_message,
    encode_json,
    encode_message,
)
from peers.values.msgpack import default, ext_hook, from_msgpack, to_msgpack
from peers.values.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, Value, to_text, value_of

__all__ = [
    "CONVERTED_ELEMENTS_LIMIT",
    "CONVERTED_LIMIT_BYTES",
    "DEPTH_LIMIT",
    "ELEMENTS_LIMIT",
    "Count",
    "Enum",
    "InvalidDataError",
    "InvalidInputError",
    "Port",
    "Set",
    "Table",
    "Timespan",
    "Timestamp",
    "Value",
    "check",
    "decode",
    "decode_message",
    "default",
    "encode",
    "encode_json",
    "encode_message",
    "ext_hook",
    "from_msgpack",
    "to_msgpack",
    "to_text",
    "value_of",
]
