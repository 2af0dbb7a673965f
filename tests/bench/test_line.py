"""Messages of a benchmark, and how a stream from the hub is cut and accounted for."""

from __future__ import annotations

from collections.abc import Iterable

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.messages.batch import decode_values
from hub.messages.frame import FLAG_BATCH, KIND_MESSAGES, encode_frame, iterate_frames
from peers.bench.line import (
    STAMP,
    Control,
    Framing,
    Layout,
    Shape,
    Tally,
    Template,
    cut_tcp,
    cut_websocket,
)
from peers.bench.measurement import Histogram
from peers.bench.processes import BenchError
from peers.wire.control import Notice, encode_close, encode_notice
from peers.wire.hello import Hello, QueueWish
from peers.wire.kinds import Kind

PREFIX = "/bench/0000/"


def sent(template: Template, frames: int, first: int, time_ns: int) -> bytes:
    data = b""
    position = first
    while position < first + frames:
        piece = bytes(template.block(position, min(template.block_frames, first + frames - position), time_ns))
        position += sum(1 for _ in iterate_frames(piece))
        data += piece
    return data


@pytest.mark.parametrize("first", [0, 65_536 // 2 - 5])
@pytest.mark.parametrize(
    ("topics", "batch", "size"), [(1, 1, 100), (16, 1, 100), (3000, 1, 64), (1, 16, 100), (7, 5, 33), (2, 1, 70_000)]
)
def test_messages_are_numbered_through_and_go_to_topics_in_turn(topics: int, batch: int, size: int, first: int) -> None:
    layout = Layout(PREFIX, topics, size, batch)
    template = Template(layout, publisher=5)
    count = 2 * topics + template.block_frames + 3
    number = first * batch
    for index, frame in enumerate(iterate_frames(sent(template, count, first, 123_456_789_000)), first):
        assert frame.key.decode() == layout.topic(index % topics) == layout.topic(layout.topic_of(number))
        for value in decode_values(frame):
            assert STAMP.unpack_from(value) == (5, number, 123_456_789_000)
            number += 1
    assert number == (first + count) * batch


Item = tuple[int, int]
"""A publisher and a sequence number."""


def value(layout: Layout, publisher: int, sequence: int, time_ns: int = 0) -> bytes:
    return STAMP.pack(publisher, sequence, time_ns).ljust(layout.size_bytes, b"x")


def tcp(layout: Layout, items: Iterable[Item], time_ns: int = 0) -> bytes:
    frames = []
    for publisher, sequence in items:
        key = layout.topic(layout.topic_of(sequence)).encode()
        body = msgpack.packb(value(layout, publisher, sequence, time_ns))
        frames.append(encode_frame(KIND_MESSAGES, body, key=key))
    return b"".join(frames)


def tcp_batch(layout: Layout, items: list[Item]) -> bytes:
    key = layout.topic(layout.topic_of(items[0][1])).encode()
    body = len(items).to_bytes(4, "big") + b"".join(msgpack.packb(value(layout, *item)) for item in items)
    return encode_frame(KIND_MESSAGES, body, key=key, flags=FLAG_BATCH)


def websocket(body: bytes, opcode: int = 2) -> bytes:
    if len(body) < 126:
        size = bytes((len(body),))
    elif len(body) < 65_536:
        size = b"\x7e" + len(body).to_bytes(2, "big")
    else:
        size = b"\x7f" + len(body).to_bytes(8, "big")
    return bytes((0x80 | opcode,)) + size + body


def websocket_messages(layout: Layout, items: list[Item]) -> bytes:
    topic = layout.topic(layout.topic_of(items[0][1]))
    values = [value(layout, *item) for item in items]
    return websocket(msgpack.packb({"type": "messages", "topic": topic, "values": values}))


LAYOUT = Layout("/bench/0000/", 10, 40, 1)


def only(cut: Framing, data: bytes, layout: Layout = LAYOUT) -> Shape | Control:
    """The frame that `data` is, whole, with a beginning of another one behind it."""
    buffer = bytearray(data + data[:1])
    frame = cut(layout, buffer, 0, len(buffer))
    assert frame is not None
    assert frame.size == len(data)
    assert cut(layout, buffer, 0, len(data) - 1) is None, "a frame that is not whole"
    return frame


@pytest.mark.parametrize("count", [3, 15, 16, 2000, 65_536])
def test_a_websocket_frame_with_values(count: int) -> None:
    data = websocket_messages(LAYOUT, [(0, 20 + number) for number in range(count)])
    shape = only(cut_websocket, data)
    assert isinstance(shape, Shape)
    assert (shape.values, shape.topic, len(data) - shape.first_value) == (count, 0, count * LAYOUT.value_bytes)


HELLO = Hello(protocol=1, role="hub", id=bytes(16), queue=QueueWish(100, 200))
WELCOME = {"type": "welcome", "hub": "00", "queue": {"messages": 100, "bytes": 200}}
ERROR = {"type": "error", "code": 1008, "text": "no"}


@pytest.mark.parametrize(
    ("cut", "data", "fields"),
    [
        (cut_tcp, HELLO.encode(), {"word": "greeting", "queue": QueueWish(100, 200)}),
        (cut_tcp, encode_notice(Notice("confirmed", request=5)), {"word": "confirmed", "request": 5}),
        (cut_tcp, encode_notice(Notice("dropped", count=6)), {"word": "dropped", "lost": 6}),
        (cut_tcp, encode_notice(Notice("error", code=1008, text="no")), {"word": "error", "code": 1008, "text": "no"}),
        (cut_tcp, encode_frame(Kind.PING, b"abc"), {"word": "ping", "answer": encode_frame(Kind.PONG, b"abc")}),
        (cut_tcp, encode_close(4008, "queue full"), {"word": "close", "code": 4008, "text": "queue full"}),
        (cut_tcp, encode_frame(0x85, b"later"), {"word": "other"}),
        (cut_websocket, websocket(msgpack.packb(WELCOME)), {"word": "greeting", "queue": QueueWish(100, 200)}),
        (cut_websocket, websocket(msgpack.packb({"type": "confirmed", "request": 5})), {"request": 5}),
        (cut_websocket, websocket(msgpack.packb({"type": "dropped", "count": 6})), {"word": "dropped", "lost": 6}),
        (cut_websocket, websocket(msgpack.packb(ERROR)), {"word": "error", "text": "no"}),
        (cut_websocket, websocket(b"abc", opcode=9), {"word": "ping"}),
        (cut_websocket, websocket(b"\x0f\xa8queue full", opcode=8), {"code": 4008, "text": "queue full"}),
        (cut_websocket, websocket(b"", opcode=0xA), {"word": "other"}),
    ],
)
def test_controls(cut: Framing, data: bytes, fields: dict[str, object]) -> None:
    control = only(cut, data)
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
    with pytest.raises(BenchError):
        cut(LAYOUT, bytearray(data), 0, len(data))


TALLIED = Layout("/bench/0000/", 3, 20, 1)
ONE_TOPIC = Layout("/bench/0000/", 1, 20, 1)


def tally_of(layout: Layout = TALLIED, publishers: int = 2) -> tuple[Tally, list[Control]]:
    controls: list[Control] = []
    return Tally(layout, publishers, cut_tcp, controls.append), controls


def feed(tally: Tally, data: bytes, cuts: list[int] | None = None, now_ns: int = 0) -> None:
    held = b""
    position = 0
    for cut in sorted({min(cut, len(data)) for cut in cuts or []} | {len(data)}):
        buffer = bytearray(held + data[position:cut])
        rest = tally.feed(buffer, len(buffer), now_ns)
        held = bytes(buffer[rest:])
        position = cut
    assert not held


@st.composite
def journeys(draw: st.DrawFn) -> tuple[list[int], list[Item]]:
    """What two publishers sent, and in which order what of it arrived: some lost, each publisher's in order."""
    sent = [draw(st.integers(0, 60)), draw(st.integers(0, 60))]
    arriving = []
    for publisher, count in enumerate(sent):
        kept = draw(st.sets(st.integers(0, max(0, count - 1)), max_size=10)) if count else set()
        arriving.append([(publisher, number) for number in range(count) if number not in kept])
    mixed: list[Item] = []
    while any(arriving):
        queue = arriving[draw(st.integers(0, 1))]
        take = draw(st.integers(1, 20))
        mixed += queue[:take]
        del queue[:take]
    return sent, mixed


@given(journeys(), st.lists(st.integers(0, 8000)))
def test_received_and_lost_add_up(journey: tuple[list[int], list[Item]], cuts: list[int]) -> None:
    sent, arriving = journey
    tally, _ = tally_of()
    feed(tally, tcp(TALLIED, arriving), cuts)
    counted = tally.take(sent)
    assert counted.received == len(arriving)
    assert counted.lost == sum(sent) - len(arriving)
    assert counted.out_of_order == counted.misrouted == 0


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=20), st.sets(st.integers(0, 19)), st.lists(st.integers(0, 9000))
)
def test_batches_of_any_size(sizes: list[int], lost: set[int], cuts: list[int]) -> None:
    tally, _ = tally_of(ONE_TOPIC, publishers=1)
    data, start, received = b"", 0, 0
    for index, size in enumerate(sizes):
        if index not in lost:
            data += tcp_batch(ONE_TOPIC, [(0, start + number) for number in range(size)])
            received += size
        start += size
    feed(tally, data, cuts)
    counted = tally.take([start])
    assert (counted.received, counted.lost, counted.out_of_order) == (received, start - received, 0)


def test_a_message_twice_or_too_late_is_out_of_order() -> None:
    tally, _ = tally_of(publishers=1)
    feed(tally, tcp(TALLIED, [(0, 0), (0, 2), (0, 1), (0, 2), (0, 3)]))
    counted = tally.take([4])
    assert (counted.received, counted.lost, counted.out_of_order) == (5, 1, 2)


def test_another_topic_is_misrouted() -> None:
    tally, _ = tally_of(publishers=1)
    data = tcp(TALLIED, [(0, 1)]).replace(TALLIED.topic(1).encode(), TALLIED.topic(2).encode())
    feed(tally, data)
    assert tally.take([2]).misrouted == 1


def test_what_the_hub_tells() -> None:
    tally, controls = tally_of(publishers=1)
    told = encode_notice(Notice("dropped", count=2)) + encode_notice(Notice("dropped", count=3))
    feed(tally, tcp(TALLIED, [(0, 0)]) + told + tcp(TALLIED, [(0, 6)]) + encode_close(1001, "bye"))
    counted = tally.take([7])
    assert (counted.received, counted.lost, counted.told) == (2, 5, 5)
    assert [(control.word, control.code) for control in controls] == [("close", 1001)]


def test_an_account_begins_anew_after_it_was_taken() -> None:
    tally, _ = tally_of(publishers=1)
    feed(tally, tcp(TALLIED, [(0, 0)]))
    assert tally.take([3]).lost == 2
    feed(tally, tcp(TALLIED, [(0, 3)]))
    counted = tally.take([4])
    assert (counted.received, counted.lost) == (1, 0)


def test_latencies_are_measured_from_the_intended_time() -> None:
    tally, _ = tally_of(publishers=1)
    tally.latency = Histogram()
    feed(tally, tcp(TALLIED, [(0, 0), (0, 1)], time_ns=2000) + tcp(TALLIED, [(0, 2)]), now_ns=5000)
    assert tally.latency.total == 2
    assert tally.latency.largest == 3000
