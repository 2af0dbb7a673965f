"""Codecs: the two encodings of the client's protocol, `hub.v1.json` and `hub.v1.msgpack`.

What a client sends becomes one of `ClientMessage`; what cannot be is told apart by who can go on:

* `ProtocolError`: not JSON, not msgpack, not UTF-8, nested too deep. The connection ends with 1007.
* `RefusedError`: sound, but no message that the hub takes: unknown type, missing or wrong field, too many items. It
  is answered by an `error` with the same request, and the connection goes on.

A published value is msgpack already when it leaves here: from JSON it is converted, from msgpack it is cut out unread.

No state, no I/O. Cost: one pass of msgspec; a second one only to name what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec
from websockets.frames import Opcode

from hub.batch import Batch
from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, ProtocolError
from hub.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, FLAG_BATCH, HEADER_BYTES, KIND_MESSAGES, encode_frame
from hub.names.claim import Wish
from hub.tags.envelope import key_of
from hub.topics import printable
from peers.journal.forms import Form, Order
from peers.values.conversion import PARTS_LIMIT, possible_containers, possible_parts, without_collecting
from peers.values.forms import Form as BatchForm
from peers.values.nesting import NESTING_LIMIT, is_nested_too_deep, is_packed_too_deep
from peers.verbs.publish import Publication
from peers.websocket.batches import json_form, msgpack_form
from peers.websocket.messages import (
    Claim,
    ClientMessage,
    Fetch,
    Hello,
    HubMessage,
    Labels,
    Ping,
    RefusedError,
    Release,
    RequestNumber,
    Serve,
    Subscribe,
    SubscribeRules,
    Unserve,
    Unsubscribe,
    UnsubscribeRules,
)
from peers.websocket.request_codec import JsonReply, JsonRequest, RawReply, RawRequest, reply_of, request_of
from peers.wire.hello import NAME_LIMIT_BYTES
from peers.wire.names import NameClaim, NameRelease
from peers.wire.records import FETCH_BYTES
from peers.wire.rules import RuleChange
from peers.wire.session import ServiceChange, SubscriptionChange

__all__ = ["FETCH_LIMIT_BYTES", "ITEMS_LIMIT", "JSON", "JSON_BYTES", "JSON_LIMIT_BYTES", "MSGPACK", "Codec"]

ITEMS_LIMIT = BATCH_LIMIT_MESSAGES
"""Most values or prefixes of one message."""

FETCH_LIMIT_BYTES = 4 * 1024 * 1024
"""Most of what one `fetch` may ask for under `hub.v1.msgpack`; more is taken for this."""

JSON_BYTES = 64 * 1024
"""Default of the values in one answer under `hub.v1.json`: 2 ms of work for the reader."""

JSON_LIMIT_BYTES = 1024 * 1024
"""Most of them, whatever is asked for."""

_END_OF_TIME_US = 2**63 - 1

_CONTAINERS_LIMIT = 4 * 1024 * 1024
"""Most bytes of a msgpack message that may begin an array or map. Passing over one costs 7 ns: 28 ms."""

_READ_AGAIN_BYTES = 4 * 1024 * 1024
"""Largest message that, having too many parts, is still looked through for the request that it bears: 5 ms a MiB."""

_TOO_DEEP = f"nested too deep: more than {NESTING_LIMIT} arrays and maps in each other"

_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for what is not JSON or msgpack at all, once its `ValidationError` is taken out."""


@dataclass(frozen=True, slots=True)
class Codec:
    """One subprotocol.

    Attributes:
        opcode: Kind of its WebSocket messages, both ways.
        form: Gives a batch its ready frames, for `Batch.form`.
        decode: Reads what a client sent; raises `ProtocolError` or `RefusedError`.
        encode: Writes what the hub answers.
    """

    opcode: Opcode
    form: Callable[[Batch], BatchForm]
    decode: Callable[[bytes], ClientMessage]
    encode: Callable[[HubMessage], bytes]


class _Envelope(msgspec.Struct):
    """What is read of a message that is refused, to say why."""

    type: Any = None
    request: Any = 0


class _EnvelopeReader(NamedTuple):
    encoding: str
    decode: Callable[[bytes], _Envelope]
    check: Callable[[bytes], object]
    """Passes over any one value."""


class _JsonPublish(msgspec.Struct, frozen=True, tag="publish"):
    topic: str
    value: Any = msgspec.UNSET
    values: list[Any] | msgspec.UnsetType = msgspec.UNSET
    request: RequestNumber = 0
    confirm: bool = False
    labels: Labels = ()
    sender: str = ""
    to: str = ""


class _RawPublish(msgspec.Struct, frozen=True, tag="publish"):
    topic: str
    value: msgspec.Raw = msgspec.Raw()
    values: msgspec.Raw = msgspec.Raw()
    request: RequestNumber = 0
    confirm: bool = False
    labels: Labels = ()
    sender: str = ""
    to: str = ""


class _RawSubscribe(msgspec.Struct, frozen=True, tag="subscribe"):
    prefixes: msgspec.Raw
    request: RequestNumber = 0


class _RawUnsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe"):
    prefixes: msgspec.Raw
    request: RequestNumber = 0


class _RawServe(msgspec.Struct, frozen=True, tag="serve"):
    prefixes: msgspec.Raw
    request: RequestNumber = 0


class _RawUnserve(msgspec.Struct, frozen=True, tag="unserve"):
    prefixes: msgspec.Raw
    request: RequestNumber = 0


_TYPES = (
    "hello",
    "subscribe",
    "unsubscribe",
    "publish",
    "ping",
    "fetch",
    "request",
    "reply",
    "serve",
    "unserve",
    "claim",
    "release",
    "rule",
    "unrule",
)

_Same = Hello | Ping | Claim | Release | SubscribeRules | UnsubscribeRules
_JsonMessage = _Same | Fetch | Subscribe | Unsubscribe | Serve | Unserve | _JsonPublish | JsonRequest | JsonReply
_RawMessage = (
    _Same | Fetch | _RawSubscribe | _RawUnsubscribe | _RawServe | _RawUnserve | _RawPublish | RawRequest | RawReply
)

_from_json = msgspec.json.Decoder(_JsonMessage).decode
_from_msgpack = msgspec.msgpack.Decoder(_RawMessage).decode
_JSON_ENVELOPE = _EnvelopeReader(
    "JSON", msgspec.json.Decoder(_Envelope).decode, msgspec.json.Decoder(msgspec.Raw).decode
)
_MSGPACK_ENVELOPE = _EnvelopeReader(
    "msgpack", msgspec.msgpack.Decoder(_Envelope).decode, msgspec.msgpack.Decoder(msgspec.Raw).decode
)
_prefixes_of = msgspec.msgpack.Decoder(list[str]).decode
_pack = msgspec.msgpack.Encoder().encode


def _decode_json(payload: bytes) -> ClientMessage:
    if not payload.isascii():
        _check_utf8(payload)  # msgspec does not look into strings that it passes over
    if len(payload) <= PARTS_LIMIT:
        return _decode_text(payload)
    parts = possible_parts(payload)
    if parts > PARTS_LIMIT:
        text = _too_many("arrays, maps and items", parts, PARTS_LIMIT)
        raise _refused(_JSON_ENVELOPE, payload, CloseCode.TOO_BIG, text)
    return without_collecting(_decode_text, payload)


def _check_utf8(payload: bytes) -> None:
    try:
        payload.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(CloseCode.BAD_DATA, f"not UTF-8 at byte {error.start}") from error


def _decode_text(payload: bytes) -> ClientMessage:
    if is_nested_too_deep(payload):
        raise ProtocolError(CloseCode.BAD_DATA, _TOO_DEEP)
    try:
        message: _JsonMessage = _from_json(payload)
    except msgspec.ValidationError as error:
        raise _refused(_JSON_ENVELOPE, payload, CloseCode.BAD_DATA, str(error)) from error
    except _MALFORMED as error:
        raise _malformed("JSON", error) from error
    match message:
        case _JsonPublish():
            return _publication_of_json(message)
        case JsonRequest():
            return request_of(message)
        case JsonReply():
            return reply_of(message)
        case Subscribe() | Unsubscribe() | Serve() | Unserve():
            if len(message.prefixes) > ITEMS_LIMIT:
                raise _too_many_prefixes(len(message.prefixes), message.request)
            return _CHANGES[type(message)](message.prefixes, message.request)
        case Fetch():
            return _order(message, "json", JSON_BYTES, JSON_LIMIT_BYTES)
        case _:
            return _verb(message)


def _publication_of_json(message: _JsonPublish) -> Publication:
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


def _decode_msgpack(payload: bytes) -> ClientMessage:
    if len(payload) > _CONTAINERS_LIMIT and (found := possible_containers(payload)) > _CONTAINERS_LIMIT:
        text = _too_many("bytes that may begin an array or map", found, _CONTAINERS_LIMIT)
        raise _refused(_MSGPACK_ENVELOPE, payload, CloseCode.TOO_BIG, text)
    if is_packed_too_deep(payload):
        raise ProtocolError(CloseCode.BAD_DATA, _TOO_DEEP)
    try:
        message: _RawMessage = _from_msgpack(payload)
    except msgspec.ValidationError as error:
        raise _refused(_MSGPACK_ENVELOPE, payload, CloseCode.BAD_DATA, str(error)) from error
    except _MALFORMED as error:
        raise _malformed("msgpack", error) from error
    match message:
        case _RawPublish():
            return _publication_of_msgpack(message)
        case RawRequest():
            return request_of(message)
        case RawReply():
            return reply_of(message)
        case _RawSubscribe() | _RawUnsubscribe() | _RawServe() | _RawUnserve():
            return _CHANGES[type(message)](_prefixes(message.prefixes, message.request), message.request)
        case Fetch():
            return _order(message, "msgpack", FETCH_BYTES, FETCH_LIMIT_BYTES)
        case _:
            return _verb(message)


_CHANGES: dict[type, Callable[[list[str], int], SubscriptionChange | ServiceChange]] = {
    Subscribe: partial(SubscriptionChange, True),
    Unsubscribe: partial(SubscriptionChange, False),
    Serve: partial(ServiceChange, True),
    Unserve: partial(ServiceChange, False),
    _RawSubscribe: partial(SubscriptionChange, True),
    _RawUnsubscribe: partial(SubscriptionChange, False),
    _RawServe: partial(ServiceChange, True),
    _RawUnserve: partial(ServiceChange, False),
}


def _verb(message: _Same) -> ClientMessage:
    """Return what looks the same in both encodings as the verbs take it."""
    match message:
        case SubscribeRules() | UnsubscribeRules():
            rules = [(rule.labels, rule.prefix, rule.sender) for rule in message.rules]
            return RuleChange(isinstance(message, SubscribeRules), rules, message.request)
        case Claim():
            return NameClaim(message.request, Wish(message.name, message.labels, message.queue))
        case Release():
            return NameRelease(message.request, message.name)
        case Hello() if len(message.name.encode()) > NAME_LIMIT_BYTES:
            raise RefusedError(CloseCode.BAD_DATA, f"hello: name is over {NAME_LIMIT_BYTES} bytes")
        case _:
            return message


def _order(fetch: Fetch, form: Form, usual_bytes: int, most_bytes: int) -> Order:
    """Return what is asked of the journal, with the form that its answer is to have."""
    size_bytes = min(usual_bytes if fetch.bytes is None else fetch.bytes, most_bytes)
    time_us = None if fetch.time_ms is None else min(round(fetch.time_ms * 1000), _END_OF_TIME_US)
    return Order(fetch.request, fetch.start, time_us, fetch.end, fetch.prefixes, size_bytes, fetch.wait_ms, form)


def _publication_of_msgpack(message: _RawPublish) -> Publication:
    value, values = bytes(message.value), bytes(message.values)
    if bool(value) == bool(values):
        raise RefusedError(CloseCode.BAD_DATA, _VALUE_OR_VALUES, message.request)
    if value:
        return _publication(message, value, 1, single=True)
    items, start = _array(values, "values", message.request)
    return _publication(message, values[start:], items, single=False)


_VALUE_OR_VALUES = "publish: expected `value` (one) or `values` (a list), one of the two"


def _publication(message: _JsonPublish | _RawPublish, packed: bytes, messages: int, *, single: bool) -> Publication:
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


def _prefixes(raw: msgspec.Raw, request: int) -> list[str]:
    packed = bytes(raw)
    items, _ = _array(packed, "prefixes", request)  # before the list is made of what may be millions
    if items > ITEMS_LIMIT:
        raise _too_many_prefixes(items, request)
    try:
        return _prefixes_of(packed)
    except msgspec.ValidationError as error:
        raise RefusedError(CloseCode.BAD_DATA, f"prefixes: {error}", request) from error
    except UnicodeDecodeError as error:
        raise _malformed("msgpack", error) from error


def _array(packed: bytes, field: str, request: int) -> tuple[int, int]:
    """Return how many items a msgpack array has, and where the first of them begins."""
    mark = packed[0]
    if mark & 0xF0 == 0x90:
        return mark & 0x0F, 1
    if mark == 0xDC:
        return int.from_bytes(packed[1:3], "big"), 3
    if mark == 0xDD:
        return int.from_bytes(packed[1:5], "big"), 5
    raise RefusedError(CloseCode.BAD_DATA, f"expected an array - at `$.{field}`", request)


def _too_many_prefixes(found: int, request: int) -> RefusedError:
    return RefusedError(CloseCode.TOO_BIG, _too_many("prefixes", found, ITEMS_LIMIT), request)


def _too_many(what: str, found: int, limit: int) -> str:
    return f"{found} {what} in one message, the limit is {limit}: send several smaller ones"


def _malformed(encoding: str, error: Exception) -> ProtocolError:
    reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
    return ProtocolError(CloseCode.BAD_DATA, f"not {encoding}: {reason}")


def _refused(reader: _EnvelopeReader, payload: bytes, code: int, text: str) -> RefusedError | ProtocolError:
    """Say what is wrong with a message, with the request that it bore; or that it is worse than it seemed."""
    if len(payload) > _READ_AGAIN_BYTES:
        return RefusedError(code, text)
    try:
        reader.check(payload)
        read = reader.decode(payload)
    except msgspec.ValidationError:
        return RefusedError(CloseCode.BAD_DATA, "a message is a map with a `type`")
    except _MALFORMED as error:
        return _malformed(reader.encoding, error)
    request = read.request if type(read.request) is int and read.request > 0 else 0
    if not isinstance(read.type, str):
        return RefusedError(CloseCode.BAD_DATA, "a message is a map with a `type`, which is text", request)
    if read.type not in _TYPES:
        expected = ", ".join(_TYPES)
        return RefusedError(CloseCode.BAD_DATA, f"unknown type {printable(read.type)}, expected {expected}", request)
    return RefusedError(code, f"{read.type}: {text}", request, about=read.type)


JSON = Codec(Opcode.TEXT, json_form, _decode_json, msgspec.json.Encoder().encode)
MSGPACK = Codec(Opcode.BINARY, msgpack_form, _decode_msgpack, msgspec.msgpack.Encoder().encode)
