"""Turning the message `publish` of WebSocket clients into the hub's own `Publication`.

```
{"type": "publish", "topic": "/a", "value": 7}                        `request`, `confirm`, `labels`, `sender`, `to`
{"type": "publish", "topic": "/a", "values": [7, 8]}                  one frame of two messages
```

The structs are what `peers.websocket.codec` reads; the functions check what types cannot say. A value is msgpack when
it leaves here: from JSON it is converted, from msgpack it is cut out unread. No state, no I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError
from hub.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, FLAG_BATCH, HEADER_BYTES, KIND_MESSAGES, encode_frame
from hub.tags.envelope import key_of
from peers.verbs.publish import Publication
from peers.websocket.messages import Labels, RefusedError, RequestNumber

__all__ = ["ITEMS_LIMIT", "JsonPublish", "RawPublish", "array_head", "publication_of_json", "publication_of_msgpack"]

ITEMS_LIMIT = BATCH_LIMIT_MESSAGES
"""Most values or prefixes of one message."""

_pack = msgspec.msgpack.Encoder().encode

_VALUE_OR_VALUES = "publish: expected `value` (one) or `values` (a list), one of the two"


class JsonPublish(msgspec.Struct, frozen=True, tag="publish"):
    """A `publish` in JSON."""

    topic: str
    value: Any = msgspec.UNSET
    values: list[Any] | msgspec.UnsetType = msgspec.UNSET
    request: RequestNumber = 0
    confirm: bool = False
    labels: Labels = ()
    sender: str = ""
    to: str = ""


class RawPublish(msgspec.Struct, frozen=True, tag="publish"):
    """A `publish` in msgpack, whose values are not looked into."""

    topic: str
    value: msgspec.Raw = msgspec.Raw()
    values: msgspec.Raw = msgspec.Raw()
    request: RequestNumber = 0
    confirm: bool = False
    labels: Labels = ()
    sender: str = ""
    to: str = ""


def publication_of_json(message: JsonPublish) -> Publication:
    """Return the publication that a client means.

    Raises:
        RefusedError: It cannot be published; the text says why.
    """
    request = message.request
    if (message.value is msgspec.UNSET) == (message.values is msgspec.UNSET):
        raise RefusedError(CloseCode.BAD_DATA, _VALUE_OR_VALUES, request)
    single = message.values is msgspec.UNSET
    values = [message.value] if single else message.values
    assert isinstance(values, list)  # noqa: S101 -- for the type checker: one of the two is set
    try:
        packed = b"".join([_pack(value) for value in values])
    except (OverflowError, ValueError, TypeError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else "an integer beyond 64 bits"
        raise RefusedError(CloseCode.BAD_DATA, f"publish: a value has no msgpack form: {reason}", request) from error
    return _publication(message, packed, len(values), single=single)


def publication_of_msgpack(message: RawPublish) -> Publication:
    """Return the publication that a client means; raises as `publication_of_json`."""
    value, values = bytes(message.value), bytes(message.values)
    if bool(value) == bool(values):
        raise RefusedError(CloseCode.BAD_DATA, _VALUE_OR_VALUES, message.request)
    if value:
        return _publication(message, value, 1, single=True)
    items, start = array_head(values, "values", message.request)
    return _publication(message, values[start:], items, single=False)


def _publication(message: JsonPublish | RawPublish, packed: bytes, messages: int, *, single: bool) -> Publication:
    """Make the frame of values that stand back to back in `packed`."""
    request = message.request
    if message.confirm and not request:
        raise RefusedError(CloseCode.BAD_DATA, "publish: what is to be confirmed bears a `request`", 0, messages)
    if not 0 < messages <= ITEMS_LIMIT:
        text = f"publish: {messages} values, expected 1 to {ITEMS_LIMIT}"
        raise RefusedError(CloseCode.TOO_BIG if messages else CloseCode.BAD_DATA, text, request, messages)
    try:
        key, flags = key_of(message.topic, message.labels, message.sender, message.to)
    except (InvalidTopicError, InvalidNameError) as error:
        raise RefusedError(CloseCode.BAD_DATA, str(error), request, messages) from error
    if single or messages == 1:
        frame = encode_frame(KIND_MESSAGES, packed, key=key, flags=flags)
    else:
        frame = encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(messages) + packed, key=key, flags=flags | FLAG_BATCH)
    return Publication(frame, frame[4 : HEADER_BYTES + len(key)], messages, request, message.confirm)


def array_head(packed: bytes, field: str, request: int) -> tuple[int, int]:
    """Return how many items a msgpack array has, and where the first of them begins.

    Args:
        packed: What should be an array.
        field: Where it stands in the message, for the error.
        request: The request of the message, for the error.

    Raises:
        RefusedError: It is no array.
    """
    mark = packed[0]
    if mark & 0xF0 == 0x90:
        return mark & 0x0F, 1
    if mark == 0xDC:
        return int.from_bytes(packed[1:3], "big"), 3
    if mark == 0xDD:
        return int.from_bytes(packed[1:5], "big"), 5
    raise RefusedError(CloseCode.BAD_DATA, f"expected an array - at `$.{field}`", request)
