"""`Order`: a FETCH, and the form of its answer. The reader process makes the form.

| form | body of the RECORDS frame |
|---|---|
| `frame` | see `peers.wire.records` |
| `json`, `msgpack` | a `records` message of `hub.v1.json` or `hub.v1.msgpack`, ready to be wrapped |
| `events` | `PLACE` and server-sent events (`peers.values.event_stream`) |

JSON takes 2.5 µs a record of 100 bytes in the reader's process; the others are copies.
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
from hub.journal.layout import Column, excerpt_of
from hub.messages.frame import Encoding
from hub.policy.grants import allows_by
from hub.policy.policy import Action, Rights, prefix_not_granted
from peers.journal.view import Fetched
from peers.values.conversion import json_of, json_of_broker
from peers.values.event_stream import recorded_events
from peers.wire.control import MALFORMED
from peers.wire.records import Fetch, Records, check_records, records_parts

Form = Literal["frame", "json", "msgpack", "events"]

PLACE = Struct(">QQQQ")  # offsets of this piece, of the next one and of the journal's end; the epoch
NARROWED_PATHS = 1_000  # most grants compared for a narrowed order: 0.5 ms, and a few µs for each topic
GRANTED_LIMIT = 64  # most policies that narrow one order: the reader's, and two for each link on the way
_PATH_CHARACTERS = 16 * 1024  # longest path of a grant
_Path = Annotated[str, msgspec.Meta(max_length=_PATH_CHARACTERS)]

Paths = Annotated[tuple[tuple[_Path, bool], ...], msgspec.Meta(max_length=NARROWED_PATHS)]
"""Paths of topics, and whether topics under them are allowed or denied."""


class Order(Fetch, frozen=True, omit_defaults=True):
    """A FETCH for a reader process; a FETCH from the wire is an order, too."""

    form: Form = "frame"
    granted: Annotated[tuple[Paths, ...], msgspec.Meta(max_length=GRANTED_LIMIT)] = ()
    """Policies that must all grant a topic; empty: everything may be read."""


def as_order(fetch: Fetch) -> Order:
    return fetch if isinstance(fetch, Order) else Order(**msgspec.structs.asdict(fetch))


def may_read(order: Fetch) -> Callable[[str], bool] | None:
    """Return the function that decides whether a topic may be read; None for all topics."""
    allowing = [allows_by(paths) for paths in order.granted] if isinstance(order, Order) else []
    if len(allowing) == 1:
        return allowing[0]
    return (lambda topic: all(allows(topic) for allows in allowing)) if allowing else None


_decode = msgspec.msgpack.Decoder(Order).decode
encode_order = _pack = msgspec.msgpack.Encoder().encode
_text = msgspec.json.Encoder().encode


def decode_order(body: bytes) -> Order:
    try:
        return _decode(body)
    except MALFORMED as error:
        raise RejectedError(CloseCode.BAD_DATA, f"FETCH: {error}") from error


def answers(order: Order, body: memoryview) -> bool:
    """Return whether bytes from another hub look like an answer to this order; the client checks the rest."""
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
    """Return the answer to an order in parts, to save a copy; raises `JournalCorruptError`."""
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
    """Convert records up to the limit: blocks are larger, so the answer may end within one."""
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
    """Return the FETCH, narrowed if needed, and if `narrows` allows it, to granted topics; raises `RejectedError`."""
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
        text = f"{action.value}: more than {NARROWED_PATHS} permissions to compare; read only permitted prefixes"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    order = as_order(fetch)
    if len(order.granted) >= GRANTED_LIMIT:
        text = f"{action.value}: {GRANTED_LIMIT} policies narrow this already, which is the limit"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    return msgspec.structs.replace(order, granted=(*order.granted, tuple(paths)))
