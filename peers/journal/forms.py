"""`Order`: a FETCH, and the form that its answer is to have. The forms are made where the journal is read.

| form | body of the RECORDS frame that the reader process answers with |
|---|---|
| `frame` | as `peers.wire.records` draws it |
| `json` | a `records` message of `hub.v1.json`, ready to be wrapped |
| `msgpack` | a `records` message of `hub.v1.msgpack`, ready to be wrapped; blocks as in a frame |
| `events` | `PLACE`, 32 bytes, and server-sent events as `peers.values.event_stream` makes them |

JSON takes 2.5 µs a record of 100 bytes, in the reader's process; the others are copies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from struct import Struct
from typing import Annotated, Literal

import msgspec

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.journal.block import Block, Record
from hub.journal.excerpt import excerpt_of
from hub.journal.layout import Column
from hub.messages.frame import Encoding
from hub.policy.grants import allows_by
from hub.policy.policy import Action, Rights
from hub.policy.refusal import prefix_not_granted
from peers.journal.view import Fetched
from peers.values.conversion import json_of, json_of_broker
from peers.values.event_stream import recorded_events
from peers.wire.reasons import MALFORMED
from peers.wire.records import Fetch, Records, check_records, records_parts

Form = Literal["frame", "json", "msgpack", "events"]

PLACE = Struct(">QQQQ")
"""In front of server-sent events: the offset at which the piece begins, the one at which the next piece begins, the one
behind all that is committed, and the epoch."""

NARROWED_PATHS = 1_000
"""Most places in a policy that are looked at for an order that is narrowed: 0.5 ms, and a few µs for each topic."""

GRANTED_LIMIT = 64
"""Most of those who must grant the topics of one order: the reader, and two for each link on the way."""

_PATH_CHARACTERS = 16 * 1024
"""Longest path: no topic is as long, and each of its components takes memory where the journal is read."""

_Path = Annotated[str, msgspec.Meta(max_length=_PATH_CHARACTERS)]

Paths = Annotated[tuple[tuple[_Path, bool], ...], msgspec.Meta(max_length=NARROWED_PATHS)]
"""Paths of topics, and whether what stands beneath is allowed or denied."""


class Order(Fetch, frozen=True, omit_defaults=True):
    """What a reader process is to do. A FETCH as it came from the wire is an order, too."""

    form: Form = "frame"
    granted: Annotated[tuple[Paths, ...], msgspec.Meta(max_length=GRANTED_LIMIT)] = ()
    """Who all must grant a topic: the reader, and each link on the way. Without any, everything may be read."""


def as_order(fetch: Fetch) -> Order:
    return fetch if isinstance(fetch, Order) else Order(**msgspec.structs.asdict(fetch))


def may_read(order: Fetch) -> Callable[[str], bool] | None:
    """Return what says whether a topic may be read: where all grant it; None for everything."""
    allowing = [allows_by(paths) for paths in order.granted] if isinstance(order, Order) else []
    if len(allowing) == 1:
        return allowing[0]
    return (lambda topic: all(allows(topic) for allows in allowing)) if allowing else None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Order).decode
_pack = msgspec.msgpack.Encoder().encode
_text = msgspec.json.Encoder().encode


def decode_order(body: bytes) -> Order:
    """Read an order; raises `RejectedError`."""
    try:
        return _decode(body)
    except MALFORMED as error:
        raise RejectedError(CloseCode.BAD_DATA, f"FETCH: {error}") from error


def encode_order(order: Order) -> bytes:
    return _encode(order)


def answers(order: Order, body: memoryview) -> bool:
    """Return whether bytes that another hub has sent are an answer to this order, as far as that can be told quickly.

    The reader will find out the rest.
    """
    match order.form:
        case "json":
            opening = _text({"type": "records", "request": order.request, "start": 0})[:-2]
            return body[: len(opening)] == opening
        case "msgpack":  # behind the first byte, which says how many fields there are
            opening = _pack({"type": "records", "request": order.request, "start": 0})[1:-1]
            return body[1 : 1 + len(opening)] == opening
        case "events":
            return len(body) >= PLACE.size
        case "frame":
            try:
                check_records(body, order.request)
            except ProtocolError:
                return False
            return True


def body_parts(order: Order, found: Fetched) -> list[bytes]:
    """Return what answers an order, in parts that need not be copied together; raises `JournalCorruptError`."""
    match order.form:
        case "frame":
            first, head = found.extent
            told, blocks = order.journal or b"", _wanted_blocks(order, found)
            return records_parts(
                Records(order.request, found.start, found.next, first, head, blocks, told, order.epoch)
            )
        case "msgpack":
            return [_pack(_heading(order, found) | {"blocks": _wanted_blocks(order, found)})]
        case "json":
            return _json_parts(order, found)
        case "events":
            texts, left_out = recorded_events(found.blocks, order.bytes, order.epoch)
            following = found.next if left_out is None else left_out
            return [PLACE.pack(found.start, following, found.extent.next, order.epoch), b"".join(texts)]


def _wanted_blocks(order: Order, found: Fetched) -> list[bytes]:
    columns = order.columns
    return found.blocks if columns is None else [excerpt_of(block, columns) for block in found.blocks]


def _heading(order: Order, found: Fetched) -> dict[str, object]:
    first, head = found.extent
    heading: dict[str, object] = {
        "type": "records",
        "request": order.request,
        "start": found.start,
        "next": found.next,
        "first": first,
        "head": head,
        "epoch": order.epoch,
    }
    if order.journal is not None:
        heading["journal"] = order.journal.hex()
    return heading


def _json_parts(order: Order, found: Fetched) -> list[bytes]:
    """Convert records up to the limit; blocks are larger, so that the answer may end within one."""
    texts: list[bytes] = []
    dropped = 0
    left_bytes = order.bytes
    following = found.next
    columns = order.columns
    has_value = columns is None or "value" in columns
    text_of = _json_record if columns is None else partial(_json_columns, columns)
    # The blocks were checked when they were read.
    for record in chain.from_iterable(Block.parse(data, verify=False).records() for data in found.blocks):
        if left_bytes <= 0:
            following = record.offset
            break
        left_bytes -= len(record.body)
        value = _json_value(record) if has_value else b""
        if value is None:
            dropped += 1
        else:
            texts.append(text_of(record, value))
    heading = _heading(order, found._replace(next=following)) | ({"dropped": dropped} if dropped else {})
    return [_text(heading)[:-1], b',"records":[', b",".join(texts), b"]}"]


def _json_value(record: Record) -> bytes | None:
    if record.encoding == Encoding.MSGPACK:
        return json_of(record.body)
    return json_of_broker(record.body) if record.encoding == Encoding.BROKER else None


def _json_record(record: Record, value: bytes) -> bytes:
    time_ms = divmod(record.time_us, 1000)
    text = b'{"offset":%d,"time_ms":%d.%03d,"topic":%b,"value":%b}'
    return text % (record.offset, *time_ms, _text(record.topic), value)


def _json_columns(columns: tuple[Column, ...], record: Record, value: bytes) -> bytes:
    fields: dict[Column, bytes] = {
        "offset": b'"offset":%d' % record.offset,
        "time": b'"time_ms":%d.%03d' % divmod(record.time_us, 1000),
        "topic": b'"topic":%b' % _text(record.topic),
        "value": b'"value":%b' % value,
    }
    return b"{%b}" % b",".join(text for column, text in fields.items() if column in columns)


def granted(fetch: Fetch, rights: Rights | None, action: Action, *, narrows: bool) -> Fetch:
    """Return what is read for a FETCH.

    Args:
        fetch: What is asked for, perhaps narrowed by others already.
        rights: Of the reader, or a link on the way; None: all is granted.
        action: What they must grant.
        narrows: Whether the part of it is read that is granted.

    Raises:
        RejectedError: Not all of it is granted, and no less was asked for.
    """
    if rights is None:
        return fetch
    if not fetch.bytes and rights.may_any(action):
        return fetch  # it reads nothing, and asks how far the journal reaches
    refused = next((prefix for prefix in fetch.prefixes if not rights.may_all(action, prefix)), None)
    if refused is None:
        return fetch
    if not narrows or not rights.may_any(action):
        raise prefix_not_granted(rights, action, refused)
    paths = rights.paths(action, NARROWED_PATHS)
    if paths is None:
        text = f"{action.value}: more than {NARROWED_PATHS} grants would have to be compared; ask for what is granted"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    order = as_order(fetch)
    if len(order.granted) >= GRANTED_LIMIT:
        text = f"{action.value}: {GRANTED_LIMIT} policies narrow this already, which is the limit"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    return msgspec.structs.replace(order, granted=(*order.granted, tuple(paths)))
