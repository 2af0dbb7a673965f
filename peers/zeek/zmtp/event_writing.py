"""`event_messages` turns the hub's MESSAGES frames into events as Zeek nodes read them from ZeroMQ.

```
frame:   length │ routing key, remembered for the head │ payload
ZMTP:    [topic│sender│serializer│ payload]     a frame for each part
```

A payload in Broker's binary format is copied, once it was found to be an event. A msgpack value is converted, and each
of a BATCH becomes an event of its own. What is no event is lost and counted: a node would log an error for each.

All events are written in the serializer of the cluster, which whoever owns the writer finds out; while it is not known,
in that in which they came.

The same for all nodes, so that it is made once. Cost: 0.5 µs an event while the topic and its publisher repeat.

An event in JSON takes 20 µs more.

Owner of an `EventWriter`: one cluster. Memory: at most `HEADS_LIMIT` heads.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from hub.batch import Batch
from hub.frame import BROKER_FLAGS, FLAG_TAGGED, HEADER, HEADER_BYTES, Frame
from peers.values import InvalidDataError, from_msgpack
from peers.zeek.broker.bodies import bodies_of
from peers.zeek.broker.nesting import UNREAD_BYTES
from peers.zeek.zmtp.event_head import BINARY, EVENT_BEGINNING, EventHead, is_of_node
from peers.zeek.zmtp.event_json import to_json
from peers.zeek.zmtp.event_payload import is_event
from peers.zeek.zmtp.frames import LONG, encode_frame

try:
    from peers.zeek.zmtp._zmtp import is_event_at
except ImportError:  # not built: no compiler was there
    from peers.zeek.zmtp.event_payload import is_event_at

__all__ = ["HEADS_LIMIT", "EventWriter"]

HEADS_LIMIT: Final = 16_384
"""How many heads are remembered for all nodes: with more topics than that all are forgotten, and made anew."""

_LENGTH = Struct(">I")
_KEY_LENGTH = Struct(">H")
_LONG_HEADER = Struct(">BQ")
_KEY_LENGTH_AT: Final = 6
_SHORT_LIMIT: Final = 255
_BROKER_KINDS: Final = (BROKER_FLAGS, BROKER_FLAGS | FLAG_TAGGED)


class EventWriter:
    """Writes events for the nodes of a cluster.

    Args:
        own: The sender of what no node has published.
        passes_on: Whether what a node has published is written, too; otherwise it is left out, and is no loss.
    """

    __slots__ = ("_heads", "_own", "_passes_on", "_serializer")

    def __init__(self, own: bytes, *, passes_on: bool = True) -> None:
        self._own = own
        # Empty while it is not known.
        self._serializer = b""
        self._passes_on = passes_on
        # Routing key → the head as it stands on the wire, empty for what is left out, and whether the payload is JSON.
        self._heads: dict[bytes, tuple[bytes, bool]] = {}

    @property
    def serializer(self) -> bytes:
        """In which form events are written; empty for that in which they came. It may be set between batches."""
        return self._serializer

    @serializer.setter
    def serializer(self, serializer: bytes) -> None:
        self._serializer = serializer
        self._heads.clear()

    def write(self, batch: Batch) -> tuple[bytes, int]:
        """Return the messages of a batch as events, in order, and how many messages are none."""
        frames = batch.frames
        parts: list[bytes] = []
        position = lost = 0
        while position < len(frames):
            key_end = position + HEADER_BYTES + _KEY_LENGTH.unpack_from(frames, position + _KEY_LENGTH_AT)[0]
            routing_key = frames[position + 4 : key_end]
            head, is_json = self._head(routing_key)
            if not head:
                position = key_end + _LENGTH.unpack_from(frames, position)[0]
                continue
            behind = position if is_json else _copy_one_key(frames, position, routing_key, head, parts)
            if behind > position:
                position = behind
                continue
            body_length, kind, flags, _ = HEADER.unpack_from(frames, position)
            position = key_end + body_length
            frame = Frame(kind, flags, routing_key[HEADER_BYTES - 4 :], frames[key_end:position])
            payloads, lost_here = bodies_of(frame, from_msgpack)
            lost += lost_here
            for payload in payloads:
                written = _written(payload, is_json=is_json)
                if written:
                    parts += (head, written)
                else:
                    lost += 1
        return b"".join(parts), lost

    def _head(self, routing_key: bytes) -> tuple[bytes, bool]:
        found = self._heads.get(routing_key)
        if found is None:
            if len(self._heads) >= HEADS_LIMIT:
                self._heads.clear()
            if not self._passes_on and is_of_node(routing_key):
                found = b"", False
            else:
                head = EventHead.of(routing_key, self._own)
                if self._serializer:
                    head = head._replace(serializer=self._serializer)
                found = head.encode(), head.serializer != BINARY
            self._heads[routing_key] = found
        return found


def _written(payload: bytes, *, is_json: bool) -> bytes:
    """Return a payload as the last part of an event; empty where it is no event, or has no such form."""
    if not is_event_at(payload, 0, len(payload), is_event):
        return b""
    if not is_json:
        return encode_frame(payload)
    try:
        return encode_frame(to_json(payload))
    except InvalidDataError:  # it is too long to be converted
        return b""


def _copy_one_key(frames: bytes, position: int, routing_key: bytes, head: bytes, parts: list[bytes]) -> int:
    """Put those frames from `position` on that repeat one routing key, and can be copied, into `parts`.

    Returns:
        Where the last of these frames ends; `position` if there is none.
    """
    if routing_key[1] not in _BROKER_KINDS:
        return position
    # Local names, and no calls that can be spared: this is paid for every message.
    unpack_length, starts_with, add = _LENGTH.unpack_from, frames.startswith, parts.append
    overhead = 4 + len(routing_key)
    start, start_length = b"", -1
    while starts_with(routing_key, position + 4):
        (length,) = unpack_length(frames, position)
        body = position + overhead
        if length != start_length:
            if length > UNREAD_BYTES:
                break
            start = head + (_LONG_HEADER.pack(LONG, length) if length > _SHORT_LIMIT else bytes((0, length)))
            start_length = length
        behind = body + length
        if not starts_with(EVENT_BEGINNING, body, behind) or not is_event_at(frames, body, behind, is_event):
            break
        add(start)
        add(frames[body:behind])
        position = behind
    return position
