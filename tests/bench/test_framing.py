"""How a stream is cut: both protocols, and everything a hub may send beside messages."""

from __future__ import annotations

import msgpack
import pytest
from websockets.frames import Opcode

from hub.frame import KIND_MESSAGES, encode_frame
from peers.bench.errors import BenchError
from peers.bench.framing import Control, Framing, Shape, cut_tcp, cut_websocket, websocket_frame
from peers.bench.layout import Layout
from peers.wire.control import Notice, encode_close, encode_notice
from peers.wire.hello import Hello, QueueWish
from peers.wire.kinds import Kind
from tests.bench.streams import tcp, tcp_batch, websocket, websocket_messages

LAYOUT = Layout("/bench/0000/", 10, 40, 1)


def only(cut: Framing, data: bytes, layout: Layout = LAYOUT) -> Shape | Control:
    """The frame that `data` is, whole, with a beginning of another one behind it."""
    buffer = bytearray(data + data[:1])
    frame = cut(layout, buffer, 0, len(buffer))
    assert frame is not None
    assert frame.size == len(data)
    assert cut(layout, buffer, 0, len(data) - 1) is None, "a frame that is not whole"
    return frame


def test_a_frame_with_one_value() -> None:
    """Where the value begins, and the number of the topic."""
    data = tcp(LAYOUT, [(0, 7)])
    shape = only(cut_tcp, data)
    assert isinstance(shape, Shape)
    assert shape.values == 1
    assert shape.topic == 7
    assert data[shape.first_value :].startswith(LAYOUT.value_head)


def test_a_frame_with_several_values() -> None:
    """A batch is as many values as it says."""
    data = tcp_batch(LAYOUT, [(0, 20), (0, 21), (0, 22)])
    shape = only(cut_tcp, data)
    assert isinstance(shape, Shape)
    assert shape.values == 3
    assert len(data) - shape.first_value == 3 * LAYOUT.value_bytes


@pytest.mark.parametrize("count", [1, 3, 15, 16, 2000])
def test_a_websocket_frame_with_values(count: int) -> None:
    """All three sizes of frames, and of msgpack arrays."""
    data = websocket_messages(LAYOUT, [(0, 20 + number) for number in range(count)])
    shape = only(cut_websocket, data)
    assert isinstance(shape, Shape)
    assert shape.values == count
    assert shape.topic == 0
    assert len(data) - shape.first_value == count * LAYOUT.value_bytes


def test_a_websocket_array_of_more_than_65535_values() -> None:
    """The longest form of a msgpack array."""
    layout = Layout("/bench/0000/", 1, 16, 1)
    data = websocket_messages(layout, [(0, number) for number in range(65_536)])
    shape = only(cut_websocket, data, layout)
    assert isinstance(shape, Shape)
    assert shape.values == 65_536


def test_controls_over_tcp() -> None:
    """Greeting, confirmation, losses, refusal, ping, close, and kinds that mean nothing to a benchmark."""
    hello = Hello(protocol=1, role="hub", id=bytes(16), queue=QueueWish(100, 200))
    expected: list[tuple[bytes, dict[str, object]]] = [
        (hello.encode(), {"word": "greeting", "queue": QueueWish(100, 200)}),
        (encode_notice(Notice("confirmed", request=5)), {"word": "confirmed", "request": 5}),
        (encode_notice(Notice("dropped", count=6)), {"word": "dropped", "lost": 6}),
        (encode_notice(Notice("error", code=1008, text="no")), {"word": "error", "code": 1008, "text": "no"}),
        (encode_frame(Kind.PING, b"abc"), {"word": "ping", "answer": encode_frame(Kind.PONG, b"abc")}),
        (encode_close(4008, "queue full"), {"word": "close", "code": 4008, "text": "queue full"}),
        (encode_frame(0x85, b"later"), {"word": "other"}),
    ]
    for data, fields in expected:
        control = only(cut_tcp, data)
        assert isinstance(control, Control)
        assert {name: getattr(control, name) for name in fields} == fields


def test_controls_over_websocket() -> None:
    """The same over a WebSocket; a ping is answered by a masked pong."""
    welcome = msgpack.packb({"type": "welcome", "hub": "00", "queue": {"messages": 100, "bytes": 200}})
    expected: list[tuple[bytes, dict[str, object]]] = [
        (websocket(welcome), {"word": "greeting", "queue": QueueWish(100, 200)}),
        (websocket(msgpack.packb({"type": "confirmed", "request": 5})), {"word": "confirmed", "request": 5}),
        (websocket(msgpack.packb({"type": "dropped", "count": 6})), {"word": "dropped", "lost": 6}),
        (websocket(msgpack.packb({"type": "error", "code": 1008, "text": "no"})), {"word": "error", "text": "no"}),
        (websocket(b"abc", opcode=9), {"word": "ping"}),
        (websocket(b"\x0f\xa8queue full", opcode=8), {"word": "close", "code": 4008, "text": "queue full"}),
        (websocket(b"", opcode=0xA), {"word": "other"}),
    ]
    for data, fields in expected:
        control = only(cut_websocket, data)
        assert isinstance(control, Control)
        assert {name: getattr(control, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("cut", "data"),
    [
        (cut_tcp, tcp(Layout("/other/0000/", 1, 40, 1), [(0, 0)])),
        (cut_tcp, tcp(Layout("/bench/0000/", 1, 41, 1), [(0, 0)])),
        (cut_tcp, encode_frame(KIND_MESSAGES, b"\xc4\x28" + bytes(40), key=b"/bench/0000/00a00")),
        (cut_tcp, encode_frame(Kind.HELLO, b"nothing")),
        (cut_websocket, websocket_messages(Layout("/other/0000/", 1, 40, 1), [(0, 0)])),
        (cut_websocket, websocket_messages(Layout("/bench/0000/", 1, 39, 1), [(0, 0)])),
        (cut_websocket, websocket(b"\xc1")),
    ],
)
def test_what_this_benchmark_did_not_send(cut: Framing, data: bytes) -> None:
    """Another topic, another size, no number, no protocol: that ends the benchmark instead of spoiling its figures."""
    with pytest.raises(BenchError):
        cut(LAYOUT, bytearray(data), 0, len(data))


@pytest.mark.parametrize("length", [0, 125, 126, 65_535, 65_536])
def test_a_clients_websocket_frame(length: int) -> None:
    """Masked, with the shortest size that fits."""
    frame = websocket_frame(Opcode.BINARY, bytes(length))
    head = len(frame) - length
    assert frame[0] == 0x82
    assert frame[1] & 0x80, "a client masks"
    assert head == 6 + (0 if length < 126 else 2 if length < 65_536 else 8)


def test_a_websocket_ping_is_answered_with_its_body() -> None:
    """By a pong, which is masked."""
    ping = only(cut_websocket, websocket(b"abc", opcode=9))
    assert isinstance(ping, Control)
    head, mask, body = ping.answer[:2], ping.answer[2:6], ping.answer[6:]
    assert head == b"\x8a\x83"
    assert bytes(one ^ other for one, other in zip(body, mask, strict=False)) == b"abc"
