"""What a client reads of a hub, and a bridge of a Zeek: whoever answers there may be anybody."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
from websockets.server import ServerProtocol

from hub.batch import Batch
from hub.errors import JournalCorruptError
from hub.frame import BATCH_COUNT, FLAG_BATCH, KIND_MESSAGES, encode_frame
from hub.journal.block import Block
from hub.origin import Origin
from hub.request_frame import Reply, Request
from hub.stretch import Run
from peers.client.conversation import Introduction
from peers.client.routes import LocalRoutes
from peers.client.values import decode_batch, decode_body, read_values
from peers.client.websocket import WebSocketConversation
from peers.client.wire import WireConversation
from peers.websocket.zeek.bridge_session import BridgeSession, Incoming, Opened
from peers.wire.control import Notice, encode_close, encode_notice, encode_origin
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.records import Records, records_parts
from tests.client.test_routes import UNREADABLE
from tests.fuzz.hub_targets import in_messages, messages_in, refitted_frames, zeek_messages
from tests.fuzz.journal_targets import blocks
from tests.fuzz.target import Target
from tests.websocket.reading import events_of

__all__ = ["CLIENT_TARGETS"]

_HUB = Hello(protocol=1, role="hub", id=bytes(range(16)), name="hub", origins=True).encode()
_LIMIT_BYTES = 64 * 1024


def _look_at(events: Iterable[object]) -> None:
    """Do with events what a client does: read every value."""
    for event in events:
        match event:
            case Run() if UNREADABLE not in event.route.sinks:
                decode_batch(Batch(event.frames, event.messages))
            case Records():
                for block in event.blocks:
                    _read_block(block)
            case Request() | Reply():
                try:
                    read_values(event.flags, event.values)
                    decode_body(event.flags >> 1 & 3, event.values)
                except ValueError:
                    pass
            case _:
                repr(event)


def _read_block(block: bytes) -> None:
    try:
        for record in Block.parse(block).records():
            decode_body(record.encoding, record.body)
    except (JournalCorruptError, ValueError):
        pass


def _run_wire(data: bytes) -> None:
    how, stream = data[:1] or b"\0", data[1:]
    introduction = Introduction(origins=bool(how[0] & 0x40))
    conversation = WireConversation(introduction, LocalRoutes(UNREADABLE), _LIMIT_BYTES)
    conversation.open()
    _look_at(conversation.receive(stream if how[0] & 0x80 else _HUB + refitted_frames(stream)))
    conversation.take_outgoing()


def _wire_seeds() -> list[bytes]:
    two = BATCH_COUNT.pack(2)
    records = records_parts(Records(3, 0, 5, 0, 5, blocks()[:1]))
    frames = [
        encode_frame(KIND_MESSAGES, b"\x81\xa1a\x01", key=b"/a"),
        encode_frame(KIND_MESSAGES, two + b"\x01\x02", key=b"/a", flags=FLAG_BATCH),
        encode_frame(KIND_MESSAGES, b'{"a": [1]}', key=b"/a", flags=2),
        encode_frame(KIND_MESSAGES, b"\x02" + bytes(8), key=b"/a", flags=6),
        encode_frame(KIND_MESSAGES, b"\xc7\x09\x01" + bytes(9), key=b"/a"),
        Request(b"/s", 5, 1000, two + b"\x01\x02", FLAG_BATCH).encode(),
        Reply(1, 0, two + b"\x01\x02", FLAG_BATCH).encode(),
        Reply(1, 3, two + b"\xa2no", FLAG_BATCH).encode(),
        encode_frame(Kind.RECORDS, b"".join(records)),
        encode_notice(Notice("dropped", count=3)),
        encode_notice(Notice("error", request=3, code=1008, text="no", offset=4)),
        encode_frame(Kind.PING, b"x"),
        encode_close(1001, "bye"),
    ]
    origins = encode_origin(Origin(b"f" * 16, 1)) + frames[0] + frames[1] + encode_origin(Origin(b"g" * 16, 0))
    return [
        b"\x40" + origins + frames[0],
        *(b"\0" + frame for frame in frames),
        b"\0" + b"".join(frames),
        b"\x80" + _HUB + frames[0],
    ]


# ---- WebSocket ----


def _welcomed() -> tuple[WebSocketConversation, ServerProtocol]:
    conversation = WebSocketConversation("ws://hub:7401/v1/hub", Introduction(), LocalRoutes(UNREADABLE), _LIMIT_BYTES)
    server = ServerProtocol(subprotocols=["hub.v1.msgpack"], max_size=None)  # type: ignore[list-item]
    conversation.open()
    server.receive_data(conversation.take_outgoing())
    (request,) = server.events_received()
    server.send_response(server.accept(request))  # type: ignore[arg-type]
    list(conversation.receive(b"".join(server.data_to_send())))
    return conversation, server


def _run_websocket(data: bytes) -> None:
    conversation, server = _welcomed()
    how, stream = data[:1] or b"\0", data[1:]
    if not how[0] & 0x80:
        for message in messages_in(stream):
            server.send_binary(message)
        stream = b"".join(server.data_to_send())
    _look_at(conversation.receive(stream))
    conversation.take_outgoing()


def _websocket_seeds() -> list[bytes]:
    welcome = {"type": "welcome", "hub": "00" * 16, "name": "h", "software": "x", "journal": "11" * 16, "frame": 999}
    said: list[dict[str, object]] = [
        welcome | {"queue": {"messages": 5, "bytes": 5000, "overflow": "drop-oldest"}},
        {"type": "messages", "topic": "/a", "values": [1, {"a": [2]}], "labels": ["l"], "sender": "s", "to": "t"},
        {"type": "confirmed", "request": 7, "offset": 1, "text": "queued"},
        {"type": "name", "name": "clock", "standing": "owned", "text": "x"},
        {"type": "recorded", "request": 2**32, "offset": 4, "count": 1},
        {"type": "records", "request": 3, "start": 0, "next": 5, "first": 0, "head": 5, "blocks": blocks()[:1]},
        {"type": "dropped", "count": 5},
        {"type": "request", "request": 1, "topic": "/s", "timeout_ms": 5, "values": [1, 2]},
        {"type": "request", "request": 1, "service": "s", "timeout_ms": 5, "value": 1},
        {"type": "reply", "request": 1, "values": [1, 2]},
        {"type": "reply", "request": 1, "status": 3, "text": "no", "count": 2},
        {"type": "error", "request": 7, "code": 1008, "text": "no", "about": "request"},
        {"type": "pong", "request": 1},
    ]
    packed = [msgspec.msgpack.encode(one) for one in said]
    raw = b"\x80" + b"\x82\x05" + packed[6][:5] + b"\x89\x01x\x88\x02\x03\xe8"
    return [*(in_messages([one]) for one in packed), in_messages(packed), raw]


# ---- a Zeek's WebSocket server ----


def _run_bridge(data: bytes) -> None:
    session = BridgeSession("zeek", 9997, _LIMIT_BYTES)
    how, stream = data[:1] or b"\0", data[1:]
    server = ServerProtocol(max_size=None)
    if not how[0] & 0x80:
        server.receive_data(session.take_outgoing())
        (request,) = server.events_received()
        server.send_response(server.accept(request))  # type: ignore[arg-type]
        list(events_of(session, b"".join(server.data_to_send())))
        session.ask(["/"])
        for message in messages_in(stream):
            server.send_frame(_text_frame(message))
        stream = b"".join(server.data_to_send())
    for event in events_of(session, stream):
        if isinstance(event, Opened):  # what the hub says meanwhile must not fail, whatever stands behind this
            session.ask(["/"])
        session.send([b"{}"])
        session.ping()
        if isinstance(event, Incoming):
            if _is_text(event.routing_key[4:]):  # else the core refuses to route it
                decode_batch(Batch(event.frame, 1))
        else:
            repr(event)
    session.take_outgoing()


def _is_text(topic: bytes) -> bool:
    try:
        topic.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text_frame(payload: bytes) -> object:
    from websockets.frames import Frame, Opcode

    return Frame(Opcode.TEXT, payload)


def _bridge_seeds() -> list[bytes]:
    ack = json.dumps({"type": "ack", "endpoint": "e", "version": "v"}).encode()
    error = json.dumps({"type": "error", "code": "c", "context": "x"}).encode()
    raw = b"\x80HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x02{}"
    refused = b"\x80HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno"
    return [in_messages([ack, error]), in_messages([ack, *zeek_messages()]), raw, refused]


CLIENT_TARGETS = (
    Target("client_wire", _run_wire, _wire_seeds),
    Target("client_websocket", _run_websocket, _websocket_seeds),
    Target("bridge", _run_bridge, _bridge_seeds, [b'"', b"\\ud800", b"NaN", b"1e999", b"[" * 64]),
)
