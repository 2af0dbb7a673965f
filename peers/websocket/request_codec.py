"""Turning the messages `request` and `reply` of WebSocket clients into the hub's own `Request` and `Reply`.

```
{"type": "request", "request": 7, "topic": "/sum", "timeout_ms": 1000, "value": [1, 2]}      `service` for a name
{"type": "request", "request": 7, "topic": "/sum", "values": [[1, 2], [3, 4]]}               requests 7 and 8
{"type": "reply", "request": 7, "values": [3, 7]}       {"type": "reply", "request": 7, "status": 1, "text": …}
```

The structs are what `peers.websocket.codec` reads; the functions check what types cannot say. No state, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from hub.errors import CloseCode
from hub.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, FLAG_BATCH, KEY_LIMIT_BYTES
from hub.request_frame import FLAG_NAMED, TRANSACTIONS, Reply, Request, Status
from peers.websocket.messages import RefusedError

__all__ = ["JsonReply", "JsonRequest", "RawReply", "RawRequest", "reply_of", "request_of"]

_Transaction = Annotated[int, msgspec.Meta(ge=0, lt=TRANSACTIONS)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=BATCH_LIMIT_MESSAGES)]
_Status = Annotated[int, msgspec.Meta(ge=0, le=255)]


class JsonRequest(msgspec.Struct, frozen=True, tag="request"):
    """A `request` in JSON."""

    request: _Transaction
    topic: str = ""
    service: str = ""
    timeout_ms: _Transaction = 0
    value: Any = msgspec.UNSET
    values: list[Any] | msgspec.UnsetType = msgspec.UNSET


class RawRequest(msgspec.Struct, frozen=True, tag="request"):
    """A `request` in msgpack, whose values are not looked into."""

    request: _Transaction
    topic: str = ""
    service: str = ""
    timeout_ms: _Transaction = 0
    value: msgspec.Raw = msgspec.Raw()
    values: msgspec.Raw = msgspec.Raw()


class JsonReply(msgspec.Struct, frozen=True, tag="reply"):
    """A `reply` in JSON."""

    request: _Transaction
    value: Any = msgspec.UNSET
    values: list[Any] | msgspec.UnsetType = msgspec.UNSET
    status: _Status = 0
    text: str = ""
    count: _Count = 1


class RawReply(msgspec.Struct, frozen=True, tag="reply"):
    """A `reply` in msgpack, whose values are not looked into."""

    request: _Transaction
    value: msgspec.Raw = msgspec.Raw()
    values: msgspec.Raw = msgspec.Raw()
    status: _Status = 0
    text: str = ""
    count: _Count = 1


_pack = msgspec.msgpack.Encoder().encode


def request_of(message: JsonRequest | RawRequest) -> Request:
    """Return the hub's own request for a `request`.

    Raises:
        RefusedError: The message has no value or no target, or too many of them.
    """
    flags, values = _values(message, "request")
    target = (message.service or message.topic).encode()
    if bool(message.service) == bool(message.topic) or len(target) > KEY_LIMIT_BYTES:
        text = "request: expected `topic` or `service`, one of the two"
        raise RefusedError(CloseCode.BAD_DATA, text, message.request, about="request")
    named = FLAG_NAMED if message.service else 0
    return Request(target, message.request, message.timeout_ms, values, flags | named)


def reply_of(message: JsonReply | RawReply) -> Reply:
    """Return the hub's own reply for a `reply`; raises what `request_of` raises."""
    first = message.request
    if message.status == Status.OK:
        flags, values = _values(message, "reply")
        return Reply(first, Status.OK, values, flags)
    reason = _pack(message.text)
    if message.count == 1:
        return Reply(first, message.status, reason)
    return Reply(first, message.status, BATCH_COUNT.pack(message.count) + reason, FLAG_BATCH)


def _values(message: JsonRequest | RawRequest | JsonReply | RawReply, kind: str) -> tuple[int, bytes]:
    """Return the flags and the values as they stand in the body of a frame."""

    def refuse(text: str, code: CloseCode = CloseCode.BAD_DATA) -> RefusedError:
        return RefusedError(code, f"{kind}: {text}", message.request, about=kind)

    if isinstance(message, RawRequest | RawReply):
        single, packed, count = _of_msgpack(bytes(message.value), bytes(message.values), refuse)
    else:
        single, packed, count = _of_json(message.value, message.values, refuse)
    if not 0 < count <= BATCH_LIMIT_MESSAGES:
        code = CloseCode.TOO_BIG if count else CloseCode.BAD_DATA
        raise refuse(f"{count} values, expected 1 to {BATCH_LIMIT_MESSAGES}", code)
    return (0, packed) if single else (FLAG_BATCH, BATCH_COUNT.pack(count) + packed)


_ONE_OF_TWO = "expected `value` (one) or `values` (a list), one of the two"


def _of_msgpack(value: bytes, values: bytes, refuse: Callable[[str], RefusedError]) -> tuple[bool, bytes, int]:
    if bool(value) == bool(values):
        raise refuse(_ONE_OF_TWO)
    if value:
        return True, value, 1
    mark = values[0]
    if mark & 0xF0 == 0x90:
        return False, values[1:], mark & 0x0F
    if mark == 0xDC:
        return False, values[3:], int.from_bytes(values[1:3])
    if mark == 0xDD:
        return False, values[5:], int.from_bytes(values[1:5])
    raise refuse("expected an array - at `$.values`")


def _of_json(
    value: Any, values: list[Any] | msgspec.UnsetType, refuse: Callable[[str], RefusedError]
) -> tuple[bool, bytes, int]:
    if (value is msgspec.UNSET) == (values is msgspec.UNSET):
        raise refuse(_ONE_OF_TWO)
    single = values is msgspec.UNSET
    several = [value] if isinstance(values, msgspec.UnsetType) else values
    try:
        packed = b"".join([_pack(each) for each in several])
    except (OverflowError, ValueError, TypeError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else "an integer beyond 64 bits"
        raise refuse(f"a value has no msgpack form: {reason}") from error
    return single, packed, len(several)
