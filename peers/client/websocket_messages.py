"""Messages of `hub.v1.msgpack` (docs/websocket.md), as a client reads and writes them.

Values are not taken apart on either way: a BATCH body is a count and values back to back, which behind one byte is a
msgpack array, and the other way round.

No state, no I/O. Not here: the WebSocket (`peers.client.websocket`).
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Literal

import msgspec

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, ProtocolError
from hub.frame import (
    BATCH_COUNT,
    BATCH_LIMIT_MESSAGES,
    FLAG_BATCH,
    FLAG_TAGGED,
    HEADER,
    KIND_MESSAGES,
    Frame,
    encode_frame,
)
from hub.request_frame import FLAG_NAMED, TRANSACTIONS, Reply, Request, Status
from hub.tags.envelope import Envelope, key_of
from hub.tags.rules import Rule
from hub.topics import TOPIC_LIMIT_BYTES
from peers.client.conversation import Introduction
from peers.wire.hello import FRAME_LIMIT_BYTES, ID_BYTES, PROTOCOL, Hello, QueueWish
from peers.wire.reasons import reason_of
from peers.wire.records import Fetch, Records

__all__ = [
    "ENVELOPE_BYTES",
    "HubMessage",
    "encode",
    "of_fetch",
    "of_hello",
    "of_publication",
    "of_reply",
    "of_request",
    "of_rules",
    "to_frame",
    "to_hello",
    "to_message",
    "to_records",
    "to_reply",
    "to_request",
]

ENVELOPE_BYTES = 2048
"""More than a topic (1024) and the names of the fields take: so much smaller than a WebSocket message is its body."""

_ARRAY_16 = Struct(">H")


class HubMessage(msgspec.Struct):
    """Any message of a hub; what a type does not have stays empty."""

    type: str
    topic: str = ""
    labels: tuple[str, ...] = ()
    sender: str = ""
    to: str = ""
    service: str = ""
    value: msgspec.Raw = msgspec.Raw(b"")
    values: msgspec.Raw = msgspec.Raw(b"")
    request: int = 0
    count: int = 0
    status: int = 0
    timeout_ms: int = 0
    code: int = 0
    text: str = ""
    about: str = ""
    hub: str = ""
    name: str = ""
    standing: Literal["", "owned", "queued", "lost"] = ""
    software: str = ""
    queue: QueueWish | None = None
    frame: int = FRAME_LIMIT_BYTES
    journal: str = ""
    offset: int | None = None
    until: float | None = None
    start: int = 0
    next: int = 0
    first: int = 0
    head: int = 0
    epoch: int = 0
    blocks: list[bytes] = []


_decode = msgspec.msgpack.Decoder(HubMessage).decode
_encode = msgspec.msgpack.Encoder().encode


_TYPE, _REQUEST, _TOPIC, _VALUE = _encode("type"), _encode("request"), _encode("topic"), _encode("value")
_VALUES_ARRAY_32 = _encode("values") + b"\xdd"
_PUBLISH = b"\x83" + _TYPE + _encode("publish") + _TOPIC
_PUBLISH_CONFIRM = b"\x85" + _TYPE + _encode("publish") + _encode("confirm") + _encode(True) + _REQUEST
_ASK = b"\x85" + _TYPE + _encode("request") + _REQUEST
_ANSWER = b"\x83" + _TYPE + _encode("reply") + _REQUEST


def encode(message: dict[str, Any]) -> bytes:
    """Return a message."""
    return _encode(message)


def of_publication(frame: Frame, request: int) -> bytes:
    """Return `publish` for a MESSAGES frame; with a request, one that is to be confirmed."""
    values = _packed_values(frame.flags, frame.body)
    if frame.flags & FLAG_TAGGED:
        return b"".join((_publication_head(Envelope.decode(frame.key), request), *values))
    topic = _encode(frame.key.decode())
    if not request:
        return b"".join((_PUBLISH, topic, *values))
    return b"".join((_PUBLISH_CONFIRM, _encode(request), _TOPIC, topic, *values))


def _publication_head(envelope: Envelope, request: int) -> bytes:
    """Return the map of a `publish` with labels or names, up to its values, which are the last field."""
    topic, labels, sender, destination = envelope
    fields: dict[str, Any] = {"type": "publish", "topic": topic}
    fields |= {"labels": labels, "sender": sender, "to": destination}
    if request:
        fields |= {"confirm": True, "request": request}
    packed = _encode(fields)
    return bytes((packed[0] + 1,)) + packed[1:]  # one field more, which follows


def of_rules(kind: str, rules: list[Rule], request: int) -> bytes:
    """Return `rule` or `unrule`."""
    return _encode({"type": kind, "rules": [rule._asdict() for rule in rules], "request": request})


def of_fetch(fetch: Fetch) -> bytes:
    """Return `fetch`."""
    message: dict[str, Any] = {
        "type": "fetch",
        "request": fetch.request,
        "prefixes": fetch.prefixes,
        "bytes": fetch.bytes,
        "wait_ms": fetch.wait_ms,
    }
    message |= {"start": fetch.start} if fetch.time is None else {"time_ms": fetch.time / 1000}
    if fetch.end is not None:
        message["end"] = fetch.end
    if fetch.hub:
        message["hub"] = fetch.hub
    if fetch.journal is not None:
        message["journal"] = fetch.journal.hex()
    if fetch.columns is not None:
        message["columns"] = fetch.columns
    if fetch.epoch:
        message["epoch"] = fetch.epoch
    return _encode(message)


def of_request(request: Request) -> bytes:
    """Return `request`."""
    field = _encode("service") if request.flags & FLAG_NAMED else _TOPIC
    head = (_ASK, _encode(request.first), _encode("timeout_ms"), _encode(request.timeout_ms))
    return b"".join((*head, field, _encode(request.target.decode()), *_packed_values(request.flags, request.values)))


def of_reply(reply: Reply) -> bytes:
    """Return `reply`."""
    if reply.status:
        message = {"type": "reply", "request": reply.first, "status": int(reply.status), "count": reply.requests}
        return _encode(message | {"text": reason_of(reply)})
    return b"".join((_ANSWER, _encode(reply.first), *_packed_values(reply.flags, reply.values)))


def of_hello(introduction: Introduction) -> bytes:
    """Return `hello`."""
    hello: dict[str, Any] = {"type": "hello", "name": introduction.name}
    if introduction.queue is not None:
        hello["queue"] = introduction.queue
    if introduction.token:
        hello["token"] = introduction.token
    if introduction.narrow:
        hello["narrow"] = True
    return _encode(hello)


def to_message(raw: bytes) -> HubMessage:
    """Read a message.

    Raises:
        ProtocolError: It is none.
    """
    try:
        return _decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ProtocolError(CloseCode.BAD_DATA, f"a message of the hub: {error}") from error


def to_hello(message: HubMessage) -> Hello:
    """Read `welcome`.

    Raises:
        ProtocolError: It makes no sense.
    """
    try:
        hub_id, journal_id = bytes.fromhex(message.hub), bytes.fromhex(message.journal)
    except ValueError:
        hub_id = journal_id = b""
    if len(hub_id) != ID_BYTES or message.frame <= 2 * ENVELOPE_BYTES:
        raise ProtocolError(CloseCode.BAD_DATA, "welcome: the hub's id or its frame limit makes no sense")
    return Hello(
        protocol=PROTOCOL,
        role="hub",
        id=hub_id,
        name=message.name,
        software=message.software,
        queue=message.queue,
        frame=message.frame - ENVELOPE_BYTES,
        journal=journal_id,
        until=message.until,
    )


def to_frame(message: HubMessage) -> tuple[bytes, bytes, int]:
    """Return routing key, MESSAGES frame and number of values.

    Raises:
        ProtocolError: `values` is no array, or empty; the topic is longer than any.
    """
    count, values = _batch(bytes(message.values))
    key = message.topic.encode()
    if not count or len(key) > TOPIC_LIMIT_BYTES:
        raise ProtocolError(CloseCode.BAD_DATA, "messages: no values, or a topic that is too long")
    flags = FLAG_BATCH
    if message.labels or message.sender or message.to:
        key, flags = _key(message), FLAG_BATCH | FLAG_TAGGED
    frame = encode_frame(KIND_MESSAGES, values, key=key, flags=flags)
    return frame[4 : HEADER.size + len(key)], frame, count


def _key(message: HubMessage) -> bytes:
    try:
        return key_of(message.topic, message.labels, message.sender, message.to)[0]
    except (InvalidTopicError, InvalidNameError) as error:
        raise ProtocolError(CloseCode.BAD_DATA, f"messages: {error}") from error


def _batch(array: bytes) -> tuple[int, bytes]:
    """Return how many items a msgpack array has, and the same as the body of a BATCH; 0 if it is none."""
    first = array[0] if array else 0
    if first & 0xF0 == 0x90:
        count, start = first & 0x0F, 1
    elif first == 0xDC:
        count, start = _ARRAY_16.unpack_from(array, 1)[0], 3
    elif first == 0xDD:
        count, start = BATCH_COUNT.unpack_from(array, 1)[0], 5
    else:
        count = start = 0
    return count, BATCH_COUNT.pack(count) + array[start:]


def _packed_values(flags: int, values: bytes) -> tuple[bytes, bytes]:
    """Return the field of a message, and what stands in it."""
    return (_VALUES_ARRAY_32 if flags & FLAG_BATCH else _VALUE), values


def _values(message: HubMessage) -> tuple[int, bytes]:
    """Return flags and values of a `request` or `reply`.

    Raises:
        ProtocolError: It has neither `value` nor `values`, or a number that makes no sense.
    """
    if not 0 <= message.request < TRANSACTIONS:
        raise ProtocolError(CloseCode.BAD_DATA, f"{message.type}: request {message.request}")
    value = bytes(message.value)
    if value:
        return 0, value
    count, values = _batch(bytes(message.values))
    if not count:
        raise ProtocolError(CloseCode.BAD_DATA, f"{message.type}: no values")
    return FLAG_BATCH, values


def to_records(message: HubMessage) -> Records:
    """Read `records`.

    Raises:
        ProtocolError: `journal` is no id.
    """
    try:
        journal = bytes.fromhex(message.journal)
    except ValueError as error:
        raise ProtocolError(CloseCode.BAD_DATA, f"records: journal {message.journal[:40]!r}") from error
    first = message.first
    head, blocks = message.head, message.blocks
    return Records(message.request, message.start, message.next, first, head, blocks, journal, message.epoch)


def to_request(message: HubMessage) -> Request:
    """Read `request`; raises as `to_frame`."""
    flags, values = _values(message)
    target = message.service or message.topic
    named = FLAG_NAMED if message.service else 0
    return Request(target.encode(), message.request, message.timeout_ms, values, flags | named)


def _failed(message: HubMessage) -> Reply:
    reason = _encode(message.text)
    if message.count == 1:
        return Reply(message.request, message.status, reason)
    return Reply(message.request, message.status, BATCH_COUNT.pack(message.count) + reason, FLAG_BATCH)


def to_reply(message: HubMessage) -> Reply:
    """Read `reply`; raises as `to_frame`."""
    if message.status:
        if not 0 < message.count <= BATCH_LIMIT_MESSAGES:
            raise ProtocolError(CloseCode.BAD_DATA, f"reply: to {message.count} requests")
        return _failed(message)
    flags, values = _values(message)
    return Reply(message.request, Status.OK, values, flags)
