"""Payloads of Zeek events in JSON, `broker-json-v1`: Broker's JSON of a value, without topic and type.

No state. Cost: that of `peers.values`, about 20 µs an event.
"""

from __future__ import annotations

from peers.values import decode_message, encode_json

__all__ = ["from_json", "to_json"]


def from_json(payload: bytes) -> bytes:
    """Return a payload in Broker's binary format.

    Raises:
        InvalidInputError: It is none.
    """
    return decode_message(payload)[1]


def to_json(payload: bytes) -> bytes:
    """Return a payload in Broker's binary format as JSON.

    Raises:
        InvalidDataError: It is none, or too long to be converted.
    """
    return b"{" + encode_json(payload) + b"}"
