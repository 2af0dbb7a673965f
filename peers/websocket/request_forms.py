"""Requests and replies of the hub's own, becoming `request` and `reply` messages for one client.

Nobody else wants the same, so nothing is shared here. What has no form in JSON (`peers.conversion`), or is too large to
be given one, is told to the caller: each request has exactly one answer, so somebody must say why this one has none.

No state, no I/O. Cost: msgpack is not looked into; JSON is converted at once, one by one only where that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from hub.batch import value_ends
from hub.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH, KIND_MESSAGES, Frame
from hub.requests.lane import Item
from hub.requests.layout import FLAG_NAMED, TRANSACTIONS, Reply, Request
from peers.conversion import CONVERTED_LIMIT_BYTES, array_header, json_of, json_of_broker, msgpack_of_broker
from peers.wire.reasons import reason_of

__all__ = ["json_item", "msgpack_item", "singly"]

_SINGLY_LIMIT = 4096
"""Most values of one frame that are converted one by one when they cannot be at once: 3 µs each, 12 ms."""

_json = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode


def json_item(item: Item) -> bytes | None:
    """Return the message for `hub.v1.json`, None if a value has no form in it."""
    head = _head(item)
    if isinstance(item, Reply) and item.status:
        return _json(head)
    values = _converted(item, json_of, json_of_broker)
    if values is None:
        return None
    name = b'"values"' if item.flags & FLAG_BATCH else b'"value"'
    return b"%b,%b:%b}" % (_json(head)[:-1], name, values)


def msgpack_item(item: Item) -> bytes | None:
    """Return the message for `hub.v1.msgpack`, None if a value has no form in it."""
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
    """Cut a batch into its values; nothing if they cannot be told apart, or are too many for that."""
    if not item.flags & FLAG_BATCH or len(item.values) > CONVERTED_LIMIT_BYTES or item.requests > _SINGLY_LIMIT:
        return
    ends = value_ends(Frame(KIND_MESSAGES, FLAG_BATCH, b"", item.values))
    start, first = BATCH_COUNT.size, item.first
    for end in ends or ():
        value = item.values[start:end]
        yield item._replace(first=first, values=value, flags=item.flags & ~FLAG_BATCH)
        start, first = end, (first + 1) % TRANSACTIONS


def _head(item: Item) -> dict[str, Any]:
    """Return what stands before the values: fewer than 15 fields, so that one more fits behind."""
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
    """Return a value, or the list of several, in another form."""
    flags = item.flags & ~FLAG_NAMED if isinstance(item, Request) else item.flags
    if flags == FLAG_BATCH:
        return convert(array_header(item.requests) + item.values[BATCH_COUNT.size :])
    if flags == BROKER_FLAGS:
        return convert_broker(item.values)
    return None if flags else convert(item.values)


def _itself(values: bytes) -> bytes:
    return values
