"""`Poster`: requests and replies of the hub's own, as `request` and `reply` messages to one WebSocket client.

```
core.requests ─ Handler.post ─▶ post ─ json_item, msgpack_item ─▶ messages, one write
```

Each request and reply is for one client alone, so nothing is shared here. A value may be impossible or too large to
convert to JSON (`peers.values.conversion`). Since each request must get exactly one answer, such a request is answered
in the name of the client, with the reason, and such a reply becomes a failure with the reason.

Owner of a `Poster`: one dialogue. No I/O. Cost: msgpack is not looked into. For JSON, the values of a batch are
converted all at once, and one by one only if that fails. Not here: who gets what (`hub.requests`), what the client asks
(`peers.verbs.verbs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec
from websockets.frames import Opcode

from hub.batch import value_ends
from hub.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH, KIND_MESSAGES, Frame
from hub.handler import Handler
from hub.request_frame import FLAG_NAMED, TRANSACTIONS, Item, Reply, Request, Status, failure
from peers.node.node import Node
from peers.values.conversion import CONVERTED_LIMIT_BYTES, array_header, json_of, json_of_broker, msgpack_of_broker
from peers.websocket.framing import encode_message
from peers.websocket.session import Session
from peers.wire.reasons import reason_of

__all__ = ["Poster", "json_item", "msgpack_item", "singly"]

_FORMLESS = "a value has no JSON form, or is too large for one"
"""The reason that is told where a value cannot be converted."""

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
    """Cut a batch into its values. Nothing is yielded if they cannot be told apart, or if there are too many."""
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


class Writer(Protocol):
    """A connection, as far as a poster needs it."""

    def write(self, frames: list[bytes]) -> None:
        """Write ready frames, after what the session has to say."""


class Poster:
    """Posts requests and replies to one client, see `hub.outlet.Poster`.

    Args:
        node: The hub.
        session: The session of the client, which knows its encoding.
        writer: The connection of the client.
    """

    __slots__ = ("_node", "_session", "_writer", "handler")

    handler: Handler | None
    """The handler of the client; None until it is made, directly after the poster. Requests that cannot be converted
    are answered in its name."""

    def __init__(self, node: Node, session: Session, writer: Writer) -> None:
        self._node = node
        self._session = session
        self._writer = writer
        self.handler = None

    def post(self, items: list[Item]) -> None:
        """Write requests and replies."""
        frames: list[bytes] = []
        for item in items:
            self._put(item, frames)
        if frames:
            self._writer.write(frames)

    def _put(self, item: Item, frames: list[bytes]) -> None:
        opcode = self._session.codec.opcode
        message = json_item(item) if opcode is Opcode.TEXT else msgpack_item(item)
        if message is not None:
            frames.append(encode_message(opcode, message))
            return
        pieces = list(singly(item))
        for piece in pieces:
            self._put(piece, frames)
        if not pieces:
            self._lose(item, frames)

    def _lose(self, item: Item, frames: list[bytes]) -> None:
        """Answer a request that cannot be converted, or turn such a reply into a failure."""
        failed = failure(item.first, item.requests, Status.FAILED, _FORMLESS)
        if isinstance(item, Reply):
            self._put(failed, frames)
        elif self.handler is not None:
            self._node.core.requests.answer(self.handler, failed)
