"""What a hub reads off its sockets, what it answers itself, and what clients and bridges read of whoever answers them.

An input is cut into frames by its own lengths, but a length that leads behind the end is taken to be the rest: so a
change in one place does not make all that follows unreadable, and does not merely wait for bytes that never come. The
first byte says how the conversation begins, and with its highest bit that bytes go in as they are.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgpack
import msgspec
from websockets.frames import Frame as WebSocketFrame
from websockets.frames import Opcode
from websockets.server import ServerProtocol
from websockets.speedups import apply_mask

from hub.errors import JournalCorruptError
from hub.journal.block import Block
from hub.labels.envelope import Envelope
from hub.messages.batch import Batch
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, HEADER, KIND_MESSAGES, Origin, encode_frame
from hub.messages.request_frame import Reply, Request
from hub.messages.stretch import Run
from hub.statistics.history import FIGURES, Sample
from peers.client.conversation import Introduction
from peers.client.routes import LocalRoutes
from peers.client.values import decode_batch, decode_body, read_values
from peers.client.websocket import WebSocketConversation
from peers.client.wire import WireConversation
from peers.commands.commands import Publication
from peers.websocket.zeek_bridge import BridgeSession, Opened
from peers.wire.control import Notice, encode_notice, encode_origin, encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.records import Commit, Fetch, Records, Stage, encode_commit, encode_fetch, encode_stage, records_parts
from peers.wire.session import Phase
from peers.zeek.broker.messages import LENGTH
from tests.client.test_routes import UNREADABLE
from tests.fuzz.hub import CLIENT, LINK, FuzzedHub
from tests.fuzz.journal_targets import blocks
from tests.fuzz.target import Target
from tests.hubs.raw_websocket import MASK, request, upgrade
from tests.websocket.reading import events_of
from tests.wire.test_session import ALLOWED, BODIES
from tests.zeek.broker.recorded import CONNECTIONS, connection

RAW = 0x80  # in the first byte of an input: the rest goes in as it is, without lengths that are put right


_AS_LINK = 0x01
_AS_BROWSER = 0x02


@cache
def _hub() -> FuzzedHub:
    return FuzzedHub()


@contextmanager
def fuzzed_hub() -> Iterator[FuzzedHub]:
    try:
        yield _hub()
    except BaseException:
        _hub.cache_clear()
        raise


@cache
def _recording_hub() -> FuzzedHub:
    return FuzzedHub(Path(tempfile.mkdtemp()) / "fuzzed")


def close_recording_hub() -> None:
    if _recording_hub.cache_info().currsize:
        _recording_hub().close()
        _recording_hub.cache_clear()


# ---- the hub's own protocol ----


def refitted_frames(data: bytes) -> bytes:
    found = b""
    while len(data) >= HEADER.size:
        body_bytes, kind, flags, key_bytes = HEADER.unpack_from(data)
        data = data[HEADER.size :]
        key_bytes = min(key_bytes, len(data))
        body_bytes = min(body_bytes, len(data) - key_bytes)
        found += HEADER.pack(body_bytes, kind, flags, key_bytes) + data[: key_bytes + body_bytes]
        data = data[key_bytes + body_bytes :]
    return found


def _run_frames(data: bytes) -> None:
    how, stream = data[:1] or b"\0", data[1:]
    greeting = LINK if how[0] & _AS_LINK else CLIENT
    with fuzzed_hub() as hub:
        hub.run("tcp://127.0.0.1:1", stream if how[0] & RAW else greeting + refitted_frames(stream))


def _run_records(data: bytes) -> None:
    how, stream = data[:1] or b"\0", data[1:]
    hub = _recording_hub()
    if how[0] & _AS_BROWSER:
        stream = b"".join(masked(1, payload) for payload in messages_in(stream))
        hub.run("ws://127.0.0.1:1", stream, lambda wire: wire.bring(upgrade("hub.v1.json")))
    else:
        hub.run("tcp://127.0.0.1:1", CLIENT + refitted_frames(stream))


def _record_seeds() -> list[bytes]:
    def stage(request: int, transaction: str, part: int, *messages: bytes) -> bytes:
        return encode_stage(Stage(request, transaction, part, b"".join(messages)))

    def commit(*parts: int, request: int = 3, **fields: Any) -> bytes:
        return encode_commit(Commit(request=request, transaction="t", parts=list(parts), **fields))

    def fetches(*each: dict[str, Any]) -> bytes:
        return b"".join(encode_fetch(Fetch(request=4 + number, **fields)) for number, fields in enumerate(each))

    plain, batch = BODIES[Kind.MESSAGES], _VARIANTS["batch"]
    tagged, confirmed, odd = _VARIANTS["tagged"], _VARIANTS["confirm"], _VARIANTS["odd"]
    frames = [
        stage(1, "t", 0, plain, batch) + stage(2, "t", 1, tagged, odd) + commit(1, 0),
        stage(1, "t", 0, plain) + commit(0, query="q", batch=2**62) * 2,
        stage(1, "t", 0, plain) + commit(request=2, abort=True) + stage(3, "u", 0, batch),
        confirmed * 3 + batch + fetches({"start": 0}, {"start": 1, "end": 3}),
        fetches({"time": 5, "prefixes": ("/a", "/b"), "bytes": 100}),
        fetches({"hub": "nobody", "journal": b""}, {"hub": "hub"}),
        fetches({"start": 2**62, "wait_ms": 5}, {"start": 0, "bytes": 0}),
        plain + encode_subscription(Kind.SUBSCRIBE, ["/a"], 7) + confirmed,
    ]
    said = [
        _SAID[4],
        {"type": "fetch", "request": 4, "start": 0, "end": 10, "prefixes": ["/a"], "bytes": 1000, "wait_ms": 5},
        {"type": "fetch", "request": 5, "time_ms": 5, "bytes": 70_000},
        {"type": "fetch", "request": 6, "hub": "hub", "journal": ""},
    ]
    payloads = [json.dumps(one).encode() for one in said]
    return [*(b"\0" + one for one in frames), bytes([_AS_BROWSER]) + in_messages(payloads)[1:]]


_TWO = BATCH_COUNT.pack(2)
_VARIANTS = {
    "batch": encode_frame(KIND_MESSAGES, _TWO + b"\x01\x02", key=b"/a", flags=FLAG_BATCH),
    "json": encode_frame(KIND_MESSAGES, b'{"a": [1]}', key=b"/a", flags=2),
    "broker": encode_frame(KIND_MESSAGES, b"\x02" + bytes(8), key=b"/a", flags=6),
    "confirm": encode_frame(KIND_MESSAGES, b"\x01", key=b"/a", flags=16),
    "tagged": encode_frame(KIND_MESSAGES, b"\x01", key=Envelope("/a", ("l",)).encode(), flags=8),
    "odd": encode_frame(KIND_MESSAGES, b"\xc1", key="/ä".encode(), flags=2),
    "requests": Request(b"/a", 5, 1000, _TWO + b"\x01\x02", FLAG_BATCH).encode(),
    "own": Request(b"$hub/names", 6, 1000, b"\xc0").encode(),
    "replies": Reply(1, 0, _TWO + b"\x01\x02", FLAG_BATCH).encode(),
    "failed": Reply(1, 1, _TWO + b"\xa2no", FLAG_BATCH).encode(),
}


def _frame_seeds() -> list[bytes]:
    streams = [bytes([how]) + one for one in (*BODIES.values(), *_VARIANTS.values()) for how in (0, _AS_LINK)]
    taken = [one for kind, one in BODIES.items() if (Phase.WITH_CLIENT, kind) in ALLOWED and kind is not Kind.CLOSE]
    everything = b"".join([*taken, *_VARIANTS.values()])
    asked = BODIES[Kind.SERVE] + BODIES[Kind.REQUEST] + Reply(1, 0, b"\x01").encode() + _VARIANTS["requests"]
    return [*streams, b"\0" + everything, b"\0" + asked + _VARIANTS["replies"], bytes([RAW]) + CLIENT + everything]


# ---- WebSocket ----


def masked(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size)
    return bytes([0x80 | opcode]) + length + MASK + apply_mask(payload, MASK)


def in_messages(payloads: Sequence[bytes]) -> bytes:
    return b"\0" + b"".join(struct.pack(">H", len(payload)) + payload for payload in payloads)


def messages_in(data: bytes) -> list[bytes]:
    found = []
    while len(data) >= 2:
        end = 2 + int.from_bytes(data[:2], "big")
        found.append(data[2:end])
        data = data[end:]
    return found


def websocket_stream(opcode: int, data: bytes) -> bytes:
    """Return what follows the handshake: the messages in an input, masked, or an input as it is."""
    how, stream = data[:1] or b"\0", data[1:]
    return stream if how[0] & RAW else b"".join(masked(opcode, payload) for payload in messages_in(stream))


def _websocket(opcode: int, subprotocol: str, path: str) -> Callable[[bytes], None]:
    greeting = upgrade(subprotocol, path=path)

    def run(data: bytes) -> None:
        stream = websocket_stream(opcode, data)
        with fuzzed_hub() as hub:
            hub.run("ws://127.0.0.1:1", stream, lambda wire: wire.bring(greeting))

    return run


_SAID = (
    {"type": "hello", "name": "me", "queue": {"messages": 10, "bytes": 2000, "overflow": "drop-newest"}},
    {"type": "subscribe", "prefixes": ["/a", "/b"], "request": 1},
    {"type": "unsubscribe", "prefixes": ["/a"], "request": 2},
    {"type": "publish", "topic": "/a", "value": {"a": [1, 2.5, None, True, "x"]}},
    {"type": "publish", "topic": "/a", "values": [1, 2], "labels": ["l"], "request": 3, "confirm": True},
    {"type": "claim", "name": "clock", "labels": ["a"], "queue": True, "request": 4},
    {"type": "publish", "topic": "/a", "value": 1, "sender": "clock", "to": "clock"},
    {"type": "release", "name": "clock", "request": 5},
    {"type": "rule", "rules": [{"labels": ["l"], "prefix": "/a"}], "request": 6},
    {"type": "unrule", "rules": [{"labels": ["l"], "prefix": "/a"}], "request": 7},
    {"type": "serve", "prefixes": ["/s"], "request": 8},
    {"type": "request", "request": 1, "topic": "/s", "value": 1, "timeout_ms": 1000},
    {"type": "request", "request": 2, "topic": "/s", "values": [1, 2]},
    {"type": "request", "request": 4, "service": "clock", "value": 1},
    {"type": "reply", "request": 1, "value": 1},
    {"type": "reply", "request": 2, "status": 1, "text": "no", "count": 2},
    {"type": "unserve", "prefixes": ["/s"], "request": 9},
    {"type": "fetch", "request": 3, "start": 0, "end": 10, "prefixes": ["/a"], "bytes": 1000, "wait_ms": 5},
    {"type": "ping", "request": 1},
)


def _json_seeds() -> list[bytes]:
    payloads = [json.dumps(said).encode() for said in _SAID]
    whole = b"".join(masked(1, payload) for payload in payloads)
    control = b"\x89\x80" + MASK + b"\x01\x80" + MASK + b"\x80\x80" + MASK + b"\x88\x82" + MASK + b"\x11\xdc"
    return [*(in_messages([payload]) for payload in payloads), in_messages(payloads), bytes([RAW]) + whole + control]


def _msgpack_seeds() -> list[bytes]:
    payloads = [msgspec.msgpack.encode(said) for said in _SAID]
    return [*(in_messages([payload]) for payload in payloads), in_messages(payloads)]


_ZEEK_VALUES = (
    ("none", {}),
    ("boolean", True),
    ("count", 7),
    ("integer", -7),
    ("real", 2.5),
    ("string", "x"),
    ("timespan", "7s"),
    ("timestamp", "2022-02-22T22:22:22.222"),
    ("address", "2001:db8::1"),
    ("subnet", "10.0.0.0/8"),
    ("port", "80/tcp"),
    ("enum-value", "a::B"),
    ("vector", [{"@data-type": "count", "data": 1}]),
    ("set", [{"@data-type": "count", "data": 1}]),
    ("table", [{"key": {"@data-type": "count", "data": 1}, "value": {"@data-type": "string", "data": "x"}}]),
)


def zeek_messages() -> list[bytes]:
    return [
        json.dumps({"type": "data-message", "topic": "/a", "@data-type": kind, "data": value}).encode()
        for kind, value in _ZEEK_VALUES
    ]


def _zeek_seeds() -> list[bytes]:
    said = zeek_messages()
    return [in_messages([b'["/a"]', one]) for one in said] + [in_messages([b"[]", *said])]


def _run_http(data: bytes) -> None:
    with fuzzed_hub() as hub:
        hub.run("ws://127.0.0.1:1", data)


_HTTP_WORDS = [
    *(b"\r\n", b"\r\n\r\n", b"Host: a\r\n", b"\xff", b"\0", b"GET http://a/", b"POST ", b"/v1/publish/", b"\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Content-Length: 1\r\n", b"0\r\n\r\n", b"5\r\n", b"prefix=", b"%00", b"+"),
]


def _http_seeds() -> list[bytes]:
    return [
        request(),
        request("/metrics"),
        request("/hub.js?x", "HEAD", "Origin: http://127.0.0.1"),
        request("/healthz", version="HTTP/1.0"),
        upgrade("hub.v1.json", "Origin: http://127.0.0.1:7401"),
        upgrade("hub.v1.msgpack, hub.v1.json"),
        upgrade("", "X-Application-Name: x", path="/v1/messages/json"),
        request("/v1/events?prefix=/a&overflow=drop-oldest&messages=3", "GET", "Last-Event-ID: 3"),
        request("/v1/events?prefix="),
        *_posts(),
    ]


def _posts() -> list[bytes]:
    json_type, lines = "Content-Type: application/json", "Content-Type: application/x-ndjson"
    chunks = b'8\r\n{"a":1}\n\r\n4;x=y\r\n\n[2]\r\n0\r\nX: 1\r\n\r\n'
    one = request("/v1/publish/a%20b?label=x", "POST", json_type, "Content-Length: 7") + b'{"a":1}'
    packed = request("/v1/publish?topic=a", "POST", "Content-Type: application/msgpack", "Content-Length: 4")
    return [
        one + one,
        packed + b"\x81\xa1a\x01" + request("/v1/events?prefix=a"),
        request("/v1/publish/a", "POST", lines, "Transfer-Encoding: chunked", "Expect: 100-continue") + chunks + one,
        request("/v1/publish/a?confirm=1", "POST", lines, "Content-Length: 4") + b"1\n2\n",
        request("/v1/publish/a", "OPTIONS", "Origin: http://127.0.0.1"),
    ]


# ---- Broker's protocol ----


def refitted_envelopes(data: bytes) -> bytes:
    found = b""
    while len(data) >= LENGTH.size:
        size = min(LENGTH.unpack_from(data)[0], len(data) - LENGTH.size)
        found += LENGTH.pack(size) + data[LENGTH.size : LENGTH.size + size]
        data = data[LENGTH.size + size :]
    return found


def _run_broker(data: bytes) -> None:
    how, stream = data[:1] or b"\0", data[1:]
    with fuzzed_hub() as hub:
        if how[0] & RAW:
            hub.run("zeek+tcp://127.0.0.1:1", stream)
        else:
            hub.run("zeek+tcp://127.0.0.1:1", refitted_envelopes(stream), lambda wire: hub.peer(wire, b"\x22"))


def _broker_seeds() -> list[bytes]:
    seeds = []
    for name in CONNECTIONS[:7]:
        for direction in connection(name).values():
            handshake = b"".join(LENGTH.pack(len(frame)) + frame for frame in direction.handshake)
            stream = direction.stream[len(handshake) :]
            frames: dict[int, bytes] = {}
            at = 0
            while at < len(stream):  # the first of each kind
                end = at + LENGTH.size + LENGTH.unpack_from(stream, at)[0]
                frames.setdefault(stream[at + 36] if end - at > 36 else 0, stream[at:end])
                at = end
            seeds += [bytes([RAW]) + handshake + stream[:400], *(b"\0" + frame for frame in frames.values())]
    return list(dict.fromkeys(seed[:4096] for seed in seeds))


_SENDS_AWAY = frozenset({"$hub/kick"})

_QUESTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "$hub/history": ({"span": "1h", "after": 7},),
    "$hub/losses": ({"id": 3, "limit": 10},),
    "$hub/mesh/graph": ({"after": "00" * 16},),
    "$hub/mesh/trace": ({"topic": "/a", "after": "00" * 16},),
    "$hub/names": ({"prefix": "a", "after": "a.b"},),
    "$hub/nodes": ({"after": "x"},),
    "$hub/topics": ({"under": "/a", "search": "b"}, {"search": "\u202e"}),
    "$hub/users": ({"after": "a"},),
    "$hub/who": ({"after": 1, "limit": 3, "user": ""}, {"id": 4}),
}
"""Sound questions; every service is asked null, too."""


_EDGES = (-1, 2**63 - 1, -(2**63), 2**64 - 1, float("nan"), float("inf"), "", "\0\x1b[31m", b"\xff", [], [[]], {})
"""Put in the place of each field of each question."""


@cache
def _asked_hub() -> FuzzedHub:
    hub = FuzzedHub()
    hub.server.ticker.history.add(500, Sample(*[1.0] * len(FIGURES)))
    return hub


def _services() -> list[str]:
    # Sorted, so that an input that found something asks the same service until there are others.
    return [one for one in _asked_hub().server.core.requests.hub_services.open_to(_asking()) if one not in _SENDS_AWAY]


def _asking() -> Any:
    return next(iter(_asked_hub().server.core.handlers.values()))


def _run_service(data: bytes) -> None:
    services = _services()
    target = services[data[0] % len(services)] if data else services[0]
    asked = Request(target.encode(), 1, 50, data[1:] or b"\xc0")
    _asked_hub().run("tcp://127.0.0.1:1", CLIENT + asked.encode())


def _service_seeds() -> list[bytes]:
    services = _services()
    unknown = _QUESTIONS.keys() - set(services)
    assert not unknown, f"the hub serves none of {unknown}"
    found = [bytes([number]) + b"\xc0" for number in range(len(services))]
    for target, questions in _QUESTIONS.items():
        number = bytes([services.index(target)])
        for question in questions:
            odd = [question | {field: edge} for field in question for edge in _EDGES]
            found += [number + msgpack.packb(one) for one in (question, *odd)]
    return found


_HUB = Hello(protocol=1, role="hub", id=bytes(range(16)), name="hub", origins=True).encode()
_LIMIT_BYTES = 64 * 1024


def _look_at(events: Iterable[object]) -> None:
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
    plain = BODIES[Kind.MESSAGES]
    frames = [
        plain,
        *_VARIANTS.values(),
        *(one for kind, one in BODIES.items() if (Phase.WITH_HUB, kind) in ALLOWED and kind is not Kind.CLOSE),
        encode_frame(KIND_MESSAGES, b"\xc7\x09\x01" + bytes(9), key=b"/a"),
        encode_frame(Kind.RECORDS, b"".join(records_parts(Records(3, 0, 5, 0, 5, blocks()[:1])))),
        encode_notice(Notice("error", request=3, code=1008, text="no", offset=4)),
        BODIES[Kind.CLOSE],
    ]
    origins = encode_origin(Origin(b"f" * 16, 1)) + plain + _VARIANTS["batch"] + encode_origin(Origin(b"g" * 16, 0))
    return [
        b"\x40" + origins + plain,
        *(b"\0" + frame for frame in frames),
        b"\0" + b"".join(frames),
        b"\x80" + _HUB + plain,
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
            server.send_frame(WebSocketFrame(Opcode.TEXT, message))
        stream = b"".join(server.data_to_send())
    for event in events_of(session, stream):
        if isinstance(event, Opened):  # what the hub says meanwhile must not fail, whatever stands behind this
            session.ask(["/"])
        session.send([b"{}"])
        session.ping()
        if isinstance(event, Publication):
            with suppress(UnicodeDecodeError):  # the core refuses to route it then
                event.routing_key[4:].decode()
                decode_batch(event.batch)
        else:
            repr(event)
    session.take_outgoing()


def _bridge_seeds() -> list[bytes]:
    ack = json.dumps({"type": "ack", "endpoint": "e", "version": "v"}).encode()
    error = json.dumps({"type": "error", "code": "c", "context": "x"}).encode()
    raw = b"\x80HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x02{}"
    refused = b"\x80HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno"
    return [in_messages([ack, error]), in_messages([ack, *zeek_messages()]), raw, refused]


TARGETS = (
    Target("frames", _run_frames, _frame_seeds, runs=300),
    Target("records", _run_records, _record_seeds, [struct.pack(">I", 2**31), b"\xcf" + b"\xff" * 8, b"/a"], runs=100),
    Target(
        "json",
        _websocket(1, "hub.v1.json", "/v1/hub"),
        _json_seeds,
        [b'"', b"\\ud800", b"1e999", b"-0", b"[[[[", b"{", b"null", b"\xed\xa0\x80", b"18446744073709551616"],
        runs=200,
    ),
    Target("msgpack", _websocket(2, "hub.v1.msgpack", "/v1/hub"), _msgpack_seeds, runs=200),
    Target(
        "zeek_json",
        _websocket(1, "", "/v1/messages/json"),
        _zeek_seeds,
        [b'"', b"\\ud800", b"NaN", b"1e999", b"[" * 64, b"\\u0000", b"9" * 400],
        runs=300,
    ),
    Target(
        "http",
        _run_http,
        _http_seeds,
        _HTTP_WORDS,
    ),
    Target("broker", _run_broker, _broker_seeds, runs=200),
    Target("client_wire", _run_wire, _wire_seeds),
    Target("client_websocket", _run_websocket, _websocket_seeds),
    Target("bridge", _run_bridge, _bridge_seeds, [b'"', b"\\ud800", b"NaN", b"1e999", b"[" * 64]),
    Target("services", _run_service, _service_seeds, (b"\xcf" + b"\xff" * 8, b"\xcb\x7f\xf8" + bytes(6), b"\xc1")),
)
