"""A client's side of both protocols, in memory: `hub.v1.msgpack` against the websockets library, and that over TCP."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as HttpRequest
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from hub.errors import CloseCode, UsageError
from hub.limits import Overflow
from hub.messages.batch import Batch
from hub.messages.frame import FLAG_CONFIRM, KIND_MESSAGES, encode_frame
from hub.messages.stretch import Run
from peers.client.conversation import Event, Introduction, Refusal
from peers.client.routes import LocalRoutes
from peers.client.values import decode_batch
from peers.client.websocket import PATH, WebSocketConversation
from peers.client.wire import WireConversation
from peers.wire.control import Notice
from peers.wire.events import Closing, SubscriptionChange
from peers.wire.hello import Hello, QueueWish
from peers.wire.records import Commit, Fetch, Stage
from tests.client.test_routes import UNREADABLE, NamedSink

WELCOME: dict[str, Any] = {
    "type": "welcome",
    "hub": "0f" * 16,
    "name": "memory",
    "software": "a hub",
    "queue": {"messages": 10, "bytes": 4096, "overflow": "drop-newest"},
    "frame": 100_000,
}


class Pair:
    def __init__(self, introduction: Introduction | None = None, *, subprotocol: str = "hub.v1.msgpack") -> None:
        self.routes = LocalRoutes(UNREADABLE)
        self.all = NamedSink("all")
        self.routes.add("/", self.all)
        self.client = WebSocketConversation(
            f"ws://127.0.0.1:1{PATH}", introduction or Introduction(), self.routes, frame_limit_bytes=10_000
        )
        self.server = ServerProtocol(subprotocols=[Subprotocol(subprotocol)])
        self.request: HttpRequest | None = None

    def to_server(self) -> list[Any]:
        data = self.client.take_outgoing()
        if data:
            self.server.receive_data(data)
        messages = []
        for event in self.server.events_received():
            if isinstance(event, HttpRequest):
                self.request = event
            elif isinstance(event, Frame) and event.opcode is Opcode.BINARY:
                messages.append(msgspec.msgpack.decode(event.data))
        return messages

    def to_client(self, *messages: dict[str, Any]) -> list[Event]:
        for message in messages:
            self.server.send_binary(msgspec.msgpack.encode(message))
        return list(self.client.receive(b"".join(self.server.data_to_send())))

    def shake_hands(self) -> None:
        self.client.open()
        self.to_server()
        assert self.request is not None
        self.server.send_response(self.server.accept(self.request))

    def greet(self) -> Hello:
        self.shake_hands()
        assert self.to_client(WELCOME) == []
        self.to_server()
        (hello,) = self.to_client(WELCOME)
        assert isinstance(hello, Hello)
        return hello


@pytest.fixture
def pair() -> Pair:
    both = Pair()
    both.greet()
    return both


def delivered(event: Event) -> list[tuple[str, Any]]:
    assert isinstance(event, Run)
    messages, bad = decode_batch(event)
    assert not bad
    assert event.messages == len(messages)
    return [tuple(message) for message in messages]


def test_handshake() -> None:
    queue = QueueWish(messages=5, bytes=None, overflow=Overflow.DISCONNECT)
    pair = Pair(Introduction("me", "secret", queue))
    pair.shake_hands()
    assert pair.request is not None
    assert pair.request.path == "/v1/hub"
    assert pair.request.headers["Sec-WebSocket-Protocol"] == "hub.v1.msgpack"
    assert "Sec-WebSocket-Extensions" not in pair.request.headers
    assert pair.to_client(WELCOME) == []
    assert pair.to_server() == [
        {"type": "hello", "name": "me", "queue": {"messages": 5, "overflow": "disconnect"}, "token": "secret"}
    ]
    (hello,) = pair.to_client(WELCOME)
    assert isinstance(hello, Hello)
    assert (hello.id, hello.name, hello.software) == (bytes([15] * 16), "memory", "a hub")
    assert hello.queue == QueueWish(messages=10, bytes=4096, overflow=Overflow.DROP_NEWEST)
    assert hello.frame < 100_000, "room for what stands around a value"


def test_requests_and_answers(pair: Pair) -> None:
    fetch = Fetch(7, time=1_700_000_000_123_457, hub="b", journal=b"\x01" * 16, columns=("topic",))
    pair.client.say(fetch)
    assert pair.to_server() == [
        {"type": "fetch", "request": 7, "prefixes": [""], "bytes": 1 << 20, "wait_ms": 0, "hub": "b"}
        | {"time_ms": 1_700_000_000_123.457, "journal": "01" * 16, "columns": ["topic"]}
    ]
    for refused in (Stage(7, "t", 0, b""), Commit(7, "t")):
        with pytest.raises(UsageError, match="committed over tcp:// or unix:// only"):
            pair.client.say(refused)
    assert pair.to_client(
        {"type": "confirmed", "request": 7, "new": 1},
        {"type": "of a later version", "count": 9},
        {"type": "dropped", "count": 3},
        {"type": "error", "request": 8, "code": 1007, "text": "no"},
    ) == [Notice("confirmed", request=7), Notice("dropped", count=3), Notice("error", request=8, code=1007, text="no")]


@pytest.mark.parametrize("count", [1, 15, 16, 70_000])
def test_delivery(pair: Pair, count: int) -> None:
    pair.client._protocol.max_message_size = None
    (run,) = pair.to_client({"topic": "/a", "type": "messages", "values": [0] * count})
    assert delivered(run) == [("/a", 0)] * count


def test_runs(pair: Pair) -> None:
    first, second, third, last = pair.to_client(
        {"type": "messages", "topic": "/a", "values": [1, 2]},
        {"type": "messages", "topic": "/b", "values": [3]},
        {"type": "dropped", "count": 5},
        {"type": "messages", "topic": "/a", "values": [4]},
        {"type": "messages", "topic": "elsewhere", "values": [5]},
    )
    assert delivered(first) == [("/a", 1), ("/a", 2), ("/b", 3)]
    assert second == Notice("dropped", count=5)
    assert delivered(third) == [("/a", 4)]
    assert delivered(last) == [("elsewhere", 5)]
    assert isinstance(last, Run)
    assert last.route.sinks == ()


def test_fragments(pair: Pair) -> None:
    raw = msgspec.msgpack.encode({"type": "messages", "topic": "/a", "values": ["whole"]})
    pair.server.send_binary(raw[:5], fin=False)
    pair.server.send_continuation(raw[5:9], fin=False)
    pair.server.send_continuation(raw[9:], fin=True)
    (run,) = pair.to_client()
    assert delivered(run) == [("/a", "whole")]


BAD_ITEMS: list[dict[str, Any]] = [
    {"type": "request", "request": -1, "topic": "/a", "value": 1},
    {"type": "request", "request": 2**32, "topic": "/a", "value": 1},
    {"type": "request", "request": 7, "topic": "/a"},
    {"type": "request", "request": 7, "topic": "/a", "values": []},
    {"type": "reply", "request": 7},
    {"type": "reply", "request": 7, "values": "none"},
    {"type": "reply", "request": 7, "status": 4, "count": 0},
    {"type": "reply", "request": 7, "status": 4, "count": 65_537},
]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"\xc1", CloseCode.BAD_DATA),
        (b"\x91" * 5000, CloseCode.BAD_DATA),
        (msgspec.msgpack.encode([1]), CloseCode.BAD_DATA),
        (msgspec.msgpack.encode({"type": 5}), CloseCode.BAD_DATA),
        (msgspec.msgpack.encode({"no": "type"}), CloseCode.BAD_DATA),
        (msgspec.msgpack.encode({"type": "messages", "topic": "/a", "values": []}), CloseCode.BAD_DATA),
        (msgspec.msgpack.encode({"type": "messages", "topic": "/a"}), CloseCode.BAD_DATA),
        (msgspec.msgpack.encode({"type": "messages", "topic": "/a", "values": "no array"}), CloseCode.BAD_DATA),
        (msgspec.msgpack.encode({"type": "messages", "topic": "x" * 5000, "values": [1]}), CloseCode.BAD_DATA),
        (msgspec.msgpack.encode(WELCOME | {"hub": "nonsense"}), CloseCode.BAD_DATA),
        (msgspec.msgpack.encode(WELCOME | {"frame": 1}), CloseCode.BAD_DATA),
        (msgspec.msgpack.encode(WELCOME | {"journal": "nonsense"}), CloseCode.BAD_DATA),
        (bytes(20_000), CloseCode.TOO_BIG),
        *((msgspec.msgpack.encode(message), CloseCode.BAD_DATA) for message in BAD_ITEMS),
    ],
)
def test_nonsense(pair: Pair, message: bytes, code: CloseCode) -> None:
    pair.server.send_binary(message)
    (closing,) = pair.to_client()
    assert isinstance(closing, Closing)
    assert (closing.code, closing.by_far_side) == (code, False)
    assert pair.client.closed
    pair.to_server()
    assert pair.server.close_rcvd is not None
    assert pair.server.close_rcvd.code == code


def test_closed_by_the_client(pair: Pair) -> None:
    """After the client has closed, what is still on its way is passed over up to the hub's own close frame."""
    pair.server.send_binary(msgspec.msgpack.encode({"type": "dropped", "count": 1}))
    pair.client.ping()
    pair.client.pong()
    pair.client.close(CloseCode.DONE, "x" * 200)
    pair.client.say(SubscriptionChange(True, ["/a"], 1))
    pair.client.publish([Batch.of("/a", [1]).frames])
    pair.client.ping()
    assert pair.client.closed
    assert pair.to_client() == [Notice("dropped", count=1)]
    pair.to_server()
    assert pair.server.close_rcvd is not None
    assert pair.server.close_rcvd.code == CloseCode.DONE
    assert len(pair.server.close_rcvd.reason) == 123
    (closing,) = pair.to_client()
    assert isinstance(closing, Closing)
    assert closing.by_far_side


def test_another_subprotocol() -> None:
    pair = Pair()
    pair.client.open()
    pair.to_server()
    assert pair.request is not None
    response = pair.server.accept(pair.request)
    del response.headers["Sec-WebSocket-Protocol"]
    pair.server.send_response(response)
    (closing,) = pair.to_client()
    assert isinstance(closing, Closing)
    assert closing.code == CloseCode.PROTOCOL_ERROR
    assert "is it a hub?" in closing.text


@pytest.mark.parametrize(
    ("status", "code"), [(403, CloseCode.NOT_ALLOWED), (404, CloseCode.NOT_ALLOWED), (503, CloseCode.TRY_AGAIN_LATER)]
)
def test_refused_with_http(status: int, code: CloseCode) -> None:
    pair = Pair()
    pair.client.open()
    pair.to_server()
    pair.server.send_response(pair.server.reject(status, "the cause\nand more"))
    data = b"".join(pair.server.data_to_send())
    events = [event for position in range(len(data)) for event in pair.client.receive(data[position : position + 1])]
    assert events == [Closing(code, f"refused with HTTP {status}: the cause", by_far_side=True)]
    assert pair.client.closed


# The journal.


def confirmable(*frames: tuple[str, list[Any]]) -> list[bytes]:
    made = []
    for topic, values in frames:
        (frame,) = Batch.of(topic, values).parts()
        made.append(encode_frame(KIND_MESSAGES, frame.body, key=frame.key, flags=frame.flags | FLAG_CONFIRM))
    return made


def test_publications_to_be_confirmed(pair: Pair) -> None:
    pair.client.publish(confirmable(("/a", [1]), ("/b", [2, 3]), ("/c", [4]), ("/d", [5])))
    said = pair.to_server()
    requests = [message.pop("request") for message in said]
    assert said == [
        {"type": "publish", "confirm": True, "topic": "/a", "value": 1},
        {"type": "publish", "confirm": True, "topic": "/b", "values": [2, 3]},
        {"type": "publish", "confirm": True, "topic": "/c", "value": 4},
        {"type": "publish", "confirm": True, "topic": "/d", "value": 5},
    ]
    one, two, three, four = requests
    assert pair.to_client({"type": "error", "request": two, "code": 1008, "text": "not recorded"}) == []
    assert pair.to_client({"type": "recorded", "request": three, "offset": 11, "count": 1}) == []
    assert pair.to_client({"type": "recorded", "request": one, "offset": 10, "count": 1}) == [
        Notice("recorded", count=1, offset=10),
        Notice("unrecorded", count=2, code=1008, text="not recorded"),
        Notice("recorded", count=1, offset=11),
    ]
    assert pair.to_client({"type": "recorded", "request": one, "offset": 10, "count": 1}) == []
    assert pair.to_client({"type": "recorded", "request": 5, "offset": 10, "count": 1}) == []
    assert pair.to_client({"type": "recorded", "request": four, "offset": 12, "count": 1}) == [
        Notice("recorded", count=1, offset=12)
    ]


# Requests.


def test_a_request_that_the_hub_cannot_read(pair: Pair) -> None:
    (refusal,) = pair.to_client({"type": "error", "request": 7, "about": "request", "code": 1009, "text": "too much"})
    assert refusal == Refusal(7, "too much")


def test_text(pair: Pair) -> None:
    pair.server.send_text(b"{}")
    (closing,) = pair.to_client()
    assert isinstance(closing, Closing)
    assert closing.code == CloseCode.WRONG_KIND
    assert list(pair.client.receive(b"more")) == []


def test_not_a_hub() -> None:
    for answer, hint in ((b"HTTP/1.1 400 Bad Request\r\n", "try ws://"), (b"SSH-2.0-OpenSSH_9\r\n", "")):
        client = WireConversation(Introduction(), LocalRoutes(UNREADABLE), frame_limit_bytes=10_000)
        client.open()
        (closing,) = client.receive(answer)
        assert isinstance(closing, Closing)
        assert "does not speak the hub's protocol" in closing.text
        assert hint in closing.text
