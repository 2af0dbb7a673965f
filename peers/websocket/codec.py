"""The two encodings of the client's protocol, `hub.v1.json` and `hub.v1.msgpack`.

A message of a client becomes one of `ClientMessage`, or an error:

* `ProtocolError`: not JSON, not msgpack, not UTF-8, nested too deep. The connection ends with 1007.
* `RefusedError`: an unknown type, a missing or wrong field, too many items. It is answered by an `error` with the same
request, and the connection goes on.

msgspec passes over a message once, and a second time only to name the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Generic, NamedTuple

import msgspec
from websockets.frames import Opcode

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.messages.batch import Batch, value_ends
from hub.messages.frame import (
    BATCH_COUNT,
    BATCH_LIMIT_MESSAGES,
    BROKER_FLAGS,
    FLAG_BATCH,
    KEY_LIMIT_BYTES,
    KIND_MESSAGES,
    Frame,
)
from hub.messages.request_frame import FLAG_NAMED, TRANSACTIONS, Item, Reply, Request, Status
from hub.names.claim import Wish
from hub.topics import printable
from peers.journal.forms import Form, Order
from peers.values.conversion import (
    CONVERTED_LIMIT_BYTES,
    NESTING_LIMIT,
    PARTS_LIMIT,
    is_nested_too_deep,
    is_packed_too_deep,
    json_of,
    json_of_broker,
    msgpack_of_broker,
    possible_containers,
    possible_parts,
    without_collecting,
)
from peers.values.forms import Form as BatchForm
from peers.values.msgpack import array_header
from peers.websocket.batches import (
    ITEMS_LIMIT,
    One,
    Publish,
    Several,
    array_head,
    json_form,
    msgpack_form,
    publication_of,
    values_of,
)
from peers.websocket.messages import (
    Claim,
    ClientMessage,
    Fetch,
    Hello,
    HubMessage,
    Ping,
    Prefixes,
    RefusedError,
    Release,
    Serve,
    Subscribe,
    SubscribeRules,
    Token,
    Unserve,
    Unsubscribe,
    UnsubscribeRules,
)
from peers.wire.control import MALFORMED, NameClaim, NameRelease, Renewal, RuleChange, check_token, reason_of
from peers.wire.events import ServiceChange, SubscriptionChange
from peers.wire.hello import NAME_LIMIT_BYTES
from peers.wire.records import END_OF_TIME_US, FETCH_BYTES

# Turning the messages `request` and `reply` of WebSocket clients into the hub's own `Request` and `Reply`.


_Transaction = Annotated[int, msgspec.Meta(ge=0, lt=TRANSACTIONS)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=BATCH_LIMIT_MESSAGES)]
_Status = Annotated[int, msgspec.Meta(ge=0, le=255)]


class _Request(msgspec.Struct, Generic[One, Several], frozen=True, tag="request"):
    request: _Transaction
    topic: str = ""
    service: str = ""
    timeout_ms: _Transaction = 0
    value: One | msgspec.UnsetType = msgspec.UNSET
    values: Several | msgspec.UnsetType = msgspec.UNSET


class _Reply(msgspec.Struct, Generic[One, Several], frozen=True, tag="reply"):
    request: _Transaction
    value: One | msgspec.UnsetType = msgspec.UNSET
    values: Several | msgspec.UnsetType = msgspec.UNSET
    status: _Status = 0
    text: str = ""
    count: _Count = 1


_pack = msgspec.msgpack.Encoder().encode


def request_of(message: _Request[Any, Any]) -> Request:
    """Return the hub's own request for a `request`.

    Raises:
        RefusedError: The message has no value or no target, or too many of them.
    """
    flags, values = _body_of(message, "request")
    target = (message.service or message.topic).encode()
    if bool(message.service) == bool(message.topic) or len(target) > KEY_LIMIT_BYTES:
        text = "request: expected `topic` or `service`, one of the two"
        raise RefusedError(CloseCode.BAD_DATA, text, message.request, about="request")
    named = FLAG_NAMED if message.service else 0
    return Request(target, message.request, message.timeout_ms, values, flags | named)


def reply_of(message: _Reply[Any, Any]) -> Reply:
    first = message.request
    if message.status == Status.OK:
        flags, values = _body_of(message, "reply")
        return Reply(first, Status.OK, values, flags)
    reason = _pack(message.text)
    if message.count == 1:
        return Reply(first, message.status, reason)
    return Reply(first, message.status, BATCH_COUNT.pack(message.count) + reason, FLAG_BATCH)


def _body_of(message: _Request[Any, Any] | _Reply[Any, Any], kind: str) -> tuple[int, bytes]:
    single, packed, count = values_of(message, kind)
    return (0, packed) if single else (FLAG_BATCH, BATCH_COUNT.pack(count) + packed)


_SINGLY_LIMIT = 4096  # most values of a frame that are converted one by one when they cannot be at once: 3 µs each

_json = msgspec.json.Encoder().encode


def json_item(item: Item) -> bytes | None:
    """Return a request or reply as a message of `hub.v1.json`, None if a value has no form."""
    head = _head(item)
    if isinstance(item, Reply) and item.status:
        return _json(head)
    values = _converted(item, json_of, json_of_broker)
    if values is None:
        return None
    name = b'"values"' if item.flags & FLAG_BATCH else b'"value"'
    return b"%b,%b:%b}" % (_json(head)[:-1], name, values)


def msgpack_item(item: Item) -> bytes | None:
    """Return a request or reply as a message of `hub.v1.msgpack`, None if a value has no form."""
    head = _head(item)
    if isinstance(item, Reply) and item.status:
        return _pack(head)
    values = _converted(item, _itself, msgpack_of_broker)
    if values is None:
        return None
    packed = _pack(head)
    name = _pack("values") if item.flags & FLAG_BATCH else _pack("value")
    return b"%c%b%b%b" % (packed[0] + 1, packed[1:], name, values)  # a map with one entry more


def singly(item: Item) -> Iterator[Item]:
    """Cut a batch into its values; into none if they cannot be separated, or if there are too many."""
    if not item.flags & FLAG_BATCH or len(item.values) > CONVERTED_LIMIT_BYTES or item.requests > _SINGLY_LIMIT:
        return
    ends = value_ends(Frame(KIND_MESSAGES, FLAG_BATCH, b"", item.values))
    start, first = BATCH_COUNT.size, item.first
    for end in ends or ():
        value = item.values[start:end]
        yield item._replace(first=first, values=value, flags=item.flags & ~FLAG_BATCH)
        start, first = end, (first + 1) % TRANSACTIONS


def _head(item: Item) -> dict[str, Any]:
    """Return the fields before the values: fewer than 15, so that one more fits behind."""
    if isinstance(item, Request):
        target = "service" if item.flags & FLAG_NAMED else "topic"
        where = item.target.decode("utf-8", "replace")
        return {"type": "request", "request": item.first, target: where, "timeout_ms": item.timeout_ms}
    if not item.status:
        return {"type": "reply", "request": item.first}
    reason = {"status": int(item.status), "text": reason_of(item), "count": item.requests}
    return {"type": "reply", "request": item.first} | reason


def _converted(
    item: Item, convert: Callable[[bytes], bytes | None], convert_broker: Callable[[bytes], bytes | None]
) -> bytes | None:
    flags = item.flags & ~FLAG_NAMED if isinstance(item, Request) else item.flags
    if flags == FLAG_BATCH:
        return convert(array_header(item.requests) + item.values[BATCH_COUNT.size :])
    if flags == BROKER_FLAGS:
        return convert_broker(item.values)
    return None if flags else convert(item.values)


def _itself(values: bytes) -> bytes:
    return values


# The error of a message that a codec does not take, with its request number.


_READ_AGAIN_BYTES = 4 * 1024 * 1024  # largest bad message that is searched for its request number: 5 ms a MiB


class _Envelope(msgspec.Struct):
    """The fields that are read of a rejected message."""

    type: Any = None
    request: Any = 0


class EnvelopeReader(NamedTuple):
    """Reads the fields that every message has, in one encoding."""

    encoding: str
    decode: Callable[[bytes], _Envelope]
    check: Callable[[bytes], object]  # passes over any one value


_TYPES = (
    "hello, subscribe, unsubscribe, publish, ping, fetch, request, reply, serve, unserve, claim, release, rule, "
    "unrule, token"
)

JSON_ENVELOPE = EnvelopeReader("JSON", msgspec.json.Decoder(_Envelope).decode, msgspec.json.Decoder(msgspec.Raw).decode)
MSGPACK_ENVELOPE = EnvelopeReader(
    "msgpack", msgspec.msgpack.Decoder(_Envelope).decode, msgspec.msgpack.Decoder(msgspec.Raw).decode
)


def too_many(what: str, found: int, limit: int) -> str:
    return f"{found} {what} in one message, the limit is {limit}: send several smaller ones"


def malformed(encoding: str, error: Exception) -> ProtocolError:
    reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
    return ProtocolError(CloseCode.BAD_DATA, f"not {encoding}: {reason}")


def refused(reader: EnvelopeReader, payload: bytes, code: int, text: str) -> RefusedError | ProtocolError:
    """Return the error for a message, with its request number."""
    if len(payload) > _READ_AGAIN_BYTES:
        return RefusedError(code, text)
    try:
        reader.check(payload)
        read = reader.decode(payload)
    except msgspec.ValidationError:
        return RefusedError(CloseCode.BAD_DATA, "a message is a map with a `type`")
    except MALFORMED as error:
        return malformed(reader.encoding, error)
    request = read.request if type(read.request) is int and read.request > 0 else 0
    if not isinstance(read.type, str):
        return RefusedError(CloseCode.BAD_DATA, "a message is a map with a `type`, which is text", request)
    if read.type not in _TYPES.split(", "):
        return RefusedError(CloseCode.BAD_DATA, f"unknown type {printable(read.type)}, expected {_TYPES}", request)
    return RefusedError(code, f"{read.type}: {text}", request, about=read.type)


# The codecs.


FETCH_LIMIT_BYTES = 4 * 1024 * 1024  # most of one `fetch` under `hub.v1.msgpack`; more is taken for this
JSON_BYTES = 64 * 1024  # default of the values in one answer under `hub.v1.json`: 2 ms of work for the reader
JSON_LIMIT_BYTES = 1024 * 1024  # most bytes of values in such an answer

_CONTAINERS_LIMIT = 4 * 1024 * 1024  # most bytes that may begin an array or map: 7 ns each, 28 ms

_TOO_DEEP = f"nested too deep: more than {NESTING_LIMIT} arrays and maps in each other"


@dataclass(frozen=True, slots=True)
class Codec:
    """The codec of one subprotocol.

    Attributes:
        opcode: Kind of its WebSocket messages, both ways.
        form: Gives a batch its ready frames, for `Batch.form`.
        decode: Reads a message of a client; raises `ProtocolError` or `RefusedError`.
        encode: Writes an answer of the hub.
    """

    opcode: Opcode
    form: Callable[[Batch], BatchForm]
    decode: Callable[[bytes], ClientMessage]
    encode: Callable[[HubMessage], bytes]


_Same = Hello | Token | Ping | Claim | Release | SubscribeRules | UnsubscribeRules
_Change = Subscribe[Prefixes] | Unsubscribe[Prefixes] | Serve[Prefixes] | Unserve[Prefixes]
_WithValues = Publish[One, Several] | _Request[One, Several] | _Reply[One, Several]
_JsonMessage = _Same | Fetch | _Change[list[str]] | _WithValues[Any, list[Any]]
_RawMessage = _Same | Fetch | _Change[msgspec.Raw] | _WithValues[msgspec.Raw, msgspec.Raw]

_from_json = msgspec.json.Decoder(_JsonMessage).decode
_from_msgpack = msgspec.msgpack.Decoder(_RawMessage).decode
_prefixes_of = msgspec.msgpack.Decoder(list[str]).decode


def _decode_json(payload: bytes) -> ClientMessage:
    if not payload.isascii():
        _check_utf8(payload)  # msgspec does not look into strings that it passes over
    if len(payload) <= PARTS_LIMIT:
        return _decode_text(payload)
    parts = possible_parts(payload)
    if parts > PARTS_LIMIT:
        text = too_many("arrays, maps and items", parts, PARTS_LIMIT)
        raise refused(JSON_ENVELOPE, payload, CloseCode.TOO_BIG, text)
    return without_collecting(_decode_text, payload)


def _check_utf8(payload: bytes) -> None:
    try:
        payload.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(CloseCode.BAD_DATA, f"not UTF-8 at byte {error.start}") from error


def _decode_text(payload: bytes) -> ClientMessage:
    if is_nested_too_deep(payload):
        raise ProtocolError(CloseCode.BAD_DATA, _TOO_DEEP)
    return _read(_from_json, JSON_ENVELOPE, payload, "json")


def _decode_msgpack(payload: bytes) -> ClientMessage:
    if len(payload) > _CONTAINERS_LIMIT and (found := possible_containers(payload)) > _CONTAINERS_LIMIT:
        text = too_many("bytes that may begin an array or map", found, _CONTAINERS_LIMIT)
        raise refused(MSGPACK_ENVELOPE, payload, CloseCode.TOO_BIG, text)
    if is_packed_too_deep(payload):
        raise ProtocolError(CloseCode.BAD_DATA, _TOO_DEEP)
    return _read(_from_msgpack, MSGPACK_ENVELOPE, payload, "msgpack")


_CHANGES: dict[type, Callable[[list[str], int], SubscriptionChange | ServiceChange]] = {
    Subscribe: partial(SubscriptionChange, True),
    Unsubscribe: partial(SubscriptionChange, False),
    Serve: partial(ServiceChange, True),
    Unserve: partial(ServiceChange, False),
}


def _read(
    decode: Callable[[bytes], _JsonMessage | _RawMessage], reader: EnvelopeReader, payload: bytes, form: Form
) -> ClientMessage:
    try:
        message = decode(payload)
    except msgspec.ValidationError as error:
        raise refused(reader, payload, CloseCode.BAD_DATA, str(error)) from error
    except MALFORMED as error:
        raise malformed(reader.encoding, error) from error
    match message:
        case Publish():
            return publication_of(message)
        case _Request():
            return request_of(message)
        case _Reply():
            return reply_of(message)
        case Subscribe() | Unsubscribe() | Serve() | Unserve():
            return _CHANGES[type(message)](_prefixes(message.prefixes, message.request), message.request)
        case Fetch():
            return _order(message, form)
        case _:
            return _verb(message)


def _verb(message: _Same) -> ClientMessage:
    match message:
        case SubscribeRules() | UnsubscribeRules():
            rules = [(rule.labels, rule.prefix, rule.sender) for rule in message.rules]
            return RuleChange(isinstance(message, SubscribeRules), rules, message.request)
        case Claim():
            return NameClaim(message.request, Wish(message.name, message.labels, message.queue))
        case Release():
            return NameRelease(message.request, message.name)
        case Token():
            return Renewal(message.request, _checked_token(message.token, message.request))
        case Hello() if len(message.name.encode()) > NAME_LIMIT_BYTES:
            raise RefusedError(CloseCode.BAD_DATA, f"hello: name is over {NAME_LIMIT_BYTES} bytes")
        case Hello():
            _checked_token(message.token)
            return message
        case _:
            return message


def _checked_token(token: str, request: int = 0) -> str:
    try:
        return check_token(token)
    except RejectedError as error:
        raise RefusedError(error.code, error.text, request) from error


def _order(fetch: Fetch, form: Form) -> Order:
    usual_bytes, most_bytes = (JSON_BYTES, JSON_LIMIT_BYTES) if form == "json" else (FETCH_BYTES, FETCH_LIMIT_BYTES)
    size_bytes = min(usual_bytes if fetch.bytes is None else fetch.bytes, most_bytes)
    time_us = None if fetch.time_ms is None else min(round(fetch.time_ms * 1000), END_OF_TIME_US)
    return Order(
        fetch.request,
        fetch.start,
        time_us,
        fetch.end,
        fetch.prefixes,
        size_bytes,
        fetch.wait_ms,
        hub=fetch.hub,
        journal=None if fetch.journal is None else bytes.fromhex(fetch.journal),
        columns=fetch.columns,
        epoch=fetch.epoch,
        form=form,
    )


def _prefixes(prefixes: list[str] | msgspec.Raw, request: int) -> list[str]:
    raw = bytes(prefixes) if isinstance(prefixes, msgspec.Raw) else b""
    items = array_head(raw, "prefixes", request)[0] if raw else len(prefixes)  # before the list is made of millions
    if items > ITEMS_LIMIT:
        raise RefusedError(CloseCode.TOO_BIG, too_many("prefixes", items, ITEMS_LIMIT), request)
    try:
        return _prefixes_of(prefixes) if isinstance(prefixes, msgspec.Raw) else prefixes
    except msgspec.ValidationError as error:
        raise RefusedError(CloseCode.BAD_DATA, f"prefixes: {error}", request) from error
    except UnicodeDecodeError as error:
        raise malformed("msgpack", error) from error


JSON = Codec(Opcode.TEXT, json_form, _decode_json, msgspec.json.Encoder().encode)
MSGPACK = Codec(Opcode.BINARY, msgpack_form, _decode_msgpack, msgspec.msgpack.Encoder().encode)
